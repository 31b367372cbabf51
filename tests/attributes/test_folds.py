"""Parts of a batch, each for a network of its own."""

from __future__ import annotations

import pytest
import torch

from logit_correction.attributes.folds import gather_members, take_rows


@pytest.mark.parametrize(("share", "most"), [(0.5, 170), (2 / 3, 215)])
def test_members_find_a_place_each(share: float, most: int) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        member = torch.rand(256, generator=generator) < share
        own, weight = gather_members(member, share)
        assert len(own) < most and bool(member[own].all())
        assert sorted(own[weight > 0].tolist()) == member.nonzero().flatten().tolist()
        assert float(weight.sum()) == pytest.approx(1.0)


def test_more_members_than_places_and_none() -> None:
    own, weight = gather_members(torch.ones(256, dtype=torch.bool))
    assert len(set(own.tolist())) == len(own) and float(weight.sum()) == pytest.approx(1.0)
    assert float(gather_members(torch.zeros(8, dtype=torch.bool))[1].sum()) == 0.0


def test_rows_of_images_and_of_tokens() -> None:
    rows = torch.tensor([2, 0])
    assert take_rows(torch.arange(6).view(3, 2), rows).tolist() == [[4, 5], [0, 1]]
    found = take_rows({"input_ids": torch.arange(3), "attention_mask": torch.tensor([1, 1, 0])}, rows)
    assert {name: value.tolist() for name, value in found.items()} == {"input_ids": [2, 0], "attention_mask": [0, 1]}
