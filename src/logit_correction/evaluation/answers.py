"""On how many rows that a person has labelled two classifiers are right: the evidence by which an audit advises one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AnswerCounts:
    """How often ERM and what an audit compares with it are right on the new rows that a person has labelled.

    Attributes:
        num_answers: Labelled rows.
        num_disputed: Those on which the two predict different labels.
        erm_right: Rows in dispute on which ERM is right.
        advice_right: Rows in dispute on which the other is right.
        both_right: Other rows on which both are right.
        is_advised: Whether the other is advised; else it is the best average, which is not.
    """

    num_answers: int
    num_disputed: int
    erm_right: int
    advice_right: int
    both_right: int
    is_advised: bool = True

    def describe(self) -> str:
        """Return the counts in a sentence without its full stop."""
        advice = "the advice" if self.is_advised else "the best average"
        if not self.num_disputed:
            return f"ERM and {advice} never disagree: both are right on {self.both_right} of your {self.num_answers}"
        erm_total = self.erm_right + self.both_right
        advice_total = self.advice_right + self.both_right
        return (
            f"Of your {self.num_answers} answers, ERM is right on {erm_total} and {advice} on {advice_total}; of the "
            f"{self.num_disputed} on which they disagree, on {self.erm_right} and {self.advice_right}"
        )
