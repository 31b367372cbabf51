"""The recipes of ``lab/configs/``: complete, as published, and the same as in the benchmarks."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from logit_correction import RunConfig
from logit_correction.cli import commands
from logit_correction.cli.arguments import parse_arguments
from logit_correction.runs.options import complete_config
from logit_correction.training.fit import compute_schedule_factor
from logit_correction_lab.grid import read_grid

FOLDER = Path(__file__).parents[1] / "configs"
DATA = ("cmnist", "ccifar10", "bffhq", "waterbirds", "celeba", "civilcomments")
METHODS = {name.lower(): name for name in ("ERM", "GroupDRO", "JTT", "LfF", "DFA", "LC", "StagedLC")}


@cache
def read_config(data: str, method: str, *words: object) -> RunConfig:
    arguments = ["--config", FOLDER / f"{data}-{method}.yaml", *words, "--out", "run"]
    config: RunConfig = parse_arguments("train", commands.train_command, [str(word) for word in arguments])["config"]
    return config


@pytest.mark.slow
@pytest.mark.parametrize("data", DATA)
def test_every_recipe_is_valid_and_names_its_source(data: str) -> None:
    for method, name in METHODS.items():
        config = read_config(data, method)
        assert config.method.name == name and config == complete_config(config)
        first, *others = (FOLDER / f"{data}-{method}.yaml").read_text().splitlines()
        comment = " ".join([first, *(line for line in others if line.startswith("#"))])
        assert first.startswith(f"# {name.replace('GroupDRO', 'Group DRO')} on ")
        assert any(word in comment for word in ("published", "paper")), comment
        assert not config.training.selection.startswith("test")


#: Who says so: a setting's comment begins with it.
SOURCES = ("text", "code", "ours", "DFA's paper", "DFA's code", "LfF's paper", "JTT's code", "GroupDRO's code")

#: Option -> value and source, of LC on every data set of ``EXACT``.
EVERYWHERE: dict[str, tuple[Any, str]] = {
    "method.attributes.name": ("Online", "text and code"),
    "method.attributes.multiply_by_q": (True, "code"),
    "method.attributes.learning_rate_scale": (0.1, "code"),
    "method.attributes.loss_weight": (1, "code"),
    "method.attributes.weight_decay": (None, "code"),
    "method.attributes.schedule": ("same", "code"),
    "method.attributes.q": (0.7, "text and code"),
    "method.prior.name": ("Moving", "text and code"),
    "method.prior.estimator": ("published", "code"),  # in which a group without rows in a batch counts as 0
    "method.prior.averaging": ("moving", "text"),
    "method.prior.momentum": (0.5, "text"),
    "method.prior.floor": (1e-4, "code"),
    "method.prior.normalize_columns": (True, "code"),
    "method.mixing.name": ("GroupMixUp", "text and code"),
    "method.mixing.rows": ("every-row", "text"),
    "method.mixing.limit": (0.5, "text and code"),
    "method.mixing.ramp_up_epochs": (2, "text"),
    "drop_last": (True, "code"),
    "batch_size": (256, "text and code"),
    "optimizer": ("adam", "text and code"),
    "weight_decay": (0, "text"),
}
HALVED = {"schedule": ("step", "text"), "step_every": (10_000, "text"), "step_factor": (0.5, "text")}
RESNET18 = {
    "network.name": ("ResNet18", "text"),
    "network.stem": ("imagenet", "code"),
    "network.normalize": ("cifar", "code"),
    "data.augment": ("crop-flip", "code"),
}

#: The same by data set, over ``EVERYWHERE``; of CelebA no code is published.
EXACT: dict[str, dict[str, tuple[Any, str]]] = {
    "cmnist": {
        "data.scaling": ("double", "code"),
        "network.hidden": ([100, 100, 16], "code"),
        "method.prior.normalize_columns": (False, "code"),
        "epochs": (234, "code"),
        "learning_rate": (1e-2, "text"),
        **HALVED,
    },
    "ccifar10": {"epochs": (286, "code"), "learning_rate": (5e-4, "text"), **HALVED, **RESNET18},
    "bffhq": {
        "epochs": (167, "code"),
        "learning_rate": (1e-4, "text"),
        "batch_size": (64, "code"),
        "schedule": ("none", "ours"),
        **RESNET18,
    },
    "waterbirds": {
        "data.fit": ("centre", "code"),
        "data.augment": ("resized-crop-flip", "code"),
        "data.crops": ("original", "code"),
        "method.attributes.q": (0.8, "text and code"),
        "method.attributes.temperature": (0.1, "code"),
        "method.attributes.loss_weight": (2, "code"),
        "method.attributes.weight_decay": (0, "code"),
        "method.prior.averaging": ("batch", "code"),
        "method.prior.momentum": (None, "code"),
        "method.mixing.ramp_up_epochs": (50, "text and code"),
        "network.name": ("ResNet50", "text"),
        "network.weights": ("imagenet", "code"),
        "epochs": (300, "code"),
        "batch_size": (32, "code"),
        "optimizer": ("sgd", "text and code"),
        "sgd_momentum": (0, "code"),
        "learning_rate": (1e-3, "text and code"),
        "weight_decay": (1e-4, "text and code"),
        "schedule": ("step", "code"),
        "step_every": (50 * (4_795 // 32), "code"),
        "step_factor": (0.1, "code"),
    },
    "celeba": {
        "data.augment": ("resized-crop-flip", "ours"),
        "method.attributes.q": (0.7, "text"),
        "method.attributes.learning_rate_scale": (0.1, "ours"),
        "method.attributes.loss_weight": (1, "ours"),
        "method.attributes.weight_decay": (None, "ours"),
        "method.prior.normalize_columns": (True, "ours"),
        "method.mixing.ramp_up_epochs": (50, "text"),
        "drop_last": (True, "ours"),
        "batch_size": (256, "text"),
        "optimizer": ("adam", "text"),
        "learning_rate": (1e-4, "text"),
        "weight_decay": (1e-4, "text"),
        "schedule": ("cosine", "text"),
    },
    "civilcomments": {
        "method.attributes.learning_rate_scale": (0.1, "ours"),  # plain SGD at 2e-5 in the code
        "method.attributes.loss_weight": (0.1, "code"),
        "method.attributes.weight_decay": (0, "code"),
        "method.attributes.schedule_epochs": (1, "code"),
        "method.prior.averaging": ("moving", "text and code"),
        "method.prior.momentum": (0.9, "code"),
        "method.mixing.ramp_up_epochs": (round(400 / (269_038 // 16), 4), "code"),
        "method.mixing.place": ("features", "code"),
        "network.model": ("bert-base-uncased", "code"),
        "epochs": (3, "code"),
        "batch_size": (16, "code"),
        "optimizer": ("adamw", "code"),
        "learning_rate": (1e-5, "code"),
        "weight_decay": (0.01, "code"),
        "decay_norm_and_bias": (False, "code"),
        "gradient_clip": (1.0, "code"),
        "schedule": ("linear", "code"),
    },
}


def read_settings(file: Path) -> dict[str, str]:
    """Return each setting of a recipe, such as ``method.prior.floor``, with the comment on its line."""
    settings = {}
    sections: list[str] = []
    for line in file.read_text().splitlines():
        if line.startswith("#"):
            continue
        setting, _, comment = line.partition("  # ")
        name, _, value = setting.strip().partition(":")
        sections = [*sections[: (len(line) - len(line.lstrip())) // 2], name]
        if value:
            settings[".".join(sections)] = comment
        else:
            assert not comment, line
    return settings


def look_up(options: dict[str, Any], path: str) -> Any:
    for name in path.split("."):
        options = options[name]
    return options


@pytest.mark.parametrize("data", DATA)
def test_every_setting_names_its_source(data: str) -> None:
    for method in METHODS:
        settings = read_settings(FOLDER / f"{data}-{method}.yaml")
        assert settings and (("preset" in settings) == (method == "lc"))
        for name, comment in settings.items():
            assert name == "preset" or comment.startswith(SOURCES), f"{data}-{method}.yaml, {name}: {comment!r}"


@pytest.mark.parametrize("data", DATA)
def test_lc_is_trained_as_published(data: str) -> None:
    config = read_config(data, "lc").to_dict()
    comments = read_settings(FOLDER / f"{data}-lc.yaml")
    for name, (value, source) in {**EVERYWHERE, **EXACT[data]}.items():
        assert look_up(config, name) == value, name
        comment = comments[name].replace("text (Algorithm 1) and code", "text").partition(":")[0].partition(",")[0]
        assert comment == source, f"{data}-lc.yaml, {name}: {comments[name]!r}"
    online = config["method"]["attributes"]
    assert (online["head_start_epochs"], online["epochs"], online["q_ramp_up_epochs"]) == (0, None, 0)
    assert (online["input_dropout"], online["correlation"], config["method"]["strength"]) == (0, "one-to-one", 1)
    assert data == "civilcomments" or online["schedule_epochs"] is None
    assert data == "waterbirds" or online["temperature"] == 1


@pytest.mark.parametrize(("data", "rows", "batch"), [("cmnist", 55_000, 256), ("ccifar10", 45_000, 256),
                                                     ("bffhq", 19_200, 64)])  # fmt: skip
def test_lc_and_its_baselines_take_fifty_thousand_steps(data: str, rows: int, batch: int) -> None:
    per_epoch = rows // batch
    for method in ("lc", "erm", "groupdro", "dfa"):
        training = read_config(data, method).training
        assert training.drop_last and training.batch_size == batch and training.epochs is not None
        assert (training.epochs - 1) * per_epoch < 50_000 <= training.epochs * per_epoch
    swap = read_config(data, "dfa").to_dict()["method"]["swap_from_epoch"]
    assert round(swap * per_epoch, -2) == 10_000


@pytest.mark.parametrize(
    ("data", "method", "falls"),
    [("cmnist", "lc", [10_000, 20_000, 30_000, 40_000]), ("cmnist", "dfa", [20_000, 30_000, 40_000])],
)
def test_learning_rate_is_halved_where_the_published_code_halves_it(data: str, method: str, falls: list[int]) -> None:
    training = read_config(data, method).training
    factors = [compute_schedule_factor(training.schedule, step, 50_000, training) for step in range(50_000)]
    assert [step for step in range(1, 50_000) if factors[step] != factors[step - 1]] == falls
    assert factors[-1] == 0.5 ** len(falls)


@cache
def read_cells(name: str) -> dict[tuple[str, str], Any]:
    """The cells of a shipped grid by row and column."""
    return {(cell.row, cell.column): cell for cell in read_grid(name, seeds=1).make_cells(Path("out"))}


def list_options_except(config: RunConfig, *names: str) -> dict[str, Any]:
    """The options of a run except some, and except the seed."""
    flat = complete_config(config).to_dict()
    flat["data"].pop("seed", None)
    return {name: value for name, value in flat.items() if name not in ("seed", *names)}


COLUMNS = {"Waterbirds": "waterbirds", "CelebA": "celeba", "CivilComments": "civilcomments", "bFFHQ": "bffhq"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "columns"), [("table2", COLUMNS), ("table1-ccifar10", {"0.5": "ccifar10"})], ids=["table2", "table1"]
)
def test_the_tables_are_trained_with_the_recipes(name: str, columns: dict[str, str]) -> None:
    cells = read_cells(name)
    for column, data in columns.items():
        for method, row in METHODS.items():
            rules = ("selection",) if name == "table2" else ()
            assert list_options_except(cells[row, column].build_config(), *rules) == list_options_except(
                read_config(data, method), *rules
            )


@pytest.mark.parametrize(
    ("name", "row", "column", "data"),
    [
        *[("table1-cmnist-paper", row, "0.5", "cmnist") for row in METHODS.values() if row != "StagedLC"],
        ("ablation-bffhq", "both (LC)", "0.5", "bffhq"),
        ("ablation-q-waterbirds", "q = 0.8", "Waterbirds", "waterbirds"),
    ],
)
def test_grids_of_the_paper_are_trained_with_the_recipes(name: str, row: str, column: str, data: str) -> None:
    cells = read_cells(name)
    method = row.lower() if row.lower() in METHODS else "lc"
    others = ("device", "threads", "log_every", "batch_size")
    config = cells[row, column].build_config()
    assert config.training.batch_size in (None, read_config(data, method).training.batch_size)  # None is 256 for MNIST
    assert list_options_except(config, *others) == list_options_except(read_config(data, method), *others)
