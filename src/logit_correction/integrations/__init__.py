"""Other programs: interfaces of scikit-learn, Lightning and transformers to the training, and exports of a run."""

from __future__ import annotations

_EXPORT = "logit_correction.integrations.export."

#: Name of an export -> dotted path of the function that writes it, and one line.
FORMATS: dict[str, tuple[str, str]] = {
    "onnx": (_EXPORT + "write_onnx", "model.onnx, for ONNX Runtime and all that reads ONNX (extra onnx)"),
    "torch-export": (_EXPORT + "write_torch_program", "model.pt2, for torch.export.load, without this package"),
}
