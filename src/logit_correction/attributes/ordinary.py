"""What an ordinary classifier says of held-out rows, where a run or another program has trained it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax

from logit_correction.attributes.evidence import EXAMINED
from logit_correction.attributes.folds import gather_members, take_rows
from logit_correction.attributes.kept_heads import answers
from logit_correction.attributes.row_file import RowFile
from logit_correction.attributes.search import Judged, looked_at
from logit_correction.data.frames import row_names
from logit_correction.errors import InputError
from logit_correction.networks import NETWORKS
from logit_correction.registry import resolve
from logit_correction.seeds import make_generator
from logit_correction.types import Batch, DataInfo, Inputs, TrainingRows

#: What columns of class probabilities begin with; `predict` writes the first, the audit the second.
PREFIXES = ("probability_", "p_")

#: How far the probabilities of a row may be from adding up to 1.
TOLERANCE = 0.02


class OrdinaryNetworks(nn.ModuleList):
    """Ordinary classifiers, one a fold: each is trained on the rows of the other folds, and asked about its own."""

    def loss(self, batch: Batch, fold: Tensor) -> Tensor:
        """Return the sum of the mean cross-entropies (0-d); of ``fold`` (B,) -1 is a row that all learn from."""
        total = torch.zeros((), device=batch.label.device)
        for number, network in enumerate(self):
            rows, weight = gather_members(fold != number, 1 - 1 / len(self))
            logits = network(take_rows(batch.inputs, rows))
            loss = cross_entropy(logits, batch.label.index_select(0, rows), reduction="none")
            total = total + (loss * weight).sum()
        return total

    def held_out(self, batch: Batch, fold: Tensor, num_labels: int) -> Tensor:
        """Return the class probabilities (B, L) of the network that did not see a row; waits for the device."""
        found = torch.zeros(len(fold), num_labels, device=batch.label.device)
        for number, network in enumerate(self):
            rows = (fold == number).nonzero().squeeze(1)
            if len(rows):
                found[rows] = network(take_rows(batch.inputs, rows)).float().softmax(dim=1)
        return found

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the mean of the networks' log-probabilities (B, L)."""
        return torch.stack([log_softmax(network(inputs).float(), dim=1) for network in self]).mean(dim=0)


def network_of_run(run: str, info: DataInfo) -> nn.Module:
    """Return the network of a finished run.

    Raises:
        InputError: If the run has other labels or other inputs.
    """
    network = resolve("network", "FromRun", NETWORKS, nn.Module)(info=info, run=run)
    if network.label_names != tuple(info.label_names):
        raise InputError(
            f"the run {run} has other labels than these data: give a run of the same data, or leave it out"
        )
    return network.requires_grad_(False)


def held_out_by_run(network: nn.Module, rows: TrainingRows, device: torch.device) -> Judged:
    """Return what a finished run says of the validation rows, all of them."""
    assert rows.view_inputs is not None
    network.eval()
    places = torch.arange(len(rows.label))
    return Judged("valid", places, answers(network, rows.view_inputs, device), torch.zeros_like(places), EXAMINED)


class PredictionsFile(RowFile):
    """Class probabilities of rows from a CSV or Parquet file: of any classifier that was not trained on these rows.

    Columns ``probability_LABEL`` or ``p_LABEL``, one for each label, are what the classifier says of a row.
    """

    def __init__(self, file: Path | str, label_names: tuple[str, ...]) -> None:
        """Read the file.

        Raises:
            InputError: If a column misses, or probabilities are none.
        """
        super().__init__(file)
        frame, names = self.frame, self.names
        if None in names:
            where = row_names(frame.index)[names.index(None)]
            raise InputError(f"{self.file}: {where}: column {self.key!r} is empty: name each row once")
        prefix = next((one for one in PREFIXES if f"{one}{label_names[0]}" in frame.columns), PREFIXES[0])
        columns = [f"{prefix}{label}" for label in label_names]
        missing = [column for column in columns if column not in frame.columns]
        if missing:
            raise InputError(f"{self.file} has no column {missing[0]!r}: give one {PREFIXES[0]}LABEL for each label")
        try:
            values = frame[columns].to_numpy(dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.file}: columns {PREFIXES[0]}LABEL must hold numbers ({error})") from error
        bad = ~np.isfinite(values).all(1) | (values < 0).any(1) | (np.abs(values.sum(1) - 1) > TOLERANCE)
        if bad.any():
            raise InputError(
                f"{self.file}: the probabilities of {self.key} {names[int(bad.argmax())]} do not add up to 1: give "
                "probabilities of all labels, not scores"
            )
        self._of = dict(zip(names, values, strict=True))

    def of(self, rows: TrainingRows) -> tuple[Tensor, Tensor]:
        """Return which rows the file tells of (m,) long, counted within their split, and the probabilities (m, L)."""
        keys = self.names_of(rows)
        known = [place for place, key in enumerate(keys) if key in self._of]
        found = np.stack([self._of[keys[place]] for place in known]) if known else np.zeros((0, 0))
        return torch.tensor(known, dtype=torch.long), torch.from_numpy(found).float()


def held_out_in_file(file: PredictionsFile, rows: TrainingRows, most: int, folds: int, seed: int) -> Judged:
    """Return what a file says of training rows, at most so many; of validation rows if it tells of no training row."""
    places, found = file.of(rows)
    if len(places):
        fold = looked_at(len(places), most, folds, make_generator(seed, "looked at"))
        return Judged("train", places[fold >= 0], found[fold >= 0], fold[fold >= 0], EXAMINED)
    assert rows.held_out is not None
    places, found = file.of(rows.held_out)
    return Judged("valid", places, found, torch.zeros_like(places), EXAMINED)
