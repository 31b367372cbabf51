"""Train classifiers that do not lean on spurious correlations, without group labels, by logit correction."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

#: Public name -> module. Modules are imported when a name is first used, so that ``--help`` needs no torch.
_PUBLIC = {
    "Algorithm": "logit_correction.methods.base",
    "AttributeEstimator": "logit_correction.attributes.base",
    "Auto": "logit_correction.attributes.auto",
    "Batch": "logit_correction.types",
    "Clusters": "logit_correction.attributes.clusters",
    "Correlation": "logit_correction.correlation",
    "CrossFitted": "logit_correction.attributes.cross_fitted",
    "DataInfo": "logit_correction.types",
    "ERM": "logit_correction.methods.erm",
    "Given": "logit_correction.attributes.given",
    "GroupPrior": "logit_correction.group_prior",
    "GroupReport": "logit_correction.evaluation",
    "InputError": "logit_correction.types",
    "LC": "logit_correction.methods.lc",
    "LogitCorrectedLoss": "logit_correction.losses",
    "Online": "logit_correction.attributes.online",
    "TrainingRows": "logit_correction.types",
    "TrueAttributes": "logit_correction.attributes.true_attributes",
    "View": "logit_correction.views.base",
    "DFA": "logit_correction.methods.dfa",
    "GroupDRO": "logit_correction.methods.group_dro",
    "JTT": "logit_correction.methods.jtt",
    "LfF": "logit_correction.methods.lff",
    "Reweighting": "logit_correction.methods.reweighting",
    "StagedLC": "logit_correction.methods.staged_lc",
    "MLP": "logit_correction.networks.mlp",
    "Predictions": "logit_correction.evaluation",
    "RunConfig": "logit_correction.config",
    "Choice": "logit_correction.config",
    "TrainingConfig": "logit_correction.config",
    "from_arrays": "logit_correction.data.from_arrays",
    "from_table": "logit_correction.data.from_arrays",
    "load_preset": "logit_correction.presets",
    "load": "logit_correction.runs",
    "train": "logit_correction.runs",
}

__all__ = ["__version__", "functional", *_PUBLIC]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name == "functional":
        return importlib.import_module("logit_correction.functional")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'logit_correction' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
