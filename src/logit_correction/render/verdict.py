"""What a comparison of runs comes to, in plain sentences computed from its figures."""

from __future__ import annotations

import math
from dataclasses import dataclass

from logit_correction.functional.groups import wilson_interval
from logit_correction.render.folder import Comparison, Series
from logit_correction.render.wording import NBSP, listing, percent, points

#: The method that everything is measured against.
BASELINE = "ERM"

#: Figures of the test block in the order in which they tell most, and where a model is right by them.
_PLACES = {
    "minority": "On groups where the shortcut misleads",
    "worst_group": "On its worst group",
    "worst_class": "On its worst label",
}


@dataclass(frozen=True)
class Verdict:
    """One sentence that answers the question, and a few that a careful reader asks for next."""

    headline: str
    details: tuple[str, ...]


def verdict(comparison: Comparison) -> Verdict:
    """Judge the runs on one task.

    The figure is the accuracy on the groups that conflict with the correlation; where these are not known, that of
    the worst group; where no attributes are known, the one of the worst label, and the verdict says that it cannot tell.
    """
    series = comparison.series
    key = next((key for key in _PLACES if all(one.figure(key) is not None for one in series)), None)
    details = [*_side_effects(series, key), *_trust(series)]
    if key is None:
        return Verdict("The test data has no rows to judge by.", tuple(details))
    if key == "worst_class":
        unknown = (
            "The test data names no attributes, so it cannot show whether a shortcut misleads. "
            f"{_PLACES[key]}, {_right(series, key)}."
        )
        return Verdict(unknown, tuple(details))
    if len(series) == 1:
        return Verdict(_alone(series[0], key), tuple(details))
    return Verdict(f"{_PLACES[key]}, {_right(series, key)}: {_outcome(series, key)}.", tuple(details))


def _right(series: tuple[Series, ...], key: str) -> str:
    first = f"{series[0].name} is right in {percent(series[0].figure(key))} of the cases"
    return listing([first, *(f"{one.name} in {percent(one.figure(key))}" for one in series[1:])])


def _value(series: Series, key: str) -> float:
    value = series.figure(key)
    return math.nan if value is None else value


def _outcome(series: tuple[Series, ...], key: str) -> str:
    """Who is ahead of whom by how much, or that nobody is."""
    ranked = sorted(series, key=lambda one: _value(one, key), reverse=True)
    best = ranked[0]
    base = next((one for one in series if one.method == BASELINE), None)
    if base is None:
        second = ranked[1]
        ahead = f"{best.name} is ahead of {second.name} by {points(_value(best, key) - _value(second, key))}"
        return ahead if _differ(best, second, key) else "the difference between the best two is no more than chance"
    if best is not base and _differ(best, base, key):
        gain = points(_value(best, key) - _value(base, key))
        return f"{best.name} gains {gain}" if len(series) == 2 else f"{best.name} gains most, {gain} over {base.name}"
    rival = next(one for one in ranked if one is not base)
    if not _differ(rival, base, key):
        return f"{rival.name} makes no difference beyond chance"
    return f"{rival.name} does not help here, it loses {points(_value(rival, key) - _value(base, key))}"


def _differ(one: Series, other: Series, key: str) -> bool:
    """Whether a difference is more than chance.

    With several runs on both sides: no run of one side reaches into the other side's range. Else the 95 % interval
    of the difference of two shares, from their Wilson intervals (Newcombe), has to leave out 0.
    """
    if min(len(one.runs), len(other.runs)) > 1:
        (low, high), (other_low, other_high) = one.spread(key) or (0, 1), other.spread(key) or (0, 1)
        return low > other_high or other_low > high
    share, other_share = _value(one, key), _value(other, key)
    if share < other_share:
        share, other_share, one, other = other_share, share, other, one
    low, _ = wilson_interval(share * _rows(one, key), _rows(one, key))
    _, high = wilson_interval(other_share * _rows(other, key), _rows(other, key))
    return share - other_share > math.hypot(share - float(low), float(high) - other_share)


def _rows(series: Series, key: str) -> float:
    """Number of test rows that a figure rests on."""
    groups = series.groups
    if key == "minority":
        return float(groups["count"][groups["minority"] == True].sum())  # noqa: E712  (None is neither)
    return float(groups["count"][groups["accuracy"].idxmin()])


def _alone(series: Series, key: str) -> str:
    sentence = f"{_PLACES[key]}, {series.name} is right in {percent(series.figure(key))} of the cases"
    elsewhere = series.figure("majority") if key == "minority" else series.figure("average")
    if elsewhere is not None:
        where = "where it helps" if key == "minority" else "over all rows"
        sentence += f", against {percent(elsewhere)} {where}: a gap of {points(elsewhere - _value(series, key))}"
    return sentence + "."


def _side_effects(series: tuple[Series, ...], key: str | None) -> list[str]:
    """The other figures, so that a gain is not told without its price."""
    sentences = []
    wording = {
        "majority": "Where the shortcut helps",
        "group_balanced": "With every group counted alike",
        "average": "Over all test rows",
    }
    for name, place in wording.items():
        if all(one.figure(name) is not None for one in series) and (name != "average" or key != "minority"):
            sentences.append(f"{place}: {listing([f'{one.name} {percent(one.figure(name))}' for one in series])}.")
    return sentences


def _trust(series: tuple[Series, ...]) -> list[str]:
    """How far the figures carry."""
    sentences = []
    if len(series) == 1 and series[0].method != BASELINE:
        sentences.append(f"No ordinary classifier ({BASELINE}) was trained beside it, so there is nothing to compare with.")
    counts = {len(one.runs) for one in series}
    if counts == {1}:
        sentences.append("Each figure is one training run; another seed can move it by a few points.")
    else:
        runs = [f"{one.name} {len(one.runs)}{NBSP}run{'s' if len(one.runs) > 1 else ''}" for one in series]
        sentences.append(f"Figures are means over seeds: {listing(runs)}.")
    return sentences
