"""The commands, a function each: its parameters are the command line, and its docstring is the help.

Each reads its arguments, calls the library and prints the result. Imports of torch stay inside functions, so that
``--help`` answers at once. No type is imported for type checkers alone: the parser would import it too.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any, Literal, TextIO

from jsonargparse.typing import PositiveInt

from logit_correction.errors import InputError, check_range, warn_user
from logit_correction.formatting import suggest_name
from logit_correction.registry import ComponentConfig
from logit_correction.runs.options import ESTIMATOR_OPTIONS, PRESETS, RunConfig, complete_config
from logit_correction.serialization import format_json

#: Exit status of ``audit --fail-on`` if the audit comes to the verdict that it names.
VERDICT_STATUS = 3

#: Training options of both methods of the quickstart.
QUICKSTART = {"epochs": 60, "learning_rate": 2e-3, "batch_size": 64, "device": "cpu", "threads": 1, "log_every": 19}


def quickstart_command(*, out: Path = Path("quickstart"), seed: int = 0) -> int:
    """Train ERM and LC on the embedded digits and write a report page; under a minute.

    Args:
        out: folder to write
        seed: seed of the data and of training
    """
    common = {"data": {"name": "Digits", "seed": seed}, "seed": seed, **QUICKSTART}
    configs = {out / method: complete_config({**common, "method": method}) for method in ("ERM", "LC")}
    return _train_runs(configs, out, resume=True)


def train_command(
    config: RunConfig,
    *,
    out: Path | None = None,
    resume: bool = False,
    seeds: PositiveInt = 1,
    new_rows: Path | None = None,
    answers: Path | None = None,
    single: bool = False,
    replace_answers: bool = False,
    print_config: bool = False,
    trust_code: bool = False,
    user_options: Collection[str] = (),
) -> int:
    """Train one method on one data set and write a run folder.

    Args:
        config: what to run
        out: folder to write the run into
        resume: continue the unfinished run in --out
        seeds: train N runs, each with its own seed S, in OUT/seed-S
        new_rows: rows that the model will be used on: they choose what to train, by an audit in OUT-audit
        answers: the filled-in sheet of that audit
        single: with --answers or --new-rows, train the best candidate instead of an average of the likely ones
        replace_answers: with --answers, replace earlier answers that the sheet contradicts
        print_config: print all options of the run as the YAML that --config takes, and run nothing
        trust_code: import the custom classes that the audit of --answers names, if it is not your own; their code has
            your rights
        user_options: names of the options in config that a person gave
    """
    if print_config:
        print(config.to_yaml(), end="")
        return 0
    if out is None:
        raise InputError("--out is missing: give the folder to write the run into")
    continues = resume or seeds > 1
    if new_rows is not None or answers is not None:
        from logit_correction.runs.folder import CONFIG, check_run_folder

        for folder, seed_config in _list_seed_configs(config, out, seeds).items():
            if not (continues and (folder / CONFIG).is_file()):
                check_run_folder(folder, seed_config, resume=False)
        audit = _run_or_answer_audit(
            config, out, continues, new_rows, answers, single, replace_answers, user_options, trust_code
        )
        with audit.restrict_imports():
            advised = audit.build_training_config()
            if "refit" in user_options:
                advised = replace(advised, training=replace(advised.training, refit=config.training.refit))
            return _train_runs(_list_seed_configs(advised, out, seeds), out, continues)
    if single:
        raise InputError("--single chooses among candidates by new rows: give --answers or --new-rows too")
    return _train_runs(_list_seed_configs(config, out, seeds), out, continues)


def _list_seed_configs(config: RunConfig, out: Path, seeds: int) -> dict[Path, RunConfig]:
    """Return the config of one run in ``out``, or of each of several seeds in a folder of its own there."""
    if seeds == 1:
        return {out: config}
    first_seed = config.training.seed
    check_range("the last --seed", first_seed + seeds - 1, 0, 2**63 - 1)
    return {
        out / f"seed-{seed}": replace(config, training=replace(config.training, seed=seed))
        for seed in range(first_seed, first_seed + seeds)
    }


def _train_runs(configs: Mapping[Path, RunConfig], out: Path, resume: bool) -> int:
    """Train each config into its folder unless it is trained already, print all, and compare several on one page."""
    from logit_correction.data.table import DataTable
    from logit_correction.pages.console import print_data_summary, print_run_metrics
    from logit_correction.pages.page import write_report_page
    from logit_correction.runs.folder import PAGE
    from logit_correction.runs.train import is_first_process, train_into

    printed_notes: list[str] = []  # the report holds them too

    def announce(config: RunConfig, table: DataTable) -> None:
        printed_notes.extend([*table.notes, *table.attribute_notes])
        print_data_summary(table, config.data.name, config.method.name)

    for number, (folder, config) in enumerate(configs.items()):
        train_into(folder, config, resume=resume, progress=True, announce=None if number else announce)
    if is_first_process(config.training):
        if len(configs) > 1:
            write_report_page(list(configs), out / PAGE)
        print_run_metrics(list(configs), out / PAGE, printed_notes)
    return 0


def _run_or_answer_audit(
    config: RunConfig,
    out: Path,
    continues: bool,
    new_rows: Path | None,
    answers: Path | None,
    single: bool,
    replace_answers: bool,
    user_options: Collection[str],
    trust_code: bool,
) -> Any:  # an Audit, see above
    """Return an audit that chooses what to train: a new one by ``new_rows``, or that of ``answers``, read into it.

    Where the training ``continues``, its finished audit is taken, with a warning: it may be of other rows.
    """
    from logit_correction.runs.folder import check_folder_unlocked
    from logit_correction.shortcuts import audit as audits
    from logit_correction.shortcuts.audit_page import print_audit

    check_folder_unlocked(out)
    if new_rows is not None and answers is not None:
        raise InputError("--answers are of new rows that an audit has: leave --new-rows out")
    _check_method_not_chosen(config, user_options, "--new-rows" if answers is None else "--answers")
    folder = out.with_name(f"{out.name}-audit")
    is_audited = (folder / audits.AUDIT).is_file()
    if answers is None and not (continues and is_audited):
        audit = audits.audit(config, folder, new_rows=new_rows, single=single, progress=True)
    else:
        if answers is None:
            warn_user(f"the finished audit in {folder} is taken: --new-rows is not read again. Remove it to audit anew")
        elif (answers.parent / audits.AUDIT).is_file():
            folder = answers.parent  # of an earlier `train --new-rows`, whose own folder holds ERM
        elif not is_audited:
            raise InputError(
                f"{answers} is not a file in the folder of an audit, and {folder} is not an audit: read the sheet by "
                f"`logit-correction audit --answers {quote(str(answers))} --out AUDIT`, and train what that prints"
            )
        audit = audits.Audit(folder, trust_code=trust_code)
        audit.check_options(config, set(user_options) - {"refit"})
        if answers is not None:
            audit.answer(answers, single=single or None, replace_answers=replace_answers)
    print_audit(audit.result, folder / audits.PAGE)
    return audit


def _check_method_not_chosen(config: RunConfig, user_options: Collection[str], chooser: str) -> None:
    """Raise ``InputError`` if the user chose a method, which the option ``chooser`` does; its views are allowed."""
    allowed = {f"method.attributes.{name}" for name in ESTIMATOR_OPTIONS}
    if config.method.name == "LC":
        allowed.add("method.name")
    for name in sorted(set(user_options) - allowed):
        if name.partition(".")[0] in ("method", "preset", "biased_network"):
            raise InputError(f"{chooser} chooses the method: leave --{name.removesuffix('.name')} out")


def audit_command(
    config: RunConfig | None = None,
    *,
    out: Path,
    run: Path | None = None,
    predictions: Path | None = None,
    try_fix: bool = True,
    new_rows: Path | None = None,
    ask: PositiveInt | None = None,
    answers: Path | None = None,
    single: bool = False,
    replace_answers: bool = False,
    fail_on: Literal["shortcut", "cannot tell"] | None = None,
    json: bool = False,
) -> int:
    """Find out whether your data hold a shortcut, which one, and in which rows. Labels are all it needs.

    Args:
        config: data, network and training, as for `train`
        out: folder to write; a finished audit with --answers, or with --ask alone
        run: check this finished run, on its validation rows
        predictions: check any classifier by a table of its predictions on rows that it was not trained on, with a
            column row, line or path, and a column probability_LABEL for each label
        try_fix: after finding a shortcut, train LC in folds to see what a correction gains and costs
        new_rows: rows that the model will be used on, labelled or not: a folder of images or a table. They decide
            between ERM and every correction
        ask: write sheet.csv with N new rows whose label you fill in (default 20, if the new rows differ from the
            training data); works on a finished audit too
        answers: read a filled-in sheet.csv into a finished audit; sheets may come one after the other
        single: with answers, advise the best candidate instead of an average of the likely ones
        replace_answers: with --answers, replace earlier answers that the sheet contradicts
        fail_on: exit with status 3 on this verdict (quote 'cannot tell'); for continuous integration
        json: print audit.json
    """
    from logit_correction.shortcuts import audit as audits
    from logit_correction.shortcuts.audit_page import print_audit

    if config is None and (answers is not None or ask is not None):  # of a finished audit
        for option, value in {"--new-rows": new_rows, "--run": run, "--predictions": predictions}.items():
            if value is not None:
                raise InputError(f"{option} is for a new audit: leave it out, or give --data and another --out")
    if answers is not None:
        if config is not None or ask is not None:
            raise InputError("--answers reads a sheet into the audit in --out: leave out other options")
        audits.Audit(out).answer(answers, single=single or None, replace_answers=replace_answers)
    elif config is not None:
        audits.audit(
            config,
            out,
            run=run,
            predictions=predictions,
            new_rows=new_rows,
            ask=ask,
            single=single,
            try_fix=try_fix,
            progress=True,
        )
    elif ask is not None:
        audits.Audit(out).ask(ask)
    else:
        raise InputError("--data is missing: give a folder of images, the file of a table, or a data source")
    audit = audits.Audit(out)
    if json:
        only_for_pages = ("contrasts", "shown", "words")
        print(format_json({name: value for name, value in audit.summary.items() if name not in only_for_pages}))
    else:
        print_audit(audit.result, out / audits.PAGE)
    return VERDICT_STATUS if fail_on == audit.verdict else 0


def evaluate_command(
    run: Path,
    *,
    split: Literal["test", "valid", "train"] | None = None,
    on: Path | None = None,
    label: str | None = None,
    attribute: str | None = None,
    metric: list[str] | None = None,
    json: bool = False,
    trust_code: bool = False,
) -> int:
    """Show the accuracy by group of a finished run, on a split of its own data or on new labelled rows.

    Args:
        run: folder that `train` wrote
        split: rows of the run's own data to judge on; test by default
        on: new labelled rows: a folder with one subfolder of images per label; or a CSV or Parquet file with the
            columns of training or a column of image files, such as path
        label: column of the labels in the table --on; by default that of training
        attribute: column of the attributes in the table --on; a group is then a label with an attribute
        metric: a further figure of each group, of `list metrics` or by a dotted path; may be repeated
        json: print JSON
        trust_code: import the custom classes that RUN names; their code has your rights, so only for runs you trust
    """
    from logit_correction.pages.console import print_evaluation
    from logit_correction.runs.run import load

    if on is None and (label is not None or attribute is not None):
        raise InputError("--label and --attribute name columns of new rows: give --on FOLDER|CSV too")
    if on is not None and split is not None:
        raise InputError("--split is of the run's own data, and --on of new rows: leave one of them out")
    split_name = split or "test"
    model = load(run, trust_code=trust_code)
    evaluation = model.evaluate(on or split_name, label, attribute, metric or ())
    if json:
        print(format_json(evaluation))
        return 0
    # Estimated groups add nothing to groups that the run's own data name.
    has_groups = on is None and any(group["attribute"] is not None for group in evaluation["groups"])
    title = f"{run}, {on or f'{split_name} split'}"
    refit = model.report.refit
    if on is None and refit is not None and split_name in refit.splits:
        title += ", before it was trained on these rows"
    print_evaluation(evaluation, title, None if has_groups else evaluation["estimated"])
    return 0


def predict_command(run: Path, inputs: list[Path], *, out: Path | None = None, trust_code: bool = False) -> int:
    """Predict labels and probabilities for new files, a folder or a table.

    Args:
        run: folder that `train` or `export` wrote
        inputs: image files, folders, or a CSV or Parquet file with the columns of training or a column of image
            files, such as path
        out: CSV to write; standard output by default
        trust_code: import the custom classes that RUN names; their code has your rights, so only for runs you trust
    """
    from logit_correction.atomic_files import replace_atomically
    from logit_correction.runs.folder import check_output_file
    from logit_correction.runs.run import load
    from logit_correction.spreadsheets import choose_csv_quoting
    from logit_correction.training.display import choose_display

    if out is not None:
        check_output_file(out)
        if out.exists() and any(file.exists() and file.samefile(out) for file in inputs):
            raise InputError(f"--out {out} is an input itself, which would be lost: give another file")
    model = load(run, trust_code=trust_code)
    model.model.display = choose_display()
    with model.restrict_imports(), ExitStack() as stack:
        file: TextIO = sys.stdout
        if out is not None:
            file = stack.enter_context(
                stack.enter_context(replace_atomically(out)).open("w", newline="", encoding="utf-8")
            )
        for lines in _predict_lines(model, inputs):
            quoting = choose_csv_quoting(chain.from_iterable(lines))
            csv.writer(file, quoting=quoting, lineterminator="\n").writerows(lines)
            file.flush()
    if out is not None:
        print(out)
    return 0


def _predict_lines(run: Any, inputs: list[Path]) -> Iterator[list[list[str]]]:
    """Yield the predictions of a run for new rows as lines of a CSV, its header first, a few at a time.

    A row that cannot be read has empty cells, and a warning at the end names it. If no row can be read, the error is
    raised before any line. With several inputs the name of a row starts with its file.
    """
    from logit_correction.data.cells import get_row_noun
    from logit_correction.data.rows import describe_row_errors
    from logit_correction.spreadsheets import escape_formula
    from logit_correction.unicode_text import escape_undecodable

    labels = list(map(escape_formula, run.label_names))
    lines: list[list[str]] = []
    errors: list[Any] = []
    has_good_row = False
    for part, store, row_facts in run.model.read(run.source.new_rows(inputs), keep_bad=True):
        heading = get_row_noun(part.numbers)
        names = list(map(str, part.numbers))
        if "files" in row_facts:
            heading = "path"
            names = list(map(escape_undecodable, row_facts["files"]))
        elif len(inputs) > 1:
            names = [f"{part.place}:{name}" for name in names]
        if not has_good_row and not lines:
            lines = [[heading, "label", *(f"probability_{name}" for name in run.label_names)]]
        for row, probabilities in enumerate(run.model.compute_logits(store).softmax(1).numpy()):
            cells = [""] * (1 + len(labels))
            if row not in part.errors.by_row:
                cells = [labels[int(probabilities.argmax())], *(f"{value:.6g}" for value in probabilities)]
            lines.append([escape_formula(names[row]), *cells])
        if part.errors:
            errors.append(part.errors)
        has_good_row = has_good_row or bool(part.errors.is_good.any())
        if has_good_row:
            yield lines
            lines = []
    if errors and not has_good_row:
        errors[0].raise_if_any()
    if errors:
        count = sum(map(len, errors))
        problem = "1 row has no answer" if count == 1 else f"{count:,} rows have no answer"
        warn_user(f"{problem}: {describe_row_errors(errors)}")


def export_command(run: Path, *, format: str, out: Path, trust_code: bool = False) -> int:
    """Save the network of a run for other programs: ONNX or torch.export.

    Args:
        run: folder that `train` wrote
        format: onnx or torch-export, or the dotted path of your own function
        out: folder to write, new or empty
        trust_code: import the custom classes that RUN names; their code has your rights, so only for runs you trust
    """
    from logit_correction.integrations.export import export

    export(run, format, out, trust_code=trust_code, say=print)
    return 0


def report_command(runs: list[Path], *, out: Path | None = None, metric: list[str] | None = None) -> int:
    """Write one self-contained page that compares runs.

    Args:
        runs: folders that `train` wrote, also by --seeds
        out: the page; report.html in the last run's folder by default
        metric: a further figure of each group, of `list metrics` or by a dotted path; may be repeated
    """
    from logit_correction.pages.page import write_report_page
    from logit_correction.runs.folder import PAGE, expand_seed_folders

    out = out or runs[-1] / PAGE
    write_report_page(expand_seed_folders(runs), out, metric or ())
    print(out)
    return 0


def preview_command(data: ComponentConfig) -> int:
    """Show the rows of a data source before anything is trained.

    Args:
        data: the data source
    """
    from logit_correction.pages.console import print_data_summary

    print_data_summary(data.make().build(), data.name)
    return 0


def list_command(kind: str = "", *, all: bool = False) -> int:
    """List the names that options take: methods, data, networks, views and more.

    Args:
        kind: methods, data, networks, views, formats, metrics, presets, estimators or rules; left out, the first four
        all: list every kind
    """
    from logit_correction.attributes import ESTIMATORS
    from logit_correction.data import SOURCES
    from logit_correction.evaluation import METRICS
    from logit_correction.integrations import FORMATS
    from logit_correction.methods import METHODS
    from logit_correction.networks import NETWORKS
    from logit_correction.training import RULES
    from logit_correction.views import VIEWS

    usual_lists: dict[str, Any] = {"methods": METHODS, "data": SOURCES, "networks": NETWORKS, "views": VIEWS}
    more_lists: dict[str, Any] = {
        "formats": FORMATS,
        "metrics": METRICS,
        "estimators": ESTIMATORS,
        "presets": PRESETS,
        "rules": RULES,
    }
    all_lists = usual_lists | more_lists
    if kind and kind not in all_lists:
        hint = suggest_name(kind, all_lists)
        raise InputError(f"The list {kind!r} does not exist{hint}: take one of {', '.join(all_lists)}")
    for title in [kind] if kind else all_lists if all else usual_lists:
        print(f"{title}:")
        width = max(map(len, all_lists[title]), default=0) + 2
        for name, entry in all_lists[title].items():
            print(f"  {name:<{width}}{entry if isinstance(entry, str) else entry[1]}")
    if not kind and not all:
        print(f"more: `logit-correction list KIND`, of {', '.join(more_lists)}; or `list --all`")
    return 0


def cache_command(*, clear: bool = False, days: int = 0) -> int:
    """Show what is kept to be used again: data given from Python, images and features; or remove it.

    Args:
        clear: remove it; a run that was trained on data from Python can then no longer be evaluated on them, or resumed
        days: only files that were written at least N days ago
    """
    from logit_correction.data.cache import CACHE_FOLDERS, get_cache_folder, list_cached_files

    check_range("--days", days, 0)
    folder = get_cache_folder()
    for name, files in list_cached_files(days).items():
        size = sum(file.stat().st_size for file in files) / 1e6
        print(f"{folder / name}: {len(files):,} files, {size:,.1f} MB of {CACHE_FOLDERS[name]}")
        for file in files if clear else ():
            file.unlink(missing_ok=True)
    print("removed" if clear else "remove them by: logit-correction cache --clear")
    return 0
