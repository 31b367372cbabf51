"""The page of an audit, from ``audit.json``: for a person who fears a shortcut, and who is no researcher."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from logit_correction import sentences
from logit_correction.pages.page import evidence_block, render, shown_path
from logit_correction.sentences import name_views

#: Of more labels the commonest pairs are listed, so many of them.
MOST_COLUMNS, MOST_PAIRS = 12, 20

#: Colours of the ordinary classifier and of LC.
_COLOURS = {"network": "#c2571a", "fixed": "#1f6fb2"}


def render_audit(found: Mapping[str, Any], folder: Path) -> str:
    """Return the page as text, given the content of ``audit.json`` and the folder of the audit, for the commands."""
    conflicting = [one for one in found["groups"] if one["rows"] and one["label"] != one["attribute"]]
    return render(
        "audit.html.j2",
        **_first(found),
        title=f"Audit of {_source(found)}",
        found=found,
        views=name_views(found["views"]),
        evidence=evidence_block(found["evidence"]),
        contrasts=[_named(one) for one in found["contrasts"]],
        labelled=found.get("labelled"),
        label_lines=sentences.label_lines(found["labels"]),
        pairs=sorted(conflicting, key=lambda one: -int(one["rows"]))[:MOST_PAIRS],
        most_columns=MOST_COLUMNS,
        commands=_commands(found, shlex.quote(shown_path(folder))),
        rows=found["data"]["rows"]["train"],
        what=_source(found),
    )


def audit_as_html(found: Mapping[str, Any]) -> str:
    """Return what a notebook shows of ``audit.json``: verdict, price, and a few images where the rows are such."""
    shown = [one for one in found["contrasts"] if one["kind"] == "images"]
    return render("audit_card.html.j2", **_first(found), contrasts=shown, fix=found["verdict"] == "shortcut")


def _source(found: Mapping[str, Any]) -> str:
    return str(found["data"].get("source") or found["data"]["name"])


def _first(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a person sees first: the verdict, and what correcting brings and costs."""
    return {
        "headline": sentences.headline(found),
        "sentence": found["evidence"]["sentence"],
        "price": sentences.price(found["cost"]),
        "bars": [
            {"who": who, "colour": _COLOURS[who], **entry}
            for who, entry in found["cost"].items()
            if entry["conflicting"]["accuracy"] is not None and entry["agreeing"]["accuracy"] is not None
        ],
    }


def _named(contrast: Mapping[str, Any]) -> dict[str, Any]:
    terms = [row["term"] for row in contrast["rows"][:2]] if contrast["kind"] == "terms" else ()
    return {**contrast, "name": name_views([contrast["view"]], terms)}


def _commands(found: Mapping[str, Any], place: str) -> dict[str, str]:
    """Return what to do next -> by which command."""
    asked, verdict = found["question"], found["verdict"]
    again = f"logit-correction audit --config {place}/config.yaml {{}} --out another-audit"
    commands = {}
    if verdict == "shortcut":
        train = "Train a classifier that does not rely on it, by the attributes in rows.csv; correct that column first"
        commands[f"{train} where it is wrong"] = f"logit-correction train --config {place}/fix.yaml --out fixed"
        examine = f"--run fixed {sentences.options('shortcut', found['views'])}"
        commands["See whether it is fixed: examine the new classifier"] = again.format(examine)
    if asked and verdict == "cannot tell":
        commands["If it is an accident"] = again.format(sentences.options("shortcut", asked["views"]))
    if asked and verdict == "shortcut":
        commands["If it is a reason"] = again.format(sentences.options("legitimate", asked["views"]))
    budget = found.get("label_budget")  # of the sheet that was asked for
    if budget or found["rows"]["conflicting"]:  # without conflicting rows there is nothing to be surer of
        write = "" if budget else f"logit-correction audit --label-budget 100 --out {place}\n"
        commands[f"Be surer: name the attribute of {budget or 100} chosen rows in sheet.csv, and read it back"] = (
            f"{write}logit-correction audit --labels {place}/sheet.csv --out {place}"
        )
    return commands
