"""Results of the shortcut search: what each view shows, how candidates score, and the verdict.

The fields are keys of ``report.json`` and ``audit.json``; where a file has another key, the field names it.
``finding_text`` renders a finding in sentences. All intervals are Wilson intervals of 90 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeAlias

from logit_correction.serialization import from_json_values, storage_key
from logit_correction.view_names import RICH

Verdict: TypeAlias = Literal["shortcut", "none found", "cannot tell"]

#: Who named a shortcut: a person, the labels of new rows, or the search of an audit.
Decider: TypeAlias = Literal["person", "answers", "search"]

#: The method that others are compared with: empirical risk minimisation, ordinary training.
BASELINE = "ERM"

#: What texts call a classifier that the user gave to an audit.
EXAMINED = "the examined classifier"

#: Held-out rows below which the search draws no conclusion.
MIN_HELD_OUT_ROWS = 20

#: Conflicting rows needed to decide whether a classifier relies on a view: the interval of a share is then about 30
#: percentage points wide.
MIN_CONFLICTS_TO_CHECK = 30


@dataclass(frozen=True)
class ViewEvidence:
    """What a probe, a head on the features of one or several views, shows about a possible shortcut.

    A row *conflicts* where the probe predicts a label other than the row's with a high probability.

    Attributes:
        views: Names of the views.
        breadth: How much they can see, from 0 (one thing) to 3 (everything); see ``View``.
        accuracy: Held-out accuracy of the probe; ``accuracy_low`` is the lower end of its interval.
        network_accuracy: Accuracy of the whole network on the same rows.
        ratio: ``accuracy`` over ``network_accuracy``.
        rows: Number of conflicting rows; ``share``, their share of the held-out rows.
        follows_view: Share of the conflicting rows in which the network predicts as the probe does.
        follows_label: Share of the conflicting rows in which the network predicts the label.
        follows_low: Interval of ``follows_view`` among rows where the network does one of the two, to ``follows_high``.
        information: Share of the label's entropy that the probe removes.
    """

    views: tuple[str, ...]
    breadth: int
    accuracy: float
    accuracy_low: float
    network_accuracy: float
    ratio: float | None
    rows: int
    share: float
    follows_view: float | None
    follows_label: float | None
    follows_low: float | None
    follows_high: float | None
    information: float

    #: Accuracy from which a simple view that is as accurate as the whole network may leak the label.
    LEAK_ACCURACY: ClassVar[float] = 0.95

    def may_leak(self, majority_share: float) -> bool:
        """Return whether narrow views may leak the label: few rows conflict, and the network is not more accurate.

        Args:
            majority_share: Accuracy of the majority-class baseline, which the probe has to exceed.
        """
        is_accurate = self.accuracy >= max(self.LEAK_ACCURACY, self.network_accuracy - 0.005)
        beats_baseline = self.accuracy_low > majority_share
        return is_accurate and beats_baseline and self.breadth < RICH and self.rows < MIN_CONFLICTS_TO_CHECK


@dataclass(frozen=True)
class CandidateStatistics:
    """Statistics from which the probability is computed that correcting by a candidate helps.

    ``shortcuts.evidence.compute_statistics`` computes them. Rows are *flagged* where the attribute that the candidate
    estimates differs from the label.

    Attributes:
        flagged: Number of flagged held-out rows.
        error: Error rate of the network on the other rows.
        excess: Share of the flagged rows in which the network predicts the estimated attribute, less ``error``.
        explains: Share of the network's errors that these rows explain.
        plain_information: Share of the label's entropy that a probe removes.
        typical: How much less typical of their label flagged rows are, by other views, than other rows; 0.5 to 1.
    """

    flagged: int
    error: float
    excess: float
    explains: float
    plain_information: float
    typical: float


@dataclass(frozen=True)
class ScoredCandidate:
    """A candidate shortcut: its ``views``, and the ``probability`` that correcting by them helps."""

    views: tuple[str, ...]
    probability: float
    statistics: CandidateStatistics = field(metadata={"key": "signs"})


@dataclass(frozen=True)
class Finding:
    """The verdict of a search, what it is about, and all evidence.

    Attributes:
        verdict: ``shortcut`` where the user named one, else whether one may be there; see ``corrects``.
        views: What is corrected by; empty where nothing is.
        user_named: Whether the shortcut was named, see ``decided_by``; then no verdict was computed.
        legitimate: Views that the user called legitimate causes.
        classifier: What texts call the classifier whose predictions were examined.
        num_rows: Held-out rows that it was examined on; 0 without a search.
        majority_share: Share of the commonest label among these, the accuracy of the majority-class baseline.
        candidate_views: The views of the candidate that the verdict is about; empty without one.
        leak_views: Views that may leak the label, where nothing else was found.
        evidence: Of all views that were tried.
        candidates: All candidates, the likeliest to help first.
        decided_by: Who named the shortcut, if it is ``user_named``.
    """

    verdict: Verdict
    views: tuple[str, ...] = ()
    user_named: bool = field(default=False, metadata={"key": "named"})
    legitimate: tuple[str, ...] = ()
    classifier: str = field(default=BASELINE, metadata={"key": "who"})
    num_rows: int = field(default=0, metadata={"key": "judged"})
    majority_share: float = field(default=0.0, metadata={"key": "commonest"})
    candidate_views: tuple[str, ...] = field(default=(), metadata={"key": "about"})
    leak_views: tuple[str, ...] = field(default=(), metadata={"key": "leak"})
    evidence: tuple[ViewEvidence, ...] = field(default=(), metadata={"key": "looks"})
    candidates: tuple[ScoredCandidate, ...] = ()
    decided_by: Decider = "person"

    @property
    def corrects(self) -> bool:
        """Whether anything is corrected."""
        return bool(self.views)

    @property
    def candidate(self) -> ScoredCandidate | None:
        """The candidate that the verdict is about; None without one."""
        return next((candidate for candidate in self.candidates if candidate.views == self.candidate_views), None)

    @property
    def main_evidence(self) -> ViewEvidence | None:
        """The evidence that the verdict is about: of the candidate's views, or of those that may leak the label."""
        views = self.leak_views or self.candidate_views
        return next((evidence for evidence in self.evidence if evidence.views == views), None)

    @property
    def is_uninformative(self) -> bool:
        """Whether the main evidence is not significantly better than the majority-class baseline."""
        return self.main_evidence is not None and self.main_evidence.accuracy_low <= self.majority_share

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Finding:
        """Return the finding that ``finding_to_dict`` gave.

        Raises:
            ValueError: A key is missing, or holds a value of another type.
        """
        missing = [key for key in map(storage_key, fields(cls)) if key not in (*values, "decided_by")]
        if missing:
            raise ValueError(f"the finding of a shortcut has no {missing[0]}: it is damaged, or of another version")
        finding: Finding = from_json_values(cls, values)
        return finding
