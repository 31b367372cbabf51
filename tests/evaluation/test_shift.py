"""Tables of groups, then and now: the p value, the distance and the words."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from logit_correction.evaluation.shift import GroupShift


def shift(reference: Any, new: Any) -> GroupShift:
    tables = np.asarray(reference, np.int64), np.asarray(new, np.int64)
    return GroupShift(*tables, ["cat", "dog"], ["in", "out"], [[0], [1]])


def test_the_drawn_p_value_is_pearsons_where_counts_are_large() -> None:
    for new in ([[420, 95, 5], [85, 390, 5]], [[400, 130, 5], [100, 360, 5]], [[430, 100, 6], [110, 380, 4]]):
        found = shift([[850, 200, 10], [180, 760, 10]], new)
        exact = chi2_contingency(np.stack([found.reference.ravel(), found.new.ravel()]), correction=False).pvalue
        assert found.p_value == pytest.approx(exact, abs=0.02)


def test_rows_of_the_same_kind_have_not_moved() -> None:
    draw, moved = np.random.default_rng(0), 0
    for _ in range(40):
        tables = draw.multinomial(300, [0.4, 0.1, 0.0, 0.1, 0.4, 0.0], size=2).reshape(2, 2, 3)
        found = shift(*tables)
        moved += found.moved
        assert found.sentence().startswith("The groups have moved" if found.moved else "No sign that the groups")
    assert moved <= 2  # at a level of 0.01


def test_a_move_is_told_with_its_size() -> None:
    found = shift([[450, 50, 0], [50, 450, 0]], [[60, 40, 0], [40, 50, 10]])
    assert found.moved and found.p_value < 0.001
    assert found.distance == pytest.approx(0.5 * (0.15 + 0.15 + 0.15 + 0.2 + 0.05))
    assert found.distance > found.distance_by_chance > 0
    now = found.conflict(found.new)
    assert (now.count, now.rows) == (80, 190) and now.interval[0] < 80 / 190 < now.interval[1]
    assert "42.1 % of the new rows" in found.sentence() and "10.0 % of the validation rows do" in found.sentence()
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["conflict"]["reference"]["share"] == 0.1 and plain["moved"] is True
    assert [cell["looks"] for cell in plain["cells"]] == ["in", "out", "in", "out", None]
    assert [cell["conflict"] for cell in plain["cells"]] == [False, True, True, False, None]
    assert sum(cell["new_share"] for cell in plain["cells"]) == pytest.approx(1)


def test_few_rows_and_none() -> None:
    few = shift([[450, 50, 0], [50, 450, 0]], [[0, 1, 0], [0, 0, 0]])
    assert not few.moved and 0.01 < few.p_value <= 1
    nothing = shift([[450, 50, 0], [50, 450, 0]], np.zeros((2, 3)))
    assert (nothing.p_value, nothing.distance) == (1.0, 0.0) and "cannot be compared" not in nothing.reference_name
    assert "nothing can be compared" in nothing.sentence() and nothing.conflict(nothing.new).value is None
    same = shift([[7, 0, 0], [0, 0, 0]], [[3, 0, 0], [0, 0, 0]])
    assert same.p_value == 1.0
