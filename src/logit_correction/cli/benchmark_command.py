"""``logit-correction benchmark NAME|FILE``: a grid of runs that resumes where it stopped."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from logit_correction.cli.arguments import Parser
from logit_correction.cli.show import lines_of
from logit_correction.cli.stopping import stoppable, stopped
from logit_correction.errors import InputError, check_range

if TYPE_CHECKING:
    from logit_correction.bench import Benchmark
    from logit_correction.bench.executors import Executor

DESCRIPTION = """A grid of runs. The same command goes on where it stopped; started several times, on machines that
share the folder too, it shares the work. Writes table.csv (one row a run and selection rule), table.md, table.tex, the
figures as SVG and PNG, and benchmark.yaml."""


def main(arguments: list[str]) -> int:
    """Run a grid and write its tables and figures."""
    options = _parser().parse_args(arguments)
    from logit_correction import bench as grids

    if options.name == "list":
        print(lines_of(list(grids.shipped().items())))
        return 0
    _check(options)
    grid = grids.read(options.name, options.seeds)
    out = options.out or Path(f"benchmark-{grid.name}")
    from logit_correction.bench.progress import choose_progress

    try:
        executor = _executor(options, out)  # first, since Ray has a handler of SIGTERM too
        with stoppable():
            failed = grids.run(grid, out, executor, choose_progress(), options.also)
    except KeyboardInterrupt:
        return stopped("benchmark", *arguments)
    except grids.DataMissing:
        _write(grid, out, options)  # the figures of the paper beside empty cells
        raise
    _write(grid, out, options)
    return 1 if failed else 0


def _parser() -> Parser:
    parser = Parser("benchmark", DESCRIPTION)
    parser.add_argument("name", metavar="NAME|FILE", help="a shipped benchmark, a .yaml file, or `list`")
    parser.add_argument("--seeds", type=int, help="number of seeds; the benchmark's own by default")
    parser.add_argument(
        "--jobs",
        type=int,
        help="runs at a time (default: 1; with ray as many as the cluster has processors, with slurm 32)",
    )
    parser.add_argument("--out", type=Path, help="folder to write (default: benchmark-NAME)")
    parser.add_argument(
        "--also",
        type=Path,
        nargs="+",
        default=[],
        metavar="DIR",
        help="further folders of the same benchmark, whose finished runs are not run again and count in the tables",
    )
    parser.add_argument(
        "--executor",
        choices=("processes", "ray", "slurm"),
        default="processes",
        help="where to train: processes of this machine (default); ray: the cluster at RAY_ADDRESS, else one here; "
        "slurm: a job for each run, of the partition and the time that SBATCH_PARTITION and SBATCH_TIMELIMIT name",
    )
    parser.add_argument(
        "--gpus-per-run", type=float, default=0.0, help="GPUs that Ray or SLURM keeps for each run (default: 0)"
    )
    return parser


def _check(options: Namespace) -> None:
    for name in ("jobs", "seeds"):
        value = getattr(options, name)
        if value is not None:
            check_range(f"--{name}", value, 1, 10_000)
    if not 0 <= options.gpus_per_run < float("inf"):
        raise InputError(f"--gpus-per-run is {options.gpus_per_run}, but must not be negative")
    if options.gpus_per_run and options.executor == "processes":
        raise InputError(
            "--gpus-per-run is for --executor ray or slurm: processes of one machine share its GPU as they are"
        )


def _executor(options: Namespace, out: Path) -> Executor:
    from logit_correction.bench import ProcessExecutor, RayExecutor

    if options.executor == "ray":
        return RayExecutor(options.jobs, options.gpus_per_run)
    if options.executor == "slurm":
        from logit_correction.bench.slurm import SlurmExecutor

        return SlurmExecutor(options.jobs, out.absolute() / ".slurm", options.gpus_per_run)
    return ProcessExecutor(options.jobs or 1)


def _write(grid: Benchmark, out: Path, options: Namespace) -> None:
    """Write the tables and figures, and print the tables."""
    from logit_correction.bench import find, history, results, slug
    from logit_correction.bench.figures import figures
    from logit_correction.bench.tables import latex, markdown
    from logit_correction.files import replacing, write_text

    found = find(grid, out, options.also)
    frame = results(grid, out, found=found)
    text = markdown(grid, frame, found.notes)
    with replacing(out / "table.csv") as temporary:
        frame.to_csv(temporary, index=False)
    write_text(out / "table.md", text)
    write_text(out / "table.tex", latex(grid, frame))
    changed = f"# Run with --seeds {options.seeds}.\n" if options.seeds is not None else ""
    write_text(out / "benchmark.yaml", changed + grid.text)
    for figure in figures(grid, frame, history(grid, out, found=found)):
        name = figure.kind + ("" if figure.column is None else f"-{slug(figure.column)}")
        write_text(out / f"{name}.svg", figure.svg + "\n")
        with replacing(out / f"{name}.png") as temporary:
            temporary.write_bytes(figure.png)
    print(text)
