"""What an audit has found, as values; see ``docs/audit.md`` for the keys of ``audit.json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CandidateResult:
    """One trained candidate on the new rows; intervals are of 90 %, shares and accuracies from 0 to 1.

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
        chosen: Name of the candidate to train; None where answers are needed first.
        gain: Estimated gain of it over ERM, corrected for the selection; None of ERM, and without answers.
        num_needed: Further answers after which it should be clear whether the best candidate beats ERM; None without
            answers, but 0 where no answer could decide that.
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

    @property
    def correction(self) -> CandidateResult | None:
        """The chosen candidate; None where that is ERM, and where none was chosen."""
        return next((candidate for candidate in self.candidates[1:] if candidate.name == self.chosen), None)
