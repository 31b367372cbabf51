from __future__ import annotations

import pandas as pd
import pytest
import torch

from logit_correction.auditing.cost import groups
from logit_correction.auditing.rows import may_be_mislabelled


def test_a_wrong_label_is_told_from_a_conflicting_row() -> None:
    generator = torch.Generator().manual_seed(0)
    count = 2000
    true = torch.randint(3, (count,), generator=generator)
    label, attribute = true.clone(), true.clone()
    conflicting, wrong = torch.zeros(count, dtype=torch.bool), torch.zeros(count, dtype=torch.bool)
    conflicting[:100], wrong[100:200] = True, True
    attribute[:100] = (true[:100] + 1) % 3  # looks like another label
    label[100:200] = (true[100:200] + 1) % 3  # looks like what it is, and is called something else
    # A classifier that leans on nothing but what the row is.
    logits = 4 * torch.nn.functional.one_hot(true, 3) + torch.randn(count, 3, generator=generator)
    marked = may_be_mislabelled(logits.softmax(1), label, attribute)
    assert marked[conflicting].sum() == 0
    assert 0.35 < marked[wrong].float().mean() < 0.65
    assert not marked[200:].any()


def test_the_share_of_an_empty_or_full_cell_has_an_interval_too() -> None:
    frame = pd.DataFrame({"split": "train", "label": ["a"] * 50 + ["b"] * 50, "attribute": ["a"] * 50 + ["b"] * 50})
    cells = {(one["label"], one["attribute"]): one for one in groups(frame, ["a", "b"])}
    full, empty = cells["a", "a"], cells["a", "b"]
    assert (full["share"], empty["share"]) == (1, 0)
    assert full["share_high"] == pytest.approx(1) and empty["share_low"] == pytest.approx(0, abs=1e-9)
    # By Wilson an event that no row of 50 shows may be in one of twenty.
    assert empty["share_high"] == pytest.approx(0.051, abs=0.001) == pytest.approx(1 - full["share_low"], abs=0.001)
