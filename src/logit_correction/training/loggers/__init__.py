"""Where a run's figures go beside ``metrics.csv``. One file a logger, and one line here."""

from __future__ import annotations

#: Name -> dotted path and one line. A dotted path of your own works wherever a name does.
LOGGERS: dict[str, tuple[str, str]] = {
    "csv": ("logit_correction.training.loggers.csv_file.CsvFile", "files of Lightning's CSVLogger in the run folder"),
    "tensorboard": (
        "logit_correction.training.loggers.tensorboard.TensorBoard",
        "events in the run folder (extra tensorboard)",
    ),
    "wandb": ("logit_correction.training.loggers.wandb.WeightsAndBiases", "a run of Weights & Biases (extra wandb)"),
    "mlflow": ("logit_correction.training.loggers.mlflow.MLflow", "a run of an MLflow tracking store (extra mlflow)"),
}
