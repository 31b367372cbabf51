"""Whether data that are read again are those of a run: else rows may be judged that were trained on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from logit_correction.attributes.auto import Auto
from logit_correction.data.table import DataTable, fingerprint
from logit_correction.errors import InputError
from logit_correction.methods.base import Algorithm
from logit_correction.runs.folder import read_report


def check_same_data(report: Mapping[str, Any], table: DataTable, run: Path, hint: str) -> None:
    """Return if data that were read again are those that a run was trained on; of older runs nobody can tell.

    Args:
        report: The run's ``report.json``.
        table: The data.
        run: The run's folder.
        hint: What to do if not.

    Raises:
        InputError: If they have other rows, labels or splits, so that rows to judge may have been trained on.
    """
    if report["data"].get("fingerprint") not in (None, fingerprint(table)):
        raise InputError(
            f"the data are not those that {run} was trained on: there are other rows, labels or splits; put the former "
            f"data back, or {hint}"
        )


def check_examined(algorithm: Algorithm, table: DataTable) -> None:
    """Return if the run that ``Auto`` is to examine, if any, was trained on these data.

    Raises:
        InputError: Otherwise; its network may have been trained on the validation rows.
    """
    estimator = algorithm.attributes
    if isinstance(estimator, Auto) and estimator.run is not None:
        run = Path(estimator.run)
        check_same_data(read_report(run), table, run, "give its answers for these data by `--predictions`")
