from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from logit_correction.errors import InputError
from logit_correction.views.base import ViewInputs
from logit_correction.views.images import area_average, image_parts
from logit_correction.views.thumbnail import Thumbnail


def test_each_point_is_the_mean_of_its_area() -> None:
    x = torch.randint(256, (3, 3, 8, 12), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    found = Thumbnail().look(x).view(3, 3, 4, 4)
    assert_close(found[1, 2, 3, 0], x[1, 2, 6:8, 0:3].float().mean() / 255)
    assert_close(found.mean((2, 3)), x.float().mean((2, 3)) / 255)


def test_an_image_smaller_than_the_grid_is_repeated() -> None:
    x = torch.tensor([[10, 20], [30, 40]], dtype=torch.uint8).view(1, 1, 2, 2)
    assert_close(area_average(x, 4, 4)[0, 0, 0], torch.tensor([10.0, 10.0, 20.0, 20.0]))


def test_parts_are_bounded_and_in_order() -> None:
    x = torch.arange(700, dtype=torch.float).remainder(256).to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 10, 10)
    inputs = ViewInputs(num_rows=700, inputs=lambda rows: x[rows], images=lambda rows: x[rows])
    parts = list(image_parts(inputs, values=5000))
    assert max(len(part) for part in parts) == 50
    assert torch.equal(torch.cat(parts), x)


def test_inputs_without_images_are_refused() -> None:
    plain = ViewInputs(num_rows=3, inputs=lambda rows: torch.zeros(len(rows), 2))
    with pytest.raises(InputError, match="no images"):
        Thumbnail().features(plain)
