"""Test rows whose attributes nobody named: judged by the estimate of one run, and nobody in bold."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from logit_correction.errors import NBSP
from logit_correction.evaluation import Predictions
from logit_correction.pages.comparison import compare
from logit_correction.pages.conclusion import Conclusion, conclude
from logit_correction.pages.estimated import sides, with_estimates
from logit_correction.pages.folder import RunFolder
from logit_correction.pages.html import render_page
from logit_correction.pages.tables import comparison_table, reports_of, to_console

Make = Callable[..., Path]


@pytest.fixture
def unnamed(birds: Make, tmp_path: Path) -> list[Path]:
    """ERM, the better one by plain accuracy, and LC, the better one where the ground misleads."""
    skills = {"ERM": (0.99, 0.8), "LC": (0.8, 0.9)}
    return [
        birds(tmp_path / name, name, skill=skill, attribute_names=None, estimated=True)
        for name, skill in skills.items()
    ]


def judged(folders: list[Path]) -> Conclusion:
    (comparison,) = compare([RunFolder.read(folder) for folder in folders])
    found = conclude(comparison)
    return Conclusion(found.headline.replace(NBSP, " "), tuple(text.replace(NBSP, " ") for text in found.details))


def conflicting(folder: Path) -> float:
    rows = Predictions.load(folder / "predictions.parquet")
    ground = np.repeat([0, 1, 0, 1], [2255, 2255, 642, 642])
    return float((rows.prediction == rows.label)[ground != rows.label].mean())


def test_the_estimate_of_one_run_serves_the_others(unnamed: list[Path]) -> None:
    erm, lc = with_estimates([RunFolder.read(folder) for folder in unnamed])
    assert erm.test["estimated_minority"] == pytest.approx(conflicting(unnamed[0]))
    assert lc.test["estimated_minority"] == pytest.approx(conflicting(unnamed[1]))
    assert erm.test["estimated"]["by"] == {"method": "LC", "seed": 0}


def test_an_estimate_of_other_data_serves_nobody(birds: Make, tmp_path: Path) -> None:
    data = {"name": "Other", "options": {}, "facts": {}, "counts": {}}
    erm = birds(tmp_path / "ERM", "ERM", attribute_names=None, estimated=True, data=data)
    lc = birds(tmp_path / "LC", "LC", attribute_names=None, estimated=True)
    first, _ = with_estimates([RunFolder.read(erm), RunFolder.read(lc)])
    assert first.test["estimated_minority"] is None


def test_a_folder_without_predictions_is_shown_by_label(unnamed: list[Path]) -> None:
    (unnamed[0] / "predictions.parquet").unlink()
    found = judged(unnamed)
    assert found.headline.startswith("The test data names no attributes") and "worst label" in found.headline


def test_the_two_sides_of_a_label_are_the_sums_of_its_groups() -> None:
    groups = [
        {"label": "a", "minority": False, "count": 4, "correct": 3},
        {"label": "a", "minority": True, "count": 2, "correct": 1},
        {"label": "a", "minority": True, "count": 2, "correct": 0},
        {"label": "b", "minority": False, "count": 0, "correct": 0},
    ]
    found = {(side["label"], side["attribute"]): (side["count"], side["accuracy"]) for side in sides(groups)}
    assert found[("a", "agrees")] == (4, 0.75) and found[("a", "conflicts")] == (4, 0.25)
    assert found[("b", "agrees")] == (0, None)


def test_the_verdict_is_about_conflicting_rows_and_says_how_they_were_found(unnamed: list[Path]) -> None:
    before, after = (f"{100 * conflicting(folder):.0f}" for folder in unnamed)
    found = judged(unnamed)
    assert found.headline == (
        f"Where the estimated attribute conflicts with the label, ERM is right in {before} % of the cases "
        f"and LC in {after} %: LC gains {int(after) - int(before)} points."
    )
    assert found.details[0].startswith(
        "The test data names no attributes: these 2,897 rows were found by heads on border in the run of LC. Nobody"
    )
    alone = judged(unnamed[1:])
    assert "LC is right in" in alone.headline and "where it agrees: a gap of" in alone.headline


def test_the_page_bolds_nobody_and_shows_estimated_groups_before_labels(unnamed: list[Path], birds: Make) -> None:
    page = render_page(unnamed)
    assert 'class="num best"' not in page
    assert page.index("Accuracy per estimated group") < page.index("Accuracy per label")
    assert "estimated by heads on border; nobody has named it" in page
    assert "Conflicting" in page.split("<h2>Runs side by side</h2>")[1].split("</thead>")[0]


def test_named_groups_are_still_marked(birds: Make, tmp_path: Path) -> None:
    runs = [birds(tmp_path / name, name, estimated=True) for name in ("ERM", "LC")]
    page = render_page(runs)
    assert 'class="num best"' in page and "estimated group" not in page


def test_the_console_bolds_nobody(unnamed: list[Path]) -> None:
    table = comparison_table(reports_of(unnamed))
    assert list(table.columns)[3:6] == ["estimated_minority", "estimated_majority", "average"]
    shown = to_console(table)
    assert not any(str(cell.style) for column in shown.columns for cell in column.cells)  # type: ignore[union-attr]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(shown)
    text = " ".join(console.export_text().split())
    assert "so none is bold" in text and "Conflict, agree: rows whose attribute, as it was estimated" in text


def test_the_spread_between_seeds_is_the_measured_one(birds: Make, tmp_path: Path) -> None:
    runs = {
        name: [birds(tmp_path / f"{name}{i}", name, skill=(0.9, share), seed=i) for i, share in enumerate(shares)]
        for name, shares in {"ERM": (0.4, 0.5, 0.6), "LC": (0.8, 0.9, 0.7)}.items()
    }
    found = judged([run for folders in runs.values() for run in folders])
    values = [100 * RunFolder.read(run).test["minority"] for run in runs["ERM"]]
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    deviation = f"{np.std(values, ddof=1):.0f}" if np.std(values, ddof=1) > 9.95 else f"{np.std(values, ddof=1):.1f}"
    spread = next(text for text in found.details if text.startswith("From seed to seed"))
    assert f"from {low} to {high} % with ERM (standard deviation {deviation} points) and from" in spread
    once = judged([runs["ERM"][0], runs["LC"][0]])
    assert any("of how far another seed would move it, it tells nothing" in text for text in once.details)
    assert not any(text.startswith("From seed") for text in once.details)
