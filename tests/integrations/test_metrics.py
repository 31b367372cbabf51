"""Accuracy by group as torchmetrics metrics: the figures of ``GroupReport``, over any batches and processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from logit_correction import GroupReport, Predictions

pytest.importorskip("torchmetrics")

from logit_correction.integrations.metrics import (
    GroupAccuracy,
    GroupBalancedAccuracy,
    WorstGroupAccuracy,
)

METRICS = {"groups": GroupAccuracy, "group_balanced": GroupBalancedAccuracy, "worst_group": WorstGroupAccuracy}

WORKER = """
import sys
from pathlib import Path
import torch, torch.distributed as dist
from logit_correction.integrations.metrics import GroupAccuracy, GroupBalancedAccuracy, WorstGroupAccuracy
folder, rank = Path(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
found = {}
for kind in (GroupAccuracy, GroupBalancedAccuracy, WorstGroupAccuracy):
    metric = kind(3, 4)
    for batch in torch.load(folder / f"rows_{rank}.pt", weights_only=True):
        metric.update(*batch)
    found[kind.__name__] = metric.compute()
torch.save(found, folder / f"found_{rank}.pt")
dist.destroy_process_group()
"""


def drawn(rows: int, labels: int, attributes: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, labels, and attributes of which some are unknown."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, labels, generator=generator)
    label = torch.randint(labels, (rows,), generator=generator)
    return logits, label, torch.randint(-1, attributes, (rows,), generator=generator)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 40), st.integers(2, 4), st.integers(1, 4), st.integers(0, 999), st.integers(1, 9))
def test_figures_are_those_of_the_report(rows: int, labels: int, attributes: int, seed: int, batch: int) -> None:
    logits, label, attribute = drawn(rows, labels, attributes, seed)
    predictions = Predictions(
        index=torch.arange(rows), label=label, logits=logits, attribute=attribute,
        label_names=[f"{i}" for i in range(labels)], attribute_names=[f"{i}" for i in range(attributes)],
    )  # fmt: skip
    report = GroupReport.from_predictions(predictions)
    found = {}
    for name, kind in METRICS.items():
        metric = kind(labels, attributes)
        for part in torch.arange(rows).split(batch):
            given = logits[part] if name == "groups" else logits[part].argmax(1)  # predicted labels serve as well
            metric.update(given, label[part], attribute[part])
        found[name] = metric.compute()
    if predictions.attribute is None:
        assert all(bool(value.isnan().all()) for value in found.values())
        return
    expected = torch.tensor(report.groups["accuracy"].to_numpy(float)).view(labels, attributes)
    torch.testing.assert_close(found["groups"].double(), expected, equal_nan=True, atol=1e-6, rtol=0)
    assert float(found["group_balanced"]) == pytest.approx(report.group_balanced)
    assert float(found["worst_group"]) == pytest.approx(report.worst_group)


@pytest.mark.slow
def test_two_processes_count_all_rows_once(two_processes: Callable[[str, Path], None], tmp_path: Path) -> None:
    logits, label, attribute = drawn(60, 3, 4, 0)
    label[:20] = 0  # the first process sees other groups than the second, so means of means would differ
    for rank, own in enumerate((slice(None, 20), slice(20, None))):
        parts = torch.arange(60)[own].split(7)
        torch.save([(logits[part], label[part], attribute[part]) for part in parts], tmp_path / f"rows_{rank}.pt")
    two_processes(WORKER, tmp_path)
    for rank in range(2):
        found = torch.load(tmp_path / f"found_{rank}.pt", weights_only=True)
        for kind in METRICS.values():
            whole = kind(3, 4)
            whole.update(logits, label, attribute)
            torch.testing.assert_close(found[kind.__name__], whole.compute(), equal_nan=True)


def test_what_does_not_fit_is_refused() -> None:
    metric, zero = WorstGroupAccuracy(3, 2), torch.tensor([0])
    for preds, label, attribute, said in (
        (zero, zero + 3, zero, "label must have"),
        (zero, zero, zero + 2, "attribute must have"),
        (zero, zero.repeat(2), zero, "label must have"),
        (zero + 0.9, zero, zero, "must be whole numbers"),
    ):
        with pytest.raises(ValueError, match=said):
            metric.update(preds, label, attribute)
