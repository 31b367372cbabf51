"""Train classifiers that do not lean on spurious correlations, without group labels, by logit correction."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"

#: Public name -> module. Modules are imported when a name is first used, so that ``--help`` needs no torch.
_PUBLIC = {
    # to train and to look at what came out
    "train": "logit_correction.runs.api",
    "load": "logit_correction.runs.api",
    "Run": "logit_correction.runs.run",
    "TrainedRun": "logit_correction.runs.run",
    "from_arrays": "logit_correction.data.arrays",
    "from_table": "logit_correction.data.arrays",
    "estimate_attributes": "logit_correction.runs.estimate",
    "AttributeEstimates": "logit_correction.runs.estimate",
    "audit": "logit_correction.auditing.api",
    "Audit": "logit_correction.auditing.api",
    "LogitCorrectionClassifier": "logit_correction.integrations.sklearn",
    "runs_table": "logit_correction.runs.api",
    "export": "logit_correction.exporting.formats",
    "RunConfig": "logit_correction.config",
    "TrainingConfig": "logit_correction.config",
    "ComponentConfig": "logit_correction.config",
    "load_preset": "logit_correction.config",
    "InputError": "logit_correction.errors",
    "InputWarning": "logit_correction.errors",
    # the loss and its parts, for loops of your own
    "LogitCorrectedLoss": "logit_correction.losses",
    "GroupPrior": "logit_correction.prior",
    "Correlation": "logit_correction.correlation",
    "GroupReport": "logit_correction.evaluation",
    "Predictions": "logit_correction.evaluation",
    # the methods, and where attributes come from
    "LC": "logit_correction.methods.lc",
    "StagedLC": "logit_correction.methods.lc",
    "ERM": "logit_correction.methods.erm",
    "GroupDRO": "logit_correction.methods.group_dro",
    "LfF": "logit_correction.methods.lff",
    "JTT": "logit_correction.methods.jtt",
    "DFA": "logit_correction.methods.dfa",
    "Reweighting": "logit_correction.methods.reweighting",
    "PostHoc": "logit_correction.methods.post_hoc",
    "LastLayer": "logit_correction.methods.last_layer",
    "Auto": "logit_correction.attributes.auto",
    "Online": "logit_correction.attributes.online",
    "CrossFitted": "logit_correction.attributes.cross_fitted",
    "Given": "logit_correction.attributes.given",
    "TrueAttributes": "logit_correction.attributes.given",
    "Clusters": "logit_correction.attributes.clusters",
    "XRM": "logit_correction.attributes.xrm",
    "EIIL": "logit_correction.attributes.eiil",
    "MST": "logit_correction.attributes.mst",
    "MLP": "logit_correction.networks.small",
    # what parts of your own are made of
    "Algorithm": "logit_correction.methods.base",
    "AttributeEstimator": "logit_correction.attributes.base",
    "Estimate": "logit_correction.attributes.base",
    "View": "logit_correction.views.base",
    "ViewInputs": "logit_correction.views.base",
    "DataSource": "logit_correction.data.reader",
    "DataTable": "logit_correction.data.table",
    "Network": "logit_correction.networks.base",
    "Batch": "logit_correction.types",
    "DataInfo": "logit_correction.types",
    "Stage": "logit_correction.types",
    "Step": "logit_correction.types",
    "TrainingRows": "logit_correction.types",
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
