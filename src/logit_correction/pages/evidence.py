"""Is there a shortcut? What a run found, for the console and the page, from ``report.json`` alone."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from logit_correction.attributes.signs import views_in
from logit_correction.errors import NBSP, format_list, format_percent, is_missing
from logit_correction.pages.plots import shorten
from logit_correction.views.base import EVERYTHING, phrase

#: So many views are listed, the others are counted.
MOST_VIEWS = 12

#: So many pairs of labels are listed.
MOST_PAIRS = 5

#: Characters of what a view looks at that are shown.
_LONGEST = 150


@dataclass(frozen=True)
class Advice:
    """What was done about it, and what a user who knows better can say.

    Attributes:
        done: What was done.
        say: When to say otherwise.
        option: The option that says so.
        more: A command that tells more, or None.
    """

    done: str
    say: str
    option: str
    more: str | None = None


def found_shortcut(evidence: Mapping[str, Any] | None) -> bool | None:
    """Return whether a shortcut was found; None where nobody looked."""
    return None if not evidence else evidence.get("verdict") == "shortcut"


def views_of(evidence: Mapping[str, Any]) -> str:
    """Return the names of the views that were corrected by, as a reader lists them."""
    return phrase([str(name) for name in _names(evidence)]) or "a view"


def answer(evidence: Mapping[str, Any]) -> str:
    """Return the verdict in a word or two, with the views of a shortcut.

    >>> answer({"verdict": "shortcut", "views": ["colour"]}), answer({"verdict": "none found", "views": []})
    ('shortcut: colour', 'shortcut: none found')
    """
    verdict = evidence.get("verdict")
    if verdict == "shortcut":
        return f"shortcut: {views_of(evidence)}"
    return f"shortcut: {verdict}"


def sentence_of(evidence: Mapping[str, Any]) -> str:
    """Return the sentence of the verdict, with a capital unless it begins with the name of a view."""
    text = str(evidence.get("sentence") or "")
    names = [str(one.get("view")) for one in evidence.get("signs") or []]
    return text if any(text.startswith(name) for name in names) else text[:1].upper() + text[1:]


def advice(evidence: Mapping[str, Any]) -> Advice | None:
    """Return what follows from the evidence; None where a person said what the shortcut is."""
    if not found_shortcut(evidence):
        option, more = "--shortcut VIEW", "logit-correction list views"
        return Advice("nothing was corrected", "if you know a shortcut, name it", option, more)
    if not evidence.get("signs"):
        return None
    names = _names(evidence)
    options = " ".join(f"--legitimate {shlex.quote(str(name))}" for name in names)
    are = f"{views_of(evidence)} {'is' if len(names) == 1 else 'are'}"
    return Advice(f"corrected by {views_of(evidence)}", f"if {are} no accident, say so", options)


def block(name: str, report: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the page shows of one run's evidence; None where nobody looked.

    Args:
        name: What the run is called on the page.
        report: Content of ``report.json``.
    """
    evidence = report.get("evidence")
    if not evidence:
        return None
    signs = sorted(evidence.get("signs") or [], key=_rank)
    chosen = {str(one) for one in _names(evidence)}
    options = (report.get("method_options") or {}).get("attributes")
    legitimate = options.get("legitimate") if isinstance(options, dict) else None
    return {
        "name": name,
        "answer": answer(evidence).removeprefix("shortcut: "),
        "found": found_shortcut(evidence),
        "sentence": sentence_of(evidence),
        "advice": advice(evidence),
        "rows": [_row(one, chosen) for one in signs[:MOST_VIEWS]],
        "more": max(0, len(signs) - MOST_VIEWS),
        "legitimate": format_list([str(one) for one in legitimate]) if isinstance(legitimate, list) else "",
        "pairs": _pairs(evidence.get("conflicts") or []),
        "noise": _noise(evidence),
    }


def _pairs(conflicts: Sequence[Mapping[str, Any]]) -> str:
    """Which labels look like which, the commonest pairs first; empty where nothing was counted."""
    shown = [f"{one['rows']:,} of {one['label']} look like {one['looks_like']}" for one in conflicts[:MOST_PAIRS]]
    more = sum(int(one["rows"]) for one in conflicts[MOST_PAIRS:])
    return format_list([*shown, f"{more:,} more"] if more else shown)


def _noise(evidence: Mapping[str, Any]) -> str:
    """Whether the rows could just be mislabelled, in a sentence; empty where nobody looked."""
    value, low, high = (evidence.get(name) for name in ("told_apart", "told_apart_low", "told_apart_high"))
    if value is None or low is None or high is None:
        return ""
    return (
        "They are not just mislabelled: an ordinary network tells them from true rows of the other label in "
        f"{format_percent(value)} of all pairs ({format_percent(low, unit='')} to {format_percent(high)}; "
        f"wrong labels: {format_percent(0.5)})"
    )


def _names(evidence: Mapping[str, Any]) -> Sequence[Any]:
    names = evidence.get("views") or []
    return names if isinstance(names, list) else [names]


def _rank(one: Mapping[str, Any]) -> tuple[bool, float]:
    """Narrow views by their ratio, the greatest first; then what sees everything."""
    ratio = one.get("ratio")
    return _sees_everything(one), 0.0 if ratio is None or is_missing(ratio) else -float(ratio)


def _sees_everything(one: Mapping[str, Any]) -> bool:
    return int(one.get("breadth") or 0) >= EVERYTHING


def _row(one: Mapping[str, Any], chosen: set[str]) -> dict[str, Any]:
    """One view, every figure as text."""
    names = views_in(str(one.get("view")))
    rows = int(one.get("rows") or 0)
    share = "" if one.get("share") is None else f" ({format_percent(one['share'])})"
    ends = [_decimal(one.get(name)) for name in ("ratio_low", "ratio_high")]
    with_view, with_label = (format_percent(one.get(name), unit="") for name in ("follows_view", "follows_label"))
    return {
        "names": names,
        "sentence": _looks_at(one, len(names)),
        "chosen": set(names) == chosen,
        "everything": _sees_everything(one),
        "accuracy": format_percent(one.get("accuracy"), unit=""),
        "network": format_percent(one.get("network_accuracy"), unit=""),
        "ratio": _decimal(one.get("ratio")),
        "ends": "" if "–" in ends else "–".join(ends),
        "information": _decimal(one.get("information")),
        "follows": f"{with_view} / {with_label}" if rows else "–",
        "rows": f"of {rows:,}{NBSP}row{'' if rows == 1 else 's'}{share}" if rows else "no such row",
    }


def _looks_at(one: Mapping[str, Any], members: int) -> str:
    """What a view looks at; of several members of a family the first, the others counted."""
    text = str(one.get("sentence") or "")
    parts = text.split(" and ")
    return shorten(f"{parts[0]} and {members - 1} more" if 2 < members == len(parts) else text, _LONGEST)


def _decimal(value: float | None) -> str:
    return "–" if value is None or is_missing(value) else f"{value:.2f}"
