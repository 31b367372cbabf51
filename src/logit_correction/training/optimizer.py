"""Adam, AdamW and SGD without the start-up time of ``torch.optim``'s classes.

The constructors of ``torch.optim``'s classes import torch's compiler: 1.4 seconds of the processor, in every command
that trains. The functions that compute the updates do not. ``Optimizer`` holds the parameter groups and the state
under the names of ``torch.optim``, calls these functions, and so computes the same numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd


class Optimizer:
    """Updates parameters by their gradients, in groups that have options of their own.

    Attributes:
        param_groups: For each group the parameters as ``params``, the learning rate ``lr``, the ``weight_decay``, and
            all other entries that it was given.
        state: The moving averages of each parameter that had a gradient, named as in ``torch.optim``.
    """

    def __init__(
        self,
        groups: Sequence[dict[str, Any]],
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
            kind: The update rule; the betas of Adam are 0.9 and 0.999.
            weight_decay: Factor of the weights that is added to their gradients; ``adamw`` shrinks the weights instead.
            momentum: Of ``sgd``.
        """
        self.param_groups = [{"lr": learning_rate, "weight_decay": weight_decay, **group} for group in groups]
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self._kind = kind
        self._momentum = momentum

    def zero_grad(self) -> None:
        """Delete the gradients."""
        for parameter in self._list_parameters():
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update each parameter that has a gradient."""
        update = self._update_by_sgd if self._kind == "sgd" else self._update_by_adam
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            gradients = [parameter.grad for parameter in parameters]
            update(parameters, gradients, lr=group["lr"], weight_decay=group["weight_decay"], maximize=False)

    def _update_by_adam(self, parameters: list[Tensor], gradients: list[Tensor], **options: Any) -> None:
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter] = {
                    "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        states = [self.state[parameter] for parameter in parameters]
        averages, squares, steps = ([s[name] for s in states] for name in ("exp_avg", "exp_avg_sq", "step"))
        function = adamw if self._kind == "adamw" else adam
        options |= {"fused": True, "amsgrad": False, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
        function(parameters, gradients, averages, squares, [], steps, **options)

    def _update_by_sgd(self, parameters: list[Tensor], gradients: list[Tensor], **options: Any) -> None:
        buffers = [self.state[parameter].get("momentum_buffer") for parameter in parameters]
        sgd(parameters, gradients, buffers, momentum=self._momentum, dampening=0.0, nesterov=False, **options)
        if self._momentum:
            for parameter, buffer in zip(parameters, buffers, strict=True):
                self.state[parameter]["momentum_buffer"] = buffer

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each parameter under its number, and the groups' learning rates, for a checkpoint."""
        numbered = {number: self.state.get(parameter) for number, parameter in enumerate(self._list_parameters())}
        state = {number: values for number, values in numbered.items() if values}
        return {"state": state, "param_groups": [{"lr": group["lr"]} for group in self.param_groups]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned, here or in an optimizer of ``torch.optim``."""
        for group, saved in zip(self.param_groups, state["param_groups"], strict=True):
            group["lr"] = saved["lr"]
        parameters = self._list_parameters()
        self.state.clear()
        for number, values in state["state"].items():
            device = parameters[number].device
            self.state[parameters[number]] = {
                name: value.to(device) if isinstance(value, Tensor) else value for name, value in values.items()
            }

    def _list_parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]
