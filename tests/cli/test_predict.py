"""``predict``: new files, folders and CSVs."""

from __future__ import annotations

import csv
import io
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from logit_correction import load
from logit_correction.bench.digits import Digits

ROWS = 24


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """Some images of the test split, (n, 3, 8, 8) uint8."""
    table = Digits(minority_ratio=0.05).build()
    found = table.inputs.images(table.split["test"][::167][:ROWS])
    assert found is not None
    return found.numpy()


@pytest.fixture
def folder(images: np.ndarray, tmp_path: Path) -> Path:
    """A folder with them as PNG files, some of them deeper."""
    root = tmp_path / "images"
    (root / "deep").mkdir(parents=True)
    for i, image in enumerate(images):
        image = Image.fromarray(image.transpose(1, 2, 0))
        image.save(root / ("deep" if i % 3 == 0 else "") / f"{i:02}.png")
    (root / "notes.txt").write_text("no image")
    return root


def paths_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.png"), key=lambda path: path.name)


def table(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), dtype={"label": str})


def test_files_are_predicted_as_the_model_does(
    command: Any, finished: dict[str, Path], folder: Path, images: np.ndarray
) -> None:
    outcome = command("predict", finished["LC"], *paths_of(folder))
    assert (outcome.status, outcome.err) == (0, "")
    shown = table(outcome.out)
    assert list(shown.columns) == ["path", "label", *(f"probability_{digit}" for digit in range(10))]
    assert shown["path"].tolist() == [str(path) for path in paths_of(folder)]
    model = load(finished["LC"])
    expected = model.predict_proba(images)
    np.testing.assert_allclose(shown.iloc[:, 2:].to_numpy(), expected, atol=1e-5)
    assert shown["label"].tolist() == model.predict(images).tolist()


def test_images_are_predicted_as_they_were_in_the_test(command: Any, finished: dict[str, Path], folder: Path) -> None:
    rows = pd.read_parquet(finished["LC"] / "predictions.parquet")
    expected = rows["prediction"].to_numpy()[::167][:ROWS]
    shown = table(command("predict", finished["LC"], *paths_of(folder)).out)
    agreement = np.mean(shown["label"].astype(int).to_numpy() == expected)
    assert agreement >= 0.9  # a file has 8 bits a channel, the test's colours have more


def test_folder_is_searched_for_images(command: Any, finished: dict[str, Path], folder: Path) -> None:
    shown = table(command("predict", finished["ERM"], folder).out)
    assert shown["path"].tolist() == [str(path) for path in sorted(folder.rglob("*.png"))]
    assert np.allclose(shown.iloc[:, 2:].sum(axis=1), 1, atol=1e-4)


def test_a_folder_need_not_fit_into_memory(
    command: Any, finished: dict[str, Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, held = command("predict", finished["LC"], folder).out, []
    read = Digits.read_new

    def counted(self: Digits, paths: list[Path]) -> Any:
        assert sum(kept() is not None for kept in held) <= 1  # what was answered is let go
        store = read(self, paths)
        held.append(weakref.ref(store))
        assert len(store) <= 5
        return store

    monkeypatch.setattr("logit_correction.runs.new_rows.CHUNK", 5)
    monkeypatch.setattr(Digits, "read_new", counted)
    assert command("predict", finished["LC"], folder).out == whole
    assert len(held) == -(-ROWS // 5)


@pytest.mark.parametrize("column", ["path", "file", "filename", "file_name", "image", "image_id"])
def test_csv_names_files_beside_it(column: str, command: Any, finished: dict[str, Path], folder: Path) -> None:
    names = ["deep/00.png", "02.png", "01.png"]
    listing = folder / "list.csv"
    with listing.open("w", newline="", encoding="utf-8-sig") as file:  # as a spreadsheet saves it
        csv.writer(file).writerows([["note", column], *(["a, b", name] for name in names)])
    shown = table(command("predict", finished["ERM"], listing).out)
    assert shown["path"].tolist() == [str(folder / name) for name in names]
    single = table(command("predict", finished["ERM"], folder / "02.png").out)
    assert shown.loc[1, "label"] == single.loc[0, "label"]
    np.testing.assert_allclose(shown.iloc[1, 2:].astype(float), single.iloc[0, 2:].astype(float), rtol=1e-4)


def test_out_is_written_at_once_or_not_at_all(
    command: Any, finished: dict[str, Path], folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "answers.csv"
    outcome = command("predict", finished["ERM"], folder, "--out", out)
    assert (outcome.status, outcome.out) == (0, f"{out}\n")
    assert out.read_text() == command("predict", finished["ERM"], folder).out
    before = out.read_bytes()
    (folder / "99.png").write_bytes(b"\x89PNG\r\n\x1a\n damaged")
    assert "99.png" in command("predict", finished["ERM"], folder, "--out", out).error()
    assert out.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.csv", "images"]


def test_what_is_written_takes_the_place_of_no_input(
    command: Any, finished: dict[str, Path], folder: Path, tmp_path: Path
) -> None:
    listing = folder / "list.csv"
    listing.write_text("path\n01.png\n")
    (tmp_path / "link.csv").symlink_to(listing)
    for name in (listing, tmp_path / "link.csv"):
        message = command("predict", finished["LC"], folder / "02.png", listing, "--out", name).error()
        assert f"--out {name} is an input itself, which would be lost: give another file" in message
    assert listing.read_text() == "path\n01.png\n"
    message = command("predict", finished["LC"], listing, "--out", tmp_path / "a.parquet").error()
    assert "a.parquet: CSV is written, not Parquet: give a .csv" in message and not (tmp_path / "a.parquet").exists()


def test_other_sizes_and_kinds_of_images(command: Any, finished: dict[str, Path], tmp_path: Path) -> None:
    Image.new("L", (31, 17), 200).save(tmp_path / "grey.jpg")
    Image.new("RGBA", (8, 8), (10, 200, 30, 128)).save(tmp_path / "clear.PNG")
    Image.new("P", (5, 5)).save(tmp_path / "palette.gif")
    shown = table(command("predict", finished["LC"], tmp_path).out)
    assert len(shown) == 3 and shown.iloc[:, 2:].notna().all(axis=None)


def refused(tmp_path: Path, rows: list[str]) -> Path:
    path = tmp_path / "list.csv"
    path.write_text("\n".join(["path", *rows]) + "\n")
    return path


def test_csv_may_not_leave_its_folder(command: Any, finished: dict[str, Path], folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.png"
    Image.new("RGB", (8, 8)).save(outside)
    (folder / "link.png").symlink_to(outside)
    for name in ("../outside.png", str(outside), "link.png", "deep/../../outside.png"):
        message = command("predict", finished["ERM"], refused(folder, ["01.png", name])).error()
        assert f"row 3: {name!r} lies outside of {folder}" in message
        assert "row 2" not in message


def test_csv_with_missing_files_names_the_first_ten(command: Any, finished: dict[str, Path], folder: Path) -> None:
    message = command("predict", finished["ERM"], refused(folder, [f"no{i}.png" for i in range(13)])).error()
    assert f"row 2: 'no0.png' is missing in {folder}" in message and "row 11: 'no9.png' is missing" in message
    assert "no10.png" not in message and "and 3 more" in message


def test_csv_with_a_name_that_no_file_can_have(command: Any, finished: dict[str, Path], folder: Path) -> None:
    message = command("predict", finished["ERM"], refused(folder, ["y" * 300, "01.png"])).error()
    assert "row 2: 'yyy" in message and "is missing" in message and "row 3" not in message


def test_csv_without_a_column_of_files(command: Any, finished: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    for content in (b"name\na.png\n", b"", b"\xff\xfe\x00"):
        path.write_bytes(content)
        message = command("predict", finished["ERM"], path).error()
        known = ("column path, file, filename, file_name", "as a table", "is empty")
        assert str(path) in message and any(words in message for words in known)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no image",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x08\x00\x00\x00\x08\x08\x02\x00\x00\x00Km)\xdc\x00\x00",
    ],
)
def test_damaged_images_are_named(content: bytes, command: Any, finished: dict[str, Path], folder: Path) -> None:
    for name in ("97.png", "98.png"):
        (folder / name).write_bytes(content)
    message = command("predict", finished["ERM"], folder).error()
    assert "97.png" in message and "98.png" in message and "2 images cannot be read" in message
    assert "01.png" not in message


def test_what_is_left_out_of_a_folder_is_told(command: Any, finished: dict[str, Path], tmp_path: Path) -> None:
    for name in ("a.png", "deep/b.png", "c.jfif", "deep/d.heic", "deep/._b.png", "__MACOSX/._a.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name, "PNG")
    outcome = command("predict", finished["ERM"], tmp_path)
    assert table(outcome.out)["path"].tolist() == [str(tmp_path / name) for name in ("a.png", "deep/b.png")]
    assert "2 files are no images by name and left out" in outcome.err
    assert "c.jfif" in outcome.err and "d.heic" in outcome.err and "._" not in outcome.err
    (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere.png")
    message = command("predict", finished["ERM"], tmp_path).error()
    assert "1 row is bad: gone.png: is a link to nothing; fix or remove" in message


def test_missing_inputs_are_refused(command: Any, finished: dict[str, Path], folder: Path, tmp_path: Path) -> None:
    assert "INPUT is missing" in command("predict", finished["ERM"]).error()
    assert "no.png does not exist" in command("predict", finished["ERM"], "no.png").error()
    (tmp_path / "empty").mkdir()
    assert "holds no images" in command("predict", finished["ERM"], tmp_path / "empty").error()
    assert "an image cannot be read" in command("predict", finished["ERM"], folder / "notes.txt").error()
    out = tmp_path / "nowhere" / "answers.csv"
    assert "its folder does not exist" in command("predict", finished["ERM"], folder, "--out", out).error()
    assert "is a folder" in command("predict", finished["ERM"], folder, "--out", tmp_path).error()


def test_a_source_without_images_says_so(command: Any, tmp_path: Path, folder: Path) -> None:
    words = ("--data", "my_parts.Points", "--method", "ERM", "--epochs", "1", "--threads", "1")
    assert command("train", *words, "--out", tmp_path / "run").status == 0
    assert "Points cannot read new files" in command("predict", tmp_path / "run", folder, "--trust-code").error()
