"""The page of an audit, from ``audit.json``: for a person who fears a shortcut, and who is no researcher."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from logit_correction import sentences
from logit_correction.pages.images import checked_uri
from logit_correction.pages.page import evidence_block, render, shown_path
from logit_correction.sentences import name_views

#: A table has a column for each of so many labels; of more the commonest pairs are listed, so many of them.
MOST_COLUMNS, MOST_PAIRS = 12, 20

#: What is shown of a row; a data set names its rows, or has none of these.
_ROW = ("path", "name", "text", "label_noise", "network_label", "fixed_label")

#: Colours of the ordinary classifier and of LC.
_COLOURS = {"network": "#c2571a", "fixed": "#1f6fb2"}


def render_audit(found: Mapping[str, Any], folder: Path) -> str:
    """Return the page as text.

    Args:
        found: Content of ``audit.json``.
        folder: Folder of the audit, for the commands.
    """
    conflicting = [one for one in found["groups"] if one["rows"] and one["label"] != one["attribute"]]
    pairs = sorted(conflicting, key=lambda one: -int(one["rows"]))[:MOST_PAIRS]
    source = found["data"].get("source") or found["data"]["name"]
    return render(
        "audit.html.j2",
        title=f"Audit of {source}",
        headline=sentences.headline(found),
        sentence=found["evidence"]["sentence"],
        found={**found, "shown": [_shown(row) for row in found["shown"]]},
        views=name_views(found["views"]),
        evidence=evidence_block(found["evidence"]),
        bars=[
            {"who": who, "colour": _COLOURS[who], **entry}
            for who, entry in found["cost"].items()
            if entry["conflicting"]["accuracy"] is not None and entry["agreeing"]["accuracy"] is not None
        ],
        price=sentences.price(found["cost"]),
        contrasts=[_checked(one) for one in found["contrasts"]],
        labelled=found.get("labelled"),
        label_lines=sentences.label_lines(found["labels"]),
        pairs=pairs if len(found["labels"]) > MOST_COLUMNS else None,
        commands=_commands(found, shlex.quote(shown_path(folder))),
        rows=found["data"]["rows"]["train"],
        what=source,
    )


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with all entries; a text is called by its number, not by its beginning."""
    name, text = row.get("name"), row.get("text")
    begins = name and text and str(text).startswith(str(name)[:10])
    return {**dict.fromkeys(_ROW), **row, "name": None if begins else name}


def _checked(contrast: Mapping[str, Any]) -> dict[str, Any]:
    """Return a contrast whose images are images, and of very many labels each value's commonest one."""
    rows = []
    for row in contrast["rows"]:
        if contrast["kind"] == "values" and len(contrast["labels"]) > MOST_COLUMNS:
            count = max(row["counts"])
            rows.append({**row, "commonest": contrast["labels"][row["counts"].index(count)], "count": count})
        elif contrast["kind"] == "images":
            kinds = ("agree", "conflict")
            images = {kind: [{**one, "image": checked_uri(one["image"])} for one in row[kind]] for kind in kinds}
            rows.append({**row, **{kind: [one for one in own if one["image"]] for kind, own in images.items()}})
        else:
            rows.append(row)
    terms = [row["term"] for row in rows[:2]] if contrast["kind"] == "terms" else ()
    return {**contrast, "rows": rows, "name": name_views([contrast["view"]], terms)}


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
