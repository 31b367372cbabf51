"""Views of images that keep simple summaries, against the same figures computed in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from logit_correction.types import ViewInputs
from logit_correction.views.base import compute_features
from logit_correction.views.images import (
    Border,
    Colour,
    ImageView,
    Light,
    Places,
    Spectrum,
    Stripes,
    Texture,
    Thumbnail,
)

KINDS: list[type[ImageView]] = [Colour, Border, Thumbnail, Light, Places, Spectrum, Stripes, Texture]


def draw_images(*shape: int, seed: int = 0, top: int = 256) -> Tensor:
    return torch.randint(top, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def build_inputs(x: Tensor) -> ViewInputs:
    return ViewInputs(num_rows=len(x), inputs=lambda rows: x[rows], images=lambda rows: x[rows])


def compute_moments(points: Tensor) -> Tensor:
    return torch.cat([points.mean(2), points.std(2, correction=0)], dim=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 16, 19), (4, 70, 65)])
def test_features_of_an_image_do_not_depend_on_the_other_images(kind: Any, shape: tuple[int, ...]) -> None:
    batch = draw_images(5, *shape)
    assert bool(kind.list_views(build_inputs(batch))) is (min(shape[1:]) >= kind.min_side)
    for view in kind.list_views(build_inputs(batch))[:3]:
        view.fit(build_inputs(batch))
        features = view.features(build_inputs(batch))
        assert features.dtype == torch.float32 and len(features) == 5 and bool(features.isfinite().all())
        assert_close(features[3:4], view.features(build_inputs(batch[3:4])), atol=1e-4, rtol=1e-4)
    assert kind.list_views(ViewInputs(num_rows=3, inputs=lambda rows: torch.zeros(len(rows), 2))) == []


@settings(max_examples=15)
@given(st.integers(1, 5), st.sampled_from([1, 3]), st.integers(1, 9), st.integers(1, 9), st.integers(1, 256))
def test_colour_features_equal_quantiles_in_float64(rows: int, channels: int, h: int, w: int, top: int) -> None:
    batch = draw_images(rows, channels, h, w, seed=h, top=top)
    flat = batch.double().flatten(2) / 255
    expected = [flat.mean(2), flat.std(2, correction=0), flat.amax(2), flat.amin(2)]
    expected += list(torch.quantile(flat, torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95], dtype=torch.float64), dim=2))
    assert_close(Colour().image_features(batch), torch.cat(expected, dim=1).float(), atol=1e-6, rtol=0)
    assert bool((Colour().image_features(torch.full_like(batch, 201))[:, channels : 2 * channels] == 0).all())


def test_border_features_equal_moments_of_frame_and_centre() -> None:
    batch = draw_images(5, 3, 16, 24)
    inside = torch.zeros(16, 24, dtype=torch.bool)
    edge = torch.ones(16, 24, dtype=torch.bool)
    inside[2:-2, 2:-2] = True
    edge[1:-1, 1:-1] = False
    points = batch.double() / 255
    frame, centre, outer = (compute_moments(points[..., mask]) for mask in (~inside, inside, edge))
    assert_close(
        Border().image_features(batch), torch.cat([frame, centre, frame - centre, outer], 1).float(), atol=1e-6, rtol=0
    )


# Places


def test_mark_in_a_corner_changes_the_view_of_its_cell_only() -> None:
    plain = draw_images(3, 3, 18, 18)
    marked = plain.clone()
    marked[:, 0, :3, -3:] = 255
    cells = Places.list_views(build_inputs(plain))
    before = compute_features(cells, build_inputs(plain))
    after = compute_features(cells, build_inputs(marked))
    assert [i for i, (old, new) in enumerate(zip(before, after, strict=True)) if not torch.equal(old, new)] == [3]
    assert cells[3].name == "places:1,4"


# Light


def draw_lit_patches(slope: float, downwards: bool) -> Tensor:
    """Patches of many brightnesses, 16 images of 32 x 32, brighter to the right or down by ``slope`` a pixel."""
    grey = torch.randint(40, 160, (16, 1, 4, 4), generator=torch.Generator().manual_seed(0))
    patches = grey.repeat_interleave(8, 2).repeat_interleave(8, 3).expand(-1, 3, -1, -1).float()
    ramp = 1 + slope * (torch.arange(32) - 16)
    return (patches * (ramp.unsqueeze(1) if downwards else ramp)).round().clamp(0, 255).to(torch.uint8)


def compute_median_slopes(x: Tensor) -> Tensor:
    """Return the median slopes (B, step, direction): to the right, downwards."""
    return Light().image_features(x).view(len(x), 2, 2, 7)[..., 1]


@pytest.mark.parametrize("slope", [-0.01, 0.02])
@pytest.mark.parametrize("downwards", [False, True])
def test_light_features_show_the_direction_of_a_brightness_slope(slope: float, downwards: bool) -> None:
    slopes = compute_median_slopes(draw_lit_patches(slope, downwards))[
        :, 1
    ]  # three pixels apart: rounding to bytes counts less
    along = slopes[:, int(downwards)]
    across = slopes[:, int(not downwards)]
    assert_close(along.mean(), torch.tensor(slope), rtol=0.25, atol=0)
    assert (along.sign() == (1 if slope > 0 else -1)).all() and (across.abs() < abs(slope) / 3).all()
