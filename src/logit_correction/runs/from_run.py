"""The network of a finished run as a network: to go on from, or as a frozen encoder."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from torch import nn

from logit_correction.errors import InputError
from logit_correction.networks.base import Network
from logit_correction.registry import trusts_names
from logit_correction.types import DataInfo


class FromRun(Network):
    """The predicting network of a finished run with its weights; a new head where the labels are others."""

    def __init__(self, info: DataInfo, run: str, trust_code: bool = False) -> None:
        """Load the network.

        Args:
            info: Input shape and number of labels.
            run: Folder that ``train`` has written.
            trust_code: Import classes that the run's config names by a dotted path; they may do anything.

        Raises:
            InputError: If it holds no finished run, or the run's network has no halves or takes other inputs.
        """
        super().__init__()
        network, there = _network_of(Path(run), trust_code)
        if (there.input_shape, there.tokens) != (tuple(info.input_shape), info.tokens):
            raise InputError(
                f"the network of {run} takes inputs of shape {there.input_shape}, but the data's are of shape "
                f"{tuple(info.input_shape)}"
            )
        self.features, self.head = network.features, network.head
        #: The run's labels; None where the head is a new one.
        self.label_names: tuple[str, ...] | None = there.label_names
        if there.num_labels != info.num_labels:
            self.label_names = None
            self.head = nn.Linear(cast(nn.Linear, network.head).in_features, info.num_labels)
        self.metadata = {"run": run, **getattr(network, "metadata", {})}


def _network_of(folder: Path, trust_code: bool) -> tuple[Network, DataInfo]:
    """Return the predicting network of a run and the data that it was trained on."""
    from logit_correction.runs.trained import TrainedRun

    # A config from elsewhere does not vouch for what it leads to.
    model = TrainedRun(folder, trust_code=trust_code and trusts_names())
    network = model.algorithm.network
    if model.config.encoder is not None:
        raise InputError(f"the run {folder} has an encoder itself: take that one as --encoder")
    if not isinstance(getattr(network, "features", None), nn.Module) or not isinstance(
        getattr(network, "head", None), nn.Linear
    ):
        raise InputError(f"the network of {folder} has no `features` and linear `head`: take another run")
    return cast(Network, network.train()), model.info
