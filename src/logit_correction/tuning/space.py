"""Which options are tuned, by method: the one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logit_correction.config import merge

if TYPE_CHECKING:
    from optuna import Trial


@dataclass(frozen=True)
class Span:
    """Numbers from ``low`` to ``high``, whole ones where both are; ``log`` draws their logarithm evenly."""

    low: float
    high: float
    log: bool = False


#: Option -> its span, of every method.
COMMON: dict[str, Span] = {"learning_rate": Span(2e-4, 2e-2, log=True), "weight_decay": Span(1e-6, 1e-2, log=True)}

#: Method -> its own options beside.
OWN: dict[str, dict[str, Span]] = {
    "LC": {"method.strength": Span(0.5, 1.5)},
    "StagedLC": {"method.strength": Span(0.5, 1.5)},
    "GroupDRO": {"method.step_size": Span(1e-3, 1e-1, log=True), "method.adjustment": Span(0.0, 5.0)},
    "LfF": {"method.q": Span(0.3, 0.9)},
    "JTT": {"method.identification_epochs": Span(1, 5), "method.up_weight": Span(5, 100, log=True)},
    "DFA": {"method.q": Span(0.3, 0.9), "method.lambda_dis": Span(1.0, 20.0, log=True)},
}


def space_of(method: str) -> dict[str, Span]:
    """Return the options that are tuned of a method; of one of a user's own those that all have."""
    return {**COMMON, **OWN.get(method, {})}


def suggested(trial: Trial, method: str) -> dict[str, float | int]:
    """Return a value for each option, as Optuna draws them for a trial."""
    drawn: dict[str, float | int] = {}
    for name, span in space_of(method).items():
        if isinstance(span.low, int) and isinstance(span.high, int):
            drawn[name] = trial.suggest_int(name, span.low, span.high, log=span.log)
        else:
            drawn[name] = trial.suggest_float(name, span.low, span.high, log=span.log)
    return drawn


def with_options(flat: dict[str, Any], drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a run, in the form of ``config.yaml``, with those that were drawn over them.

    >>> with_options({"method": {"name": "LC"}}, {"learning_rate": 0.1, "method.strength": 0.5})
    {'method': {'name': 'LC', 'strength': 0.5}, 'learning_rate': 0.1}
    """
    for name, value in drawn.items():
        part, _, option = name.partition(".")
        flat = merge(flat, {part: {option: value}} if option else {name: value})
    return flat
