"""The form in an audit's page in which a person labels new rows, without a server and without a network.

A sheet of rows to label is a CSV file whose column ``answer`` a person fills in. Typing labels into a spreadsheet while
the pictures stand elsewhere is slow and error-prone, so the page shows one row at a time, takes keys, clicks or
touches, and saves the same CSV file. The rows are ordinary HTML, which is what remains on paper and where scripts are
off.

The script is a constant file. The page's content security policy admits it by its hash and nothing else, so text from
the data cannot run even if it were not escaped.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from logit_correction.pages.page import render_template
from logit_correction.spreadsheets import format_spreadsheet_rows

SCRIPT = (Path(__file__).parent / "answering.js").read_text(encoding="utf-8")

#: The file that the browser saves, as an audit calls it.
SHEET = "sheet.csv"

#: What the content security policy of a page must list for the script to run.
SCRIPT_HASH = "sha256-" + base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()


@dataclass(frozen=True)
class RowToLabel:
    """A row whose label a person is asked for.

    Attributes:
        name: File, line or number of the row.
        cells: The row's line of the sheet without the answer, which is the last cell: it ends with a comma.
        image: Picture of the row as a data URI.
        text: Content of a row of text.
        fields: Name and value of each column of a table's row.
    """

    name: str
    cells: str
    image: str | None = None
    text: str | None = None
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class OpenSheet:
    """The rows of a sheet that have no answer yet, in its order.

    Attributes:
        heading: First line of the sheet, without the line break.
        rows: The rows.
    """

    heading: str
    rows: Sequence[RowToLabel]


def build_answering_form(sheet: OpenSheet, label_names: Sequence[str]) -> dict[str, Any]:
    """Build what the template ``answering.html.j2`` needs as its variable ``answering``.

    Args:
        sheet: The rows to label.
        label_names: Names of the labels.
    """
    from markupsafe import Markup

    cells = format_spreadsheet_rows(pd.DataFrame({"label": list(label_names)}))[1:]
    content = {
        "file": SHEET,
        "heading": sheet.heading,
        "labels": [{"name": name, "cell": cell} for name, cell in zip(label_names, cells, strict=True)],
        "rows": [{"name": row.name, "cells": row.cells} for row in sheet.rows],
    }
    # Answers that the browser keeps belong to this sheet alone.
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    # Within a script element only `<` can end the element or open a comment.
    data = json.dumps({**content, "key": f"answers-{digest[:16]}"}).replace("<", "\\u003c")
    return {
        "rows": sheet.rows,
        "file": SHEET,
        "data": Markup(data),
        "script": Markup(SCRIPT),
        "script_hash": SCRIPT_HASH,
    }


class LabelSheet(pd.DataFrame):
    """A sheet of rows to label, which a notebook shows as the form; whatever is computed from it is an ordinary frame.

    Attributes:
        page: The form as a page of its own.
    """

    _metadata: ClassVar[list[str]] = ["page"]  # pandas otherwise takes new attributes for columns

    page: str

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, sheet: OpenSheet, label_names: Sequence[str]) -> LabelSheet:
        """Return a sheet with its form.

        Args:
            frame: The sheet with its column ``answer``.
            sheet: The same rows, as the form shows them.
            label_names: Names of the labels.
        """
        labelled = cls(frame)
        form = build_answering_form(sheet, label_names)
        labelled.page = render_template("sheet.html.j2", title="Rows to label", answering=form)
        return labelled

    def _repr_html_(self) -> str:
        from markupsafe import escape

        attributes = 'sandbox="allow-scripts allow-downloads" style="width: 100%; height: 46rem; border: 0"'
        return f'<iframe title="Rows to label" {attributes} srcdoc="{escape(self.page)}"></iframe>'
