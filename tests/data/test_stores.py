"""Stores of inputs against a plain loop over rows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from logit_correction.bench.digits import ColoredStore
from logit_correction.data.stores import ArrayStore

ROWS = torch.tensor([4, 0, 4, 2])


def random_bytes(*shape: int) -> Tensor:
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def colored_store(scale: float = 1.0) -> ColoredStore:
    color = torch.rand((5, 3), generator=torch.Generator().manual_seed(1))
    return ColoredStore(random_bytes(3, 4, 6), torch.tensor([2, 0, 0, 1, 2]), color, scale)


@pytest.mark.parametrize("values", [torch.randn(5, 2, dtype=torch.float64), random_bytes(5, 2)])
def test_changing_a_fetched_batch_leaves_the_store_alone(values: Tensor) -> None:
    store, factor = ArrayStore(values.clone(), 2.0), 1 if values.is_floating_point() else 255
    torch.testing.assert_close(store.fetch(ROWS), values[ROWS].float() * 2 / factor)
    store.fetch(ROWS).zero_()
    assert torch.equal(store.values, values) and store.images(ROWS) is None


@pytest.mark.parametrize("scale", [1.0, 1 / 255])
def test_colored_rows_are_their_glyph_times_their_colour(scale: float) -> None:
    store = colored_store(scale)
    fetched = store.fetch(ROWS)
    for position, row in enumerate(ROWS.tolist()):
        glyph = store.glyphs[int(store.glyph_of_row[row])].double() / 255
        for channel in range(3):
            expected = glyph * float(store.color[row, channel]) * scale
            torch.testing.assert_close(fetched[position, channel].double(), expected, rtol=1e-5, atol=1e-9)
    assert fetched.dtype == torch.float32 and store.input_shape == (3, 4, 6)
    images = store.images(ROWS)
    assert images.dtype == torch.uint8 and (images.double() - fetched.double() * 255 / scale).abs().max() <= 0.5001
