"""Data frames and datasets from Python, saved once so that a run can be resumed, judged again and repeated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from logit_correction.config import ComponentConfig
from logit_correction.data.cache import digest, made_once, tables_folder
from logit_correction.data.tabular_io import check_names, check_unique
from logit_correction.errors import InputError, reason_of


def from_table(rows: Any, *, label: str, folder: Path | str | None = None, **options: Any) -> ComponentConfig:
    """Make a table in memory the data of a run, with the options of ``Table``.

    Args:
        rows: A pandas DataFrame; a Hugging Face ``Dataset``, or a ``DatasetDict`` of splits; or a mapping of columns.
        label: Column of labels. A Hugging Face ``ClassLabel`` becomes its names.
        folder: Where to save; by default ``tables`` in the cache folder.
        **options: Those of ``Table``: ``text``, ``path`` or ``features``, ``split``, ``attribute``, and so on.

    Raises:
        InputError: If it is no table, has no rows or two columns of one name, or values of a column differ in kind.

    >>> import tempfile
    >>> from logit_correction import from_table
    >>> rows = {"review": ["good", "bad", "fine", "poor"], "verdict": ["yes", "no", "yes", "no"]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     from_table(rows, label="verdict", text="review", folder=folder).name
    'Table'
    """
    from pyarrow import ArrowException

    frame, has_splits = _frame_of(rows)
    names = [str(name) for name in frame.columns]
    check_unique(names, "the table")
    check_names(names, "the table", [str(label)])
    if has_splits:
        options.setdefault("split", "split")
    try:
        content = frame.to_parquet(index=False)
    except (ArrowException, ValueError, TypeError, OverflowError) as error:
        reason = reason_of(error)
        raise InputError(f"the table cannot be saved ({reason}): give each column values of one kind") from error
    target = (tables_folder() if folder is None else Path(folder)) / f"{digest([content])}.parquet"
    made_once(target, lambda file: file.write_bytes(content))
    if "path" in options:
        options.setdefault("root", str(Path.cwd()))
    return ComponentConfig("Table", {"file": str(target), "label": str(label), **options})


def _frame_of(rows: Any) -> tuple[Any, bool]:
    """Return a data frame, and whether it was put together from splits."""
    import pandas as pd

    if isinstance(rows, pd.DataFrame):
        return rows, False
    if isinstance(rows, Mapping) and rows and all(hasattr(part, "to_pandas") for part in rows.values()):
        parts = [_frame_of(part)[0].assign(split=name) for name, part in rows.items()]
        return pd.concat(parts, ignore_index=True), True
    if hasattr(rows, "to_pandas"):
        frame = rows.to_pandas()
        for name, feature in (getattr(rows, "features", None) or {}).items():
            if getattr(feature, "names", None) and name in frame.columns:
                frame[name] = [feature.names[number] if number >= 0 else None for number in frame[name].tolist()]
        return frame, False
    if isinstance(rows, Mapping):
        return pd.DataFrame({name: list(values) for name, values in rows.items()}), False
    raise InputError(f"{type(rows).__name__} is no table: give a data frame, a dataset, or a mapping of columns")
