"""Networks of torchvision, timm and transformers, drawn anew or with their pretrained weights, and a linear head."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from logit_correction.errors import InputError, check_range, did_you_mean, reason_of
from logit_correction.networks.base import Network, check_images, check_tokens, weights_follow
from logit_correction.registry import needed
from logit_correction.types import DataInfo

#: Mean and standard deviation of the three channels over ImageNet's training images in [0, 1].
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Standardize(nn.Module):
    """Subtracts a mean from each channel and divides by a standard deviation; grey images come out with all channels.

    >>> Standardize((0.5, 0.5), (0.1, 0.5))(torch.ones(1, 1, 1, 1)).flatten()
    tensor([5., 1.])
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD) -> None:
        """Keep both as buffers, (C, 1, 1)."""
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("factor", 1 / torch.tensor(std).view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Return images (B, C, H, W) from (B, C or 1, H, W)."""
        return (images - self.mean) * self.factor


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
        colors = 3 if channels == 1 else channels
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
    """Return torchvision's network, with its ImageNet weights if they are asked for and no checkpoint follows."""
    from torchvision import models

    trunk = getattr(models, kind)()
    if weights == "imagenet" and not weights_follow():
        url: str = models.get_model_weights(kind).IMAGENET1K_V1.url
        try:
            # Torch's cache, or a download whose checksum torch compares; never pickled code.
            trunk.load_state_dict(torch.hub.load_state_dict_from_url(url, check_hash=True, weights_only=True))
        except Exception as error:  # of many kinds: no network, a damaged file, other weights
            path = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
            raise InputError(
                f"The ImageNet weights of {name} cannot be read from {path} ({reason_of(error)}): put the file {url} "
                "there, set TORCH_HOME to the folder that has hub/checkpoints, or give weights=none"
            ) from error
    return trunk


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
        colors = 3 if channels == 1 else channels
        trunk = _timm_trunk(timm, model, weights, colors, (size[0], size[1]))
        given = trunk.pretrained_cfg
        layers: list[nn.Module] = [Standardize(given["mean"], given["std"])] if colors == 3 else []
        self.metadata = {"model": model, "weights": weights}
        self.features = nn.Sequential(*layers, trunk, *([nn.Dropout(dropout)] if dropout else []))
        self.head = nn.Linear(_width(self.features, info, model), info.num_labels)


def _timm_trunk(timm: Any, model: str, weights: str, channels: int, size: tuple[int, int]) -> Any:
    """Return timm's network without its classifier."""
    options: dict[str, Any] = {"num_classes": 0, "in_chans": channels}
    options["pretrained"] = weights == "pretrained" and not weights_follow()
    file = None if weights in ("none", "pretrained") or weights_follow() else Path(weights)
    if file is not None and (file.suffix != ".safetensors" or not file.is_file()):
        raise InputError(f"weights is {weights!r}, but must be none, pretrained or a .safetensors file")
    try:
        try:
            trunk = timm.create_model(model, img_size=size, **options)
        except TypeError:  # most convolutional networks take any size and have no such option
            trunk = timm.create_model(model, **options)
    except Exception as error:  # the hub and the networks raise many kinds
        if not options["pretrained"]:
            raise InputError(f"timm's {model} cannot be built for images of {size[0]}x{size[1]}: {error}") from error
        raise InputError(
            f"The weights of timm's {model} are not in the Hugging Face cache and cannot be downloaded "
            f"({type(error).__name__}): give weights=FILE.safetensors, or weights=none"
        ) from error
    if file is not None:
        from safetensors.torch import load_file

        try:
            missing = trunk.load_state_dict(load_file(file), strict=False).missing_keys
        except Exception as error:  # safetensors and torch raise several kinds
            raise InputError(f"{file} does not hold weights of timm's {model}: {reason_of(error)}") from error
        if missing:  # a classifier's weights may be left over, but none of the rest may be missing
            raise InputError(f"{file} does not hold the weight {missing[0]} of timm's {model}")
    return trunk


def _width(features: nn.Module, info: DataInfo, model: str) -> int:
    """Return the number of features, from a try on an empty image."""
    features.eval()
    try:
        with torch.no_grad():
            shape = features(torch.zeros(1, *info.input_shape)).shape
    except (RuntimeError, AssertionError, ValueError) as error:
        raise InputError(f"timm's {model} does not take inputs of shape {info.input_shape}: {error}") from error
    features.train()
    if len(shape) != 2:
        raise InputError(f"timm's {model} gives features of shape {tuple(shape[1:])}, but they must be a vector")
    return int(shape[1])


class TextClassifier(Network):
    """A Hugging Face text encoder by its name or folder, dropout, and a linear head.

    Takes token tensors ``{"input_ids": (B, T), "attention_mask": (B, T)}``; padding does not count. Needs the extra
    ``text``. Weights are read from safetensors files only.
    """

    def __init__(
        self,
        info: DataInfo,
        model: str = "bert-base-uncased",
        weights: Literal["pretrained", "none"] = "pretrained",
        pooling: Literal["cls", "mean"] = "cls",
        dropout: float = 0.1,
    ) -> None:
        """Build the layers.

        Args:
            info: Number of labels.
            model: Name at the Hugging Face hub, or a folder that ``save_pretrained`` has written.
            weights: ``none`` takes the model's sizes alone and draws the weights anew.
            pooling: Features are those of the first token, ``cls``, behind the encoder's own pooling layer if it has
                one, or the ``mean`` over all tokens.
            dropout: Probability with which a feature is left out in training, in [0, 1).

        Raises:
            InputError: If transformers is not installed, the model cannot be had, or the inputs are no tokens.
        """
        super().__init__()
        check_tokens(info, "TextClassifier")
        check_range("dropout", dropout, 0, 1, open_end=True)
        encoder = _encoder(model, weights, pooled=pooling == "cls")
        longest = getattr(encoder.config, "max_position_embeddings", None)
        if longest and info.input_shape[0] > longest:
            raise InputError(f"texts have {info.input_shape[0]} tokens, but {model} takes {longest}: cut them shorter")
        self.metadata = {"model": model, "weights": weights}
        self.features = TextFeatures(encoder, pooling, dropout)
        self.head = nn.Linear(encoder.config.hidden_size, info.num_labels)


class TextFeatures(nn.Module):
    """One vector a text.

    Args:
        encoder: Returns ``last_hidden_state`` (B, T, F) and maybe ``pooler_output`` (B, F).
        pooling: cls or mean.
        dropout: Probability with which a feature is left out in training.
    """

    def __init__(self, encoder: nn.Module, pooling: str, dropout: float) -> None:
        super().__init__()
        self.encoder, self.pooling, self.dropout = encoder, pooling, nn.Dropout(dropout)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return features (B, F) of token tensors (B, T)."""
        if not isinstance(inputs, dict):
            raise InputError(f"network TextClassifier takes tokens, but the inputs are of shape {tuple(inputs.shape)}")
        output = self.encoder(**inputs)
        pooled = getattr(output, "pooler_output", None)
        if self.pooling == "mean":
            weight = inputs["attention_mask"].to(output.last_hidden_state.dtype).unsqueeze(2)
            pooled = (output.last_hidden_state * weight).sum(1) / weight.sum(1).clamp_min(1)
        elif pooled is None:
            pooled = output.last_hidden_state[:, 0]
        features: Tensor = self.dropout(pooled)
        return features


def _encoder(model: str, weights: str, pooled: bool) -> Any:
    """Return the encoder, without a pooling layer that would not be used."""
    transformers = needed("transformers", "network TextClassifier", "text")
    draw = weights == "none" or weights_follow()

    def build(**options: Any) -> Any:
        if draw:
            return transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(model), **options)
        return transformers.AutoModel.from_pretrained(model, use_safetensors=True, **options)

    try:
        try:
            encoder = build(add_pooling_layer=pooled)
        except TypeError:  # DistilBERT and others have none
            encoder = build()
    except Exception as error:  # transformers and the hub raise many kinds
        wanted = "config.json" if draw else "config.json and model.safetensors"
        raise InputError(
            f"text model {model!r} is not in the Hugging Face cache and cannot be downloaded, or is damaged "
            f"({reason_of(error)}): give a folder that holds {wanted} as model"
        ) from error
    return encoder.float().train()  # it may come in half precision, and ready to predict
