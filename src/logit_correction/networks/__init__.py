"""The registry of networks. Any ``nn.Module`` of your own, or function that makes one, serves as well."""

from __future__ import annotations

_SMALL = "logit_correction.networks.small."
_PRETRAINED = "logit_correction.networks.pretrained."

#: Name -> dotted path and one line. A dotted path of your own works wherever a name does.
NETWORKS: dict[str, tuple[str, str]] = {
    "MLP": (_SMALL + "MLP", "fully connected layers on flattened inputs; three of 100 by default"),
    "ConvNet": (_SMALL + "ConvNet", "small convolutional network for images of 16 to 63 pixels, quick on a processor"),
    "Linear": (_SMALL + "Linear", "one linear layer, for the features of an encoder"),
    "ResNet18": (_PRETRAINED + "ResNet18", "torchvision's, with or without ImageNet weights"),
    "ResNet50": (_PRETRAINED + "ResNet50", "torchvision's, with or without ImageNet weights"),
    "Timm": (_PRETRAINED + "Timm", "any image network of timm by name (extra photos)"),
    "TextClassifier": (_PRETRAINED + "TextClassifier", "any Hugging Face text encoder by name or folder (extra texts)"),
}
