"""Options that cannot be are refused by name where a part is made, before anything is read or trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from logit_correction import Auto, Clusters, CrossFitted, Given, InputError, Online
from logit_correction.data.digits import Digits
from logit_correction.data.rows import Splitting
from logit_correction.methods.parts import Counted, GroupMixUp, IndependentMixUp, Moving
from logit_correction_lab.sources.ccifar10 import CorruptedCIFAR10
from logit_correction_lab.sources.colored_mnist import ColoredMNIST
from logit_correction_lab.sources.planted import Planted

CASES: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (CrossFitted, {"splits": 0}, "splits is 0"),
    (CrossFitted, {"epochs": 0}, "epochs is 0"),
    (CrossFitted, {"input_dropout": 1.0}, r"input_dropout is 1\.0"),
    (Online, {"q": 1.1}, r"q is 1\.1"),
    (Online, {"temperature": 0.0}, r"temperature is 0\.0"),
    (Online, {"head_start_epochs": 2, "epochs": 1.5}, r"epochs is 1\.5, but must be at least 2"),
    (Online, {"input_dropout": float("nan")}, "input_dropout is nan"),
    (Clusters, {"attributes": Online()}, "give head_start_epochs"),
    (Clusters, {"attributes": CrossFitted()}, "give head_start_epochs"),
    (Auto, {"shortcut": ["colour"], "legitimate": ["colour"]}, "both as shortcut and as legitimate"),
    (Auto, {"shortcut": ["colour"], "views": ["texture"]}, "leave views out"),
    (Auto, {"shortcut": ["colour", "biased"]}, "no other shortcut with it"),
    (Auto, {"run": "folder", "shortcut": ["column:capital"]}, "leave|give one"),
    (Auto, {"run": "folder", "predictions": "a.csv"}, "leave|give one"),
    (Given, {}, "needs a file, or a column of the data"),
    (IndependentMixUp, {"limit": 1.1}, r"limit is 1\.1"),
    (GroupMixUp, {"limit": 0.6}, r"limit is 0\.6"),
    (Counted, {"smoothing": -0.1}, r"smoothing is -0\.1"),
    (Moving, {"momentum": 1.0}, r"momentum is 1\.0"),
    (Moving, {"floor": -1e-3}, r"floor is -0\.001"),
    (Splitting, {"valid_fraction": -1}, "valid_fraction"),
    (Splitting, {"test_fraction": 1}, "test_fraction"),
    (Splitting, {"valid_fraction": 0.5, "test_fraction": 0.5}, "no row to train"),
    (ColoredMNIST, {"minority_ratio": 0.0}, "minority_ratio is 0"),
    (ColoredMNIST, {"severity": 9}, "severity is 9"),
    (ColoredMNIST, {"valid": "fair"}, "valid 'fair'"),
    (ColoredMNIST, {"correlation": [[i + 2] for i in range(10)]}, "12 colours, but there are only 11"),
    (ColoredMNIST, {"scaling": "triple"}, "scaling 'triple'.*unit, double"),
    (ColoredMNIST, {"shift": 28}, "shift is 28"),
    (Digits, {"correlation": "one-to-none"}, "one-to-none.*many-to-one"),
    (Digits, {"correlation": [[0], [1]]}, "2 rows: give one for each of the 10 labels"),
    (Digits, {"correlation": [[0]] * 9 + [[]]}, "correlation table: A correlation lists"),
    (CorruptedCIFAR10, {"severity": 0}, "severity is 0"),
    (Planted, {"set": "casts"}, "did you mean cast"),
    (Planted, {"minority_ratio": 0.0}, "minority_ratio"),
    (Planted, {"set": "wine", "control": True}, "leave --data.control out"),
    (Planted, {"set": "digits", "rows": 30}, "rows is 30"),
]


@pytest.mark.parametrize(("part", "options", "words"), CASES)
def test_what_is_impossible_is_named(part: Callable[..., Any], options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        part(**options)
