"""A grid of runs, then predictions, as tasks of joblib: on the processes of this machine, on Ray or on Dask.

    python examples/joblib_grid.py
    python examples/joblib_grid.py --backend ray     # after `pip install ray`
    python examples/joblib_grid.py --backend dask    # after `pip install distributed`

All machines must see the folder, the data and the package under the same paths. The same command continues where it was
stopped. It writes the tables and the page of `logit-correction benchmark`, which the laboratory brings.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config

from logit_correction import load
from logit_correction.data.digits import Digits
from logit_correction_lab.grid import read_grid
from logit_correction_lab.runner import train_grid
from logit_correction_lab.tables import write_results


def predict_labels(folder: Path, part: Any) -> Any:
    """Return the labels that a finished run predicts for a part of the new rows."""
    return load(folder).predict(part)


def main(grid: str = "smoke", out: Path = Path("grid"), backend: str = "loky", jobs: int = 2, seeds: int = 1) -> int:
    if backend == "dask":
        from dask.distributed import Client

        Client()  # Client("address:8786") for a cluster that runs already
    elif backend == "ray":
        from ray.util.joblib import register_ray

        register_ray()
    benchmark = read_grid(grid, seeds)
    with parallel_config(backend, n_jobs=jobs):
        failed = train_grid(benchmark, out)
        write_results(benchmark, out, seeds)

        table = Digits().build()
        parts = np.array_split(table.inputs.fetch(table.split["test"][:400]).numpy(), 4)
        first = next(iter(benchmark.make_cells(out))).folder
        labels = np.concatenate(Parallel()(delayed(predict_labels)(first, part) for part in parts))
    print(len(labels), "rows answered, the first as", labels[0])
    return len(failed)


if __name__ == "__main__":  # the processes of joblib import this file
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", default="smoke", help="a grid of the laboratory, or the path of a YAML file")
    parser.add_argument("--out", type=Path, default=Path("grid"))
    parser.add_argument("--backend", default="loky", help="loky, ray or dask")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time; -1 for all that there is room for")
    parser.add_argument("--seeds", type=int, default=1)
    raise SystemExit(main(**vars(parser.parse_args())))
