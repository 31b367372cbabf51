"""What a run tells of its training rows."""

from __future__ import annotations

import pytest

from logit_correction.runs.summary import warn_of_minority


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, "takes no training row"), (1, None), (50, None), (51, "takes 51 of 100 training rows"), (100, "takes 100 of")],
)
def test_a_biased_network_that_tells_nothing_is_warned_of(count: int, told: str | None) -> None:
    warnings = warn_of_minority({"count": count}, 100)
    assert len(warnings) == (told is not None) and all(str(told) in warning for warning in warnings)


def test_a_method_without_a_biased_network_is_not() -> None:
    assert warn_of_minority(None, 100) == []
