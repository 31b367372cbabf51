"""XRM: twin networks that imitate each other's held-out mistakes; Pezeshki et al., ICML 2024 (arXiv:2309.16748)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.attributes.folds import FoldNetworks, draw_halves_of_rows
from logit_correction.distributed import concatenate_over_processes
from logit_correction.errors import check_range
from logit_correction.seeds import StepRandomness, make_generator
from logit_correction.types import Batch, Inputs, Stage, Step, TrainingRows, ViewInputs


class XRM(AttributeEstimator):
    """Cross-risk minimization: each of two twin networks estimates the attribute of the half that the other learns.

    If the held-out twin predicts a wrong label for a row, with probability p, the row takes the predicted label as its
    target with probability (p - 1 / L) L / (L - 1) in each step. So the twins unlearn the label and keep the shortcut.
    The label that the held-out twin predicts in the end is the attribute. Use it to compare with a published
    estimator; it reads no attribute labels.
    """

    num_stages = 1
    schedule = "none"
    target: Tensor

    def __init__(self, epochs: int = 10) -> None:
        """Choose how long the twins train.

        Args:
            epochs: Length of their stage, 1 or more. The more epochs, the more labels are flipped. The paper chooses
                settings by the share of flipped labels.
        """
        super().__init__()
        check_range("epochs", epochs, 1)
        self.epochs = epochs

    def build_networks(self, build: Callable[[str], nn.Module]) -> None:
        fold = torch.zeros(1, self.info.num_rows, dtype=torch.long)
        self.twins = FoldNetworks([build("twin 0"), build("twin 1")], fold)
        self.register_buffer("target", torch.zeros(self.info.num_rows, dtype=torch.long))

    def setup(self, rows: TrainingRows) -> None:
        super().setup(rows)
        self.twins.fold[0] = draw_halves_of_rows(rows.label, rows.unit, make_generator(self.seed, "twins"))

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        self.target.copy_(self.rows.label)
        return super().begin_stage(stage, outputs)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        """Return the twins' cross-entropy with the present targets, and flip some of the targets.

        Args: as in ``AttributeEstimator.step``.
        """
        # Each twin sees the whole batch: it learns from its own half and predicts the other.
        log_probability = self.twins.compute_log_probabilities(batch.inputs)
        half = self.twins.fold[0].index_select(0, batch.index)
        rows = torch.arange(len(half), device=half.device)
        target = self.target.index_select(0, batch.index)
        loss = cross_entropy(log_probability[1 - half, rows], target)
        held_out_probability = log_probability[half, rows].detach().exp()
        confidence, prediction = held_out_probability.max(dim=1)
        num_labels = self.info.num_labels
        flip_probability = (confidence - 1 / num_labels) * num_labels / (num_labels - 1)
        uniform = torch.rand(rows.shape, generator=randomness.next(rows.device), device=rows.device)
        is_flipped = (prediction != target) & (uniform < flip_probability)
        new_target = concatenate_over_processes(prediction.where(is_flipped, target))
        self.target.index_copy_(0, concatenate_over_processes(batch.index), new_target)
        return Step(loss, {"loss_twins": loss.detach(), "flipped": is_flipped.float().mean()})

    def collect_outputs(self, batch: Batch) -> Tensor:
        return self.twins.predict_out_of_fold(batch, self.info.num_labels)

    def predict_logits(self, inputs: Inputs) -> Tensor:
        return self.twins.compute_log_probabilities(inputs).logsumexp(dim=0)

    def assign_training(self, outputs: Tensor) -> Tensor:
        self.row_posterior = outputs
        return outputs.argmax(dim=1)

    def predict_attributes(self, label: Tensor, inputs: ViewInputs) -> Tensor | None:
        """Return the label that both twins together predict.

        Args: as in ``AttributeEstimator.predict_attributes``.
        """
        return self.compute_logits(inputs).argmax(dim=1)

    def describe(self) -> str:
        return "twin networks that imitate each other's held-out mistakes (XRM)"
