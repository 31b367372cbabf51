from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from logit_correction.types import ViewInputs
from logit_correction.views.files import FileFacts

SIZE, WIDTH, HEIGHT, ASPECT = range(4)
JPEG = 4
PNG = 5
FIRST_TABLE = 11
EXIF_COUNT = 15
MAKE = slice(16, 24)
HOUR = slice(40, 43)
EXTENSION = slice(43, 51)
LENGTH = 51
FOLDER = slice(52, 68)
ORDER = slice(68, 75)


def facts(files: list[Path], position: list[int] | None = None) -> Tensor:
    where = None if position is None else np.array(position, dtype=np.int64)
    inputs = ViewInputs(len(files), lambda rows: torch.zeros(len(rows), 1), files=files, position=where)
    (view,) = FileFacts.list_views(inputs)
    found = view.features(inputs)
    assert found.shape == (len(files), 75) and found.isfinite().all()
    return found


def image(path: Path, size: tuple[int, int] = (40, 20), **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, **options)  # type: ignore[arg-type]
    return path


def exif(make: str, time: str) -> Image.Exif:
    entries = Image.Exif()
    entries[271] = make
    entries[306] = time
    return entries


def test_size_shape_and_format(tmp_path: Path) -> None:
    jpeg = image(tmp_path / "a.jpg")
    png = image(tmp_path / "b.png")
    found = facts([jpeg, png])
    assert found[0, SIZE].expm1().round() == jpeg.stat().st_size
    torch.testing.assert_close(found[:, WIDTH : ASPECT + 1].exp(), torch.tensor([[40.0, 20.0, 2.0]]).expand(2, 3))
    assert found[:, JPEG].tolist() == [1, 0] and found[:, PNG].tolist() == [0, 1]


def test_camera_and_hour(tmp_path: Path) -> None:
    files = [
        image(tmp_path / "a.jpg", exif=exif("Leica", "2024:01:02 06:30:00")),
        image(tmp_path / "b.jpg", exif=exif("Leica", "2024:01:02 18:00:00")),
        image(tmp_path / "c.jpg", exif=exif("Canon", "no date")),
        image(tmp_path / "d.png", exif=exif("Leica", "2020:01:02 06:59:00")),
        image(tmp_path / "e.png"),
    ]
    found = facts(files)
    torch.testing.assert_close(
        found[:, HOUR], torch.tensor([[1.0, 0, 1], [-1, 0, 1], [0, 0, 0], [1, 0, 1], [0, 0, 0]]), atol=1e-6, rtol=0
    )
    assert torch.equal(found[0, MAKE], found[1, MAKE]) and torch.equal(found[0, MAKE], found[3, MAKE])
    assert not torch.equal(found[0, MAKE], found[2, MAKE])
    assert (found[:4, EXIF_COUNT] > 0).all() and found[4, EXIF_COUNT] == 0


def test_unreadable_files_are_zero_inside(tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 not an image")
    cut = image(tmp_path / "cut.png")
    cut.write_bytes(cut.read_bytes()[:20])
    found = facts([tmp_path / "broken.jpg", tmp_path / "missing.jpg", cut])
    assert (found[:, : EXTENSION.start] == 0).all()
    assert (found[:, LENGTH] > 0).all()


def test_order_is_scaled_and_waves_have_period_one(tmp_path: Path) -> None:
    file = image(tmp_path / "a.png")
    found = facts([file] * 3, position=[0, 50, 200])[:, ORDER]
    torch.testing.assert_close(found[:, 0], torch.tensor([0, 0.25, 1]))
    torch.testing.assert_close(found[1], torch.tensor([0.25, 1, 0, 0, 0, -1, 1]), atol=1e-6, rtol=0)
    assert (facts([file])[:, ORDER] == 0).all()
