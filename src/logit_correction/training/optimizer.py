"""Adam, AdamW and SGD by torch's functions.

The classes of ``torch.optim`` import torch's compiler as soon as one is made: 1.4 seconds of the processor, in each
command that trains. Their functions do not, and compute the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

Group = dict[str, Any]


class Optimizer:
    """Changes parameters by their gradients, in groups that have options of their own.

    Attributes:
        param_groups: For each group the parameters as ``params``, the learning rate ``lr``, the ``weight_decay``, and
            whatever else it was given.
        state: What is remembered of each parameter that had a gradient, as ``torch.optim`` names it.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        learning_rate: float,
        kind: Literal["adam", "adamw", "sgd"] = "adam",
        weight_decay: float = 0.0,
        momentum: float = 0.0,
    ) -> None:
        """Take the parameters.

        Args:
            groups: Groups as ``Algorithm.parameter_groups`` returns them. The ``lr`` and the ``weight_decay`` of one
                replace those given here.
            learning_rate: At the start.
            kind: Which rule; the betas of Adam are 0.9 and 0.999.
            weight_decay: Factor of the weights that is added to their gradients; ``adamw`` shrinks the weights instead.
            momentum: Of ``sgd``.
        """
        self.param_groups: list[Group] = [
            {"lr": learning_rate, "weight_decay": weight_decay, **group} for group in groups
        ]
        self.state: dict[Tensor, dict[str, Any]] = {}
        self._kind = kind
        self._momentum = momentum

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change each parameter that has a gradient."""
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            gradients = [parameter.grad for parameter in parameters]
            if self._kind == "sgd":
                self._step_sgd(group, parameters, gradients)
            else:
                self._step_adam(group, parameters, gradients)

    def _step_adam(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        states = []
        for parameter in parameters:
            if parameter not in self.state:
                self.state[parameter] = {
                    "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
            states.append(self.state[parameter])
        function = adamw if self._kind == "adamw" else adam
        function(
            parameters,
            gradients,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=1e-8,
            maximize=False,
        )

    def _step_sgd(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        buffers = [self.state.get(parameter, {}).get("momentum_buffer") for parameter in parameters]
        sgd(
            parameters,
            gradients,
            buffers,
            weight_decay=group["weight_decay"],
            momentum=self._momentum,
            lr=group["lr"],
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
        if self._momentum:
            for parameter, buffer in zip(parameters, buffers, strict=True):
                self.state[parameter] = {"momentum_buffer": buffer}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each parameter under its number and the groups' learning rates, for a checkpoint."""
        state = {number: self.state[p] for number, p in enumerate(self._parameters()) if p in self.state}
        return {"state": state, "param_groups": [{"lr": group["lr"]} for group in self.param_groups]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what ``state_dict`` returned, here or in an optimizer of ``torch.optim``."""
        for group, saved in zip(self.param_groups, state["param_groups"], strict=True):
            group["lr"] = saved["lr"]
        parameters = self._parameters()
        self.state = {}
        for number, values in state["state"].items():
            device = parameters[number].device
            self.state[parameters[number]] = {
                name: value.to(device) if isinstance(value, Tensor) else value for name, value in values.items()
            }

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]
