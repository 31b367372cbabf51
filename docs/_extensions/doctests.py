"""Shows the doctests of docstrings as code on the site, where bare prompts would become quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

#: Lines from a first prompt to the next blank line.
EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences every doctest of every docstring."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Take in one object."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
