"""Which candidate to train, by the rows that the model will be used on: what changed there, whom to ask, who gains.

Predictions are (C, M) numbers of labels: of C candidates, the first of which is ERM, on M rows. The table of new rows
is as ``new_rows.asked`` returns it, with the answers of all rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from logit_correction.data.frames import check_columns, read_frame, texts_of
from logit_correction.data.images import read_image
from logit_correction.errors import InputError, format_first
from logit_correction.files import read_cells
from logit_correction.finding import BASELINE, Choice, Tried
from logit_correction.functional import wilson_interval
from logit_correction.pages.plots import png_uris
from logit_correction.runs.assemble import Built
from logit_correction.shortcuts.candidates import Candidate, Trained, candidates_of, train_all
from logit_correction.shortcuts.new_rows import LABEL, ROUND, Array, Part, apart_of, asked, called, predictions_in
from logit_correction.training.display import Display

#: Standard deviations to either side of an interval of 90 %.
DEVIATIONS = 1.645

#: Chance of telling a change where there is none, and random exchanges of rows by which that is judged.
LEVEL, EXCHANGES = 0.05, 400

#: What is believed of a candidate before anybody answers: as by so many answered rows, and its gain on each of them.
PRIOR_ROWS, PRIOR_GAIN = 4.0, -0.05

#: Standard errors by which a candidate must be ahead of ERM: where the new rows changed, and where they did not.
AHEAD, AHEAD_UNCHANGED = 0.5, 1.5

#: Times that answers are drawn anew to correct the figure of a choice for the choice.
DRAWS = 500

#: The column of a sheet that a person fills in, and those by which its rows are known again.
ANSWER, KNOWN_BY = "answer", ("line", "path", "content")

#: Pixels along the shorter side of a picture to answer by.
SIDE = 160


# -- what changed


def disagreement(predictions: Array) -> Array:
    """Return the share of rows (C,) on which each candidate says another label than ERM.

    >>> disagreement(np.array([[0, 0, 1, 1], [0, 0, 1, 0]]))
    array([0.  , 0.25])
    """
    return np.asarray((predictions != predictions[0]).mean(axis=1))


def change_of(new: Array, usual: Array, seed: int = 0) -> float:
    """Return how likely candidates are as much further from ERM on new rows (C, M) than on usual ones (C, U) by chance.

    A permutation test exchanges rows between the two and compares the greatest rise of all candidates, in standard
    errors. It is exact whatever the candidates are. Up to ``LEVEL`` something has changed.
    """
    there = np.concatenate([new, usual], axis=1).T.astype(np.float64)
    rows, total = new.shape[1], there.sum(axis=0)
    others = len(there) - rows
    error = np.where((deviation := there.std(axis=0)) > 1e-6, deviation * math.sqrt(1 / rows + 1 / others), np.inf)

    def rise(sums: Array) -> Array:
        return np.asarray((sums / rows - (total - sums) / others) / error)

    seen, generator = rise(there[:rows].sum(axis=0)), np.random.default_rng(seed)
    chosen = np.zeros(len(there))
    chosen[:rows] = 1
    drawn = [rise(generator.permutation(chosen) @ there).max() for _ in range(EXCHANGES)]
    return float((1 + sum(one >= seen.max() for one in drawn)) / (1 + EXCHANGES))


def asked_of(built: Built, parts: Iterable[Part], display: Display) -> tuple[pd.DataFrame, Choice, list[Candidate]]:
    """Train all candidates, and ask them about the new rows; ``built`` is after its search for promising views.

    Returns:
        The table of new rows, how far they differ from usual ones, and the candidates.
    """
    table = built.table
    models = train_all(candidates_of(built), table, display)
    display.say("asking all candidates about the new rows")
    new = asked(parts, models, list(map(str, table.label_names)))
    return new, compared(new, models, table.label[table.split["valid"]].numpy()), [one.candidate for one in models]


def compared(table: pd.DataFrame, models: Sequence[Trained], label: Array) -> Choice:
    """Return how far new rows differ from usual ones; ``label`` (V,) is that of the validation rows."""
    usual = torch.stack([one.usual for one in models])
    predictions, said = predictions_in(table), usual.argmax(dim=2).numpy()
    likely = change_of(predictions_in(table, "apart_"), apart_of(usual).numpy())
    figures: dict[str, Array] = {"like_training": (said[:, : len(label)] == label).mean(axis=1)}
    for name, says in (("new", predictions), ("usual", said)):
        low, high = wilson_interval(torch.from_numpy((says != says[0]).sum(axis=1)), says.shape[1])
        figures |= {f"differs_{name}": disagreement(says)}
        figures |= {f"differs_{name}_low": low.numpy(), f"differs_{name}_high": high.numpy()}
    tried = [
        Tried(
            name=model.candidate.name,
            does=model.candidate.does,
            views=model.candidate.views,
            seconds=round(model.seconds, 1),
            **{name: float(values[number]) for name, values in figures.items()},  # type: ignore[arg-type]
        )
        for number, model in enumerate(models)
    ]
    return Choice(
        rows=predictions.shape[1],
        labelled=int((table[ROUND] == 0).sum()),
        usual_rows=said.shape[1],
        changed=likely <= LEVEL,
        likely=likely,
        candidates=tuple(tried),
    )


# -- whom to ask


def draw(predictions: Array, count: int, seed: int, answered: Sequence[int] = ()) -> tuple[Array, Array]:
    """Draw rows to ask a person about: those that tell most about which candidate is best.

    A row tells the more, the more candidates contradict ERM there: it is drawn with a chance in proportion to the root
    of their share, systematically along rows that are sorted by what all candidates say, so that each pattern has its
    share of the rows.

    Returns:
        Places (n,) of at most ``count`` rows that were not ``answered``, in random order, and the chance (M,) of each
        row to be drawn.
    """
    chance = np.sqrt((predictions != predictions[0]).mean(axis=0))
    chance[list(answered)] = 0
    count = min(count, int((chance > 0).sum()))
    if not count:
        return np.zeros(0, dtype=np.int64), np.zeros_like(chance)
    certain = np.zeros(len(chance), dtype=bool)
    while True:  # no chance is above 1
        rest = np.where(certain, 0, chance)
        scaled = rest * (count - certain.sum()) / max(rest.sum(), 1e-12)
        if not (scaled > 1).any():
            break
        certain |= scaled > 1
    chance = np.where(certain, 1.0, scaled)
    generator = np.random.default_rng(seed)
    _, pattern = np.unique(predictions, axis=1, return_inverse=True)
    order = np.lexsort((generator.random(len(chance)), pattern.ravel()))
    ends = np.cumsum(chance[order]) + generator.random()
    hit = np.floor(ends + 1e-9) > np.floor(ends - chance[order] + 1e-9)
    return generator.permutation(order[hit]), chance


# -- who gains


@dataclass(frozen=True)
class Gains:
    """What each candidate gains over ERM on the new rows, as a share of all of them.

    Attributes:
        gain: (C,) drawn towards a little below 0 where few answers tell of a candidate.
        error: (C,) standard errors.
        answers: (C,) answered rows on which a candidate and ERM differ.
    """

    gain: Array
    error: Array
    answers: Array


def gains_of(predictions: Array, places: Array, label: Array, weight: Array) -> Gains:
    """Return what candidates gain by answers: the ``label`` (n,) of the rows at ``places`` (n,), each of a ``weight``.

    A candidate gains nothing where it says the same as ERM. On how many rows it says something else is known without
    an answer. So answers only have to tell how often it is right there and ERM wrong, less the reverse.
    """
    apart, said = disagreement(predictions), predictions[:, places]
    right = (said == label).astype(np.float64) - (said[0] == label)
    counted = (said != said[0]) * weight
    total = counted.sum(axis=1)
    rows = total**2 / (counted**2).sum(axis=1).clip(1e-12)  # that equally weighted ones would be worth
    mean = (counted * right).sum(axis=1) / total.clip(1e-12)
    drawn = (rows * mean + PRIOR_ROWS * PRIOR_GAIN) / (rows + PRIOR_ROWS)
    variance = ((counted * right**2).sum(axis=1) / total.clip(1e-12) * rows + PRIOR_ROWS) / (rows + PRIOR_ROWS)
    error = np.sqrt((variance - drawn**2).clip(0.1) / (rows + PRIOR_ROWS))
    error[0] = drawn[0] = 0
    return Gains(apart * drawn, apart * error, (said != said[0]).sum(axis=1))


def chosen_of(gains: Gains, changed: bool) -> int:
    """Return the candidate of the greatest gain, or 0, ERM, where it is not ahead of ERM by enough standard errors."""
    best = int(gains.gain.argmax())
    ahead = AHEAD if changed else AHEAD_UNCHANGED
    return best if gains.gain[best] > ahead * gains.error[best] else 0


def corrected_gain(predictions: Array, places: Array, label: Array, weight: Array, changed: bool, seed: int) -> float:
    """Return the gain of the chosen candidate less what it owes to having been chosen by the same answers.

    The whole choice is made again on answers that are drawn from these with replacement. By how much the gain of what
    is chosen then falls on the answers themselves is taken off.
    """
    gains, generator = gains_of(predictions, places, label, weight), np.random.default_rng(seed)
    chosen, falls = chosen_of(gains, changed), []
    for _ in range(DRAWS):
        again = generator.integers(len(places), size=len(places))
        drawn = gains_of(predictions, places[again], label[again], weight[again])
        other = chosen_of(drawn, changed)
        falls.append(drawn.gain[other] - gains.gain[other])
    return float(gains.gain[chosen] - max(0.0, float(np.mean(falls))))


def more_answers(gains: Gains, chosen: int, answered: int) -> int:
    """Return how many further answers would tell whether the best candidate is ahead of ERM; 0 if that is told."""
    best = chosen or 1 + int(gains.gain[1:].argmax())
    apart, error = abs(float(gains.gain[best])), float(gains.error[best])
    if apart >= DEVIATIONS * error:
        return 0
    needed = answered * (DEVIATIONS * error / max(apart, 0.005)) ** 2
    return int(math.ceil(min(needed - answered, 200) / 10) * 10)


# -- the table of new rows: sheets, answers, and what they come to


def ask(table: pd.DataFrame, count: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the table, and a sheet of so many rows: those still open, and as many further ones as are missing.

    The further ones are marked as one more round.
    """
    still_open = np.flatnonzero((table[ROUND] >= 1) & (table[LABEL] < 0))
    places = still_open[:0]
    if len(still_open) < count:
        turn = max(0, int(table[ROUND].max())) + 1
        asked = np.flatnonzero(table[ROUND] >= 0).tolist()
        places, chance = draw(predictions_in(table), count - len(still_open), seed + turn, asked)
        table = table.assign(**{f"chance_{turn}": chance})
        table.loc[places, ROUND] = turn
    columns = ["row", *(name for name in KNOWN_BY if name in table)]
    return table, table.loc[np.concatenate([still_open, places]), columns].assign(**{ANSWER: ""})


def answered(table: pd.DataFrame, file: Path | str | pd.DataFrame, label_names: Sequence[str]) -> pd.DataFrame:
    """Return the table with the answers of a sheet; empty ones are open.

    Raises:
        InputError: The sheet is not of this audit, names a label that is not there, or a row twice.
    """
    place = "The answers" if isinstance(file, pd.DataFrame) else str(file)
    given, rows, answers = _sheet(file, place)
    by_name = {" ".join(name.casefold().split()): number for number, name in enumerate(label_names)}
    known_by = [name for name in KNOWN_BY if name in given and name in table]
    faults, found = list[str](), dict[int, int]()
    for at, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        number = int(row) if row is not None and row.isdecimal() and int(row) < len(table) else -1
        if number < 0 or table[ROUND].iloc[number] < 1:
            faults.append(f"row {row} was not asked")
        elif any(str(given[name].iloc[at]).strip() != str(table[name].iloc[number]).strip() for name in known_by):
            faults.append(f"row {row} is another one here: the sheet is that of another audit")
        elif answer is None or not answer.strip():
            continue
        elif (label := by_name.get(" ".join(answer.casefold().split()))) is None:
            faults.append(f"row {row}: {answer!r} is no label")
        elif number in found:
            faults.append(f"row {row} is there twice")
        else:
            found[number] = label
    if faults:
        fix = f"the labels are {', '.join(label_names)}; leave open what you do not know"
        raise InputError(f"{place}: {format_first(faults, 5, '; ')}: {fix}")
    if not found:
        raise InputError(f"{place} has no answer: fill in the column {ANSWER} of some rows")
    table = table.copy()
    table.loc[list(found), LABEL] = list(found.values())
    return table


def holds_more(table: pd.DataFrame, file: Path) -> bool:
    """Return whether a person has written answers into a sheet that are not in the table yet."""
    _, rows, answers = _sheet(file, str(file))
    known = set(table["row"][table[LABEL] >= 0].astype(str))
    return any(row not in known for row, one in zip(rows, answers, strict=True) if one)


def _sheet(file: Path | str | pd.DataFrame, place: str) -> tuple[pd.DataFrame, list[str | None], list[str | None]]:
    """Return a sheet, the numbers of its rows and the answers; ``InputError`` if it has no such columns."""
    given = file if isinstance(file, pd.DataFrame) else read_cells(read_frame(Path(file)))
    check_columns(given, place, ("row", ANSWER))
    return given, texts_of(given, "row"), texts_of(given, ANSWER)


def open_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return name, content and, of image files, a picture of the rows that were asked and that nobody has answered."""
    found = list[dict[str, Any]]()
    for _, row in table[(table[ROUND] >= 1) & (table[LABEL] < 0)].iterrows():
        path, image = Path(row.get("path", "")), None
        if path.is_file():  # it may not be there any more
            image = png_uris(torch.from_numpy(read_image(path, (SIDE, SIDE), "crop"))[None], SIDE)[0]
        found.append({"name": called(row), "content": row.get("content", ""), "image": image})
    return found


def weights_of(table: pd.DataFrame) -> tuple[Array, Array, Array]:
    """Return places, labels and weights of the rows whose label is known: rows over answers.

    Rows that came with a label count as drawn at random from all. Of a round that is answered in part, each row counts
    as asked with as much less chance.
    """
    known = (table[LABEL] >= 0).to_numpy()
    chance = np.full(len(table), ((table[ROUND] == 0).to_numpy() & known).mean())
    for turn in range(1, int(table[ROUND].max()) + 1):
        asked = (table[ROUND] == turn).to_numpy()
        chance += table[f"chance_{turn}"].to_numpy() * (known & asked).sum() / max(1, asked.sum())
    places = np.flatnonzero(known)
    return places, table[LABEL].to_numpy(dtype=np.int64)[places], 1 / chance[places].clip(1e-9)


def concluded(table: pd.DataFrame, found: Choice, seed: int) -> Choice:
    """Return what the answers say of each candidate, and which one to train, by what ``found`` says without answers."""
    predictions, (places, label, weight) = predictions_in(table), weights_of(table)
    asked = (table[ROUND] >= 1).to_numpy()
    found = replace(
        found,
        answers=len(places),
        asked=int(asked.sum()),
        sheet_answers=int((asked & (table[LABEL] >= 0).to_numpy()).sum()),
        chosen=None if found.changed else BASELINE,
    )
    if not len(places):
        return found
    gains = gains_of(predictions, places, label, weight)
    half, chosen = DEVIATIONS * gains.error, chosen_of(gains, found.changed)
    tried = [
        replace(one, gain=float(gain), gain_low=float(gain - ends), gain_high=float(gain + ends), told_by=int(rows))
        for one, gain, ends, rows in zip(found.candidates, gains.gain, half, gains.answers, strict=True)
    ]
    more = more_answers(gains, chosen, len(places))
    found = replace(found, candidates=tuple(tried), chosen=tried[chosen].name, more=more)
    if not chosen:
        return found
    gain = corrected_gain(predictions, places, label, weight, found.changed, seed)
    return replace(found, gain=gain, gain_low=gain - float(half[chosen]), gain_high=gain + float(half[chosen]))
