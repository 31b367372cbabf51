"""Stores of inputs against a plain loop over rows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from logit_correction.data.stores import ArrayStore, ColoredStore

ROWS = torch.tensor([4, 0, 4, 2])


def random_bytes(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def colored_store(scale: float = 1.0) -> ColoredStore:
    color = torch.rand((5, 3), generator=torch.Generator().manual_seed(1))
    return ColoredStore(random_bytes(3, 4, 6), torch.tensor([2, 0, 0, 1, 2]), color, scale)


@pytest.mark.parametrize("scale", [1.0, 1 / 255])
def test_bytes_are_brought_to_the_unit_interval_and_scaled(scale: float) -> None:
    values = random_bytes(5, 3, 2, 2)
    store = ArrayStore(values, scale)
    fetched = store.fetch(ROWS)
    expected = torch.stack([values[row].double() / 255 * scale for row in ROWS])
    torch.testing.assert_close(fetched, expected.float())
    assert fetched.dtype == torch.float32 and fetched.max() <= scale * (1 + 1e-6)
    assert len(store) == 5 and store.input_shape == (3, 2, 2)


def test_floats_are_given_as_they_are() -> None:
    values = torch.randn(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    store = ArrayStore(values)
    assert torch.equal(store.fetch(ROWS), values[ROWS].float())
    assert torch.equal(ArrayStore(values, 2.0).fetch(ROWS), values[ROWS].float() * 2)
    assert store.input_shape == (7,) and store.images(ROWS) is None


@pytest.mark.parametrize("values", [torch.ones(5, 2), torch.full((5, 2), 255, dtype=torch.uint8)])
def test_changing_a_fetched_batch_leaves_the_store_alone(values: Tensor) -> None:
    store = ArrayStore(values.clone(), 0.5)
    before = store.fetch(ROWS).clone()
    store.fetch(ROWS).zero_()
    assert torch.equal(store.fetch(ROWS), before)
    assert torch.equal(store.values, values)


def test_images_are_the_bytes_whatever_the_scale() -> None:
    values = random_bytes(5, 3, 2, 2)
    assert torch.equal(ArrayStore(values, 1 / 255).images(ROWS), values[ROWS])
    assert torch.equal(ArrayStore(values.float() / 255).images(ROWS), values[ROWS])
    outside = torch.tensor([-1.0, 2.0]).view(2, 1, 1, 1)
    assert ArrayStore(outside).images(torch.tensor([0, 1])).flatten().tolist() == [0, 255]


@pytest.mark.parametrize("scale", [1.0, 1 / 255])
def test_colored_rows_are_their_glyph_times_their_colour(scale: float) -> None:
    store = colored_store(scale)
    fetched = store.fetch(ROWS)
    for position, row in enumerate(ROWS.tolist()):
        glyph = store.glyphs[int(store.glyph_of_row[row])].double() / 255
        for channel in range(3):
            expected = glyph * float(store.color[row, channel]) * scale
            torch.testing.assert_close(fetched[position, channel].double(), expected, rtol=1e-5, atol=1e-9)
    assert fetched.shape == (4, 3, 4, 6) and fetched.dtype == torch.float32
    assert len(store) == 5 and store.input_shape == (3, 4, 6)


def test_coloured_images_do_not_depend_on_the_scale() -> None:
    images = colored_store().images(ROWS)
    assert images.dtype == torch.uint8
    assert torch.equal(images, colored_store(1 / 255).images(ROWS))
    assert (images.double() - colored_store().fetch(ROWS).double() * 255).abs().max() <= 0.5 + 1e-4


@pytest.mark.parametrize("store", [ArrayStore(random_bytes(5, 3, 2, 2), 0.5), colored_store(0.5)])
def test_moving_keeps_the_contents(store: ArrayStore | ColoredStore) -> None:
    moved = store.to("cpu")
    assert torch.equal(moved.fetch(ROWS), store.fetch(ROWS)) and moved.scale == store.scale
    assert store.to("meta").fetch(ROWS.to("meta")).shape == store.fetch(ROWS).shape
