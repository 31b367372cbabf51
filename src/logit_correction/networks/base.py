"""The base of our networks: features and a head; and what methods need of any network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from logit_correction.errors import InputError
from logit_correction.types import DataInfo, Inputs

_WEIGHTS_FOLLOW: ContextVar[bool] = ContextVar("weights_follow", default=False)


class Network(nn.Module):
    """A network in two halves, so that features can be mixed, swapped or clustered.

    Subclasses set ``features`` (inputs -> (B, F)) and ``head`` ((B, F) -> logits (B, L)).

    Attributes:
        metadata: What a reader of a result must know in addition to the options, such as what ``auto`` stood for.
    """

    features: nn.Module
    head: nn.Module

    def __init__(self) -> None:
        super().__init__()
        self.metadata: dict[str, object] = {}

    def forward(self, inputs: Inputs) -> Tensor:
        logits: Tensor = self.head(self.features(inputs))
        return logits


class DropoutLinear(nn.Linear):
    """A linear head that sets each feature to 0 with probability 0.1 while it trains."""

    def __init__(self, in_features: int, out_features: int, dtype: torch.dtype | None = None) -> None:
        super().__init__(in_features, out_features, dtype=dtype)
        self.dropout = nn.Dropout(0.1)

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(self.dropout(features))


def check_image_shape(info: DataInfo, network: str) -> tuple[int, int, int]:
    """Return channels, height and width of the images; raise ``InputError`` if the data holds something else."""
    refuse_tokens(info, network)
    if len(info.input_shape) != 3:
        raise InputError(f"network {network} takes images, not inputs {tuple(info.input_shape)}: take MLP or Linear")
    channels, height, width = info.input_shape
    return channels, height, width


def refuse_tokens(info: DataInfo, network: str) -> None:
    """Raise ``InputError`` if the data holds token numbers, which are names and no quantities."""
    if info.tokens:
        raise InputError(f"network {network} takes numbers, but the inputs are texts as tokens: take TextClassifier")


def awaits_checkpoint() -> bool:
    """Return whether a checkpoint will fill the network that is being built, so that it reads no pretrained weights."""
    return _WEIGHTS_FOLLOW.get()


@contextmanager
def skip_pretrained_weights() -> Iterator[None]:
    """Build networks inside the block without reading pretrained weights."""
    token = _WEIGHTS_FOLLOW.set(True)
    try:
        yield
    finally:
        _WEIGHTS_FOLLOW.reset(token)


@contextmanager
def freeze_batch_norm_statistics(network: nn.Module) -> Iterator[list[_BatchNorm]]:
    """Keep the running statistics of batch normalisation inside the block, and yield its layers.

    For a second pass over a batch, or for partly hidden inputs: the statistics count each whole input once.
    """
    layers = [module for module in network.modules() if isinstance(module, _BatchNorm)]
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = 0.0
    try:
        yield layers
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum


def get_feature_size(network: nn.Module) -> int:
    """Return F, the size of a network's features; raise ``InputError`` if it has no features or no linear head."""
    size = getattr(getattr(network, "head", None), "in_features", None)
    if not hasattr(network, "features") or size is None:
        raise InputError("the network needs `features` and a linear `head`, for its features are made use of")
    return int(size)


def split_at_mixing_point(network: nn.Module, inputs: Inputs, place: str) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return the values to mix at ``place``, and a function from mixed values to logits.

    The weights of a mix sum to 1, so mixing after a first linear layer equals mixing the inputs. If the layer is
    narrower than the inputs, it costs less.
    """
    if place == "features":
        halves = cast(Network, network)
        return halves.features(inputs), halves.head
    values, features = cast(Tensor, inputs), getattr(network, "features", None)
    plain = type(network).forward is Network.forward  # another may do anything before
    if not plain or not isinstance(features, nn.Sequential) or not isinstance(features[0], nn.Flatten):
        return values, network
    flatten, first, *rest = [*features, cast(Network, network).head]
    if not isinstance(first, nn.Linear) or first.out_features >= first.in_features:
        return values, network
    return first(flatten(values)), nn.Sequential(*rest)
