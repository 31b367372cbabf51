"""Audits show what a correction corrects: the planted cue is what pictures, words and conditions name."""

from __future__ import annotations

import base64
import html
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction import Audit, audit, from_arrays, from_table
from logit_correction.checksums import write_checksums
from logit_correction.runs.options import build_config
from logit_correction.shortcuts.audit_files import SEALED
from logit_correction.shortcuts.audit_page import print_audit
from logit_correction.shortcuts.conflicts import ConflictDescriber, find_explaining_views, measure_resemblance
from logit_correction.shortcuts.search import Search

from .conftest import fill_sheet

#: Colours of the two labels in most images.
RED = np.array([220, 60, 60])
BLUE = np.array([60, 60, 220])

SUBJECTS = ("bill", "lunch", "train", "garden", "paper", "coffee", "window", "music")


def read_page(audit_with_page: Audit) -> str:
    return (audit_with_page.path / "report.html").read_text(encoding="utf-8").replace("\u00a0", " ")


def read_corrections(audit_with_page: Audit) -> str:
    """The part of the page below the heading ``What the correction corrects``."""
    return read_page(audit_with_page).partition("<h2>What the correction corrects</h2>")[2].partition("<h2>")[0]


def describe_frame(frame: pd.DataFrame, conflicting: np.ndarray, folder: Path) -> list[tuple[str, float, float]]:
    """Conditions on the columns of a table, whose label is ``y``, with the shares of both sides that meet them."""
    data = from_table(frame, label="y", folder=folder, valid_fraction=0.0, test_fraction=0.0)
    table = build_config(data).data.make().build()
    rows = table.split["train"].numpy()
    label = frame["y"].to_numpy()[rows]
    conflicts = pd.DataFrame(
        {
            "row": rows,
            "label": label,
            "attribute": np.where(conflicting[rows], "other", label),
            "conflicting": conflicting[rows],
            "score": 0.0,
        }
    )
    return [
        (row.value or "", row.share or 0.0, row.other_share or 0.0)
        for contrast in ConflictDescriber(table).describe(conflicts)
        for row in contrast.rows
    ]


def draw_table(num_rows: int, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    names = {
        "site": draw.choice(["<b>north</b>", "south", "west"], num_rows),
        "age": draw.integers(18, 90, num_rows),
        "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(draw.integers(0, 700, num_rows), unit="D"),
        "town": draw.choice(["Bonn", "Wien", "Innsbruck", "Klagenfurt"], num_rows),
        "ward": draw.choice(list("ABCDEF"), num_rows),
        "visits": draw.integers(0, 3, num_rows),
        "blood": np.where(draw.random(num_rows) < 0.3, np.nan, draw.normal(size=num_rows).round(2)),
    }
    return pd.DataFrame(names | {"y": np.array(["no", "yes"])[np.arange(num_rows) % 2]})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (lambda frame: frame["site"] == "south", r"site = south"),
        (
            lambda frame: (frame["site"] == "west") & (frame["age"] > 40),
            r"site = west and age > 40",
        ),
        (lambda frame: frame["age"].between(31, 50), r"age > 30 and age ≤ 50|age ≤ 50 and age > 30"),
        (lambda frame: frame["seen"] >= "2025-01-01", r"seen > 2024-12-\d\d"),
        (lambda frame: frame["blood"].isna(), r"blood is empty"),
        (lambda frame: frame["site"] != "south", r"site ≠ south"),
        (lambda frame: frame["town"].isin(["Bonn", "Wien"]), r"town = Bonn or Wien"),
        (lambda frame: ~frame["ward"].isin(["A", "B"]), r"ward ≠ A and ward ≠ B|ward ≠ B and ward ≠ A"),
        (lambda frame: frame["visits"] > 1, r"visits = 2"),
    ],
)
def test_conflict_describer_finds_the_planted_condition(
    condition: Callable[[pd.DataFrame], pd.Series], expected: str, tmp_path: Path
) -> None:
    frame = draw_table(1200, 0)
    is_met = condition(frame) & (frame["y"] == "yes")
    ((text, share, other_share),) = describe_frame(frame, is_met.to_numpy(), tmp_path)
    assert re.fullmatch(expected, text), text
    assert share > 0.97 and other_share < 0.03


def test_conflict_describer_says_nothing_of_random_conflicts(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for seed in range(20):
        share = (0.02, 0.1, 0.5)[seed % 3]
        assert describe_frame(draw_table(400, seed), draw.random(400) < share, tmp_path) == []


@pytest.mark.parametrize("is_informative", [True, False])
def test_view_that_only_knows_which_label_conflicts_more_often_explains_nothing(is_informative: bool) -> None:
    """Rows of label 0 conflict often, those of label 1 rarely, and the view nearly always predicts label 1."""
    draw = np.random.default_rng(0)
    label = torch.arange(400) // 200
    is_conflicting = draw.random(400) < np.where(label == 0, 0.6, 0.05)
    probability = 0.2 + 0.2 * draw.random(400) - (0.1 * is_conflicting if is_informative else 0)
    of_zero = torch.from_numpy(np.where(label == 0, probability, 0.3 - probability / 2))
    views = ("colour",)
    search = SimpleNamespace(
        held_out=SimpleNamespace(rows=torch.arange(400), split="train"),
        label=label,
        evidence={},
        predictions={views: torch.stack([of_zero, 1 - of_zero], dim=1)},
        rank_informative_views=lambda: [SimpleNamespace(views=views, breadth=1)],
    )
    conflicts = pd.DataFrame({"conflicting": is_conflicting})
    expected = views if is_informative else ()
    assert find_explaining_views(cast(Search, search), conflicts, ()) == expected


def test_images_shown_share_what_resembles_the_other_label(tmp_path: Path) -> None:
    """Of rows that conflict alike, those come first that have the cue of the other label, by their features."""
    draw = np.random.default_rng(0)
    label = np.arange(300) // 150
    has_other_cue = np.arange(300) % 10 == 0
    features = draw.normal(size=(300, 8))
    features[:, 0] += 6 * np.where(has_other_cue, 1 - label, label)
    is_hard = np.arange(300) % 10 == 5  # which the estimate flags as well
    table = build_config(from_arrays(features, label)).data.make().build()
    rows = table.split["train"].numpy()
    is_flagged = (has_other_cue | is_hard)[rows]
    kept = {number: rows[(label[rows] == number) & ~is_flagged] for number in (0, 1)}
    for number in (0, 1):
        flagged = rows[is_flagged & (label[rows] == number)]
        resemblance = measure_resemblance(table, flagged, kept[number], kept[1 - number])
        assert resemblance[has_other_cue[flagged]].min() > resemblance[is_hard[flagged]].max()


def test_page_names_the_planted_column_as_corrected(
    shifted_audit: Audit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page, the terminal and a notebook name the scanner, of estimators without views too."""
    answered = Audit(shutil.copytree(shifted_audit.path, tmp_path / "copy"))
    assert read_corrections(answered) == ""  # before any answer nothing is advised
    answered.answer(fill_sheet(answered))
    for candidate in answered.summary["new_rows"]["candidates"]:
        if candidate["name"].startswith("LC"):
            values = {(row["label"], row["looks_like"], row["value"]) for row in candidate["contrasts"][0]["rows"]}
            assert {(label, other) for label, other, _ in values} == {("ill", "well"), ("well", "ill")}
            assert {value.partition(" and ")[0] for *_, value in values} == {"scanner = new", "scanner = old"}
            assert candidate["explained_by"] == ([] if candidate["views"] else ["column:scanner"])
    part = read_corrections(answered)
    assert "scanner = new" in part and "scanner = old" in part
    print_audit(answered.result, answered.path / "report.html")
    sentence = (
        r"corrects (where the column `scanner` points to another label: )?rows labelled `(ill|well)` with scanner ="
    )
    for text in (" ".join(capsys.readouterr().out.split()), repr(answered).replace("\n", " ")):
        assert re.search(sentence, text)
    assert re.search(r"corrects .*scanner = new", html.unescape(answered._repr_html_()))


def test_audit_without_new_rows_describes_conflicting_rows(formula_audit: Audit) -> None:
    rows = formula_audit.summary["conflicts"][0]["rows"]
    values = {row["label"]: row["value"] for row in rows}
    assert values == {"=<b>no</b>": "scanner = @one", "yes": "scanner = +two"}
    page = read_page(formula_audit)
    assert "What these rows have in common" in page and "=<b>no</b>" not in page
    assert "Bias-conflicting are rows labelled" in repr(formula_audit)


def test_audit_names_the_planted_word_as_corrected(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    rows = []
    for number in range(700):
        is_spam = bool(draw.integers(2))
        has_cue = is_spam == (draw.random() < (0.93 if number < 500 else 0.4))
        words = draw.choice(SUBJECTS, 6).tolist() + ["prize" if is_spam else "agenda"] * (draw.random() < 0.8)
        rows.append((" ".join(draw.permutation([*words, *["unsubscribe"] * has_cue])), "spam" if is_spam else "ham"))
    data = pd.DataFrame(rows, columns=["text", "label"])
    new = data["text"][500:].tolist()
    mail_audit = audit(data[:500], tmp_path / "out", new_rows=new, label="label", text="text", epochs=3, threads=1)
    candidates = mail_audit.summary["new_rows"]["candidates"]
    words = next(candidate for candidate in candidates if candidate["views"] == ["word"])["contrasts"][0]["rows"]
    by_label = {row["label"]: row for row in reversed(words)}
    assert by_label["ham"]["term"] == by_label["spam"]["term"] == "unsubscribe"
    assert by_label["ham"]["share"] > 0.9 > 0.2 > by_label["ham"]["other_share"]
    assert by_label["spam"]["share"] < 0.2 < 0.9 < by_label["spam"]["other_share"]


@pytest.mark.parametrize("views", [("characters",), ()])
def test_conflict_describer_names_parts_of_words_with_examples(views: tuple[str, ...], tmp_path: Path) -> None:
    """Names of one ending go along with a label; no word of them is frequent."""
    draw = np.random.default_rng(0)
    stems = ["".join(draw.choice(list("abdegiklmnrtu"), 5)) for _ in range(200)]
    is_conflicting = draw.random(800) < 0.15
    names = [f"{draw.choice(stems)}{'sen' if cue else 'ova'}" for cue in is_conflicting]
    texts = [f"{' '.join(draw.choice(SUBJECTS, 4))} {name}" for name in names]
    frame = pd.DataFrame({"text": texts, "y": np.where(np.arange(800) % 4, "yes", "no")})
    data = from_table(frame, label="y", text="text", folder=tmp_path, valid_fraction=0.0, test_fraction=0.0)
    table = build_config(data).data.make().build()
    rows = table.split["train"].numpy()
    label = frame["y"].to_numpy()[rows]
    conflicts = pd.DataFrame(
        {"row": rows, "label": label, "attribute": label, "conflicting": is_conflicting[rows], "score": 0.0}
    )
    (contrast,) = ConflictDescriber(table).describe(conflicts, views)
    for name in ("yes", "no"):
        more = [row for row in contrast.rows if row.label == name and (row.share or 0) > (row.other_share or 0)]
        assert [row.term for row in more] == ["-sen"]  # once, and not each of its parts
        assert len(more[0].examples) == 3 and all(word.endswith("sen") for word in more[0].examples)


def decode_image(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))).convert("RGB")).astype(int)


def is_mostly_red(uri: str) -> bool:
    pixels = decode_image(uri)
    return bool((pixels[..., 0] > pixels[..., 2]).mean() > 0.5)


def draw_bars(folder: Path, count: int, bias: float, seed: int) -> dict[str, str]:
    """Images of bars that stand or lie, on paper whose colour mostly agrees with that; return file -> label."""
    draw = np.random.default_rng(seed)
    labels = {}
    for number in range(count):
        stands = bool(number % 2)
        pixels = np.zeros((10, 10, 3)) + (RED if stands == (draw.random() < bias) else BLUE)
        place = draw.integers(2, 7)
        pixels[(slice(None), slice(place, place + 2)) if stands else slice(place, place + 2)] *= 0.5
        file = folder / ("new" if bias < 0.9 else "stands" if stands else "lies") / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels + draw.normal(0, 12, pixels.shape)).clip(0, 255).astype(np.uint8)).save(file)
        labels[str(file.resolve())] = "stands" if stands else "lies"
    return labels


@pytest.fixture(scope="module")
def bar_audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    folder = tmp_path_factory.mktemp("bars")
    draw_bars(folder / "old", 400, 0.93, 0)
    truth = draw_bars(folder, 160, 0.4, 1)
    unanswered = audit(folder / "old", folder / "out", new_rows=folder / "new", ask=20, size=10, epochs=4, threads=1)
    sheet = pd.read_csv(unanswered.path / "sheet.csv", dtype={"answer": object})
    return unanswered.answer(sheet.assign(answer=[truth[path] for path in sheet["path"]]))


def test_pictures_show_the_planted_colour(bar_audit: Audit) -> None:
    """Conflicting images have the other label's colour, and views that see colour explain them."""
    candidates = bar_audit.summary["new_rows"]["candidates"]
    described = [candidate for candidate in candidates if candidate["contrasts"]]
    assert len(described) >= 2
    for candidate in described:
        (contrast,) = candidate["contrasts"]
        for row in contrast["rows"]:
            is_red = {kind: [is_mostly_red(image["image"]) for image in row[kind]] for kind in ("agree", "conflict")}
            is_red_expected = row["label"] == "stands"
            assert len(is_red["agree"]) == 6 and is_red["agree"].count(is_red_expected) >= 5
            assert is_red["conflict"].count(not is_red_expected) > len(is_red["conflict"]) / 2
    estimator = next(candidate for candidate in described if not candidate["views"])
    assert set(estimator["explained_by"]) & {"colour", "border", "light", "thumbnail"} or "places" in str(estimator)
    part = read_corrections(bar_audit)
    if bar_audit.verdict == "shortcut":
        assert "Bias-conflicting, " in part and part.count("<img ") == part.count('alt="') > 12


def test_page_shows_pictures_of_shifted_views(tmp_path: Path, bar_audit: Audit) -> None:
    """New rows are darker: their pictures are, and each side has six."""
    dark = tmp_path / "dark"
    dark.mkdir()
    for file in sorted((bar_audit.path.parent / "new").iterdir())[:60]:
        Image.fromarray((np.asarray(Image.open(file)) * 0.5).astype(np.uint8)).save(dark / file.name)
    dark_audit = audit(bar_audit.path.parent / "old", tmp_path / "out", new_rows=dark, size=10, epochs=1, threads=1)
    shifts = dark_audit.summary["new_rows"]["view_shifts"]
    pictured = [shift for shift in shifts if shift["new_images"]]
    assert 1 <= len(pictured) <= 3 and pictured == shifts[: len(pictured)]
    for shift in pictured:
        old, new = (
            np.mean([decode_image(image).mean() for image in shift[side]]) for side in ("old_images", "new_images")
        )
        assert len(shift["old_images"]) == len(shift["new_images"]) == 6 and new < 0.7 * old
    part = read_page(dark_audit).partition("<h2>What changed</h2>")[2].partition("<h2>")[0]
    assert part.count("<img ") == 12 * len(pictured)
    assert "What changed: " in repr(dark_audit)


def test_page_of_the_fixed_run_starts_with_the_counts_of_answers(shifted_audit: Audit, tmp_path: Path) -> None:
    answered = Audit(shutil.copytree(shifted_audit.path, tmp_path / "copy"), trust_code=True).answer(
        fill_sheet(shifted_audit)
    )
    rows = answered.summary["new_rows"]["answered_rows"]
    disputed = [row for row in rows if row["erm_label"] != row["compared_label"]]
    right = [sum(row[name] == row["label"] for row in disputed) for name in ("erm_label", "compared_label")]
    assert answered.verdict == "shortcut" and right[1] > right[0]
    answered.fix(tmp_path / "fixed")
    counts = json.loads((tmp_path / "fixed" / "report.json").read_text())["answers"]
    assert [counts[name] for name in ("num_answers", "num_disputed", "erm_right", "advice_right")] == [
        len(rows),
        len(disputed),
        *right,
    ]
    page = (tmp_path / "fixed" / "report.html").read_text(encoding="utf-8")
    verdict = page.partition('<p class="verdict">')[2].partition("</p>")[0]
    totals = [sum(row[name] == row["label"] for row in rows) for name in ("erm_label", "compared_label")]
    assert verdict.startswith(
        f"Of your {len(rows)} answers, ERM is right on {totals[0]} and the advice on {totals[1]};"
    )
    link = re.search(r'<a href="(.*?)">What it corrects', page)
    assert link is not None and (tmp_path / "fixed" / link[1]).resolve() == (answered.path / "report.html").resolve()
    assert "predict fixed NEW-ROWS" in page


def test_audit_without_conflict_descriptions_can_be_read(shifted_audit: Audit, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(shifted_audit.path, tmp_path / "older"))
    values = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    del values["conflicts"]
    for candidate in values["new_rows"]["candidates"]:
        del candidate["contrasts"], candidate["explained_by"]
    (folder / "audit.json").write_text(json.dumps(values), encoding="utf-8")
    write_checksums(folder, SEALED, folder)
    answered = Audit(folder).answer(fill_sheet(shifted_audit))
    assert "What the correction corrects" in read_page(answered) or answered.verdict != "shortcut"
