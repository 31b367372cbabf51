"""Estimated attributes as arrays, for training code that is not this package's.

Logit correction needs two things: the attribute of each training row, and the prior of the groups. This module gives
both for any loop, as a loss, as offsets of the logits or as weights of the rows.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from logit_correction.data.new_rows import Annotations, get_label_indices
from logit_correction.errors import InputError
from logit_correction.finding_text import finding_to_dict
from logit_correction.functional import count_groups, count_prior
from logit_correction.losses import LogitCorrectedLoss
from logit_correction.methods.parts import Counted
from logit_correction.runs.assemble import prepare_run
from logit_correction.runs.inference import restore_num_threads
from logit_correction.runs.model import FittedModel
from logit_correction.runs.options import Part, RunConfig, build_config, choose_source, part_to_mapping
from logit_correction.runs.run import NewInputs
from logit_correction.training.display import Display, choose_display
from logit_correction.training.fit import get_attribute_names
from logit_correction.types import UNKNOWN_ATTRIBUTE

#: Added to the count of each group by default, as in LC.
SMOOTHING = Counted().smoothing


@dataclass(frozen=True, eq=False)
class AttributeEstimates:
    """The estimated attribute of N training rows, in their order, and what a training needs to correct by it.

    Attributes:
        label: (N,) int64, 0..L-1, the places of the rows' labels in ``label_names``.
        attribute: (N,) int64, 0..K-1, -1 where unknown: of every row if nothing is to be corrected.
        label_names: L names, of labels that rows have: numbers by their value, else names in the order of sorting.
        attribute_names: K names; "that of LABEL" where value j is only known as that of a label.
        posterior: (N, K) float32, how likely each value is; None where the estimator has none.
        rows: (N,) int64, the number of each row in the whole data set.
        evidence: The result of the search for a shortcut, as in ``report.json``; None for an estimator that does not
            search.
        model: The method that estimated them, which estimates further rows; None in a pickled copy.
    """

    label: NDArray[np.int64]
    attribute: NDArray[np.int64]
    label_names: tuple[str, ...]
    attribute_names: tuple[str, ...]
    posterior: NDArray[np.float32] | None
    rows: NDArray[np.int64]
    evidence: Mapping[str, Any] | None
    model: FittedModel | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the networks behind: what other processes are sent is small."""
        return {**vars(self), "model": None}

    @property
    def verdict(self) -> str | None:
        """``shortcut`` (you named it), ``none found`` or ``cannot tell``; None if the estimator does not search."""
        return None if self.evidence is None else str(self.evidence["verdict"])

    @property
    def sentence(self) -> str:
        """The result of the search in one sentence; empty without a search."""
        return "" if self.evidence is None else str(self.evidence["sentence"])

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """(N,) bool, whether the attribute of each row is known."""
        return self.attribute >= 0

    @property
    def corrects(self) -> bool:
        """Whether any row's attribute is known; otherwise every correction below changes nothing."""
        return bool(self.is_known.any())

    @property
    def counts(self) -> pd.DataFrame:
        """Rows of each group, labels by attributes."""
        shape = (len(self.label_names), len(self.attribute_names))
        table = count_groups(torch.from_numpy(self.label), torch.from_numpy(self.attribute), *shape)
        return pd.DataFrame(table.numpy(), index=list(self.label_names), columns=list(self.attribute_names))

    def prior(self, smoothing: float = SMOOTHING) -> Tensor:
        """Return the group prior (L, K), with ``smoothing`` added to each count; uniform where nothing is corrected."""
        shape = (len(self.label_names), len(self.attribute_names))
        if not self.corrects:
            return torch.full(shape, 1 / (shape[0] * shape[1]))
        return count_prior(self.label, self.attribute, *shape, smoothing)

    def predict_attributes(self, inputs: NewInputs, label: Annotations) -> NDArray[np.int64]:
        """Estimate the attribute of further rows; nothing is learnt from them.

        For a stream: estimate on a sample, whose prior stands for all rows, then go through the rest part by part.

        Args:
            inputs: n rows of the same kind; a data frame has at least the same columns.
            label: (n,) their labels, or the column of a data frame that holds them.

        Returns:
            (n,) int64, 0..K-1, -1 where unknown.

        Raises:
            InputError: The estimator estimates its training rows alone, or these are pickled estimates, which hold no
                networks.
        """
        model = self.model
        if model is None:
            raise InputError("a copy of estimates knows its own rows alone: ask the estimates that were copied or sent")
        parts = [np.zeros(0, dtype=np.int64)]
        for rows in model.source.new_rows(inputs):
            labels = torch.from_numpy(get_label_indices(rows, label, self.label_names))
            estimates = model.predict_attributes([rows], labels)
            if estimates is None and len(rows) and self.corrects:
                name = type(model.algorithm.attributes).__name__
                raise InputError(f"{name} knows its training rows alone: estimate by Auto instead")
            parts.append(np.full(len(rows), UNKNOWN_ATTRIBUTE) if estimates is None else estimates.attribute)
        return np.concatenate(parts)

    def of(self, inputs: NewInputs, label: Annotations) -> NDArray[np.int64]:
        """The former name of ``predict_attributes``."""
        warnings.warn("AttributeEstimates.of is now predict_attributes", DeprecationWarning, stacklevel=2)
        return self.predict_attributes(inputs, label)

    def loss(self, smoothing: float = SMOOTHING, strength: float = 1.0) -> LogitCorrectedLoss:
        """Return the loss to train with: ``loss(logits, label, attribute)`` (eq. 7).

        Args:
            smoothing: Added to the count of each group, 0 or more; more of it corrects rare groups less.
            strength: Factor of the log prior; 0 gives the plain cross-entropy.
        """
        return LogitCorrectedLoss(self.prior(smoothing), strength)

    def log_prior_of_rows(self, smoothing: float = SMOOTHING) -> NDArray[np.float32]:
        """Return what is added to each row's logits in training, (N, L), at most 0; 0 for rows of unknown attribute."""
        return self.loss(smoothing).offset(torch.from_numpy(self.attribute)).float().numpy()

    def sample_weight(self) -> NDArray[np.float64]:
        """Return weights (N,) of mean 1 by which all groups count alike; rows of unknown attribute weigh 1."""
        from sklearn.utils import compute_sample_weight

        weight = np.ones(len(self.label))
        if self.corrects:
            group = self.label * len(self.attribute_names) + self.attribute
            weight[self.is_known] = compute_sample_weight("balanced", group[self.is_known])
        return weight

    def to_frame(self) -> pd.DataFrame:
        """Return ``row``, ``label`` and ``attribute`` by name, None where unknown, as ``Given`` reads them."""
        names = np.asarray([*self.attribute_names, None], dtype=object)
        labels = np.asarray(self.label_names, dtype=object)
        return pd.DataFrame({"row": self.rows, "label": labels[self.label], "attribute": names[self.attribute]})

    def __repr__(self) -> str:
        rows = f"{self.is_known.sum():,} of {len(self.label):,} rows"
        return f"AttributeEstimates({self.verdict or 'estimated'}, {rows})"


def estimate_attributes(
    data: Part | Any,
    label: ArrayLike | Sequence[Any] | None = None,
    *,
    estimator: Part = "Auto",
    network: Part | None = None,
    biased_network: Part | None = None,
    shortcut: str | Sequence[str] | None = None,
    legitimate: str | Sequence[str] | None = None,
    progress: bool = False,
    **training: Any,
) -> AttributeEstimates:
    """Look for a shortcut, and estimate the attribute of each training row where there is one.

    It is the first half of training with ``LC``; the second half, the corrected loss, may be yours.

    Args:
        data: With ``label`` the rows themselves, all of them for training: an array (N, F), images (N, C, H, W), a
            data frame or a list of texts. Without, a data source as ``train`` takes it; only its training split
            counts.
        label: (N,) names or whole numbers, or the column of a data frame.
        estimator: The attribute estimator; by default ``Auto``, which reads no attribute and may abstain.
        network: The network that is trained as ERM and examined; by default one that fits the data.
        biased_network: The networks that an estimator trains; by default like ``network``.
        shortcut: Views that are known to be a shortcut.
        legitimate: Views that are known to be legitimate causes of the label.
        progress: Show progress as the command does.
        **training: Options of ``TrainingConfig``, such as ``epochs``, ``seed`` and ``device``.

    Raises:
        InputError: Something given is wrong, or the estimator's estimates change throughout a training (``Online``).

    >>> found = estimate_attributes({"name": "Digits", "minority_ratio": 0.05}, epochs=2, threads=1)
    >>> found.corrects, found.prior().shape
    (True, torch.Size([10, 10]))
    """
    with tempfile.TemporaryDirectory(prefix="logit-correction-") as folder:
        data_options: dict[str, Any] = {}
        if label is not None:  # all rows are for training
            data_options = {"valid_fraction": 0.0, "test_fraction": 0.0}
            if not isinstance(data, str | Path):
                data_options["folder"] = folder
        config = build_config(
            choose_source(data, label, **data_options),
            method={"name": "LC", "attributes": part_to_mapping("estimator", estimator)},
            network=network,
            biased_network=biased_network,
            shortcut=shortcut,
            legitimate=legitimate,
            **training,
        )
        return run_estimator(config, choose_display(progress))


@restore_num_threads()
def run_estimator(config: RunConfig, display: Display) -> AttributeEstimates:
    """Train what the attribute estimator of a complete config needs, but not the method itself, and estimate.

    Args:
        config: A complete config, whose method has an attribute estimator.
        display: Shows the progress.

    Raises:
        InputError: The estimates change throughout the training of the method.
    """
    prepared = prepare_run(config, display, splits=("train",))
    table = prepared.table
    algorithm = prepared.algorithm
    attributes = algorithm.attributes
    if attributes is None or not attributes.is_static:
        name = type(attributes or algorithm).__name__
        raise InputError(f"{name} settles no attributes before the training: take another estimator, such as Auto")
    with display:
        prepared.make_trainer(display).run(estimator_only=True)
    rows = table.split["train"]
    posterior = attributes.row_posterior
    return AttributeEstimates(
        label=table.label[rows].numpy(),
        attribute=attributes.row_attribute.cpu().numpy(),
        label_names=tuple(table.label_names),
        attribute_names=tuple(get_attribute_names(algorithm)),
        posterior=None if posterior is None else posterior.float().cpu().numpy(),
        rows=rows.numpy(),
        evidence=finding_to_dict(attributes.finding),
        model=prepared.build_model(),
    )
