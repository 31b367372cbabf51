"""The whole input as a view."""

from __future__ import annotations

import torch

from logit_correction.types import Inputs as NetworkInputs
from logit_correction.views.base import ViewInputs
from logit_correction.views.whole import MOST_NUMBERS, Inputs


def inputs_of(values: torch.Tensor) -> ViewInputs:
    return ViewInputs(num_rows=len(values), inputs=lambda rows: values[rows])


def test_all_numbers_of_every_row() -> None:
    values = torch.randn(1100, 3, 4, 5)
    (view,) = Inputs.views_of(inputs_of(values))
    view.fit(inputs_of(values))
    assert torch.equal(view.features(inputs_of(values)), values.reshape(1100, 60))
    assert (view.name, view.breadth) == ("inputs", 3)


def test_features_in_half_precision_and_what_is_not_finite() -> None:
    values = torch.tensor([[1.5, float("nan")], [float("inf"), -float("inf")]], dtype=torch.float16)
    (view,) = Inputs.views_of(inputs_of(values))
    found = view.features(inputs_of(values))
    assert found.dtype == torch.float32 and found.tolist() == [[1.5, 0], [0, 0]]


def test_the_inputs_themselves_stay_as_they_are() -> None:
    values = torch.tensor([[float("nan"), 1.0]])
    Inputs().features(inputs_of(values))
    assert bool(values.isnan().any())


def test_where_there_is_no_such_view() -> None:
    def tokens(rows: torch.Tensor) -> NetworkInputs:
        return {"input_ids": torch.zeros(len(rows), 7, dtype=torch.long)}

    assert Inputs.views_of(ViewInputs(num_rows=2, inputs=tokens)) == []
    assert Inputs.views_of(inputs_of(torch.zeros(2, MOST_NUMBERS + 1))) == []
    assert len(Inputs.views_of(inputs_of(torch.zeros(2, 2, MOST_NUMBERS // 2)))) == 1
    assert Inputs.views_of(inputs_of(torch.zeros(0, 3))) == []
    assert Inputs.views_of(inputs_of(torch.zeros(2, 0))) == []
