"""``logit-correction evaluate RUN``: the group table of a finished run, on its own data or on new labelled rows."""

from __future__ import annotations

from pathlib import Path

from logit_correction.cli.arguments import Parser, add_trust
from logit_correction.cli.show import print_json
from logit_correction.errors import InputError


def main(arguments: list[str]) -> int:
    """Evaluate a finished run again."""
    parser = Parser("evaluate", "The group table of a finished run, from its checkpoint.")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder that `train` wrote")
    parser.add_argument("--split", choices=("test", "valid", "train"), help="rows to judge on; test by default")
    parser.add_argument(
        "--on",
        type=Path,
        metavar="FOLDER|CSV",
        help="new labelled rows: a folder of image folders, one a label; or a CSV or Parquet file, with the columns of "
        "training or with one of image files, such as path or image",
    )
    parser.add_argument("--label", metavar="COLUMN", help="column of labels in --on; by default that of training")
    parser.add_argument("--attribute", metavar="COLUMN", help="column of attributes in --on; groups are label by it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_trust(parser)
    options = parser.parse_args(arguments)
    from logit_correction.runs.api import load

    trusted = {"trust_code": options.trust_code}
    if options.on is None:
        for name in ("label", "attribute"):
            if getattr(options, name) is not None:
                raise InputError(f"--{name} names a column of new rows: give --on FOLDER|CSV too")
        split = options.split or "test"
        figures, what = load(options.run, **trusted).evaluate(split), f"{split} split"
    elif options.split is not None:
        raise InputError("--split is of the run's own data, and --on of new rows: leave one of them out")
    else:
        figures = load(options.run, **trusted).evaluate(options.on, options.label, options.attribute)
        what = str(options.on)
    if options.json:
        print_json(figures)
    else:
        from logit_correction.pages.console import show_evaluation

        # Beside groups that the run's own data name, estimated ones would tell nothing new.
        named = options.on is None and any(group["attribute"] is not None for group in figures["groups"])
        show_evaluation(figures, f"{options.run}, {what}", None if named else figures["estimated"])
    return 0
