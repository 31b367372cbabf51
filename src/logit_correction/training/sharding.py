"""Weights, gradients and the optimizer's state in parts, one a process (FSDP2); with ``ddp`` all of it does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from logit_correction.config import TrainingConfig
from logit_correction.distributed import sum_over_processes
from logit_correction.errors import InputError
from logit_correction.methods.base import Algorithm

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

#: An element of a list of layers is gathered by itself if it has so many weights.
LEAST = 10_000

#: Modules that only hold others: it is their elements that are called.
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def check_strategy(config: TrainingConfig) -> None:
    """Return if torch can do what ``--strategy`` asks for.

    Raises:
        InputError: Otherwise.
    """
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    if config.strategy == "fsdp" and (major, minor) < (2, 13):  # some older ones lose gradients without a word
        raise InputError(
            f"--strategy fsdp needs torch 2.13, and {torch.__version__} is installed: install a newer one, or take ddp"
        )


def is_sharded(algorithm: nn.Module) -> bool:
    """Return whether each process holds a part of the weights."""
    return hasattr(algorithm, "run_gathered")


def shard(algorithm: Algorithm, mesh: DeviceMesh) -> Algorithm:
    """Keep a part of each weight on each process, and gather layers while they are used; in place, and once.

    What is gathered together is an element of a list of layers, such as a block of a transformer or of a ResNet. The
    rest, such as a head, is gathered for the whole step, so that methods may use it in any way.

    Args:
        algorithm: With equal weights in all processes.
        mesh: The processes, along ``data_parallel``.

    Raises:
        InputError: The method has made new networks since it was sharded.
    """
    from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
    from torch.distributed.tensor import DTensor

    if is_sharded(algorithm):
        cast(FSDPModule, algorithm).reshard()  # evaluation leaves the rest gathered, and an optimizer needs the parts
        trained = [weight for group in algorithm.parameter_groups() for weight in cast(list[Tensor], group["params"])]
        if not all(isinstance(weight, DTensor) for weight in trained):
            raise InputError(
                f"--strategy fsdp: {type(algorithm).__name__.removeprefix('FSDP')} builds networks between its stages, "
                "whose gradients the processes would not share: take --strategy ddp"
            )
        return algorithm
    layers = [layer for module in algorithm.modules() if isinstance(module, _CONTAINERS) for layer in module.children()]
    for layer in reversed(layers):  # the inner ones first, so that an outer one has what is left
        own = sum(weight.numel() for weight in layer.parameters() if not isinstance(weight, DTensor))
        if own >= LEAST and not isinstance(layer, _CONTAINERS):
            fully_shard(layer, mesh=mesh["data_parallel"])
    fully_shard(algorithm, mesh=mesh["data_parallel"])
    for module in algorithm.modules():
        module.register_load_state_dict_pre_hook(partial(_take_parts, dict(module.named_parameters(recurse=False))))
    cast(Any, algorithm).run_gathered = lambda function: function()
    register_fsdp_forward_method(algorithm, "run_gathered")
    return algorithm


def gathered(algorithm: nn.Module, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` so that it may use the method's networks other than through its ``forward``."""
    if not is_sharded(algorithm):
        return function
    return lambda *args: cast(Any, algorithm).run_gathered(lambda: function(*args))


def whole(algorithm: nn.Module, value: Any, keep: bool) -> Any:
    """Return nested dicts and lists of tensors with every weight whole, as one process has it; all processes take part.

    Args:
        algorithm: Sharded or not.
        value: Holds parts, or anything else, which stays as it is.
        keep: Whether this process wants the whole weights, on the CPU; otherwise they are None.
    """
    if not is_sharded(algorithm):
        return value
    known: dict[int, Tensor | None] = {}  # rules that hold the same weights go on doing so

    def of(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: of(inner) for name, inner in part.items()}
        if isinstance(part, list):
            return [of(inner) for inner in part]
        if not hasattr(part, "full_tensor"):
            return part
        if id(part) not in known:
            full = part.full_tensor()
            known[id(part)] = full.cpu() if keep else None
        return known[id(part)]

    return of(value)


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Let an optimizer go on from the whole state that ``whole`` has given."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    parts = {
        number: {name: _part(value, weights[number]) for name, value in values.items()}
        for number, values in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": parts})


def count_not_finite(weights: Iterable[Tensor]) -> int:
    """Return how many weights are not finite, in all processes together."""
    local = [weight.to_local() if hasattr(weight, "to_local") else weight for weight in weights]
    counts = [torch.isfinite(weight).logical_not().sum() for weight in local]
    return int(sum_over_processes(torch.stack(counts).sum())) if counts else 0


def _take_parts(weights: dict[str, Tensor], module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Before a state is loaded, leave of its whole weights the parts of this process."""
    for name, weight in weights.items():
        if prefix + name in state:
            state[prefix + name] = _part(state[prefix + name], weight)


def _part(value: Any, weight: Tensor) -> Any:
    """Return this process's part of a whole tensor of the shape of a weight; anything else as it is."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(weight, DTensor) or isinstance(value, DTensor) or getattr(value, "shape", None) != weight.shape:
        return value
    return distribute_tensor(value, weight.device_mesh, weight.placements, src_data_rank=None)
