"""The rows that the model will be used on: read part by part, asked what each candidate says, and answered by people.

The table of new rows is as ``predict_candidates`` returns it, with the answers of all rounds.
"""

from __future__ import annotations

import codecs
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from logit_correction.data.cells import check_columns, convert_series_to_texts, get_row_noun
from logit_correction.data.image_files import IMAGE_SUFFIXES, read_picture
from logit_correction.data.image_folders import list_visible_folders
from logit_correction.data.labels import find_positions
from logit_correction.data.loading import BatchLoader, compute_evaluation_batch_size
from logit_correction.data.rows import RowErrors, Rows
from logit_correction.data.splits import NEW
from logit_correction.data.table import DataTable
from logit_correction.data.table_files import read_frame
from logit_correction.errors import InputError, InputWarning
from logit_correction.evaluation.predictions import Array
from logit_correction.finding import BASELINE
from logit_correction.formatting import format_first, format_option, format_reason, format_row_count
from logit_correction.functional import wilson_interval
from logit_correction.pages.compare import format_path
from logit_correction.pages.plots import encode_png_uris
from logit_correction.runs.assemble import PreparedRun
from logit_correction.shortcuts import selection
from logit_correction.shortcuts.candidates import TrainedCandidate, build_candidates, train_candidates
from logit_correction.shortcuts.summaries import CandidateResult, Selection
from logit_correction.spreadsheets import read_spreadsheet_csv
from logit_correction.training.display import Display
from logit_correction.types import Inputs
from logit_correction.unicode_text import escape_undecodable, normalize_text

#: Columns of the table of new rows: the number of a label that is known, the round in which a row was asked.
LABEL, ROUND = "label_number", "round"

#: Columns of a row that a person is shown, who is to name its label.
SHOWN_COLUMNS = 40

#: The column of a sheet that a person fills in, and those by which its rows are known again.
ANSWER, KNOWN_BY = "answer", ("line", "path", "content")

#: Pixels along the shorter side of a picture to answer by.
SIDE = 160


# -- rows from anywhere


def open_new_rows(given: Any, built: PreparedRun) -> list[Rows]:
    """Return new rows as ``DataSource.new_rows`` takes them; a folder may hold a folder for each label.

    Images beside such folders are rows without a label.

    Raises:
        InputError: There is nothing at a path.
    """
    source, table = built.config.data.make(), built.table
    given = Path(given) if isinstance(given, str) else given
    if not isinstance(given, Path) or not given.is_dir():
        return list(source.new_rows(given))
    names = {str(name).casefold() for name in table.label_names}
    # A name that differs in case alone is meant as a label, and refused as it is in a column.
    labelled = any(normalize_text(folder.name).casefold() in names for folder in list_visible_folders(given))
    rows = list(source.new_rows(given, labelled=labelled))
    loose = [path for path in sorted(given.iterdir()) if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()]
    if labelled and loose:
        warnings.warn(
            f"{given}: {format_row_count(len(loose))} beside the folders of labels count as rows without a label, such "
            f"as {loose[0].name}",
            InputWarning,
            stacklevel=2,
        )
        rows += source.new_rows(loose)
    return rows


def read_new_rows(given: Sequence[Rows] | None, built: PreparedRun) -> pd.DataFrame:
    """Return what is known of all new rows; what is wrong with them is told here, before anything is trained.

    ``given`` is as ``open_new_rows`` returns it; None takes the rows of the split ``new``. Rows that cannot be read are
    left out, and told.

    Raises:
        InputError: No row can be read, or one has a label that is not in the training data.
    """
    table = built.table
    if given is None:
        rows = table.split[NEW]
        label = [None if number < 0 else str(table.label_names[number]) for number in table.label[rows].tolist()]
        files = None if table.files is None else [table.files[row] for row in rows.tolist()]
        lines = None if table.lines is None else table.lines[rows].tolist()
        return build_new_rows_table([_described(label, files, lines, table, rows)], table)
    frames = list[pd.DataFrame]()
    bad = list[RowErrors]()
    count = 0
    for part, _, forms in built.build_model().read(given, keep_bad=True):
        frame = _told(part, built, forms).assign(row=np.arange(count, count + len(part)))
        frames.append(frame[part.errors.good.numpy()])
        bad += [part.errors] if part.errors else []
        count += len(part)
    left_out = sum(map(len, bad))
    if bad and left_out == count:
        bad[0].raise_if_any()
    if bad:
        shown = "; ".join(f"{problems.place}: {problems}" for problems in bad[:3])
        more = "; and more" if len(bad) > 3 else ""
        warnings.warn(
            f"{format_row_count(left_out)} left out of the new rows: {shown}{more}", InputWarning, stacklevel=2
        )
    return build_new_rows_table(frames, table)


def network_inputs(given: Sequence[Rows] | None, built: PreparedRun) -> Iterator[Inputs]:
    """Yield the inputs of a network of the same rows, some at a time: they need not fit into memory."""
    if given is None:
        yield from (batch.inputs for batch in BatchLoader(built.table, NEW).epoch())
        return
    model = built.build_model()
    parts = model.read(given, keep_bad=True)
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)  # which ``read_new_rows`` has given
            part = next(parts, None)
        if part is None:
            return
        rows, store, _ = part
        encoded = model.encode(store)
        for places in rows.errors.good.nonzero().flatten().split(compute_evaluation_batch_size(encoded)):
            yield encoded.fetch(places)


def _told(rows: Rows, built: PreparedRun, forms: dict[str, Any]) -> pd.DataFrame:
    """Return label, name and content of rows from elsewhere."""
    column = str(built.config.data.options.get("label") or "label")
    label: Sequence[str | None] = rows.label or [None] * len(rows)
    if rows.frame is not None and column in rows.frame.columns:
        label = [one or None for one in convert_series_to_texts(rows.frame[column])]
    lines = rows.numbers if get_row_noun(rows.numbers) == "line" else None
    new = replace(built.table, texts=forms.get("texts"), columns=forms.get("columns", {}))
    return _described(label, forms.get("files"), lines, new, torch.arange(len(rows)))


def _described(
    label: Sequence[str | None],
    files: Sequence[Any] | None,
    lines: Iterable[int] | None,
    table: DataTable,
    rows: Tensor,
) -> pd.DataFrame:
    """Return what a person knows of rows of a table: label, file or line, and content."""
    frame = pd.DataFrame({"label": pd.Series(list(label), dtype=object)})
    if files is not None:
        frame["path"] = [escape_undecodable(os.path.abspath(file)) for file in files]
    elif lines is not None:
        frame["line"] = list(lines)
    content = table.describe_rows(rows, max_columns=SHOWN_COLUMNS)
    return frame if content is None else frame.assign(content=content)


def build_new_rows_table(frames: Sequence[pd.DataFrame], table: DataTable) -> pd.DataFrame:
    """Return what is known of all rows; ``InputError`` if there are none, or a label is not in the training data."""
    if not sum(map(len, frames)):
        raise InputError(
            f"There are no new rows: give a folder or a table that holds some by {format_option('new_rows')}"
        )
    whole, names = pd.concat(frames, ignore_index=True), list(map(str, table.label_names))
    number = whole.pop("row") if "row" in whole else np.arange(len(whole))
    whole.insert(0, "row", number)
    label = find_positions([None if pd.isna(one) else one for one in whole["label"]], names).numpy()
    unknown = whole[whole["label"].notna() & (label < 0)]
    if len(unknown):
        first, has = unknown.iloc[0], "has a label that is" if len(unknown) == 1 else "have labels that are"
        raise InputError(
            f"The new rows: {len(unknown):,} {has} not in the training data, such as {first['label']!r} "
            f"of {describe_row(first)}: the labels are {', '.join(names)}; leave unknown ones empty"
        )
    return whole.drop(columns="label").assign(**{LABEL: label, ROUND: np.where(label >= 0, 0, -1)})


# -- what the candidates say of them


def predict_candidates(
    built: PreparedRun, known: pd.DataFrame, inputs: Iterable[Inputs], display: Display
) -> tuple[pd.DataFrame, Selection]:
    """Train all candidates, and ask them about the new rows; ``built`` is after its search for promising views.

    Returns:
        The table of new rows that an audit keeps, and how far they differ from usual ones. The table has a line for
        each row: its number ``row`` from 0; ``line``, ``path`` or ``name``; ``content`` of texts and tables; the number
        of its label, -1 where unknown; the round in which it was asked, 0 if it came with a label, -1 if nobody was
        asked; of each candidate ``says_``, the number of a label, and ``apart_``, how far it is from ERM.
    """
    models = train_candidates(build_candidates(built), built.table, display)
    display.show_message("asking all candidates about the new rows")
    said, apart = list[Tensor](), list[Tensor]()
    with torch.no_grad():
        for one in inputs:
            logits = torch.stack([model.network(one) for model in models])
            said.append(logits.argmax(dim=2))
            apart.append(compute_total_variation_to_erm(logits))
    says = {f"says_{number}": one for number, one in enumerate(torch.cat(said, dim=1).numpy())}
    says |= {f"apart_{number}": one for number, one in enumerate(torch.cat(apart, dim=1).numpy())}
    table, label = known.assign(**says), built.table.label[built.table.split["valid"]].numpy()
    return table, _compared(table, models, label)


def describe_row(row: pd.Series) -> str:
    """Return what a person calls a row: its file, its line or its number."""
    for name in ("path", "line", "row"):
        if name in row and not pd.isna(row[name]):
            return format_path(row[name]) if name == "path" else f"{name} {row[name]}"
    return "a row"


def read_predictions(table: pd.DataFrame, what: str = "says_") -> Array:
    """Return what the candidates say of the new rows, (C, M), or how far ``apart_`` from ERM they are."""
    kind = np.int64 if what == "says_" else np.float64
    return np.stack([table[name].to_numpy(dtype=kind) for name in table if str(name).startswith(what)])


def compute_total_variation_to_erm(logits: Tensor) -> Tensor:
    """Return how far the probabilities of each candidate are from those of the first, (C, M), by logits (C, M, L).

    It is half the sum of absolute differences: 0 if they are equal, 1 if each is sure of another label.
    """
    probability = logits.softmax(dim=2)
    return (probability - probability[0]).abs().sum(dim=2) / 2


def _compared(table: pd.DataFrame, models: Sequence[TrainedCandidate], label: Array) -> Selection:
    """Return how far new rows differ from usual ones; ``label`` (V,) is that of the validation rows."""
    table = table.iloc[canonical_order(table)]
    usual = torch.stack([one.usual for one in models])
    predictions, said = read_predictions(table), usual.argmax(dim=2).numpy()
    likely = selection.compute_shift_p_value(
        read_predictions(table, "apart_"), compute_total_variation_to_erm(usual).numpy()
    )
    figures: dict[str, Array] = {"valid_accuracy": (said[:, : len(label)] == label).mean(axis=1)}
    for name, says in (("new", predictions), ("usual", said)):
        low, high = wilson_interval(torch.from_numpy((says != says[0]).sum(axis=1)), says.shape[1])
        figures |= {f"differs_{name}": selection.compute_disagreement(says)}
        figures |= {f"differs_{name}_low": low.numpy(), f"differs_{name}_high": high.numpy()}
    tried = [
        CandidateResult(
            name=model.candidate.name,
            description=model.candidate.does,
            config=model.candidate.config.to_dict(),
            views=model.candidate.views,
            seconds=round(model.seconds, 1),
            **{name: float(values[number]) for name, values in figures.items()},  # type: ignore[arg-type]
        )
        for number, model in enumerate(models)
    ]
    return Selection(
        rows=predictions.shape[1],
        labelled=int((table[ROUND] == 0).sum()),
        usual_rows=said.shape[1],
        changed=likely <= selection.SHIFT_LEVEL,
        p_value=likely,
        candidates=tuple(tried),
    )


# -- what people say of them, and what that comes to


def ask(table: pd.DataFrame, count: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the table, and a sheet of so many rows: those still open, and as many further ones as are missing.

    The further ones are marked as one more round.
    """
    still_open = np.flatnonzero((table[ROUND] >= 1) & (table[LABEL] < 0))
    places = still_open[:0]
    if len(still_open) < count:
        turn = max(0, int(table[ROUND].max())) + 1
        order = canonical_order(table)
        ordered = table.iloc[order]
        asked = np.flatnonzero(ordered[ROUND] >= 0).tolist()
        drawn, chances = selection.sample_rows_to_label(
            read_predictions(ordered), count - len(still_open), seed + turn, asked
        )
        places = order[drawn]
        chance = np.zeros(len(table))
        chance[order] = chances
        table = table.assign(**{f"chance_{turn}": chance})
        table.loc[places, ROUND] = turn
    columns = ["row", *(name for name in KNOWN_BY if name in table)]
    return table, table.loc[np.concatenate([still_open, places]), columns].assign(**{ANSWER: ""})


def add_answers(table: pd.DataFrame, file: Path | str | pd.DataFrame, label_names: Sequence[str]) -> pd.DataFrame:
    """Return the table with the answers of a sheet; empty ones are open.

    Raises:
        InputError: The sheet is not of this audit, names a label that is not there, or a row twice.
    """
    place = "The answers" if isinstance(file, pd.DataFrame) else str(file)
    given, rows, answers = _sheet(file, place)
    by_name = {" ".join(name.casefold().split()): number for number, name in enumerate(label_names)}
    known_by = [name for name in KNOWN_BY if name in given and name in table]
    faults, found = list[str](), dict[int, int]()
    place_of = {str(row): number for number, row in enumerate(table["row"].tolist())}
    for at, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        number = place_of.get(str(row), -1)
        if number < 0 or table[ROUND].iloc[number] < 1:
            faults.append(f"row {str(row)[:20]} was not asked")
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


def canonical_order(table: pd.DataFrame, more: Sequence[str] = ()) -> Array:
    """Return the places of rows sorted by what they hold: random numbers then do not hang on their order in a file.

    ``more`` are columns that tell rows apart whose content is the same.
    """
    keys = table[[name for name in table if name in ("content", "path") or str(name).startswith("says_")]]
    distances = table[[name for name in table if str(name).startswith("apart_")]]
    keys = pd.concat([keys, distances.round(4), table[list(more)]], axis=1)
    return np.lexsort([pd.factorize(keys[name], sort=True)[0] for name in keys])


def has_unread_answers(table: pd.DataFrame, file: Path) -> bool:
    """Return whether a person has written answers into a sheet that are not in the table yet."""
    _, rows, answers = _sheet(file, str(file))
    known = set(table["row"][table[LABEL] >= 0].astype(str))
    return any(row not in known for row, one in zip(rows, answers, strict=True) if one)


def _sheet(file: Path | str | pd.DataFrame, place: str) -> tuple[pd.DataFrame, list[str | None], list[str | None]]:
    """Return a sheet, the numbers of its rows and the answers; ``InputError`` if it has no such columns."""
    given = (
        file
        if isinstance(file, pd.DataFrame)
        else read_spreadsheet_csv(read_frame(Path(file), _encoding_of(Path(file))))
    )
    given = given.rename(columns={name: str(name).strip().casefold() for name in given})  # spreadsheets are edited
    check_columns(given, place, ("row", ANSWER))
    rows = [row if row is None else re.sub(r"\.0+$", "", row) for row in convert_series_to_texts(given["row"])]
    return given, rows, convert_series_to_texts(given[ANSWER])


def _encoding_of(file: Path) -> str | None:
    """Return the encoding of a CSV file that a spreadsheet has saved as `Unicode`; None of others."""
    if not file.is_file():
        return None
    with file.open("rb") as opened:
        return "utf-16" if opened.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else None


def read_pictures(table: pd.DataFrame) -> dict[str, str]:
    """Return row -> a picture of each image file that people are asked about and have not answered.

    Raises:
        InputError: A file cannot be read; one that is not there any more is left out.
    """
    found: dict[str, str] = {}
    for _, row in _asked_and_open(table).iterrows():
        path = Path(row.get("path", ""))
        if not path.is_file():
            continue
        try:
            pixels = read_picture(path, (SIDE, SIDE), "crop").pixels
        except Exception as error:  # Pillow raises many kinds
            fix = "put a good one there, or take it away"
            raise InputError(f"{path} cannot be read as an image ({format_reason(error)}): {fix}") from error
        found[str(row["row"])] = encode_png_uris(torch.from_numpy(pixels)[None], SIDE)[0]
    return found


def open_rows(table: pd.DataFrame, pictures: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return name, content and picture of the rows that were asked and that nobody has answered."""
    return [
        {"name": describe_row(row), "content": row.get("content", ""), "image": pictures.get(str(row["row"]))}
        for _, row in _asked_and_open(table).iterrows()
    ]


def _asked_and_open(table: pd.DataFrame) -> pd.DataFrame:
    return table[(table[ROUND] >= 1) & (table[LABEL] < 0)]


def select_from_answers(table: pd.DataFrame, found: Selection, seed: int) -> Selection:
    """Return what the answers say of each candidate, and which one to train, by what ``found`` says without answers."""
    table = table.iloc[canonical_order(table, (ROUND, LABEL))]
    predictions, (places, label, weight) = read_predictions(table), answer_weights(table)
    asked = (table[ROUND] >= 1).to_numpy()
    known = (table[LABEL] >= 0).to_numpy()
    left = int(((predictions != predictions[0]).any(axis=0) & ~known).sum())
    nothing: dict[str, Any] = {"gain": None, "gain_low": None, "gain_high": None}
    found = replace(
        found,
        answers=len(places),
        num_asked=int(asked.sum()),
        sheet_answers=int((asked & known).sum()),
        chosen=None if found.changed and left else BASELINE,
        candidates=tuple(replace(one, num_answers=0, **nothing) for one in found.candidates),
        num_needed=None if left else 0,
        **nothing,
    )
    if not len(places):
        return found
    gains = selection.estimate_gains(predictions, places, label, weight)
    half, chosen = selection.Z_90 * gains.error, selection.select_candidate(gains, found.changed)
    tried = [
        replace(one, gain=float(gain), gain_low=float(gain - ends), gain_high=float(gain + ends), num_answers=int(rows))
        for one, gain, ends, rows in zip(found.candidates, gains.gain, half, gains.answers, strict=True)
    ]
    more = min(left, selection.count_labels_needed(gains, chosen, len(places)))
    found = replace(found, candidates=tuple(tried), chosen=tried[chosen].name, num_needed=more)
    if not chosen:
        return found
    gain = selection.correct_gain_for_selection(predictions, places, label, weight, found.changed, seed)
    return replace(found, gain=gain, gain_low=gain - float(half[chosen]), gain_high=gain + float(half[chosen]))


def answer_weights(table: pd.DataFrame) -> tuple[Array, Array, Array]:
    """Return places, labels and weights of the rows whose label is known: for how many rows each stands."""
    known = (table[LABEL] >= 0).to_numpy()
    chances = {turn: table[f"chance_{turn}"].to_numpy() for turn in range(1, int(table[ROUND].max()) + 1)}
    weight = selection.compute_answer_weights(read_predictions(table), known, table[ROUND].to_numpy(), chances)
    places = np.flatnonzero(known)
    return places, table[LABEL].to_numpy(dtype=np.int64)[places], weight[places]
