"""Heads on views that are kept, to estimate the attribute of rows that they were not trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from logit_correction.errors import InputError
from logit_correction.types import Inputs
from logit_correction.views.base import View, ViewInputs, features_of
from logit_correction.views.choose import state_of, view_of

#: Standardised features are kept within so many standard deviations.
MOST_DEVIATIONS = 8.0

_OTHER_VERSION = "the heads of the run are of another version: train again"


@dataclass(frozen=True)
class Head:
    """A trained head as plain tensors: it uses some columns, through linear layers with ReLU in between.

    Attributes:
        columns: (F',) long, the features that it uses.
        layers: Weight (out, in) and bias (out,) of each layer.
    """

    columns: Tensor
    layers: Sequence[tuple[Tensor, Tensor]]

    def __call__(self, features: Tensor) -> Tensor:
        """Return class probabilities (n, L) of features (n, F), standardised."""
        found = features[:, self.columns]
        for number, (weight, bias) in enumerate(self.layers):
            found = linear(found.relu() if number else found, weight, bias)
        return found.softmax(dim=1)


def standardized(features: Tensor) -> Tensor:
    """Bring features (N, F) to mean 0 and deviation 1, and within 8 deviations; what does not vary becomes 0."""
    return scaled(features, *scale_of(features))


def scale_of(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the deviation (F,) of features (N, F)."""
    deviation, mean = torch.std_mean(features, dim=0)
    return mean, deviation


def scaled(features: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """Bring features (n, F) to the scale of those of which mean and deviation are given; see ``standardized``."""
    found = (features - mean) / deviation.clamp_min(1e-4)
    # A head has learnt nothing of what did not vary, so new values of it count for nothing.
    return found.mul_(deviation > 0).clamp_(-MOST_DEVIATIONS, MOST_DEVIATIONS)


@dataclass(frozen=True)
class KeptHeads:
    """Views, how their features are brought to one scale, and heads on them; tensors and plain values alone.

    Attributes:
        views: Fitted.
        mean: (F,) of the training rows' features.
        deviation: (F,) of the same.
        heads: Those of the last round of cross-fitting.
        odds: From which a row counts as minority.
    """

    views: Sequence[View]
    mean: Tensor
    deviation: Tensor
    heads: Sequence[Head]
    odds: float

    @torch.no_grad()
    def probability(self, rows: ViewInputs) -> Tensor:
        """Return class probabilities (n, L) of rows by what the views keep of them, the mean over the heads.

        Raises:
            InputError: If a view keeps other features than when the heads were trained: another version did that.
        """
        features = torch.cat(features_of(self.views, rows), dim=1)
        if features.shape[1] != len(self.mean):
            raise InputError(_OTHER_VERSION)
        features = scaled(features, self.mean, self.deviation)
        return torch.stack([head(features) for head in self.heads]).mean(dim=0)

    def state(self) -> dict[str, Any] | None:
        """Return what a checkpoint holds; None where a view of a user's own holds what cannot be kept."""
        views = [state_of(view) for view in self.views]
        if None in views:
            return None
        heads = [{"columns": head.columns, "layers": [list(layer) for layer in head.layers]} for head in self.heads]
        scale = {"mean": self.mean, "deviation": self.deviation}
        return {"views": views, "heads": heads, "odds": self.odds, **scale}

    @classmethod
    def from_state(cls, state: dict[str, Any] | None, own: Sequence[str]) -> KeptHeads | None:
        """Return what ``state`` described.

        Args:
            state: What ``state`` returned; None where no heads could be kept.
            own: Names of views that the run's options give; dotted paths among them may be imported.

        Raises:
            InputError: If another version wrote it.
        """
        if state is None:
            return None
        try:
            heads = [Head(one["columns"], [(weight, bias) for weight, bias in one["layers"]]) for one in state["heads"]]
            views = [view_of(one, own) for one in state["views"]]
            return cls(views, state["mean"], state["deviation"], heads, state["odds"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(_OTHER_VERSION) from error


def answers(network: nn.Module | Callable[[Inputs], Tensor], rows: ViewInputs, device: torch.device) -> Tensor:
    """Return the class probabilities (n, L) of rows by a network's logits, on the CPU."""
    found = []
    with torch.no_grad():
        for chunk in rows.image_chunks():
            inputs = rows.inputs(chunk)
            if isinstance(inputs, dict):
                moved: Inputs = {name: value.to(device) for name, value in inputs.items()}
            else:
                moved = inputs.to(device)
            found.append(network(moved).float().softmax(dim=1).cpu())
    return torch.cat(found)
