"""A study: trials of one method on one data set, each a run in a folder, that goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from logit_correction.config import RunConfig
from logit_correction.errors import InputError, Interrupted, TrainingError, format_percent
from logit_correction.files import write_text
from logit_correction.pages.trials import Trial, write_trials
from logit_correction.registry import needed
from logit_correction.runs.folder import acquire, is_finished, make, read_report
from logit_correction.runs.options import complete
from logit_correction.tuning.objective import Objective, usual_objective
from logit_correction.tuning.space import suggested, with_options

if TYPE_CHECKING:
    import optuna

#: Files of a study, and the run with the options as given, which the others are measured against.
JOURNAL, SETTINGS, BEST, PAGE, REFERENCE = "journal.log", "tune.yaml", "best.yaml", "trials.html", "reference"


def tune(
    config: RunConfig,
    out: Path,
    trials: int,
    *,
    objective: str | None = None,
    jobs: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> Path:
    """Try options of a run and write a page of the trials; the same call goes on where it was stopped.

    Args:
        config: The run whose options are tried; those that are not tuned stay as they are.
        out: Folder of the study.
        trials: How many are wanted in all, failed ones included.
        objective: The selection rule that the runs are judged by; by default one that reads no attribute.
        jobs: Runs at a time.
        say: Told how it goes.

    Returns:
        The folder of the best run.

    Raises:
        InputError: If Optuna is missing, an option is wrong, or the folder holds another study.
        TrainingError: If the run with the options as given failed, or all trials did.
    """
    needed("optuna", "tune", "tune")
    config = complete(config)
    rule = objective or usual_objective(config)
    if rule == "last":
        raise InputError("--objective last chooses nothing: take valid_worst_class, or another of `list rules`")
    also = list(dict.fromkeys([*config.training.also_select, rule]))  # a rule that is reported says what is to be read
    config = complete(replace(config, training=replace(config.training, also_select=also)))
    make(out)
    with acquire(out):
        _check_same(out, config, rule)
        if failure := _trained(config, out / REFERENCE):
            raise TrainingError(f"the run in {out / REFERENCE} failed: {failure}")
        scoring = Objective(rule, out / REFERENCE)
        say(f"options as given: {format_percent(scoring.score(out / REFERENCE), 1)} by {rule}")
        study = _opened(out, config.training.seed)
        _run(study, config, out, trials, jobs, scoring, say)
        return _write(study, config, out, rule, scoring)


def _opened(out: Path, seed: int) -> optuna.Study:
    """Return the study of a folder."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(out / JOURNAL)))
    study = optuna.create_study(study_name="tune", storage=storage, direction="maximize", load_if_exists=True)
    for stale in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        # Its run goes on: the folder is named by the options. The lock says that no other process is at it.
        study.tell(stale.number, state=optuna.trial.TrialState.FAIL)
        study.enqueue_trial(stale.params)
    study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials))
    return study


def ended(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Return the trials that count: finished ones and those whose run failed, not those that were stopped."""
    return [trial for trial in study.trials if trial.value is not None or "failed" in trial.user_attrs]


def folder_of(out: Path, drawn: dict[str, Any]) -> Path:
    """Return the folder of the run with these options; the same options have the same folder."""
    return out / f"trial-{hashlib.sha256(json.dumps(drawn, sort_keys=True).encode()).hexdigest()[:10]}"


def _run(
    study: optuna.Study,
    config: RunConfig,
    out: Path,
    trials: int,
    jobs: int,
    objective: Objective,
    say: Callable[[str], None],
) -> None:
    """Run what is missing of the trials, as many at a time as there are jobs."""
    from joblib import Parallel, delayed
    from optuna.trial import TrialState

    while (left := trials - len(ended(study))) > 0:
        asked = [study.ask() for _ in range(min(jobs, left))]
        drawn = [suggested(trial, config.method.name) for trial in asked]
        folders = [folder_of(out, one) for one in drawn]
        configs = [complete(with_options(config.to_dict(), one)) for one in drawn]
        try:
            failures = Parallel(len(asked))(map(delayed(_trained), configs, folders))
        except BrokenExecutor as error:
            raise TrainingError(
                "the process of a trial was killed, perhaps for want of memory: give fewer --jobs; the same command "
                "goes on"
            ) from error
        for trial, options, folder, failure in zip(asked, drawn, folders, failures, strict=True):
            if failure:  # as with a learning rate that is too high
                trial.set_user_attr("failed", failure)
                study.tell(trial, state=TrialState.FAIL)
                say(f"trial {trial.number}: {failure}")
                continue
            score = objective.score(folder)
            study.tell(trial, score)
            told = ", ".join(f"{name} {value:.3g}" for name, value in options.items())
            say(f"trial {trial.number}: {format_percent(score, 1)}, {told}")


def _trained(config: RunConfig, folder: Path) -> str:
    """Train a run to its end, or go on with it; return why it failed, nothing if it did not."""
    from logit_correction.runs.train import train

    try:
        if not is_finished(folder):
            train(config, folder, resume=True)
    except Interrupted as error:
        raise KeyboardInterrupt from error
    except (InputError, TrainingError) as error:
        return str(error)
    return ""


def _check_same(out: Path, config: RunConfig, rule: str) -> None:
    """Write down what is tuned; refuse another study in the same folder."""
    text = yaml.safe_dump({"objective": rule, "run": config.to_dict()}, sort_keys=False, allow_unicode=True)
    there = out / SETTINGS
    if not there.is_file():
        write_text(there, text)
    elif there.read_text(encoding="utf-8") != text:
        raise InputError(f"--out {out} holds a study with other options ({there}): give them again, or another folder")


def _write(study: optuna.Study, config: RunConfig, out: Path, rule: str, objective: Objective) -> Path:
    """Write the best run's options and the page; return the folder of the best run."""
    given = Trial("as given", objective.score(out / REFERENCE), {}, out / REFERENCE)
    tried = [
        Trial(f"trial {one.number}", one.value, one.params, folder_of(out, one.params), one.user_attrs.get("failed"))
        for one in ended(study)
    ]
    finished = [one for one in (given, *tried) if one.score is not None]
    best = max(finished, key=lambda one: float(one.score or 0))
    write_text(out / BEST, (best.folder / "config.yaml").read_text(encoding="utf-8"))
    reports = {one.name: read_report(one.folder) for one in finished}
    write_trials(out / PAGE, out / BEST, [given, *tried], best, rule, reports)
    return best.folder
