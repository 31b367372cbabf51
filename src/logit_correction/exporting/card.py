"""The model card: what the model is, how well it does group by group, and which labels were read for that."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from logit_correction.errors import format_percent
from logit_correction.pages.compare import names_attributes, sides
from logit_correction.sentences import answer, describe_selection

#: Kind of input -> task, and what ``load(...).predict`` takes.
_KINDS = {
    "images": ("image-classification", "a list of image files, or bytes of shape (n, channels, height, width)"),
    "columns": ("tabular-classification", "a data frame with the columns of training"),
    "numbers": ("tabular-classification", "an array of numbers, a row each"),
    "words": ("text-classification", "a list of texts"),
    "tokens": ("text-classification", "a list of texts"),
}


def model_card(report: Mapping[str, Any], kind: str) -> str:
    """Return the model card as Markdown, YAML in front; all text of users is escaped.

    Args:
        report: Content of ``report.json``.
        kind: What a row is, such as ``images``.
    """
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    def written(value: Any) -> Markup:
        return value if isinstance(value, Markup) else Markup(markdown(value))

    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, finalize=written, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"percent": format_percent, "count": "{:,}".format, "join": lambda parts, by: by.join(parts)}
    environment.globals |= {"sides": sides, "answer": answer, "selection": describe_selection}
    (task, rows), test = _KINDS[kind], report["test"]
    template = environment.get_template("card.md.j2")
    return template.render(report=report, test=test, named=names_attributes(test), task=task, rows=rows).lstrip() + "\n"


def markdown(text: Any) -> str:
    r"""Return a text so that Markdown and HTML show it as it is, on one line and in a table too.

    >>> markdown("a|b <img src=x> [c](d)\n# e")
    'a\\|b &lt;img src=x&gt; \\[c\\]\\(d\\) \\# e'
    """
    line = html.escape(" ".join(str(text).split()), quote=False)
    return re.sub(r"([\\`*_\[\]()#|~$!{}])", r"\\\1", line)
