"""Exports a run to ONNX, and predicts by ONNX Runtime as a program without PyTorch would.

python examples/export_onnx.py
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from pytorch_loop import BATCH, compute_group_accuracies, load_rows

from logit_correction import export, train


def predict_logits(folder: Path, images: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return logits (n, labels) of images (n, 3, 8, 8), and the labels' names; needs neither torch nor this package."""
    settings = json.loads((folder / "config.json").read_text())
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {settings["input"]["inputs"][0]["name"]: images})
    return logits, settings["label_names"]


def main(epochs: int = 15, seed: int = 0) -> dict[str, float]:
    run = train("Digits", method="LC", network="MLP", epochs=epochs, batch_size=BATCH, seed=seed, threads=1, page=False)
    print(run.report.evidence["sentence"])
    inputs, label, attribute = load_rows("test")
    with tempfile.TemporaryDirectory() as name:
        onnx = export(run, "onnx", Path(name, "onnx"))
        images = (255 * inputs).round().to(torch.uint8).numpy()  # bytes, as in image files
        logits, label_names = predict_logits(onnx, images)
        print("the first five:", [label_names[column] for column in logits[:5].argmax(1)])

    expected = run.predict_proba(inputs.numpy())
    exported = torch.from_numpy(logits).softmax(1).numpy()
    print(f"greatest difference: {np.abs(exported - expected).max():.0e}")
    return compute_group_accuracies(torch.from_numpy(logits), label, attribute)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
