"""Last-layer retraining: AFR (Qiu et al., ICML 2023) and DFR (Kirichenko, Izmailov and Wilson, ICLR 2023)."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.attributes import ESTIMATORS
from logit_correction.attributes.base import AttributeEstimator, compute_outputs
from logit_correction.attributes.given import Given, TrueAttributes
from logit_correction.errors import InputError, check_range
from logit_correction.methods.base import Algorithm
from logit_correction.networks.base import Network
from logit_correction.registry import make_component
from logit_correction.types import Batch, DataInfo, NetworkFactory, Stage, Step, TrainingRows


class LastLayer(Algorithm):
    """Trains a network by ERM, then its last layer alone on the validation rows, which ERM has not learned from.

    Without ``attributes`` (AFR) row i weighs exp(-gamma p_i) / n_y, where p_i is ERM's probability of its label and n_y
    the label's number of rows. AFR's authors choose gamma by known groups. Here gamma is lowered until rows that ERM
    gets wrong have at most half of the weight; with more, the layer would learn to be wrong.

    With ``attributes`` of the validation rows (DFR), ``Given`` by a label sheet or a column or ``TrueAttributes``, each
    group weighs the same and an unknown row nothing. The validation rows can then choose no epoch.

    With ``--network FromRun`` only the last layer of a finished run trains.
    """

    MOST_WRONG = 0.5  # greatest share of the weight for rows that ERM gets wrong
    ANCHOR = 0.01  # weight of the squared distance from ERM's last layer: there may be few validation rows

    components = MappingProxyType({"attributes": "attributes"})
    network: Network
    features: Tensor | None
    label: Tensor
    weight: Tensor

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        attributes: AttributeEstimator | str | None = None,
        gamma: float = 4.0,
        seed: int = 0,
    ) -> None:
        """Build the network, which needs ``features`` and ``head``.

        Args:
            attributes: ``Given`` or ``TrueAttributes`` of the validation rows; None for AFR.
            gamma: How much more AFR weighs rows that ERM finds hard, at most; 0 balances the labels alone.
        """
        check_range("gamma", gamma, 0)
        super().__init__(network, info, seed=seed)
        self.num_stages = 1 if getattr(self.network, "finished", False) else 2
        self.gamma, self.stage = gamma, self.num_stages - 1
        self.erm_head = copy.deepcopy(self.network.head)
        given = () if attributes is None else (attributes,)  # in a tuple, an estimator is no part of the state
        self.valid_estimators = tuple(
            make_component("attribute estimator", one, ESTIMATORS, AttributeEstimator) for one in given
        )
        self.needs_valid_attributes = any(one.needs_attributes for one in self.valid_estimators)
        for name in ("features", "label", "weight"):
            self.register_buffer(name, None, persistent=False)

    def setup(self, rows: TrainingRows) -> None:
        held = rows.held_out
        if held is None or not len(held.label) or held.view_inputs is None:
            raise InputError("LastLayer retrains on validation rows, but there are none: give the data some")
        self.label, self.rows, self.group = held.label, held.view_inputs, held.label
        for one in self.valid_estimators:
            if not isinstance(one, Given | TrueAttributes):
                raise InputError("LastLayer needs known groups: take Given or TrueAttributes, or no attributes for AFR")
            one.attach(self.build, nn.Identity, replace(self.info, num_rows=len(held.label)), 0)
            one.setup(held)
            attribute = one.assign_training(torch.empty(len(held.label), 0))
            self.group = torch.where(attribute < 0, -1, held.label * one.num_attributes + attribute)

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        self.stage = stage
        if stage + 1 < self.num_stages:
            return Stage()
        self.erm_head.load_state_dict(self.network.head.state_dict())
        self._look()
        return Stage(epochs=10, learning_rate=1e-2)

    @torch.no_grad()
    def _look(self) -> None:
        """Keep the features of the validation rows, which change no more, and weigh the rows."""
        kind, group = next(self.parameters()), self.group
        device = kind.device
        self.network.eval()
        self.features = compute_outputs(self.network.features, self.rows, device).to(kind)
        self.network.train(self.training)
        self.label = self.label.to(device)
        weight = ((group >= 0) / group[group >= 0].bincount()[group.clamp_min(0)].clamp_min(1)).to(device)
        if not self.valid_estimators:
            said = self.erm_head.eval()(self.features).softmax(1)
            wrong, own = said.argmax(1) != self.label, said.gather(1, self.label[:, None])[:, 0]
            weights = weight * (torch.linspace(0, -self.gamma, 101, device=device)[:, None] * own).exp()
            shares = (weights * wrong).sum(1) / weights.sum(1)  # of rows that are wrong; it rises with gamma
            weight = weights[int((shares <= self.MOST_WRONG).sum().clamp_min(1)) - 1]
        self.weight = (weight / weight.sum()).to(kind)

    def forward(self, batch: Batch, epoch: float) -> Step:
        if self.stage + 1 < self.num_stages:
            loss = cross_entropy(self.network(batch.inputs), batch.label)
            return Step(loss, {"loss": loss.detach()})
        if self.features is None:  # training goes on after a break
            with torch.autocast(self.label.device.type, enabled=False):  # as at the beginning of the stage
                self._look()
        logits = self.network.head.eval()(self.features)  # which were computed without dropout
        loss = cross_entropy(logits, self.label, reduction="none") @ self.weight
        pairs = zip(self.network.head.parameters(), self.erm_head.parameters(), strict=True)
        distance = torch.stack([(own - erm.detach()).square().sum() for own, erm in pairs]).sum()
        return Step(loss + self.ANCHOR * distance, {"loss": loss.detach()})

    def parameter_groups(self) -> list[dict[str, object]]:
        last = self.stage + 1 == self.num_stages
        return [{"params": [*self.network.head.parameters()], "name": "head"}] if last else super().parameter_groups()
