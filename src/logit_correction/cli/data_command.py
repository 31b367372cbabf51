"""``logit-correction data preview NAME``: a contact sheet of a data source, label by attribute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from logit_correction.cli.arguments import Parser
from logit_correction.cli.words import read_words
from logit_correction.config import ComponentConfig
from logit_correction.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from logit_correction.data.reader import DataSource
    from logit_correction.data.table import DataTable

#: Labels and attributes beyond so many are left out of the sheet.
LIMIT = 40


def main(arguments: list[str]) -> int:
    """Write the sheet and say what it shows."""
    parser = Parser("data", "Look at a data source before training: a contact sheet, label by attribute, as PNG.")
    parser.add_argument("action", choices=["preview"], metavar="preview", help="write a contact sheet")
    parser.add_argument(
        "name", metavar="NAME", help="data source, as `logit-correction list data` names it, or a folder"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.png", help="image to write")
    parser.add_argument("--rows", type=int, default=2, metavar="N", help="images of each group; 2 by default")
    parser.add_argument(
        "--split", choices=["train", "valid", "test"], default="test", help="whose images; test by default"
    )
    parser.epilog = "Options of the source are given as --data.NAME VALUE, as to `train`."
    options, rest = parser.parse_known_args(arguments)
    if not 1 <= options.rows <= 20:
        raise InputError(f"--rows is {options.rows}, but must be 1 to 20")
    from logit_correction.runs.folder import check_parent

    check_parent(options.out)
    table = _source(options.name, rest).build()
    sheet = _sheet(table, options.split, options.rows)
    from logit_correction.files import replacing

    with replacing(options.out) as temporary:
        sheet.save(temporary, "PNG", optimize=True)
    print(f"{options.out}: {options.split} images of {options.name}, label by attribute")
    return 0


def _source(name: str, rest: list[str]) -> DataSource:
    """Build the source with the options of the command line.

    Raises:
        InputError: If an option is unknown or has a wrong value.
    """
    from logit_correction.data import source_of_place
    from logit_correction.runs.parts import checked

    where = f" of `data preview {name}`: its options are given as --data.NAME VALUE"
    words = read_words(rest, where=where)
    for option in words:
        if option != "data" or not isinstance(words[option], dict):
            raise InputError(f"there is no option --{option}{where}")
    chosen = source_of_place({"name": name} | words.get("data", {}))
    source: DataSource = checked("data", ComponentConfig(chosen.pop("name"), chosen)).make()
    return source


def _sheet(table: DataTable, split: str, per_cell: int) -> Any:
    """Draw the first images of each group, or of each label where attributes are unknown.

    Raises:
        InputError: If the inputs are no images, or the split is empty.
    """
    from logit_correction.pages.images import contact_sheet

    rows = table.split[split]
    if len(rows) == 0 or table.inputs.images(rows[:1]) is None:
        what = "has no rows" if len(rows) == 0 else "holds no images, so there is nothing to look at"
        raise InputError(f"the {split} split {what}: take another split or source")
    labels = list(table.label_names)[:LIMIT]
    of_label = [rows[table.label[rows] == y] for y in range(len(labels))]
    if table.has_attributes(split):
        columns = list(table.attribute_names)[:LIMIT]
        groups = [[mine[table.attribute[mine] == a][:per_cell] for a in range(len(columns))] for mine in of_label]
    else:
        columns = [""] * 8
        groups = [[mine[i * per_cell : (i + 1) * per_cell] for i in range(len(columns))] for mine in of_label]
    cells = [[_images(table, group) for group in groups_of_label] for groups_of_label in groups]
    return contact_sheet(cells, labels, columns, per_cell)


def _images(table: DataTable, rows: Tensor) -> Tensor:
    found = table.inputs.images(rows)
    assert found is not None  # the caller has looked
    return found
