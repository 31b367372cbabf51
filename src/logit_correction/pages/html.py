"""The report page: one HTML file that holds everything and loads nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from logit_correction.errors import InputError, format_percent
from logit_correction.files import NoRoom, write_text
from logit_correction.pages import plots as style
from logit_correction.pages import sections
from logit_correction.pages.comparison import compare, describe
from logit_correction.pages.folder import RunFolder

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

_TEMPLATE = "page.html.j2"

#: Which colours of a figure follow the page's theme.
_THEME = {
    style.INK: "var(--ink)",
    style.MUTED: "var(--muted)",
    style.RULE: "var(--rule)",
    style.PAPER: "var(--paper)",
    style.EMPTY: "var(--empty)",
}


def write_page(run_folders: Sequence[Path | str], out: Path | str) -> None:
    """Write one self-contained page that compares runs.

    Only files of the run folders are read. The page is complete or absent: where something fails, an older
    page at ``out`` stays as it was.

    Args:
        run_folders: Folders of finished runs; runs that differ only by their seed are averaged.
        out: The HTML file to write.

    Raises:
        InputError: A folder holds no finished run, or ``out`` cannot be written.
        NoRoom: The disk is full.
    """
    save_page(render_page(run_folders, out), out)


def save_page(page: str, out: Path | str) -> None:
    """Write a page, complete or not at all: where something fails, an older one stays as it was.

    Raises:
        InputError: ``out`` cannot be written.
        NoRoom: The disk is full.
    """
    try:
        write_text(out, page)
    except NoRoom:
        raise
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror}): choose another place by --out") from error


def render_page(run_folders: Sequence[Path | str], out: Path | str = "report.html") -> str:
    """Return the page as text; ``out`` is only named in the commands that make the page again.

    Raises:
        InputError: No folder is given, or one holds no finished run.
    """
    if not run_folders:
        raise InputError("there is nothing to report: name at least one run folder")
    unique: dict[Path, Path] = {}
    for folder in map(Path, run_folders):
        unique.setdefault(folder.resolve(), folder)
    runs = [RunFolder.read(folder) for folder in unique.values()]
    comparisons = compare(runs)
    return template(_TEMPLATE).render(
        title=describe(comparisons),
        parts=[sections.part(comparison, several=len(comparisons) > 1) for comparison in comparisons],
        commands=_commands(list(unique.values()), out),
        accuracy_colors=style.ACCURACY_COLORS,
        share_colors=style.SHARE_COLORS,
    )


@cache  # reading one takes as long as drawing a figure
def template(name: str) -> Template:
    """Return a template of this folder; what it is given is escaped, and what misses is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": format_percent, "svg": inline_svg}
    return environment.get_template(name)


def inline_svg(svg: str) -> Markup:
    """Return a figure of ours as part of an HTML page: in the page's colours, as wide as its place allows."""
    from markupsafe import Markup

    for color, variable in _THEME.items():
        svg = svg.replace(color, variable)
    opening, rest = svg.split(">", 1)
    width = re.search(r' width="([\d.]+)pt"', opening)
    opening = re.sub(r' (?:xmlns(?::\w+)?|width|height|version)="[^"]*"', "", opening)
    size = float(width[1]) if width else 300
    # The text within was escaped when the figure was drawn.
    return Markup(f'{opening} style="--width: {size:.0f}">{rest}')


def _commands(folders: Sequence[Path], out: Path | str) -> dict[str, list[str]]:
    """The command lines that make the page, and the runs, again."""
    report = shlex.join(["logit-correction", "report", *map(str, folders), "--out", str(out)])
    train = [
        shlex.join(["logit-correction", "train", "--config", str(folder / "config.yaml"), "--out", f"{folder}-again"])
        for folder in folders
    ]
    return {"This page, from the run folders": [report], "The runs": train}
