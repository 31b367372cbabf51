"""The training loop, the rules that select an epoch, and the loggers. Imports nothing heavy."""

from __future__ import annotations

_RULES = "logit_correction.training.rules."

#: Name -> dotted path, and the epoch whose weights it takes. A dotted path of your own works wherever a name does.
#: Those with ``group`` in their names read validation attributes, except for the estimated ones.
RULES: dict[str, tuple[str, str]] = {
    "last": (_RULES + "Last", "the last epoch"),
    "valid_average": (_RULES + "Average", "best average accuracy on validation rows"),
    "valid_worst_class": (_RULES + "WorstClass", "best accuracy of the worst class of validation rows"),
    "valid_estimated_worst_group": (_RULES + "EstimatedWorstGroup", "best accuracy of the worst estimated group"),
    "valid_estimated_group_balanced": (_RULES + "EstimatedGroupBalanced", "best mean accuracy of estimated groups"),
    "valid_estimated_within_error": (_RULES + "EstimatedWithinError", "the latest within a standard error of that"),
    "valid_group_balanced": (_RULES + "GroupBalanced", "best mean accuracy of groups; reads validation attributes"),
    "valid_worst_group": (_RULES + "WorstGroup", "best accuracy of the worst group; reads validation attributes"),
}

#: Name -> dotted path and one line. A dotted path of your own works wherever a name does.
LOGGERS: dict[str, tuple[str, str]] = {
    "csv": ("lightning_fabric.loggers.CSVLogger", "files of Lightning's CSVLogger in the run folder"),
    "tensorboard": ("lightning_fabric.loggers.TensorBoardLogger", "events in the run folder (extra tensorboard)"),
    "wandb": ("lightning.pytorch.loggers.WandbLogger", "a run of Weights & Biases (extra wandb)"),
    "mlflow": ("lightning.pytorch.loggers.MLFlowLogger", "a run of an MLflow tracking store (extra mlflow)"),
}
