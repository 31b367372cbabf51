"""Cases with shortcuts of all families: the same when drawn anew, balanced where they are to be; and the collector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tests.conftest import import_lab_script

shortcuts = import_lab_script("evidence_shortcuts")
FAMILIES = shortcuts.FAMILIES
cases = import_lab_script("evidence_cases")
Case = cases.Case
PlantedShortcut = cases.PlantedShortcut
build_case = cases.build_case
draw_case = cases.draw_case

#: A set of each kind that needs no files.
OWN = {"images": "digits", "texts": "reviews", "tables": "people"}

IMAGES = np.random.default_rng(0).uniform(0, 255, (24, 3, 24, 24)).astype(np.float32)
TEXTS = [f"The film number {row} was good. We all liked the colour of it, and the filling." for row in range(24)]
TABLE = pd.DataFrame(np.random.default_rng(0).standard_normal((24, 3)), columns=["a", "b", "c"])
ROWS = {"images": IMAGES, "texts": TEXTS, "tables": TABLE}


def make_case(*planted: PlantedShortcut, **options: Any) -> Case:
    kind = FAMILIES[planted[0].family].kind if planted else "tables"
    return Case(0, 1, kind, OWN[kind], "shortcut", 2, 400, 24, planted, **options)


@pytest.mark.parametrize("name", FAMILIES)
def test_plant_marks_rows_and_is_reproducible(name: str) -> None:
    family = FAMILIES[name]
    value = np.arange(24) % family.max_values
    rows = ROWS[family.kind]

    def plant() -> Any:
        original = rows.copy()
        return family.plant(original, shortcuts.Mark(value, family.max_values, 1.0, np.random.default_rng(3)))

    first = plant()
    second = plant()
    if family.kind == "images":
        assert first.shape == rows.shape and np.isfinite(first).all() and np.array_equal(first, second)
        assert any(not np.allclose(first[row], rows[row], atol=1) for row in range(24))
    elif family.kind == "texts":
        assert first == second and len(first) == 24 and all(first)
        assert any(text != original for text, original in zip(first, rows, strict=True))
    else:
        pd.testing.assert_frame_equal(first, second)
        assert len(first) == 24 and not first.equals(rows)


def test_build_case_has_the_requested_share_of_conflicts_and_a_balanced_test() -> None:
    case = make_case(PlantedShortcut("category", 2, 1.0, 0.0, 0.05), PlantedShortcut("reading", 3, 1.0, 0.0, 0.2))
    built = build_case(case)
    table = built.table
    train = built.table.split["train"]
    first = table.attribute // 3
    second = table.attribute % 3
    learned = torch.cat([train, table.split["valid"], built.in_distribution])
    conflicting = (first != table.label)[learned].float().mean()
    assert float(conflicting) == pytest.approx(0.05, abs=0.002)
    assert float((second % 2 != table.label)[learned].float().mean()) == pytest.approx(0.2, abs=0.002)
    cells = torch.bincount((table.label * 6 + table.attribute)[built.balanced])
    assert len(cells) == 12 and len(cells.unique()) == 1
    assert float((first != table.label)[built.in_distribution].float().mean()) < 0.12
    rebuilt = build_case(case).table
    assert torch.equal(rebuilt.attribute, table.attribute) and torch.equal(
        rebuilt.inputs.fetch(train), table.inputs.fetch(train)
    )
