"""What a method in Lightning is made of: a run's options without those of its loop, and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from torch import nn

from logit_correction.config import PARTS, ComponentConfig, RunConfig, TrainingConfig
from logit_correction.data.loading import BatchLoader
from logit_correction.errors import InputError
from logit_correction.runs.api import Part, config_of
from logit_correction.types import Batch

#: Options of our own loop -> what does the same here.
OTHERS = {
    "device": "Trainer(accelerator=...)",
    "devices": "Trainer(devices=1)",
    "nodes": "Trainer(num_nodes=1)",
    "strategy": "Trainer(devices=1)",
    "precision": "Trainer(precision=...)",
    "gradient_clip": "Trainer(gradient_clip_val=...), which clips each network by itself",
    "deterministic": "Trainer(deterministic=...)",
    "threads": "torch.set_num_threads(...)",
    "log_every": "Trainer(log_every_n_steps=...)",
    "logger": "Trainer(logger=...)",
    "selection": "ModelCheckpoint(monitor=..., mode='max') and rules=[...]",
    "also_select": "rules=[...]",
    "watch": "trainer.test(...)",
}

#: Name of a network that a function of the user's builds, which cannot be found again by a name.
_GIVEN = "(given)"


def run_config(
    parts: Mapping[str, Part | None],
    network: Part | Callable[[], nn.Module] | None,
    preset: str | None,
    views: Mapping[str, list[str]],
    rules: Sequence[str],
    training: Mapping[str, Any],
) -> RunConfig:
    """Return the checked config of a run that a trainer of another library trains.

    Args:
        parts: Part -> what is given for it; None is left out.
        network: A part as well, or a function without arguments that builds a network.
        preset: Name of a preset.
        views: ``shortcut`` or ``legitimate`` -> views that a person knows.
        rules: Selection rules whose scores are wanted.
        training: Options of the training.

    Raises:
        InputError: Something given is wrong, or is the trainer's to choose.
    """
    for name in training:
        if name in OTHERS:
            raise InputError(f"{name} is an option of our own loop: take {OTHERS[name]} here")
    given = dict(parts)
    if isinstance(network, str | Mapping | ComponentConfig):
        given["network"] = network
    elif network is not None:
        given["network"] = _of_function(network)
    return config_of(**given, preset=preset, **views, **{**training, "also_select": list(rules)})


def _of_function(network: Callable[[], nn.Module]) -> ComponentConfig:
    """Return the part of a network that a function builds."""
    if isinstance(network, nn.Module) or not callable(network):
        raise InputError("network must build a network when it is called: give `lambda: MyNetwork()`, not the network")
    return ComponentConfig(_GIVEN, cls=lambda info: network())


def hyperparameters(config: RunConfig) -> dict[str, Any]:
    """Return the arguments that make the module again, as plain values; a function that was given is left out."""
    flat = config.to_dict()
    options = [one.name for one in fields(TrainingConfig) if one.name not in OTHERS]
    chosen = {name: flat[name] for name in [*PARTS, *options] if name in flat}
    if config.network.name == _GIVEN:
        del chosen["network"]
    return chosen | {"rules": list(config.training.also_select)}


class Batches:
    """The batches of a loader, for a trainer that knows nothing of epochs that begin in the middle.

    Args:
        loader: Yields the batches.
        place: Returns the epoch and its first step; asked when an epoch begins.
    """

    def __init__(self, loader: BatchLoader, place: Callable[[], tuple[int, int]] = lambda: (0, 0)) -> None:
        self.loader, self.place = loader, place

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of an epoch from where the training stands."""
        yield from self.loader.epoch(*self.place())
