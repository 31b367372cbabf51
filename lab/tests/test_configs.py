"""The recipes of ``lab/configs/``: complete, as published, and the same as in the benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logit_correction import RunConfig
from logit_correction.cli import commands
from logit_correction.cli.arguments import arguments_of
from logit_correction.runs.options import complete
from logit_correction_lab.grid import read

FOLDER = Path(__file__).parents[1] / "configs"
DATA = ("cmnist", "ccifar10", "bffhq", "waterbirds", "celeba", "civilcomments")
METHODS = {name.lower(): name for name in ("ERM", "GroupDRO", "JTT", "LfF", "DFA", "LC", "StagedLC")}


def config_of(data: str, method: str, *words: object) -> RunConfig:
    given = ["--config", FOLDER / f"{data}-{method}.yaml", *words, "--out", "run"]
    config: RunConfig = arguments_of("train", commands.train_command, [str(word) for word in given])["config"]
    return config


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


@pytest.mark.parametrize("data", DATA)
def test_lc_is_trained_as_in_the_paper(data: str) -> None:
    options = config_of(data, "lc").to_dict()["method"]
    online, prior, mixing = (options[part] for part in ("attributes", "prior", "mixing"))
    assert (online["name"], prior["name"], mixing["name"]) == ("Online", "Moving", "GroupMixUp")
    assert (online["head_start_epochs"], online["epochs"], online["q_ramp_up_epochs"]) == (0, None, 0)
    assert (online["input_dropout"], online["schedule"], options["strength"]) == (0, "same", 1)
    assert (prior["estimator"], prior["floor"]) == ("published", 1e-4)
    momentum = {"civilcomments": 0.9, "waterbirds": None}  # which averages over the batch
    assert prior["momentum"] == momentum.get(data, 0.5)
    assert prior["averaging"] == ("batch" if data == "waterbirds" else "moving")
    assert (mixing["rows"], mixing["limit"]) == ("every-row", 0.5)


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
            rules = ("selection",) if name == "table2" else ()
            assert but_for(cells[row, column].config(), *rules) == but_for(config_of(data, method), *rules)
