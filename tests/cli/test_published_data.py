"""Published data sets from the command line: trained, judged, predicted with, and refused where damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from logit_correction.evaluation import GroupReport, Predictions

QUICK = (
    "--network",
    "MLP",
    "--network.hidden",
    "[8]",
    "--epochs",
    "1",
    "--batch_size",
    "16",
    "--threads",
    "1",
    "--device",
    "cpu",
)
IMAGES = {"Waterbirds": "waterbirds", "CelebA": "celeba", "BiasedFFHQ": "bffhq"}
OPTIONS = {name: ("--data.size", "16") for name in IMAGES} | {"CivilComments": ("--data.num_words", "256")}
METHODS = {"ERM": (), "LC": ("--method.attributes", "Online"), "GroupDRO": ()}


@pytest.fixture
def root(layouts: ModuleType, tmp_path: Path) -> Path:
    """A folder with all data sets."""
    for name in (*IMAGES.values(), "civilcomments"):
        getattr(layouts, name)(tmp_path / "data")
    return tmp_path / "data"


def words(data: str, root: Path, out: Path, method: str = "ERM") -> list[str]:
    start = ["train", "--data", data, "--data.root", str(root), "--method", method, "--out", str(out)]
    return [*start, *OPTIONS[data], *QUICK]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", OPTIONS)
def test_every_source_trains_and_evaluates(data: str, method: str, root: Path, tmp_path: Path, command: Any) -> None:
    run = tmp_path / "run"
    outcome = command(*words(data, root, run, method), *METHODS[method])
    assert outcome.status == 0, outcome.err
    assert "these are not the published files" in outcome.err
    report = json.loads((run / "report.json").read_text())
    assert any("these are not the published files" in warning for warning in report["warnings"])
    assert "these are not the published files" in (run / "report.html").read_text()
    outcome = command("evaluate", run, "--json")
    assert outcome.status == 0, outcome.err
    assert json.loads(outcome.out) == report["test"]
    expected = 16 if data == "CivilComments" else 4
    assert len(report["test"]["groups"]) == expected and report["test"]["worst_group"] is not None
    assert (report["test"]["adjusted_average"] is None) == (data == "CivilComments")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "own"), [("ERM", ()), ("LC", (*METHODS["LC"], "--method.mixing.place", "features"))]
)
def test_comments_train_a_language_model(
    method: str, own: tuple[str, ...], root: Path, tmp_path: Path, tiny_bert: Path, command: Any
) -> None:
    outcome = command(
        *("train", "--data", "CivilComments", "--data.root", root, "--data.tokenizer", tiny_bert),
        *("--data.max_tokens", "12", "--network", "TextClassifier", "--network.model", tiny_bert),
        *("--method", method, *own, "--epochs", "1", "--batch_size", "32", "--threads", "1"),
        *("--device", "cpu", "--out", tmp_path / "run"),
    )
    assert outcome.status == 0, outcome.err
    assert json.loads((tmp_path / "run" / "report.json").read_text())["test"]["worst_group"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("data", IMAGES)
def test_augmented_images_train_a_convolutional_network(data: str, root: Path, tmp_path: Path, command: Any) -> None:
    outcome = command(
        *("train", "--data", data, "--data.root", root, "--data.size", "16", "--data.augment", "resized-crop-flip"),
        *("--network", "ConvNet", "--network.channels", "[4,4]", "--method", "LC", *METHODS["LC"], "--epochs", "1"),
        *("--batch_size", "16", "--threads", "1", "--device", "cpu", "--out", tmp_path / "run"),
    )
    assert outcome.status == 0, outcome.err


def test_the_sixteen_groups_are_kept_with_the_predictions(root: Path, tmp_path: Path, command: Any) -> None:
    run = tmp_path / "run"
    rules = ("--selection", "valid_worst_group", "--also_select", "[valid_average]")
    assert command(*words("CivilComments", root, run), *rules).status == 0
    report = json.loads((run / "report.json").read_text())
    for path in root.rglob("*.csv"):
        path.unlink()
    rebuilt = GroupReport.from_predictions(Predictions.load(run / "predictions.parquet")).to_dict()
    assert rebuilt | {"estimated": None} == report["test"]
    assert report["data"]["scoring"]["overlapping"] is True
    assert len(report["data"]["scoring"]["counts"]["train"]) == 16
    assert report["labels_read"] == {
        "train": ["label"], "valid": ["label", "attribute"], "test": ["label", "attribute"]
    }  # fmt: skip
    page = (run / "report.html").read_text()
    assert "Groups overlap" in page
    assert command("report", run, "--out", tmp_path / "again.html").status == 0


def test_the_rule_selects_by_the_sixteen_groups(root: Path, tmp_path: Path, command: Any) -> None:
    run = tmp_path / "run"
    assert command(*words("CivilComments", root, run), "--selection", "valid_worst_group").status == 0
    metrics = pd.read_csv(run / "metrics.csv")
    outcome = command("evaluate", run, "--split", "valid", "--json")
    figures = json.loads(outcome.out)
    assert metrics["valid_worst_group"].dropna().iloc[-1] == pytest.approx(figures["worst_group"])
    assert metrics["valid_group_balanced"].dropna().iloc[-1] == pytest.approx(figures["group_balanced"])


def test_predict_reads_new_images(root: Path, tmp_path: Path, command: Any) -> None:
    run = tmp_path / "run"
    assert command(*words("BiasedFFHQ", root, run)).status == 0
    outcome = command("predict", run, root / "bffhq" / "test")
    assert outcome.status == 0, outcome.err
    assert len(outcome.out.splitlines()) == 1 + 18


def test_predict_reads_new_comments(root: Path, tmp_path: Path, command: Any) -> None:
    run = tmp_path / "run"
    assert command(*words("CivilComments", root, run)).status == 0
    (tmp_path / "new.csv").write_text('comment_text\nthanks\n"awful, nonsense"\nNA\n')
    outcome = command("predict", run, tmp_path / "new.csv")
    assert outcome.status == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0] == "line,label,probability_non-toxic,probability_toxic"
    assert [line.split(",")[0] for line in lines[1:]] == ["2", "3", "4"]
    (tmp_path / "other.csv").write_text("comment\nthanks\n")
    assert "no column 'comment_text'" in command("predict", run, tmp_path / "other.csv").error()


def edit(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    change(frame).to_csv(path, index=False)


def with_cell(column: str, value: str, row: int = 3) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        frame.loc[row, column] = value
        return frame

    return change


def without(column: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: frame.drop(columns=column)


BIRDS = "waterbird_complete95_forest2water2/metadata.csv"
FACES = "celeba/list_attr_celeba.csv"
PARTS = "celeba/list_eval_partition.csv"
COMMENTS = "civilcomments_v1.0/all_data_with_identities.csv"

# What is damaged and how, and words that the message must have.
TABLES: dict[str, tuple[str, str, Callable[[pd.DataFrame], pd.DataFrame], tuple[str, ...]]] = {
    "birds, no column": ("Waterbirds", BIRDS, without("place"), ("metadata.csv has no column 'place'", "get it again")),
    "birds, split": ("Waterbirds", BIRDS, with_cell("split", "3"), ("row 5", "split is '3'", "0 or 1 or 2")),
    "birds, label": ("Waterbirds", BIRDS, with_cell("y", ""), ("row 5", "y is ''")),
    "birds, place": ("Waterbirds", BIRDS, with_cell("place", "0.5"), ("row 5", "place is '0.5'")),
    "birds, path": ("Waterbirds", BIRDS, with_cell("img_filename", "../../x.jpg"), ("row 5", "lies outside of")),
    "birds, no rows": ("Waterbirds", BIRDS, lambda frame: frame.iloc[:0], ("metadata.csv has no rows",)),
    "faces, no column": ("CelebA", FACES, without("Male"), ("list_attr_celeba.csv has no column 'Male'",)),
    "faces, value": ("CelebA", FACES, with_cell("Male", "0"), ("row 5", "Male is '0'", "-1 or 1")),
    "faces, path": ("CelebA", FACES, with_cell("image_id", "/etc/hosts"), ("row 5", "'/etc/hosts'")),
    "faces, split": ("CelebA", PARTS, with_cell("partition", "train"), ("row 5", "partition is 'train'")),
    "faces, twice": ("CelebA", PARTS, with_cell("image_id", "000001.jpg"), ("row 5", "named twice")),
    "faces, lost": ("CelebA", PARTS, lambda frame: frame.iloc[:-1], ("lacks 1 images", "000060.jpg")),
    "comments, no column": ("CivilComments", COMMENTS, without("LGBTQ"), ("has no column 'LGBTQ'",)),
    "comments, toxicity": ("CivilComments", COMMENTS, with_cell("toxicity", ""), ("row 5", "toxicity is ''")),
    "comments, NaN": ("CivilComments", COMMENTS, with_cell("toxicity", "nan"), ("row 5", "toxicity is 'nan'")),
    "comments, share": ("CivilComments", COMMENTS, with_cell("black", "1.5"), ("row 5", "black is '1.5'")),
    "comments, split": ("CivilComments", COMMENTS, with_cell("split", "dev"), ("row 5", "train or val or test")),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_damaged_table_is_refused(case: str, root: Path, tmp_path: Path, command: Any) -> None:
    data, name, change, expected = TABLES[case]
    edit(root / name, change)
    message = command(*words(data, root, tmp_path / "run")).error()
    assert all(word in message for word in (*expected, str(root))), message
    assert not (tmp_path / "run").exists()


FILES = {
    "Waterbirds": BIRDS,
    "CelebA": FACES,
    "BiasedFFHQ": "bffhq/test/0_0_0.png",
    "CivilComments": COMMENTS,
}


@pytest.mark.parametrize("data", OPTIONS)
def test_files_that_are_not_there_are_told(data: str, tmp_path: Path, command: Any) -> None:
    message = command(*words(data, tmp_path / "data", tmp_path / "run")).error()
    assert str(tmp_path / "data") in message and data in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [None, b"", b"\x00\xff\xfe\x00", b'no comma\n"unclosed'])
@pytest.mark.parametrize("data", ["Waterbirds", "CelebA", "CivilComments"])
def test_a_table_that_is_none_is_refused(
    data: str, content: bytes | None, root: Path, tmp_path: Path, command: Any
) -> None:
    (root / FILES[data]).unlink()
    if content is not None:
        (root / FILES[data]).write_bytes(content)
    message = command(*words(data, root, tmp_path / "run")).error()
    assert str(root) in message and not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", [None, b"", b"\x89PNG damaged"])
@pytest.mark.parametrize("data", IMAGES)
def test_images_that_cannot_be_read_are_named(
    data: str, content: bytes | None, root: Path, tmp_path: Path, command: Any
) -> None:
    paths = sorted(path for path in root.rglob("*") if path.suffix in (".jpg", ".png"))
    mine = [path for path in paths if path.is_relative_to(next(root.glob(f"{IMAGES[data][:5]}*")))][:2]
    for path in mine:
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    outcome = command(*words(data, root, tmp_path / "run"))
    if data == "BiasedFFHQ" and content is None:  # its images are found by looking, so none is missing
        assert outcome.status == 0
        return
    message = outcome.error()
    assert all(path.name in message for path in mine), message
    assert "2 rows are bad" in message and ("is missing" in message) == (content is None)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("old", "new"), [("0_{y}_{a}", "0_{y}"), ("0_{y}_{a}", "0_2_0"), ("0_{y}_{a}", "0_{y}_{b}")])
def test_misnamed_faces_are_refused(old: str, new: str, root: Path, tmp_path: Path, command: Any) -> None:
    path = next((root / "bffhq" / "0.5pct" / "align").rglob("*_1_1.png"))
    path.rename(path.with_name(new.format(y=1, a=1, b=0) + ".png"))
    message = command(*words("BiasedFFHQ", root, tmp_path / "run")).error()
    assert "align/1/0_" in message and "1 row is bad" in message


@pytest.mark.parametrize("lines", [slice(0, -1), slice(1, None), slice(2, None)])
def test_a_list_of_celeba_that_is_cut_is_refused(
    lines: slice, layouts: ModuleType, tmp_path: Path, command: Any
) -> None:
    path = layouts.celeba(tmp_path / "data", text=True) / "list_attr_celeba.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[lines]))
    message = command(*words("CelebA", tmp_path / "data", tmp_path / "run")).error()
    assert "list_attr_celeba.txt" in message
