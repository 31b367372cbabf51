"""What the file of a benchmark may hold."""

from __future__ import annotations

from typing import Any

from logit_correction.errors import InputError, did_you_mean

#: What the file of a benchmark may hold; the first three it must.
KEYS = (
    "title", "rows", "columns", "common", "cells", "seeds", "data_seeds", "metric", "column_metrics", "paper", "figure",
    "column_title",
)  # fmt: skip

#: Figures that a table may show.
METRICS = ("average", "group_balanced", "worst_group", "worst_class", "minority", "majority")

#: Those of label x attribute; where nobody named attributes, estimated groups take the place of these.
BY_GROUP = ("group_balanced", "worst_group", "minority", "majority")

#: Kind of drawing -> its options -> their choices, the default first.
FIGURES: dict[str, dict[str, tuple[str, ...]]] = {
    "accuracy": {"metric": METRICS},
    "bars": {"metric": METRICS},
    "curves": {"metric": ("group_balanced", "average", "worst_group")},
    "margins": {"over": ("training", "end"), "margin": ("least", "mean")},
}


def slug(name: str) -> str:
    """Return a name that may be a folder's.

    >>> slug("LC, no MixUp"), slug("LC+"), slug("0.5 %")
    ('lc-no-mixup', 'lc-plus', '0.5')
    """
    kept = "".join(c if c.isalnum() or c == "." else "-" for c in name.lower().replace("+", " plus "))
    return "-".join(part for part in kept.split("-") if part.strip("."))


def check_content(content: dict[str, Any]) -> None:
    """Return if a file's content describes a grid.

    Raises:
        InputError: Names the key that is wrong.
    """
    for key in content:
        if key not in KEYS:
            raise InputError(f"there is no {key!r}{did_you_mean(str(key), KEYS)}: it may hold {', '.join(KEYS)}")
    for key in KEYS[:3]:
        if not content.get(key):
            raise InputError(f"{key} is missing")
    for key in ("rows", "columns"):
        _check_variants(key, content[key])
    if not isinstance(content.get("common") or {}, dict):
        raise InputError("common must be a mapping of options, such as `epochs: 20`")
    seeds = content.get("seeds", 3)
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1:
        raise InputError(f"seeds is {seeds!r}, but must be a number of seeds, at least 1")
    if not isinstance(content.get("data_seeds", False), bool):
        raise InputError(f"data_seeds is {content['data_seeds']!r}, but must be true or false")
    columns = [str(column) for column in content["columns"]]
    metrics = content.get("column_metrics") or {}
    if not isinstance(metrics, dict) or not {str(column) for column in metrics} <= set(columns):
        raise InputError(f"column_metrics must map columns to metrics; the columns are {', '.join(columns)}")
    for metric in (content.get("metric", METRICS[0]), *metrics.values()):
        if metric not in METRICS:
            raise InputError(f"metric is {metric!r}, but must be one of {', '.join(METRICS)}")
    _check_cells(content.get("cells") or {}, [str(row) for row in content["rows"]], columns)
    _check_paper(content.get("paper") or {}, columns)
    figures_of(content.get("figure"))


def _check_variants(key: str, variants: Any) -> None:
    """Check the rows or the columns: each needs options, and a name that makes a folder of its own."""
    if not isinstance(variants, dict) or not all(isinstance(v, dict | None) for v in variants.values()):
        raise InputError(f"{key} must be a mapping of names to options, such as `LC: {{method: {{name: LC}}}}`")
    folders: dict[str, str] = {}
    for name in map(str, variants):
        folder = slug(name)
        if not folder:
            raise InputError(f"{key}: {name!r} needs a letter or a digit, since its folder is named so")
        if folder in folders:
            raise InputError(f"{key}: {folders[folder]!r} and {name!r} would share the folder {folder}: rename one")
        folders[folder] = name


def _check_cells(cells: Any, rows: list[str], columns: list[str]) -> None:
    """Check the options of single cells: of rows and columns that there are."""
    if not isinstance(cells, dict) or not all(isinstance(options, dict) for options in cells.values()):
        raise InputError("cells must hold rows of columns of options, such as `LC: {COLUMN: {epochs: 50}}`")
    for row, of_columns in cells.items():
        if str(row) not in rows:
            raise InputError(f"cells: there is no row {str(row)!r}{did_you_mean(str(row), rows)}")
        for column, options in of_columns.items():
            if str(column) not in columns:
                raise InputError(f"cells: {row!r} has {str(column)!r}, but the columns are {', '.join(columns)}")
            if not isinstance(options, dict):
                raise InputError(f"cells: {row!r}, {str(column)!r} must be a mapping of options")


def _check_paper(paper: Any, columns: list[str]) -> None:
    """Check the paper's figures: numbers, or pairs of mean and standard deviation, in columns that there are."""
    if not isinstance(paper, dict) or not all(isinstance(cells, dict) for cells in paper.values()):
        raise InputError("paper must hold rows of figures, such as `LC: {COLUMN: 71.25}`")
    for row, cells in paper.items():
        for column, figure in cells.items():
            if str(column) not in columns:
                raise InputError(
                    f"paper: {row!r} has a figure for {column!r}, but the columns are {', '.join(columns)}"
                )
            numbers = figure if isinstance(figure, list) and len(figure) == 2 else [figure]
            if not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
                raise InputError(
                    f"paper: {row!r}, {column!r} is {figure!r}, but must be a number of per cent such as 71.25, or a "
                    "mean and a standard deviation such as [71.25, 3.17]"
                )


def figures_of(given: Any) -> tuple[dict[str, str], ...] | None:
    """Return the drawings that the key ``figure`` asks for, each with all its options; None where it is left out.

    Args:
        given: A kind, a mapping with a kind and its options, a list of such, or ``none``.

    Raises:
        InputError: Names what is wrong.

    >>> figures_of("margins")
    ({'kind': 'margins', 'over': 'training', 'margin': 'least'},)
    """
    if given is None:
        return None
    if given == "none":
        return ()
    found = []
    for one in given if isinstance(given, list) else [given]:
        options = {"kind": one} if isinstance(one, str) else one
        if not isinstance(options, dict) or options.get("kind") not in FIGURES:
            raise InputError(f"figure is {one!r}, but must be one of {', '.join(FIGURES)}, or `{{kind: curves, ...}}`")
        known = FIGURES[options["kind"]]
        for name, value in options.items():
            if name != "kind" and name not in known:
                hint = did_you_mean(str(name), known)
                raise InputError(f"figure {options['kind']} has no option {name!r}{hint}: it takes {', '.join(known)}")
            if name != "kind" and value not in known[name]:
                raise InputError(f"figure: {name} is {value!r}, but must be one of {', '.join(known[name])}")
        own = ("accuracy", "bars")  # which show the metric of the tables by default
        defaults = {name: choices[0] for name, choices in known.items() if options["kind"] not in own}
        found.append({"kind": options["kind"], **defaults, **{k: v for k, v in options.items() if k != "kind"}})
    if len({(one["kind"], one.get("margin")) for one in found}) < len(found):
        raise InputError("figure: two of one kind would share a file: keep one")
    return tuple(found)
