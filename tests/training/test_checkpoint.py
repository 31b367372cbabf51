"""Checkpoints: what goes in comes out, and nothing else is read."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import pytest
import torch

from logit_correction.errors import InputError
from logit_correction.training import checkpoint
from logit_correction.training.checkpoint import Progress
from logit_correction.training.rules import Selected
from logit_correction.types import Stage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A checkpoint of a run in its second stage."""
    plan = Stage(epochs=3, sample_weight=torch.tensor([1, 0, 2]), learning_rate=0.1)
    best = {"valid_average": Selected(0.5, 2, {"weight": torch.ones(2), "extra": {"count": 4}}, torch.tensor([0, 1]))}
    progress = Progress(1, 2, 3, 40, plan, best, 1.5, ["be careful"])
    checkpoint.write(
        tmp_path / "resume.pt", progress=progress.to_plain(), algorithm={"weight": torch.full((32, 32), 0.1)}
    )
    return tmp_path / "resume.pt"


def test_what_is_saved_is_loaded(path: Path) -> None:
    content = checkpoint.read(path)
    loaded = Progress.from_plain(content["progress"])
    assert (loaded.stage, loaded.epoch, loaded.step, loaded.total_steps) == (1, 2, 3, 40)
    assert loaded.seconds == 1.5 and loaded.warnings == ["be careful"]
    assert isinstance(loaded.plan, Stage) and loaded.plan.sample_weight.tolist() == [1, 0, 2]
    best = loaded.best["valid_average"]
    assert isinstance(best, Selected) and best.state["extra"] == {"count": 4} and best.prediction.tolist() == [0, 1]
    assert torch.equal(content["algorithm"]["weight"], torch.full((32, 32), 0.1))


def test_a_missing_or_cut_file_is_named(path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.pt is missing"):
        checkpoint.read(path.with_name("none.pt"))
    for size in (-100, 10, 0):
        path.write_bytes(path.read_bytes()[:size])
        with pytest.raises(InputError, match=r"resume\.pt is damaged"):
            checkpoint.read(path)


@pytest.mark.parametrize("offset", [0, 2042])
def test_one_flipped_bit_of_a_weight_is_seen(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(torch.full((32,), 0.1).numpy().tobytes()) + offset] ^= 0x40
    path.write_bytes(content)
    torch.load(path, weights_only=True)  # which sees nothing
    with pytest.raises(InputError, match=r"resume\.pt is damaged \(the checksum of .*data/.* is wrong\)"):
        checkpoint.read(path)


class Mischief:
    """Would write a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_code_in_a_file_is_not_run(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    torch.save({"format": checkpoint.FORMAT, "algorithm": Mischief(target)}, path)
    with pytest.raises(InputError, match="damaged"):
        checkpoint.read(path)
    assert not target.exists()
    pickle.loads(pickle.dumps(Mischief(target)))
    assert target.exists()  # it would have worked


def test_packed_tensors_are_refused_before_they_take_memory(path: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.pt"
    with zipfile.ZipFile(path) as there, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in there.infolist():
            new.writestr(entry.filename, there.read(entry))
    torch.load(packed, weights_only=True)  # which unpacks whatever it is
    with pytest.raises(InputError, match=r"packed\.pt is damaged \(.* is packed\)"):
        checkpoint.read(packed)
