"""The page of an audit, from ``audit.json``: for a person who fears a shortcut, and who is no researcher."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from logit_correction import sentences
from logit_correction.pages.page import evidence_block, render, shown_path
from logit_correction.pages.plots import METHOD_COLORS
from logit_correction.sentences import BASELINE, called, name_views
from logit_correction.views.texts import OUTERMOST

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
        contrasts=[_told(one) for one in found["contrasts"]],
        words=[_spelled(one) | {"name": name_views([one["view"]])} for one in found.get("words") or [] if one["rows"]],
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
    name = sentences.capitalize(called(found["classifier"]).removeprefix("the "))
    classifiers = {"network": name} | ({"fixed": "LC"} if "fixed" in found["cost"] else {})
    told = {"found": found, "headline": sentences.headline(found), "price": sentences.price(found["cost"])}
    return {**told, "classifiers": classifiers}


def _spelled(contrast: Mapping[str, Any]) -> dict[str, Any]:
    """Return terms with the outermost word of a text told in words."""
    where, rows = "first word" if contrast["view"] == "opening" else "last word", []
    for row in contrast["rows"]:
        outermost = str(row.get("term")).startswith(OUTERMOST)
        rows.append(row | {"term": f"{row['term'][1:]} ({where})"} if outermost else row)
    return {**contrast, "rows": rows}


def _told(contrast: Mapping[str, Any]) -> dict[str, Any]:
    """What words or values tell of the label: of each its commonest label, and the rows of this and of others."""
    if contrast["kind"] == "images":
        return dict(contrast)
    rows = [{"name": row.get("term") or row["value"], **row} for row in _spelled(contrast)["rows"]]
    for row in rows:
        if "counts" in row:
            most = max(row["counts"])
            row |= {"label": contrast["labels"][row["counts"].index(most)], "rows": most}
            row["other_rows"] = sum(row["counts"]) - most
    named = name_views([contrast["view"]], sentences.telling_terms([contrast]))
    return {"more": 0, **contrast, "name": named, "rows": rows}
