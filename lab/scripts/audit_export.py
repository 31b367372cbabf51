"""The training rows of the planted sets and their controls as plain files, for tools that know nothing of this package.

    python lab/scripts/audit_export.py --out planted-export [--sets cast column ...]

A folder a set, ``SET`` or ``SET-control``: images as ``LABEL/ROW.png``, texts and tables as ``rows.csv`` with a column
``label``; ``about.json`` says which. Attributes are never written. Besides, ``photos-four-fifths``: photos in which
nothing is planted and four fifths of the rows bear the first label. What is there already is not written again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path

from logit_correction.data.table import DataTable
from logit_correction_lab.sources.planted import Planted

SETS = ("cast", "corner", "frame", "blur", "noise", "jpeg", "texture", "light", "digits", "mnist", "signature", "topic",
        "column", "scanner")  # fmt: skip

#: An imbalanced set in which nothing is planted, made of the set ``photos``.
IMBALANCED = "photos-four-fifths"


def kind_of(table: DataTable) -> str:
    """Return ``images``, ``texts`` or ``table``."""
    if table.texts is not None:
        return "texts"
    return "table" if table.columns else "images"


def export(table: DataTable, folder: Path, rows: list[int] | None = None) -> None:
    """Write inputs and labels of the training rows, or of ``rows`` of them, into the new ``folder``."""
    taken = table.split["train"] if rows is None else table.split["train"][rows]
    label, kind = [table.label_names[y] for y in table.label[taken].tolist()], kind_of(table)
    part = folder.with_name(f".{folder.name}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    if kind == "images":
        from PIL import Image

        images = table.inputs.images(taken)
        assert images is not None
        for name in set(label):
            (part / name).mkdir()
        for row, (name, image) in enumerate(zip(label, images, strict=True)):
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(part / name / f"{row:05}.png")
    else:
        import pandas as pd

        columns = {"text": table.texts} if table.texts is not None else table.columns
        frame = pd.DataFrame({name: [values[row] for row in taken.tolist()] for name, values in columns.items()})
        frame.assign(label=label).to_csv(part / "rows.csv", index=False)
    about = {"kind": kind, "rows": len(label), "labels": {name: label.count(name) for name in table.label_names}}
    (part / "about.json").write_text(json.dumps(about) + "\n")
    os.replace(part, folder)


def imbalanced_rows(label: list[int], share: float = 0.8) -> list[int]:
    """Return all rows of label 0, and the first of each other label, so that label 0 has ``share`` of the rows."""
    first = [row for row, y in enumerate(label) if y == 0]
    others = sorted(set(label) - {0})
    each = round(len(first) * (1 - share) / share / len(others))
    return sorted(first + [row for y in others for row in [row for row, z in enumerate(label) if z == y][:each]])


def main() -> None:
    """Write what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=(*SETS, IMBALANCED), default=(*SETS, IMBALANCED))
    options = parser.parse_args()
    for name in options.sets:
        for control in (False, True) if name != IMBALANCED else (False,):
            folder = options.out / f"{name}{'-control' if control else ''}"
            if folder.is_dir():
                continue
            if name == IMBALANCED:
                table = Planted(set="photos", seed=0).build()
                export(table, folder, imbalanced_rows(table.label[table.split["train"]].tolist()))
            else:
                export(Planted(set=name, control=control, seed=0).build(), folder)
            print(folder, flush=True)


if __name__ == "__main__":
    main()
