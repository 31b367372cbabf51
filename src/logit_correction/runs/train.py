"""One run from its config to its folder: train, evaluate, write."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from logit_correction.data.table import SPLITS, DataTable
from logit_correction.errors import InputError, reason_of
from logit_correction.files import SEAL, seal, write_text
from logit_correction.methods.base import Algorithm
from logit_correction.registry import needed
from logit_correction.runs import folder as run_folder
from logit_correction.runs.assemble import (
    build_algorithm,
    build_fabric,
    check_finetuned,
    earlier_runs,
    encode_table,
    fitted,
    keeping_threads,
    prepare_as,
    with_usual_encoder,
)
from logit_correction.runs.options import Part, RunConfig, config_of
from logit_correction.runs.run import Run
from logit_correction.runs.write import check_same_data, write_run
from logit_correction.training.config import TrainingConfig
from logit_correction.training.display import Display, choose_display
from logit_correction.training.fit import Fit
from logit_correction.training.record import logging_to, tell
from logit_correction.training.rules import check_estimates, rule_for, rule_of
from logit_correction.types import TrainingRows

if TYPE_CHECKING:
    from lightning_fabric import Fabric

#: Where launchers of several processes say which one a process is; the first one of all holds the folder's lock.
RANKS = ("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "SLURM_PROCID")


@keeping_threads()
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
    announce: Callable[[RunConfig, DataTable], None] | None = None,
    after_epoch: Callable[[Fit], Mapping[str, float]] | None = None,
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
        announce: Called with the complete config and the data before training starts.
        after_epoch: Called after each epoch; what it returns stands in ``metrics.csv``, see ``Fit``.
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
        Interrupted: Somebody asked to stop; ``resume`` continues.

    >>> run = train({"name": "Digits", "minority_ratio": 0.05}, method="ERM", epochs=1, threads=1)
    >>> sorted(run.groups.columns)[:4]
    ['accuracy', 'attribute', 'correct', 'count']
    """
    chosen = list(logger) if isinstance(logger, list | tuple) else [logger]
    names, loggers = ([one for one in chosen if isinstance(one, str) is named] for named in (True, False))
    parts = {"method": method, "network": network, "biased_network": biased_network, "encoder": encoder}
    views = {"shortcut": shortcut, "legitimate": legitimate}
    config = config_of(data, **parts, **views, preset=preset, logger=names or None, **options)
    folder, tie = run_folder.given_or_temporary(out, "run")
    first = is_first_process(config.training)
    display = progress if isinstance(progress, Display) else choose_display(quiet=not progress)
    display = display if first else Display()
    if first:
        run_folder.check_free(folder)
    run_folder.check_out(folder, config, resume)
    built = None if resume and run_folder.is_finished(folder) else prepare(config, display)
    if built is not None:
        run_folder.make(folder)
    with run_folder.acquire(folder) if first else nullcontext():
        run_folder.check_out(folder, built.config if built else config, resume)  # others may have trained meanwhile
        if built is None or (resume and run_folder.is_finished(folder)):  # but perhaps it was killed before its page
            if not (folder / SEAL).is_file():
                seal(folder, run_folder.SEALED)
            _finish(folder, page and not (folder / run_folder.PAGE).is_file())
            return tie(Run(folder, trust_code=True))
        fabric = build_fabric(built.config.training)
        fabric.barrier()  # each process has found the folder free before the first one writes into it
        if fabric.is_global_zero:
            if not (folder / run_folder.CONFIG).is_file():
                write_text(folder / run_folder.CONFIG, built.config.to_yaml())
            if announce is not None:
                announce(built.config, built.table)
        fabric.barrier()
        names, loggers = (built.config.training.logger, loggers) if fabric.is_global_zero else ([], [])
        with logging_to(names, loggers, folder, run_folder.flat_options(built.config)) as active:
            fit = built.fit(display, fabric, folder / run_folder.RESUME, loggers=active, after_epoch=after_epoch)
            display.whole = built.algorithm.num_stages
            with display:
                fit.run(resume=resume and (folder / run_folder.RESUME).is_file())
            if fabric.is_global_zero:
                test = write_run(fit, built.config, folder).test.to_dict()
                _finish(folder, page)
                figures = {f"test/{name}": value for name, value in test.items() if isinstance(value, float)}
                tell(active, lambda logger: logger.log_metrics(figures, step=fit.progress.total_steps))
        fabric.barrier()
    return tie(Run(folder, trust_code=True))  # all that it names was imported here


def is_first_process(training: TrainingConfig) -> bool:
    """Return whether this process is the first one of those that train together."""
    return training.devices * training.nodes == 1 or all(os.environ.get(name, "0") == "0" for name in RANKS)


def _finish(out: Path, page: bool) -> None:
    """Do what comes after the report: remove what only an unfinished run needs, and write the page."""
    (out / run_folder.RESUME).unlink(missing_ok=True)
    if page:
        from logit_correction.pages.page import write_page

        write_page([out], out / run_folder.PAGE)


@dataclass(frozen=True)
class Built:
    """What a run is made of, when all that may be refused has been."""

    config: RunConfig
    table: DataTable
    algorithm: Algorithm

    def fit(
        self,
        display: Display,
        fabric: Fabric | None = None,
        checkpoint: Path | None = None,
        **options: Any,
    ) -> Fit:
        """Return the loop, by default on the devices of the config and without a file to resume from."""
        fabric = fabric or build_fabric(self.config.training)
        return Fit(self.algorithm, self.table, self.config.training, fabric, checkpoint, display, **options)


def prepare(config: RunConfig, display: Display, splits: Sequence[str] = SPLITS) -> Built:
    """Read the data, fill in what a complete config leaves to them, build the method, and show what was chosen.

    All that may be refused is refused here, by an ``InputError``. ``splits`` are those that must have rows.
    """
    if not torch.is_grad_enabled() or torch.get_default_dtype() != torch.float32:
        raise InputError(
            "training needs gradients and single precision: train outside of torch.no_grad() and inference_mode(), "
            "after torch.set_default_dtype(torch.float32)"
        )
    if config.training.device == "cuda" and config.training.devices > torch.cuda.device_count():
        raise InputError(f"--device cuda: torch sees {torch.cuda.device_count()} CUDA devices here")
    rule = rule_for(config.training)
    if "tensorboard" in config.training.logger:
        needed("tensorboard", "--logger tensorboard", "tensorboard", ", or leave it out")
    source, told, earlier = config.data.make(), list[str](), earlier_runs(config)
    for run, results in earlier.items():  # their networks know inputs as these were made for them
        prepare_as(results, source, run)
        if results.data.preparation != next(iter(earlier.values())).data.preparation:
            raise InputError(f"{' and '.join(map(str, earlier))} read their inputs in different ways: take one of them")
    table = source.build().check(splits)
    if "attribute" in rule_of(rule).reads and table.scoring is None and not table.has_attributes("valid"):
        raise InputError(
            f"selection rule {rule} reads validation attributes, but some are unknown: take last, "
            "valid_average or valid_worst_class, or one that goes by estimated groups (`list rules`)"
        )
    if source.users_own:
        config, table, told = with_usual_encoder(config, table)
    if config.encoder is not None:
        theirs = next((vars(results.encoder) for results in earlier.values() if results.encoder), None)
        table = encode_table(table, config, display, expected=theirs)
    config, chosen = fitted(config, table.info)
    chosen = told + chosen
    if chosen:
        table = replace(table, metadata=table.metadata | {"chosen to fit the data": "; ".join(chosen)})
    algorithm = build_algorithm(config, table.info)
    check_fits(algorithm, table, config.network.name)
    if config.training.finetune:
        check_finetuned(algorithm, config.encoder)
    if algorithm.needs_attributes and not table.has_attributes("train"):
        raise InputError(
            f"method {config.method.name} as chosen needs the attribute of every training row, but some are unknown: "
            "give them, or take a method or an attribute estimator that does not need them, such as Given"
        )
    if algorithm.attributes is not None and algorithm.attributes.run is not None:
        examined = Path(algorithm.attributes.run)  # it may have seen the validation rows
        check_same_data(earlier[examined], table, examined, "give its answers for these data by `--predictions`")
    check_estimates(rule, algorithm, config.method.name)
    algorithm.setup(training_rows(table, algorithm, config.training.epochs or 0, display))
    if chosen:  # after all that may be refused: a refusal stands alone
        display.say(f"chosen to fit the data: {'; '.join(chosen)}")
    return Built(config, table, algorithm)


def training_rows(table: DataTable, algorithm: Algorithm, epochs: int, display: Display | None = None) -> TrainingRows:
    """Return what a method may look at once; attributes only if it declares that it needs them."""

    def of_split(split: str) -> TrainingRows:
        rows, names = table.split[split], table.row_names
        return TrainingRows(
            label=table.label[rows],
            view_inputs=table.view_inputs(split),
            names=None if names is None else [names[row] for row in rows.tolist()],
            numbers=rows,
            lines=None if table.lines is None else table.lines[rows],
        )

    held_out = of_split("valid")
    if algorithm.needs_valid_attributes:
        held_out = replace(held_out, attribute=table.attribute[table.split["valid"]])
    return replace(
        of_split("train"),
        attribute=table.attribute[table.split["train"]] if algorithm.needs_attributes else None,
        epochs=epochs,
        held_out=held_out,
        report=(display or Display()).say,
    )


def check_fits(algorithm: Algorithm, table: DataTable, name: str) -> None:
    """Raise ``InputError`` unless the method's networks turn two training rows into a logit per label."""
    rows, info = table.split["train"][:2], table.info
    algorithm.eval()
    try:
        with torch.no_grad():
            shape = tuple(algorithm.predict(table.inputs.fetch(rows)).shape)
    except InputError:
        raise
    except (RuntimeError, TypeError, AttributeError, ValueError, IndexError) as error:
        shown = f"texts of {info.input_shape[0]} tokens" if info.tokens else f"inputs of shape {info.input_shape}"
        raise InputError(f"network {name} does not take {shown} ({reason_of(error)}): take another network") from error
    algorithm.train()
    if shape != (expected := (len(rows), info.num_labels)):
        raise InputError(f"network {name} gives logits of shape {shape}, but must give {expected}: one for each label")
