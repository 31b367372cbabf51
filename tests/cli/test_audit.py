"""``logit-correction audit`` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

DATA = ["--data", "Planted", "--data.set", "column", "--data.rows", "600"]
SHORT = ["--epochs", "3", "--device", "cpu", "--threads", "1", "--try-fix", "false"]


def test_an_audit_and_what_follows_it(command: Any, tmp_path: Path) -> None:
    out = str(tmp_path / "the audit")
    done = command("audit", *DATA, *SHORT, "--out", out, "--fail-on", "shortcut")
    assert done.status == 3, done.err
    assert (
        done.out.startswith("A shortcut is likely: the column `form_version`. ")
        and "Ordinary classifier: right in" in done.out
    )
    assert "report.html" in done.out
    sheet = command("audit", "--label-budget", "30", "--out", out)
    assert sheet.status == 0 and (tmp_path / "the audit" / "sheet.csv").is_file()
    assert sheet.out.startswith("fill in the column attribute of ")
    assert f"then: logit-correction audit --labels '{out}/sheet.csv' --out '{out}'" in sheet.out
    at_once = command("audit", *DATA, *SHORT, "--out", f"{out}-2", "--label-budget", "30")
    assert f"--labels '{out}-2/sheet.csv' --out '{out}-2'" in at_once.out
    assert "fill in" in command("audit", "--labels", f"{out}/sheet.csv", "--out", out).error()
    fixed = command("train", "--config", f"{out}/fix.yaml", "--out", str(tmp_path / "fixed"))
    assert fixed.status == 0, fixed.err
    again = command("audit", "--config", f"{out}/config.yaml", "--run", str(tmp_path / "fixed"), "--shortcut",
                    "column:form_version", "--out", str(tmp_path / "again"), "--json")  # fmt: skip
    assert again.status == 0, again.err
    assert json.loads(again.out)["examined"] == str(tmp_path / "fixed")


def test_a_folder_and_a_table_may_be_named_by_their_place(command: Any, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for label, colour in (("cat", 60), ("dog", 190)):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(40):
            pixels = np.clip(colour + generator.normal(0, 30, (16, 16, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{number}.png")
    done = command("audit", "--data", str(tmp_path / "photos"), "--data.size", "16", *SHORT, "--network", "MLP",
                   "--out", str(tmp_path / "out"))  # fmt: skip
    assert done.status == 0, done.err
    summary = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert summary["data"]["name"] == "ImageFolder" and summary["rows"]["train"] == 56
    (tmp_path / "rows.csv").write_text("label,a\n" + "".join(f"{'yn'[i % 2]},{i}\n" for i in range(60)))
    missing = command("audit", "--data", str(tmp_path / "rows.csv"), *SHORT, "--out", str(tmp_path / "table"))
    assert "label" in missing.error()


def test_what_is_worth_knowing_of_the_data_is_told(command: Any, tmp_path: Path) -> None:
    """A table as people have it: missing values, dates, names of customers, a row that repeats another."""
    generator = np.random.default_rng(0)
    rows = [
        f"{'yn'[i % 2]},{'' if i % 7 == 0 else generator.normal():.4},2024-0{1 + i % 9}-11,<b>customer</b> {i}"
        for i in range(150)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(["label,score,day,who", *rows, rows[3]]) + "\n")
    words = ["--data", str(tmp_path / "rows.csv"), "--data.label", "label", "--data.features", "*", *SHORT]
    done = command("audit", *words, "--data.on_bad_rows", "skip", "--out", str(tmp_path / "out"))
    assert done.status == 0, done.err
    found = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert "missing" in {one["view"] for one in found["evidence"]["signs"]}
    assert found["data"]["input_shape"] == [3]  # the score, whether it is missing, and the day
    page = (tmp_path / "out" / "report.html").read_text()
    for told in (
        "1 bad row was left out",
        "since few rows share a text: 'who'",
        "'score' in 22 of 151 rows",
    ):
        assert sum(told in warning for warning in found["data"]["warnings"]) == 1
        assert told in done.out and told.replace("'", "&#39;") in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "ERM"], "an audit takes no --method"),
        (["--preset", "paper"], "an audit takes no --preset"),
        (["--fail-on", "nothing"], "--fail-on"),
        (["--label-budget", "many"], "must be a whole number"),
        (["--epoch", "3"], "there is no option --epoch"),
        (["--run", "nowhere"], "nowhere"),
        (["--predictions", "nowhere.csv"], "nowhere.csv does not exist"),
        (["--shortcut", "colour"], "does not apply"),
    ],
)
def test_what_is_wrong_is_said_before_any_work(command: Any, tmp_path: Path, words: list[str], message: str) -> None:
    assert message in command("audit", *DATA, *SHORT, *words, "--out", str(tmp_path / "out")).error()
    assert not (tmp_path / "out").exists()


def test_what_goes_on_needs_a_finished_audit(command: Any, tmp_path: Path) -> None:
    assert "holds no finished audit" in command("audit", "--label-budget", "50", "--out", str(tmp_path)).error()
    assert "--out" in command("audit", *DATA).error()
    both = command("audit", "--labels", "sheet.csv", *DATA, "--out", str(tmp_path)).error()
    assert "goes on with the audit in --out" in both
