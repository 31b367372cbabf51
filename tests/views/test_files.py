from __future__ import annotations

from dataclasses import replace
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


def compute_file_facts(files: list[Path], position: list[int] | None = None) -> Tensor:
    where = None if position is None else np.array(position, dtype=np.int64)
    inputs = ViewInputs(len(files), lambda rows: torch.zeros(len(rows), 1), files=files, position=where)
    (view,) = FileFacts.list_views(inputs)
    features = view.features(inputs)
    assert features.shape == (len(files), 75) and features.isfinite().all()
    return features


def write_image(path: Path, size: tuple[int, int] = (40, 20), **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, **options)  # type: ignore[arg-type]
    return path


def build_exif(make: str, time: str) -> Image.Exif:
    entries = Image.Exif()
    entries[271] = make
    entries[306] = time
    return entries


def test_file_facts_hold_size_shape_and_format(tmp_path: Path) -> None:
    jpeg = write_image(tmp_path / "a.jpg")
    png = write_image(tmp_path / "b.png")
    features = compute_file_facts([jpeg, png])
    assert features[0, SIZE].expm1().round() == jpeg.stat().st_size
    torch.testing.assert_close(features[:, WIDTH : ASPECT + 1].exp(), torch.tensor([[40.0, 20.0, 2.0]]).expand(2, 3))
    assert features[:, JPEG].tolist() == [1, 0] and features[:, PNG].tolist() == [0, 1]


def test_file_facts_hold_camera_and_hour(tmp_path: Path) -> None:
    files = [
        write_image(tmp_path / "a.jpg", exif=build_exif("Leica", "2024:01:02 06:30:00")),
        write_image(tmp_path / "b.jpg", exif=build_exif("Leica", "2024:01:02 18:00:00")),
        write_image(tmp_path / "c.jpg", exif=build_exif("Canon", "no date")),
        write_image(tmp_path / "d.png", exif=build_exif("Leica", "2020:01:02 06:59:00")),
        write_image(tmp_path / "e.png"),
    ]
    features = compute_file_facts(files)
    torch.testing.assert_close(
        features[:, HOUR], torch.tensor([[1.0, 0, 1], [-1, 0, 1], [0, 0, 0], [1, 0, 1], [0, 0, 0]]), atol=1e-6, rtol=0
    )
    assert torch.equal(features[0, MAKE], features[1, MAKE]) and torch.equal(features[0, MAKE], features[3, MAKE])
    assert not torch.equal(features[0, MAKE], features[2, MAKE])
    assert (features[:4, EXIF_COUNT] > 0).all() and features[4, EXIF_COUNT] == 0


def test_file_facts_of_unreadable_files_are_zero_but_for_the_name(tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 not an write_image")
    cut = write_image(tmp_path / "cut.png")
    cut.write_bytes(cut.read_bytes()[:20])
    features = compute_file_facts([tmp_path / "broken.jpg", tmp_path / "missing.jpg", cut])
    assert (features[:, : EXTENSION.start] == 0).all()
    assert (features[:, LENGTH] > 0).all()


def test_position_is_scaled_and_its_waves_have_period_one(tmp_path: Path) -> None:
    file = write_image(tmp_path / "a.png")
    features = compute_file_facts([file] * 3, position=[0, 50, 200])[:, ORDER]
    torch.testing.assert_close(features[:, 0], torch.tensor([0, 0.25, 1]))
    torch.testing.assert_close(features[1], torch.tensor([0.25, 1, 0, 0, 0, -1, 1]), atol=1e-6, rtol=0)
    assert (compute_file_facts([file])[:, ORDER] == 0).all()


def test_folder_above_counts_only_where_it_cannot_be_the_label(tmp_path: Path) -> None:
    """Rows without a position come from a folder for each label, in which the images may lie deeper."""
    files = [write_image(tmp_path / label / "images" / "a.png") for label in ("cat", "dog")]
    in_table = compute_file_facts(files, position=[0, 1])[:, FOLDER]
    assert (in_table.sum(dim=1) == 1).all() and not torch.equal(in_table[0], in_table[1])
    assert (compute_file_facts(files)[:, FOLDER] == 0).all()


def test_position_of_other_rows_is_a_share_of_the_last_one_of_training(tmp_path: Path) -> None:
    """And rows without a position lie in the middle, not at the first one."""
    files = [tmp_path / f"{number}.png" for number in range(5)]
    inputs = ViewInputs(5, lambda rows: torch.zeros(len(rows), 1), files=files, position=np.array([0, 10, 20, 30, 40]))
    view = FileFacts()
    view.fit(inputs)
    features = view.features(inputs)[:, ORDER]
    part = torch.tensor([1, 3])
    torch.testing.assert_close(view.features(inputs.take(part))[:, ORDER], features[part])
    without = view.features(replace(inputs, position=None))[:, ORDER]
    torch.testing.assert_close(without, features.mean(dim=0).expand(5, -1))
