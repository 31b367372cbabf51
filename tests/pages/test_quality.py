"""AUROC, F1 and calibration by attribute on the report page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from logit_correction import InputError
from logit_correction.pages.html import render_page

Make = Callable[..., Path]


def test_a_table_by_attribute_stands_under_the_groups(birds: Make, tmp_path: Path) -> None:
    runs = [birds(tmp_path / "erm", "ERM"), birds(tmp_path / "lc", "LC")]
    page = render_page(runs)
    assert page.count("AUROC, F1 and calibration by attribute") == 1
    for run in runs:
        for row in json.loads((run / "report.json").read_text())["test"]["by_attribute"]:
            for name in ("accuracy", "auroc", "f1", "ece"):
                assert f'<td class="num">{100 * row[name]:.1f}</td>' in page


def test_a_report_without_these_figures_is_named(birds: Make, tmp_path: Path) -> None:
    run = birds(tmp_path / "erm", "ERM")
    report = json.loads((run / "report.json").read_text())
    del report["test"]["by_attribute"]
    (run / "report.json").write_text(json.dumps(report))
    with pytest.raises(InputError, match=r"report\.json cannot be read \(test\.by_attribute is missing"):
        render_page([run])
