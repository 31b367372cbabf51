"""From names to views, and from a checkpoint: a fitted view comes back as it was, and no class comes with it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from logit_correction.errors import InputError
from logit_correction.types import ViewInputs
from logit_correction.views.base import View, available_views, find_views, restore_view, serialize_builtin_view
from logit_correction_lab.sources.planted import Planted

from ..conftest import save_and_load

IMAGES = ViewInputs(
    num_rows=2,
    inputs=lambda rows: torch.zeros(len(rows), 3, 32, 32),
    images=lambda rows: torch.zeros(len(rows), 3, 32, 32, dtype=torch.uint8),
)
TEXTS = ViewInputs(num_rows=1, inputs=lambda rows: torch.zeros(len(rows), 2), texts=["a text"])
CELLS = [f"places:{r},{c}" for r in range(1, 5) for c in range(1, 5)]


def list_names(views: list[View]) -> list[str]:
    return [view.name for view in views]


def test_find_views_expands_families_and_drops_duplicates() -> None:
    assert list_names(find_views(["places"], IMAGES)) == CELLS
    assert list_names(find_views(["places:4,1", "colour", "places:4,1"], IMAGES)) == ["places:4,1", "colour"]
    assert list_names(find_views(["my_parts.Tail"], IMAGES)) == ["my_parts.Tail"]


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("colur", IMAGES, r"view 'colur' is unknown \(did you mean colour\?\)"),
        ("colour", TEXTS, r"'colour' does not apply to these inputs: it needs images"),
        ("places:5,1", IMAGES, r"'places' has no member '5,1'.*take places:1,1, .* and 8 more"),
        ("my_parts.Narrow", IMAGES, "class that derives from"),
    ],
)
def test_unknown_view_name_is_explained(name: str, inputs: ViewInputs, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_views([name], inputs)


def test_available_views_are_sorted_by_breadth() -> None:
    views = available_views(IMAGES, ["texture", "my_parts.Tail", "colour", "places", "file"])
    assert list_names(views) == ["my_parts.Tail", *CELLS, "colour", "texture"]
    assert set(list_names(available_views(TEXTS))) >= {"characters", "form", "opening", "closing"}
    families = {view.name.partition(":")[0] for view in available_views(IMAGES)}
    assert families >= {"places", "colour", "border", "thumbnail", "spectrum", "stripes", "light", "texture"}


@pytest.mark.parametrize("name", ["column", "plain-table", "plain-texts", "plain-digits"])
def test_restored_view_gives_the_same_features_and_needs_its_inputs(name: str) -> None:
    data = Planted(set=name, rows=200).build()
    train = data.view_inputs("train")
    new = data.view_inputs("test").take(torch.arange(20))
    bare = replace(train, columns={}, texts=None, files=None, images=lambda rows: None)
    for view in available_views(train):
        view.fit(train)
        restored = restore_view(save_and_load(serialize_builtin_view(view)))
        assert type(restored) is type(view) and restored.name == view.name and restored.is_applicable(new)
        assert torch.equal(restored.features(new), view.features(new)), view.name
        assert not view.is_applicable(bare), view.name


def test_view_of_user_code_has_no_state() -> None:
    (view,) = find_views(["my_parts.Tail"], IMAGES)
    assert serialize_builtin_view(view) is None
    with pytest.raises(KeyError):
        restore_view({"family": "my_parts.Tail", "values": {}})


def test_view_state_of_the_last_version_is_restored() -> None:
    view = restore_view({"family": "word", "values": {"name": "word:depot", "terms": ["depot"], "few": None}})
    assert view.max_per_label is None and view.features(replace(TEXTS, texts=["the depot"])).tolist() == [[1.0]]
