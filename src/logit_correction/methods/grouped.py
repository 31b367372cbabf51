"""What methods share that use the attribute of every training row: estimated alongside, by cross-fitting, or true."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from logit_correction.correlation import Correlation
from logit_correction.functional import count_prior
from logit_correction.group_prior import GroupPrior
from logit_correction.methods.attribute import BiasedNetwork
from logit_correction.methods.base import StagedAlgorithm, check_range
from logit_correction.methods.cross_fitting import CrossFitted
from logit_correction.types import Batch, DataInfo, InputError, Inputs, NetworkFactory, Stage, Step

Groups: TypeAlias = Literal["estimated", "cross-fitted", "true"]


class GroupedAlgorithm(StagedAlgorithm):
    """A method that uses the attribute of every training row, wherever it comes from.

    - ``estimated``: a biased network alongside tells it; the subclass calls ``run_alongside``. Where its features have
      to be clustered, it is trained alone in a stage before the method's own.
    - ``cross-fitted``: biased networks are trained in a stage before the method's own, which so begins with an
      attribute for every row and counted groups; the subclass calls ``cross_fit``.
    - ``true``: the training attributes themselves, which are read in this case alone. A run lets the method count the
      groups through ``observe_rows``; in a loop of your own call it once before stage 0.

    A subclass begins its ``forward`` with ``if self.preparing: return self.prepare(batch, epoch)``.

    Attributes:
        groups: See above.
        correlation: Which attribute values are a label's majority. With true groups and a data source that does not
            say, it is the commonest value of each label.
        biased: The biased network that is trained alongside.
        cross_fitted: The cross-fitted biased networks.
    """

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        groups: Groups,
        correlation: str = "one-to-one",
        smoothing: float = 0.0,
        seed: int = 0,
    ) -> None:
        """Build the network that predicts.

        Raises:
            InputError: If the correlation does not fit the data.
        """
        super().__init__(network, info, seed=seed)
        self.groups, self.smoothing = groups, smoothing
        self.needs_attributes, self.num_stages = groups == "true", 1
        self.correlation = choose_correlation(correlation, info, groups)
        self.biased: BiasedNetwork | None = None
        self.cross_fitted: CrossFitted | None = None
        self._counted = False
        self._epochs: int | None = None

    def cross_fit(self, build: NetworkFactory, num_splits: int, epochs: int, **options: Any) -> None:
        """Build the cross-fitted networks, 2 for each split; ``options`` are those of ``CrossFitted``.

        Raises:
            InputError: If an option is out of range.
        """
        check_range("num_splits", num_splits, 1)
        networks = [self.build(build, f"biased network {number}") for number in range(2 * num_splits)]
        self.cross_fitted = CrossFitted(
            networks, self.info.num_rows, self.correlation, epochs=epochs, seed=self.seed, **options
        )
        self.num_stages = 2

    def run_alongside(self, biased: BiasedNetwork) -> None:
        """Take the biased network that is trained alongside, after a stage of its own if it needs one."""
        self.biased = biased
        self.num_stages = 2 if biased.clusters is not None else 1

    def fixed_prior(self) -> GroupPrior:
        """Return a group prior that is to be counted."""
        return GroupPrior(self.info.num_labels, self.num_attributes, estimator="joint", averaging="fixed", floor=0.0)

    @property
    def num_attributes(self) -> int:
        """K of the attributes that the method uses; one for each label where they are estimated one to one."""
        return self.info.num_attributes if self.groups == "true" else self.correlation.num_attributes

    @property
    def preparing(self) -> bool:
        """Whether this is the stage before the method's own."""
        return self.stage + 1 < self.num_stages

    @property
    def _prepared(self) -> BiasedNetwork | CrossFitted:
        """What is trained in the stage before the method's own."""
        part = self.cross_fitted or self.biased
        assert part is not None
        return part

    def prepare(self, batch: Batch, epoch: float) -> Step:
        """Take a step of the stage before the method's own."""
        return self._prepared.step(batch, epoch, self.randomness)

    def row_attribute(self, batch: Batch) -> Tensor:
        """Return the true or cross-fitted attribute (B,) of rows."""
        if self.cross_fitted is not None:
            return self.cross_fitted.attribute.index_select(0, batch.index)
        assert batch.attribute is not None
        return batch.attribute

    def count_groups(self, label: Tensor, attribute: Tensor) -> None:
        """Count the group prior from all training rows' labels and attributes, (N,) each."""
        assert self.group_prior is not None
        sizes = self.group_prior.num_labels, self.group_prior.num_attributes
        self.group_prior.set_table(count_prior(label, attribute, *sizes, smoothing=self.smoothing))

    def observe_rows(self, label: Tensor, attribute: Tensor | None) -> None:
        """With true groups, count them."""
        if self.groups != "true":
            return
        assert attribute is not None
        if self.info.correlation is None:
            counts = count_prior(label, attribute, self.info.num_labels, self.info.num_attributes)
            self.correlation = Correlation.from_table(
                counts.argmax(dim=1, keepdim=True).tolist(), self.info.num_attributes
            )
        self.count_groups(label, attribute)
        self._counted = True

    def begin_stage(self, stage: int, train_logits: Tensor | None) -> Stage:
        """Ask for the epochs of the stage before the method's own, then make use of what it found.

        Args:
            stage: 0..num_stages-1.
            train_logits: At stage 1 what ``predict_rows`` returned of all rows.

        Raises:
            InputError: If true groups are asked for and were not counted.
        """
        super().begin_stage(stage, train_logits)
        if self.preparing:
            return self._prepared.stage()
        if self.groups == "true" and not self._counted and self.needs_counts:
            name = type(self).__name__
            raise InputError(f"{name} must count the groups: call observe_rows(label, attribute) before training")
        if stage == 0:
            return self.own_stage()
        assert train_logits is not None
        if self.cross_fitted is not None:
            label = self.cross_fitted.finish(train_logits)
            self.count_groups(label, self.cross_fitted.attribute.cpu())
            return self.own_stage()
        assert self.biased is not None
        self.biased.finish(train_logits)
        left = None if self._epochs is None else self._epochs - self.biased.first_epochs
        return Stage(epochs=left)

    @property
    def needs_counts(self) -> bool:
        """Whether the method cannot do without counted groups."""
        return True

    def own_stage(self) -> Stage:
        """Return what the method's own stage asks of the loop; by default nothing."""
        return Stage()

    def since_the_start(self, epoch: float) -> float:
        """Return the epochs since the biased network alongside began, given those of this stage."""
        assert self.biased is not None
        return epoch + self.biased.first_epochs if self.stage else epoch

    def check_epochs(self, epochs: int) -> None:
        """Refuse a training in which the network that predicts would never start."""
        self._epochs = epochs
        if self.biased is not None:
            self.biased.check_epochs(epochs)

    def predict(self, inputs: Inputs) -> Tensor:
        """Return logits (B, L), in the stage before the method's own those of what is trained there."""
        return self._prepared.predict(inputs) if self.preparing else super().predict(inputs)

    def predict_rows(self, batch: Batch) -> Tensor:
        """Return what the stage before the method's own finds of training rows."""
        return self._prepared.predict_rows(batch) if self.preparing else super().predict_rows(batch)

    def end_epoch(self) -> list[str]:
        """Close the prior's epoch; warn of labels that the biased network alongside has lost.

        A label is lost if more than half of its rows are taken for bias-conflicting: the network then predicts it
        hardly ever, which generalized cross-entropy can bring about for good. The joint prior's rows tell.
        """
        if self.group_prior is None:
            return []
        self.group_prior.end_epoch()
        moves = self.group_prior.estimator == "joint" and self.group_prior.averaging != "fixed"
        if self.preparing or not moves:
            return []
        table = self.group_prior.table.cpu().double()
        aligned = (table * (self.correlation.weights > 0)).sum(1) / table.sum(1)
        lost = [self.info.label_names[i] for i in (aligned < 0.5).nonzero().flatten().tolist()]
        if not lost:
            return []
        return [
            f"the biased network takes most rows of label {', '.join(lost)} for bias-conflicting and may have lost the "
            "label: compare another --seed, or raise --method.q_ramp_up_epochs and --method.head_start_epochs"
        ]

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return the groups of the networks that this stage trains."""
        if self.preparing:
            return self._prepared.parameter_groups()
        alongside = [] if self.biased is None or self.biased.ends_alone else self.biased.parameter_groups()
        return [*super().parameter_groups(), *alongside]

    def diagnose(self, batch: Batch) -> dict[str, Tensor]:
        """Return each row's estimated attribute and whether it is taken for minority, once they are estimated."""
        part = self.cross_fitted or self.biased
        return {} if self.preparing or part is None else part.diagnose(batch)


def choose_correlation(choice: str, info: DataInfo, groups: str = "estimated") -> Correlation:
    """Return the correlation that a method goes by.

    Args:
        choice: ``one-to-one``, or ``known`` for the data source's.
        info: Facts about the data.
        groups: ``estimated``, ``cross-fitted`` or ``true``. True groups need no choice: the source's table holds, or
            where there is none a table that serves until the rows are counted.

    Raises:
        InputError: If the source knows none, or one that the estimate cannot work with.
    """
    if groups == "true":
        shape = info.num_labels, info.num_attributes
        return info.correlation or Correlation(torch.full(shape, 1.0 / info.num_attributes, dtype=torch.float64))
    if choice == "one-to-one":
        return Correlation.one_to_one(info.num_labels)
    if info.correlation is None:
        raise InputError("correlation=known needs a data source that knows which labels go with which attribute values")
    if info.correlation.needs_within and groups == "cross-fitted":
        raise InputError(
            f"the data's correlation is {info.correlation.kind}: one label goes with several attribute values, which "
            "clusters of features have to tell apart, and features of cross-fitted networks are not comparable; take "
            "correlation=one-to-one, or LC or Reweighting with groups=estimated"
        )
    return info.correlation
