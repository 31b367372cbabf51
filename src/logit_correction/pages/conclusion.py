"""What a comparison of runs comes to, in plain sentences computed from its figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from logit_correction.errors import NBSP, format_list, format_percent
from logit_correction.functional.groups import wilson_interval
from logit_correction.pages.comparison import Comparison
from logit_correction.pages.folder import Series
from logit_correction.pages.formatting import format_points

#: The method that everything is measured against.
BASELINE = "ERM"

#: Figures of the test block in the order in which they tell most, and where a model is right by them.
_PLACES = {
    "minority": "On groups where the shortcut misleads",
    "worst_group": "On its worst group",
    "estimated_minority": "Where the estimated attribute conflicts with the label",
    "worst_class": "On its worst label",
}


@dataclass(frozen=True)
class Conclusion:
    """One sentence that answers the question, and a few that a careful reader asks for next."""

    headline: str
    details: tuple[str, ...]


def conclude(comparison: Comparison) -> Conclusion:
    """Draw the conclusion from the runs on one task.

    The figure is the accuracy on the groups that conflict with the correlation; where these are not known,
    that of the worst group; where no attributes are known, that on rows whose estimated attribute conflicts with the
    label; and where nothing is estimated, that of the worst label, and then the conclusion says that it cannot tell.
    """
    series = comparison.series
    possible = [key for key in _PLACES if not (comparison.named and key.startswith("estimated"))]
    key = next((key for key in possible if all(one.figure(key) is not None for one in series)), None)
    details = [*_how_estimated(comparison, key), *_side_effects(series, key), *_trust(series, key)]
    if key is None:
        return Conclusion("The test data has no rows to judge by.", tuple(details))
    if key == "worst_class":
        unknown = (
            "The test data names no attributes, so it cannot show whether a shortcut misleads. "
            f"{_PLACES[key]}, {_right(series, key)}."
        )
        return Conclusion(unknown, tuple(details))
    if len(series) == 1:
        return Conclusion(_alone(series[0], key), tuple(details))
    return Conclusion(f"{_PLACES[key]}, {_right(series, key)}: {_outcome(series, key)}.", tuple(details))


def _right(series: tuple[Series, ...], key: str) -> str:
    digits = _digits([_value(one, key) for one in series])
    first = f"{series[0].name} is right in {format_percent(series[0].figure(key), digits)} of the cases"
    return format_list([first, *(f"{one.name} in {format_percent(one.figure(key), digits)}" for one in series[1:])])


def _value(series: Series, key: str) -> float:
    value = series.figure(key)
    return math.nan if value is None else value


def _digits(values: Sequence[float]) -> int:
    """Decimals of a per cent that are told: more where figures lie close together and are not the same."""
    ordered = sorted(values)
    return int(any(0 < upper - lower < 0.02 for lower, upper in pairwise(ordered)))


def _gap(one: float, other: float, digits: int) -> str:
    """The distance of two figures as the reader sees them, so that the numbers of a sentence agree."""
    shown, other_shown = (float(format_percent(value, digits, unit="")) for value in (one, other))
    return format_points((shown - other_shown) / 100)


def _outcome(series: tuple[Series, ...], key: str) -> str:
    """Who is ahead of whom by how much, or that nobody is."""
    digits = _digits([_value(one, key) for one in series])
    ranked = sorted(series, key=lambda one: _value(one, key), reverse=True)
    base = next((one for one in series if one.method == BASELINE), None)
    best = next(one for one in ranked if one is not base)
    other = base or ranked[1]
    gap = _gap(_value(best, key), _value(other, key), digits)
    if not _differ(best, other, key):
        if base is None:
            return "the difference between the best two is no more than chance"
        return f"{best.name} makes no difference beyond chance"
    if _value(best, key) < _value(other, key):
        return f"{best.name} does not help here, it loses {gap}"
    if base is None:
        return f"{best.name} is ahead of {other.name} by {gap}"
    return f"{best.name} gains {gap}" if len(series) == 2 else f"{best.name} gains most, {gap} over {base.name}"


def _differ(one: Series, other: Series, key: str) -> bool:
    """Whether a difference is more than chance.

    With several runs on both sides: no run of one side reaches into the other side's range. Else the 95 %
    interval of the difference of two shares, from their Wilson intervals (Newcombe), has to leave out 0.
    """
    if min(len(one.runs), len(other.runs)) > 1:
        own, others = one.spread(key), other.spread(key)
        return own is not None and others is not None and (own[0] > others[1] or others[0] > own[1])
    share, other_share = _value(one, key), _value(other, key)
    if share < other_share:
        share, other_share, one, other = other_share, share, other, one
    low, _ = wilson_interval(share * _rows(one, key), _rows(one, key))
    _, high = wilson_interval(other_share * _rows(other, key), _rows(other, key))
    return share - other_share > math.hypot(share - float(low), float(high) - other_share)


def _rows(series: Series, key: str) -> float:
    """Number of test rows that a figure rests on."""
    groups = series.groups
    if key == "estimated_minority" and series.estimated_groups is not None:
        key, groups = "minority", series.estimated_groups
    if key == "minority":
        return float(groups["count"][groups["minority"] == True].sum())  # noqa: E712  (None is neither)
    return float(groups["count"].to_numpy()[int(groups["accuracy"].argmin())])


def _alone(series: Series, key: str) -> str:
    value = _value(series, key)
    conflicting = {"minority": "where it helps", "estimated_minority": "where it agrees"}
    elsewhere = series.figure(key.replace("minority", "majority") if key in conflicting else "average")
    digits = _digits([value] if elsewhere is None else [value, elsewhere])
    sentence = f"{_PLACES[key]}, {series.name} is right in {format_percent(value, digits)} of the cases"
    if elsewhere is not None:
        where = conflicting.get(key, "over all rows")
        sentence += f", against {format_percent(elsewhere, digits)} {where}: a gap of {_gap(elsewhere, value, digits)}"
    return sentence + "."


def _how_estimated(comparison: Comparison, key: str | None) -> list[str]:
    """Say where estimated groups come from, and how far they can be trusted."""
    block = comparison.estimated
    if block is None or key != "estimated_minority":
        return []
    rows = sum(group["count"] for group in block["groups"] if group["minority"])
    by = block.get("by") or {}
    run = f" in the run of {by['method']}" if len(comparison.series) > 1 and by else ""
    return [
        f"The test data names no attributes: these {rows:,} rows were found by {block['source']}{run}. Nobody has "
        "checked them, so no run is marked as the best."
    ]


def _side_effects(series: tuple[Series, ...], key: str | None) -> list[str]:
    """The other figures, so that a gain is not told without its price."""
    sentences = []
    places = {
        "majority": "Where the shortcut helps",
        "estimated_majority": "Where it agrees",
        "group_balanced": "With every group counted alike",
        "average": "Over all test rows",
    }
    told = {"average"} if key == "minority" else set()  # the test split's own mix of groups says little then
    told |= set() if key == "estimated_minority" and len(series) > 1 else {"estimated_majority"}
    if len(series) == 1:
        alone = {"minority": {"majority", "average"}, "worst_group": {"average"}}
        told |= alone.get(str(key), set())
    for name, place in places.items():
        if name not in told and all(one.figure(name) is not None for one in series):
            sentences.append(
                f"{place}: {format_list([f'{one.name} {format_percent(one.figure(name))}' for one in series])}."
            )
    return sentences


def _trust(series: tuple[Series, ...], key: str | None) -> list[str]:
    """How far the figures carry: of other seeds only what several seeds have shown."""
    sentences = []
    if len(series) == 1 and series[0].method != BASELINE:
        sentences.append(
            f"No ordinary classifier ({BASELINE}) was trained beside it, so there is nothing to compare with."
        )
    counts = {len(one.runs) for one in series}
    if counts == {1}:
        sentences.append("Each figure is one training run: of how far another seed would move it, it tells nothing.")
    else:
        runs = [f"{one.name} {len(one.runs)}{NBSP}run{'s' if len(one.runs) > 1 else ''}" for one in series]
        sentences.append(f"Figures are means over seeds: {format_list(runs)}.")
        sentences += _seeds(series, key)
    return sentences


def _seeds(series: tuple[Series, ...], key: str | None) -> list[str]:
    """The measured spread of the figure that decides."""
    told = []
    for one in series:
        spread, deviation = (None, None) if key is None else (one.spread(key), one.deviation(key))
        if spread is not None and deviation is not None:
            low, high = (format_percent(end, 1, unit="") for end in spread)
            told.append(f"from {low} to {high}{NBSP}% with {one.name} (standard deviation {format_points(deviation)})")
    return [f"From seed to seed the figure above goes {format_list(told)}."] if told else []
