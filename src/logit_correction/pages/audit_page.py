"""The page of an audit, from ``audit.json``: for a person who fears a shortcut, and who is no researcher."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from logit_correction import sentences
from logit_correction.pages.page import evidence_block, render, shown_path
from logit_correction.pages.plots import METHOD_COLORS
from logit_correction.sentences import BASELINE, name_views

#: Pairs of labels that are listed, the commonest first.
MOST_PAIRS = 8


def render_audit(found: Mapping[str, Any], folder: Path) -> str:
    """Return the page as text, given the content of ``audit.json`` and the folder of the audit, for the commands."""
    conflicting = [one for one in found["groups"] if one["rows"] and one["label"] != one["attribute"]]
    source, asked = found["data"].get("source") or found["data"]["name"], found["question"]
    views = found["views"] or (asked["views"] if asked else [])
    return render(
        "audit.html.j2",
        **_first(found),
        title=f"Audit of {source}",
        views=name_views(views),
        several=sentences.is_plural(views),
        sure_rows=found["evidence"].get("rows") or 0,
        evidence=evidence_block(found["evidence"]),
        colours={"network": METHOD_COLORS[BASELINE], "fixed": METHOD_COLORS["LC"]},
        contrasts=[
            {**one, "name": name_views([one["view"]], sentences.telling_terms([one]))} for one in found["contrasts"]
        ],
        words=[{**one, "name": name_views([one["view"]])} for one in found.get("words") or [] if one["rows"]],
        labelled=found.get("labelled"),
        trial=sentences.of_trial(found["cost"]),
        label_lines=sentences.label_lines(found["labels"]),
        pairs=sorted(conflicting, key=lambda one: -int(one["rows"]))[:MOST_PAIRS],
        commands=sentences.next_commands(found, shlex.quote(shown_path(folder))),
        rows=found["data"]["rows"]["train"],
        what=source,
    )


def audit_as_html(found: Mapping[str, Any]) -> str:
    """Return what a notebook shows of ``audit.json``: verdict, price, and a few images where the rows are such."""
    shown = [one for one in found["contrasts"] if one["kind"] == "images"]
    return render("audit_card.html.j2", **_first(found), contrasts=shown)


def _first(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a person sees first: the verdict, and what correcting brings and costs."""
    told = {"headline": sentences.headline(found), "price": sentences.price(found["cost"])}
    return {"found": found, "classifiers": sentences.classifiers(found), **told}
