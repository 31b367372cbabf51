"""What the page says of overlapping groups and of the adjusted average."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logit_correction.pages.comparison import compare
from logit_correction.pages.folder import RunFolder
from logit_correction.pages.html import write_page
from logit_correction.pages.sections import part


def changed(run: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    change(report)
    (run / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return run


def headings(run: Path) -> list[str]:
    (comparison,) = compare([RunFolder.read(run)])
    return [heading for _, heading, _ in part(comparison, several=False)["columns"]]


@pytest.mark.parametrize(("shift", "shown"), [(0.0, False), (0.0001, False), (0.01, True), (None, False)])
def test_the_adjusted_average_is_shown_where_it_differs(
    shift: float | None, shown: bool, birds: Callable[..., Path], tmp_path: Path
) -> None:
    def change(report: dict[str, Any]) -> None:
        test = report["test"]
        test["adjusted_average"] = None if shift is None else test["average"] + shift

    run = changed(birds(tmp_path / "run", "ERM"), change)
    assert ("Adjusted average" in headings(run)) == shown
    write_page([run], tmp_path / "page.html")
    assert ("Adjusted average" in (tmp_path / "page.html").read_text(encoding="utf-8")) == shown


def overlapping(report: dict[str, Any]) -> None:
    """Sixteen groups that overlap, in place of the four."""
    one = report["test"]["groups"][0] | {"minority": None}
    names = [(label, f"group {i}") for label in ("calm", "rude") for i in range(8)]
    report["test"]["groups"] = [one | {"label": label, "attribute": other} for label, other in names]
    report["test"] |= {"minority": None, "majority": None}
    report["data"]["scoring"] = {"counts": {"train": list(range(100, 116))}, "overlapping": True}


def test_overlapping_groups_are_shown_with_their_own_counts(birds: Callable[..., Path], tmp_path: Path) -> None:
    run = changed(birds(tmp_path / "run", "ERM"), overlapping)
    (comparison,) = compare([RunFolder.read(run)])
    groups = part(comparison, several=False)["groupings"][0]
    assert groups["overlapping"] and [row["train"] for row in groups["table"]] == [str(i) for i in range(100, 116)]
    write_page([run], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Groups overlap" in page and "115 train" in page


def test_other_groups_do_not_overlap(birds: Callable[..., Path], tmp_path: Path) -> None:
    run = birds(tmp_path / "run", "ERM")
    write_page([run], tmp_path / "page.html")
    assert "Groups overlap" not in (tmp_path / "page.html").read_text(encoding="utf-8")
