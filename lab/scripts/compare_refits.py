"""What does training again on all rows win on small samples of real sets, for equal epochs and for equal steps?

    python lab/scripts/compare_refits.py OUT.csv --real FOLDER --seeds 5

Draws a few rows of the training part of each set, divides them as a user's table is (70, 10 and 20 %), trains by each
method, and trains again on all of them: for as many epochs as were selected, or for as many steps (epochs times old
rows over new rows). At most 4,000 of the other rows evaluate; no variant trains on them. The command continues where it
was killed. FOLDER holds the packages of the source ``Wild``, unpacked.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from new_rows import build_set_config, compute_test_outputs

from logit_correction.data.reader import NumericReader
from logit_correction.data.splits import Splitting, make_splits
from logit_correction.data.table import DataTable
from logit_correction.integrations.sklearn import TableSource
from logit_correction.runs.assemble import PreparedRun, build_training_rows, prepare_run
from logit_correction.runs.model import build_algorithm
from logit_correction.runs.options import RunConfig, build_config
from logit_correction.runs.refit import extend_training_split, prepare_refit, train_on_all_rows
from logit_correction.training.display import Display
from logit_correction.training.fit import Trainer

#: Set -> a view by which LC corrects there.
VIEWS = {
    "german": "column:status",
    "compas": "column:score-text",
    "law": "column:LSAT",
    "adult": "column:relationship",
    "scanner": "column:scanner_kv",
    "spam": "form",
    "tweets-by-dialect": "characters",
    "wiki-identity": "form",
    "digits": "colour",
    "birds-on-scenes": "texture",
    "celeba-subset": "texture",
}

#: Sets whose test rows are distributed like the training rows, so that each seed draws from all rows.
ALIKE = ("german", "compas", "law", "adult")

#: Numbers of rows that are drawn; 330 is a small table of a user.
SIZES = (330, 1000, 2000)

#: Methods that are trained again.
METHODS = ("ERM", "LC by a view", "LC by Online")

#: Greatest number of rows that evaluate.
MAX_EVALUATED = 4000


def build_base_table(name: str, real: Path) -> tuple[DataTable, RunConfig]:
    """Return all rows of a set, photos as features of the encoder, and the config that suits them.

    Args:
        name: The set.
        real: Folder of the packages of ``Wild``.
    """
    config = build_set_config(name, 0, real)
    config = replace(config, method=build_config(config.data, method="ERM").method)
    prepared = prepare_run(config, Display())
    return prepared.table, prepared.config


def draw_sample(table: DataTable, name: str, size: int, seed: int) -> tuple[DataTable, np.ndarray] | None:
    """Draw rows of a set and divide them.

    Args:
        table: All rows of the set.
        name: The set.
        size: Number of rows to draw.
        seed: Seed of all draws.

    Returns:
        The table of these rows, with drawn splits, and the positions of the rows that evaluate; None if the set has too
        few rows.
    """
    generator = np.random.default_rng([seed, size])
    split = {key: rows.numpy() for key, rows in table.split.items()}
    pool = np.concatenate([split["train"], split["valid"], split["test"]]) if name in ALIKE else split["train"]
    if len(pool) < size * (1.2 if name in ALIKE else 1.0):
        return None
    order = generator.permutation(pool)
    evaluated = order[size:] if name in ALIKE else generator.permutation(split["test"])
    drawn = order[:size]
    label = torch.full_like(table.label, -1)
    label[drawn] = table.label[drawn]
    splits, _ = make_splits(label, [None] * len(label), list(map(str, table.label_names)), Splitting(seed=seed))
    sample = replace(table, split=splits, drawn=("valid", "test"), evaluation_groups=None, correlation=None)
    return sample, evaluated[:MAX_EVALUATED]


def train_for_equal_epochs(prepared: PreparedRun, trainer: Trainer) -> torch.nn.Module:
    """Train the method of a run again on all rows, for as many epochs as were selected, and return its network.

    The package trains for as many steps: see ``logit_correction.runs.refit``.

    Args:
        prepared: The run, with a finished search for a shortcut.
        trainer: Its training on the training split.
    """
    table = extend_training_split(prepared.table)
    algorithm = build_algorithm(prepared.config, table.info)
    algorithm.setup(build_training_rows(table, algorithm, prepared.config.training.epochs or 0))
    if trainer.algorithm.attributes is not None and trainer.algorithm.attributes.finding is not None:
        algorithm.adopt_finding(trainer.algorithm.attributes.finding)
    config = replace(prepared.config, training=replace(prepared.config.training, selection="last"))
    run = PreparedRun(config, table, algorithm)
    run.make_trainer(Display(), last_epochs=[epoch for _, epoch in trainer.get_selections()]).run()
    return algorithm.network


def train_for_equal_steps(prepared: PreparedRun, trainer: Trainer) -> torch.nn.Module:
    """Train the method of a run again on all rows as ``--refit`` does, and return its network."""
    refit = prepare_refit(prepared)
    assert refit is not None
    return train_on_all_rows(refit, trainer, None, resume=False).trainer.algorithm.network


def measure_accuracy(network: torch.nn.Module, table: DataTable, evaluated: np.ndarray) -> dict[str, float]:
    """Return the accuracy in %, and the mean of that of the groups (label by attribute).

    Args:
        network: The network.
        table: The data.
        evaluated: Positions of the rows that evaluate.
    """
    rows = torch.from_numpy(evaluated)
    logits = compute_test_outputs(network.cpu().eval(), replace(table, split={**table.split, "test": rows}))
    right = (logits.argmax(dim=1) == table.label[rows]).double().numpy()
    group = (table.label[rows] * 1000 + table.attribute[rows]).numpy()
    return {
        "accuracy": 100 * right.mean(),
        "balanced": 100 * float(np.mean([right[group == value].mean() for value in np.unique(group)])),
    }


def build_method(name: str, view: str) -> dict[str, Any]:
    """Return the options of a method.

    Args:
        name: One of ``METHODS``.
        view: The view of ``LC by a view``.
    """
    by_view = {"name": "Auto", "decided_by": "answers", "shortcut": [view]}
    attributes = {"LC by a view": by_view, "LC by Online": "Online"}
    return {"name": "LC", "attributes": attributes[name]} if name in attributes else {"name": name}


def compare_variants(
    base: RunConfig, sample: DataTable, evaluated: np.ndarray, facts: dict[str, Any]
) -> list[dict[str, Any]]:
    """Train a method on the training split, and again on all rows.

    Args:
        base: Config that fits all rows of the set, for the network.
        sample: The rows that were drawn.
        evaluated: Positions of the rows that evaluate.
        facts: ``set``, ``rows``, ``seed`` and ``method``.

    Returns:
        A line of the table for each variant.
    """
    data = TableSource(NumericReader(), sample).as_component()
    method = build_method(facts["method"], VIEWS[facts["set"]])
    config = build_config(data, method=method, seed=facts["seed"], device="cpu", threads=1)
    if base.encoder is not None or base.network.name == "Linear":
        training = replace(config.training, weight_decay=base.training.weight_decay)
        config = replace(config, network=base.network, training=training)
    prepared = prepare_run(config, Display())
    trainer = prepared.make_trainer(Display())
    trainer.run()
    trainer.load_selected_weights()
    networks = {
        "split": prepared.algorithm.network,
        "equal epochs": train_for_equal_epochs(prepared, trainer),
        "equal steps": train_for_equal_steps(prepared, trainer),
    }
    epochs = {"epochs": prepared.config.training.epochs, "selected": trainer.get_selections()[0][1]}
    return [
        {**facts, "variant": variant, **epochs, **measure_accuracy(network, sample, evaluated)}
        for variant, network in networks.items()
    ]


def summarize_refits(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean gain (points) over the training on the split alone, and its standard error over the samples."""
    keys = ["set", "rows", "seed", "method"]
    values = table.set_index([*keys, "variant"])[["accuracy", "balanced"]].unstack("variant")
    gains = {
        f"{variant}, {metric}": values[metric, variant] - values[metric, "split"]
        for variant in ("equal epochs", "equal steps")
        for metric in ("accuracy", "balanced")
    }
    return pd.DataFrame(gains).groupby(["rows", "method"]).agg(["mean", "sem", "count"]).round(2)


def compare_refits() -> None:
    """Compare all variants on the sets of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="table of all accuracies")
    parser.add_argument("--real", type=Path, default=Path(), help="folder of the packages of Wild")
    parser.add_argument("--sets", nargs="*", default=list(VIEWS))
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    options = parser.parse_args()
    results = (
        pd.read_csv(options.out) if options.out.exists() else pd.DataFrame(columns=["set", "rows", "seed", "method"])
    )
    for name in options.sets:
        table, base = build_base_table(name, options.real)
        for size in options.sizes:
            for seed in range(options.seeds):
                drawn = draw_sample(table, name, size, seed)
                for method in options.methods if drawn is not None else []:
                    facts = {"set": name, "rows": size, "seed": seed, "method": method}
                    if (results[list(facts)] == list(facts.values())).all(axis=1).any():
                        continue
                    lines = compare_variants(base, *drawn, facts)
                    print(name, size, seed, method, flush=True)
                    results = pd.concat([results, pd.DataFrame(lines)])
                    results.round(2).to_csv(options.out, index=False)
    print(summarize_refits(results).T.to_string())


if __name__ == "__main__":
    compare_refits()
