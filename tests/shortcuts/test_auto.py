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

from ..attributes.conftest import prepared
from ..conftest import find_differing_tensors, load_trained_tensors

COLUMN = {"set": "column", "rows": 1000}
PLAIN = {"set": "plain-table", "rows": 1000}


def run(out: Path, data: dict[str, Any], method: str = "LC", **options: Any) -> dict[str, Any]:
    training = TrainingConfig(epochs=6, batch_size=64, threads=1, device="cpu")
    config = RunConfig(
        ComponentConfig("Planted", data),
        ComponentConfig(method, options),
        ComponentConfig("MLP", {"hidden": [32]}),
        training=training,
    )
    train(config, out, page=False)
    return Report.read(out).to_dict()


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: value for name, value in load_trained_tensors(folder).items() if name.startswith("network.")}


def test_a_tell_tale_column_is_found_and_its_rows_are_estimated(tmp_path: Path, whole_search: Any) -> None:
    with whole_search():
        report = run(tmp_path / "run", COLUMN)
    evidence = report["evidence"]
    assert (evidence["verdict"], evidence["view"]) == ("shortcut", "column:form_version")
    assert evidence["rows"] > 10 and evidence["ratio"] > 0.92
    assert evidence["corrects"] and evidence["probability"] > 0.6
    assert report["estimated_minority"]["recall"] == 1 and report["estimated_minority"]["precision"] == 1
    assert report["labels_read"]["train"] == ["label"]
    kept = load_trained_tensors(tmp_path / "run")
    assert not any(name.startswith("attributes.networks.") for name in kept)  # what only searched is gone
    assert load(tmp_path / "run").evaluate()["group_balanced"] == pytest.approx(report["test"]["group_balanced"])


def test_where_nothing_is_found_the_training_is_that_of_erm_bit_for_bit(tmp_path: Path) -> None:
    report = run(tmp_path / "LC", PLAIN)
    assert report["evidence"]["verdict"] != "shortcut" and report["estimated_minority"]["count"] == 0
    assert not any("bias-conflicting" in warning for warning in report["warnings"])
    run(tmp_path / "ERM", PLAIN, method="ERM")
    assert find_differing_tensors(weights(tmp_path / "LC"), weights(tmp_path / "ERM")) == []


def test_a_person_who_knows_is_not_searched_past(tmp_path: Path) -> None:
    report = run(tmp_path / "run", PLAIN, attributes={"name": "Auto", "shortcut": ["column:capital"]})
    assert report["evidence"]["verdict"] == "shortcut" and report["evidence"]["looks"] == []
    assert report["estimated_minority"]["count"] > 0
    assert report["epochs_per_stage"] == [6]


def test_the_verdict_does_not_depend_on_the_epochs(tmp_path: Path) -> None:
    found = [
        estimate_attributes({"name": "Planted", **COLUMN, "rows": 300}, epochs=epochs, threads=1).evidence
        for epochs in (1, 3)
    ]
    assert found[0] == found[1]


def test_in_doubt_a_person_chooses_whether_to_correct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EvidenceModel, "verdicts", {"shortcut": 1.0, "cannot tell": 0.0})
    table = Planted(set="column", rows=600).build()
    for when_unsure, corrects in (("correct", True), ("leave", False)):
        estimator = prepared(Auto(when_unsure=when_unsure), table, epochs=10)
        assert estimator.finding.verdict == "cannot tell" and estimator.finding.corrects is corrects
        assert estimator.has_abstained is not corrects and bool((estimator.row_attribute >= 0).any()) is corrects


def test_a_run_of_other_data_is_refused(tmp_path: Path) -> None:
    run(tmp_path / "ERM", {"set": "wine"}, method="ERM")
    with pytest.raises(InputError, match="the data are not those that"):
        audit({"name": "Planted", **COLUMN}, run=tmp_path / "ERM", epochs=1, threads=1)


def test_a_column_that_no_row_contradicts_is_no_good_news() -> None:
    generator = np.random.default_rng(0)
    label = generator.integers(0, 2, 300)
    frame = pd.DataFrame({"age": generator.normal(size=300) + label, "site": np.where(label, "north", "south")})
    found = estimate_attributes(frame.assign(label=label), "label", epochs=1, threads=1)
    assert found.verdict == "cannot tell" and not found.corrects
    assert "`site`" in found.sentence
    fine = estimate_attributes(frame.drop(columns="site").assign(label=label), "label", epochs=1, threads=1)
    assert fine.verdict == "none found"
