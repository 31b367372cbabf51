"""What is followed over training: closed forms, and that nothing is chosen by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from logit_correction import ComponentConfig, InputError, RunConfig, TrainingConfig, train
from logit_correction.training.watch import check_watch, labels_watched, watched


def test_margins_of_appendix_c(make_table: Any) -> None:
    table = make_table()
    rows = table.split["train"]
    logits = (
        torch.randn(len(rows), 3, generator=torch.Generator().manual_seed(0)) + 5.0 * torch.eye(3)[table.label[rows]]
    )
    found = watched(["train_margins"], table, lambda split: {"train": logits}[split])
    least: dict[bool, list[float]] = {True: [], False: []}
    mean: dict[bool, list[float]] = {True: [], False: []}
    for y in range(3):
        for a in range(3):
            own = logits[(table.label[rows] == y) & (table.attribute[rows] == a)].numpy()
            if len(own):
                margins = [row[y] - max(np.delete(row, y)) for row in own]
                least[y == a].append(min(margins))
                mean[y == a].append(float(np.mean(margins)))
    assert found["train_majority_margin"] == pytest.approx(np.mean(least[True]), rel=1e-5)
    assert found["train_minority_margin"] == pytest.approx(np.mean(least[False]), rel=1e-5)
    assert found["train_margin_ratio"] == pytest.approx(np.mean(least[True]) / np.mean(least[False]), rel=1e-5)
    assert found["train_mean_margin_ratio"] == pytest.approx(np.mean(mean[True]) / np.mean(mean[False]), rel=1e-5)
    worse = watched(["train_margins"], table, lambda split: -logits)
    assert "train_margin_ratio" not in worse and worse["train_majority_margin"] < 0


def test_accuracies_on_the_test_split(make_table: Any) -> None:
    table = make_table()
    label = table.label[table.split["test"]]
    right = watched(["test"], table, lambda split: torch.eye(3)[label])
    assert right == {"test_average": 1.0, "test_group_balanced": 1.0, "test_worst_group": 1.0}
    first = watched(["test"], table, lambda split: torch.eye(3)[torch.zeros_like(label)])
    assert first["test_average"] == pytest.approx(float((label == 0).double().mean()))
    assert first["test_worst_group"] == 0.0
    table.attribute[:] = -1
    assert set(watched(["test"], table, lambda split: torch.eye(3)[label])) == {"test_average"}
    assert labels_watched(["test"], table) == {"test": ["label"]}
    with pytest.raises(InputError, match="--watch train_margins needs the attribute"):
        check_watch(["train_margins"], table)
    check_watch(["test"], table)


@pytest.mark.slow
def test_nothing_else_changes_and_the_report_says_what_was_read(tmp_path: Path) -> None:
    data, method = ComponentConfig("Digits"), ComponentConfig("LC", {"attributes": "Online"})
    for name, watch in (("plain", []), ("watched", ["test", "train_margins"])):
        training = TrainingConfig(epochs=3, batch_size=128, threads=1, watch=watch)
        train(RunConfig(data, method, training=training), tmp_path / name, page=name == "watched")
    reports = [json.loads((tmp_path / name / "report.json").read_text()) for name in ("plain", "watched")]
    assert reports[0]["watched_labels_read"] == {}
    both = ["label", "attribute"]
    assert reports[1]["watched_labels_read"] == {"test": both, "train": both}
    for name in ("labels_read", "test", "selection", "other_selections"):
        assert reports[0][name] == reports[1][name], name
    plain, more = (pd.read_csv(tmp_path / name / "metrics.csv") for name in ("plain", "watched"))
    pd.testing.assert_frame_equal(more[plain.columns], plain)
    followed = more[more["test_average"].notna()]
    assert followed["epoch"].tolist() == [1, 2, 3] and followed["train_majority_margin"].notna().all()
    assert followed["test_group_balanced"].iloc[-1] == pytest.approx(reports[1]["test"]["group_balanced"])
    assert "test and train split was also judged after each epoch" in (tmp_path / "watched" / "report.html").read_text()


def test_a_stopped_run_follows_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from logit_correction.training.interrupt import Interrupted

    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "user_code"))
    method = ComponentConfig("my_parts.Stopped", {"attributes": "Online"})
    training = TrainingConfig(epochs=3, batch_size=128, threads=1, watch=["test"])
    config = RunConfig(ComponentConfig("Digits"), method, training=training)
    whole = train(config, tmp_path / "whole", page=False)
    monkeypatch.setenv("STOP", "SIGINT:15")
    with pytest.raises(Interrupted):
        train(config, tmp_path / "stopped", page=False)
    monkeypatch.delenv("STOP")
    stopped = train(config, tmp_path / "stopped", resume=True, page=False)
    assert (stopped / "metrics.csv").read_bytes() == (whole / "metrics.csv").read_bytes()
