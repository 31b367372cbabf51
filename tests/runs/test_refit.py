"""Training again on all rows: what is trained on, for how long, what is reported, and what cannot go with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from logit_correction import InputError, Run, RunConfig, audit, from_table, load, train
from logit_correction.cli import main
from logit_correction.errors import TrainingInterrupted
from logit_correction.training.display import Display

from ..page_reading import read_page_text

SHORT: dict[str, Any] = {"epochs": 4, "threads": 1, "page": False}


def make_patients(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Make a table whose column `site` is a shortcut to the outcome."""
    generator = np.random.default_rng(seed)
    is_ill = generator.integers(2, size=rows)
    site = np.where(generator.random(rows) < 0.85, is_ill, 1 - is_ill)
    dose = generator.normal(1.5 * is_ill, 1).round(3)
    return pd.DataFrame({"dose": dose, "site": np.array(["north", "south"])[site], "outcome": is_ill.astype(str)})


def make_table(folder: Path, frame: pd.DataFrame, **options: Any) -> Any:
    return from_table(frame, label="outcome", folder=folder, **options)


def get_weights(run: Run) -> dict[str, torch.Tensor]:
    state = load(run).model.algorithm.state_dict()
    return {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}


def are_equal(run: Run, other: Run) -> bool:
    weights, others = get_weights(run), get_weights(other)
    return all(torch.equal(weights[name], others[name]) for name in weights if name.startswith("network."))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return make_table(tmp_path_factory.mktemp("table"), make_patients())


@pytest.fixture(scope="module")
def split_run(table: Any, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(table, tmp_path_factory.mktemp("runs") / "split", shortcut="column:site", **SHORT)


@pytest.fixture(scope="module")
def run(table: Any, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(table, tmp_path_factory.mktemp("runs") / "all", shortcut="column:site", refit=True, **SHORT)


def test_it_trains_on_all_rows_and_reports_what_was_measured_before(run: Run, split_run: Run) -> None:
    report = run.report
    assert report.refit is not None and report.refit.rows == 400 and report.refit.splits == ["valid", "test"]
    assert report.selection.epoch == split_run.report.selection.epoch
    assert report.refit.epochs == [max(1, round(0.7 * (report.selection.epoch or 0)))]  # as many steps
    assert report.data.rows == split_run.report.data.rows == {"train": 280, "valid": 40, "test": 80}
    assert report.test.to_dict() == split_run.report.test.to_dict()
    assert report.warnings == split_run.report.warnings
    for name in ("predictions.parquet", "validation.parquet"):
        pd.testing.assert_frame_equal(pd.read_parquet(run / name), pd.read_parquet(split_run / name))
    assert not are_equal(run, split_run)
    assert get_weights(run)["attributes.row_attribute"].shape == (400,)
    assert RunConfig.read(run / "config.yaml").training.refit
    assert not list(run.path.glob("*resume*"))


def test_rows_that_were_trained_on_are_evaluated_by_the_training_before(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.evaluate("test") == run.report.test.to_dict()
    assert run.evaluate("valid", metrics=["recall"])["count"] == 40
    assert main(["evaluate", str(run)]) == 0
    assert "before it was trained on these rows" in capsys.readouterr().out
    assert main(["evaluate", str(run), "--split", "train"]) == 0
    assert "before it was trained" not in capsys.readouterr().out


def test_an_audit_of_it_examines_the_training_before(run: Run, split_run: Run, table: Any) -> None:
    options: dict[str, Any] = {"shortcut": "column:site", "epochs": 4, "threads": 1}
    found, expected = (audit(table, run=examined, **options).rows for examined in (run, split_run))
    columns = ["row", "network_label", "network_p"]
    pd.testing.assert_frame_equal(found[columns], expected[columns])


def test_a_split_that_was_given_is_never_trained_on(tmp_path: Path) -> None:
    frame = make_patients()
    frame["split"] = np.where(np.arange(400) < 100, "test", "train")
    turned = frame.assign(dose=np.where(frame["split"] == "test", -frame["dose"], frame["dose"]))
    runs = [
        train(make_table(tmp_path / str(number), rows, split="split"), refit=True, method="ERM", **SHORT)
        for number, rows in enumerate((frame, turned))
    ]
    first, second = runs
    assert first.report.refit is not None and first.report.refit.splits == ["valid"]
    assert first.report.refit.rows == 300 and are_equal(first, second)
    assert first.report.test.average != second.report.test.average
    rows = frame[frame["split"] == "test"]
    assert first.report.test.average == (first.predict(rows) == rows["outcome"]).mean()  # of the last training
    assert first.evaluate("test")["average"] == first.report.test.average
    given = frame.assign(split=np.array(["train", "valid", "test", "train"])[np.arange(400) % 4])
    both = train(make_table(tmp_path / "both", given, split="split"), refit=True, method="ERM", **SHORT)
    assert both.report.refit is None and not any("again" in warning for warning in both.report.warnings)


def test_it_trains_for_the_selected_steps_on_the_schedule_of_all(tmp_path: Path, table: Any) -> None:
    options = {**SHORT, "epochs": 12, "selection": "valid_average", "method": "ERM", "learning_rate": 0.05}
    split_run = train(table, tmp_path / "split", **options)
    refit_run = train(table, tmp_path / "all", refit=True, **options)
    assert split_run.report.selection.epoch is not None and split_run.report.selection.epoch < 12
    assert refit_run.report.refit is not None
    assert refit_run.report.refit.epochs == [round(0.7 * split_run.report.selection.epoch)]


def test_what_the_search_found_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from logit_correction.shortcuts.search import Search

    table = make_table(tmp_path, make_patients(800))
    searches = []
    conclude = Search.conclude
    monkeypatch.setattr(Search, "conclude", lambda *args: searches.append(1) or conclude(*args))
    found = train(table, tmp_path / "run", refit=True, **{**SHORT, "epochs": 8})
    assert len(searches) == 1
    finding = load(found).model.algorithm.attributes.finding
    assert finding is not None and found.report.finding is not None and finding.views == found.report.finding.views


class Stopping(Display):
    """Asks to stop, as Ctrl-C does, at an update of the training on all rows."""

    def __init__(self, update: int) -> None:
        super().__init__()
        self.updates_left = update
        self.is_last = False

    def show_message(self, text: str) -> None:
        self.is_last = self.is_last or "on all 400 rows" in text

    def update(self, *args: Any) -> None:
        self.updates_left -= self.is_last
        if self.updates_left == 0:
            os.kill(os.getpid(), signal.SIGINT)


def test_interrupted_in_the_last_training_it_ends_as_one_that_was_not(run: Run, table: Any, tmp_path: Path) -> None:
    options = {**SHORT, "shortcut": "column:site", "refit": True}
    for update in (1, 2):
        with pytest.raises(TrainingInterrupted):
            train(table, tmp_path / "stopped", progress=Stopping(update), resume=True, **options)
        assert (tmp_path / "stopped" / "refit-resume.pt").is_file()
    resumed = train(table, tmp_path / "stopped", resume=True, **options)
    assert are_equal(resumed, run) and resumed.report.test.to_dict() == run.report.test.to_dict()
    assert not list(resumed.path.glob("*resume*"))


def test_members_of_an_average_train_on_all_rows(table: Any, tmp_path: Path) -> None:
    members = [
        {"weight": 0.6, "method": {"name": "ERM"}, "leave_out": ["column:site"]},
        {"weight": 0.4, "method": {"name": "LC", "attributes": {"name": "Auto", "shortcut": ["column:site"]}}},
    ]
    options = {**SHORT, "method": {"name": "Average", "members": members}, "network": "MLP", "refit": True}
    whole = train(table, tmp_path / "whole", **options)
    assert whole.report.refit is not None and len(whole.report.refit.epochs) == 2
    selection = whole.report.selection  # of both members
    assert (selection.rule, selection.split) == ("last, valid_estimated_within_error", "valid")
    with pytest.raises(TrainingInterrupted):
        train(table, tmp_path / "stopped", progress=Stopping(3), **options)
    resumed = train(table, tmp_path / "stopped", resume=True, **options)
    assert are_equal(resumed, whole) and not list(resumed.path.glob("*resume*"))


def test_methods_that_cannot_are_refused_before_anything_is_trained(split_run: Run, table: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"LastLayer retrains on validation rows.*`refit`"):
        train(table, tmp_path / "run", refit=True, method="LastLayer", **SHORT)
    frame = make_patients()
    test_row = int(split_run.source.build().split["test"][0])
    frame["place"] = frame["site"].where(np.arange(400) != test_row)
    table = make_table(tmp_path, frame, attribute="place")
    train(table, method="GroupDRO", **SHORT)
    with pytest.raises(InputError, match=r"needs the attribute of every.*`refit`"):
        train(table, tmp_path / "run", refit=True, method="GroupDRO", **SHORT)
    assert not (tmp_path / "run").exists()


def test_a_network_of_it_is_not_measured_on_rows_that_it_was_trained_on(run: Run, table: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"trained again on rows that were drawn.*refit=False"):
        train(table, tmp_path / "run", method="LastLayer", network={"name": "FromRun", "run": str(run)}, **SHORT)


def test_the_command_line_knows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_patients(120).to_csv(tmp_path / "t.csv", index=False)
    words = ["train", "--data", str(tmp_path / "t.csv"), "--data.label", "outcome", "--method", "ERM", "--epochs", "2"]
    assert main([*words, "--refit", "--out", str(tmp_path / "all")]) == 0
    printed = " ".join("".join(capsys.readouterr()).split())
    page = read_page_text(tmp_path / "all" / "report.html")
    sentence = "again on all 120 rows; the accuracy on valid and test rows is that of the training before, on 84."
    assert sentence in printed and sentence in page and "warning" not in printed
    config = [
        "train",
        "--config",
        str(tmp_path / "all" / "config.yaml"),
        "--no-refit",
        "--out",
        str(tmp_path / "split"),
    ]
    assert main(config) == 0
    assert load(tmp_path / "all").report.refit is not None and load(tmp_path / "split").report.refit is None
    assert load(tmp_path / "all").report.test.to_dict() == load(tmp_path / "split").report.test.to_dict()


def test_the_fix_of_a_search_has_attributes_of_all_rows(tmp_path: Path) -> None:
    found = audit(
        make_table(tmp_path, make_patients()),
        tmp_path / "audit",
        shortcut="column:site",
        try_fix=False,
        threads=1,
        epochs=6,
    )
    rows = found.rows
    assert sorted(rows["row"]) == list(range(400)) and rows["attribute"].notna().all()
    own = make_patients().iloc[rows["row"]]
    assert (rows["attribute"].to_numpy() == own["site"].map({"north": "0", "south": "1"}).to_numpy()).all()
    fixed = found.fix(tmp_path / "fixed")
    assert fixed.report.refit is not None and fixed.report.refit.rows == 400
    assert not any("not corrected" in warning for warning in fixed.report.warnings)
    assert (get_weights(fixed)["attributes.row_attribute"] >= 0).all()
