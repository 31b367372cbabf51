"""A user's own images and texts, without attributes: one command each from nothing to a model, a page, a CSV."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction import load
from logit_correction.attributes.ordinary import PredictionsFile
from logit_correction.types import TrainingRows

QUICK = ("--epochs", "8", "--batch_size", "16", "--threads", "1")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder per label; a bright bar tells the label, and mostly the colour behind it."""
    random = np.random.default_rng(0)
    for i in range(90):
        label = ("across", "down")[i % 2]
        image = random.integers(0, 60, (12, 16, 3), dtype=np.uint8)
        image[:, :, (i % 2 + (i % 11 == 0)) % 2] += 120
        if label == "across":
            image[5:8] = 250
        else:
            image[:, 7:10] = 250
        (tmp_path / "photos" / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / "photos" / label / f"{i:02}.png")
    return tmp_path / "photos"


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """A CSV of texts of which one word tells the label."""
    random = np.random.default_rng(0)
    filler = ["the", "parcel", "came", "on", "a", "monday", "with", "our", "neighbour"]
    with (tmp_path / "reviews.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["review", "verdict"])
        for i in range(160):
            word, verdict = (("lovely", "praise"), ("broken", "complaint"))[i % 2]
            writer.writerow([" ".join([*random.choice(filler, 6), word, str(i)]), verdict])
    return tmp_path / "reviews.csv"


def test_a_folder_of_images(command: Any, photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    data = ("--data", "ImageFolder", "--data.root", photos, "--data.size", "12")
    trained = command("train", *data, "--method", "LC", "--method.attributes", "Online", *QUICK, "--out", run)
    assert trained.status == 0, trained.err
    assert "64 train, 8 valid, 18 test rows" in trained.err and "inputs in memory (0.00 GiB, limit" in trained.err
    assert "attributes unknown; rows per label: across 32, down 32" in trained.err
    assert "Worst label" in trained.out and "Worst group" not in trained.out
    report = json.loads((run / "report.json").read_text())
    assert report["test"]["worst_group"] is None and report["test"]["worst_class"] > 0.8
    assert report["labels_read"] == {"train": ["label"], "valid": ["label"], "test": ["label"]}
    page = (run / "report.html").read_text()
    assert "The test data names no attributes" in page and "training rows for bias-conflicting" in page
    outcome = command("predict", run, photos, "--out", tmp_path / "answers.csv")
    assert outcome.status == 0
    answers = pd.read_csv(tmp_path / "answers.csv")
    assert answers.columns.tolist() == ["path", "label", "probability_across", "probability_down"]
    assert (
        len(answers) == 90
        and np.mean([Path(p).parent.name == y for p, y in zip(answers["path"], answers["label"], strict=True)]) > 0.9
    )
    table = load(run).source.build()
    rows = TrainingRows(table.label, names=table.row_names, numbers=torch.arange(90))
    place, found = PredictionsFile(tmp_path / "answers.csv", ("across", "down")).of(rows)  # as `audit` reads it
    assert place.tolist() == list(range(90)) and bool((found.argmax(1) == table.label).float().mean() > 0.9)
    judged = command("evaluate", run)
    assert judged.status == 0 and "unknown" in judged.out and "worst-class" in judged.out and "nan" not in judged.out
    assert load(run).predict([photos / "across" / "00.png"]).tolist() == ["across"]


def test_a_csv_of_texts(command: Any, reviews: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    data = ("--data", "Table", "--data.file", reviews, "--data.label", "verdict", "--data.text", "review")
    biased = ("--method.attributes.head_start_epochs", "2", "--method.attributes.input_dropout", "0.9")
    method = ("--method", "LC", "--method.attributes", "Online", *biased)
    trained = command("train", *data, *method, *QUICK, "--out", run)
    assert trained.status == 0, trained.err
    page = (run / "report.html").read_text()
    assert "What the shortcut is nobody has said" in page and "<q>" in page
    new = tmp_path / "new.csv"
    new.write_text("id,review\n7,a lovely neighbour\n8,the parcel came broken\n", encoding="utf-8-sig")
    shown = pd.read_csv(io.StringIO(command("predict", run, new).out))
    assert shown.columns.tolist() == ["line", "label", "probability_complaint", "probability_praise"]
    assert shown["line"].tolist() == [2, 3] and shown["label"].tolist() == ["praise", "complaint"]
    model = load(run)
    assert model.predict(["a lovely neighbour", "broken"]).tolist() == ["praise", "complaint"]
    assert model.predict(pd.DataFrame({"review": ["broken"]})).tolist() == ["complaint"]
    np.testing.assert_allclose(model.predict_proba(["a lovely neighbour"])[0, 1], shown.iloc[0, 3], rtol=1e-3)
    (tmp_path / "new.txt").write_text("id,review\n7,a lovely neighbour\n\n8,the parcel came broken\n")
    gaps = pd.read_csv(io.StringIO(command("predict", run, tmp_path / "new.txt").out))
    assert gaps["line"].tolist() == [2, 4] and gaps["label"].tolist() == ["praise", "complaint"]
    (tmp_path / "new.txt").write_text("review\nlovely\n\nbroken\n")
    assert "row 3: the text (column 'review') is empty" in command("predict", run, tmp_path / "new.txt").error()
    (tmp_path / "some.png").write_bytes(b"")
    several = pd.read_csv(io.StringIO(command("predict", run, new, new).out))
    assert several["line"].tolist() == [f"{new}:{row}" for row in (2, 3, 2, 3)]
    command("predict", run, reviews, "--out", tmp_path / "answers.csv")
    texts = pd.read_csv(reviews)["review"].tolist()
    place, found = PredictionsFile(tmp_path / "answers.csv", ("complaint", "praise")).of(  # as `audit` reads it
        TrainingRows(torch.zeros(len(texts), dtype=torch.long))
    )
    assert place.tolist() == list(range(len(texts)))
    np.testing.assert_allclose(found.numpy(), model.predict_proba(texts), atol=1e-5)
    assert "takes texts, not image files" in command("predict", run, tmp_path / "some.png").error()


def test_features_are_predicted_on_their_scale_without_the_training_file(command: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    label = np.arange(200) % 2
    frame = pd.DataFrame(
        {"height": random.normal(170 + 20 * label, 5), "town": random.choice(["a", "b"], 200), "sex": label}
    )
    frame.to_parquet(tmp_path / "rows.parquet")
    run = tmp_path / "run"
    data = ("--data", "Table", "--data.file", tmp_path / "rows.parquet", "--data.label", "sex", "--data.features", "*")
    assert command("train", *data, "--method", "ERM", *QUICK, "--out", run).status == 0
    (tmp_path / "rows.parquet").unlink()
    (tmp_path / "new.csv").write_text("town;height\nb;195\na;165\nelsewhere;192\n")
    outcome = command("predict", run, tmp_path / "new.csv")
    assert pd.read_csv(io.StringIO(outcome.out))["label"].tolist() == [1, 0, 1]
    told = "warning: column 'town' holds names that the model was not trained to tell apart, such as 'elsewhere', in 1"
    assert outcome.err.count(told) == 1 and "UserWarning" not in outcome.err
    assert load(run).predict(pd.DataFrame({"town": ["a"], "height": [190.0]})).tolist() == ["1"]
    (tmp_path / "new.csv").write_text("town;height\nb;tall\na;\n")
    assert "row 2: column 'height' holds 'tall'" in command("predict", run, tmp_path / "new.csv").error()


def test_partly_known_attributes(command: Any, tmp_path: Path, reviews: Path) -> None:
    frame = pd.read_csv(reviews)
    frame["shop"] = [("north", "south", "")[i % 3] for i in range(len(frame))]
    frame.to_csv(reviews, index=False)
    data = ("--data", "Table", "--data.file", reviews, "--data.label", "verdict", "--data.text", "review")
    words = (*data, "--data.attribute", "shop", *QUICK)
    outcome = command("train", *words, "--method", "ERM", "--out", tmp_path / "erm")
    assert outcome.status == 0, outcome.err
    assert command("evaluate", tmp_path / "erm").status == 0
    message = command("train", *words, "--method", "GroupDRO", "--out", tmp_path / "dro").error()
    assert "needs the attribute of every training row" in message and not (tmp_path / "dro").exists()


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "1"])
def test_streamed_images_train_as_resident_ones_do(workers: str, command: Any, photos: Path, tmp_path: Path) -> None:
    data = ("--data", "ImageFolder", "--data.root", photos, "--data.size", "12", "--data.augment", "crop-flip")
    words = ("train", *data, "--method", "ERM", "--epochs", "2", "--batch_size", "32", "--threads", "1")
    assert command(*words, "--out", tmp_path / "resident").status == 0
    streamed = command(*words, "--data.memory_limit", "0", "--workers", workers, "--out", tmp_path / "streamed")
    assert streamed.status == 0 and "inputs streamed from" in streamed.err
    one, other = (pd.read_parquet(tmp_path / name / "predictions.parquet") for name in ("resident", "streamed"))
    pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize(
    "kind", ["unreadable", "missing", "outside", "repeated", "label", "text", "nan", "few", "column"]
)
def test_damaged_data_end_with_one_message_and_leave_nothing(
    kind: str, command: Any, photos: Path, reviews: Path, tmp_path: Path
) -> None:
    frame = pd.read_csv(reviews)
    files = pd.DataFrame({"path": [f"across/{i:02}.png" for i in range(0, 90, 2)], "verdict": ["x", "y", "z"] * 15})
    text, path = ("--data.text", "review"), ("--data.path", "path", "--data.root", photos)
    number = ("--data.features", "length")
    if kind == "unreadable":
        (photos / "across" / "00.png").write_bytes(b"no image")
    if kind in ("missing", "outside"):
        files.loc[4, "path"] = {"missing": "across/gone.png", "outside": "../photos/../reviews.csv"}[kind]
    if kind == "repeated":
        frame.loc[3] = frame.loc[1]
    if kind == "label":
        frame.loc[3, "verdict"] = ""
    if kind == "text":
        frame.loc[3, "review"] = " "
    frame["length"] = frame["review"].str.len().astype(float)
    if kind == "nan":
        frame.loc[3, "length"] = np.inf
    if kind == "few":
        frame.loc[3, "verdict"] = "new"
    frame.to_csv(reviews, index=False)
    files.to_csv(tmp_path / "files.csv", index=False)
    image = kind in ("unreadable", "missing", "outside")
    options = path if image else number if kind == "nan" else ("--data.text", "reviews") if kind == "column" else text
    expected = {
        "unreadable": "row 2: ",
        "missing": "row 6: 'across/gone.png' is missing in",
        "outside": "row 6: '../photos/../reviews.csv' lies outside of",
        "repeated": "row 5: repeats row 3",
        "label": "row 5: has no label",
        "text": "row 5: the text (column 'review') is empty",
        "nan": "row 5: column 'length' holds 'inf', which is no finite number",
        "few": "labels with too few rows to split (rows per label: new 1)",
        "column": "no column 'reviews' (did you mean review?)",
    }[kind]
    file = tmp_path / "files.csv" if image else reviews
    words = ("train", "--data", "Table", "--data.file", file, "--data.label", "verdict", *options, "--method", "ERM")
    message = command(*words, *QUICK, "--out", tmp_path / "run").error()
    assert expected in message and str(file) in message
    assert not (tmp_path / "run").exists()
    if kind in ("few", "column"):
        return
    if image:
        words += ("--data.size", "8")
    skipped = command(
        *words, *QUICK, "--data.on_bad_rows", "skip", "--data.keep_duplicates", "false", "--out", tmp_path / "run"
    )
    assert skipped.status == 0, skipped.err
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert any("1 bad row was left out" in warning and expected in warning for warning in report["warnings"])


def test_options_that_are_missing(command: Any, tmp_path: Path) -> None:
    words = ("--method", "LC", "--out", tmp_path / "run")
    assert command("train", "--data", "ImageFolder", *words).error().startswith("--data.root is missing")
    assert command("train", "--data", "Table", *words).error().startswith("--data.file is missing")
    several = command("train", "--data", "Table", "--data.features", "age", "the height", *words).error()
    assert several == (
        "the height stands alone behind --data.features age: several values are written --data.features "
        "'[age, the height]'"
    )
    for place in ("gone.csv", "gone/", "./gone"):
        assert f"--data {place} does not exist: give a folder" in command("train", "--data", place, *words).error()
    assert "cannot be imported" in command("train", "--data", "gone.Source", *words).error()
    (tmp_path / "one.JPG").write_bytes(b"")
    one = command("train", "--data", tmp_path / "one.JPG", *words).error()
    assert "one.JPG is one image: give the folder that holds a folder of images for each label" in one
    given = ("--data.file", tmp_path / "x.csv", "--data.label", "y")
    assert "give one of --data.text" in command("train", "--data", "Table", *given, *words).error()
    message = command("train", "--data", "Table", *given, "--data.text", "t", "--workers", "-2", *words).error()
    assert message.startswith("--workers is -2")
