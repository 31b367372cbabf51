"""What predicts in a run as one module: preparation, encoder, network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from logit_correction.exporting.forms import InputForm
from logit_correction.methods.base import Algorithm
from logit_correction.runs.run import Run
from logit_correction.types import Inputs


class Portable(nn.Module):
    """Inputs of one form -> logits (n, L).

    Args:
        prepare: Brings inputs to the scale of training.
        encoder: Inputs -> features (n, F), or None.
        network: Inputs or features -> logits.
    """

    def __init__(self, prepare: nn.Module, encoder: nn.Module | None, network: nn.Module) -> None:
        super().__init__()
        self.prepare, self.encoder, self.network = prepare, encoder, network

    def forward(self, values: Tensor) -> Tensor:
        """Return the logits of prepared values."""
        return self._logits(self.prepare(values))

    def _logits(self, inputs: Inputs) -> Tensor:
        logits: Tensor = self.network(inputs if self.encoder is None else self.encoder(inputs))
        return logits


class PortableTexts(Portable):
    """Tokens of texts -> logits (n, L)."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:  # type: ignore[override]
        """Return the logits of tokens (n, T)."""
        return self._logits({"input_ids": input_ids, "attention_mask": attention_mask})


class Predicting(nn.Module):
    """A method that predicts by more than its network."""

    def __init__(self, algorithm: Algorithm) -> None:
        super().__init__()
        self.algorithm = algorithm

    def forward(self, inputs: Inputs) -> Tensor:
        """Return what it predicts."""
        return self.algorithm.predict(inputs)


def portable_network(run: Run, form: InputForm) -> Portable:
    """Return what predicts in a run, on the CPU and in evaluation mode."""
    algorithm = run.algorithm
    network = algorithm.network if predicts_by_network(run) else Predicting(algorithm)
    encoder = None if run.config.encoder is None else run.encoder.features
    kind = PortableTexts if form.kind == "tokens" else Portable
    return kind(form.prepare, encoder, network).cpu().eval().requires_grad_(False)


@torch.no_grad()
def predicts_by_network(run: Run) -> bool:
    """Return whether a method's ``predict`` is its network's answer, tried on random inputs."""
    algorithm, info = run.algorithm, run.info
    generator = torch.Generator().manual_seed(0)
    if info.tokens:
        shape = (2, min(info.input_shape[0], 4))
        ones = torch.ones(shape, dtype=torch.long, device=run.device)
        inputs: Inputs = {"input_ids": ones, "attention_mask": ones}
    else:
        inputs = torch.rand(2, *info.input_shape, generator=generator).to(run.device)
    return torch.equal(algorithm.predict(inputs), algorithm.network(inputs))
