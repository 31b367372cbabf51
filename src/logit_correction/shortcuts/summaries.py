"""What an audit has found, as values: a search of the data, a check of a given classifier, or a selection on new rows.

``AuditSummary`` has a field for each key of ``audit.json``, which holds its ``record`` flat; ``load_summary`` reads it.
Intervals are Wilson intervals of 90 %, shares and accuracies are from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from logit_correction.finding import MIN_CONFLICTS_TO_CHECK, Finding, Verdict
from logit_correction.finding_text import advise_user, describe_finding, finding_to_dict
from logit_correction.serialization import from_json_values, to_json_values
from logit_correction.shortcuts.shift import ViewShift
from logit_correction.view_names import choose_word_forms, format_view_names

#: Share of the conflicting rows in which a classifier must follow a view to be said to rely on it, if its error rate on
#: other rows is not larger.
MIN_FOLLOWED_SHARE = 0.12


# -- tables


@dataclass(frozen=True)
class Interval:
    """An accuracy with its interval; None without rows."""

    accuracy: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Accuracy:
    """The accuracy on a number of rows; None without rows."""

    accuracy: float | None
    low: float
    high: float
    rows: int


@dataclass(frozen=True)
class ClassifierAccuracy:
    """Accuracies of one classifier on held-out rows.

    Attributes:
        name: Its name in tables.
        conflicting: On rows that are estimated to be bias-conflicting; ``agreeing``, on bias-aligned ones.
        balanced: If attribute and label were independent.
        like_training: On all rows.
    """

    name: str
    conflicting: Accuracy
    agreeing: Accuracy
    balanced: Interval
    like_training: Accuracy


@dataclass(frozen=True)
class EstimatedGroup:
    """Rows of a label whose views look like a label.

    Attributes:
        label: The label.
        attribute: The label that they look like.
        rows: Number of training rows.
        share: Their share of the rows of the label, with its interval.
        network: Accuracy of the classifier on held-out rows; ``fixed``, of LC.
    """

    label: str
    attribute: str
    rows: int
    share: float
    share_low: float
    share_high: float
    network: Accuracy
    fixed: Accuracy | None = None


@dataclass(frozen=True)
class ShownRow:
    """A bias-conflicting training row that the page lists; fields that the data lack are None."""

    row: int
    label: str
    attribute: str
    score: float
    line: int | None = None
    path: str | None = None
    name: str | None = None
    text: str | None = None
    network_label: str | None = None
    fixed_label: str | None = None


@dataclass(frozen=True)
class ContrastImage:
    """An image as a data URI, and the label that it looks like."""

    image: str
    looks_like: str


@dataclass(frozen=True)
class ContrastRow:
    """A line of a contrast; which fields are filled depends on its kind.

    Attributes:
        label: The label that a term, a value or an image belongs to.
        term: A word, a part of words, or a property of the form of texts.
        examples: Words that hold the part of words.
        value: A value of a column, or a bin.
        rows: Rows of the label with the term or value; ``other_rows``, of other labels.
        share: Share of the label's rows; ``other_share``, of the rows of other labels.
        deviations: Mean of the label's texts less that of others, in standard deviations.
        agree: Bias-aligned images; ``conflict``, bias-conflicting ones.
        looks_like: The attribute that most bias-conflicting rows of the label have; None where they have several.
    """

    label: str
    term: str | None = None
    examples: tuple[str, ...] = ()
    value: str | None = None
    rows: int | None = None
    other_rows: int | None = None
    share: float | None = None
    other_share: float | None = None
    deviations: float | None = None
    agree: tuple[ContrastImage, ...] = ()
    conflict: tuple[ContrastImage, ...] = ()
    looks_like: str | None = None


@dataclass(frozen=True)
class Contrast:
    """How labels differ as a view sees them.

    Attributes:
        kind: What the rows are: ``terms`` of texts, ``values`` of columns, ``images``, or ``numbers`` of form. Of
            ``images`` and ``conflicts``, ``rows`` counts bias-conflicting rows of the label, and ``other_rows``
            bias-aligned ones; of ``conflicts`` those that have a word, or meet a condition as the value.
        view: Name of the view, of images of all views.
        rows: The lines.
        cells: Of images: the cells of the grid that the views see.
        crop: Of images: pixels along the side of the crop that is shown; None shows whole images.
    """

    kind: Literal["terms", "values", "images", "numbers", "conflicts"]
    view: str
    rows: tuple[ContrastRow, ...]
    cells: tuple[str, ...] = ()
    crop: int | None = None


# -- new rows


@dataclass(frozen=True)
class CandidateResult:
    """One trained candidate on the new rows.

    Attributes:
        name: Its name in tables.
        description: What it does, in a phrase.
        config: The training as ``config.yaml`` holds it.
        views: The views that it corrects by, or that its network does not see.
        seconds: Training time in seconds.
        valid_accuracy: Accuracy on the validation rows, which are in-distribution.
        differs_new: Share of the new rows on which it and ERM predict different labels.
        differs_usual: The same of in-distribution rows.
        gain: Estimated gain in accuracy over ERM on the new rows; None without labelled new rows.
        num_answers: Labelled new rows on which it and ERM predict different labels.
        probability_best: Probability that it is the best candidate on the new rows; None without answers.
        weight: In the average, shrunk towards ERM where its gain is doubtful; 0 for candidates outside the average,
            None where there is no average.
        contrasts: How the training rows that it takes for bias-conflicting differ from others of their label; empty of
            ERM, and in audits of older versions.
        explained_by: Views that contradict the label on just these rows, where its own ``views`` are not narrow.
    """

    name: str
    description: str = field(metadata={"key": "does"})
    config: dict[str, Any]
    views: tuple[str, ...]
    seconds: float
    valid_accuracy: float = field(metadata={"key": "like_training"})
    differs_new: float
    differs_new_low: float
    differs_new_high: float
    differs_usual: float
    differs_usual_low: float
    differs_usual_high: float
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    num_answers: int = field(default=0, metadata={"key": "told_by"})
    probability_best: float | None = None
    weight: float | None = None
    contrasts: tuple[Contrast, ...] = ()
    explained_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class AverageResult:
    """The average of the candidates, weighted by the probability that each is best; intervals are of 90 %.

    Attributes:
        gain: Estimated gain in accuracy over ERM on the new rows, from 0 to 1.
        is_unsure: Whether the interval of the gain holds 0, or the gain rounds to 0 points.
        accuracy: Accuracy of the average on the new rows; None where too few rows were labelled that all candidates
            predict alike.
        erm_accuracy: The same of ERM.
    """

    gain: float
    gain_low: float
    gain_high: float
    is_unsure: bool
    accuracy: Interval | None = None
    erm_accuracy: Interval | None = None


@dataclass(frozen=True)
class AnsweredRow:
    """A new row that a person has labelled, and what is predicted of it.

    Attributes:
        row: Its number among the new rows.
        name: What the page calls it: its file, line or number.
        label: The answer.
        erm_label: What ERM predicts.
        compared_label: What the advice, or the average where ERM is advised, predicts; None where only ERM predicts.
        text: Content of a row of texts or of a table.
    """

    row: int
    name: str
    label: str
    erm_label: str
    compared_label: str | None = None
    text: str | None = None

    @property
    def is_disputed(self) -> bool:
        """Whether the two predict different labels."""
        return self.compared_label is not None and self.compared_label != self.erm_label


@dataclass(frozen=True)
class Selection:
    """Whether the distribution shifted from the training data to the new rows, and the candidate to train.

    Attributes:
        rows: Number of new rows; ``labelled``, of those that came with a label.
        usual_rows: Number of in-distribution rows that they were compared with.
        changed: Whether the shift is significant.
        p_value: Of the permutation test for a shift.
        candidates: All that were trained, ERM first.
        answers: Number of new rows whose label is known.
        num_asked: Number of rows that were put on sheets; ``sheet_answers``, of those among them that were answered.
        chosen: Name of the candidate to train; of an average, that of its likeliest correction; None where answers are
            needed first.
        gain: Estimated gain over ERM of what is advised; None of ERM, and without answers.
        average: The average of the candidates, or the likeliest correction where one candidate was asked for; None
            without answers, and in audits of older versions.
        single: Whether one candidate is to be trained, and no average, also for want of logits.
        learns_from_answers: Whether a fix, also one of ERM, learns a correction from the answers; not where one
            candidate was asked for, and where the inputs of the new rows were too large to keep.
        view_shifts: How well each view separates new rows from validation rows, the greatest area first; None in audits
            of older versions, and of too few rows.
        answered_rows: Rows of sheets that were answered, with the predictions, those in dispute first.
        num_needed: Further answers after which it should be clear whether the best candidate beats ERM; None without
            answers, but 0 where no answer could decide that.
        notes: Warnings about the new rows as they were read, such as values beyond the range of the training data.
    """

    rows: int
    labelled: int
    usual_rows: int
    changed: bool
    p_value: float = field(metadata={"key": "likely"})
    candidates: tuple[CandidateResult, ...]
    answers: int = 0
    num_asked: int = field(default=0, metadata={"key": "asked"})
    sheet_answers: int = 0
    chosen: str | None = None
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    num_needed: int | None = field(default=None, metadata={"key": "more"})
    average: AverageResult | None = None
    single: bool = False
    learns_from_answers: bool = True
    view_shifts: tuple[ViewShift, ...] | None = None
    answered_rows: tuple[AnsweredRow, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def correction(self) -> CandidateResult | None:
        """The chosen candidate; None where that is ERM, and where none was chosen."""
        return next((candidate for candidate in self.candidates[1:] if candidate.name == self.chosen), None)

    @property
    def members(self) -> list[CandidateResult]:
        """The members of the average that a fix trains, the one of the greatest weight first; none where it is ERM.

        After a shift a fix averages ERM with corrections even where none is chosen, as long as one may be better.
        """
        may_be_better = self.changed and not self.single
        if self.average is None or (self.correction is None and not may_be_better):
            return []
        members = sorted(
            (result for result in self.candidates if result.weight), key=lambda result: -(result.weight or 0)
        )
        return [] if members == [self.candidates[0]] else members


@dataclass(frozen=True)
class KnownViews:
    """What the user of an audit said of views, as options of ``Auto``."""

    shortcut: tuple[str, ...] = ()
    legitimate: tuple[str, ...] = ()
    when_unsure: str = "leave"


# -- what all audits keep


@dataclass(frozen=True)
class AuditedRows:
    """The file of all rows, its training rows, and those estimated to be bias-conflicting."""

    file: str
    train: int
    conflicting: int


@dataclass(frozen=True)
class AuditedData:
    """The data of an audit: its source and options, rows of each split, labels and warnings."""

    name: str
    source: str | None
    options: dict[str, Any]
    rows: dict[str, int]
    label_names: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class AuditedNetwork:
    """The network that the search trained."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class AuditTraining:
    """Epochs of the search's networks, None for a given classifier, and the seed."""

    epochs: int | None
    seed: int


@dataclass(frozen=True)
class AuditRecord:
    """What every audit keeps of its data, its search and its rows.

    Attributes:
        finding: The result of the search.
        groups: Label by what a row looks like.
        shown: Rows that the page lists.
        contrasts: How labels differ as the views see them; ``words``, as any view of texts does.
        rows: The file of all rows.
        classifier: What texts call the classifier that was examined.
        data: Of the data; ``network`` and ``training``, of the search's networks.
        labels_read: Split -> which labels were read.
        environment: Versions and machine.
        seconds: Time that the audit took.
        conflicts: How bias-conflicting training rows differ from others of their label; see also ``contrasts``.
    """

    finding: Finding = field(metadata={"key": "evidence"})
    groups: tuple[EstimatedGroup, ...]
    shown: tuple[ShownRow, ...]
    contrasts: tuple[Contrast, ...]
    words: tuple[Contrast, ...]
    rows: AuditedRows
    classifier: str
    data: AuditedData
    network: AuditedNetwork
    training: AuditTraining
    labels_read: dict[str, list[str]]
    environment: dict[str, Any]
    seconds: float = 0.0
    conflicts: tuple[Contrast, ...] = ()


def get_doubtful_views(finding: Finding) -> tuple[str, ...]:
    """Return the views of a likely shortcut that may be a legitimate cause: only the user can decide; empty if none."""
    if finding.user_named:
        return ()
    return finding.candidate_views if finding.verdict == "cannot tell" else finding.views


def format_question(views: tuple[str, ...]) -> str:
    """Return the question whether doubtful views are a legitimate cause; empty without views."""
    if not views:
        return ""
    forms = choose_word_forms(views)
    are = forms.be.capitalize()
    return f"{are} {format_view_names(views)} {forms.legitimate_cause} of the label, or an accident of this data?"


def relies_on_shortcut(finding: Finding) -> bool | None:
    """Return whether the examined classifier relies on the views of a shortcut; None where that cannot be decided.

    It does if it follows them in more of the conflicting rows than it errs elsewhere, and than ``MIN_FOLLOWED_SHARE``,
    by the interval of that share.
    """
    evidence = finding.main_evidence
    candidate = finding.candidate
    if not finding.views or evidence is None or candidate is None or evidence.rows < MIN_CONFLICTS_TO_CHECK:
        return None
    threshold = max(MIN_FOLLOWED_SHARE, candidate.statistics.error)
    if (evidence.follows_low or 0.0) >= threshold:
        return True
    return False if (evidence.follows_high or 0.0) < threshold else None


def drop_uninformative_views(finding: Finding) -> Finding:
    """Return a finding without a shortcut if its probe does not beat the majority-class baseline.

    Where one label is common, any probe is often right.
    """
    if finding.is_uninformative and not finding.user_named:
        return replace(finding, verdict="none found", views=())
    return finding


def get_advised_views(finding: Finding) -> tuple[str, ...]:
    """Return the views of a shortcut, unless only few rows conflict, on whose evidence nothing is advised."""
    num_conflicts = finding.main_evidence.rows if finding.main_evidence else 0
    return finding.views if finding.user_named or num_conflicts >= MIN_CONFLICTS_TO_CHECK else ()


def describe_missing_rows(finding: Finding) -> str:
    """Return why a check of a given classifier is inconclusive; empty where it has enough conflicting rows."""
    num_rows = finding.main_evidence.rows if finding.main_evidence else 0
    if not finding.views or num_rows >= MIN_CONFLICTS_TO_CHECK:
        return ""
    there_are = "there is 1" if num_rows == 1 else f"there are {num_rows}"
    return (
        f"A check needs {MIN_CONFLICTS_TO_CHECK} held-out rows where the view clearly points to another label; "
        f"{there_are}. Take more validation rows, or test on rows from elsewhere"
    )


@dataclass(frozen=True)
class AuditSummary:
    """What an audit has found: by a search of the data, by the check of a given classifier, or by new rows.

    Attributes:
        record: What all audits keep.
        cost: Classifier -> accuracies: ``network``, the examined one, and ``fixed``, LC, if it was tried; empty with
            new rows, and of a given classifier without enough conflicting rows.
        examined: The folder of the run, or the file of predictions, that was given; None of other audits.
        selection: Whether the distribution shifted, and the selected candidate; None without new rows.
        known_views: What the user said of views; None without new rows, and in audits of older versions.
    """

    record: AuditRecord
    cost: dict[str, ClassifierAccuracy] = field(default_factory=dict)
    examined: str | None = None
    selection: Selection | None = field(default=None, metadata={"key": "new_rows"})
    known_views: KnownViews | None = field(default=None, metadata={"key": "known"})

    @property
    def verdict(self) -> Verdict:
        """Whether a correction is better than ERM on the new rows; without these whether the data hold a shortcut.

        A search calls a shortcut only what the user has named: what the model holds for one may be a legitimate cause,
        and no figure of the training data can decide that.
        """
        if self.selection is not None and self.selection.correction is not None:
            return "shortcut"
        if self.selection is not None:
            return "none found" if self.selection.chosen else "cannot tell"
        finding = self.record.finding
        return "cannot tell" if finding.verdict == "shortcut" and not finding.user_named else finding.verdict

    @property
    def views(self) -> tuple[str, ...]:
        """The views to correct by, or those that the check of a given classifier is about."""
        if self.selection is not None:
            return self.selection.correction.views if self.selection.correction else ()
        return self.record.finding.views if self.examined else get_advised_views(self.record.finding)

    @property
    def sentence(self) -> str:
        """What was found, in sentences without the last full stop."""
        finding = self.record.finding
        missing_rows = describe_missing_rows(finding) if self.examined else ""
        return missing_rows or describe_finding(finding)

    @property
    def advice(self) -> str:
        """How a user who knows more overrules the search; empty where the user named the shortcut, and of a check."""
        finding = self.record.finding
        if self.examined or finding.user_named:
            return ""
        return f"{advise_user(finding, get_doubtful_views(finding))}."

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``audit.json``."""
        finding = self.record.finding
        doubtful_views = get_doubtful_views(finding)
        question = {"views": doubtful_views, "text": format_question(doubtful_views)}
        values = {
            "verdict": self.verdict,
            "views": self.views,
            "sentence": self.sentence,
            "leans": relies_on_shortcut(finding),
            "would_change": self.advice,
            "question": question if doubtful_views else None,
            "cost": self.cost,
            "examined": self.examined,
            "new_rows": self.selection,
            "known": self.known_views,
        }
        record = {**to_json_values(self.record), "evidence": finding_to_dict(finding)}
        return {**to_json_values(values), **record}


def load_summary(values: Mapping[str, Any]) -> AuditSummary:
    """Return the summary of ``audit.json``.

    Raises:
        TypeError: A key is missing.
        ValueError: A value has another type.
    """
    summary: AuditSummary = from_json_values(AuditSummary, {**values, "record": values})
    return summary
