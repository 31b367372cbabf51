"""The regret of selection rules on a tiny grid of runs, against figures worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from logit_correction import ComponentConfig, RunConfig, TrainingConfig, train
from logit_correction.pages.folder import RunFolder

from ..conftest import benchmark_script

script = benchmark_script("selection_regret")

RULES = ["last", "valid_worst_class", "valid_worst_group", "valid_class_difference"]


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ERM with two learning rates and LC, on one data set with a named shortcut."""
    folder = tmp_path_factory.mktemp("grid")
    data = ComponentConfig("Planted", {"set": "column", "rows": 600, "minority_ratio": 0.1})
    shortcut = {"attributes": {"name": "Auto", "shortcut": ["column:form_version"]}}
    for name, method, rate in (("a", "ERM", 2e-3), ("b", "ERM", 1e-4), ("c", "LC", 2e-3)):
        own = [*RULES, "valid_estimated_worst_group"] if method == "LC" else RULES
        training = TrainingConfig(
            epochs=4, batch_size=64, threads=1, device="cpu", learning_rate=rate, also_select=own, watch=["test"]
        )
        options = shortcut if method == "LC" else {}
        network = ComponentConfig("MLP", {"hidden": [16]})
        train(RunConfig(data, ComponentConfig(method, options), network, training=training), folder / name, page=False)
    return folder


def test_regret_over_epochs_is_the_distance_to_the_best_epoch(grid: Path) -> None:
    found = script.regrets(script.find_runs([grid]), "worst_group")
    epochs = found[found["choice"] == "epoch"]
    runs = {name: pd.read_csv(grid / name / "metrics.csv").dropna(subset=["test_worst_group"]) for name in "abc"}
    for rule in ("valid_worst_class", "valid_worst_group"):
        expected = [  # the latest of equal epochs
            run["test_worst_group"].max() - run.loc[run[rule][::-1].idxmax(), "test_worst_group"]
            for run in runs.values()
        ]
        assert sorted(epochs[epochs["rule"] == rule]["regret"]) == pytest.approx(sorted(expected))
    last = [run["test_worst_group"].max() - run["test_worst_group"].iloc[-1] for run in runs.values()]
    assert sorted(epochs[epochs["rule"] == "last"]["regret"]) == pytest.approx(sorted(last))
    assert set(epochs["candidates"]) == {4} and (epochs["regret"] >= 0).all()
    assert len(epochs[epochs["rule"] == "valid_estimated_worst_group"]) == 1  # ERM estimates nothing


def test_regret_over_runs_judges_all_by_the_estimate_of_one(grid: Path) -> None:
    found = script.regrets(script.find_runs([grid]), "worst_group")
    runs = found[found["choice"] == "run"].set_index("rule")
    figures = {name: RunFolder.read(grid / name).test["worst_group"] for name in "abc"}
    assert max(figures, key=lambda name: figures[name]) == "c"
    assert runs.loc["valid_worst_group", "regret"] == runs.loc["valid_estimated_worst_group", "regret"] == 0
    average = {name: pd.read_csv(grid / name / "metrics.csv")["valid_average"].dropna().iloc[-1] for name in "abc"}
    taken = max(average, key=lambda name: average[name])
    assert taken != "c"  # plain accuracy prefers what leans on the shortcut
    assert runs.loc["valid_average", "regret"] == pytest.approx(figures["c"] - figures[taken])
    assert "last" not in runs.index and set(runs["candidates"]) == {3}


def test_the_table_names_rules_and_data(grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "regret.md"
    monkeypatch.setattr("sys.argv", ["selection_regret.py", str(grid), "--metric", "worst_group", "--out", str(out)])
    script.main()
    text = out.read_text()
    assert "| chosen by | Planted | all |" in text and "| `valid_view_agreement` |" in text
    assert text.index("Choice between the epochs of a run") < text.index("Choice between the runs of the same data")
    assert list(pd.read_csv(tmp_path / "regret.csv").columns) == list(script.COLUMNS)
    monkeypatch.setattr("sys.argv", ["selection_regret.py", str(tmp_path)])
    with pytest.raises(SystemExit, match="no finished run"):
        script.main()
