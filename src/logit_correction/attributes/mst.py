"""MST: a network that overfits a tenth of the rows; Zhao and Zhang, ICLR 2026 (FG-CCDB, arXiv:2505.06831)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator, Builder
from logit_correction.attributes.heads import answers
from logit_correction.errors import check_range
from logit_correction.seeds import StepRandomness, make_generator
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step
from logit_correction.views.base import ViewInputs


class MST(AttributeEstimator):
    """What a network answers that has seen a tenth of the rows, and of later stages the surest half of each label.

    So few rows hold hardly any conflicting ones, and none where the network was least sure: it learns the shortcut. The
    label that it answers is the attribute; label by answer are the cells that FG-CCDB weighs.
    """

    trains_network = True

    def __init__(self, share: float = 0.1, rounds: int = 3, epochs: int = 3) -> None:
        """Choose what the network sees.

        Args:
            share: Share of the rows that the first stage sees.
            rounds: How often it is trained, each time anew.
            epochs: Epochs of a round: as many rows as there are, drawn with replacement from those it sees.
        """
        super().__init__()
        check_range("share", share, 0.001, 1)
        check_range("rounds", rounds, 1, 1000)
        check_range("epochs", epochs, 1)
        self.share, self.num_stages, self.epochs = share, rounds, epochs

    def attach(self, build: Builder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        super().attach(build, network, info, seed)
        self._fresh = lambda stage: build(network, f"proxy, round {stage}")
        self.proxy = self._fresh(0)

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        self.stage, label = stage, self.rows.label
        if outputs is None:
            score = torch.rand(len(label), generator=make_generator(self.seed, "tenth"))
            share = self.share
        else:
            score, share = outputs.softmax(dim=1).gather(1, label.unsqueeze(1)).squeeze(1), 0.5
            self.proxy.load_state_dict(self._fresh(stage).state_dict())
        # Of each label its share of greatest score, at least one row.
        seen = torch.zeros(len(label))
        for own in ((label == y).nonzero().squeeze(1) for y in range(self.info.num_labels)):
            seen[own[score[own].topk(max(1, round(share * len(own))) if len(own) else 0).indices]] = 1.0
        return Stage(epochs=self.epochs, sample_weight=seen)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        loss = cross_entropy(self.proxy(batch.inputs), batch.label)
        return Step(loss, {"loss_proxy": loss.detach()})

    def collect(self, batch: Batch) -> Tensor:
        return self.predict(batch.inputs)

    def parameter_groups(self) -> list[dict[str, object]]:
        proxy: dict[str, object] = {"params": list(self.proxy.parameters()), "name": "proxy", "schedule": "none"}
        return [proxy] if self.stage < self.num_stages else []

    def predict(self, inputs: Inputs) -> Tensor:
        logits: Tensor = self.proxy(inputs)
        return logits

    def finish(self, outputs: Tensor | None) -> None:
        self.stage = self.num_stages
        super().finish(outputs)

    def estimate_rows(self, outputs: Tensor | None) -> tuple[Tensor, Tensor | None]:
        assert outputs is not None
        return outputs.argmax(dim=1), outputs.softmax(dim=1).gather(1, self.rows.label.unsqueeze(1)).squeeze(1)

    def estimate_new(self, label: Tensor, rows: ViewInputs) -> Tensor | None:
        return answers(self.predict, rows, self.row_attribute.device).argmax(dim=1)

    def describe(self) -> str:
        return f"a network that overfits {100 * self.share:g} % of the rows (MST)"
