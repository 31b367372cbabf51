"""Weights in a safetensors file, and what beside them texts are read by."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from logit_correction.data.texts import load_tokenizer
from logit_correction.errors import InputError
from logit_correction.exporting.base import Exported
from logit_correction.exporting.network import Predicting
from logit_correction.exporting.settings import TEXT_ENCODER, TEXT_MODEL, TOKENIZER
from logit_correction.files import checksum_of_file
from logit_correction.runs.folder import write_json
from logit_correction.runs.run import CHECKSUM, ENCODER, EXPORT, NETWORK, WEIGHTS, Run


def write_weights(exported: Exported, folder: Path) -> None:
    """Write the weights of the encoder and the network, and see that what is loaded from them answers as the run does.

    Raises:
        InputError: If the method predicts by more than its network, or the answers differ.
    """
    from safetensors.torch import save_file

    network = exported.network
    if isinstance(network.network, Predicting):
        raise InputError(
            f"{exported.run.report['method']} predicts by code of its own, not by its network's weights alone: take "
            "--format onnx or torch-export"
        )
    parts = {NETWORK: network.network} | ({} if network.encoder is None else {ENCODER: network.encoder})
    # Cloned, for tensors that share their memory are refused.
    tensors = {
        prefix + name: value.detach().contiguous().clone()
        for prefix, module in parts.items()
        for name, value in module.state_dict().items()
    }
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    write_json(folder / EXPORT, exported.settings | {CHECKSUM: checksum_of_file(folder / WEIGHTS)})
    shutil.copymode(folder / EXPORT, folder / WEIGHTS)  # safetensors lets its owner alone read it
    write_text_parts(exported, folder, models=True)
    _compare(exported, folder)


def write_text_parts(exported: Exported, folder: Path, models: bool) -> None:
    """Write the tokenizer of texts and, with ``models``, the sizes of their encoders."""
    run = exported.run
    tokenizer = run.config.data.options.get("tokenizer")
    if exported.form.kind == "tokens" and tokenizer:
        load_tokenizer(tokenizer).save_pretrained(folder / TOKENIZER)
    halves: list[tuple[str, Any]] = [
        (TEXT_MODEL, getattr(exported.network.network, "features", None)),
        (TEXT_ENCODER, exported.network.encoder),
    ]
    for name, features in halves if models else []:
        config = getattr(getattr(features, "encoder", None), "config", None)
        if config is not None and hasattr(config, "save_pretrained"):
            config.save_pretrained(folder / name)


def _compare(exported: Exported, folder: Path) -> None:
    """Return if the folder's network answers as the run's."""
    loaded = Run(folder, trust_code=exported.run.trust_code)
    inputs = exported.form.example(seed=1, rows=5)
    with torch.no_grad():
        expected = exported.network(*inputs).numpy()
        encoder = None if exported.network.encoder is None else loaded.encoder.features
        again = type(exported.network)(exported.form.prepare, encoder, loaded.algorithm.network).eval()
        found = again(*inputs).numpy()
    if not np.allclose(found, expected, rtol=1e-5, atol=1e-5):
        raise InputError(
            "the network that is built again does not answer as the run's does: does its class keep state outside "
            "of parameters and buffers? Take --format onnx or torch-export"
        )
