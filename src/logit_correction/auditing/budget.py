"""A label budget: which few rows a person looks at to know the accuracy on conflicting rows, and what they tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from logit_correction.attributes.evidence import CONFIDENCE
from logit_correction.auditing.cost import WHO
from logit_correction.auditing.rows import CONTENT
from logit_correction.data.frames import check_columns, read_frame, texts_of
from logit_correction.errors import InputError
from logit_correction.files import read_cells
from logit_correction.sentences import of_person

#: Where the estimated probability of a conflict is cut into strata, and draws from the posterior of their shares.
CUTS, DRAWS = (0.02, 0.1, 0.5, 0.9), 4000

#: What the audit believes may be wrong: a share counts as no closer to 0 and 1 than this, and the answers of a stratum
#: as having at least this variance.
LEAST_SHARE, LEAST_VARIANCE = 0.05, 0.02


@dataclass(frozen=True)
class Population:
    """The n rows whose group accuracies are asked for: those that the ordinary classifier was asked about."""

    row: NDArray[np.int64]
    label: NDArray[np.int64]
    right: NDArray[np.bool_]  # whether the classifier is
    score: NDArray[np.float64]  # how likely a row conflicts
    num_labels: int  # some may have no row here

    @classmethod
    def of(cls, frame: pd.DataFrame, label_names: Sequence[str], who: str = "network") -> Population:
        """Return the population of an audit's rows."""
        asked = frame[frame[f"{who}_label"].notna()]
        label = pd.Categorical(asked["label"], categories=list(label_names)).codes.astype(np.int64)
        right = (asked[f"{who}_label"] == asked["label"]).to_numpy(dtype=bool)
        score = asked["score"].fillna(0.5).to_numpy(dtype=np.float64)
        return cls(asked["row"].to_numpy(dtype=np.int64), label, right, score, len(label_names))

    @cached_property
    def stratum(self) -> NDArray[np.int64]:
        """(n,) right or wrong by score, numbered."""
        part = np.searchsorted(CUTS, self.score, side="right")
        return np.unique(self.right * (len(CUTS) + 1) + part, return_inverse=True)[1].astype(np.int64)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows of each stratum."""
        return np.bincount(self.stratum)

    def places(self, rows: pd.Series) -> NDArray[np.int64]:
        """Return where rows stand, -1 for those that do not."""
        return pd.Index(self.row.astype(str)).get_indexer(pd.Index(rows)).astype(np.int64)


def allocation(population: Population, budget: int) -> NDArray[np.int64]:
    """Return how many rows of each stratum a person is asked about: at least two, and at most all.

    In proportion to size times the expected spread of the answers (Neyman), so that strata of which the audit is sure
    take few: one row after the other goes where it lowers the variance of the total most.
    """
    sizes = population.sizes
    share = np.bincount(population.stratum, weights=population.score) / sizes
    spread = sizes * np.sqrt((share * (1 - share)).clip(LEAST_VARIANCE))
    given = np.minimum(sizes, 2)
    while given.sum() < budget and (given < sizes).any():
        gain = np.where(given < sizes, spread / np.sqrt(given * (given + 1.0)), -1.0)
        given[gain.argmax()] += 1
    return given


def drawn(population: Population, given: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Return places of rows drawn at random without replacement, so many of each stratum."""
    order = generator.permutation(len(population.row))
    rank = pd.Series(population.stratum[order]).groupby(population.stratum[order]).cumcount().to_numpy()
    return np.asarray(order[rank < given[population.stratum[order]]])


def sheet(frame: pd.DataFrame, label_names: Sequence[str], budget: int, seed: int) -> pd.DataFrame:
    """Return rows of an audit that a person should look at, with an empty column ``attribute`` to fill in.

    There are as many as the budget says, but at least two of each stratum. What the audit estimates is not among the
    columns, so that it sways nobody.
    """
    population = Population.of(frame, label_names)
    places = drawn(population, allocation(population, budget), np.random.default_rng(seed))
    asked = frame[frame["row"].isin(population.row[places])].assign(attribute="").sort_values("row", kind="stable")
    told = CONTENT if CONTENT in asked else "name"  # a text's name is how it begins
    return asked[[name for name in ("row", "line", "path", told, "label", "attribute") if name in asked]]


def group_accuracies(
    population: Population, places: NDArray[np.int64], conflicts: NDArray[np.bool_], seed: int = 0
) -> dict[str, Any]:
    """Return the accuracy on agreeing and on conflicting rows, of all labels and of each, with intervals of 90 %.

    The classifier's answer is known for every row and only who conflicts is not, so what is estimated is the share of
    conflicting rows of each stratum, and for the figures of a label that of the label's own rows in each. The estimate
    weights each row by rows over answers (Horvitz-Thompson); where there is no answer it is what the audit believed.
    The interval comes from the posterior of these shares, with what the audit believed as the weight of one row, and
    counts the rows that were looked at as known. A person looked at ``places`` (m,), of which ``conflicts`` (m,) do.
    """
    right = population.right[np.unique(population.stratum, return_index=True)[1]]  # the same in all of a stratum
    generator, groups = np.random.default_rng(seed), []

    def counts(chosen: NDArray[Any], weight: NDArray[Any] | None = None) -> NDArray[Any]:
        return np.bincount(population.stratum[chosen], weight, minlength=len(population.sizes))

    for label in (None, *range(population.num_labels)):
        own = np.ones(len(population.row), dtype=bool) if label is None else population.label == label
        size, believed = counts(own), counts(own, population.score[own])
        mine = own[places]
        asked, found = (counts(places[chosen]) for chosen in (mine, mine & conflicts))
        share = believed / size.clip(1)
        rows = size * np.where(asked > 0, found / asked.clip(1), share)
        prior = share.clip(LEAST_SHARE, 1 - LEAST_SHARE)
        posterior = generator.beta(found + prior, asked - found + 1 - prior, size=(DRAWS, len(size)))
        drawn_rows = found + generator.binomial(size - asked, posterior)
        groups.append({"label": label, "conflicting": False, **_accuracy(size - rows, size - drawn_rows, right)})
        groups.append({"label": label, "conflicting": True, **_accuracy(rows, drawn_rows, right)})
    return {"groups": groups, "looked_at": len(places)}


def _accuracy(rows: NDArray[Any], drawn_rows: NDArray[Any], right: NDArray[np.bool_]) -> dict[str, Any]:
    """The accuracy on a group of which each stratum holds so many rows (S,), its interval by draws (D, S)."""
    total, size = drawn_rows.sum(1), float(rows.sum())
    some = total > 0
    accuracy = drawn_rows[some][:, right].sum(1) / total[some]
    low, high = np.quantile(accuracy, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]) if some.any() else (0.0, 1.0)
    value = float(rows[right].sum()) / size if size > 0 else None
    return {"rows": size, "accuracy": value, "low": float(low), "high": float(high)}


def answers_of_sheet(file: Path) -> pd.DataFrame:
    """Return row and attribute of the rows of a sheet that are filled in; ``InputError`` if it is no such sheet."""
    answers = read_cells(read_frame(file))
    check_columns(answers, str(file), ("row", "attribute"))
    told = pd.DataFrame({name: texts_of(answers, name) for name in ("row", "attribute")}).dropna()
    return told[told["attribute"].str.strip() != ""]


def judge_by_person(frame: pd.DataFrame, file: Path, label_names: Sequence[str], seed: int, who: str) -> dict[str, Any]:
    """Return what a filled-in sheet comes to: accuracies of each classifier, whether it confirms a shortcut.

    Raise ``InputError`` if it tells of other rows than ``frame``, or too few rows are filled in.
    """
    told = answers_of_sheet(file)
    if len(told) < 2:
        raise InputError(f"{file}: fill in the column attribute of at least two rows")
    population = Population.of(frame, label_names)
    places = population.places(told["row"])
    bad = told["row"][(places < 0) | told["row"].duplicated()]
    if len(bad):
        raise InputError(f"{file}: row {bad.iloc[0]} is there twice or is not in the audit: give the sheet it wrote")
    conflicts = _conflicts(population, places, told["attribute"].to_numpy(dtype=object), label_names)
    found: dict[str, Any] = {"file": str(file)}
    for asked in (one for one in WHO if f"{one}_label" in frame):
        population = Population.of(frame, label_names, asked)
        places = population.places(told["row"])
        judged = places >= 0  # of many rows LC judges a part
        if judged.any():
            found[asked] = group_accuracies(population, places[judged], conflicts[judged], seed)
            for group in found[asked]["groups"]:
                group["label"] = None if group["label"] is None else str(label_names[group["label"]])
    agreeing, conflicting = found["network"]["groups"][:2]
    confirmed = None  # whether the classifier fails where label and attribute disagree
    if conflicting["accuracy"] is not None and agreeing["accuracy"] is not None:
        below, above = conflicting["high"] < agreeing["low"], conflicting["low"] >= agreeing["low"]
        confirmed = below if below or above else None
    return found | {"confirmed": confirmed, "sentence": of_person(found["network"], who)}


def _conflicts(
    population: Population, places: NDArray[np.int64], answers: NDArray[Any], label_names: Sequence[str]
) -> NDArray[np.bool_]:
    """Return which of the rows conflict.

    Where all answers are names of labels, a row conflicts if it is told to look like another label than its own. Of
    names of the person's own, such as backgrounds, the commonest of each label is what goes with it, each row weighted
    by rows over answers of its stratum.
    """
    labels = np.asarray(label_names, dtype=object)[population.label[places]]
    if set(answers) <= set(label_names):
        return np.asarray(answers != labels, dtype=bool)
    asked = np.bincount(population.stratum[places], minlength=len(population.sizes))
    weight = (population.sizes / asked.clip(1))[population.stratum[places]]
    told = pd.DataFrame({"label": labels, "answer": answers, "weight": weight})
    counts = told.pivot_table(index="label", columns="answer", values="weight", aggfunc="sum", fill_value=0)
    return np.asarray(counts.idxmax(axis=1).loc[labels].to_numpy() != answers, dtype=bool)
