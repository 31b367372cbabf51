"""A program asks a run through pipes, some rows at a time.

python examples/serve_rows.py

In training the version of a form goes with the label. Among the rows to answer it does not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from scikit_learn_pipeline import rows

from logit_correction import from_table, train
from logit_correction.functional import group_balanced_accuracy, group_membership, worst_group_accuracy


def main(epochs: int = 15, seed: int = 0) -> dict[str, float]:
    people, income, _ = rows(seed, "train")
    data = from_table(people.assign(income=income), label="income", features="*")
    test, label, attribute = rows(seed, "test")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "run")
        run = train(data, folder, method="LC", epochs=epochs, seed=seed, threads=1, page=False)
        print(run.report["evidence"]["sentence"])

        command = [sys.executable, "-m", "logit_correction", "predict", str(folder), "-"]
        answers = []
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdin is not None and server.stdout is not None
            for first in range(0, len(test), 100):
                asked = test[first : first + 100]
                server.stdin.write(asked.to_json(orient="records", lines=True))
                server.stdin.flush()
                if first == 0:
                    server.stdout.readline()  # line,label,probability_...
                answers += [server.stdout.readline().split(",")[1] for _ in range(len(asked))]
            server.stdin.close()  # the end of the rows

    names = np.unique(income)
    true, predicted = (torch.from_numpy(np.searchsorted(names, one)) for one in (label, np.array(answers)))
    groups = group_membership(true, torch.from_numpy(attribute), len(names), int(attribute.max()) + 1)
    return {
        "group_balanced": float(group_balanced_accuracy(predicted, true, groups)),
        "worst_group": float(worst_group_accuracy(predicted, true, groups)),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
