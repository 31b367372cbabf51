"""Last-layer retraining: AFR (Qiu et al., ICML 2023) and DFR (Kirichenko, Izmailov and Wilson, ICLR 2023).

A network that relies on a shortcut has learned the other features too. It is enough to retrain its last layer on rows
in which the shortcut helps less.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.attributes import ESTIMATORS
from logit_correction.attributes.base import (
    AttributeEstimator,
    ParameterGroup,
    compute_network_outputs,
    make_parameter_group,
)
from logit_correction.attributes.given import Given, TrueAttributes
from logit_correction.errors import InputError, check_range
from logit_correction.methods.base import Algorithm
from logit_correction.networks.base import Network
from logit_correction.registry import make_component
from logit_correction.types import Batch, DataInfo, NetworkFactory, Stage, Step, TrainingRows


class LastLayer(Algorithm):
    """Trains a network by ERM, then its last layer alone on the validation rows, which ERM has not learned from.

    Use it where training a network again is expensive: with ``network="FromRun"`` only the last layer of a finished
    run trains.

    Without ``attributes`` (AFR) row i weighs exp(-gamma p_i) / n_y, where p_i is ERM's probability of its label and n_y
    the label's number of rows. AFR's authors choose gamma by known groups. Here gamma is lowered until rows that ERM
    gets wrong have at most half of the weight; with more, the layer would learn to be wrong.

    With ``attributes`` of the validation rows (DFR), ``Given`` by a label sheet or a column or ``TrueAttributes``, each
    group weighs the same and an unknown row nothing. In either case the validation rows cannot select an epoch.
    """

    MAX_WRONG_SHARE = 0.5  # greatest share of the weight for rows that ERM gets wrong
    ANCHOR_WEIGHT = 0.01  # of the squared distance from ERM's last layer: there may be few validation rows
    NUM_GAMMAS = 101  # values of gamma that are tried, from 0 to ``gamma``
    EPOCHS = 10  # of the last stage
    LEARNING_RATE = 1e-2  # of the last stage

    components = ("attributes",)
    learns_valid_rows = True
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
        """Build the network.

        Args:
            network: Builds a network with ``features`` and ``head``.
            info: Sizes and names of the data.
            attributes: ``Given`` or ``TrueAttributes`` of the validation rows (DFR); None for AFR.
            gamma: How much more AFR weighs rows that ERM finds hard, at most; 0 or more. 0 balances the labels alone.
            seed: Seed of the initial weights.
        """
        check_range("gamma", gamma, 0)
        super().__init__(network, info, seed=seed)
        self.num_stages = 1 if getattr(self.network, "finished", False) else 2
        self.stage = self.num_stages - 1
        self.gamma = gamma
        self.erm_head = copy.deepcopy(self.network.head)
        if attributes is not None:
            estimator = make_component("attribute estimator", attributes, ESTIMATORS, AttributeEstimator)
            self.valid_estimators = (estimator,)  # in a tuple, which keeps it out of the state
            self.needs_valid_attributes = estimator.needs_attributes
        for name in ("features", "label", "weight"):
            self.register_buffer(name, None, persistent=False)

    @property
    def in_last_stage(self) -> bool:
        """Whether the last layer trains, and no longer the whole network."""
        return self.stage + 1 == self.num_stages

    def setup(self, rows: TrainingRows) -> None:
        valid = rows.held_out
        if valid is None or not len(valid.label) or valid.view_inputs is None:
            raise InputError("LastLayer retrains on validation rows, and the data have no such split: give them one")
        self.label = valid.label
        self.rows = valid.view_inputs
        self.group = valid.label
        for estimator in self.valid_estimators:
            if not isinstance(estimator, Given | TrueAttributes):
                raise InputError("LastLayer needs known groups: take Given or TrueAttributes, or no attributes for AFR")
            estimator.attach(self.build, nn.Identity, replace(self.info, num_rows=len(valid.label)), 0)
            estimator.setup(valid)
            attribute = estimator.assign_training(torch.empty(len(valid.label), 0))
            self.group = torch.where(attribute < 0, -1, valid.label * estimator.num_attributes + attribute)

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        self.stage = stage
        if not self.in_last_stage:
            return Stage()
        self.erm_head.load_state_dict(self.network.head.state_dict())
        self._store_features_and_weights()
        return Stage(epochs=self.EPOCHS, learning_rate=self.LEARNING_RATE)

    @torch.no_grad()
    def _store_features_and_weights(self) -> None:
        """Keep the features of the validation rows, which change no more, and the weights of the rows."""
        parameter = next(self.parameters())
        device = parameter.device
        self.network.eval()
        self.features = compute_network_outputs(self.network.features, self.rows, parameter).to(parameter)
        self.network.train(self.training)
        self.label = self.label.to(device)
        is_known = self.group >= 0
        group_size = self.group[is_known].bincount()[self.group.clamp_min(0)]
        weight = (is_known / group_size.clamp_min(1)).to(device)
        if not self.valid_estimators:
            probability = self.erm_head.eval()(self.features).softmax(1)
            is_wrong = probability.argmax(1) != self.label
            label_probability = probability.gather(1, self.label[:, None])[:, 0]
            gammas = torch.linspace(0, -self.gamma, self.NUM_GAMMAS, device=device)
            weights = weight * (gammas[:, None] * label_probability).exp()  # a row for each gamma
            wrong_share = (weights * is_wrong).sum(1) / weights.sum(1)  # rises with gamma
            weight = weights[int((wrong_share <= self.MAX_WRONG_SHARE).sum().clamp_min(1)) - 1]
        self.weight = (weight / weight.sum()).to(parameter)

    def compute_loss(self, batch: Batch, epoch: float) -> Step:
        """Return ERM's loss, or in the last stage that of the last layer on all validation rows.

        Args: as in ``Algorithm.compute_loss``.
        """
        if not self.in_last_stage:
            return Step(cross_entropy(self.network(batch.inputs), batch.label))
        if self.features is None:  # a resumed training
            with torch.autocast(self.label.device.type, enabled=False):  # as at the beginning of the stage
                self._store_features_and_weights()
        logits = self.network.head.eval()(self.features)  # which were computed without dropout
        loss = cross_entropy(logits, self.label, reduction="none") @ self.weight
        pairs = zip(self.network.head.parameters(), self.erm_head.parameters(), strict=True)
        distance = torch.stack([(weight - erm.detach()).square().sum() for weight, erm in pairs]).sum()
        return Step(loss + self.ANCHOR_WEIGHT * distance)

    def parameter_groups(self) -> list[ParameterGroup]:
        if not self.in_last_stage:
            return super().parameter_groups()
        return [make_parameter_group(self.network.head, "head")]
