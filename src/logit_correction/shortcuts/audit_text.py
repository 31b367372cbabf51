"""Summaries of audits in sentences, tables and commands: one function for each kind of audit."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from logit_correction.finding import BASELINE, MIN_CONFLICTS_TO_CHECK
from logit_correction.formatting import capitalize, format_list, format_percent, format_row_count
from logit_correction.shortcuts.answered_rows import count_answers
from logit_correction.shortcuts.shift import ViewShift, describe_view_shift
from logit_correction.shortcuts.summaries import (
    AuditRecord,
    AuditSummary,
    CandidateResult,
    Contrast,
    ContrastRow,
    Interval,
    Selection,
    format_question,
    get_doubtful_views,
    relies_on_shortcut,
)
from logit_correction.view_names import (
    are_column_views,
    choose_word_forms,
    format_view_names,
    format_view_options,
)

#: Rows to label that are recommended by default.
DEFAULT_SHEET_ROWS = 20

#: Views that differ, of which the page shows so many at most.
MAX_VIEW_SHIFTS = 8

#: Labels, and views that changed, that the terminal names at most.
MAX_SHORT_PHRASES = 2

#: Words that a phrase names.
MAX_PHRASE_TERMS = 3

#: Words that a headline names where all words of the texts are the view.
MAX_HEADLINE_TERMS = 2


@dataclass(frozen=True)
class AuditText:
    """What the page, the terminal and notebooks say of an audit.

    Attributes:
        headline: One sentence.
        sentences: The findings, each without its full stop.
        trial: That a trial of LC does not confirm a shortcut; empty otherwise.
        question: What only the user can answer; empty where nothing is asked.
        advice: How the user overrules the verdict; empty where that would not help.
        commands: What to do -> the command, the first thing first.
        candidates: Lines of the table of candidates, by column; see ``build_candidates_table``.
        short: What the page shows in parts of their own: what the correction corrects, and what changed.
    """

    headline: str
    sentences: list[str]
    commands: dict[str, str]
    trial: str = ""
    question: str = ""
    advice: str = ""
    candidates: Sequence[dict[str, str]] = ()
    short: Sequence[str] = ()


def describe_audit(summary: AuditSummary, shown_audit_dir: str = "audit") -> AuditText:
    """Return the text of any audit.

    Args:
        summary: Of the audit.
        shown_audit_dir: Its folder, as a command line writes it.
    """
    if summary.selection is not None:
        return _describe_selection(summary.selection, shown_audit_dir)
    return _describe_search(summary, shown_audit_dir)


# -- search of the data, or check of a given classifier


def _describe_search(summary: AuditSummary, shown_audit_dir: str) -> AuditText:
    if summary.views and (summary.examined or summary.verdict == "shortcut"):
        headline = _describe_reliance(summary)
    else:
        headline = _describe_uncertain_verdict(summary)
    return AuditText(
        headline=headline,
        sentences=[summary.sentence],
        commands=_list_search_commands(summary, shown_audit_dir),
        trial=describe_failed_trial(summary),
        question=format_question(get_doubtful_views(summary.record.finding)),
        advice=summary.advice,
        short=() if summary.examined else _describe_record_in_short(summary.record),
    )


def _describe_record_in_short(record: AuditRecord) -> list[str]:
    images = [contrast for contrast in record.contrasts if contrast.kind == "images"]
    groups = describe_conflicts([*record.conflicts, *images])
    return [f"Bias-conflicting are {groups}"] if groups else []


def _list_search_commands(summary: AuditSummary, shown_audit_dir: str) -> dict[str, str]:
    finding = summary.record.finding
    doubtful_views = get_doubtful_views(finding)
    relies = relies_on_shortcut(finding)
    commands = {}
    leak = finding.main_evidence
    if not summary.examined and leak and leak.may_leak(finding.majority_share) and are_column_views(leak.views):
        options = format_view_options("leave_out", leak.views)
        train = f"logit-correction train --config {shown_audit_dir}/config.yaml --method ERM --out without {options}"
        commands["If it will not be known in use, leave it out:"] = train
    if doubtful_views and not summary.examined:
        decide = "Rows that the model will be used on decide, labelled or not. If you have some:"
        commands[decide] = _format_audit_command(shown_audit_dir, "--new-rows new-rows")
    if doubtful_views and summary.verdict == "cannot tell" and not summary.views:
        options = format_view_options("shortcut", doubtful_views)
        commands["If it is an accident:"] = _format_audit_command(shown_audit_dir, options)
    if summary.views and (relies or not summary.examined):
        condition = "If it is an accident, train" if doubtful_views else "Train"
        if relies is False or describe_failed_trial(summary):
            condition = "If you are sure that it is an accident all the same, train"
        commands |= _list_fix_commands(summary, condition, shown_audit_dir)
    elif summary.views and summary.examined and not summary.examined.endswith((".csv", ".parquet")):  # a run
        test = "Test it on labelled rows from elsewhere, in which the shortcut does not hold:"
        commands[test] = f"logit-correction evaluate {shlex.quote(summary.examined)} --on new-rows"
    if doubtful_views:
        options = format_view_options("legitimate", doubtful_views)
        other = "If it is a legitimate cause, look for another shortcut:"
        commands[other] = _format_audit_command(shown_audit_dir, options)
    if summary.verdict == "none found" and not summary.examined:
        commands |= _build_erm_command(shown_audit_dir)
    return commands


def _describe_reliance(summary: AuditSummary) -> str:
    classifier = "this classifier" if summary.examined else summary.record.classifier
    views = format_view_names(summary.views, list_headline_terms(summary.record.contrasts))
    relies = relies_on_shortcut(summary.record.finding)
    if relies is None:
        return f"It cannot be told whether {classifier} relies on {views}."
    return f"{capitalize(classifier)} {'relies' if relies else 'does not rely'} on {views}."


def _describe_uncertain_verdict(summary: AuditSummary) -> str:
    doubtful_views = get_doubtful_views(summary.record.finding)
    if doubtful_views:
        return (
            f"A network may rely on {format_view_names(doubtful_views, list_headline_terms(summary.record.contrasts))}."
        )
    if summary.verdict == "none found":
        return "No shortcut was found."
    return "It cannot be told whether there is a shortcut."


def _format_audit_command(shown_audit_dir: str, options: str) -> str:
    return f"logit-correction audit --config {shown_audit_dir}/config.yaml {options} --out another-audit"


def _build_erm_command(shown_audit_dir: str) -> dict[str, str]:
    return {f"Train {BASELINE}:": f"logit-correction train --config {shown_audit_dir}/fix.yaml --out ordinary"}


def _list_fix_commands(summary: AuditSummary, condition: str, shown_audit_dir: str) -> dict[str, str]:
    """Return how to train a correction and how to test it."""
    them = choose_word_forms(summary.views).object
    alternative = f", or leave {them} out of the data" if are_column_views(summary.views) else ""
    train = f"{condition} a classifier that does not rely on {them}{alternative}:"
    commands = {train: f"logit-correction train --config {shown_audit_dir}/fix.yaml --out fixed"}
    evidence = summary.record.finding.main_evidence
    num_conflicts = round((evidence.share if evidence else 0) * summary.record.data.rows["valid"])
    if num_conflicts < MIN_CONFLICTS_TO_CHECK:
        test = (
            "Then test it on labelled rows from elsewhere; an audit of it needs "
            f"{MIN_CONFLICTS_TO_CHECK} conflicting validation rows, and you have about {num_conflicts}:"
        )
        return {**commands, test: "logit-correction evaluate fixed --on new-rows"}
    options = format_view_options("shortcut", summary.views)
    check = f"logit-correction audit --run fixed {options} --out audit-of-fixed"
    return {**commands, "Then check whether it is fixed:": check}


def list_headline_terms(contrasts: Sequence[Contrast]) -> list[str]:
    """Return the most typical word of each label, of two labels at most, where all words were a view."""
    rows = [row for contrast in contrasts if contrast.view == "word" for row in contrast.rows]
    terms: dict[str, str] = {}
    for row in rows:
        terms.setdefault(row.label, row.term or "")
    return list(terms.values())[:MAX_HEADLINE_TERMS]


# -- accuracies


def get_classifier_display_names(summary: AuditSummary) -> dict[str, str]:
    """Return classifier -> its name in tables: that which was examined, and LC where it was tried."""
    names = {"network": capitalize(summary.record.classifier.removeprefix("the "))}
    return names | ({"fixed": "LC"} if "fixed" in summary.cost else {})


def build_accuracy_change_table(summary: AuditSummary) -> list[dict[str, Any]]:
    """Return a line for each kind of rows: its ``name``, and each classifier's accuracy; empty if that is unknown."""
    costs = {name: cost for name, cost in summary.cost.items() if cost.balanced.accuracy is not None}
    if not costs:
        return []
    cost = next(iter(costs.values()))
    names = {
        "balanced": "Balanced: shortcut and label independent",
        "like_training": "Data like your training data",
        "conflicting": format_row_count(cost.conflicting.rows).replace("row", "bias-conflicting row"),
        "agreeing": format_row_count(cost.agreeing.rows).replace("row", "bias-aligned row"),
    }
    return [
        {"name": name, **{classifier: getattr(cost, kind) for classifier, cost in costs.items()}}
        for kind, name in names.items()
    ]


def describe_accuracy_change(summary: AuditSummary) -> str:
    """Return what correcting changes, in a sentence; empty if LC was not tried."""
    cost = summary.cost
    if "fixed" not in cost or not build_accuracy_change_table(summary):
        return ""
    before = cost["network"]
    after = cost["fixed"]
    balanced = _format_accuracy_change(before.balanced.accuracy, after.balanced.accuracy)
    like_training = _format_accuracy_change(before.like_training.accuracy, after.like_training.accuracy)
    return f"With LC, balanced accuracy goes from {balanced}, and accuracy on data like yours from {like_training}"


def _format_accuracy_change(before: float | None, after: float | None) -> str:
    return f"{format_percent(before)} to {format_percent(after)}"


def describe_failed_trial(summary: AuditSummary) -> str:
    """Return a warning if LC is worse than ERM by more than chance, or not better than one label; else empty."""
    price = describe_accuracy_change(summary)
    if not price:
        return ""
    before = summary.cost["network"]
    after = summary.cost["fixed"]
    majority_share = summary.record.finding.majority_share
    accuracy = after.like_training.accuracy or 0
    is_at_baseline = accuracy <= majority_share
    loses_balanced = (after.balanced.accuracy or 0) < before.balanced.low
    gains_conflicting = (after.conflicting.accuracy or 0) > (before.conflicting.accuracy or 0)
    loses_accuracy = accuracy < before.like_training.low and not gains_conflicting
    if not (loses_balanced or is_at_baseline or loses_accuracy):
        return ""
    baseline = format_percent(majority_share)
    comparison = f", where the commonest label alone is right in {baseline}" if is_at_baseline else ""
    options = format_view_options("legitimate", summary.views)
    return f"A trial does not confirm it. {price}{comparison}. You decide: to leave the data alone, add `{options}`"


# -- selection on new rows


def _describe_selection(selection: Selection, shown_audit_dir: str) -> AuditText:
    counts = count_answers(selection)
    sentences = [_describe_shift(selection), _describe_answers(selection)]
    if counts is not None:  # what a person can check comes first
        sentences = [counts.describe(), *reversed(sentences)]
    if selection.answers and selection.num_needed:
        sentences.append(f"To be sure takes about {selection.num_needed:,} further answers")
    if selection.answers and not selection.single and not selection.learns_from_answers:
        sentences.append(explain_unused_answers("the inputs of the new rows are too large to keep"))
    elif selection.answers and selection.learns_from_answers:
        sentences.append("The training also learns from your answers, where that is better on those held out")
    return AuditText(
        headline=_format_selection_headline(selection),
        sentences=sentences,
        commands=_list_selection_commands(selection, shown_audit_dir),
        candidates=build_candidates_table(selection),
        short=_describe_selection_in_short(selection),
    )


def explain_unused_answers(reason: str) -> str:
    """Return the sentence that a fix averages candidates by the answers, but learns no correction from them."""
    return f"The fix learns no correction from the answers, since {reason}"


def _format_selection_headline(selection: Selection) -> str:
    if selection.chosen is None:
        rows = f"{selection.num_asked:,}" if selection.num_asked else "some"
        return f"The new rows differ from the training data. Label {rows} of them."
    if selection.correction is not None:
        doubt = "unsure, " if selection.average and selection.average.is_unsure else ""
        gain = _format_points(selection.gain)
        return f"Train {_format_selected_training(selection)}: {doubt}about {gain} points on the new rows."
    if selection.answers and selection.num_needed:
        reason = "unsure, no correction is clearly better on the new rows"
    elif selection.answers:
        reason = "no correction is better on the new rows"
    elif selection.changed and selection.num_needed == 0:
        reason = "no correction gives a new row another label"
    else:
        reason = "no shift was found in the new rows"
    return f"Train {_format_selected_training(selection)}: {reason}."


def _format_selected_training(selection: Selection) -> str:
    if selection.correction is None:
        return f"mostly {BASELINE}" if selection.members else BASELINE
    return "an average of the likely candidates" if len(selection.members) > 1 else f"`{selection.chosen}`"


def _describe_average(selection: Selection) -> str:
    """Return what the answers show of the average of the candidates, or why ERM is advised."""
    average = selection.average
    assert average is not None
    basis = f"By {format_row_count(selection.answers, 'labelled new row')}"
    gain, low, high = map(_format_points, (average.gain, average.gain_low, average.gain_high))
    interval = f"{gain} points against {BASELINE} (90 % interval {low} to {high})"
    if selection.correction is None:
        text = (
            f"{basis}, no correction is clearly better than {BASELINE}: the best average changes accuracy by {interval}"
        )
        return f"{text}{_describe_erm_weight(selection)}"
    likely = ", ".join(f"`{result.name}` {format_percent(result.probability_best)}" for result in selection.members)
    text = f"{basis}, {_format_selected_training(selection)} changes accuracy there by {interval}"
    text += f"{_describe_erm_weight(selection)}. "
    text += f"Likely to be the best: {likely}"
    if average.accuracy is not None and average.erm_accuracy is not None:
        before = format_interval(average.erm_accuracy, " %")
        after = format_interval(average.accuracy, " %")
        text = f"{text}. On all new rows {BASELINE} is right in {before}, the advice in {after}"
    return f"{text}. {_describe_in_distribution_cost(selection)}"


def _describe_erm_weight(selection: Selection) -> str:
    """Return the sentence that an average was shrunk towards ERM, and by how much; empty where it was not."""
    erm_weight = selection.candidates[0].weight
    if not selection.members or selection.average is None or not selection.average.is_unsure or not erm_weight:
        return ""
    return f". As long as that is unsure, {BASELINE} has {format_percent(erm_weight)} of the weight"


def format_interval(interval: Interval, unit: str = "") -> str:
    """Return an accuracy in per cent with its interval, such as ``78 (70 to 85)``."""
    accuracy = format_percent(interval.accuracy, unit=unit)
    return f"{accuracy} ({format_percent(interval.low, unit='')} to {format_percent(interval.high, unit='')})"


def _describe_shift(selection: Selection) -> str:
    """Return how the new rows differ from rows like the training data."""
    rows = format_row_count(selection.rows)
    if selection.changed and selection.num_needed == 0 and not selection.answers:
        return (
            f"All candidates give each of the {rows} the label of {BASELINE}, but how sure they are differs more than "
            "on rows like the training data"
        )
    candidate = max(selection.candidates[1:], key=lambda result: result.differs_new - result.differs_usual)
    new = format_percent(candidate.differs_new)
    in_distribution = format_percent(candidate.differs_usual)
    disagree = (
        f"{BASELINE} (ordinary training) and `{candidate.name}` disagree on {new} of the {rows} that are new, and on "
        f"{in_distribution} of rows like the training data"
    )
    chance = f"without a change, chance alone shows as much in {format_percent(selection.p_value)} of audits"
    if selection.changed:
        return f"{disagree}: something that held there may not hold here ({chance})"
    return f"{disagree}, which chance may explain: {chance}"


def _describe_answers(selection: Selection) -> str:
    """Return what the answers show; without any, what to do."""
    if not selection.answers and selection.chosen == BASELINE:
        return f"So nothing is corrected for these rows: train {BASELINE}"
    if not selection.answers:
        return "A change is a reason to ask, not to correct: it may only mean harder rows. Your answers decide"
    if selection.average is None:  # in audits of older versions
        return f"{selection.answers:,} new rows are labelled"
    return _describe_average(selection)


def _describe_in_distribution_cost(selection: Selection) -> str:
    """Return the accuracy of ERM on validation rows, and of each member alone, since nothing averages them there."""
    accuracies = [result.valid_accuracy for result in selection.members]
    before, lowest, highest = (
        format_percent(accuracy, unit="")
        for accuracy in (selection.candidates[0].valid_accuracy, min(accuracies), max(accuracies))
    )
    after = highest if lowest == highest else f"{lowest} to {highest}"
    members = "the members, each alone," if len(accuracies) > 1 else "this"
    return f"On the validation rows {BASELINE} is right in {before} %, {members} in {after} %"


def _format_points(share: float | None) -> str:
    return "–" if share is None else f"{round(100 * share):+d}"


def build_candidates_table(selection: Selection) -> list[dict[str, str]]:
    """Return a line for each candidate, ERM first, then by gain, or without answers by disagreement on new rows."""
    erm, *others = selection.candidates
    others.sort(key=lambda result: -result.differs_new if result.gain is None else -result.gain)
    lines = []
    for result in (erm, *others):
        is_erm = result is erm
        line = {
            "Candidate": result.name,
            "Differs on new rows, %": "–" if is_erm else format_percent(result.differs_new, unit=""),
            "Differs on usual rows, %": "–" if is_erm else format_percent(result.differs_usual, unit=""),
            "Accuracy on validation rows, %": format_percent(result.valid_accuracy, unit=""),
        }
        if selection.answers:
            gain, low, high = map(_format_points, (result.gain, result.gain_low, result.gain_high))
            line["Gain, points"] = "–" if is_erm else f"{gain} ({low} to {high})"
        if result.probability_best is not None:
            line["Likely best, %"] = format_percent(result.probability_best, unit="")
        lines.append(line)
    return lines


def describe_corrections(selection: Selection) -> dict[str, tuple[Contrast, ...]]:
    """Return what each member of the advice but ERM corrects: a sentence, with the contrasts that show it.

    The member of the greatest weight comes first. A candidate that cannot see some views estimates nothing, so its
    contrasts are those of the one that corrects by them.
    """
    members = selection.members or [selection.correction or selection.candidates[0]]
    corrections = {}
    for member in members:
        if member is not selection.candidates[0]:
            alike = [result for result in selection.candidates if result.views == member.views and member.views]
            contrasts = next((result.contrasts for result in (member, *alike) if result.contrasts), ())
            corrections[_describe_correction(member, contrasts)] = contrasts
    return corrections


def _describe_correction(result: CandidateResult, contrasts: Sequence[Contrast]) -> str:
    """Return the rows that a candidate corrects, in a sentence."""
    groups = describe_conflicts(contrasts)
    has_images = any(contrast.kind == "images" for contrast in contrasts)
    if result.explained_by and not has_images:  # many views of images explain the same rows: what images show counts
        point = choose_word_forms(result.explained_by).point
        where = f"where {format_view_names(result.explained_by)} {point} to another label"
        groups = f"{where}: {groups}" if groups else where
    return f"`{result.name}` corrects {groups}" if groups else f"`{result.name}`: {result.description}"


def describe_conflicts(contrasts: Sequence[Contrast]) -> str:
    """Return the bias-conflicting rows of the first labels as a phrase; empty where nothing distinguishes them."""
    phrases = []
    rows = [row for contrast in contrasts for row in contrast.rows]
    for label in dict.fromkeys(row.label for row in rows):
        of_label = [row for row in rows if row.label == label]
        # What these rows have more often is named before what they lack.
        has_more = [row for row in of_label if (row.share or 0) >= (row.other_share or 0)]
        phrases.append(f"rows labelled `{label}` {_describe_property(has_more or of_label, bool(has_more))}")
    return ", and ".join(phrases[:MAX_SHORT_PHRASES])


def _describe_property(rows: Sequence[ContrastRow], is_more_frequent: bool) -> str:
    """Return what rows of a label share, or lack, as a phrase that follows it."""
    row = rows[0]
    if row.value:
        return f"with {row.value}"
    if not row.term:
        return f"that look like `{row.looks_like}`" if row.looks_like else "that look like another"
    terms = [f"`{row.term}`{f' as in `{row.examples[0]}`' if row.examples else ''}" for row in rows[:MAX_PHRASE_TERMS]]
    noun = "parts of words" if row.examples else "words"
    preposition = "with" if is_more_frequent else "without"
    return f"{preposition} {noun} such as {format_list(terms)}" if len(terms) > 1 else f"{preposition} {terms[0]}"


def _describe_selection_in_short(selection: Selection) -> list[str]:
    texts = [*describe_corrections(selection)][:1]
    shifts = [differs for differs, _ in describe_view_shifts(selection)[:MAX_SHORT_PHRASES]]
    return texts + ([f"What changed: {'; '.join(shifts)}"] if shifts else [])


def describe_view_shifts(selection: Selection) -> list[tuple[str, ViewShift]]:
    """Return what differs in words, for each view that does, at most 8; places of images are one, by the first."""
    views: dict[str, list[ViewShift]] = {}
    for shift in selection.view_shifts or ():
        if shift.is_significant:
            views.setdefault("places" if shift.view.startswith("places:") else shift.view, []).append(shift)
    texts = []
    for shifts in list(views.values())[:MAX_VIEW_SHIFTS]:
        name = format_view_names([shift.view for shift in shifts])
        differs = describe_view_shift(shifts[0], name)
        texts.append((capitalize(differs), shifts[0]))
    return texts


def _list_selection_commands(selection: Selection, shown_audit_dir: str) -> dict[str, str]:
    read_answers = f"logit-correction audit --answers {shown_audit_dir}/sheet.csv --out {shown_audit_dir}"
    sample_rows = f"logit-correction audit --ask {selection.num_needed or DEFAULT_SHEET_ROWS} --out {shown_audit_dir}"
    num_open = selection.num_asked - selection.sheet_answers
    if selection.answers == 0 and selection.num_asked:
        fill_in = f"Label {format_row_count(num_open)} in the page, or in the column `answer` of `sheet.csv`"
        return {f"{fill_in}, as many as you like, then:": read_answers}
    if selection.chosen is None:
        return {"Choose rows to label:": sample_rows}
    if selection.members or selection.correction:
        train = f"logit-correction train --config {shown_audit_dir}/fix.yaml --out fixed"
        commands = {f"Train {_format_selected_training(selection)}:": train}
    else:
        commands = _build_erm_command(shown_audit_dir)
        if not selection.answers and selection.num_needed != 0:
            commands["To be sure, label some rows all the same:"] = sample_rows
    if num_open > 0:
        commands["To be surer, fill in more of `sheet.csv`, then:"] = read_answers
    elif selection.answers and selection.num_needed:
        commands["To be surer, label more rows:"] = sample_rows
    return commands
