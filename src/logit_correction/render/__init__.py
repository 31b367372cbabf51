"""Tables, figures and the report page; everything here is made from run folders, without a model."""

from __future__ import annotations

from logit_correction.render.html import write_page
from logit_correction.render.tables import comparison_table, to_console, to_markdown

__all__ = ["comparison_table", "to_console", "to_markdown", "write_page"]
