"""The recipes of ``configs/``: complete, as published, the same as in the benchmarks, and trainable from end to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from logit_correction import RunConfig, train
from logit_correction.bench.cmnist import ColoredMNIST
from logit_correction.bench.grid import read
from logit_correction.cli import commands
from logit_correction.cli.arguments import arguments_of
from logit_correction.data.table import DataTable
from logit_correction.runs.options import complete

FOLDER = Path(__file__).parents[1] / "configs"
DATA = ("cmnist", "ccifar10", "bffhq", "waterbirds", "celeba", "civilcomments")
METHODS = {name.lower(): name for name in ("ERM", "GroupDRO", "JTT", "LfF", "DFA", "LC", "StagedLC")}
PAIRS = [(data, method) for data in DATA for method in METHODS]


def config_of(data: str, method: str, *words: object) -> RunConfig:
    given = ["--config", FOLDER / f"{data}-{method}.yaml", *words, "--out", "run"]
    config: RunConfig = arguments_of("train", commands.train_command, [str(word) for word in given])["config"]
    return config


def test_there_is_a_recipe_for_every_pair_and_no_other_file() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{data}-{method}.yaml" for data, method in PAIRS}


@pytest.mark.slow
@pytest.mark.parametrize("data", DATA)
def test_every_recipe_is_sound_and_names_its_source(data: str) -> None:
    for method, name in METHODS.items():
        config = config_of(data, method)
        assert config.method.name == name and config == complete(config)
        first, *others = (FOLDER / f"{data}-{method}.yaml").read_text().splitlines()
        comment = " ".join([first, *(line for line in others if line.startswith("#"))])
        assert first.startswith(f"# {name.replace('GroupDRO', 'Group DRO')} on ")
        assert any(word in comment for word in ("published", "paper")), comment
        assert not config.training.selection.startswith("test")


# Learning rate, weight decay, batch size and epochs as they are published.
PUBLISHED: dict[str, tuple[float, float, int, int]] = {
    "cmnist-erm": (1e-2, 0, 256, 233),
    "cmnist-lff": (1e-3, 0, 256, 100),
    "cmnist-dfa": (1e-2, 0, 256, 233),
    "cmnist-lc": (1e-2, 0, 256, 233),
    "ccifar10-erm": (1e-3, 0, 256, 284),
    "ccifar10-lff": (1e-3, 0, 256, 200),
    "ccifar10-dfa": (5e-4, 0, 256, 284),
    "ccifar10-lc": (5e-4, 0, 256, 284),
    "bffhq-erm": (1e-4, 0, 64, 167),
    "bffhq-dfa": (1e-4, 0, 64, 167),
    "bffhq-lc": (1e-4, 0, 64, 167),
    "waterbirds-groupdro": (1e-3, 1e-4, 128, 300),
    "waterbirds-jtt": (1e-5, 1, 64, 300),
    "waterbirds-lc": (1e-3, 1e-4, 32, 300),
    "celeba-groupdro": (1e-4, 1e-4, 128, 50),
    "celeba-jtt": (1e-5, 0.1, 64, 50),
    "celeba-lc": (1e-4, 1e-4, 256, 50),
    "civilcomments-erm": (2e-5, 0, 24, 3),
    "civilcomments-jtt": (1e-5, 1e-2, 16, 3),
    "civilcomments-lc": (1e-5, 1e-2, 16, 3),
}


def test_recipes_have_the_published_numbers() -> None:
    found = {}
    for name in PUBLISHED:
        training = config_of(*name.split("-")).training
        found[name] = training.learning_rate, training.weight_decay or 0, training.batch_size, training.epochs
    assert found == PUBLISHED
    lc = {data: config_of(data, "lc").to_dict()["method"] for data in DATA}
    assert {data: lc[data]["attributes"]["q"] for data in DATA} == {data: 0.7 for data in DATA} | {"waterbirds": 0.8}
    ramp_up = {data: lc[data]["mixing"]["ramp_up_epochs"] for data in DATA}
    assert [ramp_up[data] for data in ("cmnist", "ccifar10", "bffhq", "waterbirds", "celeba")] == [2, 2, 2, 50, 50]


@pytest.mark.parametrize("data", DATA)
def test_lc_is_trained_as_in_the_paper(data: str) -> None:
    options = config_of(data, "lc").to_dict()["method"]
    online, prior, mixing = (options[part] for part in ("attributes", "prior", "mixing"))
    assert (online["name"], prior["name"], mixing["name"]) == ("Online", "Moving", "GroupMixUp")
    assert (online["head_start_epochs"], online["epochs"], online["q_ramp_up_epochs"]) == (0, None, 0)
    assert (online["input_dropout"], online["schedule"], options["strength"]) == (0, "same", 1)
    assert (prior["estimator"], prior["floor"]) == ("cell", 1e-4)
    momentum = {"civilcomments": 0.9, "waterbirds": None}  # which averages over the batch
    assert prior["momentum"] == momentum.get(data, 0.5)
    assert prior["averaging"] == ("batch" if data == "waterbirds" else "moving")
    assert (mixing["rows"], mixing["prior"], mixing["limit"]) == ("every-row", "convex", 0.5)


def steps(rows: int, batch_size: int) -> int:
    return -(-rows // batch_size)


@pytest.mark.parametrize(("data", "rows"), [("cmnist", 55_000), ("ccifar10", 45_000), ("bffhq", 19_200)])
def test_epochs_are_the_published_50_000_steps(data: str, rows: int) -> None:
    training = config_of(data, "dfa").training
    per_epoch = steps(rows, training.batch_size)
    assert abs(training.epochs * per_epoch - 50_000) < per_epoch
    swapped = config_of(data, "dfa").method.options["swap_from_epoch"] * per_epoch
    assert abs(swapped - 10_000) < per_epoch


def test_waterbirds_lowers_the_learning_rate_every_50_epochs() -> None:
    training = config_of("waterbirds", "lc").training
    assert training.step_every == 50 * steps(4_795, training.batch_size)


def but_for(config: RunConfig, *names: str) -> dict[str, Any]:
    """The options of a run but for some, and for the seed."""
    flat = complete(config).to_dict()
    flat["data"].pop("seed", None)
    return {name: value for name, value in flat.items() if name not in ("seed", *names)}


COLUMNS = {"Waterbirds": "waterbirds", "CelebA": "celeba", "CivilComments": "civilcomments", "bFFHQ": "bffhq"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "columns"), [("table2", COLUMNS), ("table1-ccifar10", {"0.5": "ccifar10"})], ids=["table2", "table1"]
)
def test_the_tables_are_trained_with_the_recipes(name: str, columns: dict[str, str]) -> None:
    cells = {(cell.row, cell.column): cell for cell in read(name, seeds=1).cells(Path("out"))}
    for column, data in columns.items():
        for method, row in METHODS.items():
            rules = ("selection", "also_select") if name == "table2" else ()
            assert but_for(cells[row, column].config(), *rules) == but_for(config_of(data, method), *rules)


@pytest.mark.parametrize(
    ("name", "row", "data"),
    [("ablation-bffhq", "both (LC)", "bffhq"), ("ablation-q-waterbirds", "q = 0.8", "waterbirds")],
)
def test_the_ablations_begin_with_the_recipe_of_lc(name: str, row: str, data: str) -> None:
    cell = next(cell for cell in read(name).cells(Path("out")) if cell.row == row)
    assert but_for(cell.config()) == but_for(config_of(data, "lc"))


# Options that let a recipe be done with soon, and leave out what is large.
TINY: dict[str, tuple[object, ...]] = {
    "cmnist": ("--batch_size", 32),
    "ccifar10": ("--batch_size", 20),
    "bffhq": ("--data.size", 32, "--batch_size", 16),
    "waterbirds": ("--data.size", 32, "--batch_size", 16),
    "celeba": ("--data.size", 32, "--batch_size", 16),
    "civilcomments": ("--data.max_tokens", 12, "--batch_size", 48),
}
SOON: dict[str, tuple[object, ...]] = {
    "jtt": ("--method.identification_epochs", 1, "--method.up_weight", 2),
    "dfa": ("--method.swap_from_epoch", 0.5),
    "stagedlc": ("--method.attributes.splits", 1, "--method.attributes.epochs", 1),
}


@pytest.fixture(scope="session")
def roots(layouts: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Where the data are, each in its official layout."""
    root = tmp_path_factory.mktemp("official")
    for name in ("waterbirds", "celeba", "bffhq"):
        getattr(layouts, name)(root)
    layouts.civilcomments(root)
    folder = root / "published-ccifar10"
    for label in range(10):
        for number, (part, value) in enumerate((("align", label),) * 3 + (("conflict", (label + 1) % 10),)):
            layouts.write_image(folder / "0.5pct" / part / str(label) / f"{number}_{label}_{value}.png", 1, 0, (32, 32))
        layouts.write_image(folder / "0.5pct" / "valid" / str(label) / f"0_{label}_{label}.png", 1, 0, (32, 32))
        layouts.write_image(folder / "test" / str(label) / f"0_{label}_{9 - label}.png", 1, 0, (32, 32))
    return {name: folder if name == "ccifar10" else root for name in DATA}


@pytest.fixture
def few_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Colored MNIST have blank glyphs, and few rows of each split."""
    build = ColoredMNIST.build

    def read_blank(root: Path, download: bool) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full((1, 28, 28), 99, dtype=torch.uint8).expand(70_000, 28, 28), torch.arange(70_000) % 10

    def build_few(self: ColoredMNIST) -> DataTable:
        table = build(self)
        return replace(table, split={name: rows[:64] for name, rows in table.split.items()})

    monkeypatch.setattr("logit_correction.bench.cmnist.read_mnist", read_blank)
    monkeypatch.setattr(ColoredMNIST, "build", build_few)


@pytest.fixture
def tiny(roots: dict[str, Path], few_digits: None, request: pytest.FixtureRequest) -> Callable[[str, str], RunConfig]:
    """A recipe for two steps a stage on small data, with a small network in place of a large one."""

    def shrink(data: str, method: str) -> RunConfig:
        place = "published" if data == "ccifar10" else "root"
        words = [*TINY[data], *SOON.get(method, ()), f"--data.{place}", roots[data]]
        if data == "civilcomments":
            model = request.getfixturevalue("tiny_bert")
            words += ["--data.tokenizer", model, "--network.model", model]
        elif method == "erm" and data != "cmnist":
            words += ["--network.name", "ResNet18", "--network.weights", "none", "--network.stem", "imagenet"]
        elif data != "cmnist":
            words += ["--network.name", "ConvNet", "--network.channels", "[4,4]", "--network.convolutions", 1]
        return config_of(data, method, *words, "--epochs", 1, "--device", "cpu", "--threads", 1, "--workers", 0)

    return shrink


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", DATA)
def test_every_recipe_trains(data: str, method: str, tiny: Any, tmp_path: Path) -> None:
    config = tiny(data, method)
    report = json.loads((train(config, tmp_path / "run", page=False) / "report.json").read_text())
    assert report["method"] == METHODS[method] and report["epochs"] == 1
    stages = 2 if method in ("jtt", "stagedlc") else 1
    assert 2 * stages <= report["steps"] <= 4 * stages
    assert report["selection"]["rule"] == config.training.selection
    assert report["labels_read"]["train"] == (["label", "attribute"] if method == "groupdro" else ["label"])
    assert report["test"]["worst_group"] is not None
