from __future__ import annotations

import pytest
import torch
from torch import Tensor

from logit_correction.errors import InputError
from logit_correction.views import VIEWS
from logit_correction.views.base import View, ViewInputs
from logit_correction.views.choose import available_views, find_views

IMAGES = ViewInputs(
    num_rows=2,
    inputs=lambda rows: torch.zeros(len(rows), 3, 32, 32),
    images=lambda rows: torch.zeros(len(rows), 3, 32, 32, dtype=torch.uint8),
)
TEXTS = ViewInputs(num_rows=1, inputs=lambda rows: torch.zeros(len(rows), 2), texts=["a text"])


class Parity(View):
    """Two members: even and odd."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def views_of(cls, inputs: ViewInputs) -> list[View]:
        return [cls("parity:even"), cls("parity:odd")]

    def features(self, inputs: ViewInputs) -> Tensor:
        return torch.zeros(inputs.num_rows, 1)


def use_parity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the class importable by a dotted path, whatever the name of this module."""
    import logit_correction.views.base as module

    monkeypatch.setattr(module, "Parity", Parity, raising=False)
    monkeypatch.setattr(module, "NoView", dict, raising=False)


PATH = "logit_correction.views.base.Parity"


def names(views: list[View]) -> list[str]:
    return [view.name for view in views]


def test_a_family_is_all_its_members_and_a_member_is_one() -> None:
    assert names(find_views(["places"], IMAGES)) == [f"places:{r},{c}" for r in range(1, 5) for c in range(1, 5)]
    assert names(find_views(["places:4,1", "colour"], IMAGES)) == ["places:4,1", "colour"]


def test_each_view_comes_once() -> None:
    assert len(find_views(["places:1,1", "places", "places:1,1"], IMAGES)) == 16


def test_a_dotted_path_is_a_view_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    use_parity(monkeypatch)
    assert names(find_views([PATH], TEXTS)) == ["parity:even", "parity:odd"]
    assert names(find_views([f"{PATH}:odd"], TEXTS)) == ["parity:odd"]
    with pytest.raises(InputError, match="is no view: its class must derive from"):
        find_views(["logit_correction.views.base.NoView"], TEXTS)


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("colur", IMAGES, r"view 'colur' is unknown \(did you mean colour\?\)"),
        ("colour", TEXTS, r"'colour' does not apply to these inputs \(they have texts\): it needs images"),
        ("places:5,1", IMAGES, r"'places' has no member '5,1'.*take one of places:1,1, .*, \.\.\."),
        ("colour:red", IMAGES, r"view 'colour:red' is unknown: 'colour' has no members"),
        ("file", IMAGES, r"they have images\): it needs the files that the rows were read from"),
    ],
)
def test_a_name_that_leads_nowhere_is_explained(name: str, inputs: ViewInputs, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_views([name], inputs)


def test_narrow_views_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    use_parity(monkeypatch)
    found = available_views(IMAGES, ["texture", PATH, "colour", "places", "file"])
    assert [view.breadth for view in found] == sorted(view.breadth for view in found)
    assert names(found) == [f"places:{r},{c}" for r in range(1, 5) for c in range(1, 5)] + [
        "parity:even",
        "parity:odd",
        "colour",
        "texture",
    ]


def test_all_views_that_apply_are_found_by_default() -> None:
    assert set(names(available_views(TEXTS))) >= {"characters", "form", "opening", "closing"}
    families = {view.name.partition(":")[0] for view in available_views(IMAGES)}
    assert families >= {"places", "colour", "border", "thumbnail", "spectrum", "stripes", "light", "texture"}


def test_every_entry_says_something() -> None:
    assert all(path.startswith("logit_correction.views.") and sentence for path, sentence in VIEWS.values())
