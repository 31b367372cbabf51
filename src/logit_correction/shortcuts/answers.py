"""A sheet of new rows that a person labels, what comes back, and what is concluded from all answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from logit_correction.config import RunConfig
from logit_correction.data.frames import check_columns, read_frame, texts_of
from logit_correction.data.images import read_image
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, format_first
from logit_correction.files import read_cells
from logit_correction.finding import Choice, Tried
from logit_correction.pages.plots import png_uris
from logit_correction.shortcuts import choice
from logit_correction.shortcuts.auto import Auto
from logit_correction.shortcuts.candidates import Candidate, Trained, candidates_of, groups_of, train_all
from logit_correction.shortcuts.new_rows import NewRows, Part, apart_of, asked, called
from logit_correction.training.display import Display

#: The column of a sheet that a person fills in, and those by which its rows are known again.
ANSWER, KNOWN_BY = "answer", ("line", "path", "content")

#: Pixels along the shorter side of a picture to answer by.
SIDE = 160

#: Columns of the table of new rows: the number of a label that is known, the round in which a row was asked.
LABEL, ROUND = "label_number", "round"


def decide(
    table: DataTable, config: RunConfig, estimator: Auto, parts: Iterable[Part], display: Display
) -> tuple[pd.DataFrame, Choice, list[Candidate]]:
    """Train all candidates, and ask them about the new rows.

    Args:
        table: The data, with rows of validation.
        config: Complete; its method does not matter.
        estimator: After its search, which says which views are promising.
        parts: The new rows.
        display: Told how far it is.

    Returns:
        The table of new rows, what they choose, and the candidates.
    """
    assert estimator.search is not None
    groups = groups_of(estimator.search, estimator.shortcut)
    models = train_all(candidates_of(config, table, groups), table, display)
    display.say("asking all candidates about the new rows")
    new = table_of(asked(parts, models, list(map(str, table.label_names))))
    kept = [one.candidate for one in models]
    told = change(new, models, table.label[table.split["valid"]].numpy())
    return new, concluded(new, told, config.training.seed), kept


def table_of(new: NewRows) -> pd.DataFrame:
    """Return the table of new rows that an audit keeps: what is known of each, and what each candidate says."""
    says = {f"says_{number}": one for number, one in enumerate(new.predictions)}
    says |= {f"apart_{number}": one for number, one in enumerate(new.apart)}
    return new.frame.drop(columns="label").assign(**{LABEL: new.label, ROUND: np.where(new.label >= 0, 0, -1)}, **says)


def predictions_in(table: pd.DataFrame, what: str = "says_") -> choice.Array:
    """Return what the candidates say of the new rows, (C, M), or how far ``apart_`` from ERM they are."""
    return np.stack([table[name].to_numpy() for name in table if str(name).startswith(what)])


def ask(table: pd.DataFrame, count: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the table, and a sheet of so many rows: those still open, and as many further ones as are missing.

    The further ones are marked as one more round.
    """
    still_open = np.flatnonzero((table[ROUND] >= 1) & (table[LABEL] < 0))
    places = still_open[:0]
    if len(still_open) < count:
        turn = max(0, int(table[ROUND].max())) + 1
        asked = np.flatnonzero(table[ROUND] >= 0).tolist()
        places, chance = choice.draw(predictions_in(table), count - len(still_open), seed + turn, asked)
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
    faults, found = list[str](), dict[int, int]()
    for at, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        number = int(row) if row is not None and row.isdecimal() and int(row) < len(table) else -1
        if number < 0 or table[ROUND].iloc[number] < 1:
            faults.append(f"row {row} was not asked")
        elif any(_differs(given, at, table, number, name) for name in KNOWN_BY):
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


def _differs(given: pd.DataFrame, at: int, table: pd.DataFrame, number: int, name: str) -> bool:
    return (
        name in given and name in table and str(given[name].iloc[at]).strip() != str(table[name].iloc[number]).strip()
    )


def open_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return name, content and, of image files, a picture of the rows that were asked and that nobody has answered."""
    rows = table[(table[ROUND] >= 1) & (table[LABEL] < 0)]
    names = [called(row) for _, row in rows.iterrows()]
    contents = rows["content"].tolist() if "content" in rows else [""] * len(rows)
    pictures: list[str | None] = [None] * len(rows)
    if "path" in rows:
        pictures = [_picture(Path(path)) for path in rows["path"]]
    return [
        {"name": name, "content": content, "image": image}
        for name, content, image in zip(names, contents, pictures, strict=True)
    ]


def _picture(path: Path) -> str | None:
    """Return an image file for a page; None where it is not there any more."""
    if not path.is_file():
        return None
    return png_uris(torch.from_numpy(read_image(path, (SIDE, SIDE), "crop"))[None], SIDE)[0]


def weights_of(table: pd.DataFrame) -> tuple[choice.Array, choice.Array, choice.Array]:
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
        chosen=None if found.changed else found.baseline.name,
    )
    if not len(places):
        return found
    gains = choice.gains_of(predictions, places, label, weight)
    half = choice.DEVIATIONS * gains.error
    tried = [
        replace(one, gain=float(gain), gain_low=float(gain - ends), gain_high=float(gain + ends), told_by=int(rows))
        for one, gain, ends, rows in zip(found.candidates, gains.gain, half, gains.answers, strict=True)
    ]
    chosen = choice.chosen_of(gains, found.changed)
    found = replace(
        found,
        candidates=tuple(tried),
        chosen=tried[chosen].name,
        more=choice.more_answers(gains, chosen, len(places)),
    )
    if not chosen:
        return found
    gain = choice.corrected_gain(predictions, places, label, weight, found.changed, seed)
    return replace(found, gain=gain, gain_low=gain - float(half[chosen]), gain_high=gain + float(half[chosen]))


def change(table: pd.DataFrame, models: Sequence[Trained], label: choice.Array) -> Choice:
    """Return how far new rows differ from usual ones; ``label`` (V,) is that of the validation rows."""
    usual = torch.stack([one.usual for one in models])
    predictions, said = predictions_in(table), usual.argmax(dim=2).numpy()
    seen = choice.change_of(predictions_in(table, "apart_"), apart_of(usual).numpy())
    right = (said[:, : len(label)] == label).mean(axis=1)
    differs = {"new": (predictions, predictions.shape[1]), "usual": (said, said.shape[1])}
    figures: dict[str, choice.Array] = {"like_training": right}
    for name, (says, rows) in differs.items():
        figures[f"differs_{name}"] = share = choice.disagreement(says)
        figures[f"differs_{name}_low"], figures[f"differs_{name}_high"] = choice.interval_of_share(share, rows)
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
        changed=seen.found,
        likely=seen.likely,
        most=tried[seen.most].name,
        candidates=tuple(tried),
    )
