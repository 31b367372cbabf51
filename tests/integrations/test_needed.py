"""Packages of extras."""

from __future__ import annotations

import subprocess
import sys

import pytest

from logit_correction import InputError
from logit_correction.registry import needed

BY_THE_OTHER_NAME = """
import pytorch_lightning
from logit_correction.integrations.lightning import CorrectLogits, LightningMethod
assert issubclass(LightningMethod, pytorch_lightning.LightningModule)
assert issubclass(CorrectLogits, pytorch_lightning.Callback)
"""


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(InputError, match=r"metrics needs no_such_package: `pip install 'logit-correction\[extra\]'`"):
        needed("no_such_package", "metrics", "extra")


@pytest.mark.slow
def test_lightning_by_its_other_name() -> None:
    pytest.importorskip("pytorch_lightning")
    done = subprocess.run([sys.executable, "-c", BY_THE_OTHER_NAME], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
