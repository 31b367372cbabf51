"""A finished run of the Python interface."""

from __future__ import annotations

from pathlib import Path

import pytest

from logit_correction import ComponentConfig, RunConfig, TrainingConfig, train


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LC on the digits, four epochs, without a page."""
    training = TrainingConfig(epochs=4, batch_size=128, threads=1)
    config = RunConfig(ComponentConfig("Digits"), ComponentConfig("LC", {"attributes": "Online"}), training=training)
    return train(config, tmp_path_factory.mktemp("runs") / "LC", page=False)
