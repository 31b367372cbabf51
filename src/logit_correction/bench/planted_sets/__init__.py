"""The sets of ``Planted``: what each is made of, what is planted into it, and how many rows it has by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from logit_correction.bench.colors import color_names
from logit_correction.bench.planted_sets import people, reviews
from logit_correction.bench.planted_sets.image_marks import value_names
from logit_correction.errors import InputError

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

#: Labels of data that have labels of their own, in the order of scikit-learn where they are from there.
FIXED = {
    "people": people.LABELS,
    "cancer": ["malignant", "benign"],
    "wine": ["grower 1", "grower 2", "grower 3"],
}

SCANNERS = ["80 kV", "120 kV"]


def checked_labels(name: str, chosen: SetOf, given: str | None, classes: Sequence[str]) -> list[str]:
    """Return the labels of a set: those that are given with commas between, else its own.

    Raises:
        InputError: If a label is unknown or named twice, there is only one, or the set's labels are fixed.
    """
    if chosen.kind in FIXED:
        if given is not None:
            raise InputError(f"the labels of {name} are {', '.join(FIXED[chosen.kind])}: leave --data.labels out")
        return FIXED[chosen.kind]
    known = classes if chosen.kind == "photos" else reviews.SENTIMENTS if chosen.kind == "texts" else DIGITS.split(",")
    labels = [label.strip() for label in (chosen.labels if given is None else given).split(",")]
    unknown = [label for label in labels if label not in known]
    if unknown:
        raise InputError(f"labels has {unknown[0]!r}, which {name} has not: take some of {', '.join(known)}")
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise InputError(f"labels is {given!r}, but must name two labels or more, each once")
    return labels


def mark_names(chosen: SetOf, num_labels: int) -> list[str]:
    """Return the names of the values of a set's mark, one for each label; none where nothing is planted."""
    if chosen.mark is None:
        return []
    if chosen.kind == "photos":
        return value_names(chosen.mark, num_labels)
    fixed = {
        "form_version": people.FORM_VERSIONS,
        "scanner_kv": SCANNERS,
        "signature": list(reviews.SIGNATURES),
        "topic": list(reviews.TOPICS),
    }
    return color_names(num_labels) if chosen.mark == "colour" else fixed[chosen.mark][:num_labels]
