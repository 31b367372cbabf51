from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from logit_correction import ComponentConfig, RunConfig, TrainingConfig, train
from logit_correction.bench.planted import Planted
from logit_correction.errors import InputError
from logit_correction.runs.defaults import fitted, usual_batch, usual_decay, usual_epochs, usual_network
from logit_correction.types import DataInfo


@pytest.mark.parametrize(
    ("shape", "tokens", "name"),
    [
        ((12,), False, "MLP"),
        ((3, 8, 8), False, "MLP"),
        ((3, 28, 28), False, "ConvNet"),
        ((3, 63, 200), False, "ConvNet"),
        ((3, 64, 64), False, "ResNet18"),
        ((3, 224, 224), False, "ResNet18"),
        ((128,), True, "TextClassifier"),
    ],
)
def test_the_network_fits_the_kind_and_size_of_the_inputs(shape: tuple[int, ...], tokens: bool, name: str) -> None:
    info = DataInfo(num_labels=2, num_rows=9, input_shape=shape, tokens=tokens)
    assert usual_network(info)[0] == name
    assert usual_network(info, encoded=True)[0] == "Linear"


def test_counted_words_take_a_linear_network() -> None:
    info = Planted("topic", rows=200).build().info
    assert usual_network(info) == ("Linear", "texts as 4,096 counted words")


@given(st.integers(2, 2_000_000), st.integers(1, 8))
def test_few_rows_take_more_epochs_and_never_twenty_steps(rows: int, processes: int) -> None:
    size = usual_batch(rows, processes)
    epochs = usual_epochs(rows, size)
    assert size % processes == 0 and 15 <= epochs <= 100
    assert epochs * math.ceil(rows / size) >= min(1500, 100 * math.ceil(rows / size))
    if rows >= 300 and processes == 1:
        assert epochs * math.ceil(rows / size) >= 1000


def test_what_was_chosen_stays_and_what_was_not_is_told() -> None:
    info = DataInfo(num_labels=2, num_rows=300, input_shape=(4,))
    given_config = RunConfig(
        ComponentConfig("Digits"),
        ComponentConfig("ERM"),
        ComponentConfig("Linear"),
        training=TrainingConfig(epochs=2, batch_size=7, weight_decay=0.0),
    )
    assert fitted(given_config, info) == (given_config, [])
    config, told = fitted(RunConfig(ComponentConfig("Digits"), ComponentConfig("ERM")), info)
    assert (config.network.name, config.training.batch_size, config.training.epochs) == ("MLP", 32, 100)
    assert config.training.weight_decay == 1e-3
    assert len(told) == 4 and told[1] == "weight decay 0.001" and "1,000 steps" in told[3]


@pytest.mark.parametrize(
    ("shape", "kind", "decay"),
    [((12,), {}, 1e-3), ((64,), {"tokens": True}, 0), ((64,), {"words": True}, 0), ((3, 8, 8), {}, 0)],
)
def test_rows_of_numbers_alone_take_weight_decay(shape: tuple[int, ...], kind: dict[str, bool], decay: float) -> None:
    assert usual_decay(DataInfo(num_labels=2, num_rows=9, input_shape=shape, **kind)) == decay
    assert usual_decay(DataInfo(num_labels=2, num_rows=9, input_shape=shape, **kind), encoded=True) == 0


def test_a_run_writes_what_was_chosen_and_goes_on_with_it(tmp_path: Path) -> None:
    data = ComponentConfig("Planted", {"set": "column", "rows": 300})
    config = RunConfig(data, ComponentConfig("ERM"), training=TrainingConfig(epochs=1, threads=1, device="cpu"))
    train(config, tmp_path / "run", page=False)
    written = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert written["network"]["name"] == "MLP" and written["batch_size"] == 32
    train(config, tmp_path / "run", resume=True, page=False)  # the same command again: nothing differs
    other = RunConfig(data, ComponentConfig("ERM"), ComponentConfig("Linear"), training=config.training)
    with pytest.raises(InputError, match=r"network\.name = MLP"):
        train(other, tmp_path / "run", resume=True)
