"""What a person has said of the rows of a sheet, and what it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from logit_correction.auditing.budget import Population, group_accuracies
from logit_correction.auditing.cost import WHO
from logit_correction.data.frames import check_columns, read_frame, texts_of
from logit_correction.errors import InputError
from logit_correction.sentences import of_person


def read_labels(frame: pd.DataFrame, file: Path, label_names: Sequence[str], seed: int, who: str) -> dict[str, Any]:
    """Return what the answers of a person come to.

    Where all answers are names of labels, a row conflicts if it is told to look like another label than its own. Of
    names of the person's own, such as backgrounds, the commonest of each label is what goes with it, each row weighted
    by rows over answers of its stratum.

    Args:
        frame: The rows of the audit.
        file: The sheet, its column ``attribute`` filled in; rows left empty are left out.
        label_names: L names.
        seed: Of the intervals.
        who: What the classifier is called.

    Returns:
        For each classifier that judged some of the rows the accuracy on agreeing and on conflicting rows with
        intervals, whether these confirm a shortcut, and a sentence.

    Raises:
        InputError: If the sheet tells of other rows, or too few rows are filled in.
    """
    told = _told(file)
    population = Population.of(frame, label_names)
    places = _places(population, told["row"])
    if (places < 0).any():
        unknown = told["row"][places < 0].iloc[0]
        raise InputError(f"{file}: row {unknown} is none that the audit asked about: give the sheet that it wrote")
    conflicts = _conflicts(population, places, told["attribute"].to_numpy(dtype=object), label_names)
    found: dict[str, Any] = {"file": str(file)}
    for asked in WHO:
        if f"{asked}_label" not in frame or not frame[f"{asked}_label"].notna().any():
            continue
        population = Population.of(frame, label_names, asked)
        places = _places(population, told["row"])
        judged = places >= 0  # of many rows LC judges a part
        if not judged.any():
            continue
        figures = group_accuracies(population, places[judged], conflicts[judged], seed)
        for group in figures["groups"]:
            group["label"] = None if group["label"] is None else str(label_names[group["label"]])
        found[asked] = figures
    agreeing, conflicting = found["network"]["groups"][:2]
    confirmed = None  # whether the classifier fails where label and attribute disagree
    if conflicting["accuracy"] is not None and agreeing["accuracy"] is not None:
        fails, holds = conflicting["high"] < agreeing["low"], conflicting["low"] >= agreeing["low"]
        confirmed = True if fails else False if holds else None
    return found | {"confirmed": confirmed, "sentence": of_person(found["network"], who)}


def filled_in(file: Path) -> bool:
    """Return whether a person has named the attribute of any row of a sheet.

    Raises:
        InputError: If it is no such sheet.
    """
    return not _answers(file).empty


def _answers(file: Path) -> pd.DataFrame:
    """Return the rows of a sheet that are filled in."""
    answers = read_frame(file)
    check_columns(answers, str(file), ("row", "attribute"))
    told = pd.DataFrame({"row": texts_of(answers, "row"), "attribute": texts_of(answers, "attribute")}).dropna()
    return told[told["attribute"].str.strip() != ""]


def _told(file: Path) -> pd.DataFrame:
    """Return the rows of a sheet that are filled in, of which there are enough and none stands twice."""
    told = _answers(file)
    if told["row"].duplicated().any():
        raise InputError(f"{file}: row {told['row'][told['row'].duplicated()].iloc[0]} stands there more than once")
    if len(told) < 2:
        raise InputError(f"{file}: fill in the column attribute of at least two rows")
    return told


def _places(population: Population, rows: pd.Series) -> NDArray[np.int64]:
    """Return where the rows of the sheet stand in the population, -1 for rows that do not."""
    return pd.Index(population.row.astype(str)).get_indexer(pd.Index(rows)).astype(np.int64)


def _conflicts(
    population: Population, places: NDArray[np.int64], answers: NDArray[Any], label_names: Sequence[str]
) -> NDArray[np.bool_]:
    """Return which of the rows conflict."""
    labels = np.asarray(label_names, dtype=object)[population.label[places]]
    if set(answers) <= set(label_names):
        return np.asarray(answers != labels, dtype=bool)
    asked = np.bincount(population.stratum[places], minlength=len(population.sizes))
    weight = (population.sizes / asked.clip(1))[population.stratum[places]]
    told = pd.DataFrame({"label": labels, "answer": answers, "weight": weight})
    counts = told.pivot_table(index="label", columns="answer", values="weight", aggfunc="sum", fill_value=0)
    return np.asarray(counts.idxmax(axis=1).loc[labels].to_numpy() != answers, dtype=bool)
