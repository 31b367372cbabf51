"""Damaged files are read as before, or an ``InputError`` names them."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from logit_correction import (
    ComponentConfig,
    InputError,
    Predictions,
    RunConfig,
    TrainingConfig,
    audit,
    load,
    train,
)
from logit_correction.data.table_files import read_frame
from logit_correction.evaluation.report import Report
from logit_correction.pages.compare import RunFolder
from logit_correction.runs.options import complete_config
from logit_correction.shortcuts.audit import Audit

ROWS = pd.DataFrame({"label": ["a", "b"] * 40, "x": np.arange(80) / 7, "y": np.arange(80) % 2})


@pytest.fixture(scope="module")
def intact_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, an audit and a table."""
    folder = tmp_path_factory.mktemp("made")
    ROWS.to_csv(folder / "rows.csv", index=False)
    ROWS.to_parquet(folder / "rows.parquet")
    data = ComponentConfig("Table", {"file": str(folder / "rows.csv"), "label": "label", "features": ["x", "y"]})
    config = RunConfig(data, ComponentConfig("ERM"), training=TrainingConfig(epochs=1, threads=1))
    train(config, folder / "run", page=False)
    audit(data, folder / "audit", try_fix=False, epochs=1, threads=1)
    return folder


#: File -> how it is read.
KINDS: dict[str, Callable[[Path], Any]] = {
    "run/config.yaml": lambda folder: complete_config(RunConfig.read(folder / "run" / "config.yaml")),
    "run/report.json": lambda folder: Report.read(folder / "run"),
    "run/metrics.csv": lambda folder: RunFolder.read(folder / "run"),
    "run/predictions.parquet": lambda folder: Predictions.load(folder / "run" / "predictions.parquet"),
    "run/checkpoint.pt": lambda folder: load(folder / "run").predict(ROWS),
    "audit/audit.json": lambda folder: Audit(folder / "audit").verdict,
    "audit/rows.parquet": lambda folder: Audit(folder / "audit").rows,
    "rows.csv": lambda folder: read_frame(folder / "rows.csv"),
    "rows.parquet": lambda folder: read_frame(folder / "rows.parquet"),
}

#: Files with checksums, which show one changed bit.
CHECKSUMMED = (
    "run/report.json",
    "run/metrics.csv",
    "run/predictions.parquet",
    "audit/audit.json",
    "audit/rows.parquet",
)


class FileMakerOnUnpickle:
    """Makes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.target), "w"))


def write_to_bytes(write: Callable[[BytesIO], object]) -> bytes:
    stream = BytesIO()
    write(stream)
    return stream.getvalue()


def list_contents(code_marker: Path) -> dict[str, bytes]:
    """Files of other kinds, some made in bad faith; what they would run makes a file."""
    bad = FileMakerOnUnpickle(code_marker)
    laughs = "a0: &a0 [x, x]\n"
    laughs += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../escaped", b"a")
        archive.writestr("inputs.npy", bytes(2**26))
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 9)}\n"
    return {
        "nothing": b"",
        "text": "Größe;<script>alert(1)</script>\n".encode("latin-1"),
        "null": b"null",
        "nested": b"[" * 100_000,
        "deep": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        "objects of YAML": f"a: !!python/object/apply:open ['{code_marker}', w]\n".encode(),
        "bomb of YAML": f"{laughs}data: *a29\nepochs: *a29\n".encode(),
        "pickle": pickle.dumps(bad),
        "pickle of torch": write_to_bytes(lambda file: torch.save({"a": bad}, file)),
        "pickled array": write_to_bytes(lambda file: np.save(file, np.array([bad], object), allow_pickle=True)),
        "huge array": b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head,
        "archive": packed.getvalue(),
        "table": write_to_bytes(pd.DataFrame({"a": [1, 2]}).to_parquet),
    }


@pytest.mark.parametrize("name", KINDS)
def test_damaged_file_is_read_as_before_or_refused(
    name: str, intact_folder: Path, tmp_path: Path, times: Callable[[int, int], int]
) -> None:
    folder = shutil.copytree(intact_folder, tmp_path / "made")
    code_marker = tmp_path / "ran"
    file = folder / name
    draw = random.Random(name)
    intact = file.read_bytes()
    refused = 0

    def is_read(damage: str) -> bool:
        try:
            KINDS[name](folder)
        except InputError as error:
            assert 0 < len(str(error)) < 5000, damage
            return False
        return True

    for damage, content in list_contents(code_marker).items():
        file.write_bytes(content)
        refused += not is_read(damage)
        assert not code_marker.exists() and not list(tmp_path.rglob("escaped")), damage
    for _ in range(times(6, 300)):
        damaged = bytearray(intact)
        if draw.random() < 0.3:
            del damaged[draw.randrange(len(damaged)) :]
        else:
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        file.write_bytes(bytes(damaged))
        assert not (is_read("damaged") and name in CHECKSUMMED)
    for lay in (file.mkdir, lambda: file.symlink_to("nowhere"), lambda: os.mkfifo(file)):
        file.unlink()
        lay()
        is_read("no file")
        if file.is_dir():
            file.rmdir()
            file.touch()
    file.unlink()
    file.write_bytes(intact)
    assert is_read("as it was") and (refused > 10 or name == "rows.csv")
