"""A step of every method at logits of 10,000: one row or several, two labels to 2,000, in each precision."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch

from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.methods import METHODS

#: Those whose default searches by views, which takes long, and is no step.
ESTIMATORS_OF = {
    "LC": ("Online", "TrueAttributes"),
    "Reweighting": ("Online", "TrueAttributes"),
    "GroupDRO": ("TrueAttributes",),
}

#: Methods that take an attribute estimator are tried with one that trains beside them and one that knows.
CASES = [
    pytest.param(name, options, id=f"{name} {' '.join(options.values())}".strip())
    for name in METHODS
    for options in ([{"attributes": one} for one in ESTIMATORS_OF.get(name, ())] or [{}])
]


def table_of(labels: int) -> DataTable:
    """Two rows of each label; the attribute is the label, but for every seventh row."""
    label = torch.arange(2 * labels) % labels
    attribute = torch.where(torch.arange(2 * labels) % 7 < 6, label, (label + 1) % labels)
    values = torch.randn(2 * labels, 4, generator=torch.Generator().manual_seed(labels))
    names, rows = [str(number) for number in range(labels)], torch.arange(2 * labels)
    return DataTable(ArrayStore(values), label, attribute, {"train": rows, "valid": rows, "test": rows}, names, names)


@pytest.mark.parametrize("precision", ["single", "double", "bf16"])
@pytest.mark.parametrize(
    "labels", [2, pytest.param(40, marks=pytest.mark.slow), pytest.param(2000, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_loss_and_gradients_are_finite(
    name: str, options: dict[str, Any], labels: int, precision: str, build: Any, batches: Any
) -> None:
    table = table_of(labels)
    algorithm = build(name, table, **options)
    if precision == "double":
        algorithm.double()
    batch = next(batches(algorithm, table))
    inputs = batch.inputs.double() if precision == "double" else batch.inputs
    greatest: list[float] = []

    def enlarge(module: torch.nn.Module, given: Any, logits: torch.Tensor) -> torch.Tensor:
        large = logits * (1e4 / logits.detach().abs().max().clamp_min(1e-3))
        greatest.append(float(large.detach().abs().max()))
        return large

    for layer in algorithm.modules():
        if isinstance(layer, torch.nn.Linear) and layer.out_features == labels:
            layer.register_forward_hook(enlarge)
    for rows in (1, 2, len(inputs)):
        attribute = None if batch.attribute is None else batch.attribute[:rows]
        few = replace(
            batch, inputs=inputs[:rows], label=batch.label[:rows], index=batch.index[:rows], attribute=attribute
        )
        for epoch in (0.0, 50.0):
            algorithm.zero_grad()
            with torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else nullcontext():
                step = algorithm(few, epoch)
            step.loss.backward()
            assert bool(step.loss.isfinite()) and all(bool(value.isfinite()) for value in step.logs.values())
            gradients = [
                p.grad for group in algorithm.parameter_groups() for p in group["params"] if p.grad is not None
            ]
            assert gradients and all(bool(gradient.isfinite().all()) for gradient in gradients)
        algorithm.end_epoch()
    assert max(greatest) == pytest.approx(1e4, rel=0.01)
