"""The package stands without the laboratory, and says how to install it where it is asked for."""

from __future__ import annotations

import subprocess
import sys

#: Two commands where no package offers sources or commands.
WITHOUT = """
import importlib.metadata
importlib.metadata.entry_points = lambda **_: ()
from logit_correction.cli import main
from logit_correction.data import SOURCES
assert set(SOURCES) == {"ImageFolder", "Table", "Digits", "Arrays"}
assert main(["benchmark", "list"]) == 2 and main(["preview", "--data", "Planted"]) == 2
"""


def test_parts_of_the_laboratory_name_the_package_to_install() -> None:
    process = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    benchmark, planted = process.stderr.splitlines()
    assert "`benchmark` is a command of the laboratory: install it by `pip install" in benchmark and "lab`" in benchmark
    assert "--data Planted is not a folder, file or data source" in planted and "laboratory: `pip install" in planted
