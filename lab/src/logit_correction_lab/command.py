"""The command ``logit-correction benchmark``."""

from __future__ import annotations

from pathlib import Path

from jsonargparse.typing import PositiveInt


def benchmark_command(
    name: str,
    *,
    row: Path | None = None,
    reference: str | None = None,
    seeds: PositiveInt | None = None,
    jobs: PositiveInt | None = None,
    out: Path | None = None,
) -> int:
    """Train a grid of methods, data sets and seeds.

    The same command continues where it stopped. Start it several times, also on machines that share the folder, to
    share the work. Writes report.html, table.csv (one row per run and selection rule), table.md, predictions.parquet,
    the figures as SVG, and benchmark.yaml, of what is finished also where it is stopped.

    Args:
        name: a benchmark of the laboratory, the path of a .yaml file, or `list` to see their names
        row: YAML file of rows of your own, such as `mine: {method: {name: my_method.Mine}}`; finished runs of the grid
            in --out are reused
        reference: row from which paired differences are taken; the best row of each column by default
        seeds: number of seeds; the benchmark's own by default
        jobs: runs that train at the same time; 1 by default
        out: folder to write; benchmark-NAME by default
    """
    from joblib import parallel_config

    from logit_correction_lab.grid import read_grid, read_shipped_titles
    from logit_correction_lab.runner import DataMissing, train_grid
    from logit_correction_lab.tables import write_results

    if name == "list":
        titles = read_shipped_titles()
        width = max(map(len, titles)) + 2
        print("benchmarks:")
        for grid_name, title in titles.items():
            print(f"  {grid_name:<{width}}{title}")
        return 0
    grid = read_grid(name, seeds, row, reference)
    out = out or Path(f"benchmark-{grid.name}")
    try:
        with parallel_config("loky", n_jobs=jobs or 1, inner_max_num_threads=1):  # one core for each run
            failed = train_grid(grid, out)
    except (DataMissing, KeyboardInterrupt):
        write_results(grid, out, seeds)  # finished runs; without any, the paper's figures and empty cells
        raise
    write_results(grid, out, seeds)
    return 1 if failed else 0
