"""``logit-correction audit``: is there a shortcut in data without group labels, what is it, which rows?"""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from logit_correction.cli.arguments import Parser
from logit_correction.errors import InputError

#: Exit status where --fail-on names the verdict.
FOUND = 3

#: Options that `train` has and an audit has not.
NOT_HERE = ("--method", "--preset", "--resume", "--seeds", "--biased_network", "--selection")


def main(arguments: list[str]) -> int:
    """Audit a data set, or go on with a finished audit."""
    options, rest = _parsed(arguments)
    if options.labels is not None or (options.label_budget is not None and not rest):
        return _go_on(options, rest)
    from logit_correction.auditing.api import audit
    from logit_correction.cli.train_arguments import parse
    from logit_correction.cli.words import option_of
    from logit_correction.errors import Interrupted

    for word in rest:
        head = option_of(word)
        if head.removesuffix(".name").partition(".")[0] in NOT_HERE:
            raise InputError(
                f"an audit takes no {head}: it trains ordinary networks, and LC to see what it would bring"
            )
    order = parse([*rest, "--method", "LC", "--out", str(options.out)])
    try:
        found = audit(
            order.config,
            options.out,
            run=options.run,
            predictions=options.predictions,
            shortcut=options.shortcut or (),
            legitimate=options.legitimate or (),
            try_fix=options.try_fix == "true",
            label_budget=options.label_budget,
            progress=True,
        )
    except Interrupted:
        print("stopped; an audit begins anew when it is started again", file=sys.stderr)
        return 130
    return _show(found.summary, options)


def _parsed(arguments: list[str]) -> tuple[Namespace, list[str]]:
    """Return the audit's own options, and the words that are options of the data, the network and the training."""
    parser = Parser(
        "audit",
        "Look for a shortcut in a data set without group labels: what it is, which rows, what it costs. Beside the "
        "options below it takes --data (a folder of images, a table's file or a data source), --network and all others "
        "that `train` has of data and training.",
    )
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="folder to write, or a finished audit")
    add("--run", type=Path, metavar="RUN", help="examine this finished run, by the validation rows")
    answers = "examine any classifier: a table of held-out rows with row or path, and probability_LABEL"
    add("--predictions", type=Path, metavar="FILE", help=answers)
    add("--shortcut", action="append", metavar="VIEW", help="a view known to be a shortcut; may be repeated")
    add("--legitimate", action="append", metavar="VIEW", help="a view known to be none; may be repeated")
    fix = "where there is a shortcut, train LC in folds to see what it would bring; true by default"
    add("--try-fix", choices=("true", "false"), default="true", metavar="true|false", help=fix)
    fail = f"exit with status {FOUND} on this verdict, shortcut or 'cannot tell': for CI"
    add("--fail-on", choices=("shortcut", "cannot tell"), metavar="VERDICT", help=fail)
    budget = "write sheet.csv, N rows whose attribute a person should name; also of a finished audit"
    add("--label-budget", type=int, metavar="N", help=budget)
    add("--labels", type=Path, metavar="FILE", help="read a filled-in sheet back into a finished audit")
    add("--json", action="store_true", help="print audit.json")
    own = {name.replace("-", "_"): name for name in ("try-fix", "fail-on", "label-budget")}
    heads = [argument.partition("=") for argument in arguments]
    words = [
        f"--{own[head[2:]]}{equals}{tail}" if head[2:] in own else head + equals + tail for head, equals, tail in heads
    ]
    return parser.parse_known_args(words)


def _go_on(options: Namespace, rest: list[str]) -> int:
    """Write the sheet of a finished audit, or read it back."""
    from logit_correction.auditing.folder import add_labels, add_sheet

    if rest:
        raise InputError(f"--labels goes on with the audit in --out, so {rest[0]} is of no effect: leave it out")
    if options.label_budget is not None:
        if options.labels is not None:
            raise InputError("--label-budget writes a sheet and --labels reads it back: give one at a time")
        add_sheet(options.out, options.label_budget)
        print(_what_to_fill_in(options.out))
        return 0
    return _show(add_labels(options.out, options.labels), options)


def _what_to_fill_in(out: Path) -> str:
    """Return what a person does with the sheet."""
    from logit_correction.auditing.folder import SHEET

    sheet = out / SHEET
    command = shlex.join(["logit-correction", "audit", "--labels", str(sheet), "--out", str(out)])
    return f"fill in the column attribute of {sheet}, then: {command}"


def _show(found: dict[str, Any], options: Namespace) -> int:
    """Print the verdict, what it costs and where the page is; return the exit status."""
    from logit_correction.attributes.evidence import Thresholds
    from logit_correction.cli.show import print_json
    from logit_correction.pages.console import show_audit

    if options.json:
        print_json({name: value for name, value in found.items() if name not in ("contrasts", "shown")})
    else:
        to_fill_in = "" if options.label_budget is None else _what_to_fill_in(options.out)
        show_audit(found, Thresholds().few_rows, options.out / "report.html", to_fill_in)
    return FOUND if options.fail_on == found["verdict"] else 0
