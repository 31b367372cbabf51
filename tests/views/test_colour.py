from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from logit_correction.views.base import ViewInputs
from logit_correction.views.colour import QUANTILES, Colour


def images(*shape: int, seed: int = 0, top: int = 256) -> torch.Tensor:
    return torch.randint(top, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.sampled_from([1, 3]), st.integers(1, 9), st.integers(1, 9), st.integers(1, 256))
def test_statistics_equal_those_of_sorted_pixels_in_float64(rows: int, channels: int, h: int, w: int, top: int) -> None:
    x = images(rows, channels, h, w, seed=h, top=top)
    flat = x.double().flatten(2) / 255
    wanted = [flat.mean(2), flat.std(2, correction=0), flat.amax(2), flat.amin(2)]
    wanted += list(torch.quantile(flat, torch.tensor(QUANTILES, dtype=torch.float64), dim=2))
    found = Colour().look(x)
    assert found.dtype == torch.float32
    assert_close(found, torch.cat(wanted, dim=1).float(), atol=1e-6, rtol=0)


def test_an_image_of_one_colour_has_no_deviation() -> None:
    x = torch.full((2, 3, 7, 5), 201, dtype=torch.uint8)
    found = Colour().look(x).view(2, 9, 3)
    assert (found[:, 1] == 0).all()
    assert_close(found[:, [0, 2, 3, 4, 5, 6, 7, 8]], torch.full((2, 8, 3), 201 / 255))


def test_where_the_pixels_are_does_not_matter() -> None:
    x = images(4, 3, 8, 6)
    order = torch.randperm(48, generator=torch.Generator().manual_seed(1))
    moved = x.flatten(2)[..., order].view_as(x)
    assert torch.equal(Colour().look(x), Colour().look(moved))


def test_parts_give_what_one_part_gives() -> None:
    x = images(1100, 3, 4, 4)
    inputs = ViewInputs(num_rows=len(x), inputs=lambda rows: x[rows], images=lambda rows: x[rows])
    assert torch.equal(Colour().features(inputs), Colour().look(x))


def test_no_view_without_images() -> None:
    plain = ViewInputs(num_rows=3, inputs=lambda rows: torch.zeros(len(rows), 2))
    assert Colour.views_of(plain) == []
