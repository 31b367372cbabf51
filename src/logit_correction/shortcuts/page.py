"""The page of an audit, for a person who fears a shortcut and is no researcher; its card in a notebook; its lines."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from logit_correction.errors import format_percent
from logit_correction.finding import BASELINE
from logit_correction.pages import plots
from logit_correction.pages.compare import shown_path
from logit_correction.pages.console import console_of, say, show_warnings, table_of
from logit_correction.pages.page import evidence_block, render
from logit_correction.sentences import is_plural, name_views
from logit_correction.shortcuts import words
from logit_correction.shortcuts.words import AuditSummary

#: Pairs of labels that are shown.
MOST_PAIRS = 8


def render_audit(told: AuditSummary, folder: Path, asked: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the page as text; ``folder`` is that of the audit, for the commands, ``asked`` are new rows to label."""
    conflicting = [one for one in told.groups if one["rows"] and one["label"] != one["attribute"]]
    source = told.data.get("source") or told.data["name"]
    # With new rows ``views`` are those of what is trained; all below tells of those that the search found.
    views = told.evidence.views if told.new_rows else told.views
    views = views or (told.question.views if told.question else ())
    return render(
        "audit.html.j2",
        **_first(told),
        title=f"Audit of {source}",
        asked=asked,
        views=name_views(views),
        several=is_plural(views),
        evidence=evidence_block(told.evidence),
        colours={"network": plots.METHOD_COLORS[BASELINE], "fixed": plots.METHOD_COLORS["LC"]},
        contrasts=[
            {
                **one,
                "name": name_views([one["view"]], words.telling_terms([one])),
                "several": is_plural([one["view"]]),
                "places": name_views([f"places:{cell}" for cell in one.get("cells", ())]),
            }
            for one in told.contrasts
        ],
        words=[{**one, "name": name_views([one["view"]])} for one in told.words if one["rows"]],
        pairs=sorted(conflicting, key=lambda one: -int(one["rows"]))[:MOST_PAIRS],
        more_pairs=max(0, len(conflicting) - MOST_PAIRS),
        commands=words.next_commands(told, shlex.quote(shown_path(folder))),
        what=source,
    )


def audit_as_html(told: AuditSummary) -> str:
    """Return what a notebook shows: verdict, price, and a few images where the rows are such."""
    shown = [one for one in told.contrasts if one["kind"] == "images"]
    return render("audit_card.html.j2", **_first(told), contrasts=shown)


def _first(told: AuditSummary) -> dict[str, Any]:
    """Return what a person sees first: the verdict, whether a trial confirms it, what correcting brings and costs."""
    return {
        "found": told,
        "headline": words.headline(told),
        "trial": words.of_trial(told),
        "new": words.of_new_rows(told.new_rows) if told.new_rows else [],
        "candidates": words.candidate_rows(told.new_rows) if told.new_rows else [],
        "price": words.price(told),
        "classifiers": words.classifiers(told),
    }


def show_audit(told: AuditSummary, page: Path) -> None:
    """Print what was found, what to do, and the page."""
    console, first = console_of(), _first(told)
    say(console, first["headline"], "bold")
    for text in first["new"] or (told.sentence, first["trial"]):
        if text:
            say(console, f"{text}.")
    if told.new_rows:
        console.print(table_of(pd.DataFrame(first["candidates"])))
    elif first["price"]:
        names = first["classifiers"]
        lines = [[line["name"], *(_with_interval(line[who]) for who in names)] for line in first["price"]]
        console.print(table_of(pd.DataFrame(lines, columns=["Accuracy, %, on rows not trained on", *names.values()])))
    if not told.new_rows:
        if told.question:
            say(console, told.question.text)
        if told.would_change and not (told.question and told.verdict == "cannot tell"):  # then the commands say it
            say(console, told.would_change)
    show_warnings(told.data["warnings"], console)
    commands = words.next_commands(told, shlex.quote(str(page.parent)))
    for what, command in list(commands.items())[: 1 if told.examined else 2]:
        say(console, f"{what} {command}")
    say(console, f"page: {page}")


def _with_interval(figure: Mapping[str, Any]) -> str:
    value, low, high = (format_percent(figure[name], unit="") for name in ("accuracy", "low", "high"))
    return f"{value} ({low} to {high})"
