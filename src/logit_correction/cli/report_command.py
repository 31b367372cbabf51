"""``logit-correction report RUN...``: one page that compares runs."""

from __future__ import annotations

from pathlib import Path

from logit_correction.cli.arguments import Parser


def main(arguments: list[str]) -> int:
    """Write the page; it is made from the run folders alone, without a model."""
    parser = Parser("report", "One self-contained page that compares runs.")
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders that `train` wrote")
    parser.add_argument("--out", type=Path, help="the page; report.html in the last run's folder by default")
    options = parser.parse_args(arguments)
    from logit_correction.evaluation.report import check_finished
    from logit_correction.pages.page import write_page
    from logit_correction.runs.folder import PAGE, check_parent

    for run in options.runs:
        check_finished(run)
    out = options.out or options.runs[-1] / PAGE
    check_parent(out)
    write_page(options.runs, out)
    print(out)
    return 0
