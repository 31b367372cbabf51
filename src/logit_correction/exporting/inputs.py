"""What an exported network takes, and the layers that bring it to what the network learnt on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from logit_correction.data.features import Column
from logit_correction.data.images import Images
from logit_correction.data.texts import LENGTH, MOST_WORDS, TOKENS, Texts
from logit_correction.errors import InputError
from logit_correction.runs.run import Run

#: Numbers of images: bytes as files have them, or floats in [0, 1].
ImageType = Literal["uint8", "float32"]


@dataclass(frozen=True)
class InputForm:
    """What an exported network takes.

    Attributes:
        kind: ``images``, ``columns`` (a table's, as they were written), ``numbers``, ``words`` (counted) or ``tokens``.
        names: Names of the inputs.
        dtype: Their type.
        shape: Shape of one row; a length that may vary is None.
        prepare: Inputs as they come -> as the network takes them.
        metadata: How to make the inputs of files, texts and tables, for people and programs.
    """

    kind: str
    names: tuple[str, ...]
    dtype: torch.dtype
    shape: tuple[int | None, ...]
    prepare: nn.Module
    metadata: dict[str, Any] = field(default_factory=dict)

    def example(self, rows: int, length: int) -> tuple[Tensor, ...]:
        """Return inputs of the form, drawn at random; ``length`` stands for what may vary."""
        generator = torch.Generator().manual_seed(rows)
        shape = (rows, *(length if size is None else size for size in self.shape))
        if self.kind == "tokens":  # few numbers are tokens of every vocabulary
            return torch.randint(2, shape, generator=generator), torch.ones(shape, dtype=torch.long)
        if self.dtype == torch.uint8:
            return (torch.randint(256, shape, generator=generator, dtype=torch.uint8),)
        return (torch.rand(shape, generator=generator).to(self.dtype),)

    def describe(self) -> dict[str, Any]:
        """Return all of it as plain values, for ``config.json``."""
        one = {"dtype": str(self.dtype).removeprefix("torch."), "shape": [None, *self.shape]}
        return {"kind": self.kind, "inputs": [{"name": name} | one for name in self.names], **self.metadata}


class FromColumns(nn.Module):
    """Columns (n, C) as they were written -> standardised numbers, and a 0 or 1 for each name, (n, F).

    A name is given by its place among the column's names, and anything else, such as -1, is a name that training did
    not know; a date by the days since 1970; a missing number by NaN, where training rows missed some. Numbers are taken
    in double precision, for a large one would lose digits before its mean is taken off.

    >>> columns = [{"name": "age", "mean": 40.0, "std": 10.0}, {"name": "form", "categories": ["new", "old"]}]
    >>> FromColumns(columns)(torch.tensor([[50.0, 1.0], [40.0, -1.0]], dtype=torch.float64))
    tensor([[1., 0., 1.],
            [0., 0., 0.]])
    """

    place: Tensor
    mean: Tensor
    std: Tensor
    code: Tensor
    is_name: Tensor
    is_gap: Tensor
    may_miss: Tensor

    def __init__(self, columns: Sequence[Column]) -> None:
        """Keep what training found out of each column."""
        super().__init__()
        # For each of the F inputs: place, mean, std, code, is_name, is_gap, may_miss.
        inputs: list[tuple[int, float, float, float, bool, bool, bool]] = []
        for place, column in enumerate(columns):
            if "categories" in column:
                inputs += [(place, 0, 1, code, True, False, False) for code in range(len(column["categories"]))]
                continue
            may_miss = bool(column.get("gaps"))
            inputs.append((place, column["mean"], column["std"], 0, False, False, may_miss))
            inputs += [(place, 0, 1, 0, False, True, False)] if may_miss else []
        names = ("place", "mean", "std", "code", "is_name", "is_gap", "may_miss")
        dtypes = (torch.long, *[torch.float64] * 3, *[torch.bool] * 3)
        for name, dtype, values in zip(names, dtypes, zip(*inputs, strict=True), strict=True):
            self.register_buffer(name, torch.tensor(values, dtype=dtype))

    def forward(self, columns: Tensor) -> Tensor:
        """Return (n, F) float32."""
        values = columns.index_select(1, self.place)
        missing = values.isnan()
        numbers = torch.where(missing & self.may_miss, 0.0, (values - self.mean) / self.std)
        flags = torch.where(self.is_gap, missing.double(), (values == self.code).double())  # ONNX chooses among numbers
        return torch.where(self.is_name | self.is_gap, flags, numbers).float()


class Scaled(nn.Module):
    """Numbers, or the bytes of images, times a factor: the scale of training."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, values: Tensor) -> Tensor:
        """Return floats."""
        return values.float() * self.factor


def form_of(run: Run, images: ImageType = "uint8") -> InputForm:
    """Return the form in which a run's network is to take new rows.

    Raises:
        InputError: If the run takes no images and floats are asked for.
    """
    info, source, reader = run.inputs_info, run.source, run.source.reader
    shape: tuple[int | None, ...] = tuple(info.input_shape)
    if len(shape) == 3 and not info.tokens:
        metadata: dict[str, Any] = {"range": [0, 255] if images == "uint8" else [0, 1], "channels": "RGB"}
        if isinstance(reader, Images):
            metadata |= {"resize": list(reader.size), "fit": reader.fit, "resampling": "bilinear"}
        factor, dtype = (source.scale / 255, torch.uint8) if images == "uint8" else (source.scale, torch.float32)
        return InputForm("images", ("images",), dtype, shape, Scaled(factor), metadata)
    if images != "uint8":
        raise InputError(f"--images {images} is for runs on images, and {run} takes none: leave it out")
    if info.tokens:
        most = reader.max_tokens if isinstance(reader, Texts) else None
        metadata = {"max_tokens": most, "padding": "longest", "truncation": True}
        return InputForm("tokens", TOKENS, torch.long, (None,), nn.Identity(), metadata)
    columns = (run.report["data"].get("preparation") or {}).get("columns")
    if columns:
        prepare = FromColumns(columns)
        return InputForm("columns", ("columns",), torch.float64, (len(columns),), prepare, {"columns": columns})
    if isinstance(reader, Texts):
        vectorizer = {"class": "sklearn.feature_extraction.text.HashingVectorizer", "n_features": shape[0]}
        metadata = {"vectorizer": vectorizer, "most_words": MOST_WORDS}
        return InputForm("words", ("words",), torch.float32, shape, Scaled(LENGTH), metadata)
    return InputForm("numbers", ("numbers",), torch.float32, shape, Scaled(source.scale))
