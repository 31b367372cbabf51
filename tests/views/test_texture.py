from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from logit_correction.errors import InputError
from logit_correction.views.base import ViewInputs
from logit_correction.views.texture import Texture


def images(*shape: int, seed: int = 0) -> Tensor:
    """Smooth blobs with some grain, so that patches have directions of great and of little variance."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(*shape[:2], 1 + shape[2] // 5, 1 + shape[3] // 5, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, shape[2:], mode="bilinear")
    grain = 0.1 * torch.randn(shape, generator=generator)
    return ((smooth + grain).clamp(0, 1) * 255).to(torch.uint8)


def inputs_of(x: Tensor) -> ViewInputs:
    return ViewInputs(num_rows=len(x), inputs=lambda rows: x[rows], images=lambda rows: x[rows])


def fitted(x: Tensor) -> Texture:
    (view,) = Texture.views_of(inputs_of(x))
    assert isinstance(view, Texture)
    view.fit(inputs_of(x))
    return view


def oracle(view: Texture, image: Tensor, top: int, left: int, step: int) -> Tensor:
    """The statistics of one image, patch by patch in float64."""
    components, filters, mean = view._components.double(), view._filters.double(), view._mean.double()

    def patches(step: int) -> Tensor:
        places = [range(start, size - 5, step) for start, size in zip((top, left), image.shape[1:], strict=True)]
        cut = [image[:, r : r + 6, c : c + 6].permute(1, 2, 0).reshape(-1) for r in places[0] for c in places[1]]
        return torch.stack(cut).double() / 255 - mean

    response = patches(step) @ components
    centred = response - response.mean(0)
    variance, fourth = centred.square().mean(0), centred.pow(4).mean(0)
    other = patches(2 * step) @ filters  # at every second place
    above, below = (other - 0.5).relu(), (-other - 0.5).relu()
    return torch.cat(
        [
            response.mean(0),
            0.5 * (variance + 1e-4).log(),
            (fourth + 1e-6).log() - 2 * (variance + 1e-3).log(),
            above.mean(0),
            below.mean(0),
            (above.var(0, correction=0) + 1e-6).sqrt(),
            (below.var(0, correction=0) + 1e-6).sqrt(),
        ]
    )


@pytest.mark.parametrize(("shape", "top", "step"), [((3, 32, 32), 0, 2), ((1, 47, 47), 1, 3), ((1, 12, 12), 0, 1)])
def test_statistics_equal_those_patch_by_patch_in_float64(shape: tuple[int, int, int], top: int, step: int) -> None:
    x = images(20, *shape)
    view = fitted(x)
    found = view.features(inputs_of(x))
    assert found.shape == (20, 3 * 36 * shape[0] + 4 * 128)
    for row in (0, 7):
        assert_close(found[row].double(), oracle(view, x[row], top, top, step), atol=2e-3, rtol=1e-3)


def test_components_whiten_the_patches_and_filters_have_length_one() -> None:
    view = fitted(images(300, 1, 16, 16))
    # Length one is measured among the whitened patches: back through the components.
    inside = torch.linalg.solve(view._components.double(), view._filters.double())
    assert_close(inside.norm(dim=0), torch.ones(128, dtype=torch.float64), atol=1e-4, rtol=0)
    cut = images(300, 1, 16, 16).unfold(2, 6, 1).unfold(3, 6, 1).reshape(-1, 36).double() / 255
    spread = torch.cov(((cut - view._mean) @ view._components.double()).T)
    scale = spread.diagonal().sqrt()
    assert (scale <= 1.1).all() and scale.max() > 0.9
    assert (spread / scale.outer(scale) - torch.eye(36)).abs().max() < 0.1


def test_an_image_of_one_colour_has_no_variance() -> None:
    view = fitted(images(50, 3, 16, 16))
    found = view.look(torch.full((1, 3, 16, 16), 90, dtype=torch.uint8))[0]
    assert_close(found[108:216], torch.full((108,), 0.5).mul(torch.tensor(1e-4).log()), atol=1e-3, rtol=0)
    assert_close(found[-256:], torch.full((256,), 1e-3), atol=1e-3, rtol=0)


def test_where_a_mark_lies_does_not_matter() -> None:
    view = fitted(images(60, 3, 30, 30))
    mark = images(1, 3, 6, 6, seed=3)[0]
    plain = torch.full((3, 3, 30, 30), 90, dtype=torch.uint8)
    plain[0, :, 8:14, 8:14] = plain[1, :, 16:22, 12:18] = mark  # patches lie 2 apart, or 4
    plain[2, :, 8:14, 8:14] = mark.flip(2)
    first, moved, other = view.look(plain)
    assert_close(first, moved, atol=1e-4, rtol=1e-4)
    assert (first - other).abs().max() > 0.05


def test_learning_and_looking_are_deterministic_and_in_parts_the_same() -> None:
    x = images(700, 1, 12, 12)
    first, second = fitted(x), fitted(x.clone())
    assert torch.equal(first._filters, second._filters)
    whole = first.features(inputs_of(x))
    assert torch.equal(second.features(inputs_of(x)), whole)
    assert_close(torch.cat([first.look(part) for part in x.split(37)]), whole, atol=1e-4, rtol=1e-4)


def test_a_row_does_not_hang_on_its_neighbours() -> None:
    x = images(40, 1, 12, 12)
    view = fitted(x)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    assert_close(view.features(inputs_of(x[order])), view.features(inputs_of(x))[order], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 3, 20), (1, 6, 6), (3, 7, 5), (1, 9, 200), (3, 80, 96)])
def test_images_of_any_size(shape: tuple[int, int, int]) -> None:
    x = images(5, *shape)
    found = fitted(x).features(inputs_of(x))
    side = min(6, shape[1], shape[2], max(1, round(64 / max(shape[1:]) * min(shape[1:]))))
    assert found.shape == (5, 3 * shape[0] * side**2 + 4 * 128)
    assert found.isfinite().all()


def test_large_images_cost_no_more_than_those_of_64_pixels() -> None:
    large = images(4, 1, 128, 128)
    small = large.float().unflatten(2, (64, 2)).unflatten(4, (64, 2)).mean((3, 5))
    view = fitted(large)
    assert_close(view.look(large), view.look(small))


def test_other_images_than_those_learned_from_are_refused() -> None:
    x = images(5, 3, 12, 12)
    with pytest.raises(InputError, match="fit it on images like these"):
        Texture().features(inputs_of(x))
    with pytest.raises(InputError, match="fit it on images like these"):
        fitted(x).features(inputs_of(x[:, :1]))
