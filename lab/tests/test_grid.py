"""Grids: how they are merged, named, read and refused, and that those that ship are sound."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from logit_correction import ComponentConfig, InputError, RunConfig
from logit_correction.runs.assemble import fill_defaults_from_data
from logit_correction.runs.model import build_algorithm
from logit_correction.runs.options import complete_config
from logit_correction.types import DataInfo, TrainingRows, ViewInputs
from logit_correction_lab.grid import Benchmark, read_grid, read_shipped_titles


def write_grid_file(path: Path, **changes: Any) -> Path:
    content = {
        "title": "A grid",
        "rows": {"ERM": {"method": {"name": "ERM"}}, "LC": {"method": {"name": "LC"}}},
        "columns": {"5 %": {"data": {"minority_ratio": 0.05}}},
        "common": {"data": {"name": "Digits"}, "epochs": 1},
    }
    content |= changes
    path.write_text(yaml.safe_dump({k: v for k, v in content.items() if v != "leave out"}, sort_keys=False))
    return path


def test_make_cells_yields_every_row_in_every_column_seed_by_seed(tmp_path: Path) -> None:
    columns = {"a": {"data": {"minority_ratio": 0.1}}, "b": {"data": {"minority_ratio": 0.2}, "epochs": 9}}
    benchmark = read_grid(str(write_grid_file(tmp_path / "mine.yml", columns=columns, seeds=2, data_seeds=True)))
    cells = list(benchmark.make_cells(tmp_path / "out"))
    assert [(cell.seed, cell.column, cell.row) for cell in cells] == [
        (seed, column, row) for seed in (0, 1) for column in ("a", "b") for row in ("ERM", "LC")
    ]
    last = cells[-1]
    assert last.folder == tmp_path / "out" / "lc" / "b" / "seed-1"
    config = last.build_config()
    assert (config.method.name, config.training.epochs, config.training.seed) == ("LC", 9, 1)
    assert config.data.options["minority_ratio"] == 0.2 and config.data.options["seed"] == 1
    fixed = list(read_grid(str(write_grid_file(tmp_path / "fixed.yaml"))).make_cells(tmp_path))[-1].build_config()
    assert fixed.training.seed == 2 and fixed.data.options["seed"] == 0


def test_options_of_a_cell_override_those_of_its_row(tmp_path: Path) -> None:
    changes = {
        "columns": {5: {}, 6: {}},
        "rows": {"LC": {"method": {"name": "LC", "strength": 0.3}, "epochs": 3}},
        "cells": {"LC": {6: {"method": {"strength": 0.8}, "epochs": 7}}},
    }
    other_cell, cell_with_options = read_grid(
        str(write_grid_file(tmp_path / "mine.yaml", seeds=1, **changes))
    ).make_cells(tmp_path)
    assert other_cell.options["method"] == {"name": "LC", "strength": 0.3} and other_cell.options["epochs"] == 3
    assert (
        cell_with_options.options["method"] == {"name": "LC", "strength": 0.8}
        and cell_with_options.options["epochs"] == 7
    )


def test_added_rows_are_in_the_text_of_the_grid(tmp_path: Path) -> None:
    path = write_grid_file(tmp_path / "mine.yaml", columns={5: {"epochs": 3}, 6: {}})
    mine = tmp_path / "rows.yaml"
    content = {"rows": {7: {"method": "LC"}}, "cells": {7: {6: {"epochs": 4}}}, "tuning": {7: "two rates: 1e-3, 1e-2"}}
    mine.write_text(yaml.safe_dump(content))
    changed = read_grid(str(path), seeds=1, rows_file=mine, reference="7")
    *_, last = changed.make_cells(tmp_path)
    assert list(changed.rows) == ["ERM", "LC", "7"] and (last.row, last.options["epochs"]) == ("7", 4)
    assert changed.reference == "7" and changed.tuning == {"7": "two rates: 1e-3, 1e-2"}
    (tmp_path / "kept.yaml").write_text(changed.text)
    read_again = read_grid(str(tmp_path / "kept.yaml"), seeds=1)
    assert replace(read_again, name=changed.name) == changed
    assert (
        read_grid(str(tmp_path / "kept.yaml"), seeds=1, rows_file=mine).rows == changed.rows
    )  # the same rows once more


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"columns": ["a"]}, "it is not a grid of rows and columns"),
        ({"rowz": {}}, "key 'rowz' is unknown (did you mean rows?)"),
        ({"rows": {"JTT, up 5": {"method": "JTT"}, "JTT up-5": {"method": "JTT"}}}, "'JTT, up 5' and 'JTT up-5'"),
        ({"metric": "balanced"}, "metric 'balanced' is unknown (did you mean group_balanced?)"),
        ({"column_metrics": {"9": "minority"}}, "column of column_metrics '9'"),
        ({"cells": {"EMR": {"5 %": {}}}}, "row of cells 'EMR' is unknown (did you mean ERM?)"),
        ({"paper": {"ERM": {"1": 71}}}, "column of paper '1'"),
        ({"figure": "lines"}, "figure 'lines'"),
        ({"figure": {"kind": "curves", "metrc": "average"}}, "(did you mean metric?)"),
        ({"figure": "accuracy", "columns": {"many": {}, "few": {}}}, "figure accuracy needs columns that are numbers"),
        ({"rows": {"ERM": "ERM"}}, "'ERM' is 'ERM': give options"),
        ({"paper": {"ERM": {"5 %": "71"}}}, "paper has '71': give a figure"),
        ({"seeds": [0, 5]}, "seeds is [0, 5]"),
        ({"tuning": {"EMR": "nothing tuned"}}, "row of tuning 'EMR' is unknown (did you mean ERM?)"),
        ({"tuning": {"ERM": 3}}, "tuning of 'ERM' is 3"),
        ({"reference": "EMR"}, "reference 'EMR' is unknown (did you mean ERM?)"),
    ],
)
def test_read_grid_refuses_wrong_content(changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    path = write_grid_file(tmp_path / "mine.yaml", **changes)
    with pytest.raises(InputError, match=re.escape(expected)) as error:
        read_grid(str(path))
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "name", [name if name == "smoke" else pytest.param(name, marks=pytest.mark.slow) for name in read_shipped_titles()]
)
def test_every_cell_of_a_shipped_grid_is_valid(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    benchmark: Benchmark = read_grid(name)
    cells = list(benchmark.make_cells(tmp_path))
    assert len(cells) == len(benchmark.rows) * len(benchmark.columns) * benchmark.seeds
    assert len({cell.folder for cell in cells}) == len(cells)
    configs = [
        cell.build_config() for cell in cells[: len(cells) // benchmark.seeds]
    ]  # other seeds differ by them alone
    assert all(complete_config(config) == config for config in configs)
    text_model = request.getfixturevalue("tiny_bert") if "TextClassifier" in benchmark.text else Path()
    for config in configs:
        check_method_can_be_built(config, text_model)
    # No two cells are the same run, so no row or column stands there in vain.
    assert len({config.to_yaml() for config in configs}) == len(configs)
    for row, figures in benchmark.paper.items():
        assert set(figures) <= set(benchmark.columns), row
        for figure in figures.values():
            mean, deviation = figure if isinstance(figure, list) else (figure, 1.0)
            assert 20 < mean < 100 and 0 < deviation < 6, row


def check_method_can_be_built(config: RunConfig, text_model: Path) -> None:
    """Check that data and method take the options, and so many epochs; no data are read for it, nor large weights."""
    planted = getattr(config.data.make(), "planted", None)
    correlation = planted.correlation if planted else None
    attributes = correlation.num_attributes if correlation else 10
    info = DataInfo(10, 100, (3, 28, 28), num_attributes=attributes, correlation=correlation)
    if config.network.name == "TextClassifier":
        options = config.network.options | {"model": str(text_model)}
        config = complete_config(replace(config, network=ComponentConfig("TextClassifier", options)))
        info = DataInfo(2, 100, (12,), tokens=True)
    if config.network.name.startswith("ResNet"):
        config = complete_config(replace(config, network=ComponentConfig("ConvNet")))
    algorithm = build_algorithm(fill_defaults_from_data(config, info)[0], info)
    label = torch.arange(100) % info.num_labels
    attribute = torch.arange(100) % info.num_attributes
    view_inputs = ViewInputs(100, lambda rows: torch.zeros(len(rows), *info.input_shape))
    epochs = config.training.epochs
    valid = TrainingRows(label, attribute if algorithm.needs_valid_attributes else None, view_inputs)
    known_attribute = attribute if algorithm.needs_attributes else None
    algorithm.setup(TrainingRows(label, known_attribute, view_inputs, epochs=epochs, held_out=valid))
