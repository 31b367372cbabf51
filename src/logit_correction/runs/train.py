"""Train one run: from its config to a folder with figures, predictions and weights.

``train`` is what users call from Python; the command line, benchmarks and audits call ``train_into`` with a complete
config. Both may be stopped at any moment: the same call with ``resume`` continues, and gives the same figures.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from logit_correction.atomic_files import write_text_file
from logit_correction.checksums import CHECKSUMS_FILE, write_checksums
from logit_correction.data.table import DataTable
from logit_correction.distributed import get_rank, wait_for_processes
from logit_correction.errors import InputError
from logit_correction.runs import folder as run_folder
from logit_correction.runs.assemble import launch_processes, prepare_run
from logit_correction.runs.average import build_trainer
from logit_correction.runs.inference import restore_num_threads
from logit_correction.runs.options import Part, RunConfig, build_config
from logit_correction.runs.refit import prepare_refit, train_on_all_rows
from logit_correction.runs.run import Run
from logit_correction.runs.write import write_run
from logit_correction.training.config import TrainingConfig
from logit_correction.training.display import Display, choose_display
from logit_correction.training.fit import Trainer
from logit_correction.training.record import notify_loggers, open_loggers

#: Environment variables by which launchers number their processes; the first process holds the folder's lock.
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "SLURM_PROCID")


def train(
    data: Any,
    out: Path | str | None = None,
    *,
    method: Part | None = None,
    network: Part | None = None,
    biased_network: Part | None = None,
    encoder: Part | None = None,
    preset: str | None = None,
    shortcut: str | Sequence[str] | None = None,
    legitimate: str | Sequence[str] | None = None,
    resume: bool = False,
    progress: bool | Display = False,
    after_epoch: Callable[[Trainer], Mapping[str, float]] | None = None,
    page: bool = True,
    logger: Any = (),
    **options: Any,
) -> Run:
    """Train one run, evaluate it, and return it.

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
        after_epoch: Called after each epoch; what it returns stands in ``metrics.csv``, see ``Trainer``.
        page: Write ``report.html``.
        logger: Where figures go in addition to ``metrics.csv``: ``csv``, ``tensorboard``, or loggers of Lightning's.
        **options: Of the data: ``label``, the column of labels or one label for each row, and others of ``Table``: all
            columns are features unless ``text``, ``path`` or ``features`` names some. Of ``TrainingConfig``:
            ``epochs``, ``seed`` and the like.

    Raises:
        InputError: Something given is wrong; nothing was trained.
        TrainingError: The loss was not finite.
        OSError: The disk is full; ``resume`` continues.
        RuntimeError: Another process of the run has ended; ``resume`` continues.
        Interrupted: A signal asked to stop; ``resume`` continues.

    >>> run = train({"name": "Digits", "minority_ratio": 0.05}, method="ERM", epochs=1, threads=1)
    >>> sorted(run.groups.columns)[:4]
    ['accuracy', 'attribute', 'correct', 'count']
    """
    loggers = list(logger) if isinstance(logger, list | tuple) else [logger]
    logger_names = [choice for choice in loggers if isinstance(choice, str)]
    logger_objects = [choice for choice in loggers if not isinstance(choice, str)]
    config = build_config(
        data,
        method=method,
        network=network,
        biased_network=biased_network,
        encoder=encoder,
        shortcut=shortcut,
        legitimate=legitimate,
        preset=preset,
        logger=logger_names or None,
        **options,
    )
    if out is None and config.training.devices * config.training.nodes > 1:
        raise InputError("out is missing: several processes train into one folder, which out names")
    folder, tie_to_folder = run_folder.choose_folder(out, "run")
    run = train_into(
        folder,
        config,
        resume=resume,
        progress=progress,
        after_epoch=after_epoch,
        page=page,
        loggers=logger_objects,
    )
    return tie_to_folder(run)


@restore_num_threads()
def train_into(
    folder: Path,
    config: RunConfig,
    *,
    resume: bool = False,
    progress: bool | Display = False,
    announce: Callable[[RunConfig, DataTable], None] | None = None,
    after_epoch: Callable[[Trainer], Mapping[str, float]] | None = None,
    page: bool = True,
    loggers: Sequence[Any] = (),
) -> Run:
    """Train a complete config into a folder.

    Args:
        folder: Folder of the run; new or empty, or with ``resume`` that of an unfinished run.
        config: The complete config.
        resume: Continue an unfinished run; a finished one is left as it is.
        progress: Whether to show progress as the command does, or the display that shows it.
        announce: Called with the config and the data before the training starts.
        after_epoch: See ``train``.
        page: Write ``report.html``.
        loggers: Loggers of Lightning's; the config names others.

    Raises:
        InputError, TrainingError, OSError, RuntimeError, TrainingInterrupted: See ``train``.
    """
    is_first = is_first_process(config.training)
    check_launch(config.training)
    display = progress if isinstance(progress, Display) else choose_display(progress)
    display = display if is_first else Display()
    if is_first:
        run_folder.check_folder_unlocked(folder)
    run_folder.check_run_folder(folder, config, resume)
    if resume and run_folder.is_finished(folder):
        with run_folder.lock_folder(folder) if is_first else nullcontext():
            return _complete_finished_run(folder, page)
    prepared = prepare_run(config, display)
    config = prepared.config
    prepared_refit = prepare_refit(prepared) if config.training.refit else None
    if config.training.refit and prepared_refit is None:
        display.show_message("not trained again in the end: no rows were drawn for validation or test")
    run_folder.make_folder(folder)
    with run_folder.lock_folder(folder) if is_first else nullcontext():
        run_folder.check_run_folder(folder, config, resume)  # another process may have trained meanwhile
        if resume and run_folder.is_finished(folder):
            return _complete_finished_run(folder, page)
        device = launch_processes(config.training)
        wait_for_processes()  # each process has found the folder free before the first one writes into it
        writes = get_rank() == 0
        if writes and not (folder / run_folder.CONFIG).is_file():
            write_text_file(folder / run_folder.CONFIG, config.to_yaml())
        if writes and announce is not None:
            announce(config, prepared.table)
        wait_for_processes()
        logger_names = config.training.logger if writes else []
        options = run_folder.flatten_options(config)
        with open_loggers(logger_names, loggers if writes else [], folder, options) as active:
            trainer = build_trainer(
                prepared,
                display,
                device=device,
                checkpoint_path=folder / run_folder.RESUME,
                loggers=active,
                after_epoch=after_epoch,
            )
            with display:
                trainer.run(resume)
                refit = None
                if prepared_refit is not None:
                    checkpoint = folder / f"refit-{run_folder.RESUME}"
                    refit = train_on_all_rows(prepared_refit, trainer, checkpoint, resume)
            if writes:
                test = write_run(trainer, prepared.build_model(), folder, refit).test.to_dict()
                _finish_run_folder(folder, page)
                figures = {f"test/{name}": value for name, value in test.items() if isinstance(value, float)}
                step = trainer.progress.total_steps
                notify_loggers(active, lambda logger: logger.log_metrics(figures, step=step))
        wait_for_processes()
    return Run(folder, trust_code=True)  # all the code that it names was imported for the training


def is_first_process(training: TrainingConfig) -> bool:
    """Return whether this process is the first one of those that train together."""
    return training.devices * training.nodes == 1 or all(os.environ.get(name, "0") == "0" for name in RANK_VARIABLES)


def check_launch(training: TrainingConfig) -> None:
    """Raise ``InputError`` if several processes are to be started by a program that is not a file."""
    is_launched = any(name in os.environ for name in RANK_VARIABLES)
    if training.devices > 1 and not is_launched and not os.path.isfile(sys.argv[0] if sys.argv else ""):
        raise InputError("devices is more than 1, and each process starts the script again: write it into a file")


def _complete_finished_run(run_dir: Path, page: bool) -> Run:
    """Write what is missing if the process was ended after the report and before the checksums or the page."""
    if not (run_dir / CHECKSUMS_FILE).is_file():
        write_checksums(run_dir, run_folder.SEALED)
    _finish_run_folder(run_dir, page and not (run_dir / run_folder.PAGE).is_file())
    return Run(run_dir, trust_code=True)


def _finish_run_folder(run_dir: Path, page: bool) -> None:
    """Remove what only an unfinished run needs, and write the page."""
    for path in run_dir.glob(f"*{run_folder.RESUME}"):  # those of members and of the training on all rows too
        path.unlink(missing_ok=True)
    if page:
        from logit_correction.pages.page import write_report_page

        write_report_page([run_dir], run_dir / run_folder.PAGE)
