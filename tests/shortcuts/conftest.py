"""Audits that several modules look at: of a table with names that are formulas, and with new rows that differ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from logit_correction import Audit, audit
from logit_correction.shortcuts import candidates

LABELS = ("=<b>no</b>", "yes")

#: Options of audits of the two tables below.
SHORT: dict[str, Any] = {"label": "outcome", "epochs": 5, "threads": 1}


def draw_patients(rows: int, seed: int, bias: float) -> pd.DataFrame:
    """Patients: the blood tells something of the outcome, the scanner what ``bias`` says."""
    draw = np.random.default_rng(seed)
    ill = draw.integers(2, size=rows)
    scanner = np.where(draw.random(rows) < bias, ill, 1 - ill)
    frame = pd.DataFrame({"age": draw.normal(50, 9, rows).round(2), "blood": draw.normal(2.2 * ill, 1).round(3)})
    return frame.assign(scanner=np.array(["new", "old"])[scanner], outcome=np.where(ill, "ill", "well"))


TRAINING_FRAME = draw_patients(600, 0, 0.94)
SHIFTED_FRAME = draw_patients(300, 1, 0.5)


def build_formula_table_config(folder: Path) -> dict[str, object]:
    """The table of the audit ``formula_audit``, in the folder of that."""
    return {"name": "Table", "file": str(folder / "rows.csv"), "label": "label", "features": ["scanner", "age"]}


@pytest.fixture(scope="session")
def formula_audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """An audit of a table whose label is a formula to a spreadsheet, as are the names of its scanners."""
    folder = tmp_path_factory.mktemp("audit")
    draw = np.random.default_rng(0)
    label = np.asarray(LABELS)[np.arange(420) % 2]
    indicated_label = np.where(draw.random(420) < 0.92, label, np.roll(label, 1))
    scanner = np.where(indicated_label == "yes", "@one", "+two")
    age = (40 + 10 * (label == "yes") + draw.normal(0, 20, 420)).round(4)
    pd.DataFrame({"scanner": scanner, "age": age, "label": label}).to_csv(folder / "rows.csv", index=False)
    return audit(build_formula_table_config(folder), folder / "out", shortcut=["column:scanner"], epochs=3, threads=1)


@contextmanager
def use_online_candidates_only() -> Iterator[None]:
    """Candidates by one estimator: the others only take time here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "ESTIMATORS", {"Online": candidates.ESTIMATORS["Online"]})
        yield


@pytest.fixture(autouse=True, scope="module")
def limit_candidates() -> Iterator[None]:
    with use_online_candidates_only():
        yield


@pytest.fixture(scope="session")
def shifted_audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """An audit whose new rows have no labels, and whose columns have another order."""
    new = SHIFTED_FRAME.drop(columns="outcome")[["scanner", "blood", "age"]]
    with use_online_candidates_only():
        return audit(TRAINING_FRAME, tmp_path_factory.mktemp("changed") / "out", new_rows=new, **SHORT)


def get_predictions(rows: pd.DataFrame) -> np.ndarray:
    """What each candidate says of each new row, by the table of an audit."""
    return np.stack([rows[name].to_numpy() for name in rows if name.startswith("prediction_")])


def fill_sheet(audit_with_sheet: Audit) -> pd.DataFrame:
    """The sheet of ``shifted_audit``, every row answered rightly."""
    sheet = pd.read_csv(audit_with_sheet.path / "sheet.csv", dtype={"answer": object})
    return sheet.assign(answer=SHIFTED_FRAME["outcome"][sheet["row"]].to_numpy())
