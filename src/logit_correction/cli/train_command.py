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
    from logit_correction.errors import Interrupted
    from logit_correction.pages.console import announce, show_runs
    from logit_correction.pages.page import write_page
    from logit_correction.training.display import choose_display

    try:
        from logit_correction.runs.folder import PAGE, is_finished
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
        if seeds > 1:
            write_page(folders, out / PAGE)
        show_runs(folders, out / PAGE)
    return 0


def _again(arguments: list[str], out: Path, seeds: int) -> str:
    """Return the arguments that go on with what was stopped."""
    if seeds == 1:
        return f"--resume --out {shlex.quote(str(out))}"
    return shlex.join([*(argument for argument in arguments if argument != "--resume"), "--resume"])
