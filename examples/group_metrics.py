"""Any metric of scikit-learn by attribute: fairlearn's ``MetricFrame`` of the predictions of a run.

    python examples/group_metrics.py

Use it if the report of a run lacks the metric that you need.
"""

from __future__ import annotations

import argparse

import pandas as pd
import torch
from fairlearn.metrics import MetricFrame
from pytorch_loop import BATCH, compute_group_accuracies
from sklearn.metrics import accuracy_score, matthews_corrcoef

from logit_correction import Predictions, train


def main(epochs: int = 15, seed: int = 0) -> dict[str, float]:
    run = train("Digits", method="LC", network="MLP", epochs=epochs, batch_size=BATCH, seed=seed, threads=1, page=False)
    print(run.report.evidence["sentence"])

    # `rows.estimate.attribute` holds the attributes that the run estimates, where the true ones are unknown.
    rows = Predictions.load(run / "predictions.parquet")
    attribute = pd.Series(rows.attribute_names, name="attribute")[rows.attribute]
    metrics_of_rows = {"accuracy": accuracy_score, "Matthews": matthews_corrcoef}
    frame = MetricFrame(
        metrics=metrics_of_rows, y_true=rows.label, y_pred=rows.prediction, sensitive_features=attribute
    )
    print(frame.by_group.round(3), frame.difference(), sep="\n")

    # Functions of tensors, for any loop: membership (N, G), then accuracies over the groups.
    return compute_group_accuracies(*map(torch.from_numpy, (rows.logits, rows.label, rows.attribute)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
