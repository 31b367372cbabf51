"""Findings of the shortcut search in sentences, and as plain values for JSON files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from logit_correction.finding import MIN_CONFLICTS_TO_CHECK, MIN_HELD_OUT_ROWS, Decider, Finding, ViewEvidence
from logit_correction.formatting import capitalize, format_percent, format_row_count
from logit_correction.serialization import to_json_values
from logit_correction.view_names import choose_word_forms, format_view_names, format_view_options

#: Who named a shortcut -> its sentence.
DECIDED_BY: dict[Decider, str] = {
    "person": "You named this shortcut",
    "answers": "Labels of new rows chose to correct by it",
    "search": "The search of an audit chose to correct by it",
}


def describe_conclusion(finding: Finding) -> str:
    """Return the shortcut that the user named as a phrase; else the verdict, and by what is corrected all the same."""
    views = format_view_names(finding.views)
    return f"cannot tell, corrected by {views}" if views and not finding.user_named else views or finding.verdict


def describe_finding(finding: Finding) -> str:
    """Return the verdict with its figures, in a few sentences without the last full stop."""
    sentences = [DECIDED_BY[finding.decided_by]] if finding.user_named else []
    if finding.main_evidence is not None:
        sentences += _describe_evidence(finding, finding.main_evidence)
    elif not finding.user_named:
        sentences.append(_explain_missing_evidence(finding))
    return ". ".join(sentence for sentence in sentences if sentence)


def _explain_missing_evidence(finding: Finding) -> str:
    if finding.num_rows < MIN_HELD_OUT_ROWS:
        return f"{finding.num_rows} rows are too few to find a shortcut"
    if not finding.evidence:
        return "No view applies to these inputs"
    views = "Apart from what you call legitimate, no narrow view" if finding.legitimate else "No narrow view"
    return f"{views} points to another label in more than two rows"


def _describe_evidence(finding: Finding, evidence: ViewEvidence) -> list[str]:
    forms = choose_word_forms(evidence.views)
    subject = capitalize(forms.subject)
    sentences = [_describe_accuracies(finding, evidence)]
    if finding.verdict == "none found" and finding.is_uninformative:
        return [*sentences, f"{subject} {forms.be} not significantly better than the majority-class baseline"]
    if evidence.rows:
        sentences.append(_describe_followed_rows(finding.classifier, evidence))
    else:
        sentences.append(f"{subject} never clearly {forms.point} to another label")
    if evidence.may_leak(finding.majority_share):
        sentences.append(f"{subject} may give the label away: leave out what will not be known in use")
    if finding.verdict == "none found":
        sentences.append("Together that is too little for a shortcut")
    elif finding.corrects and not finding.user_named and evidence.rows < MIN_CONFLICTS_TO_CHECK:
        sentences.append(f"Fewer than {MIN_CONFLICTS_TO_CHECK} such rows are little evidence: check it on new rows")
    return sentences


def _describe_accuracies(finding: Finding, evidence: ViewEvidence) -> str:
    views = capitalize(format_view_names(evidence.views))
    accuracy = format_percent(evidence.accuracy)
    network = format_percent(evidence.network_accuracy)
    baseline = format_percent(finding.majority_share)
    predict = choose_word_forms(evidence.views).predict
    return (
        f"{views} alone {predict} {accuracy} of the held-out labels, the whole network {network}, the commonest label "
        f"{baseline}"
    )


def _describe_followed_rows(classifier: str, evidence: ViewEvidence) -> str:
    forms = choose_word_forms(evidence.views)
    with_view = round(evidence.rows * (evidence.follows_view or 0))
    with_label = round(evidence.rows * (evidence.follows_label or 0))
    return (
        f"On the {format_row_count(evidence.rows)} where {forms.subject} clearly {forms.point} to another label, "
        f"{classifier} follows {forms.object} in {with_view:,} and the label in {with_label:,}"
    )


def advise_user(finding: Finding, asked_views: Sequence[str] | None = None) -> str:
    """Return how a user who knows more than the search overrules it; empty where the user named the shortcut.

    Args:
        finding: Of a search.
        asked_views: The views that an audit asks the user about; by default those of the shortcut.
    """
    views = finding.views if asked_views is None else asked_views
    if not views:
        example = ""
        if finding.candidates and finding.verdict != "none found":  # otherwise an example would read as a hint
            example = f", such as `{format_view_options('shortcut', finding.candidates[0].views[:1])}`"
        option = f"add `--shortcut VIEW`{example}"
        return f"If you know a shortcut, name it: {option}. `logit-correction list views` shows the names"
    legitimate = format_view_options("legitimate", views)
    if not finding.corrects:
        return f"Only you can tell: add `{format_view_options('shortcut', views)}` or `{legitimate}`"
    forms = choose_word_forms(views)
    cause = f"{format_view_names(views)} {forms.be} {forms.legitimate_cause}"
    return f"If {cause} of the label, add `{legitimate}`" if finding.evidence else ""


def finding_to_dict(finding: Finding | None) -> dict[str, Any] | None:
    """Return a finding as ``report.json`` holds it: plain values, and the sentences under ``sentence``; None of None.

    For programs, the figures of what is corrected by stand on top as well.
    """
    if finding is None:
        return None
    values = to_json_values(finding)
    if finding.decided_by == "person":  # files of older versions, which had no others, stay as they were
        del values["decided_by"]
    figures = to_json_values(finding.candidate) if finding.candidate else {}
    if finding.corrects and finding.main_evidence:
        figures |= to_json_values(finding.main_evidence)
    figures = {name: value for name, value in figures.items() if name not in (*values, "signs")}
    view = {"view": ", ".join(finding.views) or None, "corrects": finding.corrects}
    return {**view, **values, **figures, "sentence": describe_finding(finding)}
