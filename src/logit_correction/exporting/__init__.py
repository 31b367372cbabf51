"""The predicting network of a run in forms that other programs take."""

from __future__ import annotations

#: Name -> dotted path of the function that writes it, and one line.
FORMATS: dict[str, tuple[str, str]] = {
    "onnx": (
        "logit_correction.exporting.formats.write_onnx",
        "model.onnx, for ONNX Runtime and whatever else reads ONNX (extra onnx)",
    ),
    "torch-export": (
        "logit_correction.exporting.formats.write_program",
        "model.pt2, for torch.export.load, without this package",
    ),
    "safetensors": (
        "logit_correction.exporting.formats.write_weights",
        "model.safetensors and what it takes to build the network again (extra hub)",
    ),
    "hub": (
        "logit_correction.exporting.formats.write_hub",
        "a folder for the Hugging Face Hub, with a model card (extra hub)",
    ),
}
