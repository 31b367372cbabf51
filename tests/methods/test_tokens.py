"""Texts: their tokens are names, so what would average them is refused before any work begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from logit_correction.errors import InputError
from logit_correction.methods.lc import LC
from logit_correction.methods.mixing import GroupMixUp, IndependentMixUp, Mixing
from logit_correction.methods.staged_lc import StagedLC
from logit_correction.types import Batch, DataInfo, TrainingRows

INFO = DataInfo(num_labels=2, num_rows=6, input_shape=(4,), tokens=True)


class Words(nn.Module):
    """The mean of word vectors, and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors, self.head = nn.Embedding(9, 3), nn.Linear(3, 2)

    def features(self, inputs: dict[str, Tensor]) -> Tensor:
        vectors: Tensor = self.vectors(inputs["input_ids"])
        return vectors.mean(1)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        logits: Tensor = self.head(self.features(inputs))
        return logits


@pytest.mark.parametrize("method", [LC, StagedLC])
@pytest.mark.parametrize("mixing", [IndependentMixUp(), GroupMixUp()], ids=["independent", "group"])
def test_mixing_tokens_is_refused_when_the_method_is_built(method: Callable[..., Any], mixing: Mixing) -> None:
    with pytest.raises(InputError, match=r"tokens cannot be mixed: mix features \(--method\.mixing\.place features\)"):
        method(Words, INFO, mixing=mixing)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (LC, {"attributes": "Online", "mixing": GroupMixUp(place="features")}),
        (LC, {"attributes": "Online", "mixing": "NoMixing"}),
        (StagedLC, {"attributes": "TrueAttributes", "mixing": IndependentMixUp(place="features")}),
        (StagedLC, {"mixing": "NoMixing"}),
    ],
)
def test_texts_are_trained_on_where_no_token_is_mixed(method: Callable[..., Any], options: dict[str, Any]) -> None:
    algorithm = method(Words, INFO, **options)
    label, attribute = torch.arange(6) % 2, torch.arange(6) // 3
    algorithm.setup(TrainingRows(label, attribute if algorithm.needs_attributes else None))
    inputs = {"input_ids": torch.arange(24).reshape(6, 4) % 9, "attention_mask": torch.ones(6, 4, dtype=torch.long)}
    batch, outputs = Batch(inputs, label, torch.arange(6), attribute), None
    for stage in range(algorithm.num_stages):
        algorithm.begin_stage(stage, outputs)
        algorithm(batch, 5.0).loss.backward()
        outputs = algorithm.collect(batch).detach()
    assert algorithm.network.head.weight.grad.abs().sum() > 0
