"""Networks that cannot see what a view sees: the option ``leave_out``.

If a view is a shortcut, taking it away from the inputs is the surest correction. The inputs pass through a module in
front of the network that removes what the view sees, so that training, prediction and exports are alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool1d, adaptive_avg_pool2d, interpolate

from logit_correction.data.column_kinds import HOUR, MISSING
from logit_correction.data.table import HOUR_SUFFIX
from logit_correction.data.texts import LengthNormalization, hash_words
from logit_correction.errors import InputError
from logit_correction.formatting import format_option
from logit_correction.networks.base import Network
from logit_correction.registry import ComponentConfig
from logit_correction.types import DataInfo, NetworkFactory
from logit_correction.view_names import ViewName
from logit_correction.views.texts import PAIR_PATTERN

#: Points along a side to which an image is averaged where its coarse structure is removed.
COARSE = 4

#: Pixels along a side of a patch that is averaged where fine structure is removed, in an image of 16 patches a side.
PATCHES = 16


class InputMasking(nn.Module):
    """Replaces some of the inputs (B, F) by their mean over the training rows, 0.

    Args:
        keep: (F,) bool, which inputs are kept.
    """

    keep: Tensor

    def __init__(self, keep: Tensor) -> None:
        super().__init__()
        self.register_buffer("keep", keep.float())

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self.keep


class GreyConversion(nn.Module):
    """Averages images (B, C, H, W) over the channels and gives each mean 0 and standard deviation 1."""

    def forward(self, images: Tensor) -> Tensor:
        grey = images.mean(dim=1, keepdim=True)
        centred = grey - grey.mean(dim=(2, 3), keepdim=True)
        deviation = centred.square().mean(dim=(2, 3), keepdim=True).add(1e-6).sqrt()
        return (centred / deviation).expand(-1, images.shape[1], -1, -1)


class CentreCrop(nn.Module):
    """Cuts a frame of an eighth of the shorter side off images (B, C, H, W), and enlarges them to their size."""

    def forward(self, images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        frame = max(1, round(min(height, width) / 8))
        inner = images[:, :, frame : height - frame, frame : width - frame]
        return interpolate(inner, size=(height, width), mode="bilinear", align_corners=False)


class PatchAveraging(nn.Module):
    """Averages images (B, C, H, W) over patches: blur, noise, compression and textures are removed, shapes stay."""

    def forward(self, images: Tensor) -> Tensor:
        size = images.shape[2:]
        height, width = (min(side, max(PATCHES, side // 4)) for side in size)
        small = adaptive_avg_pool2d(images, (height, width))
        return interpolate(small, size=size, mode="bilinear", align_corners=False)


class LowFrequencyRemoval(nn.Module):
    """Subtracts a smooth surface through 4 x 4 points from images (B, C, H, W), whose averages there become 0.

    Args:
        size: Height and width of the images.
    """

    down: Tensor
    across: Tensor

    def __init__(self, size: Sequence[int]) -> None:
        super().__init__()
        for name, side in zip(("down", "across"), size, strict=True):
            points = torch.eye(COARSE, dtype=torch.float64).unsqueeze(1)  # averages of what is drawn through each point
            averages = adaptive_avg_pool1d(interpolate(points, size=side, mode="linear"), COARSE).squeeze(1)
            self.register_buffer(name, averages.inverse().float())

    def forward(self, images: Tensor) -> Tensor:
        points = self.down.T @ adaptive_avg_pool2d(images, COARSE) @ self.across
        return images - interpolate(points, size=images.shape[2:], mode="bilinear", align_corners=False)


class CellRemoval(nn.Module):
    """Replaces one cell of a grid of 4 x 4 in images (B, C, H, W) by the mean of the rest.

    Args:
        row: 1..4 from the top.
        column: 1..4 from the left.
    """

    def __init__(self, row: int, column: int) -> None:
        super().__init__()
        self.row = row
        self.column = column

    def forward(self, images: Tensor) -> Tensor:
        inside = []
        for place, side in zip((self.row, self.column), images.shape[2:], strict=True):  # as the view divides them
            pixel = torch.arange(side, device=images.device)
            inside.append((pixel >= (place - 1) * side // 4) & (pixel < place * side // 4))
        cell = (inside[0].unsqueeze(1) & inside[1]).to(images.dtype)
        mean_outside = (images * (1 - cell)).sum(dim=(2, 3), keepdim=True) / (1 - cell).sum()
        return images * (1 - cell) + mean_outside * cell


class EqualInputMerging(nn.Module):
    """Replaces inputs (B, F) that count as one by their sum, in the place of the first, and the others by 0.

    Args:
        group: (F,) long, for each input the place of the input that represents it.
    """

    group: Tensor

    def __init__(self, group: Tensor) -> None:
        super().__init__()
        self.register_buffer("group", group)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.zeros_like(inputs).index_add(1, self.group, inputs)


def build_view_removal(view: str, info: DataInfo) -> nn.Module | None:
    """Return a module that removes from inputs what a view sees of them.

    Args:
        view: Name of the view, such as ``colour`` or ``column:site``. ``spelling`` makes the spellings of a name one.
        info: Sizes and names of the inputs.

    Returns:
        The module; None where the inputs do not show what the view sees, or it cannot be removed.
    """
    family, member = ViewName.parse(view)
    if family in ("column", "pair", "missing"):
        keep = [not is_input_seen_by_view(family, member, column, value) for column, value in info.input_names]
        return None if all(keep) else InputMasking(torch.tensor(keep))
    if family == "spelling":
        return _build_spelling_removal(info)
    if family == "word" and member and info.words:
        hashed = hash_words([member], num_features=info.input_shape[0]).fetch(torch.tensor([0]))[0]
        return None if (hashed == 0).all() else nn.Sequential(InputMasking(hashed == 0), LengthNormalization())
    if len(info.input_shape) != 3:
        return None
    size = info.input_shape[1:]
    if family == "places" and re.fullmatch("[1-4],[1-4]", member) and min(size) >= COARSE:
        return CellRemoval(*map(int, member.split(",")))
    if member:
        return None
    if family == "colour":
        return GreyConversion()
    if family == "border" and min(size) >= COARSE:
        return CentreCrop()
    if family in ("thumbnail", "light") and min(size) >= COARSE:
        return LowFrequencyRemoval(size)
    if family in ("spectrum", "stripes", "texture") and min(size) > PATCHES:  # of fewer points no patch has two
        return PatchAveraging()
    return None


def describe_trace(view: str, info: DataInfo) -> str:
    """Return why a network would still see what a view sees behind ``build_view_removal``; "" where it would not.

    Args:
        view: Name of the view.
        info: Sizes and names of the inputs.
    """
    family, member = ViewName.parse(view)
    if family in ("places", "border") and info.augmented:
        return "an augmentation moves what is there before it is removed"
    if family == "word" and PAIR_PATTERN.match(member * 2):
        return "such a character also counts in pairs with its neighbours"
    if family == "missing":
        numbers = {column for column, value in info.input_names if not value}
        if any(value == MISSING and column not in numbers for column, value in info.input_names):
            return "without a name all inputs of a column of names are 0"
    return ""


def is_input_seen_by_view(family: str, member: str, column: str, value: str) -> bool:
    """Return whether a view of a table sees an input.

    Args:
        family: Family of the view: column, pair or missing.
        member: The column or columns that it looks at.
        column: The column that the input is made of.
        value: The name that it indicates; ``MISSING``, ``HOUR``, or empty for the number itself.
    """
    if family == "missing":
        return value == MISSING
    names = (column, column + HOUR_SUFFIX) if value == HOUR else (column,)
    if family == "pair":
        return any(member.startswith(f"{name} & ") or member.endswith(f" & {name}") for name in names)
    return member in names


def _build_spelling_removal(info: DataInfo) -> nn.Module | None:
    """Return a module for which names of a column that differ only in case, blanks and punctuation are one name."""
    representatives: dict[tuple[str, str], int] = {}
    group = []
    for place, (column, value) in enumerate(info.input_names):
        plain = "".join(filter(str.isalnum, value.casefold())) or value or str(place)  # a number is one by itself
        group.append(representatives.setdefault((column, plain), place))
    return None if group == list(range(len(group))) else EqualInputMerging(torch.tensor(group))


def is_linear_removal(views: Sequence[str], info: DataInfo) -> bool:
    """Return whether taking away what these views see is linear in the inputs, as masking a column is."""
    return all(isinstance(build_view_removal(view, info), InputMasking | EqualInputMerging) for view in views)


def make_network_factory(choice: ComponentConfig, views: Sequence[str], info: DataInfo) -> NetworkFactory:
    """Return a function that builds a network which does not see what views see.

    Args:
        choice: The complete config of the network.
        views: Names of the views.
        info: Sizes and names of the inputs.

    Raises:
        InputError: A view cannot be removed from the inputs; or, when it is called, what was built is not a network.
    """
    removals: dict[str, nn.Module] = {}
    for view in views:
        removal = build_view_removal(view, info)
        if removal is None:
            fix = f"name it by {format_option('shortcut')}, or change the data"
            raise InputError(
                f"{format_option('leave_out', view)}: the inputs of the network cannot be freed of it: {fix}"
            )
        removals[view] = removal

    def build() -> nn.Module:
        network = choice.make(info=info)
        if not isinstance(network, nn.Module):
            kind = type(network).__name__
            raise InputError(f"network {choice.name!r} made a {kind}, but must make a torch.nn.Module")
        if not views:
            return network
        first = nn.Sequential(*map(deepcopy, removals.values()))
        if isinstance(network, Network):  # in front of its features, so that methods that use them go on working
            network.features = nn.Sequential(first, network.features)
            return network
        return nn.Sequential(first, network)

    return build
