"""Networks. Any ``nn.Module`` or function of yours that makes one serves as well. One line here each."""

from __future__ import annotations

#: Name -> dotted path and one line. A dotted path of your own works wherever a name does.
NETWORKS: dict[str, tuple[str, str]] = {
    "MLP": (
        "logit_correction.networks.small.MLP",
        "fully connected layers on flattened inputs; three of 100 by default",
    ),
    "ConvNet": (
        "logit_correction.networks.small.ConvNet",
        "small convolutional network for images of 16 to 63 pixels, quick on a processor",
    ),
    "Linear": ("logit_correction.networks.small.Linear", "one linear layer, for the features of an --encoder"),
    "ResNet18": ("logit_correction.networks.pretrained.ResNet18", "torchvision's, with or without ImageNet weights"),
    "ResNet50": ("logit_correction.networks.pretrained.ResNet50", "torchvision's, with or without ImageNet weights"),
    "Timm": ("logit_correction.networks.pretrained.Timm", "any image network of timm by name (extra photos)"),
    "TextClassifier": (
        "logit_correction.networks.pretrained.TextClassifier",
        "any Hugging Face text encoder by name or folder (extra texts)",
    ),
    "FromRun": (
        "logit_correction.runs.run.from_run",
        "the network of a finished run, to continue from or as --encoder",
    ),
}
