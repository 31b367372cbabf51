"""``train`` for Python: plain names in, a trained run out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from logit_correction.config import ComponentConfig, RunConfig, as_mapping, listed
from logit_correction.data.arrays import from_rows, from_table
from logit_correction.errors import InputError
from logit_correction.pages.console import comparison_table, reports_of
from logit_correction.runs.folder import given_or_temporary, runs_of
from logit_correction.runs.options import complete
from logit_correction.runs.run import Run
from logit_correction.runs.train import train as train_into
from logit_correction.training.display import choose_display

#: Options of ``train`` and ``audit`` that are those of the data.
OF_DATA = ("label", "text", "path", "features", "categorical", "split", "split_by", "attribute", "size")

#: A part of a run: a name, a name with options, or what `from_arrays` and `from_table` return.
Part: TypeAlias = str | Mapping[str, Any] | ComponentConfig


def train(
    data: Any,
    out: Path | str | None = None,
    *,
    method: Part | None = None,
    network: Part | None = None,
    biased_network: Part | None = None,
    encoder: Part | None = None,
    preset: str | None = None,
    shortcut: str | Sequence[str] = (),
    legitimate: str | Sequence[str] = (),
    resume: bool = False,
    progress: bool = False,
    page: bool = True,
    logger: Any = (),
    **options: Any,
) -> Run:
    """Train one run, judge it, and return it.

    Args:
        data: A data frame, an array or a list of texts, with ``label``; a folder of images, the file of a table or a
            name such as ``"Digits"``, alone or in a mapping with options; or what ``from_arrays`` or ``from_table``
            returned. Or a whole ``RunConfig``, with no other option.
        out: Folder of the run; new or empty, or with ``resume`` that of an unfinished run. None keeps the run in a
            temporary folder for as long as the returned object lives.
        method: The method, by default ``LC``, or that of the preset.
        network: The network; by default one that fits the data.
        biased_network: The network of methods that have a biased one; by default like ``network``.
        encoder: A frozen network whose features take the place of the inputs.
        preset: Name of a preset, whose options count where nothing else is given.
        shortcut: Views that are known to be a shortcut, such as ``column:scanner``.
        legitimate: Views that are known to be legitimate causes of the label.
        resume: Continue an unfinished run; a finished one is left as it is.
        progress: Show progress as the command does.
        page: Write ``report.html``.
        logger: Where figures go in addition to ``metrics.csv``: ``csv``, ``tensorboard``, or loggers of Lightning's.
        **options: Of the data: ``label``, the column of labels or one label for each row; ``text``, ``path`` or
            ``features``, the columns to learn from (all that can be features if left out); ``categorical``, ``split``,
            ``split_by``, ``attribute`` and ``size`` as in ``Table``. Of ``TrainingConfig``: ``epochs``, ``seed`` and
            the like.

    Raises:
        InputError: Something given is wrong; nothing was trained.
        TrainingError: The loss was not finite.
        OSError: The disk is full; ``resume`` continues.
        RuntimeError: Another process of the run has ended; ``resume`` continues.
        Interrupted: Somebody asked to stop; ``resume`` continues.

    >>> run = train({"name": "Digits", "minority_ratio": 0.05}, method="ERM", epochs=1, threads=1)
    >>> sorted(run.groups.columns)[:4]
    ['accuracy', 'attribute', 'correct', 'count']
    """
    chosen = list(logger) if isinstance(logger, list | tuple) else [logger]
    names, loggers = ([one for one in chosen if isinstance(one, str) is named] for named in (True, False))
    parts = {"method": method, "network": network, "biased_network": biased_network, "encoder": encoder}
    views = {"shortcut": listed(shortcut) or None, "legitimate": listed(legitimate) or None}
    known = {"preset": preset, **views, "logger": names or None}
    config = config_of(data, **parts, **known, **options)
    folder, tie = given_or_temporary(out, "run")
    train_into(config, folder, resume=resume, display=choose_display(quiet=not progress), page=page, loggers=loggers)
    return tie(Run(folder, trust_code=True))  # all that it names was imported here


def load(run: Run | Path | str, device: str = "cpu", *, trust_code: bool = False) -> Run:
    """Load a finished run, its trained network too.

    Args:
        run: Folder that ``train`` wrote.
        device: Where to predict.
        trust_code: Import classes that its config names by a dotted path. They may do anything that you may: say so
            only of a run whose maker you trust. What ``train`` returned is trusted.

    Raises:
        InputError: If the folder holds no finished run, its checkpoint is damaged, or it names code of its own and is
            not trusted.
    """
    trusted = trust_code or (isinstance(run, Run) and run.trust_code)
    loaded = Run(Path(run), device, trust_code=trusted)
    _ = loaded.algorithm  # what is wrong with it is told here
    return loaded


def runs_table(runs: Sequence[Run | Path | str] | Run | Path | str) -> pd.DataFrame:
    """Return one row for each run: method, epochs, seed, accuracies on the test split as fractions, and selection.

    Args:
        runs: Runs, or their folders, also those of ``train --seeds``; or one.

    Raises:
        InputError: If there is none, or a folder holds no finished run.
    """
    given = [runs] if isinstance(runs, Run | Path | str) else runs
    if not (folders := runs_of(Path(run) for run in given)):
        raise InputError("runs_table has no runs: give some, or their folders")
    return comparison_table(reports_of(folders))


def config_of(data: Any, **options: Any) -> RunConfig:
    """Return the complete config of data and options, by default with method LC, or of a whole config."""
    given = {name: value for name, value in options.items() if value is not None}
    if not isinstance(data, RunConfig):
        own = {name: given.pop(name) for name in OF_DATA if name in given}
        return complete(given | {"data": source_of(data, **own)})
    if given:
        raise InputError(f"{next(iter(given))} is given with a whole RunConfig: write it into the config")
    return complete(data)


def source_of(data: Any, label: Any = None, **options: Any) -> Any:
    """Return the data source of rows with labels, or a source that is named with further options."""
    named = isinstance(data, Mapping) and isinstance(data.get("name"), str)
    if named or isinstance(data, str | Path | ComponentConfig):
        options |= {} if label is None else {"label": label}
        return as_mapping("data", data) | options if options else data
    if label is None:
        raise InputError("label= is missing: name the column of labels, or give one label for each row")
    column = np.ndim(label) == 0
    return from_table(data, label=label, **options) if column else from_rows(data, label, **options)
