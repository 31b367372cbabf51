"""New rows outside of the range of the training rows are told, in each door, and no others."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from logit_correction import LogitCorrectionClassifier, Run, from_table, load, train
from logit_correction.cli import main
from logit_correction.errors import InputWarning


def make_visits(rows: int, seed: int, first_day: str = "2019-01-03") -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    label = generator.integers(2, size=rows)
    days = pd.to_timedelta(generator.integers(1000, size=rows), unit="D")
    frame = pd.DataFrame({"dose": generator.normal(label, 1).round(3), "label": np.array(["no", "yes"])[label]})
    return frame.assign(date=(pd.Timestamp(first_day) + days).strftime("%Y-%m-%d"))


OLD = make_visits(600, 0)
LATER = make_visits(150, 1, "2024-01-01")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("visits")
    table = from_table(OLD, label="label", folder=folder / "data")
    return train(table, folder / "run", method="ERM", epochs=2, threads=1, page=False)


def get_training_days(run: Run) -> tuple[str, str]:
    split = run.source.build().split["train"]
    days = OLD["date"].iloc[split.numpy()]
    return days.min(), days.max()


def collect_warnings(predict: object, rows: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        predict(rows)  # type: ignore[operator]
    return [str(warning.message) for warning in caught if issubclass(warning.category, InputWarning)]


def test_dates_after_all_of_training_are_told_with_count_and_range(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, last = get_training_days(run)
    (message,) = collect_warnings(run.predict, LATER.drop(columns="label"))
    assert f"column 'date' is after all of training's ({first} to {last}) in all 150 rows" in message
    LATER.to_csv(tmp_path / "later.csv", index=False)
    assert main(["predict", str(run.path), str(tmp_path / "later.csv"), "--out", str(tmp_path / "out.csv")]) == 0
    assert "is after all of training's" in " ".join(capsys.readouterr().err.split())


def test_numbers_below_and_above_are_told_apart(run: Run) -> None:
    rows = make_visits(100, 2).drop(columns="label")
    rows.loc[:2, "dose"] = -50.0
    rows.loc[3:4, "dose"] = 90.0
    below, above = collect_warnings(run.predict, rows)
    assert "column 'dose' is below" in below and "in 3 of 100 rows, such as -50" in below
    assert "column 'dose' is above" in above and "in 2 of 100 rows, such as 90" in above
    (single,) = collect_warnings(run.predict, rows[:1])
    assert "in 1 of 1 row" in single


def test_rows_like_those_of_training_are_not_told(run: Run) -> None:
    assert collect_warnings(run.predict, make_visits(300, 3).drop(columns="label")) == []
    assert collect_warnings(run.evaluate, "test") == []


def test_the_classifier_warns_of_columns_and_of_features_of_arrays() -> None:
    y = OLD["label"]
    frame = OLD.drop(columns="label")
    classifier = LogitCorrectionClassifier("ERM", epochs=2, random_state=0).fit(frame, y)
    (message,) = collect_warnings(classifier.predict, LATER.drop(columns="label"))
    assert "column 'date' is after" in message
    X = np.random.default_rng(0).normal(size=(600, 3))
    classifier.fit(X, y)
    assert collect_warnings(classifier.predict, X) == []
    (message,) = collect_warnings(classifier.predict, X + np.array([0, 20, 0]))
    assert "column 1 is above" in message and "in all 600 rows" in message


def test_a_run_without_ranges_still_predicts(run: Run) -> None:
    file = run.path / "report.json"
    assert all("range" in column for column in json.loads(file.read_text())["data"]["preparation"]["columns"])
    columns = [{k: v for k, v in column.items() if k != "range"} for column in run.report.data.preparation["columns"]]
    run.source.reader.load_state({"columns": columns})  # as runs of older versions have them
    try:
        assert collect_warnings(run.predict, LATER.drop(columns="label")) == []
    finally:
        run.source.reader.load_state(run.report.data.preparation)


@pytest.mark.parametrize("trained_with_zone", [True, False])
def test_times_with_a_zone_in_training_or_new_rows_alone_are_told(trained_with_zone: bool, tmp_path: Path) -> None:
    times = pd.Series(pd.date_range("2024-01-01", periods=len(OLD), freq="7h17min").astype(str))
    forms = [times + "+02:00", times] if trained_with_zone else [times, times + "+02:00"]
    training_rows, new_rows = (OLD[["dose", "label"]].assign(time=form) for form in forms)
    table = from_table(training_rows, label="label", folder=tmp_path / "data")
    run = train(table, tmp_path / "run", method="ERM", epochs=1, threads=1, page=False)
    assert not any("zone" in message for message in collect_warnings(run.predict, training_rows))
    for rows in (new_rows, new_rows.assign(time=pd.to_datetime(new_rows["time"]))):
        (message,) = [text for text in collect_warnings(run.predict, rows) if "zone" in text]
        assert "column 'time' has times with" in message and "in all 600 rows" in message
    assert not any("zone" in message for message in collect_warnings(load(run.path).predict, training_rows.head(9)))
