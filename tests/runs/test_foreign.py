"""Run folders of others run no code; weights that are none, files that never end, and what is outside are refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from logit_correction import InputError, load
from logit_correction.checksums import CHECKSUMS_FILE
from logit_correction.cli import main
from logit_correction.training.record import read_checkpoint, write_checkpoint
from logit_correction.yaml_files import read_yaml_file

Foreign = Callable[..., Path]


@pytest.fixture
def foreign(digits_run: Path, tmp_path: Path) -> Foreign:
    """A copy of a finished run whose config was changed by hand."""

    def copy(change: dict[str, Any]) -> Path:
        folder = shutil.copytree(digits_run, tmp_path / "foreign")
        config = yaml.safe_load((folder / "config.yaml").read_text())
        (folder / "config.yaml").write_text(yaml.safe_dump(config | change))
        return folder

    return copy


THEIRS = "foreign_module.TheirMethod"
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
    change: dict[str, Any], foreign: Foreign, foreign_import_marker: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = foreign(change)
    for words in (("evaluate", run), ("predict", run, __file__)):
        assert main([str(word) for word in words]) == 2
        shown = capfd.readouterr().err
        assert shown.count("\n") == 1 and THEIRS in shown and "config.yaml" in shown and "--trust-code" in shown
    with pytest.raises(InputError, match="trust_code=True"):
        load(run)
    assert not foreign_import_marker.exists()


def test_weights_of_another_method_do_not_fit_a_trusted_run(foreign: Foreign, foreign_import_marker: Path) -> None:
    with pytest.raises(InputError, match="does not fit the run's config"):
        load(foreign({"method": THEIRS, "network": "MLP"}), trust_code=True)
    assert foreign_import_marker.exists()


@pytest.fixture
def run(digits_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(digits_run, tmp_path / "run"))


SPOIL: dict[str, Callable[[Tensor], Tensor]] = {
    "NaN": lambda weight: weight.index_fill(0, torch.tensor([0]), torch.nan),
    "infinity": lambda weight: weight.index_fill(0, torch.tensor([0]), torch.inf),
}


SPOIL |= {
    "whole numbers": lambda weight: weight.mul(100).to(torch.int64),
    "complex numbers": lambda weight: weight.to(torch.complex64),
    "too large": lambda weight: weight.mul(2e38),
}


@pytest.mark.parametrize("spoil", SPOIL.values(), ids=SPOIL.keys())
def test_weights_that_are_no_finite_floats_are_refused(spoil: Callable[[Tensor], Tensor], run: Path) -> None:
    content = read_checkpoint(run / "checkpoint.pt")
    state = content["algorithm"]
    name = next(name for name in state if name.startswith("network.") and name.endswith("weight"))
    write_checkpoint(run / "checkpoint.pt", algorithm={**state, name: spoil(state[name])})
    with pytest.raises(InputError, match=r"checkpoint\.pt"):
        load(run).predict_proba(torch.rand(3, 3, 8, 8))


def test_a_strange_run_downloads_nothing_and_makes_no_folders(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("torchvision.datasets.mnist.download_and_extract_archive", lambda *a, **k: asked.append(a))
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["data"] = {"name": "ColoredMNIST", "root": str(tmp_path / "made" / "here")}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(InputError, match="MNIST"):
        load(run).evaluate("test")
    assert not asked and not (tmp_path / "made").exists()


@pytest.mark.parametrize("lay", [os.mkfifo, lambda place: place.symlink_to("/dev/zero")], ids=["queue", "device"])
def test_checksums_that_never_end_are_refused(lay: Callable[[Path], None], run: Path) -> None:
    (run / CHECKSUMS_FILE).unlink()
    lay(run / CHECKSUMS_FILE)
    with pytest.raises(InputError, match=r"\.checksums cannot be read"):
        load(run)


def test_aliases_that_expand_without_bound_are_refused(run: Path, tmp_path: Path) -> None:
    lines = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
    config = (run / "config.yaml").read_text()
    for more in (f"{lines}training: {{epochs: *a11}}\n", "method: &m {name: ERM, of: *m}\n", "x" * 2**20 + ": 1"):
        (run / "config.yaml").write_text(f"{more}\n{config}")
        with pytest.raises(InputError, match=r"too large, or its aliases"):
            load(run)
    short = tmp_path / "short.yaml"
    short.write_text("usual: &usual {epochs: 3}\none: {<<: *usual, seed: 1}\ntwo: [*usual, *usual]\n")
    assert read_yaml_file(short)["one"] == {"epochs": 3, "seed": 1}
