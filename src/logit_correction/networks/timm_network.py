"""Any image network of the package timm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from logit_correction.errors import InputError, check_range, did_you_mean, reason_of
from logit_correction.networks.base import Network, check_images, weights_follow
from logit_correction.networks.standardize import Standardize, standardized_channels
from logit_correction.registry import needed
from logit_correction.types import DataInfo


class Timm(Network):
    """A network of timm by its name, such as ``convnext_tiny`` or ``vit_small_patch16_224``, and a linear head.

    Inputs in [0, 1] are standardised inside as the network's pretrained weights want it. Needs the extra ``timm``.
    """

    def __init__(self, info: DataInfo, model: str = "resnet18", weights: str = "none", dropout: float = 0.0) -> None:
        """Build the layers.

        Args:
            info: Input shape and number of labels.
            model: Its name in timm; ``timm.list_models()`` gives them all.
            weights: ``none`` draws them anew, ``pretrained`` takes timm's from the Hugging Face cache or downloads
                them, and the name of a .safetensors file reads that.
            dropout: Probability with which a feature is left out in training, in [0, 1).

        Raises:
            InputError: If timm is not installed or has no such network, the inputs are no images that it takes, or
                the weights cannot be had.
        """
        super().__init__()
        channels, *size = check_images(info, "Timm")
        check_range("dropout", dropout, 0, 1, open_end=True)
        timm = needed("timm", "network Timm", "timm")
        if not timm.is_model(model):
            known = timm.list_models()
            raise InputError(f"timm has no network {model!r}{did_you_mean(model, known)}: see timm.list_models()")
        colors = standardized_channels(channels)
        trunk = _trunk(timm, model, weights, colors, (size[0], size[1]))
        given = trunk.pretrained_cfg
        layers: list[nn.Module] = [Standardize(given["mean"], given["std"])] if colors == 3 else []
        self.metadata = {"model": model, "weights": weights}
        self.features = nn.Sequential(*layers, trunk, *([nn.Dropout(dropout)] if dropout else []))
        self.head = nn.Linear(_width(self.features, info, model), info.num_labels)


def _trunk(timm: Any, model: str, weights: str, channels: int, size: tuple[int, int]) -> Any:
    """Return timm's network without its classifier."""
    options: dict[str, Any] = {"num_classes": 0, "in_chans": channels}
    options["pretrained"] = weights == "pretrained" and not weights_follow()
    try:
        try:
            trunk = timm.create_model(model, img_size=size, **options)
        except TypeError:  # most convolutional networks take any size and have no such option
            trunk = timm.create_model(model, **options)
    except Exception as error:  # the hub and the networks raise many kinds
        if not options["pretrained"]:
            raise InputError(f"timm's {model} cannot be built for images of {size[0]}x{size[1]}: {error}") from error
        raise InputError(
            f"the weights of timm's {model} are not in the Hugging Face cache and cannot be downloaded "
            f"({type(error).__name__}): give weights=FILE.safetensors, or weights=none"
        ) from error
    if weights not in ("none", "pretrained") and not weights_follow():
        _load(trunk, Path(weights), model)
    return trunk


def _load(trunk: nn.Module, path: Path, model: str) -> None:
    """Load a file of weights, of which those of a classifier are left out."""
    if path.suffix != ".safetensors" or not path.is_file():
        raise InputError(f"weights is {str(path)!r}, but must be none, pretrained or a .safetensors file")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        missing = trunk.load_state_dict(load_file(path), strict=False).missing_keys
    except (SafetensorError, RuntimeError, OSError) as error:
        raise InputError(f"{path} does not hold weights of timm's {model}: {reason_of(error)}") from error
    if missing:
        raise InputError(f"{path} does not hold the weight {missing[0]} of timm's {model}")


def _width(features: nn.Module, info: DataInfo, model: str) -> int:
    """Return the number of features, from a try on an empty image."""
    training = features.training
    features.eval()
    try:
        with torch.no_grad():
            shape = features(torch.zeros(1, *info.input_shape)).shape
    except (RuntimeError, AssertionError, ValueError) as error:
        raise InputError(f"timm's {model} does not take inputs of shape {info.input_shape}: {error}") from error
    finally:
        features.train(training)
    if len(shape) != 2:
        raise InputError(f"timm's {model} gives features of shape {tuple(shape[1:])}, but they must be a vector")
    return int(shape[1])
