"""A study: trials of one method on one data set, each a run in a folder, that goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from logit_correction.bench.executors import Executor, ProcessExecutor
from logit_correction.bench.work import Job
from logit_correction.config import RunConfig
from logit_correction.errors import InputError, TrainingError, format_percent
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
        executor: Executor = ProcessExecutor(jobs)
        try:
            _train(executor, config, out / REFERENCE)
            scoring = Objective(rule, out / REFERENCE)
            say(f"options as given: {format_percent(scoring.score(out / REFERENCE), 1)} by {rule}")
            study = _opened(out, config.training.seed)
            _run(study, config, out, trials, jobs, executor, scoring, say)
        except BaseException:
            executor.stop()
            raise
        finally:
            executor.close()
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
    executor: Executor,
    objective: Objective,
    say: Callable[[str], None],
) -> None:
    """Run what is missing of the trials."""
    from optuna.trial import TrialState

    left, lock = trials - len(ended(study)), threading.Lock()

    def work() -> None:
        nonlocal left
        while True:
            with lock:
                if left <= 0:
                    return
                left, trial = left - 1, study.ask()
                drawn = suggested(trial, config.method.name)
            folder = folder_of(out, drawn)
            try:
                _train(executor, complete(RunConfig.from_dict(with_options(config.to_dict(), drawn))), folder)
            except TrainingError as error:  # as with a learning rate that is too high
                trial.set_user_attr("failed", str(error))
                study.tell(trial, state=TrialState.FAIL)
                say(f"trial {trial.number}: {error}")
                continue
            score = objective.score(folder)
            study.tell(trial, score)
            options = ", ".join(f"{name} {value:.3g}" for name, value in drawn.items())
            say(f"trial {trial.number}: {format_percent(score, 1)}, {options}")

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            for future in as_completed([pool.submit(work) for _ in range(jobs)]):
                future.result()
        except BaseException:
            left = 0
            executor.stop()  # the runs save and end; the same call goes on with them
            raise


def _train(executor: Executor, config: RunConfig, folder: Path) -> None:
    if is_finished(folder):
        return
    job = Job(config, folder.absolute())
    outcome = executor.run(job)
    if outcome.state == "stopped":
        raise KeyboardInterrupt
    if outcome.state != "done":
        lines = job.log.read_text(encoding="utf-8").splitlines() if job.log.is_file() else []
        reason = outcome.message or (lines[-1].removeprefix("error: ") if lines else "it ended early")
        raise TrainingError(f"the run in {folder} failed: {reason}")


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
