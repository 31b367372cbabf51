"""Checkpoints: what was changed since is not read, and no code is run."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch

from logit_correction.errors import InputError
from logit_correction.training.record import read_checkpoint, write_checkpoint


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A checkpoint of one weight."""
    write_checkpoint(tmp_path / "resume.pt", progress={}, algorithm={"weight": torch.full((32, 32), 0.1)})
    return tmp_path / "resume.pt"


@pytest.mark.parametrize("offset", [0, 2042])
def test_flipped_bit_of_a_weight_is_detected(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(torch.full((32,), 0.1).numpy().tobytes()) + offset] ^= 0x40
    path.write_bytes(content)
    torch.load(path, weights_only=True)  # which sees nothing
    with pytest.raises(InputError, match=r"resume\.pt is damaged \(the checksum of .*data/.* is wrong\)"):
        read_checkpoint(path)


def test_compressed_tensors_are_refused_before_unpacking(path: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.pt"
    with zipfile.ZipFile(path) as original, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in original.infolist():
            new.writestr(entry.filename, original.read(entry))
    torch.load(packed, weights_only=True)  # which decompresses it
    with pytest.raises(InputError, match=r"packed\.pt is damaged \(.* is packed\)"):
        read_checkpoint(packed)
