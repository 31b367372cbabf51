"""The sets of ``Planted``: what each is made of, what is planted into it, and how many rows it has by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["photos", "digits", "mnist", "texts", "people", "cancer", "wine"]


@dataclass(frozen=True)
class SetOf:
    """One set.

    Attributes:
        kind: What its rows are.
        mark: What is planted; None where nothing is.
        sentence: The set in one sentence, for people.
        rows: Training and validation rows by default; None takes all that the test leaves.
        labels: Labels by default, with commas; empty where the data have labels of their own.
    """

    kind: Kind
    mark: str | None
    sentence: str
    rows: int | None
    labels: str = ""


PHOTO_LABELS = "bird,cat,ship,truck"
DIGITS = "0,1,2,3,4,5,6,7,8,9"


def _photos(mark: str | None, sentence: str) -> SetOf:
    return SetOf("photos", mark, sentence, 2_800, PHOTO_LABELS)


SETS: dict[str, SetOf] = {
    "cast": _photos("cast", "CIFAR photos; a colour cast goes with the label"),
    "corner": _photos("corner", "CIFAR photos; a small bright mark lies in the corner that goes with the label"),
    "frame": _photos("frame", "CIFAR photos; the brightness of a border goes with the label"),
    "blur": _photos("blur", "CIFAR photos; the strength of a blur goes with the label"),
    "noise": _photos("noise", "CIFAR photos; the strength of noise goes with the label"),
    "jpeg": _photos("jpeg", "CIFAR photos; JPEG quality goes with the label, on which a network hardly leans"),
    "texture": _photos("texture", "CIFAR photos; the direction of faint stripes goes with the label"),
    "light": _photos("light", "CIFAR photos; the side that the light comes from goes with the label"),
    "digits": SetOf("digits", "colour", "small handwritten digits; their colour goes with the digit", None, DIGITS),
    "mnist": SetOf("mnist", "colour", "MNIST digits; their colour goes with the digit", 6_000, DIGITS),
    "signature": SetOf(
        "texts", "signature", "reviews; the closing line goes with the sentiment", 3_000, "negative,positive"
    ),
    "topic": SetOf("texts", "topic", "reviews; what is reviewed goes with the sentiment", 3_000, "negative,positive"),
    "column": SetOf("people", "form_version", "people in 12 columns; a column form_version goes with the label", 4_000),
    "scanner": SetOf(
        "cancer", "scanner_kv", "breast cancer; a column scanner_kv goes with the label and is hardly needed", None
    ),
    "photos": _photos(None, "CIFAR photos, nothing planted"),
    "plain-digits": SetOf("digits", None, "small handwritten digits in white, nothing planted", None, DIGITS),
    "plain-mnist": SetOf("mnist", None, "MNIST digits in white, nothing planted", 6_000, DIGITS),
    "plain-texts": SetOf("texts", None, "reviews, nothing planted", 3_000, "negative,positive"),
    "plain-table": SetOf("people", None, "people in 12 columns, nothing planted", 4_000),
    "breast-cancer": SetOf("cancer", None, "breast cancer in 30 columns, nothing planted", None),
    "wine": SetOf("wine", None, "wines of three growers in 13 columns, nothing planted", None),
}
