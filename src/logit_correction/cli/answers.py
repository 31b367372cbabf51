"""What `predict` writes: the answers of a run to new rows, as lines of a CSV."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

from logit_correction.data.frames import what_rows_are
from logit_correction.data.rows import Problems, Rows
from logit_correction.errors import InputWarning
from logit_correction.files import as_cell, printable
from logit_correction.runs.run import Run


def answer_lines(run: Run, rows: Iterable[Rows], several: bool = False) -> Iterator[list[list[str]]]:
    """Yield what a run says of new rows as lines of a CSV, its header first, a few at a time.

    A row that cannot be read has empty cells and is told of at the end. With ``several`` names hold the file too.
    """
    labels, waiting, bad, good = list(map(as_cell, run.label_names)), list[list[str]](), list[Problems](), 0
    for part, store, forms in run.source.read(rows, run.inputs_info, bad_too=True):
        key, names = what_rows_are(part.numbers), [str(number) for number in part.numbers]
        if "files" in forms:
            key, names = "path", [printable(path) for path in forms["files"]]
        if not good and not waiting:
            waiting = [[key, "label", *(f"probability_{name}" for name in run.label_names)]]
        if several and key != "path":
            names = [f"{part.place}:{name}" for name in names]
        names = [as_cell(name) for name in names]
        for row, (name, probability) in enumerate(zip(names, run.probabilities_of(store), strict=True)):
            if row in part.problems.of_row:
                waiting.append([name, *[""] * (1 + len(labels))])
            else:
                waiting.append([name, labels[int(probability.argmax())], *(f"{value:.6g}" for value in probability)])
        bad += [part.problems] if part.problems else []
        good += int(part.problems.good.sum())
        if good:  # else nothing may come of it
            yield waiting
            waiting = []
    if bad and not good:
        bad[0].raise_if_any()
    if bad:
        count = sum(map(len, bad))
        what = "1 row has no answer" if count == 1 else f"{count:,} rows have no answer"
        told = "; ".join(f"{one.place}: {one}" for one in bad[:3])
        warnings.warn(f"{what}: {told}{'; and more' if len(bad) > 3 else ''}", InputWarning, stacklevel=2)
