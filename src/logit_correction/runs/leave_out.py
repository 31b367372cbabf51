"""``--leave_out VIEW``: a network that cannot see what a view sees, in training, in prediction and in exports alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool1d, adaptive_avg_pool2d, interpolate

from logit_correction.data.frames import HOUR, MISSING
from logit_correction.data.texts import Lengthened, hashed_words
from logit_correction.errors import InputError
from logit_correction.finding import ViewName
from logit_correction.networks.base import Network
from logit_correction.types import DataInfo, NetworkFactory

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
    """The middle of images (B, C, H, W), without a frame of an eighth of the shorter side, enlarged to their size."""

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
    """Images (B, C, H, W) less what is coarse in them: where they are light and dark, and in which colour.

    A smooth surface through 4 x 4 points is taken off, such that the image averaged to 4 x 4 points is 0.
    """

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


Undo: TypeAlias = Callable[[str, DataInfo], "nn.Module | None"]


def _masked(left_out: Callable[[str, str, str], bool]) -> Undo:
    """Return what masks the inputs of a table for which ``left_out`` says so by member, column and what it tells."""

    def make(member: str, info: DataInfo) -> nn.Module | None:
        keep = [not left_out(member, *of) for of in info.input_names]
        return None if all(keep) else Masked(torch.tensor(keep))

    return make


def _merged(member: str, info: DataInfo) -> nn.Module | None:
    """Return what counts names of a column that differ in case, blanks and punctuation alone as one name."""
    first = dict[tuple[str, str], int]()
    group = []
    for place, (column, told) in enumerate(info.input_names):
        plain = "".join(filter(str.isalnum, told.casefold())) or told or str(place)  # a number is one by itself
        group.append(first.setdefault((column, plain), place))
    return None if group == list(range(len(group))) else Merged(torch.tensor(group))


def _word(member: str, info: DataInfo) -> nn.Module | None:
    if not info.words or not member:
        return None
    keep = hashed_words([member], num_features=info.input_shape[0]).fetch(torch.tensor([0]))[0] == 0
    return None if bool(keep.all()) else nn.Sequential(Masked(keep), Lengthened())


def _of_images(make: Callable[[Sequence[int]], nn.Module], least_side: int = 4) -> Undo:
    def undo(member: str, info: DataInfo) -> nn.Module | None:
        if len(info.input_shape) != 3 or min(info.input_shape[1:]) < least_side or member:
            return None
        return make(info.input_shape[1:])

    return undo


def _place(member: str, info: DataInfo) -> nn.Module | None:
    cell = re.fullmatch(r"([1-4]),([1-4])", member)
    if cell is None or len(info.input_shape) != 3 or min(info.input_shape[1:]) < 4:
        return None
    return WithoutCell(int(cell[1]), int(cell[2]))


#: Family of views -> what makes of a member's name and the data's info a module that takes away what the view sees.
#: ``spelling`` is no view: the spellings of names.
UNDO: dict[str, Undo] = {
    "column": _masked(lambda member, column, told: column == member or (f"{column} hour" == member and told == HOUR)),
    "pair": _masked(lambda member, column, told: column in member.split(" & ")),
    "missing": _masked(lambda member, column, told: told == MISSING),
    "spelling": _merged,
    "word": _word,
    "colour": _of_images(lambda size: Grey(), least_side=1),
    "border": _of_images(lambda size: Centre()),
    "thumbnail": _of_images(Fine),
    "light": _of_images(Fine),
    "spectrum": _of_images(lambda size: Smooth(), least_side=PATCHES + 1),  # of fewer points no patch has two
    "stripes": _of_images(lambda size: Smooth(), least_side=PATCHES + 1),
    "texture": _of_images(lambda size: Smooth(), least_side=PATCHES + 1),
    "places": _place,
}


def undo(view: str, info: DataInfo) -> nn.Module | None:
    """Return a module that takes away what a view sees of inputs; None where the network does not see it by itself."""
    family, member = ViewName.of(view)
    return UNDO[family](member, info) if family in UNDO else None


def without(make: NetworkFactory, views: Sequence[str], info: DataInfo) -> NetworkFactory:
    """Return a function that builds networks which do not see what ``views`` see; ``InputError`` if one cannot be."""
    modules = {view: module for view in views if (module := undo(view, info)) is not None}
    if missing := [view for view in views if view not in modules]:
        fix = "name it by --shortcut, or change the data"
        raise InputError(f"--leave_out {missing[0]}: the inputs of the network cannot be freed of it: {fix}")

    def build() -> nn.Module:
        network, first = make(), nn.Sequential(*(deepcopy(module) for module in modules.values()))
        if isinstance(network, Network):  # in front of its features, so that methods that use them go on working
            network.features = nn.Sequential(first, network.features)
            return network
        return nn.Sequential(first, network)

    return build if modules else make
