"""A method in Lightning: the very training of our own loop, its figures, and its checkpoints."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from logit_correction import InputError, load, train
from logit_correction.config import ComponentConfig
from logit_correction.data.arrays import from_arrays

pl = pytest.importorskip("lightning.pytorch")

from logit_correction.integrations.lightning import LightningMethod  # noqa: E402

METHODS: dict[str, Any] = {
    "JTT": {
        "name": "JTT",
        "identification_epochs": 2,
        "up_weight": 3,
    },  # two stages, the second with more rows an epoch
    "LC": {"name": "LC", "attributes": {"name": "Online"}},  # two networks and Group MixUp
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> ComponentConfig:
    draw = np.random.default_rng(0)
    label = np.arange(120) % 3
    attribute = np.where(draw.random(120) < 0.2, draw.integers(0, 3, 120), label)
    inputs = 0.2 * draw.normal(size=(120, 12))
    inputs[np.arange(120), label] += 1
    inputs[np.arange(120), 3 + attribute] += 2
    return from_arrays(inputs, label, attribute=attribute, folder=tmp_path_factory.mktemp("arrays"))


def trainer(folder: Path, **options: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
    options = {"max_epochs": -1, "enable_checkpointing": False, **quiet, **options}
    return pl.Trainer(default_root_dir=folder, **options)


def fit(module: LightningMethod, made: Any, **options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.fit(module, **options)


OPTIONS: dict[str, Any] = {"network": "MLP", "epochs": 2, "batch_size": 16, "learning_rate": 0.01}


@pytest.mark.parametrize("name", METHODS)
def test_the_weights_are_those_of_our_own_loop(name: str, data: ComponentConfig, tmp_path: Path) -> None:
    own = train(data, tmp_path / "run", method=METHODS[name], page=False, threads=1, **OPTIONS)
    module = LightningMethod(data, method=METHODS[name], **OPTIONS)
    fit(module, trainer(tmp_path))
    expected = load(own).algorithm.state_dict()
    found = module.algorithm.state_dict()
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=0, atol=0)
    trainer(tmp_path).test(module, verbose=False)
    assert module.figures == own.report["test"]
    assert module.progress.total_steps == own.report["steps"]


def test_a_checkpoint_in_the_middle_of_an_epoch_is_gone_on_with(data: ComponentConfig, tmp_path: Path) -> None:
    whole = LightningMethod(data, method=METHODS["JTT"], **OPTIONS)
    keep = pl.callbacks.ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=4, save_top_k=-1)
    fit(whole, trainer(tmp_path, callbacks=[keep], enable_checkpointing=True))
    files = sorted(tmp_path.glob("step=*.ckpt"), key=lambda file: int(file.stem.split("=")[1]))
    assert len(files) > 3
    for file in (files[0], files[-1]):  # in the first stage, and in the second
        resumed = LightningMethod(data, method=METHODS["JTT"], **OPTIONS)
        fit(resumed, trainer(tmp_path), ckpt_path=file, weights_only=True)
        assert resumed.progress.total_steps == whole.progress.total_steps
        for key, value in whole.algorithm.state_dict().items():
            torch.testing.assert_close(resumed.algorithm.state_dict()[key], value, rtol=0, atol=0)


def test_the_best_epoch_is_one_of_the_last_stage(data: ComponentConfig, tmp_path: Path) -> None:
    best = pl.callbacks.ModelCheckpoint(tmp_path, monitor="valid_worst_group", mode="max")
    module = LightningMethod(data, method=METHODS["JTT"], rules=["valid_worst_group"], **OPTIONS)
    fit(module, trainer(tmp_path, callbacks=[best], enable_checkpointing=True))
    again = LightningMethod.load_from_checkpoint(best.best_model_path, data=data, weights_only=True)
    assert again.progress.stage == 1 and again.hparams.epochs == 2
    rows = module.table.split["valid"]
    right = again(module.table.inputs.fetch(rows)).argmax(1) == module.table.label[rows]
    groups = [
        right[(module.table.label[rows] == y) & (module.table.attribute[rows] == a)] for y in range(3) for a in range(3)
    ]
    assert float(best.best_model_score) == pytest.approx(min(float(g.float().mean()) for g in groups if len(g)))


def test_the_epoch_that_a_rule_takes_for_level_with_the_best_is_the_best_that_is_logged(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    label = np.arange(400) % 2
    inputs = draw.normal(size=(400, 3)) + label[:, None] * np.array([0.7, 0.5, 0.3])
    site = np.where(draw.random(400) < 0.1, 1 - label, label)
    data = from_arrays(np.c_[inputs, site], label, folder=tmp_path / "arrays", valid_fraction=0.3)
    rule, method = "valid_estimated_within_error", {"name": "LC", "attributes": {"shortcut": ["column:3"]}}
    options = {**OPTIONS, "method": method, "epochs": 8, "learning_rate": 0.05}
    own = train(data, tmp_path / "run", selection=rule, page=False, threads=1, **options)
    best = pl.callbacks.ModelCheckpoint(tmp_path, "{epoch}", monitor=rule, mode="max")
    module = LightningMethod(data, rules=[rule], **options)
    fit(module, trainer(tmp_path, callbacks=[best], enable_checkpointing=True))
    taken = int(Path(best.best_model_path).stem.split("=")[1]) + 1
    scores = pd.read_csv(own / "metrics.csv")[rule].dropna().to_numpy()
    assert taken == own.report["selection"]["epoch"] != scores.argmax() + 1


def test_a_network_of_ones_own(data: ComponentConfig, tmp_path: Path) -> None:
    module = LightningMethod(data, method="ERM", epochs=1, network=lambda: torch.nn.Linear(12, 3))
    assert isinstance(module.algorithm.network, torch.nn.Linear) and "network" not in module.hparams
    with pytest.raises(InputError, match="not the network"):
        LightningMethod(data, network=torch.nn.Linear(12, 3))


@pytest.mark.parametrize(
    ("option", "instead"), [("devices", "Trainer"), ("selection", "ModelCheckpoint"), ("lr", "there is no option")]
)
def test_what_is_the_trainers_to_choose(option: str, instead: str, data: ComponentConfig) -> None:
    with pytest.raises(InputError, match=instead):
        LightningMethod(data, **{option: 1})
