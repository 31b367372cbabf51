"""Run folders of others run no code; wrong weights, endless files and paths outside the folder are refused."""

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

RunCopier = Callable[..., Path]


@pytest.fixture
def copy_foreign_run(digits_run: Path, tmp_path: Path) -> RunCopier:
    """A copy of a finished run whose config was changed by hand."""

    def copy(change: dict[str, Any]) -> Path:
        folder = shutil.copytree(digits_run, tmp_path / "foreign")
        config = yaml.safe_load((folder / "config.yaml").read_text())
        (folder / "config.yaml").write_text(yaml.safe_dump(config | change))
        return folder

    return copy


FOREIGN_CLASS = "foreign_module.TheirMethod"
CHANGES: dict[str, dict[str, Any]] = {
    "data source": {"data": FOREIGN_CLASS},
    "method": {"method": FOREIGN_CLASS},
    "network": {"network": FOREIGN_CLASS},
    "network as encoder": {"encoder": FOREIGN_CLASS},
    "estimator": {"method": {"name": "LC", "attributes": {"name": "Clusters", "attributes": FOREIGN_CLASS}}},
    "mixing": {"method": {"name": "LC", "attributes": "Online", "mixing": FOREIGN_CLASS}},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_code_named_in_a_foreign_run_is_not_imported(
    change: dict[str, Any], copy_foreign_run: RunCopier, foreign_import_marker: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = copy_foreign_run(change)
    for words in (("evaluate", run), ("predict", run, __file__)):
        assert main([str(word) for word in words]) == 2
        error_message = capfd.readouterr().err
        assert (
            error_message.count("\n") == 1
            and FOREIGN_CLASS in error_message
            and "config.yaml" in error_message
            and "--trust-code" in error_message
        )
    with pytest.raises(InputError, match="trust_code=True"):
        load(run)
    assert not foreign_import_marker.exists()


def test_weights_of_another_method_do_not_fit_a_trusted_run(
    copy_foreign_run: RunCopier, foreign_import_marker: Path
) -> None:
    with pytest.raises(InputError, match="does not fit the run's config"):
        load(copy_foreign_run({"method": FOREIGN_CLASS, "network": "MLP"}), trust_code=True)
    assert foreign_import_marker.exists()


@pytest.fixture
def run(digits_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(digits_run, tmp_path / "run"))


DAMAGES: dict[str, Callable[[Tensor], Tensor]] = {
    "NaN": lambda weight: weight.index_fill(0, torch.tensor([0]), torch.nan),
    "infinity": lambda weight: weight.index_fill(0, torch.tensor([0]), torch.inf),
}


DAMAGES |= {
    "whole numbers": lambda weight: weight.mul(100).to(torch.int64),
    "complex numbers": lambda weight: weight.to(torch.complex64),
    "too large": lambda weight: weight.mul(2e38),
}


@pytest.mark.parametrize("spoil", DAMAGES.values(), ids=DAMAGES.keys())
def test_weights_that_are_not_finite_floats_are_refused(spoil: Callable[[Tensor], Tensor], run: Path) -> None:
    content = read_checkpoint(run / "checkpoint.pt")
    state = content["algorithm"]
    name = next(name for name in state if name.startswith("network.") and name.endswith("weight"))
    write_checkpoint(run / "checkpoint.pt", algorithm={**state, name: spoil(state[name])})
    with pytest.raises(InputError, match=r"checkpoint\.pt"):
        load(run).predict_proba(torch.rand(3, 3, 8, 8))


def test_foreign_run_downloads_nothing_and_creates_no_folders(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads: list[Any] = []
    monkeypatch.setattr("torchvision.datasets.mnist.download_and_extract_archive", lambda *a, **k: downloads.append(a))
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["data"] = {"name": "ColoredMNIST", "root": str(tmp_path / "made" / "here")}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(InputError, match="MNIST"):
        load(run).evaluate("test")
    assert not downloads and not (tmp_path / "made").exists()


@pytest.mark.parametrize("lay", [os.mkfifo, lambda place: place.symlink_to("/dev/zero")], ids=["queue", "device"])
def test_endless_checksum_file_is_refused(lay: Callable[[Path], None], run: Path) -> None:
    (run / CHECKSUMS_FILE).unlink()
    lay(run / CHECKSUMS_FILE)
    with pytest.raises(InputError, match=r"\.checksums cannot be read"):
        load(run)


def test_yaml_aliases_that_expand_without_bound_are_refused(run: Path, tmp_path: Path) -> None:
    lines = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
    config = (run / "config.yaml").read_text()
    for more in (f"{lines}training: {{epochs: *a11}}\n", "further: &m {name: ERM, of: *m}\n", "x" * 2**20 + ": 1"):
        (run / "config.yaml").write_text(f"{more}\n{config}")
        with pytest.raises(InputError, match=r"too large, or its aliases"):
            load(run)
    short = tmp_path / "short.yaml"
    short.write_text("usual: &usual {epochs: 3}\none: {<<: *usual, seed: 1}\ntwo: [*usual, *usual]\n")
    assert read_yaml_file(short)["one"] == {"epochs": 3, "seed": 1}
