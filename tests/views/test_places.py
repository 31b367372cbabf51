from __future__ import annotations

import pickle

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from logit_correction.views.base import ViewInputs
from logit_correction.views.places import Places


def inputs_of(x: Tensor) -> ViewInputs:
    return ViewInputs(num_rows=len(x), inputs=lambda rows: x[rows], images=lambda rows: x[rows])


def images(*shape: int) -> Tensor:
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def test_names_and_sentences_go_from_the_top_left() -> None:
    views = Places.views_of(inputs_of(images(2, 3, 8, 8)))
    assert [view.name for view in views][:5] == ["places:1,1", "places:1,2", "places:1,3", "places:1,4", "places:2,1"]
    assert views[0].sentence == "the cell in the top left corner (row 1, column 1 of a grid of 4 x 4)"
    assert len({view.sentence for view in views}) == 16


@pytest.mark.parametrize("side", [16, 18])
def test_a_mark_in_a_corner_changes_its_cell_alone(side: int) -> None:
    plain = images(3, 3, side, side)
    marked = plain.clone()
    marked[:, 0, :3, -3:] = 255
    before = [view.features(inputs_of(plain)) for view in Places.views_of(inputs_of(plain))]
    after = [view.features(inputs_of(marked)) for view in Places.views_of(inputs_of(marked))]
    assert [i for i, (old, new) in enumerate(zip(before, after, strict=True)) if not torch.equal(old, new)] == [3]


def test_the_numbers_of_a_cell() -> None:
    x = images(3, 3, 64, 64)
    cell = x[:, :, 16:32, 48:64].double() / 255
    flat = cell.flatten(2)
    grey = (cell * torch.tensor([0.299, 0.587, 0.114]).double().view(3, 1, 1)).sum(1)
    points = grey.unflatten(1, (8, 2)).unflatten(3, (8, 2)).mean((2, 4))
    down, across = (points[:, 1:] - points[:, :-1]).abs(), (points[:, :, 1:] - points[:, :, :-1]).abs()
    wanted = [flat.mean(2), flat.std(2, correction=0), flat.amin(2), flat.amax(2), down.flatten(1), across.flatten(1)]
    assert_close(Places(2, 4).features(inputs_of(x)), torch.cat(wanted, dim=1).float())


def test_cells_together_read_the_images_once_and_give_what_each_gives_alone() -> None:
    x = images(1030, 1, 8, 8)
    read = []

    def get(rows: Tensor) -> Tensor:
        read.append(len(rows))
        return x[rows]

    inputs = ViewInputs(num_rows=len(x), inputs=get, images=get)
    views = Places.views_of(inputs)
    read.clear()
    together = [view.features(inputs) for view in views]
    assert sum(read) == len(x)
    assert torch.equal(together[6], Places(2, 3).features(inputs))
    assert torch.equal(views[6].features(inputs), together[6])  # asked again


def test_cells_that_nobody_holds_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = inputs_of(images(4, 3, 8, 8))
    view = Places.views_of(inputs)[5]
    looked = []
    look = Places.look
    monkeypatch.setattr(Places, "look", lambda self, images: looked.append(self.name) or look(self, images))
    view.features(inputs)
    assert looked == ["places:2,2"]


def test_a_copy_of_a_cell_is_alone_and_the_same() -> None:
    inputs = inputs_of(images(4, 3, 8, 8))
    view = Places.views_of(inputs)[9]
    copied = pickle.loads(pickle.dumps(view))
    assert (copied.name, copied.sentence) == (view.name, view.sentence)
    assert torch.equal(copied.features(inputs), view.features(inputs))


def test_other_inputs_are_looked_at_anew() -> None:
    first, second = inputs_of(images(4, 3, 8, 8)), inputs_of(255 - images(4, 3, 8, 8))
    views = Places.views_of(first)
    views[0].features(first)
    assert torch.equal(views[1].features(second), Places(1, 2).features(second))


@pytest.mark.parametrize("shape", [(1, 1), (3, 9), (6, 5)])
def test_small_images_have_sixteen_cells_too(shape: tuple[int, int]) -> None:
    inputs = inputs_of(images(2, 1, *shape))
    assert all(view.features(inputs).shape == (2, 116) for view in Places.views_of(inputs))
