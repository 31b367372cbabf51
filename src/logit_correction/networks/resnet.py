"""Torchvision's ResNet-18 and ResNet-50, drawn anew or with its ImageNet weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from logit_correction.errors import InputError
from logit_correction.files import checksum_of_file
from logit_correction.networks.base import Network, check_images, weights_follow
from logit_correction.networks.standardize import Standardize, standardized_channels
from logit_correction.types import DataInfo

#: Images of at most so many pixels a side get the stem for small images.
SMALL = 64


class ResNet(Network):
    """What ResNet18 and ResNet50 share. Inputs in [0, 1] are standardised inside by ImageNet's mean and deviation."""

    #: torchvision's name of the network.
    kind: ClassVar[str]

    def __init__(
        self,
        info: DataInfo,
        weights: Literal["none", "imagenet"] = "none",
        stem: Literal["auto", "imagenet", "cifar"] = "auto",
    ) -> None:
        """Build the layers.

        Args:
            info: Input shape and number of labels.
            weights: ``imagenet`` starts from torchvision's weights (IMAGENET1K_V1), which are looked for in torch's
                cache and else downloaded; ``none`` draws them anew.
            stem: How the network begins. ``imagenet`` is torchvision's 7x7 convolution at stride 2 and a maximum over
                3x3 at stride 2, after which an image of 32 pixels has 8 left. ``cifar`` is a 3x3 convolution at
                stride 1 and no maximum: sixteen times the pixels in every block. ``auto``
                takes cifar for images of at most 64 pixels a side if no weights are loaded, else imagenet;
                ``report.json`` says which. Codes published on Corrupted CIFAR-10 have either.

        Raises:
            InputError: If the inputs are no images, or ImageNet's weights cannot be had or do not fit.
        """
        super().__init__()
        name = type(self).__name__
        channels, *size = check_images(info, name)
        colors = standardized_channels(channels)
        if weights == "imagenet" and colors != 3:
            raise InputError(f"the ImageNet weights of {name} take images of 3 channels or 1, not {channels}")
        if stem == "auto":
            stem = "cifar" if weights == "none" and max(size) <= SMALL else "imagenet"
        self.metadata = {"stem": stem, "weights": weights}
        trunk = _trunk(self.kind, weights, name)
        width: int = trunk.fc.in_features
        if stem == "cifar":
            trunk.conv1, trunk.maxpool = _convolution(colors, 3, stride=1), nn.Identity()
        elif colors != 3:
            trunk.conv1 = _convolution(colors, 7, stride=2)
        trunk.fc = nn.Identity()
        self.features = nn.Sequential(Standardize(), trunk) if colors == 3 else nn.Sequential(trunk)
        self.head = nn.Linear(width, info.num_labels)


class ResNet18(ResNet):
    """ResNet-18: 11 million weights, 512 features.

    >>> network = ResNet18(DataInfo(num_labels=10, num_rows=1, input_shape=(3, 32, 32)))
    >>> network.metadata["stem"], network.features(torch.zeros(2, 3, 32, 32)).shape
    ('cifar', torch.Size([2, 512]))
    """

    kind = "resnet18"


class ResNet50(ResNet):
    """ResNet-50: 24 million weights, 2048 features."""

    kind = "resnet50"


def _convolution(channels: int, size: int, stride: int) -> nn.Conv2d:
    layer = nn.Conv2d(channels, 64, size, stride=stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def _trunk(kind: str, weights: str, name: str) -> Any:
    """Return torchvision's network, with its ImageNet weights if they are asked for and none follow anyway."""
    from torchvision import models

    trunk = cast(Callable[[], Any], getattr(models, kind))()
    if weights == "imagenet" and not weights_follow():
        url: str = models.get_model_weights(kind).IMAGENET1K_V1.url
        try:
            trunk.load_state_dict(_downloaded(url, name))
        except RuntimeError as error:
            raise InputError(
                f"{_cached(url)} holds no weights of {name}: remove it, and it is downloaded again"
            ) from error
    return trunk


def _cached(url: str) -> Path:
    """Return where torch keeps what it has downloaded from ``url``."""
    return Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]


def _downloaded(url: str, name: str) -> dict[str, Tensor]:
    """Return the weights at ``url`` from torch's cache, downloaded into it if they are not there.

    Raises:
        InputError: If they cannot be downloaded or the file is damaged.
    """
    path = _cached(url)
    if not path.is_file():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(url, str(path), hash_prefix=path.stem.rpartition("-")[2], progress=False)
        except (OSError, RuntimeError) as error:
            raise InputError(
                f"the ImageNet weights of {name} are not at {path} and cannot be downloaded ({error}): put the file "
                f"{url} there, set TORCH_HOME to the folder that has hub/checkpoints, or give weights=none"
            ) from error
    again = "remove it, and it is downloaded again"
    try:
        loaded: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a damaged file
        raise InputError(f"{path} is damaged ({type(error).__name__}): {again}") from error
    if not checksum_of_file(path).startswith(path.stem.rpartition("-")[2]):
        raise InputError(f"{path} is damaged (its checksum is another): {again}")
    return loaded
