r"""The tables of a benchmark as LaTeX, with the rules of booktabs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from logit_correction.render.benchmark_summary import Entry, Table, tables

if TYPE_CHECKING:
    from logit_correction.benchmark import Benchmark

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


def escape(text: str) -> str:
    r"""Return text that LaTeX prints as it is.

    >>> print(escape("LC_1 & 5 %"))
    LC\_1 \& 5 \%
    """
    return "".join(_ESCAPES.get(character, character) for character in text)


def latex(benchmark: Benchmark, frame: pd.DataFrame) -> str:
    r"""Return a ``table`` environment for each selection rule; needs ``\usepackage{booktabs}``.

    Args:
        benchmark: The grid.
        frame: What ``benchmark.results`` returns: one row per finished run and selection rule.
    """
    head = "% Needs \\usepackage{booktabs}.\n"
    if frame.empty:
        head += "% No run is finished.\n"
    return head + "\n".join(_latex(benchmark.title, table) for table in tables(benchmark, frame))


def _latex(title: str, table: Table) -> str:
    kinds = "".join("rr" if paper else "r" for paper in table.paper)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(title)}. {escape(table.caption)}}}",
        rf"\begin{{tabular}}{{ll{kinds}}}",
        r"\toprule",
        *_head(table),
        r"\midrule",
    ]
    for line in table.lines:
        cells = [escape(line.name), escape(line.information)]
        for entry, paper in zip(line.entries, table.paper, strict=True):
            cells += [_shown(entry), escape(entry.paper)] if paper else [_shown(entry)]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _head(table: Table) -> list[str]:
    """The names of the columns; above ours and the paper's figures, if there are such."""
    if not any(table.paper):
        return [" & ".join([" & group information", *map(escape, table.columns)]) + r" \\"]
    names, rules, below, place = [" & group information"], [], [" & "], 3
    for column, paper in zip(table.columns, table.paper, strict=True):
        if paper:
            names.append(rf"\multicolumn{{2}}{{c}}{{{escape(column)}}}")
            rules.append(rf"\cmidrule(lr){{{place}-{place + 1}}}")
            below += ["ours", "paper"]
        else:
            names.append(escape(column))
            below.append("ours")
        place += 2 if paper else 1
    return [" & ".join(names) + r" \\", " ".join(rules), " & ".join(below) + r" \\"]


def _shown(entry: Entry) -> str:
    return rf"\textbf{{{escape(entry.text)}}}" if entry.best else escape(entry.text)
