from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from logit_correction import ComponentConfig, RunConfig, TrainingConfig, audit, estimate_attributes, load, train
from logit_correction.errors import InputError
from logit_correction.evaluation.report import Report
from logit_correction.shortcuts.auto import Auto
from logit_correction.shortcuts.evidence import EvidenceModel
from logit_correction_lab.sources.planted import Planted

from ..attributes.conftest import train_estimator
from ..conftest import find_differing_tensors, load_trained_tensors

COLUMN = {"set": "column", "rows": 1000}
PLAIN = {"set": "plain-table", "rows": 1000}


def train_and_read_report(out: Path, data: dict[str, Any], method: str = "LC", **options: Any) -> dict[str, Any]:
    training = TrainingConfig(epochs=6, batch_size=64, threads=1, device="cpu")
    config = RunConfig(
        ComponentConfig("Planted", data),
        ComponentConfig(method, options),
        ComponentConfig("MLP", {"hidden": [32]}),
        training=training,
    )
    train(config, out, page=False)
    return Report.read(out).to_dict()


def load_network_weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: value for name, value in load_trained_tensors(folder).items() if name.startswith("network.")}


def test_auto_finds_the_planted_column_and_estimates_its_rows(tmp_path: Path, whole_search: Any) -> None:
    with whole_search():
        report = train_and_read_report(tmp_path / "run", COLUMN)
    evidence = report["evidence"]
    assert (evidence["verdict"], evidence["view"]) == ("cannot tell", "column:form_version")  # a person decides
    assert evidence["rows"] > 10 and evidence["ratio"] > 0.92
    assert evidence["corrects"] and evidence["probability"] > 0.6
    assert report["estimated_minority"]["recall"] == 1 and report["estimated_minority"]["precision"] == 1
    assert report["labels_read"]["train"] == ["label"]
    saved_tensors = load_trained_tensors(tmp_path / "run")
    assert not any(name.startswith("attributes.networks.") for name in saved_tensors)  # what only searched is gone
    assert load(tmp_path / "run").evaluate()["group_balanced"] == pytest.approx(report["test"]["group_balanced"])


def test_lc_without_a_finding_trains_the_same_weights_as_erm(tmp_path: Path) -> None:
    report = train_and_read_report(tmp_path / "LC", PLAIN)
    assert report["evidence"]["verdict"] != "shortcut" and report["estimated_minority"]["count"] == 0
    assert not any("bias-conflicting" in warning for warning in report["warnings"])
    train_and_read_report(tmp_path / "ERM", PLAIN, method="ERM")
    assert find_differing_tensors(load_network_weights(tmp_path / "LC"), load_network_weights(tmp_path / "ERM")) == []


def test_named_shortcut_skips_the_search(tmp_path: Path) -> None:
    report = train_and_read_report(tmp_path / "run", PLAIN, attributes={"name": "Auto", "shortcut": ["column:capital"]})
    assert report["evidence"]["verdict"] == "shortcut" and report["evidence"]["looks"] == []
    assert report["estimated_minority"]["count"] > 0
    assert report["epochs_per_stage"] == [6]


def test_verdict_does_not_depend_on_the_epochs(tmp_path: Path) -> None:
    evidence = [
        estimate_attributes({"name": "Planted", **COLUMN, "rows": 300}, epochs=epochs, threads=1).evidence
        for epochs in (1, 3)
    ]
    assert evidence[0] == evidence[1]


def test_when_unsure_option_decides_whether_to_correct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EvidenceModel, "verdicts", {"shortcut": 1.0, "cannot tell": 0.0})
    table = Planted(set="column", rows=600).build()
    for when_unsure, corrects in (("correct", True), ("leave", False)):
        estimator = train_estimator(Auto(when_unsure=when_unsure), table, epochs=10)
        assert estimator.finding.verdict == "cannot tell" and estimator.finding.corrects is corrects
        assert estimator.has_abstained is not corrects and bool((estimator.row_attribute >= 0).any()) is corrects


def test_audit_refuses_a_run_of_other_data(tmp_path: Path) -> None:
    train_and_read_report(tmp_path / "ERM", {"set": "wine"}, method="ERM")
    with pytest.raises(InputError, match="the data are not those that"):
        audit({"name": "Planted", **COLUMN}, run=tmp_path / "ERM", epochs=1, threads=1)


def test_column_without_conflicting_rows_gives_verdict_cannot_tell() -> None:
    generator = np.random.default_rng(0)
    label = generator.integers(0, 2, 300)
    frame = pd.DataFrame({"age": generator.normal(size=300) + label, "site": np.where(label, "north", "south")})
    estimates = estimate_attributes(frame.assign(label=label), "label", epochs=1, threads=1)
    assert estimates.verdict == "cannot tell" and not estimates.corrects
    assert "`site`" in estimates.sentence
    fine = estimate_attributes(frame.drop(columns="site").assign(label=label), "label", epochs=1, threads=1)
    assert fine.verdict == "none found"
