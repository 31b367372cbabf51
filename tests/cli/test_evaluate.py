"""``evaluate``: the figures of a finished run, made again from its checkpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from logit_correction import ComponentConfig, load, train
from logit_correction.cli import evaluate_command


def close(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same but for rounding of numbers."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float):
        return isinstance(other, float) and abs(one - other) <= 1e-6
    return bool(one == other)


@pytest.mark.parametrize("method", ["ERM", "LC"])
def test_json_is_the_test_block_of_the_report(method: str, command: Any, finished: dict[str, Path]) -> None:
    outcome = command("evaluate", finished[method], "--json")
    assert (outcome.status, outcome.err) == (0, "")
    report = json.loads((finished[method] / "report.json").read_text())
    assert close(json.loads(outcome.out), report["test"])


def test_table_has_a_row_for_each_group_and_the_figures_below(command: Any, finished: dict[str, Path]) -> None:
    outcome = command("evaluate", finished["LC"])
    assert (outcome.status, outcome.err) == (0, "")
    test = json.loads((finished["LC"] / "report.json").read_text())["test"]
    for group in test["groups"]:
        shown = rf"^{group['label']} +{group['attribute']} +{group['count']} +{100 * group['accuracy']:.1f} "
        assert re.search(shown, outcome.out, re.MULTILINE), shown
    for row in test["by_attribute"]:
        figures = " +".join(f"{100 * row[name]:.1f}" for name in ("accuracy", "auroc", "f1", "ece"))
        assert re.search(rf"^{row['attribute']} +{row['count']} +{figures} *$", outcome.out, re.MULTILINE)
    last = outcome.out.splitlines()[-1]
    assert last.startswith(f"accuracy %: average {100 * test['average']:.1f}, group-balanced ")
    for name in ("worst-group", "worst-class", "minority", "majority"):
        assert f"{name} {100 * test[name.replace('-', '_')]:.1f}" in last


def test_valid_split_has_empty_groups_that_count_nowhere(command: Any, finished: dict[str, Path]) -> None:
    outcome = command("evaluate", finished["LC"], "--split", "valid", "--json")
    figures = json.loads(outcome.out)
    counts = json.loads((finished["LC"] / "report.json").read_text())["data"]["counts"]["valid"]
    assert [group["count"] for group in figures["groups"]] == np.ravel(counts).tolist()
    empty = [group for group in figures["groups"] if group["count"] == 0]
    filled = [group["accuracy"] for group in figures["groups"] if group["count"]]
    assert empty and all(group["accuracy"] is None and group["low"] is None for group in empty)
    assert figures["group_balanced"] == pytest.approx(np.mean(filled))
    assert figures["worst_group"] == min(filled)


def test_of_many_groups_those_without_rows_are_left_out(
    command: Any, finished: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = json.loads(command("evaluate", finished["LC"], "--split", "valid", "--json").out)
    empty = sum(group["count"] == 0 for group in figures["groups"])
    after = command("evaluate", finished["LC"], "--split", "valid").out.splitlines()
    monkeypatch.setattr(evaluate_command, "MOST_EMPTY", 100)
    before = command("evaluate", finished["LC"], "--split", "valid").out.splitlines()
    assert "valid split" in before[0] and any(re.search(r" 0 +–", line) for line in before)
    assert empty > 0 and f"{empty} groups without rows are left out" in after
    assert len(after) == len(before) - empty + 1


def test_a_margin_of_nothing_has_no_sign() -> None:
    assert [evaluate_command._decimal(value) for value in (-0.004, 0.0, -0.006, None)] == ["0.00", "0.00", "-0.01", ""]


def test_train_split_agrees_with_the_counts_of_the_report(command: Any, finished: dict[str, Path]) -> None:
    figures = json.loads(command("evaluate", finished["ERM"], "--split", "train", "--json").out)
    assert figures["count"] == 1197


def test_selected_weights_are_those_of_the_checkpoint(command: Any, tmp_path: Path) -> None:
    words = ("--data", "my_parts.Points", "--method", "ERM", "--network", "my_parts.Narrow", "--threads", "1")
    rules = ("--selection", "valid_average", "--also_select", "[last]", "--learning_rate", "2")
    run = tmp_path / "run"
    assert command("train", *words, *rules, "--epochs", "6", "--out", run).status == 0
    report = json.loads((run / "report.json").read_text())
    assert report["selection"]["epoch"] < 6  # else the test would not tell the two apart
    assert close(json.loads(command("evaluate", run, "--trust-code", "--json").out), report["test"])
    assert not close(report["other_selections"][0]["test"], report["test"])


def test_new_labelled_images_in_folders_and_in_a_table(command: Any, finished: dict[str, Path], tmp_path: Path) -> None:
    run = load(finished["ERM"])
    table = run.source.build()
    rows = table.split["test"][:40]
    names = []
    for number, (row, image) in enumerate(zip(rows.tolist(), table.inputs.images(rows), strict=True)):
        label = str(table.label_names[int(table.label[row])])
        (tmp_path / "new" / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / "new" / label / f"{number:03}.png")
        names.append(f"new/{label}/{number:03}.png,{label},{'odd' if number % 2 else 'even'}")
    by_label = json.loads(command("evaluate", finished["ERM"], "--on", tmp_path / "new", "--json").out)
    assert by_label["count"] == 40 and by_label["worst_group"] is None and 0 < by_label["average"] < 1
    (tmp_path / "new.csv").write_text("\n".join(["path,label,hint", *names]) + "\n")
    words = ("evaluate", finished["ERM"], "--on", tmp_path / "new.csv", "--attribute", "hint")
    by_group = json.loads(command(*words, "--json").out)
    assert by_group["average"] == by_label["average"]
    assert {group["attribute"] for group in by_group["groups"]} == {"even", "odd"}
    assert sum(group["count"] for group in by_group["groups"]) == 40
    assert "odd" in command(*words).out


def test_of_many_labels_those_without_rows_are_counted(command: Any, tmp_path: Path) -> None:
    label = np.arange(160) % 40
    frame = pd.DataFrame({"x": label + np.linspace(0, 0.5, 160), "kind": [f"k{y}" for y in label]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame[label < 3].to_csv(tmp_path / "new.csv", index=False)
    data = ComponentConfig("Table", {"file": str(tmp_path / "rows.csv"), "label": "kind", "features": "x"})
    train(data, tmp_path / "run", method="ERM", epochs=1, batch_size=32, device="cpu")
    shown = command("evaluate", tmp_path / "run", "--on", tmp_path / "new.csv").out
    assert "37 groups without rows are left out" in shown and len(re.findall(r"^k\d+ ", shown, re.MULTILINE)) == 3


def test_a_folder_is_read_as_training_reads_it(command: Any, finished: dict[str, Path], tmp_path: Path) -> None:
    run, new = finished["ERM"], tmp_path / "new"

    def save(name: str) -> None:
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(new / name, "PNG")

    def count(outcome: Any) -> int:
        return int(json.loads(outcome.out)["count"])

    words = ("evaluate", run, "--on", new, "--json")
    for name in ("3/a.png", "3/b.jfif", "7/c.png", "7/._c.png", "__MACOSX/7/._c.png", "9/d.heic"):
        save(name)
    outcome = command(*words)
    assert count(outcome) == 2
    assert "2 files are no images by name and left out" in outcome.err and "b.jfif" in outcome.err
    assert "9 holds no image" in outcome.err and "MACOSX" not in outcome.err
    (new / "7" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    assert "7/gone.png: is a link to nothing; fix or remove" in command(*words).error()
    (new / "7" / "gone.png").unlink()
    (new / "metadata.csv").write_text("path,label,hint\n3/a.png,7,odd\n7/c.png,7,even\n3/a.png,7,even\n")
    outcome = command(*words, "--attribute", "hint")
    assert count(outcome) == 3 and outcome.err == ""
    named = {group["label"] for group in json.loads(outcome.out)["groups"] if group["count"]}
    assert named == {"7"}


def test_a_folder_of_splits_is_told(command: Any, finished: dict[str, Path], tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / "new" / split / "7").mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "new" / split / "7" / "a.png")
    message = command("evaluate", finished["ERM"], "--on", tmp_path / "new").error()
    assert f"holds folders of splits (test, train): give one of them, such as {tmp_path / 'new' / 'test'}" in message


def test_new_rows_that_do_not_fit_are_told(command: Any, finished: dict[str, Path], tmp_path: Path) -> None:
    run = finished["ERM"]
    assert "give --on FOLDER|CSV too" in command("evaluate", run, "--attribute", "hint").error()
    assert "leave one of them out" in command("evaluate", run, "--on", tmp_path, "--split", "valid").error()
    assert "does not exist" in command("evaluate", run, "--on", tmp_path / "no.csv").error()
    assert "holds no folders" in command("evaluate", run, "--on", tmp_path).error()
    (tmp_path / "7").mkdir()
    assert "holds no images" in command("evaluate", run, "--on", tmp_path).error()
    Image.new("RGB", (8, 8)).save(tmp_path / "7" / "a.png")
    assert "a folder has no columns" in command("evaluate", run, "--on", tmp_path, "--attribute", "hint").error()
    (tmp_path / "list.csv").write_text("path,label\n7/a.png,seven\n")
    message = command("evaluate", run, "--on", tmp_path / "list.csv").error()
    assert "list.csv: 1 row is bad: row 2: the label 'seven' is none that was trained on; the labels of" in message
    assert "no column 'kind'" in command("evaluate", run, "--on", tmp_path / "list.csv", "--label", "kind").error()
