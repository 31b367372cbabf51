"""The page of an audit: for a person who fears a shortcut, and who is no researcher."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from logit_correction.attributes.evidence import Thresholds
from logit_correction.errors import format_list, format_percent
from logit_correction.pages.evidence import block, sentence_of
from logit_correction.pages.html import template
from logit_correction.pages.images import checked_uri
from logit_correction.views.base import phrase

_TEMPLATE = "audit.html.j2"

#: A table has a column for each of so many labels; of more the commonest pairs are listed, so many of them.
MOST_COLUMNS, MOST_PAIRS = 12, 20

#: So many labels are named where there are more of which nothing can be told.
_MOST_NAMES = 10

#: Colours of the ordinary classifier and of LC.
_COLOURS = {"network": "#c2571a", "fixed": "#1f6fb2"}

#: What each verdict is called on top of the page.
_HEADLINES = {
    "shortcut": "A shortcut is likely: {views}.",
    "none found": "No shortcut was found.",
    "cannot tell": "It cannot be told whether there is a shortcut.",
}


#: What is said of a classifier that was given, by whether it leans on the views.
_EXAMINED = {
    True: "This classifier leans on {views}.",
    False: "This classifier does not lean on {views}.",
    None: "It cannot be told whether this classifier leans on {views}.",
}


def render_page(found: Mapping[str, Any], folder: Path) -> str:
    """Return the page as text.

    Args:
        found: Content of ``audit.json``.
        folder: Folder of the audit, for the commands.
    """
    evidence = found["evidence"]
    views = phrase([str(name) for name in found["views"]])
    source = found["data"].get("source") or found["data"]["name"]
    return template(_TEMPLATE).render(
        title=f"Audit of {source}",
        headline=headline(found),
        sentence=sentence_of(evidence),
        found=found,
        views=views,
        evidence=block("audit", {"evidence": evidence, "method_options": {}}),
        bars=_bars(found),
        contrasts=[_checked(one) for one in found["contrasts"]],
        labelled=found.get("labelled"),
        label_lines=label_lines(found["labels"]),
        pairs=_pairs(found) if len(found["labels"]) > MOST_COLUMNS else None,
        commands=_commands(found, folder),
        rows=found["data"]["rows"]["train"],
        what=source,
    )


def headline(found: Mapping[str, Any]) -> str:
    """Return the answer in one short sentence: is there a shortcut, or does a given classifier lean on it?"""
    views, labelled = phrase([str(name) for name in found["views"]]), found.get("labelled")
    if labelled and labelled["confirmed"]:
        return f"A shortcut, confirmed by a person{': ' + views if views else ''}."
    if found["examined"] and views:
        return _EXAMINED[found["leans"]].format(views=views)
    return _HEADLINES[found["verdict"]].format(views=views)


def label_lines(labels: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each label of which something can be told, and one for all the others together."""
    told = [one for one in labels if one.get("sure_rows", 0) >= Thresholds().few_rows]
    others = [str(one["label"]) for one in labels if one not in told]
    lines = [
        f"{one['sentence']} ({format_percent(one['follows_low'], unit='')} to "
        f"{format_percent(one['follows_high'], unit=' %')}): {one['verdict']}"
        for one in told
    ]
    if others and "sure_rows" in labels[0]:
        more = len(others) - _MOST_NAMES
        shown = [*others[:_MOST_NAMES], f"{more:,} more"] if more > 0 else others
        lines.append(f"too few rows to tell of one label alone: {format_list(shown)}")
    return lines


def _pairs(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the commonest pairs of a label and another that its rows look like."""
    conflicting = [one for one in found["groups"] if one["rows"] and one["label"] != one["attribute"]]
    return sorted(conflicting, key=lambda one: -int(one["rows"]))[:MOST_PAIRS]


def _bars(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return for each classifier its accuracy on conflicting and on agreeing rows."""
    return [
        {"who": who, "colour": _COLOURS[who], **entry}
        for who, entry in found["cost"].items()
        if entry["conflicting"]["accuracy"] is not None and entry["agreeing"]["accuracy"] is not None
    ]


def _checked(contrast: Mapping[str, Any]) -> dict[str, Any]:
    """Return a contrast whose images are images, and nothing that a page would load."""
    if contrast["kind"] == "values" and len(contrast["labels"]) > MOST_COLUMNS:
        return {**contrast, "rows": [row | _commonest(row["counts"], contrast["labels"]) for row in contrast["rows"]]}
    if contrast["kind"] != "images":
        return dict(contrast)
    rows = []
    for row in contrast["rows"]:
        kinds = {
            kind: [{**one, "image": uri} for one in row.get(kind, []) if (uri := checked_uri(one["image"]))]
            for kind in ("agree", "conflict")
        }
        rows.append({**row, **kinds})
    return {**contrast, "rows": rows}


def _commonest(counts: Sequence[int], labels: Sequence[str]) -> dict[str, Any]:
    """Return the commonest label of a value."""
    most = max(range(len(counts)), key=counts.__getitem__)
    return {"commonest": labels[most], "count": counts[most]}


def _commands(found: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return what to do next -> by which command."""
    place, question = shlex.quote(str(folder)), found["question"]
    again = f"logit-correction audit --config {place}/config.yaml {{options}} --out another-audit"
    commands = {}
    if found["verdict"] == "shortcut":
        train = "Train a classifier that does not lean on it, by the attributes in rows.csv"
        commands[f"{train}; correct that column first where it is wrong"] = (
            f"logit-correction train --config {place}/fix.yaml --out fixed"
        )
        examine = f"--run fixed {_options('shortcut', found['views'])}"
        commands["See whether it is fixed: examine the new classifier"] = again.format(options=examine)
    if question and found["verdict"] == "cannot tell":
        commands["If it is an accident"] = again.format(options=_options("shortcut", question["views"]))
    if question and found["verdict"] == "shortcut":
        commands["If it is a reason"] = again.format(options=_options("legitimate", question["views"]))
    budget = found.get("label_budget")  # of the sheet that was asked for
    write = "" if budget else f"logit-correction audit --label-budget 100 --out {place}\n"
    commands[f"Be surer: name the attribute of {budget or 100} chosen rows in sheet.csv, and read it back"] = (
        f"{write}logit-correction audit --labels {place}/sheet.csv --out {place}"
    )
    return commands


def _options(name: str, views: Sequence[str]) -> str:
    return " ".join(f"--{name} {shlex.quote(str(view))}" for view in views)
