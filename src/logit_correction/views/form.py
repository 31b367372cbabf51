"""The form of a text: its length, and the kinds of its characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.views.base import CHUNK, View, ViewInputs

#: Punctuation marks that are counted one by one.
MARKS = ".,;:!?'\"()[]{}<>-–—_/\\&@#%*+=$€£~^|`…“”\u2018’«»•\n"


#: Kinds of characters of which the share is taken.
KINDS: dict[str, Callable[[str], bool]] = {
    "capitals": str.isupper,
    "digits": str.isdigit,
    "punctuation": lambda character: unicodedata.category(character)[0] in "PS",  # and symbols
    "white space": str.isspace,
    "not ASCII": lambda character: not character.isascii(),
}


class Form(View):
    """Length, punctuation, capitals, digits and blanks of a text: how it is written, not what it says."""

    name = "form"
    sentence = "the form of the text: its length, punctuation, capitals, digits and blanks"
    breadth = 1
    needs = "texts"

    def can_look(self, inputs: ViewInputs) -> bool:
        """Return whether there are texts."""
        return inputs.texts is not None

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return the form of each text.

        Returns:
            (N, F): ln(1 + characters), ln(1 + words), mean length of a word, the shares of ``KINDS`` in [0, 1], and
            ln(1 + count) of each of ``MARKS``, of which the last is the line break.
        """
        texts = inputs.texts or []
        values = np.zeros((len(texts), 3 + len(KINDS) + len(MARKS)), dtype=np.float32)
        for start in range(0, len(texts), CHUNK):
            values[start : start + CHUNK] = _form(texts[start : start + CHUNK])
        return torch.from_numpy(values)


def _form(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the form of few texts, from the numbers of all their characters one after another."""
    length = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    row = np.repeat(np.arange(len(texts)), length)
    # Each kind of character is looked up once and then counted.
    found, place = np.unique(codes, return_inverse=True)
    characters = [chr(code) for code in found.tolist()]

    def count(where: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(row[where], minlength=len(texts))

    of_kind = {name: np.array([test(c) for c in characters], dtype=bool)[place] for name, test in KINDS.items()}
    black = ~of_kind["white space"]
    begins = np.ones(len(codes), dtype=bool)
    begins[1:] = ~black[:-1] | (row[1:] != row[:-1])
    words, blacks = count(black & begins), count(black)
    shares = [count(where) / length.clip(min=1) for where in of_kind.values()]
    marks = [np.log1p(count(codes == ord(mark))) for mark in MARKS]
    return np.stack([np.log1p(length), np.log1p(words), blacks / words.clip(min=1), *shares, *marks], axis=1)
