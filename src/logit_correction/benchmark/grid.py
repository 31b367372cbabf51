"""What a grid of runs is, and reading one from its file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from logit_correction.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from logit_correction.config import RunConfig

#: Where the shipped benchmarks lie.
SHIPPED = "benchmarks"

#: What the file of a benchmark may hold; the first three it must.
KEYS = ("title", "rows", "columns", "common", "seeds", "data_seeds", "metric", "paper")

#: Figures that a table may show.
METRICS = ("average", "group_balanced", "worst_group", "worst_class", "minority", "majority")


@dataclass(frozen=True)
class Benchmark:
    """A grid: every row in every column with every seed.

    Attributes:
        name: Its name.
        title: One line.
        rows: Name -> options of a run, such as ``{"method": {"name": "LC"}}``.
        columns: Name -> options of a run that differ between columns.
        common: Options of every run.
        seeds: Number of seeds, 0..seeds-1.
        data_seeds: Whether the data are drawn anew with each seed too.
        metric: Figure of the table, such as group_balanced.
        paper: Row -> column -> the paper's figure in per cent.
    """

    name: str
    title: str
    rows: dict[str, dict[str, Any]]
    columns: dict[str, dict[str, Any]]
    common: dict[str, Any]
    seeds: int
    data_seeds: bool
    metric: str
    paper: dict[str, dict[str, float]]

    def cells(self, out: Path) -> Iterator[Cell]:
        """Yield the runs, seed by seed, so that a stopped benchmark has whole rows early."""
        for seed in range(self.seeds):
            for column, variant in self.columns.items():
                for row, options in self.rows.items():
                    drawn = {"data": {"seed": seed}} if self.data_seeds else {}
                    merged = merge(merge(merge(self.common, variant), options), {"seed": seed, **drawn})
                    yield Cell(row, column, seed, merged, out / slug(row) / slug(column) / f"seed-{seed}")


@dataclass(frozen=True)
class Cell:
    """One run of a grid."""

    row: str
    column: str
    seed: int
    options: dict[str, Any]
    folder: Path

    def config(self) -> RunConfig:
        """Return the run's complete config.

        Raises:
            InputError: If an option is wrong.
        """
        from logit_correction.config import RunConfig
        from logit_correction.runs.assemble import complete

        try:
            return complete(RunConfig.from_dict(self.options))
        except InputError as error:
            raise InputError(f"row {self.row!r}, column {self.column!r}: {error}") from error


def merge(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``change`` over it, mapping by mapping.

    >>> merge({"data": {"name": "Digits", "severity": 4}}, {"data": {"severity": 1}})
    {'data': {'name': 'Digits', 'severity': 1}}
    """
    merged = dict(base)
    for key, value in change.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def slug(name: str) -> str:
    """Return a name that may be a folder's.

    >>> slug("LC, no MixUp"), slug("0.5 %")
    ('lc-no-mixup', '0.5')
    """
    kept = "".join(c if c.isalnum() or c == "." else "-" for c in name.lower())
    return "-".join(part for part in kept.split("-") if part.strip("."))


def shipped() -> dict[str, str]:
    """Return the shipped benchmarks, name -> title."""
    found = {}
    for path in sorted(package_files("logit_correction").joinpath(SHIPPED).iterdir(), key=lambda p: p.name):
        if path.name.endswith(".yaml"):
            found[path.name.removesuffix(".yaml")] = yaml.safe_load(path.read_text(encoding="utf-8"))["title"]
    return found


def read(name: str, seeds: int | None = None) -> Benchmark:
    """Read a shipped benchmark by name, or any by its file.

    Raises:
        InputError: If there is no such benchmark or the file is not one.
    """
    if Path(name).suffix in (".yaml", ".yml"):
        path: Any = Path(name)
    elif name in shipped():
        path = package_files("logit_correction").joinpath(SHIPPED, f"{name}.yaml")
    else:
        raise InputError(f"benchmark {name!r} is unknown: take one of {', '.join(shipped())}, or a .yaml file")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"benchmark {name} cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"benchmark {name} is not YAML: {' '.join(str(error).split())}") from error
    try:
        _check_content(content)
    except InputError as error:
        raise InputError(f"benchmark {name}: {error}") from error
    return Benchmark(
        name=path.name.rsplit(".", 1)[0],
        title=str(content["title"]),
        rows={str(k): v or {} for k, v in content["rows"].items()},
        columns={str(k): v or {} for k, v in content["columns"].items()},
        common=content.get("common") or {},
        seeds=content.get("seeds", 3) if seeds is None else seeds,
        data_seeds=content.get("data_seeds", False),
        metric=content.get("metric", "group_balanced"),
        paper={str(r): {str(c): v for c, v in cells.items()} for r, cells in (content.get("paper") or {}).items()},
    )


def _check_content(content: Any) -> None:
    if not isinstance(content, dict):
        raise InputError(f"it must hold {', '.join(KEYS[:3])}, and may hold {', '.join(KEYS[3:])}")
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
    metric = content.get("metric", METRICS[0])
    if metric not in METRICS:
        raise InputError(f"metric is {metric!r}, but must be one of {', '.join(METRICS)}")
    paper = content.get("paper") or {}
    if not isinstance(paper, dict) or not all(isinstance(cells, dict) for cells in paper.values()):
        raise InputError("paper must hold rows of figures, such as `LC: {COLUMN: 71.25}`")


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
