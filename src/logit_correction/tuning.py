"""Tuning: options of a run chosen by what it says of validation rows, on Optuna (extra ``tune``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from logit_correction.config import RunConfig, merge
from logit_correction.errors import InputError, TrainingError, format_percent
from logit_correction.evaluation import Predictions
from logit_correction.files import replacing, write_text
from logit_correction.registry import needed
from logit_correction.runs.folder import VALIDATION
from logit_correction.runs.options import complete
from logit_correction.runs.train import train
from logit_correction.training.rules import ValidationRows, rule_of

#: Files of a study, and the run with the options as given, which the others are measured against.
BEST, TABLE, REFERENCE = "best.yaml", "trials.csv", "reference"

#: Column of the table, and what a trial holds whose run failed: why.
FAILED = "failed"

#: Option -> least and greatest value, and whether its logarithm is drawn evenly; whole numbers where both ends are.
SPACE: dict[str, tuple[float, float, bool]] = {
    "learning_rate": (2e-4, 2e-2, True),
    "weight_decay": (1e-6, 1e-2, True),
}

#: Method -> its own options beside.
OWN: dict[str, dict[str, tuple[float, float, bool]]] = {
    "LC": {"method.strength": (0.5, 1.5, False)},
    "StagedLC": {"method.strength": (0.5, 1.5, False)},
    "GroupDRO": {"method.step_size": (1e-3, 1e-1, True), "method.adjustment": (0.0, 5.0, False)},
    "LfF": {"method.q": (0.3, 0.9, False)},
    "JTT": {"method.identification_epochs": (1, 5, False), "method.up_weight": (5, 100, True)},
    "DFA": {"method.q": (0.3, 0.9, False), "method.lambda_dis": (1.0, 20.0, True)},
}


def tune(
    config: RunConfig,
    out: Path,
    trials: int,
    *,
    objective: str | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> Path:
    """Try options of a run and write a table of the trials.

    The same call draws the same options again, finds what is finished, and so goes on where it was stopped.
    """
    optuna = needed("optuna", "tune", "tune")
    config = complete(config)
    if config.training.devices * config.training.nodes > 1:
        raise InputError("Each trial trains on one device: leave --devices and --nodes out")
    estimator = config.method.options.get("attributes") or {}
    estimates = estimator.get("name") not in (None, "Given", "TrueAttributes")
    rule = objective or ("valid_estimated_group_balanced" if estimates else "valid_worst_class")
    if rule == "last":
        raise InputError("--objective last chooses nothing: take valid_worst_class, or another of `list rules`")
    rule_of(rule)
    also = list(dict.fromkeys([*config.training.also_select, rule]))  # a rule that is reported says what is to be read
    config = complete(replace(config, training=replace(config.training, also_select=also)))
    train(config, out / REFERENCE, resume=True)
    reference = score_of(out / REFERENCE, rule, out)
    say(f"options as given: {format_percent(reference, 1)} by {rule}")

    def trained(trial: Any) -> float:
        flat = config.to_dict()
        for name, (low, high, log) in (SPACE | OWN.get(config.method.name, {})).items():
            suggest = trial.suggest_int if isinstance(low, int) else trial.suggest_float
            value = suggest(name, low, high, log=log)
            part, _, option = name.partition(".")
            flat = merge(flat, {part: {option: value}} if option else {part: value})
        try:
            train(complete(RunConfig.from_dict(flat)), out / f"trial-{trial.number}", resume=True)
        except TrainingError as error:  # as with a learning rate that is too high
            trial.set_user_attr(FAILED, str(error))
            say(f"trial {trial.number}: {error}")
            raise
        score = score_of(out / f"trial-{trial.number}", rule, out)
        options = ", ".join(f"{name} {value:.3g}" for name, value in trial.params.items())
        say(f"trial {trial.number}: {format_percent(score, 1)}, {options}")
        return score

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=config.training.seed), direction="maximize")
    study.optimize(trained, trials, catch=TrainingError)
    rows: list[dict[str, Any]] = [{"run": REFERENCE, "score": reference, FAILED: None}]
    rows += [
        {"run": f"trial-{one.number}", "score": one.value, FAILED: one.user_attrs.get(FAILED), **one.params}
        for one in study.trials
    ]
    table = pd.DataFrame(rows).sort_values("score", ascending=False, kind="stable")
    with replacing(out / TABLE) as temporary:
        table.to_csv(temporary, index=False)
    best = out / str(table["run"].iloc[0])
    write_text(out / BEST, (best / "config.yaml").read_text(encoding="utf-8"))
    return best


def score_of(folder: Path, rule: str, out: Path) -> float:
    """Return the score of a finished run by a rule, higher is better; no rule reads the test split.

    All go by the groups that the reference run estimates: each would have groups of its own otherwise.
    """
    chosen, rows = rule_of(rule), Predictions.load(folder / VALIDATION)
    answers = torch.from_numpy(rows.prediction), torch.from_numpy(rows.label), len(rows.label_names)
    groups = rows.judged_groups() if "attribute" in chosen.reads else None
    score = chosen.score(ValidationRows(*answers, groups, Predictions.load(out / REFERENCE / VALIDATION).estimate))
    if score is None:
        raise InputError(
            f"--objective {rule} has no score of {folder}: name a shortcut by --shortcut VIEW, or take --objective "
            "valid_worst_class"
        )
    return score
