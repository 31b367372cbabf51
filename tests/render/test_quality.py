"""AUROC, F1 and calibration by attribute on the report page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from logit_correction.render.html import render_page

Make = Callable[..., Path]


def test_a_table_by_attribute_stands_under_the_groups(birds: Make, tmp_path: Path) -> None:
    runs = [birds(tmp_path / "erm", "ERM"), birds(tmp_path / "lc", "LC")]
    page = render_page(runs)
    assert page.count("AUROC, F1 and calibration by attribute") == 1
    for run in runs:
        for row in json.loads((run / "report.json").read_text())["test"]["by_attribute"]:
            for name in ("accuracy", "auroc", "f1", "ece"):
                assert f'<td class="num">{100 * row[name]:.1f}</td>' in page


def test_runs_of_versions_without_these_figures_have_a_page_too(birds: Make, tmp_path: Path) -> None:
    run = birds(tmp_path / "old", "ERM")
    report = json.loads((run / "report.json").read_text())
    for name in ("by_attribute", "auroc", "f1", "ece"):
        del report["test"][name]
    (run / "report.json").write_text(json.dumps(report))
    assert "AUROC" not in render_page([run])
