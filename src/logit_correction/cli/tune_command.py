"""``logit-correction tune``: options of a run chosen by validation rows, without attribute labels unless asked to."""

from __future__ import annotations

import sys

from logit_correction.cli.arguments import Parser
from logit_correction.cli.stopping import stopped
from logit_correction.cli.train_arguments import parse
from logit_correction.errors import InputError

USAGE = """usage: logit-correction tune --data NAME --method NAME [options of `train`] --trials N
           [--objective RULE] [--jobs J] --out DIR

Tries learning rate, weight decay and the method's own options, and writes trials.html, best.yaml and a run folder for
each trial. The same command goes on where it stopped; with a greater --trials it goes further. Needs Optuna
(`pip install 'logit-correction[tune]'`).

  --trials N         how many trials in all, beside the run with the options as given
  --objective RULE   selection rule that judges a run by its validation rows (`list rules`); by default
                     valid_estimated_group_balanced, of methods without estimates valid_worst_class: neither reads
                     an attribute
  --jobs J           runs at a time; 1 by default

All other options are those of `train`: logit-correction train --data NAME --method NAME --help"""


def main(arguments: list[str]) -> int:
    """Tune options and write the page of the trials."""
    if not arguments or "-h" in arguments or "--help" in arguments:
        print(USAGE)
        return 0 if arguments else 2
    parser = Parser("tune", "")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--objective")
    own, rest = parser.parse_known_args(arguments)
    order = parse(rest)
    if order.seeds != 1 or order.resume or order.print_config:
        raise InputError("tune takes no --seeds, --resume or --print_config: the same command goes on by itself")
    if own.trials is None:
        raise InputError("--trials is missing: give the number of trials")
    for name in ("trials", "jobs"):
        if getattr(own, name) < 1:
            raise InputError(f"--{name} is {getattr(own, name)}, but must be a whole number, at least 1")
    from logit_correction.tuning import tune
    from logit_correction.tuning.study import BEST, PAGE

    try:
        best = tune(
            order.config,
            order.out,
            own.trials,
            objective=own.objective,
            jobs=own.jobs,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
    except KeyboardInterrupt:
        return stopped("tune", *arguments)
    print(f"best: {best}\noptions: {order.out / BEST}\npage: {order.out / PAGE}")
    return 0
