"""Colours of the attribute values."""

from __future__ import annotations

import pytest
import torch

from logit_correction.bench.colors import COLORS, JITTER, check_severity, color_names, jittered_colors
from logit_correction.errors import InputError


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_jitter_has_the_named_mean_and_spread(severity: int) -> None:
    gray = list(COLORS).index("gray")  # far from 0 and 1, so that nothing is clamped
    drawn = jittered_colors(torch.full((20_000,), gray), severity, torch.Generator().manual_seed(0))
    spread = (0.05, 0.02, 0.01, 0.005, 0.002)[severity - 1]
    mean = torch.tensor(COLORS["gray"]) / 255
    assert drawn.shape == (20_000, 3) and drawn.dtype == torch.float32
    assert bool(((drawn.mean(0) - mean).abs() < 5 * spread / 20_000**0.5).all())
    torch.testing.assert_close(drawn.std(0), torch.full((3,), spread), rtol=0.03, atol=0)


def test_colours_stay_in_range() -> None:
    drawn = jittered_colors(torch.arange(11).repeat(500), 1, torch.Generator().manual_seed(0))
    assert float(drawn.min()) == 0.0 and float(drawn.max()) == 1.0


def test_every_row_has_a_jitter_of_its_own() -> None:
    drawn = jittered_colors(torch.zeros(50, dtype=torch.long), 1, torch.Generator().manual_seed(0))
    assert len(drawn.unique(dim=0)) == 50


def test_colours_can_be_told_apart_at_every_severity() -> None:
    mean = torch.tensor(list(COLORS.values())) / 255
    distance = torch.cdist(mean, mean) + 9 * torch.eye(len(mean))
    assert float(distance.min()) > 4 * max(JITTER)


def test_names_run_out_with_a_clear_word() -> None:
    assert color_names(3) == list(COLORS)[:3] and len(color_names(11)) == len(set(color_names(11))) == 11
    with pytest.raises(InputError, match="12 colours, but there are only 11"):
        color_names(12)


@pytest.mark.parametrize("severity", [0, 6, -1])
def test_a_severity_out_of_range_is_refused(severity: int) -> None:
    with pytest.raises(InputError, match=f"severity is {severity}"):
        check_severity(severity)
