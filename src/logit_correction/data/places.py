"""A folder or a file that is named in the place of a data source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from logit_correction.data import SOURCES
from logit_correction.errors import InputError


def source_of_place(data: Any) -> Any:
    """Return the choice of a data source, a folder or a file as the source that reads it; other choices as they are.

    Args:
        data: A name, or a mapping with a name and options.

    Raises:
        InputError: If what is named can only be a place, and nothing is there, or is a place and nearly a source.

    >>> source_of_place({"name": "..", "size": "64"})
    {'name': 'ImageFolder', 'root': '..', 'size': '64'}
    >>> source_of_place("Digits"), source_of_place("digits")
    ('Digits', 'digits')
    """
    given = data if isinstance(data, dict) else {"name": data}
    place = given.get("name")
    if not isinstance(place, str) or place in SOURCES:
        return data
    named = next((name for name in SOURCES if name.lower() == place.lower()), None)
    if not Path(place).exists():
        from logit_correction.data.tabular_io import is_table  # which reads NumPy: not for names that are known

        if named is not None or (os.sep not in place and not is_table(Path(place))):
            return data
        raise InputError(
            f"--data {place} does not exist: give a folder of images, a CSV or Parquet file, or the name of a data "
            "source; `logit-correction list` shows them"
        )
    if named is not None:
        raise InputError(f"--data {place} may be the place or the data source {named}: give ./{place} or {named}")
    source = {"name": "ImageFolder", "root": place} if Path(place).is_dir() else _table(place)
    return {**source, **{name: value for name, value in given.items() if name != "name"}}


def _table(file: str) -> dict[str, str]:
    from logit_correction.data.image_io import SUFFIXES  # which reads torch

    if Path(file).suffix.lower() in SUFFIXES:
        raise InputError(f"--data {file} is one image: give the folder that holds a folder of images for each label")
    return {"name": "Table", "file": file}
