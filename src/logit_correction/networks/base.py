"""The base of the shipped networks, features and a head, and what methods do with networks of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import cast

from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.nn.modules.batchnorm import _BatchNorm

from logit_correction.errors import InputError
from logit_correction.types import DataInfo, Inputs

_AWAITS_CHECKPOINT: ContextVar[bool] = ContextVar("is_awaiting_checkpoint", default=False)


class Network(nn.Module):
    """A network in two halves, so that methods can mix, swap or cluster features.

    Derive from it for a network of your own that such methods shall train; for the others any ``nn.Module`` serves. A
    subclass sets both halves in its constructor.

    Attributes:
        features: Module from a batch of inputs to features (B, F).
        head: Linear layer from features (B, F) to logits (B, L).
        metadata: What a reader of the results must know in addition to the options, such as the choice made by
            ``auto``; it is written to ``report.json``.
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

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(dropout(features, 0.1, self.training))


def check_image_shape(info: DataInfo, network_name: str) -> tuple[int, int, int]:
    """Return channels, height and width of the images.

    Args:
        info: Sizes of the data.
        network_name: Name of the network that takes images, for the message.

    Raises:
        InputError: The inputs are not images.
    """
    check_inputs_are_not_tokens(info, network_name)
    if len(info.input_shape) != 3:
        raise InputError(
            f"network {network_name} takes images, not inputs {tuple(info.input_shape)}: take MLP or Linear"
        )
    channels, height, width = info.input_shape
    return channels, height, width


def check_inputs_are_not_tokens(info: DataInfo, network_name: str) -> None:
    """Refuse tokens in a network that takes numbers: the number of a token is a name, not a quantity.

    Args:
        info: Sizes of the data.
        network_name: Name of the network, for the message.

    Raises:
        InputError: The inputs are texts as tokens.
    """
    if info.tokens:
        raise InputError(
            f"network {network_name} takes numbers, but the inputs are texts as tokens: take TextClassifier"
        )


def is_awaiting_checkpoint() -> bool:
    """Return whether a checkpoint will replace the weights of the network being built, so that it reads none itself."""
    return _AWAITS_CHECKPOINT.get()


@contextmanager
def skip_pretrained_weights() -> Iterator[None]:
    """Build networks inside the block without reading pretrained weights."""
    token = _AWAITS_CHECKPOINT.set(True)
    try:
        yield
    finally:
        _AWAITS_CHECKPOINT.reset(token)


@contextmanager
def freeze_batch_norm_statistics(network: nn.Module) -> Iterator[list[_BatchNorm]]:
    """Keep the running statistics of batch normalisation inside the block, and yield its layers.

    For a second pass over a batch, or for inputs under dropout: the statistics shall count each whole input once.
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
    """Return F, the size of a network's features; raise ``InputError`` if it lacks features or a linear head."""
    size = getattr(getattr(network, "head", None), "in_features", None)
    if not hasattr(network, "features") or size is None:
        raise InputError("the network needs `features` and a linear `head`, since the method uses its features")
    return int(size)


def split_at_mixing_point(
    network: nn.Module, inputs: Inputs, mixing_point: str
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return the values that Group MixUp mixes, and the part of the network behind them.

    The weights of a mixture sum to 1, so mixing after a first linear layer equals mixing the inputs. If the layer is
    narrower than the inputs, it costs less.

    Args:
        network: Any network for inputs; a ``Network`` for features.
        inputs: A batch.
        mixing_point: "inputs" or "features".

    Returns:
        Values (B, ...), and a function from mixed values to logits (B, L).
    """
    if mixing_point == "features":
        halves = cast(Network, network)
        return halves.features(inputs), halves.head
    values = cast(Tensor, inputs)
    features = getattr(network, "features", None)
    has_base_forward = type(network).forward is Network.forward  # another one may change the inputs first
    if not has_base_forward or not isinstance(features, nn.Sequential) or not isinstance(features[0], nn.Flatten):
        return values, network
    flatten, first, *others = [*features, cast(Network, network).head]
    if not isinstance(first, nn.Linear) or first.out_features >= first.in_features:
        return values, network
    return first(flatten(values)), nn.Sequential(*others)
