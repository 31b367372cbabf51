"""The predicting network of a run in forms that other programs take."""

from __future__ import annotations

_HERE = "logit_correction.exporting.formats."

#: Name -> dotted path of the function that writes it, and one line.
FORMATS: dict[str, tuple[str, str]] = {
    "onnx": (_HERE + "write_onnx", "model.onnx, for ONNX Runtime and whatever else reads ONNX (extra onnx)"),
    "torch-export": (_HERE + "write_program", "model.pt2, for torch.export.load, without this package"),
}
