"""The predicting network of a run in forms that other programs take. One file a format, and one line here."""

from __future__ import annotations

#: Name -> dotted path and one line.
FORMATS: dict[str, tuple[str, str]] = {
    "onnx": (
        "logit_correction.exporting.onnx_file.OnnxFile",
        "model.onnx, for ONNX Runtime and whatever else reads ONNX (extra onnx)",
    ),
    "torch-export": (
        "logit_correction.exporting.torch_program.TorchProgram",
        "model.pt2, for torch.export.load, without this package",
    ),
    "safetensors": (
        "logit_correction.exporting.tensors.Tensors",
        "model.safetensors and what it takes to build the network again (extra hub)",
    ),
    "hub": ("logit_correction.exporting.hub.Hub", "a folder for the Hugging Face Hub, with a model card (extra hub)"),
}
