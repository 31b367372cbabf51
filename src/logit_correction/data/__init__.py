"""Data sources: where labelled rows come from. One file each, and one line here."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from logit_correction.errors import InputError
from logit_correction.formatting import format_option, suggest_name
from logit_correction.registry import format_laboratory_install_command, load_entry_points

#: The sources of other packages: each entry point of ``logit_correction.sources`` is such a mapping.
_INSTALLED: dict[str, tuple[str, str]] = {
    name: source for sources in load_entry_points("sources").values() for name, source in sources.items()
}

#: Name -> dotted path and one line. A dotted path of your own works wherever a name does.
SOURCES: dict[str, tuple[str, str]] = {
    "ImageFolder": ("logit_correction.data.own.ImageFolder", "your own images: a folder per label"),
    "Table": ("logit_correction.data.own.Table", "your own CSV or Parquet file: texts, image files or feature columns"),
    "Digits": ("logit_correction.data.digits.Digits", "1,797 real 8x8 digits, coloured; embedded, no download"),
    "Arrays": ("logit_correction.data.own.Arrays", "arrays from Python, as `from_arrays` saved them"),
    **_INSTALLED,
}


def resolve_source(data: Any) -> Any:
    """Return the choice of a folder or a file as that of the source that reads it; other choices as they are.

    Args:
        data: A name or a path, or a mapping with one under ``name``, and options.

    Raises:
        InputError: If it is neither a path that exists nor like the name of a source.
    """
    options = dict(data) if isinstance(data, dict) else {"name": data}
    place = options.pop("name", None)
    if not isinstance(place, str) or place in SOURCES:
        return data
    path = Path(place).expanduser()
    if path.is_dir():
        return {"name": "ImageFolder", "root": str(path), **options}
    if path.exists():
        return {"name": "Table", "file": str(path), **options}
    module, dot, _ = place.partition(".")
    is_dotted_path = bool(dot) and module.isidentifier() and find_spec(module) is not None
    if is_dotted_path or place.lower() in map(str.lower, SOURCES):
        return data  # its class is found, or its spelling corrected, where the source is made
    # Next to `nofile.csv`, `wine.csv` is like it by its ending alone.
    alike = [
        other.name
        for other in path.parent.glob("*")
        if other.stem == path.stem or suggest_name(path.stem, [other.stem])
    ]
    hint = suggest_name(path.name, alike, lambda name: str(path.parent / name)) or suggest_name(place, SOURCES)
    laboratory = f". Published and planted data come with the laboratory: {format_laboratory_install_command()}"
    raise InputError(
        f"{format_option('data', place)} is not a folder, file or data source{hint}: give a folder of images, a CSV or "
        "Parquet file, or a name that `logit-correction list data` shows"
        f"{'' if _INSTALLED else laboratory}"
    )
