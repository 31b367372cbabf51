"""A fitted view comes back from a checkpoint as it was, and no class comes with it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from logit_correction.bench.planted import Planted
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.views.base import View, ViewInputs
from logit_correction.views.choose import available_views
from logit_correction.views.kept import state_of, view_of


@pytest.fixture(autouse=True)
def user_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "user_code"))


def table(name: str) -> DataTable:
    return Planted(set=name, rows=200).build()


def read_again(state: Any) -> Any:
    """What a checkpoint gives back, which is read without pickle."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("name", ["column", "plain-table", "plain-texts", "plain-digits"])
def test_every_view_looks_at_new_rows_as_before(name: str) -> None:
    data = table(name)
    train, new = data.view_inputs("train"), data.view_inputs("test").take(torch.arange(20))
    views = available_views(train)
    assert views
    for view in views:
        view.fit(train)
        again = view_of(read_again(state_of(view)))
        assert type(again) is type(view) and again.name == view.name and again.can_look(new)
        assert torch.equal(again.features(new), view.features(new)), view.name


def test_a_view_of_a_users_own_comes_back_only_if_the_options_name_it() -> None:
    data = table("column").view_inputs("train")
    (view,) = available_views(data, ["my_parts.Tail"])
    state = read_again(state_of(view))
    assert torch.equal(view_of(state, ["colour", "my_parts.Tail"]).features(data), view.features(data))
    with pytest.raises(InputError, match=r"a view 'my_parts.Tail' that its options do not name"):
        view_of(state, ["colour"])


def test_what_is_no_plain_value_is_not_kept() -> None:
    class Odd(View):
        name = "odd"

        def __init__(self) -> None:
            self.look = lambda: None

        @classmethod
        def views_of(cls, inputs: ViewInputs) -> list[View]:
            return [cls()]

        def features(self, inputs: ViewInputs) -> torch.Tensor:
            return torch.zeros(inputs.num_rows, 1)

    assert state_of(Odd()) is None


@pytest.mark.parametrize("name", ["column", "plain-table", "plain-texts", "plain-digits"])
def test_a_view_cannot_look_at_rows_without_what_it_looks_at(name: str) -> None:
    data = table(name).view_inputs("train")
    bare = replace(data, columns={}, texts=None, files=None, images=lambda rows: None)
    for view in available_views(data):
        view.fit(data)
        assert view.can_look(data)
        assert view.can_look(bare) == (view.name == "inputs"), view.name
