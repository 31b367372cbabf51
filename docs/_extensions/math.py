"""Formulas: blocks between lines of ``$$`` become MathML, which browsers draw without a script from another host."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

BLOCK = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with its formulas as MathML; a hook of MkDocs."""
    return BLOCK.sub(lambda found: f'<div class="formula">{convert(found[1], display="block")}</div>', markdown)
