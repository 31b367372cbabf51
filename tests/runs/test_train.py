"""``train`` as a function: what it writes, refuses and leaves alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from logit_correction import ComponentConfig, InputError, RunConfig, TrainingConfig
from logit_correction.data.table import DataTable
from logit_correction.runs.train import train


def config(method: str = "ERM", **options: object) -> RunConfig:
    training = TrainingConfig(epochs=2, batch_size=32, threads=1, **options)  # type: ignore[arg-type]
    own = {"attributes": "Online"} if method == "LC" else {}
    return RunConfig(
        ComponentConfig("my_parts.Points"), ComponentConfig(method, own), ComponentConfig("MLP"), training=training
    )


def weights(run: Path) -> dict[str, torch.Tensor]:
    state = torch.load(run / "checkpoint.pt", weights_only=True)["algorithm"]
    return {name: value for name, value in state.items() if torch.is_tensor(value)}


def test_without_a_page_everything_else_is_there(tmp_path: Path) -> None:
    run = train(config(), tmp_path / "run", page=False)
    assert run == tmp_path / "run"
    files = {"config.yaml", "metrics.csv", "report.json", "predictions.parquet", "validation.parquet", "checkpoint.pt"}
    assert {path.name for path in run.iterdir()} == files | {".checksums"}


def test_the_folder_may_be_named_by_a_string_and_lie_deep(tmp_path: Path) -> None:
    run = train(config(), str(tmp_path / "a" / "b" / "run"), page=False)
    assert (run / "report.json").is_file()


def test_announce_is_told_before_training(tmp_path: Path) -> None:
    told: list[tuple[RunConfig, DataTable]] = []

    def announce(complete: RunConfig, table: DataTable) -> None:
        assert not (tmp_path / "run" / "checkpoint.pt").exists()
        told.append((complete, table))

    train(config(), tmp_path / "run", announce=announce, page=False)
    assert len(told) == 1
    assert told[0][0].network.options == {"hidden": [100, 100, 100]}
    assert len(told[0][1].split["train"]) == 90


def test_the_same_config_gives_the_same_weights_and_another_seed_others(tmp_path: Path) -> None:
    one, same, other = (
        weights(train(config("LC", seed=seed), tmp_path / name, page=False))
        for name, seed in (("one", 0), ("same", 0), ("other", 1))
    )
    assert all(torch.equal(value, same[name]) for name, value in one.items())
    assert any(not torch.equal(value, other[name]) for name, value in one.items())


def test_the_global_random_state_plays_no_part(tmp_path: Path) -> None:
    torch.manual_seed(1)
    one = weights(train(config("LC"), tmp_path / "one", page=False))
    torch.manual_seed(2)
    np.random.seed(2)
    other = weights(train(config("LC"), tmp_path / "other", page=False))
    assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize(
    ("rule", "read"),
    [
        ("last", ["label"]),
        ("valid_average", ["label"]),
        ("valid_worst_class", ["label"]),
        ("valid_class_difference", ["label"]),
        ("valid_group_balanced", ["label", "attribute"]),
        ("valid_worst_group", ["label", "attribute"]),
    ],
)
def test_every_rule_says_which_labels_it_reads(rule: str, read: list[str], tmp_path: Path) -> None:
    run = train(config(selection=rule, also_select=[]), tmp_path / "run", page=False)
    report = json.loads((run / "report.json").read_text())
    assert report["selection"]["rule"] == rule and report["other_selections"] == []
    assert report["selection"]["labels_read"] == ([] if rule == "last" else read)
    assert report["selection"]["split"] == (None if rule == "last" else "valid")
    assert report["labels_read"] == {"train": ["label"], "valid": read, "test": ["label", "attribute"]}


def test_the_test_split_selects_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import my_parts

    first = train(config(selection="valid_average"), tmp_path / "first", page=False)
    build = my_parts.Points.build

    def permuted(self: my_parts.Points) -> DataTable:
        table = build(self)
        rows = table.split["test"]
        table.label[rows] = table.label[rows].roll(1)
        return table

    monkeypatch.setattr(my_parts.Points, "build", permuted)
    second = train(config(selection="valid_average"), tmp_path / "second", page=False)
    assert all(torch.equal(value, weights(second)[name]) for name, value in weights(first).items())
    reports = [json.loads((run / "report.json").read_text()) for run in (first, second)]
    assert reports[0]["selection"] == reports[1]["selection"]
    assert reports[0]["test"] != reports[1]["test"]


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    run = train(config(), tmp_path / "run", page=False)
    before = {path: path.stat().st_mtime_ns for path in run.iterdir()}
    assert train(config(), run, resume=True, page=False) == run
    with pytest.raises(InputError, match="already holds a finished run"):
        train(config(), run)
    with pytest.raises(InputError, match="seed = 0, not 1"):
        train(config(seed=1), run, resume=True)
    assert {path: path.stat().st_mtime_ns for path in run.iterdir()} == before


def test_resume_of_nothing_starts_at_the_beginning(tmp_path: Path) -> None:
    first = weights(train(config(), tmp_path / "first", page=False))
    second = weights(train(config(), tmp_path / "second", resume=True, page=False))
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def test_the_network_of_erm_starts_as_that_of_lc(tmp_path: Path) -> None:
    from logit_correction.runs.assemble import build_algorithm, build_source
    from logit_correction.runs.options import complete

    states = []
    for method in ("ERM", "LC"):
        whole = complete(config(method))
        algorithm = build_algorithm(whole, build_source(whole).build().info)
        states.append(algorithm.network.state_dict())
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
