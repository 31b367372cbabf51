"""A run folder from elsewhere runs no code: what its config names by a dotted path is imported only if one says so."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from logit_correction import InputError, load
from logit_correction.cli import main

Foreign = Callable[..., Path]


@pytest.fixture
def owned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that the module ``foreign_module`` leaves when it is imported."""
    (tmp_path / "foreign_module.py").write_text(
        f"from pathlib import Path\nfrom logit_correction.methods.erm import ERM\n"
        f"Path({str(tmp_path / 'owned')!r}).touch()\nclass Theirs(ERM):\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "owned"
    sys.modules.pop("foreign_module", None)


@pytest.fixture
def foreign(digits_run: Path, tmp_path: Path) -> Foreign:
    """A copy of a finished run whose config was changed by hand."""

    def copy(change: dict[str, Any]) -> Path:
        folder = shutil.copytree(digits_run, tmp_path / "foreign")
        config = yaml.safe_load((folder / "config.yaml").read_text())
        (folder / "config.yaml").write_text(yaml.safe_dump(config | change))
        return folder

    return copy


THEIRS = "foreign_module.Theirs"
CHANGES: dict[str, dict[str, Any]] = {
    "data source": {"data": THEIRS},
    "method": {"method": THEIRS},
    "network": {"network": THEIRS},
    "network as encoder": {"encoder": THEIRS},
    "estimator": {"method": {"name": "LC", "attributes": {"name": "Clusters", "attributes": THEIRS}}},
    "mixing": {"method": {"name": "LC", "attributes": "Online", "mixing": THEIRS}},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_code_of_a_foreign_run_is_not_imported(
    change: dict[str, Any], foreign: Foreign, owned: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = foreign(change)
    for words in (("evaluate", run), ("predict", run, __file__)):
        assert main([str(word) for word in words]) == 2
        shown = capfd.readouterr().err
        assert shown.count("\n") == 1 and THEIRS in shown and "config.yaml" in shown and "--trust-code" in shown
    with pytest.raises(InputError, match="trust_code=True"):
        load(run)
    assert not owned.exists()


def test_weights_of_another_method_do_not_fit_a_trusted_run(foreign: Foreign, owned: Path) -> None:
    with pytest.raises(InputError, match="does not fit the run's config"):
        load(foreign({"method": THEIRS, "network": "MLP"}), trust_code=True)
    assert owned.exists()
