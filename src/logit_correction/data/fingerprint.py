"""Whether data that are read again are those that a run was trained on."""

from __future__ import annotations

from logit_correction.data.cache import digest
from logit_correction.data.table import DataTable


def fingerprint(table: DataTable) -> str:
    """Return a name of 32 hexadecimal digits for the labels of all rows, in their order, and for the splits.

    Inputs and attributes take no part: to read them all would cost as much as an epoch.
    """
    parts: list[str | bytes] = [*map(str, table.label_names), table.label.cpu().numpy().tobytes()]
    for name, rows in sorted(table.split.items()):
        parts += [name, rows.cpu().numpy().tobytes()]
    return digest(parts)
