"""``logit-correction train``: trains, evaluates and writes a run folder."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

from logit_correction.cli.train_arguments import parse


def main(arguments: list[str]) -> int:
    """Train, evaluate and write a run folder."""
    config, out, resume, seeds, print_config = parse(arguments)
    if print_config:
        print(config.to_yaml(), end="")
        return 0
    from logit_correction.cli.show import announce, show_run
    from logit_correction.training.display import choose_display
    from logit_correction.training.interrupt import Interrupted

    try:
        from logit_correction.runs.folder import is_finished
        from logit_correction.runs.train import is_first_process, train

        folders: list[Path] = []
        for seed in range(config.training.seed, config.training.seed + seeds):
            own = replace(config, training=replace(config.training, seed=seed))
            folder, tell = out if seeds == 1 else out / f"seed-{seed}", None if folders else announce
            there = resume or (seeds > 1 and is_finished(folder))
            folders.append(train(own, folder, resume=there, display=choose_display(), announce=tell))
    except Interrupted:
        print(f"stopped; go on with: logit-correction train {_again(arguments, out, seeds)}", file=sys.stderr)
        return 130
    if is_first_process(config.training):
        show_run(folders[0]) if seeds == 1 else _show_seeds(folders, out)
    return 0


def _show_seeds(folders: list[Path], out: Path) -> None:
    """Print the figures of all seeds with their mean and spread, and write one page of them."""
    from rich.console import Console

    from logit_correction.cli.show import show_evidence
    from logit_correction.pages.html import write_page
    from logit_correction.pages.tables import comparison_table, reports_of, to_console
    from logit_correction.runs.folder import PAGE

    reports = reports_of(folders)
    table, console = comparison_table(reports), Console()
    console.print(to_console(table))
    for report in reports:
        show_evidence(report, console, f"seed {report['seed']}: ")
    for name in ("estimated_minority", "average", "group_balanced", "worst_group"):
        if name in table and bool(table[name].notna().all()):
            mean, spread = 100 * table[name].mean(), 100 * table[name].std()
            what = name.replace("_", "-") if name != "estimated_minority" else "conflict (est.)"
            console.print(f"{what}: {mean:.1f} % in the mean of {len(table)} seeds, standard deviation {spread:.1f}")
    write_page(folders, out / PAGE)
    console.print(f"page: {out / PAGE}", highlight=False, markup=False, soft_wrap=True)


def _again(arguments: list[str], out: Path, seeds: int) -> str:
    """Return the arguments that go on with what was stopped."""
    if seeds == 1:
        return f"--resume --out {shlex.quote(str(out))}"
    return shlex.join([*(argument for argument in arguments if argument != "--resume"), "--resume"])
