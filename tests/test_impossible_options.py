"""Options that cannot be are refused by name where a part is made, before anything is read or trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from logit_correction import Auto, Clusters, CrossFitted, Given, InputError, Online
from logit_correction.data.digits import Digits
from logit_correction.data.splits import Splitting
from logit_correction.methods.parts import Counted, IndependentMixUp, Moving
from logit_correction_lab.sources.colored_mnist import ColoredMNIST
from logit_correction_lab.sources.planted import Planted

CASES: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (CrossFitted, {"splits": 0}, "splits is 0"),
    (Online, {"q": 1.1}, r"q is 1\.1"),
    (Online, {"head_start_epochs": 2, "epochs": 1.5}, r"epochs is 1\.5, but must be at least 2"),
    (Clusters, {"attributes": Online()}, "give head_start_epochs"),
    (Auto, {"shortcut": ["colour"], "legitimate": ["colour"]}, "both as shortcut and as legitimate"),
    (Given, {}, "needs a file, or a column of the data"),
    (IndependentMixUp, {"limit": 1.1}, r"limit is 1\.1"),
    (Counted, {"smoothing": -0.1}, r"smoothing is -0\.1"),
    (Moving, {"momentum": 1.0}, r"momentum is 1\.0"),
    (Splitting, {"valid_fraction": -1}, "valid_fraction"),
    (Splitting, {"valid_fraction": 0.5, "test_fraction": 0.5}, "no row to train"),
    (ColoredMNIST, {"valid": "fair"}, "valid is 'fair'"),
    (ColoredMNIST, {"correlation": [[i + 2] for i in range(10)]}, "12 values, but there are only crimson"),
    (ColoredMNIST, {"scaling": "triple"}, "scaling is 'triple'.*unit, double"),
    (Digits, {"correlation": "one-to-none"}, "one-to-none.*many-to-one"),
    (Digits, {"correlation": [[0], [1]]}, "2 rows: give one for each of the 10 labels"),
    (Planted, {"set": "casts"}, "did you mean cast"),
    (Planted, {"set": "wine", "control": True}, "leave `control` out"),
    (Planted, {"set": "digits", "rows": 30}, "rows is 30"),
]


@pytest.mark.parametrize(("part", "options", "words"), CASES)
def test_impossible_option_is_refused_by_name(part: Callable[..., Any], options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        part(**options)
