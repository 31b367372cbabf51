"""What an audit found, as a value, in words, on its page, in a notebook and in the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from logit_correction.finding import BASELINE, MIN_CONFLICTS_TO_CHECK, Finding
from logit_correction.finding_text import finding_to_dict
from logit_correction.formatting import capitalize, format_percent, format_row_count
from logit_correction.pages import plots
from logit_correction.pages.compare import format_path
from logit_correction.pages.console import (
    build_console_table,
    make_console,
    print_verbatim,
    print_warnings,
    print_wrapped,
)
from logit_correction.pages.page import build_evidence_context, render_template
from logit_correction.serialization import to_json_values
from logit_correction.shortcuts.summaries import Selection
from logit_correction.view_names import are_columns, format_view_options, is_plural, name_views, spell_out_views

#: Pairs of labels that the page shows.
MOST_PAIRS = 8


@dataclass(frozen=True)
class Question:
    """What only a person can answer, and the views that it is about."""

    views: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class AuditSummary:
    """What an audit found; the fields are the keys of ``audit.json``.

    Attributes:
        verdict: Whether there is a shortcut; with new rows, whether a correction is better there.
        views: What is corrected by; with new rows, by the candidate that they choose.
        sentence: What was found, in words.
        leans: Whether a classifier that was given relies on the views; None where that cannot be told.
        would_change: What a person may say against the verdict; ``question``, what only a person can answer.
        groups: Label by what a row looks like; see ``rows.groups``.
        cost: Accuracies of the classifier, and of LC where it was tried; see ``rows.cost``.
        shown: Rows that a page shows.
        contrasts: What there is to see of the views, and ``words`` of any view of texts; see ``contrast``.
        evidence: What the search found.
        rows: The file of all rows, and how many there are of which kind.
        examined: The run, or the file of predictions, that was given.
        classifier: What the classifier is called that was asked.
        data: Name, options and sizes of the data; ``network`` and ``training`` tell of the ordinary networks.
        labels_read: Split -> which labels were read.
        new_rows: What new rows say; None without.
        known: What a person had said of views, by the names of the options; None without new rows.
    """

    verdict: str
    views: tuple[str, ...]
    sentence: str
    leans: bool | None
    would_change: str
    question: Question | None
    groups: list[dict[str, Any]]
    cost: dict[str, dict[str, Any]]
    shown: list[dict[str, Any]]
    contrasts: list[dict[str, Any]]
    words: list[dict[str, Any]]
    evidence: Finding
    rows: dict[str, Any]
    examined: str | None
    classifier: str
    data: dict[str, Any]
    network: dict[str, Any]
    training: dict[str, Any]
    labels_read: dict[str, Any]
    environment: dict[str, Any]
    new_rows: Selection | None = None
    known: dict[str, Any] | None = None
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``audit.json``."""
        return {**to_json_values(self), "evidence": finding_to_dict(self.evidence)}


def next_commands(told: AuditSummary, place: str) -> dict[str, str]:
    """Return what to do after an audit in the folder ``place`` -> by which command, the first thing first."""
    if told.new_rows is not None:
        return _commands_for_new_rows(told.new_rows, place)
    asked, views, finding = told.question, told.views, told.evidence
    commands, leak = {}, finding.main_evidence

    def again(options: str) -> str:
        return f"logit-correction audit --config {place}/config.yaml {options} --out another-audit"

    if leak and leak.may_leak(finding.majority_share) and are_columns(leak.views) and not told.examined:
        train = f"logit-correction train --config {place}/config.yaml --method ERM --out without"
        commands["If it will not be known in use, leave it out:"] = (
            f"{train} {format_view_options('leave_out', leak.views)}"
        )
    if asked and not told.examined:
        decide = "Rows that the model will be used on decide, labelled or not. If you have some:"
        commands[decide] = again("--new-rows new-rows")
    if asked and told.verdict == "cannot tell" and not views:
        commands["If it is an accident:"] = again(format_view_options("shortcut", asked.views))
    if told.examined and views and not told.leans:
        if not told.examined.endswith((".csv", ".parquet")):  # a run, not somebody's predictions
            test = f"logit-correction evaluate {shlex.quote(told.examined)} --on new-rows"
            commands["Test it on labelled rows from elsewhere, in which the shortcut does not hold:"] = test
    elif views:
        accident = "If it is an accident, train" if asked else "Train"
        if of_trial(told) or (told.leans is False and not told.examined):
            accident = "If you are sure that it is an accident all the same, train"
        them = "them" if is_plural(views) else "it"
        leave = f", or leave {them} out of the data" if are_columns(views) else ""
        fix = f"logit-correction train --config {place}/fix.yaml --out fixed"
        commands[f"{accident} a classifier that does not rely on {them}{leave}:"] = fix
        rows = round((finding.main_evidence.share if finding.main_evidence else 0) * told.data["rows"]["valid"])
        few = f"an audit of it needs {MIN_CONFLICTS_TO_CHECK} conflicting validation rows, and you have about {rows}"
        if rows < MIN_CONFLICTS_TO_CHECK:
            test = f"Then test it on labelled rows from elsewhere; {few}:"
            commands[test] = "logit-correction evaluate fixed --on new-rows"
        else:
            examine = (
                f"logit-correction audit --run fixed {format_view_options('shortcut', views)} --out audit-of-fixed"
            )
            commands["Then check whether it is fixed:"] = examine
    if asked:
        legitimate = again(format_view_options("legitimate", asked.views))
        commands["If it is a legitimate cause, look for another shortcut:"] = legitimate
    return commands


def headline(told: AuditSummary) -> str:
    """Return what to train, what a network relies on, or whether a given one does."""
    terms = telling_terms(told.contrasts)
    views = name_views(told.views, terms)
    if (new := told.new_rows) is not None:
        if new.chosen is None:
            asked = f"Label {new.num_asked:,} of them" if new.num_asked else "Label some of them"
            return f"The new rows differ from the training data. {asked}."
        if new.correction is None:
            why = "no correction is better on the new rows" if new.answers else "the new rows resemble the old ones"
            if new.num_needed == 0 and new.changed and not new.answers:
                why = "no correction gives a new row another label"
            return f"Train {new.chosen}: {why}."
        unsure = ", but that is not sure yet" if new.num_needed else ""
        return f"Train `{new.chosen}`: about {_points(new.gain)} points on the new rows{unsure}."
    if views and (told.examined or told.verdict == "shortcut"):
        who = "this classifier" if told.examined else told.classifier
        if told.leans is None:
            return f"It cannot be told whether {who} relies on {views}."
        return f"{capitalize(who)} {'relies' if told.leans else 'does not rely'} on {views}."
    if told.question:
        return f"A network may rely on {name_views(told.question.views, terms)}."
    none = told.verdict == "none found"
    return "No shortcut was found." if none else "It cannot be told whether there is a shortcut."


def telling_terms(contrasts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the word that tells most of each label, of two labels at most, where all words were looked at."""
    rows = [row for one in contrasts if one["view"] == "word" for row in one["rows"]]
    return list({row["label"]: row["term"] for row in reversed(rows)}.values())[::-1][:2]


def question(finding: Finding) -> Question | None:
    """Return the one question that only a person can answer, and the views it is about; None where nothing is asked."""
    # Of a leak nothing is asked: it is no candidate.
    views = finding.candidate_views if finding.verdict == "cannot tell" else finding.views
    if not views or finding.user_named:  # nobody is asked again who has said so
        return None
    are, cause = ("Are", "legitimate causes") if is_plural(views) else ("Is", "a legitimate cause")
    return Question(views, f"{are} {name_views(views)} {cause} of the label, or an accident of this data?")


def too_few(finding: Finding) -> str:
    """Return why a check of a given classifier tells nothing; empty where it has the rows that it needs."""
    rows = finding.main_evidence.rows if finding.main_evidence else 0
    there = f"there {'is' if rows == 1 else 'are'} {rows}. Take more validation rows, or test on rows from elsewhere"
    needs = f"A check needs {MIN_CONFLICTS_TO_CHECK} held-out rows where the view clearly points to another label"
    return f"{needs}; {there}" if finding.views and rows < MIN_CONFLICTS_TO_CHECK else ""


def classifiers(told: AuditSummary) -> dict[str, str]:
    """Return what tables call the classifier that was asked, and LC where it was tried."""
    asked = {"network": capitalize(told.classifier.removeprefix("the "))}
    return asked | ({"fixed": "LC"} if "fixed" in told.cost else {})


def price(told: AuditSummary) -> list[dict[str, Any]]:
    """Return what correcting brings and costs; empty where it is unknown.

    A line has a ``name`` and the figures of each classifier on held-out rows: ``accuracy``, ``low`` and ``high``.
    """
    known = {who: one for who, one in told.cost.items() if one["balanced"]["accuracy"] is not None}
    if not known:
        return []
    few, many = (next(iter(known.values()))[kind]["rows"] for kind in ("conflicting", "agreeing"))
    names = {
        "balanced": "Balanced: shortcut and label independent",
        "like_training": "Data like your training data",
        "conflicting": f"{few:,} bias-conflicting row{'' if few == 1 else 's'}",
        "agreeing": f"{many:,} bias-aligned row{'' if many == 1 else 's'}",
    }
    return [{"name": name, **{who: one[kind] for who, one in known.items()}} for kind, name in names.items()]


def of_price(told: AuditSummary) -> str:
    """Return what correcting changes, in a sentence; empty where LC was not tried."""
    if "fixed" not in told.cost or not price(told):
        return ""
    before_after = [
        " to ".join(format_percent(told.cost[who][kind]["accuracy"], unit=" %") for who in ("network", "fixed"))
        for kind in ("balanced", "like_training")
    ]
    balanced, like = before_after
    return f"With LC, balanced accuracy goes from {balanced}, and accuracy on data like yours from {like}"


def of_trial(told: AuditSummary) -> str:
    """Return a warning where LC was tried and is worse by more than chance, or no better than one label; else empty."""
    before, after = (told.cost.get(who) for who in ("network", "fixed"))
    if not before or not after or not price(told):
        return ""
    fewer = {kind: after[kind]["accuracy"] < before[kind]["low"] for kind in ("balanced", "like_training")}
    better = after["conflicting"]["accuracy"] > before["conflicting"]["accuracy"]
    one_label = after["like_training"]["accuracy"] <= told.evidence.majority_share
    if not (fewer["balanced"] or one_label or (fewer["like_training"] and not better)):
        return ""
    most = format_percent(told.evidence.majority_share, unit=" %")
    always = f", where the commonest label alone is right in {most}" if one_label else ""
    leave = f"to leave the data alone, add `{format_view_options('legitimate', told.views)}`"
    return f"A trial does not confirm it. {of_price(told)}{always}. You decide: {leave}"


# New rows: what changed, what was chosen, what to type


def _points(share: float | None) -> str:
    return "–" if share is None else f"{round(100 * share):+d}"


def of_change(new: Selection) -> str:
    """Return how the new rows differ from rows like the training data."""
    most = new.correction or max(new.candidates[1:], key=lambda one: one.differs_new - one.differs_usual)
    share, usual = (format_percent(one, unit=" %") for one in (most.differs_new, most.differs_usual))
    pair = f"{BASELINE} and `{most.name}`"
    if new.changed and new.num_needed == 0 and not new.answers:
        sure = "how sure they are differs more than on rows like the training data"
        return f"All candidates give each of the {format_row_count(new.rows)} the label of {BASELINE}, but {sure}"
    rows = f"{pair} disagree on {share} of the {format_row_count(new.rows)} that are new"
    if new.changed:
        return f"{rows}, and on {usual} of rows like the training data: something that held there does not hold here"
    return f"{rows}, and on {usual} of rows like the training data, which is no more than chance"


def of_choice(new: Selection) -> str:
    """Return what the answers say; without any, what to do."""
    if not new.answers:
        if new.chosen == BASELINE:
            return f"So nothing is corrected for these rows: train {BASELINE}"
        return "A change is a reason to ask, not to correct: it may only mean harder rows. Your answers decide"
    by = f"By {new.answers:,} labelled new rows"
    if new.correction is None:
        return f"{by}, no correction is clearly better than {BASELINE}: train {BASELINE}"
    gain, low, high = map(_points, (new.gain, new.gain_low, new.gain_high))
    changes = f"`{new.correction.name}` changes accuracy there by {gain} points against {BASELINE}"
    better = f"{by}, {changes} (90 % interval {low} to {high})"
    before, after = (format_percent(one.valid_accuracy, unit=" %") for one in (new.candidates[0], new.correction))
    stays = f"stays at {after}" if before == after else f"goes from {before} to {after}"
    return f"{better}. On the validation rows accuracy {stays}"


def of_new_rows(new: Selection) -> list[str]:
    """Return what the new rows say: the change, the choice, and how sure it is."""
    more = f"To be sure takes about {new.num_needed:,} further answers" if new.answers and new.num_needed else ""
    return [text for text in (of_change(new), of_choice(new), more) if text]


def candidate_rows(new: Selection) -> list[dict[str, str]]:
    """Return a line of a table for each candidate, ERM first, then by what they gain or by what they say otherwise."""
    first, *others = new.candidates
    others.sort(key=lambda one: -one.differs_new if one.gain is None else -one.gain)
    rows = []
    for one in (first, *others):
        differs = [
            "–" if one is first else format_percent(share, unit="") for share in (one.differs_new, one.differs_usual)
        ]
        row = {"Candidate": one.name, "Differs on new rows, %": differs[0], "Differs on usual rows, %": differs[1]}
        row["Accuracy on validation rows, %"] = format_percent(one.valid_accuracy, unit="")
        if new.answers:
            gain, low, high = map(_points, (one.gain, one.gain_low, one.gain_high))
            row["Gain, points"] = "–" if one is first else f"{gain} ({low} to {high})"
        rows.append(row)
    return rows


def _commands_for_new_rows(new: Selection, place: str) -> dict[str, str]:
    answer = f"logit-correction audit --answers {place}/sheet.csv --out {place}"
    asking = f"logit-correction audit --ask {new.num_needed or 20} --out {place}"
    left = format_row_count(new.num_asked - new.sheet_answers)
    fill_in = f"Write the labels of {left} into the column `answer` of `sheet.csv`"
    if new.answers == 0 and new.num_asked:
        return {f"{fill_in}, as many as you like, then:": answer}
    if new.chosen is None:
        return {"Choose rows to label:": asking}
    if new.correction:
        fix = f"logit-correction train --config {place}/fix.yaml --out fixed"
        commands = {f"Train `{new.chosen}`:": fix}
    else:
        ordinary = f"logit-correction train --config {place}/config.yaml --method {BASELINE} --out ordinary"
        commands = {f"Train {BASELINE}:": ordinary}
        commands |= {} if new.answers or new.num_needed == 0 else {"To be sure, label some rows all the same:": asking}
    if new.num_asked > new.sheet_answers:
        return commands | {"To be surer, fill in more of `sheet.csv`, then:": answer}
    return commands | ({"To be surer, label more rows:": asking} if new.answers and new.num_needed else {})


# The page, the card of a notebook, the terminal


def render_audit(told: AuditSummary, folder: Path, asked: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the page as text; ``folder`` is that of the audit, for the commands, ``asked`` are new rows to label."""
    conflicting = [one for one in told.groups if one["rows"] and one["label"] != one["attribute"]]
    source = told.data.get("source") or told.data["name"]
    # With new rows ``views`` are those of what is trained; all below tells of those that the search found.
    views = told.evidence.views if told.new_rows else told.views
    views = views or (told.question.views if told.question else ())
    return render_template(
        "audit.html.j2",
        **_first(told),
        title=f"Audit of {source}",
        asked=asked,
        views=name_views(views),
        several=is_plural(views),
        evidence=build_evidence_context(told.evidence),
        colours={"network": plots.METHOD_COLORS[BASELINE], "fixed": plots.METHOD_COLORS["LC"]},
        contrasts=[
            {
                **one,
                "name": name_views([one["view"]], telling_terms([one])),
                "several": is_plural([one["view"]]),
                "places": name_views([f"places:{cell}" for cell in one.get("cells", ())]),
            }
            for one in told.contrasts
        ],
        words=[{**one, "name": name_views([one["view"]])} for one in told.words if one["rows"]],
        pairs=sorted(conflicting, key=lambda one: -int(one["rows"]))[:MOST_PAIRS],
        more_pairs=max(0, len(conflicting) - MOST_PAIRS),
        commands=next_commands(told, shlex.quote(format_path(folder))),
        what=source,
    )


def audit_as_html(told: AuditSummary) -> str:
    """Return what a notebook shows: verdict, price, and a few images where the rows are such."""
    shown = [one for one in told.contrasts if one["kind"] == "images"]
    return render_template("audit_card.html.j2", **_first(told), contrasts=shown)


def _first(told: AuditSummary) -> dict[str, Any]:
    """Return what a person sees first: the verdict, whether a trial confirms it, what correcting brings and costs."""
    return {
        "found": told,
        "headline": headline(told),
        "trial": of_trial(told),
        "new": of_new_rows(told.new_rows) if told.new_rows else [],
        "candidates": candidate_rows(told.new_rows) if told.new_rows else [],
        "spelled_out": spell_out_views(one.views for one in told.new_rows.candidates) if told.new_rows else [],
        "price": price(told),
        "classifiers": classifiers(told),
    }


def show_audit(told: AuditSummary, page: Path) -> None:
    """Print what was found, what to do, and the page."""
    console, first = make_console(), _first(told)
    print_wrapped(console, first["headline"], "bold")
    for text in first["new"] or (told.sentence, first["trial"]):
        if text:
            print_wrapped(console, f"{text}.")
    if told.new_rows:
        console.print(build_console_table(pd.DataFrame(first["candidates"])))
        for line in first["spelled_out"]:
            print_wrapped(console, line)
    elif first["price"]:
        names = first["classifiers"]
        lines = [[line["name"], *(_with_interval(line[who]) for who in names)] for line in first["price"]]
        console.print(
            build_console_table(pd.DataFrame(lines, columns=["Accuracy, %, on rows not trained on", *names.values()]))
        )
    if not told.new_rows:
        if told.question:
            print_wrapped(console, told.question.text)
        if told.would_change and not (told.question and told.verdict == "cannot tell"):  # then the commands say it
            print_wrapped(console, told.would_change)
    print_warnings(told.data["warnings"], console)
    commands = next_commands(told, shlex.quote(str(page.parent)))
    for what, command in list(commands.items())[: 1 if told.examined else 2]:
        print_wrapped(console, what)
        print_verbatim(console, f"  {command}")
    print_verbatim(console, f"page: {page}")


def _with_interval(figure: Mapping[str, Any]) -> str:
    value, low, high = (format_percent(figure[name], unit="") for name in ("accuracy", "low", "high"))
    return f"{value} ({low} to {high})"
