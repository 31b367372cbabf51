"""``--leave_out VIEW``: a network that cannot see what a view sees, in training, in prediction and in exports alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool1d, adaptive_avg_pool2d, interpolate

from logit_correction.data.column_kinds import HOUR, MISSING
from logit_correction.data.texts import LengthNormalization, hash_words
from logit_correction.errors import InputError
from logit_correction.formatting import format_option
from logit_correction.networks.base import Network
from logit_correction.registry import ComponentConfig
from logit_correction.types import DataInfo, NetworkFactory
from logit_correction.view_names import ViewName

#: Points along a side to which an image is averaged where its coarse structure is left out, and pixels along a side of
#: a patch that is averaged where its fine structure is, in an image of 16 such patches a side.
COARSE, PATCHES = 4, 16


class Masked(nn.Module):
    """Inputs (B, F) of which some count as their mean over the training rows, 0."""

    keep: Tensor

    def __init__(self, keep: Tensor) -> None:
        """Take which inputs are kept, (F,)."""
        super().__init__()
        self.register_buffer("keep", keep.float())

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self.keep


class Grey(nn.Module):
    """Images (B, C, H, W) as their mean over the channels, each with mean 0 and standard deviation 1."""

    def forward(self, images: Tensor) -> Tensor:
        grey = images.mean(dim=1, keepdim=True)
        centred = grey - grey.mean(dim=(2, 3), keepdim=True)
        deviation = centred.square().mean(dim=(2, 3), keepdim=True).add(1e-6).sqrt()
        return (centred / deviation).expand(-1, images.shape[1], -1, -1)


class Centre(nn.Module):
    """Images (B, C, H, W) without a frame of an eighth of the shorter side, enlarged to their size."""

    def forward(self, images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        frame = max(1, round(min(height, width) / 8))
        inner = images[:, :, frame : height - frame, frame : width - frame]
        return interpolate(inner, size=(height, width), mode="bilinear", align_corners=False)


class Smooth(nn.Module):
    """Images (B, C, H, W) averaged over patches: blur, noise, compression and textures are gone, shapes stay."""

    def forward(self, images: Tensor) -> Tensor:
        size = images.shape[2:]
        height, width = (min(side, max(PATCHES, side // 4)) for side in size)
        small = adaptive_avg_pool2d(images, (height, width))
        return interpolate(small, size=size, mode="bilinear", align_corners=False)


class Fine(nn.Module):
    """Images (B, C, H, W) less a smooth surface through 4 x 4 points, such that averaged to these points they are 0."""

    down: Tensor
    across: Tensor

    def __init__(self, size: Sequence[int]) -> None:
        """Take height and width."""
        super().__init__()
        for name, side in zip(("down", "across"), size, strict=True):
            points = torch.eye(COARSE, dtype=torch.float64).unsqueeze(1)  # averages of what is drawn through each point
            averages = adaptive_avg_pool1d(interpolate(points, size=side, mode="linear"), COARSE).squeeze(1)
            self.register_buffer(name, averages.inverse().float())

    def forward(self, images: Tensor) -> Tensor:
        points = self.down.T @ adaptive_avg_pool2d(images, COARSE) @ self.across
        return images - interpolate(points, size=images.shape[2:], mode="bilinear", align_corners=False)


class WithoutCell(nn.Module):
    """Images (B, C, H, W) of which one cell of a grid of 4 x 4 has the mean of the rest."""

    def __init__(self, row: int, column: int) -> None:
        """Choose the cell: row 1..4 from the top, column 1..4 from the left."""
        super().__init__()
        self.row, self.column = row, column

    def forward(self, images: Tensor) -> Tensor:
        inside = []
        for place, side in zip((self.row, self.column), images.shape[2:], strict=True):  # as the view divides them
            pixel = torch.arange(side, device=images.device)
            inside.append((pixel >= (place - 1) * side // 4) & (pixel < place * side // 4))
        cell = (inside[0].unsqueeze(1) & inside[1]).to(images.dtype)
        rest = (images * (1 - cell)).sum(dim=(2, 3), keepdim=True) / (1 - cell).sum()
        return images * (1 - cell) + rest * cell


class Merged(nn.Module):
    """Inputs (B, F) of which several count as one: their sum."""

    group: Tensor

    def __init__(self, group: Tensor) -> None:
        """Take the group of each input, (F,) long: the place of the input that stands for it."""
        super().__init__()
        self.register_buffer("group", group)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.zeros_like(inputs).index_add(1, self.group, inputs)


def build_view_removal(view: str, info: DataInfo) -> nn.Module | None:
    """Return a module that takes away what a view sees of inputs; None where the network does not see it by itself.

    ``spelling`` is no view: it makes the spellings of a name one.
    """
    family, member = ViewName.of(view)
    if family in ("column", "pair", "missing"):
        keep = [not _is_seen(family, member, *of) for of in info.input_names]
        return None if all(keep) else Masked(torch.tensor(keep))
    if family == "spelling":
        return _merged(info)
    if family == "word" and member and info.words:
        keep_word = hash_words([member], num_features=info.input_shape[0]).fetch(torch.tensor([0]))[0] == 0
        return None if bool(keep_word.all()) else nn.Sequential(Masked(keep_word), LengthNormalization())
    if len(info.input_shape) != 3:
        return None
    size = info.input_shape[1:]
    if family == "places" and re.fullmatch("[1-4],[1-4]", member) and min(size) >= COARSE:
        return WithoutCell(*map(int, member.split(",")))
    if member:
        return None
    if family == "colour":
        return Grey()
    if family == "border" and min(size) >= COARSE:
        return Centre()
    if family in ("thumbnail", "light") and min(size) >= COARSE:
        return Fine(size)
    if family in ("spectrum", "stripes", "texture") and min(size) > PATCHES:  # of fewer points no patch has two
        return Smooth()
    return None


def _is_seen(family: str, member: str, column: str, told: str) -> bool:
    """Return whether a view of a table sees an input, which tells something of a column."""
    if family == "missing":
        return told == MISSING
    if family == "pair":
        return column in member.split(" & ")
    return column == member or (f"{column} hour" == member and told == HOUR)


def _merged(info: DataInfo) -> nn.Module | None:
    """Return what counts names of a column that differ in case, blanks and punctuation alone as one name."""
    first = dict[tuple[str, str], int]()
    group = []
    for place, (column, told) in enumerate(info.input_names):
        plain = "".join(filter(str.isalnum, told.casefold())) or told or str(place)  # a number is one by itself
        group.append(first.setdefault((column, plain), place))
    return None if group == list(range(len(group))) else Merged(torch.tensor(group))


def is_linear_removal(views: Sequence[str], info: DataInfo) -> bool:
    """Return whether taking away what these views see is linear in the inputs, as masking a column is."""
    return all(isinstance(build_view_removal(view, info), Masked | Merged) for view in views)


def make_network_factory(choice: ComponentConfig, views: Sequence[str], info: DataInfo) -> NetworkFactory:
    """Return a function that builds the chosen network, which does not see what ``views`` see.

    Raises:
        InputError: The inputs cannot be freed of a view, or what was built is no network.
    """
    modules = {view: module for view in views if (module := build_view_removal(view, info)) is not None}
    if missing := [view for view in views if view not in modules]:
        fix = f"name it by {format_option('shortcut')}, or change the data"
        raise InputError(
            f"{format_option('leave_out', missing[0])}: the inputs of the network cannot be freed of it: {fix}"
        )

    def build() -> nn.Module:
        network = choice.make(info=info)
        if not isinstance(network, nn.Module):
            made = type(network).__name__
            raise InputError(f"network {choice.name!r} made a {made}, but must make a torch.nn.Module")
        if not modules:
            return network
        first = nn.Sequential(*(deepcopy(module) for module in modules.values()))
        if isinstance(network, Network):  # in front of its features, so that methods that use them go on working
            network.features = nn.Sequential(first, network.features)
            return network
        return nn.Sequential(first, network)

    return build
