"""The names of labels and marks of a set."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from logit_correction.data.colors import color_names
from logit_correction.data.planted_sets import DIGITS, SetOf, people, reviews
from logit_correction.data.planted_sets.image_marks import value_names
from logit_correction.errors import InputError

#: Labels of data that have labels of their own, in the order of scikit-learn where they are from there.
FIXED = {
    "people": people.LABELS,
    "cancer": ["malignant", "benign"],
    "wine": ["grower 1", "grower 2", "grower 3"],
}

SCANNERS = ["80 kV", "120 kV"]


def checked_labels(name: str, chosen: SetOf, given: str | None, classes: Sequence[str]) -> list[str]:
    """Return the labels of a set: those that are given with commas between, else its own.

    Raises:
        InputError: If a label is unknown or named twice, there is only one, or the set's labels are fixed.
    """
    if chosen.kind in FIXED:
        if given is not None:
            raise InputError(f"the labels of {name} are {', '.join(FIXED[chosen.kind])}: leave --data.labels out")
        return FIXED[chosen.kind]
    known = classes if chosen.kind == "photos" else reviews.SENTIMENTS if chosen.kind == "texts" else DIGITS.split(",")
    labels = [label.strip() for label in (chosen.labels if given is None else given).split(",")]
    unknown = [label for label in labels if label not in known]
    if unknown:
        raise InputError(f"labels has {unknown[0]!r}, which {name} has not: take some of {', '.join(known)}")
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise InputError(f"labels is {given!r}, but must name two labels or more, each once")
    return labels


def mark_names(chosen: SetOf, num_labels: int) -> list[str]:
    """Return the names of the values of a set's mark, one for each label; none where nothing is planted."""
    if chosen.mark is None:
        return []
    if chosen.kind == "photos":
        return value_names(chosen.mark, num_labels)
    fixed = {
        "form_version": people.FORM_VERSIONS,
        "scanner_kv": SCANNERS,
        "signature": list(reviews.SIGNATURES),
        "topic": list(reviews.TOPICS),
    }
    return color_names(num_labels) if chosen.mark == "colour" else fixed[chosen.mark][:num_labels]


def numbered(values: Tensor, kept: Sequence[int]) -> Tensor:
    """Number the values (P,) by their place among ``kept``; -1 where they are not kept."""
    places = torch.full((int(values.max()) + 1,), -1)
    places[torch.tensor(kept)] = torch.arange(len(kept))
    return places[values]
