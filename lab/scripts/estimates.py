"""How good is the estimate of the minority by one view? Recall and precision against the true attributes.

    python lab/scripts/estimates.py                                        # Corrupted CIFAR-10, texture
    python lab/scripts/estimates.py --data ColoredMNIST --view colour

Nothing is trained but the heads of the view, so a cell takes a minute or two on one core. Prints a table of means over
the seeds, and one line a cell, in which `seconds` is the view and its heads together.
"""

from __future__ import annotations

import argparse
import platform
import time

import torch

from logit_correction.attributes.cross_fitted import CrossFitted
from logit_correction.data import SOURCES
from logit_correction.registry import resolve
from logit_correction.seeds import derive_seed
from logit_correction.types import TrainingRows

RATIOS = (0.005, 0.01, 0.02, 0.05)


def main() -> None:
    """Estimate each cell and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="CorruptedCIFAR10", help="a data source with minority_ratio and seed")
    parser.add_argument("--view", default="texture", help="the view to estimate by")
    parser.add_argument("--seeds", type=int, default=3, help="number of data seeds, from 0")
    parser.add_argument("--ratios", type=float, nargs="+", default=RATIOS, help="minority ratios")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    source = resolve("data source", chosen.data, SOURCES)
    print(f"{chosen.data}, view {chosen.view}; torch {torch.__version__}, {platform.processor() or platform.machine()}")
    means = []
    for ratio in chosen.ratios:
        cells = []
        for seed in range(chosen.seeds):
            table = source(minority_ratio=ratio, seed=seed).build()
            rows = table.split["train"]
            label, attribute = table.label[rows], table.attribute[rows]
            began = time.perf_counter()
            estimator = CrossFitted(view=chosen.view)
            estimator.attach(_no_network, _no_network, table.info, derive_seed(seed, "estimate"))
            estimator.setup(TrainingRows(label, view_inputs=table.view_inputs("train")))
            estimator.finish(None)
            seconds = time.perf_counter() - began
            minority, flagged = attribute != label, estimator.row_attribute != label
            both = int((minority & flagged).sum())
            cells.append((both / max(int(minority.sum()), 1), both / max(int(flagged.sum()), 1)))
            print(
                f"{ratio:6.1%}  seed {seed}  {len(rows):,} rows, {int(minority.sum()):,} minority  "
                f"recall {cells[-1][0]:.3f}  precision {cells[-1][1]:.3f}  {seconds:.0f} seconds",
                flush=True,
            )
        means.append((ratio, torch.tensor(cells).mean(dim=0)))
    print(f"\n| minority ratio | recall | precision |\n|---|---|---|  (means of {chosen.seeds} data seeds)")
    for ratio, (recall, precision) in means:
        print(f"| {ratio:.1%} | {recall:.3f} | {precision:.3f} |")


def _no_network(*_: object) -> torch.nn.Module:
    raise AssertionError("heads on a view need no network")


if __name__ == "__main__":
    main()
