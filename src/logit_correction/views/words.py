"""A view that speaks: what a network that knows ImageNet's 1,000 classes says to see in a photo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from logit_correction.views.base import EVERYTHING, View, ViewInputs
from logit_correction.views.texts import LEAST_ROWS, LEAST_SHARE, MOST_SHARE

#: So many of a photo's likeliest classes are said of it.
SAID = 5


class PhotoWords(View):
    """Whether one of ImageNet's classes is among the five likeliest of a photo, by the encoder in front: 0 or 1.

    The classes name much that is no shortcut, the label itself among them, so that they are no evidence by themselves.
    A person reads the words of each label, and says which of them are a shortcut or legitimate.
    """

    breadth = EVERYTHING
    few = 3
    needs: ClassVar[str] = "photos behind the encoder of the extra `photos`"

    def __init__(self, number: int) -> None:
        """Choose the class by its number."""
        self.number, self.name = number, f"words:{class_names()[number]}"
        self.sentence = f"whether {class_names()[number]!r} stands in the photo"

    @classmethod
    def views_of(cls, inputs: ViewInputs) -> list[View]:
        return [cls(number) for number in common_words(present(inputs))]

    def can_look(self, inputs: ViewInputs) -> bool:
        return inputs.classes(torch.zeros(min(1, inputs.num_rows), dtype=torch.long)) is not None

    def features(self, inputs: ViewInputs) -> Tensor:
        return self.features_together([self], inputs)[0]

    @classmethod
    def features_together(cls, members: Sequence[View], inputs: ViewInputs) -> list[Tensor]:
        """Ask for the classes once, not once for each word."""
        there = present(inputs).float()
        return [there[:, word.number : word.number + 1] for word in members if isinstance(word, PhotoWords)]


@cache
def class_names() -> tuple[str, ...]:
    """Return the names of ImageNet's 1,000 classes."""
    from torchvision.models import ResNet18_Weights

    return tuple(ResNet18_Weights.IMAGENET1K_V1.meta["categories"])


def present(inputs: ViewInputs) -> Tensor:
    """Return which classes are said of each photo, (N, 1000) bool; (N, 0) where nothing is said."""
    found = []
    for rows in inputs.chunks():
        if (likely := inputs.classes(rows)) is None:
            return torch.zeros(inputs.num_rows, 0, dtype=torch.bool)
        places = likely.topk(SAID, dim=1).indices
        found.append(torch.zeros_like(likely, dtype=torch.bool).scatter_(1, places, True))
    return torch.cat(found) if found else torch.zeros(0, 0, dtype=torch.bool)


def common_words(there: Tensor) -> list[int]:
    """Return the numbers of the classes that are said of some photos and not of nearly all; ``there`` is (N, C)."""
    rows, least = there.sum(dim=0), max(LEAST_ROWS, math.ceil(LEAST_SHARE * len(there)))
    return ((rows >= least) & (rows < MOST_SHARE * len(there))).nonzero().flatten().tolist()
