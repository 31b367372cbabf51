"""The page of an audit, its card in a notebook, and what the terminal prints."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from logit_correction.finding import BASELINE
from logit_correction.pages import plots
from logit_correction.pages.answering import OpenSheet, build_answering_form
from logit_correction.pages.compare import format_path
from logit_correction.pages.console import (
    MAX_WORD_LENGTH_OF_MANY,
    build_console_table,
    make_console,
    print_verbatim,
    print_warnings,
    print_wrapped,
)
from logit_correction.pages.page import build_evidence_context, render_template
from logit_correction.shortcuts.audit_text import (
    build_accuracy_change_table,
    describe_audit,
    describe_corrections,
    describe_view_shifts,
    format_interval,
    get_classifier_display_names,
    list_headline_terms,
)
from logit_correction.shortcuts.summaries import AuditSummary, get_doubtful_views
from logit_correction.view_names import format_view_names, is_plural_phrase, list_full_view_names

#: Pairs of labels that the page shows.
MAX_PAIRS = 8


def render_audit_page(
    summary: AuditSummary, audit_dir: Path, sheet: OpenSheet | None = None, pictures: Mapping[str, str] | None = None
) -> str:
    """Return the page of an audit.

    Args:
        summary: Of the audit.
        audit_dir: That of the audit, which commands name.
        sheet: Rows to label, if there are any.
        pictures: Number of a row that was answered -> its picture as a data URI.
    """
    record = summary.record
    # The views of the rest of the page are those that the search found, also where new rows select another candidate.
    views = summary.views if summary.selection is None else record.finding.views
    views = views or get_doubtful_views(record.finding)
    conflicting = [group for group in record.groups if group.rows and group.label != group.attribute]
    source = record.data.source or record.data.name
    return render_template(
        "audit.html.j2",
        **_build_first_screen(summary, shlex.quote(format_path(audit_dir))),
        pictures=pictures or {},
        title=f"Audit of {source}",
        what=source,
        verdict=summary.verdict,
        answering=build_answering_form(sheet, record.data.label_names) if sheet else None,
        views=format_view_names(views),
        several=is_plural_phrase(views),
        evidence=build_evidence_context(record.finding),
        colours={"network": plots.METHOD_COLORS[BASELINE], "fixed": plots.METHOD_COLORS["LC"]},
        contrasts=[
            {
                **vars(contrast),
                "name": format_view_names([contrast.view], list_headline_terms([contrast])),
                "several": is_plural_phrase([contrast.view]),
            }
            for contrast in record.contrasts
        ],
        pairs=sorted(conflicting, key=lambda group: -group.rows)[:MAX_PAIRS],
        more_pairs=max(0, len(conflicting) - MAX_PAIRS),
    )


def render_audit_card(summary: AuditSummary) -> str:
    """Return what a notebook shows: the text, accuracies, and some images where the rows are images."""
    first_screen = _build_first_screen(summary)
    contrasts = next(iter(first_screen["corrections"].values()), summary.record.contrasts)
    return render_template("audit_card.html.j2", **first_screen, contrasts=contrasts, views=summary.views)


def _build_first_screen(summary: AuditSummary, shown_audit_dir: str = "audit") -> dict[str, Any]:
    selection = summary.selection
    return {
        "text": describe_audit(summary, shown_audit_dir),
        "record": summary.record,
        "selection": selection,
        "examined": summary.examined,
        "spelled_out": list_full_view_names(result.views for result in selection.candidates) if selection else [],
        "price": build_accuracy_change_table(summary),
        "classifiers": get_classifier_display_names(summary),
        "has_cost": bool(summary.cost),
        "view_shifts": describe_view_shifts(selection) if selection else [],
        "corrections": describe_corrections(selection) if selection else {},
    }


def print_audit(summary: AuditSummary, page: Path) -> None:
    """Print the verdict, what to do, and where the page is.

    Args:
        summary: Of the audit.
        page: File of the page, in the audit's folder.
    """
    console = make_console()
    text = describe_audit(summary, shlex.quote(str(page.parent)))
    print_wrapped(console, text.headline, "bold")
    for sentence in filter(None, (*text.sentences, text.trial, *text.short)):
        print_wrapped(console, f"{sentence}.")
    price = build_accuracy_change_table(summary)
    if summary.selection is not None:
        console.print(build_console_table(pd.DataFrame(text.candidates), max_word_length=MAX_WORD_LENGTH_OF_MANY))
        for line in list_full_view_names(result.views for result in summary.selection.candidates):
            print_wrapped(console, line)
    elif price:
        names = get_classifier_display_names(summary)
        lines = [[line["name"], *(format_interval(line[name]) for name in names)] for line in price]
        columns = ["Accuracy, %, on rows not trained on", *names.values()]
        console.print(build_console_table(pd.DataFrame(lines, columns=columns)))
    if text.question:
        print_wrapped(console, text.question)
    if text.advice and not (text.question and summary.verdict == "cannot tell"):  # then the commands say it
        print_wrapped(console, text.advice)
    print_warnings(list(summary.record.data.warnings), console)
    num_commands = 1 if summary.examined else 2
    for purpose, command in list(text.commands.items())[:num_commands]:
        print_wrapped(console, purpose)
        print_verbatim(console, f"  {command}")
    print_verbatim(console, f"page: {page}")
