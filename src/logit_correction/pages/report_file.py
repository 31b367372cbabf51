"""``report.json`` of a folder that anybody may have written or damaged: whatever is read of it is what it must be."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logit_correction.errors import InputError
from logit_correction.files import read_json

#: What to do about a damaged file of a run.
FIX = "put a copy of it back, or train again into a new folder"


@dataclass(frozen=True)
class Maybe:
    """What may be missing, or null."""

    shape: Any


@dataclass(frozen=True)
class Each:
    """A mapping of any names to values of one shape."""

    shape: Any


@dataclass(frozen=True)
class Matrix:
    """Rows of numbers, all as long."""

    shape: str


_TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "name": (str, int, float, bool),
    "number": (int, float),
    "share": (int, float),
    "count": (int,),
    "truth": (bool,),
    "mapping": (dict,),
    "list": (list,),
    "anything": (object,),
}

_LABELS_READ = Maybe(Each(["text"]))
_SHARE, _NUMBER, _TEXT, _COUNT, _OPTIONS = (Maybe(kind) for kind in ("share", "number", "text", "count", "mapping"))
_GROUP = {
    "label": "name",
    "attribute": Maybe("name"),
    "count": "count",
    **dict.fromkeys(("accuracy", "low", "high"), _SHARE),
    "minority": Maybe("truth"),
}
_ACCURACIES = ("average", "group_balanced", "worst_group", "worst_class", "minority", "majority", "adjusted_average")
_ATTRIBUTE = {"attribute": "name", "count": "count", **dict.fromkeys(("accuracy", "auroc", "f1", "ece"), _SHARE)}
_TEST = {"groups": [_GROUP], "by_attribute": [_ATTRIBUTE], **dict.fromkeys(_ACCURACIES, _SHARE)}
_SELECTION = {"rule": _TEXT, "epoch": _COUNT, "labels_read": Maybe(["text"])}
_SIGN = {
    "view": _TEXT,
    "sentence": _TEXT,
    **dict.fromkeys(("breadth", "rows"), _COUNT),
    **dict.fromkeys(("share", "accuracy", "network_accuracy", "follows_view", "follows_label"), _SHARE),
    **dict.fromkeys(("ratio", "ratio_low", "ratio_high", "information"), _NUMBER),
}
_EXAMPLE = {
    "estimated_attribute": "name",
    "label": "name",
    "attribute": Maybe("name"),
    **dict.fromkeys(("name", "picture"), _TEXT),
}

#: What the program reads of a report; there may be more.
REPORT: dict[str, Any] = {
    "method": "text",
    "data": {
        "name": "text",
        **dict.fromkeys(("options", "facts", "preparation"), _OPTIONS),
        "counts": Maybe(Each(Matrix("count"))),
        "rows": Maybe(Each("count")),
        "scoring": Maybe({"counts": Maybe(Each(["count"])), "overlapping": Maybe("truth")}),
        **dict.fromkeys(("label_names", "attribute_names"), Maybe(["name"])),
        "correlation": Maybe([["count"]]),
        "input_shape": Maybe(["count"]),
        "tokens": Maybe("truth"),
        "fingerprint": _TEXT,
    },
    "test": _TEST,
    "method_options": _OPTIONS,
    "network": Maybe({"name": _TEXT, "options": _OPTIONS, "facts": _OPTIONS}),
    "encoder": Maybe(
        {"name": "text", "options": "mapping", "weights": "text", "input_shape": ["count"], "tokens": "truth"}
    ),
    **dict.fromkeys(("seed", "epochs"), _COUNT),
    "epochs_per_stage": Maybe(["count"]),
    "training": _OPTIONS,
    "selection": Maybe(_SELECTION),
    "other_selections": Maybe([{**_SELECTION, "test": _TEST}]),
    **dict.fromkeys(("labels_read", "watched_labels_read", "diagnostics_labels_read"), _LABELS_READ),
    "group_prior": Maybe(
        {
            **dict.fromkeys(("estimator", "averaging"), _TEXT),
            **dict.fromkeys(("estimated", "true"), Maybe(Matrix("number"))),
            **dict.fromkeys(("label_names", "attribute_names"), Maybe(["name"])),
        }
    ),
    "attributes": _TEXT,
    "evidence": Maybe(
        {
            "verdict": _TEXT,
            "sentence": _TEXT,
            "views": Maybe("anything"),
            "signs": Maybe([_SIGN]),
            "conflicts": Maybe([{"rows": "count", "label": "name", "looks_like": "name"}]),
            **dict.fromkeys(("told_apart", "told_apart_low", "told_apart_high"), _SHARE),
        }
    ),
    "estimated_minority": Maybe(
        {"count": "count", "recall": _SHARE, "precision": _SHARE, "examples": Maybe([_EXAMPLE])}
    ),
    "warnings": Maybe(["text"]),
    "environment": _OPTIONS,
    "seconds": Maybe(Each(_NUMBER)),
}


def read_report_file(path: Path, needed: Collection[str] = ()) -> dict[str, Any]:
    """Return the content of a ``report.json``.

    Args:
        path: The file.
        needed: What must be there as well, such as ``data.label_names``.

    Raises:
        InputError: If the file cannot be read, or does not hold what the program reads of it; names the entry.
    """
    return check_report(read_json(path, FIX), str(path), FIX, needed)


def check_report(content: Any, place: str, fix: str, needed: Collection[str] = ()) -> dict[str, Any]:
    """Return the content of a ``report.json`` if it is what the program reads of it.

    Args:
        content: What was read.
        place: Where it is from, for the message.
        fix: What to do about it.
        needed: What must be there as well, such as ``data.label_names``.

    Raises:
        InputError: Otherwise; names the entry.
    """
    fault = fault_of(content, REPORT)
    for name in needed:
        entry: Any = content
        for part in name.split("."):
            entry = entry.get(part) if isinstance(entry, dict) else None
        fault = fault or (f"{name} is missing" if entry is None else None)
    if fault is not None:
        raise InputError(f"{place} cannot be read ({fault}): {fix}")
    result: dict[str, Any] = content
    return result


def fault_of(value: Any, shape: Any, place: str = "") -> str | None:
    """Return what of a value is not as it must be, None if all is.

    >>> fault_of({"test": {"groups": [{"label": 3, "count": -1}]}}, {"test": {"groups": [{"count": "count"}]}})
    'test.groups[0].count is -1, not a count'
    """
    if isinstance(shape, Maybe):
        return None if value is None else fault_of(value, shape.shape, place)
    if isinstance(shape, str):
        return None if _is(value, shape) else f"{place or 'it'} is {_short(value)}, not a {shape}"
    if isinstance(shape, Matrix):
        uneven = isinstance(value, list) and len({len(row) for row in value if isinstance(row, list)}) > 1
        return f"{place} has rows of different lengths" if uneven else fault_of(value, [[shape.shape]], place)
    kind = "list" if isinstance(shape, list) else "mapping"
    if not _is(value, kind):
        return f"{place or 'it'} is {_short(value)}, not a {kind}"
    parts: list[tuple[str, Any, Any]]
    if isinstance(shape, list):
        parts = [(f"{place}[{number}]", part, shape[0]) for number, part in enumerate(value)]
    elif isinstance(shape, Each):
        parts = [(f"{place}.{name}", part, shape.shape) for name, part in value.items()]
    else:
        parts = [(f"{place}.{name}".lstrip("."), value.get(name), part) for name, part in shape.items()]
    return next((fault for where, part, its in parts if (fault := fault_of(part, its, where))), None)


def _is(value: Any, kind: str) -> bool:
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind in ("number", "share", "count")):
        return False
    if not isinstance(value, int | float):
        return True
    least = 0 if kind in ("share", "count") else -(2**63)
    return bool(least <= value <= (1 if kind == "share" else 2**63 - 1))  # NaN is neither


def _short(value: Any) -> str:
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
