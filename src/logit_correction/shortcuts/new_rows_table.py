"""The table of new rows: their labels, what each candidate predicts, and how rows were sampled to be labelled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from logit_correction.pages.compare import format_path
from logit_correction.shortcuts.sampling import compute_answer_weights
from logit_correction.types import Array, Inputs, select_input_rows

#: Column of the stored table that holds the index of a known label, -1 of others.
LABEL = "label_number"

#: Column of the stored table that holds the round in which a row was sampled.
ROUND = "round"

#: Columns by which people recognise a row; a table has those that its data have.
KNOWN_BY = ("line", "path", "content")

#: Column of the stored table that holds name and value of each column of a table's row, as JSON.
FIELDS = "fields"

#: Columns of the stored table that are numbered: by the candidate, and by the round.
PREDICTION = "prediction"
DISTANCE = "distance_to_erm"
INCLUSION_PROBABILITY = "inclusion_probability"

#: What they were called in audits of older versions.
FORMER_COLUMNS = {"says": PREDICTION, "apart": DISTANCE, "chance": INCLUSION_PROBABILITY}


def rename_former_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a stored table, perhaps of an older version, with the present names of its columns."""
    former = f"^({'|'.join(FORMER_COLUMNS)})(?=_)"
    return frame.rename(columns=lambda name: re.sub(former, lambda match: FORMER_COLUMNS[match[0]], str(name)))


@dataclass(frozen=True)
class NewRows:
    """M new rows and the predictions of C candidates, ERM first.

    Attributes:
        descriptions: Columns ``row`` (a number from 0), and those of ``KNOWN_BY`` and ``FIELDS`` that the data have.
        label: (M,) index of the label, -1 where it is unknown.
        rounds: (M,) the round in which a row was sampled: 0 if it came with a label, -1 if it was not.
        predictions: (C, M) label indices.
        distances: (C, M) total variation distance of the predicted probabilities to those of ERM, from 0 to 1.
        inclusion_probability: Round -> the probability (M,) of each row to be sampled in it.
        logits: (C, M, L) of the candidates, by which they are averaged; None in audits of older versions.
        inputs: Of the networks, M rows, from which a correction is learned; None where they are too large to keep.
    """

    descriptions: pd.DataFrame
    label: Array
    rounds: Array
    predictions: Array
    distances: Array
    inclusion_probability: dict[int, Array]
    logits: Array | None = None
    inputs: Inputs | None = None

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> NewRows:
        """Return the rows of a stored table.

        Raises:
            KeyError: A column is missing.
            ValueError: A column holds something else.
        """
        rounds = frame[ROUND].astype(np.int64).to_numpy()
        return cls(
            descriptions=frame[["row", *(name for name in frame if name in (*KNOWN_BY, FIELDS))]],
            label=frame[LABEL].astype(np.int64).to_numpy(),
            rounds=rounds,
            predictions=frame.filter(like=PREDICTION).astype(np.int64).to_numpy().T,
            distances=frame.filter(like=DISTANCE).astype(np.float32).to_numpy().T,
            inclusion_probability={
                number: frame[f"{INCLUSION_PROBABILITY}_{number}"].astype(np.float64).to_numpy()
                for number in range(1, rounds.max() + 1)
            },
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the table as it is stored."""
        numbered = {
            PREDICTION: enumerate(self.predictions),
            DISTANCE: enumerate(self.distances),
            INCLUSION_PROBABILITY: self.inclusion_probability.items(),
        }
        columns = {f"{kind}_{number}": values for kind, arrays in numbered.items() for number, values in arrays}
        return self.descriptions.assign(**{LABEL: self.label, ROUND: self.rounds, **columns})

    @cached_property
    def answer_weights(self) -> Array:
        """The number of rows (M,) for which each labelled row stands; 0 of others, see ``compute_answer_weights``."""
        return compute_answer_weights(self.predictions, self.label >= 0, self.rounds, self.inclusion_probability)

    def take(self, positions: Array) -> NewRows:
        """Return some rows, in the order of their positions."""
        return NewRows(
            descriptions=self.descriptions.iloc[positions],
            label=self.label[positions],
            rounds=self.rounds[positions],
            predictions=self.predictions[:, positions],
            distances=self.distances[:, positions],
            inclusion_probability={number: values[positions] for number, values in self.inclusion_probability.items()},
            logits=None if self.logits is None else self.logits[:, positions],
            inputs=None if self.inputs is None else select_input_rows(self.inputs, positions),
        )

    def sort_canonically(self) -> Array:
        """Return positions (M,) that sort rows by what they hold, so that samples do not depend on their order."""
        descriptions = [self.descriptions[name] for name in self.descriptions if name in ("path", "content")]
        keys = [*descriptions, *self.predictions, *self.distances.round(4)]
        return np.lexsort([pd.factorize(key, sort=True)[0] for key in keys])

    @property
    def open_descriptions(self) -> pd.DataFrame:
        """Descriptions of the rows that were put on a sheet and have no answer yet, in the order of the sheet.

        Rows of earlier rounds come first. Within a round the order is random, so that the first few rows are a random
        sample of it.
        """
        positions = np.flatnonzero((self.rounds >= 1) & (self.label < 0))
        rank = np.random.default_rng(0).permutation(len(self.rounds))[positions]
        return self.descriptions.iloc[positions[np.lexsort((rank, self.rounds[positions]))]]


def format_new_row_name(row: pd.Series) -> str:
    """Return how messages and pages call a row: by its file, its line or its number."""
    for name in ("path", "line", "row"):
        if name in row and not pd.isna(row[name]):
            return format_path(row[name]) if name == "path" else f"{name} {row[name]}"
    return "a row"
