"""Selection by estimated groups, in whole runs: no attribute is read, and what cannot be done is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from logit_correction import ComponentConfig, InputError, RunConfig, TrainingConfig, load, train
from logit_correction.bench.planted import Planted
from logit_correction.data.table import DataTable
from logit_correction.evaluation import Predictions
from logit_correction.runs.run import Run

RULES: list[str | None] = ["valid_estimated_group_balanced", "valid_estimated_worst_group", "valid_view_agreement"]


def fitted(out: Path, method: str = "LC", rules: list[str | None] = RULES, **options: Any) -> Run:
    attributes = {"name": "Auto", "shortcut": ["column:form_version"]}
    options = options or ({"attributes": attributes} if method == "LC" else {})
    selection, *others = rules
    also = [*(rule for rule in others if rule is not None), "last"]
    training = TrainingConfig(epochs=4, batch_size=64, threads=1, device="cpu", selection=selection, also_select=also)
    data = ComponentConfig("Planted", {"set": "column", "rows": 800, "minority_ratio": 0.1})
    config = RunConfig(
        data, ComponentConfig(method, options), ComponentConfig("MLP", {"hidden": [16]}), training=training
    )
    return load(train(config, out, page=False))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fitted(tmp_path_factory.mktemp("runs") / "LC")


def test_each_rule_takes_its_best_epoch_and_says_what_it_read(run: Run) -> None:
    metrics = pd.read_csv(run / "metrics.csv")
    blocks = [run.report["selection"], *run.report["other_selections"][:2]]
    for rule, block in zip(RULES, blocks, strict=True):
        scores = metrics[rule].dropna().tolist()
        assert (block["rule"], block["epoch"]) == (rule, len(scores) - scores[::-1].index(max(scores)))
        assert (block["split"], block["labels_read"]) == ("valid", ["label"])
    assert run.report["labels_read"]["valid"] == ["label"]


def test_validation_rows_are_kept_without_attributes_and_have_the_scores_of_the_run(run: Run) -> None:
    rows = Predictions.load(run / "validation.parquet")
    assert rows.split == "valid" and rows.attribute is None and rows.estimate is not None
    right, conflicting = rows.prediction == rows.label, rows.estimate.attribute != rows.label
    accuracies = [right[conflicting & (rows.label == y)].mean() for y in (0, 1)]
    accuracies += [right[~conflicting & (rows.label == y)].mean() for y in (0, 1)]
    best = pd.read_csv(run / "metrics.csv")["valid_estimated_group_balanced"].max()
    assert sum(accuracies) / 4 == pytest.approx(best)


def test_permuted_attributes_change_nothing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = Planted.build

    def permuted(self: Planted) -> DataTable:
        table = build(self)
        order = torch.randperm(len(table.attribute), generator=torch.Generator().manual_seed(1))
        return replace(table, attribute=table.attribute[order])

    monkeypatch.setattr(Planted, "build", permuted)
    again = fitted(tmp_path / "again")
    assert again.report["selection"] == run.report["selection"]
    for name in ("metrics.csv",):
        assert (again / name).read_bytes() == (run / name).read_bytes()


def test_a_method_without_estimates_is_refused_such_a_rule(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"valid_view_agreement goes by estimated attributes, and ERM estimates none"):
        fitted(tmp_path / "ERM", "ERM", rules=["valid_view_agreement"])
    assert not (tmp_path / "ERM").exists()


def test_where_nothing_can_be_estimated_the_last_epoch_is_taken_and_said(tmp_path: Path) -> None:
    run = fitted(tmp_path / "run", attributes="TrueAttributes", rules=["valid_estimated_worst_group"])
    assert run.report["selection"]["epoch"] == 4
    assert any("valid_estimated_worst_group had no estimated groups" in text for text in run.report["warnings"])


def test_by_default_the_estimated_groups_choose(tmp_path: Path) -> None:
    own = fitted(tmp_path / "default", rules=[None])
    named = fitted(tmp_path / "named", rules=["valid_estimated_within_error"])
    assert own.report["selection"] == named.report["selection"] and named.report["selection"]["labels_read"] == [
        "label"
    ]
    assert (own / "predictions.parquet").read_bytes() == (named / "predictions.parquet").read_bytes()


@pytest.mark.parametrize(
    "options",
    [{"attributes": "TrueAttributes"}, {"attributes": {"name": "Auto", "legitimate": ["column:form_version"]}}],
)
def test_by_default_the_last_epoch_is_taken_where_there_are_none(options: dict[str, Any], tmp_path: Path) -> None:
    run = fitted(tmp_path / "run", rules=[None], **options)
    assert run.report["selection"] == {"rule": "last", "epoch": 4, "split": None, "labels_read": []}
    assert not any("selection rule" in text for text in run.report["warnings"])


def test_rules_that_read_attributes_have_them_in_the_file(tmp_path: Path) -> None:
    run = fitted(tmp_path / "run", "ERM", rules=["valid_worst_group"])
    assert Predictions.load(run / "validation.parquet").attribute is not None


def test_where_settled_estimates_tell_nothing_of_other_rows_they_are_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("logit_correction.training.fit.estimate_split", lambda _, table, split: asked.append(split))
    fitted(tmp_path / "run", rules=[None], attributes="TrueAttributes")
    assert asked == ["valid"]
