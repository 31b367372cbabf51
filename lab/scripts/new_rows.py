"""Measures whether labels of new rows select the right candidate, on sets with known groups.

    python lab/scripts/new_rows.py collect OUT --sets compas bar digits signature:control --seeds 3 --real FOLDER
    python lab/scripts/new_rows.py collect OUT --drawn 100 --seed 7 --sources SETS     # cases of evidence_cases.py
    python lab/scripts/new_rows.py judge OUT --answers 20 50

``collect`` trains all candidates once on each set and keeps their logits on validation and test rows, one file for each
set and seed; it continues where it was killed. FOLDER holds ``BAR`` and the packages of the source ``Wild``, unpacked;
SETS is what ``evidence_sets.py`` wrote. ``evidence_model.py`` is fitted to what it keeps of drawn cases.

``judge`` divides the test rows into halves, draws up to 1,000 new rows of the first, as many of each group (label by
attribute), and evaluates the selected candidate on the second, groups weighted equally. ``--like training`` draws and
evaluates by the shares of the training rows, ``mixture`` by the mean of both, ``labels`` by those of training, except
that one label has 80 %. Answers are the true labels, of which the share ``--wrong`` is wrong; ``--new-rows`` is the
number of new rows; ``--harder`` takes those of which ERM is least sure. ``--without`` leaves candidates out.
"""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import torch

from logit_correction.data.loading import BatchLoader
from logit_correction.data.reader import NumericReader
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, TrainingError
from logit_correction.integrations.sklearn import TableSource
from logit_correction.registry import ComponentConfig
from logit_correction.runs.assemble import prepare_run
from logit_correction.runs.options import RunConfig, build_config, complete_config
from logit_correction.shortcuts import selection
from logit_correction.shortcuts.candidates import (
    Candidate,
    build_candidates,
    list_in_distribution_splits,
    train_candidate,
)
from logit_correction.shortcuts.new_rows import compute_total_variation_to_erm
from logit_correction.training.display import Display
from logit_correction_lab.sources import stand_ins, wild

#: Further trainings of ERM, whose average is compared with that of the candidates.
NUM_FURTHER_ERM = 5

#: Name of a model whose training reads the true attribute, which a candidate may not.
TRUE = "LC by the true attribute"


def build_set_config(name: str, seed: int, real: Path) -> RunConfig:
    """Return the config of a set.

    Args:
        name: ``bar``, or a set of the sources ``Wild``, ``StandIn`` or ``Planted`` (also NAME:control).
        seed: Seed of the data and the training.
        real: Folder that holds ``BAR`` and the packages of ``Wild``.
    """
    name, _, control = name.partition(":")
    options: dict[str, Any] = {"epochs": 4} if name in ("celeba", "adult") else {}
    if name == "bar":
        data: dict[str, Any] = {"name": "ImageFolder", "root": str(real / "BAR"), "seed": seed}
    elif name in get_args(wild.Set):
        data = {"name": "Wild", "set": name, "root": str(real), "seed": seed}
    elif name in stand_ins.SETS:
        data = {"name": "StandIn", "set": name}
        if stand_ins.SETS[name]["files"][0].endswith(".tar"):  # photos, encoded as the program encodes a user's own
            model = {"model": "tf_efficientnet_lite0", "weights": "pretrained", "size": 224}
            options["encoder"] = {"name": "Timm", **model}
    else:
        data = {"name": "Planted", "set": name, "control": bool(control), "seed": seed}
    return build_config(
        data, method={"name": "LC", "attributes": "Auto"}, seed=seed, device="cpu", threads=1, **options
    )


def collect(config: RunConfig, out: Path, **facts: Any) -> None:
    """Train all candidates on a set, unless its file exists, and keep their logits.

    Args:
        config: Config of the set.
        out: File to write: a pickled dict of the logits, labels and attributes, of the statistics of the candidates
            that the search scored, and of ``facts``.
        **facts: Further facts on the set.
    """
    if out.exists():
        return
    started = time.monotonic()
    prepared = prepare_run(config, Display())
    prepared.make_trainer(Display()).run(estimator_only=True)
    table = prepared.table
    estimator = prepared.algorithm.attributes
    candidates = build_candidates(prepared)
    if table.has_attributes("train"):
        true = replace(prepared.config, method=ComponentConfig("LC", {"attributes": "TrueAttributes"}))
        candidates.append(Candidate(TRUE, "reads attributes", complete_config(true)))
    outputs = {}
    features: dict[str, Any] = {}
    for candidate in candidates:
        try:
            model = train_candidate(candidate, table)
        except (InputError, TrainingError) as error:
            print(f"{out.stem}: {candidate.name} is left out: {error}")
            continue
        if candidate is candidates[0]:
            features = collect_features(model.network, table)
        outputs[candidate.name] = {
            "usual": model.in_distribution_logits.half().numpy(),
            "test": compute_test_outputs(model.network, table).half().numpy(),
            "seconds": model.seconds,
        }
    further_erm = []
    for number in range(1, NUM_FURTHER_ERM + 1):
        training = replace(candidates[0].config.training, seed=1000 * number + candidates[0].config.training.seed)
        model = train_candidate(replace(candidates[0], config=replace(candidates[0].config, training=training)), table)
        further_erm.append(compute_test_outputs(model.network, table).half().numpy())
    statistics = {candidate.views: vars(candidate.scored.statistics) for candidate in estimator.search.candidates}
    train = table.split["train"]
    test = table.split["test"]
    collected = {
        "found": outputs,
        "label": table.label[test].numpy(),
        "attribute": table.attribute[test].numpy(),
        "valid label": table.label[table.split["valid"]].numpy(),
        "features": features,
        "further ERM": further_erm,
        "default": list(estimator.finding.views),
        "rows": len(train),
        "usual": list_in_distribution_splits(table),
        "signs": {
            candidate.name: statistics[candidate.views]
            for candidate in candidates
            if candidate.views in statistics and candidate.config.method.name == "LC"
        },
        "trained on": {"label": table.label[train].numpy(), "attribute": table.attribute[train].numpy()},
        **facts,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(pickle.dumps(collected))
    print(f"{out.stem}: {len(outputs)} candidates, {time.monotonic() - started:.0f} s", flush=True)


@torch.no_grad()
def compute_test_outputs(network: Callable[[Any], torch.Tensor], table: DataTable, split: str = "test") -> torch.Tensor:
    """Return what a network gives for all rows of a split, one line each."""
    return torch.cat([network(batch.inputs).flatten(1) for batch in BatchLoader(table, split).epoch()])


def collect_features(network: torch.nn.Module, table: DataTable) -> dict[str, Any]:
    """Return the features of the test rows in front of a network's head, and their mean and deviation in training.

    A network without features gives none.
    """
    if not hasattr(network, "features"):
        return {}
    test, train = (compute_test_outputs(network.features, table, split).float() for split in ("test", "train"))
    return {"test": test.half().numpy(), "mean": train.mean(dim=0).numpy(), "scale": train.std(dim=0).numpy()}


def collect_drawn(number: int, seed: int, out: Path, sources: Path) -> None:
    """Collect a drawn case, whose balanced test takes the place of the test.

    Args:
        number: Number of the case.
        seed: Seed of the cases.
        out: Folder of the files.
        sources: Folder that ``evidence_sets.py`` wrote.
    """
    from evidence_cases import build_case, draw_case

    case = draw_case(number, seed)
    file = out / f"drawn {case.kind} {case.what} {case.family.replace('/', '-')} {number}-{seed}.pkl"
    if file.exists():
        return
    built = build_case(case, sources)
    table = replace(built.table, split={**built.table.split, "test": built.balanced})
    data = TableSource(NumericReader(), table).as_component()
    options = {"seed": seed, "device": "cpu", "threads": 1}
    config = build_config(data, method={"name": "LC", "attributes": "Auto"}, **options)
    collect(config, file, case=case.to_dict(), family=case.family)


# -- Evaluation


def compute_groups(collected: dict[str, Any], rows: dict[str, Any]) -> np.ndarray:
    """Return the group of each of ``rows``: label by attribute, or the label where attributes are unknown or one."""
    attribute = collected["attribute"]
    has_groups = (attribute >= 0).all() and len(np.unique(attribute)) > 1
    return np.asarray(rows["label"] * 1000 + (rows["attribute"] if has_groups else 0))


def compute_group_shares(
    collected: dict[str, Any], groups: np.ndarray, like: str, draw: np.random.Generator
) -> np.ndarray:
    """Return the share of each group among the new rows.

    Args:
        collected: What ``collect`` kept of a set.
        groups: (G,) groups.
        like: The option ``--like``.
        draw: Random numbers.
    """
    equal = np.full(len(groups), 1 / len(groups))
    if like == "groups":
        return equal
    training_groups = compute_groups(collected, collected["trained on"])
    shares = np.array([(training_groups == group).sum() for group in groups], dtype=float)
    shares /= shares.sum()
    if like == "mixture":
        return (equal + shares) / 2
    if like == "labels":
        label = groups // 1000
        labels = np.unique(label)
        favoured = draw.choice(labels)
        for value in labels:
            wanted = 0.8 if value == favoured else 0.2 / (len(labels) - 1)
            shares[label == value] *= wanted / max(1e-9, shares[label == value].sum())
    return shares / shares.sum()


def evaluate_selection(
    collected: dict[str, Any], num_answers: int, seed: int, options: argparse.Namespace
) -> dict[str, float]:
    """Draw new rows of a set, select a candidate by answers on some of them, and evaluate it on other rows.

    Args:
        collected: What ``collect`` kept of the set.
        num_answers: Number of answers.
        seed: Seed of the new rows and the answers.
        options: Those of the command line.

    Returns:
        Accuracies in % of ERM, the best candidate, LC by the true attribute and the selected candidate, its accuracy in
        its worst group, and whether a shift was found.
    """
    draw = np.random.default_rng(seed)
    outputs = collected["found"]
    names = [name for name in outputs if name not in (TRUE, *options.without)]
    logits = torch.stack([torch.from_numpy(outputs[name]["test"]).float() for name in names])
    in_distribution = torch.stack([torch.from_numpy(outputs[name]["usual"]).float() for name in names])
    predictions = logits.argmax(dim=2).numpy()
    label = collected["label"]
    group = compute_groups(collected, collected)
    groups, group_code, sizes = np.unique(group, return_inverse=True, return_counts=True)
    shares = compute_group_shares(collected, groups, options.like, draw)
    weight = (shares / sizes)[group_code]
    in_first_half = np.zeros(len(label), dtype=bool)
    for value in groups:
        rows = draw.permutation(np.flatnonzero(group == value))
        in_first_half[rows[: len(rows) // 2]] = True
    is_used = np.ones(len(label), dtype=bool)
    if options.harder:
        confidence = logits[0].softmax(dim=1).amax(dim=1).numpy()
        is_used = confidence <= np.quantile(confidence, 1 / 3)
    evaluated = np.flatnonzero(~in_first_half & is_used)

    def compute_accuracy(right: np.ndarray) -> Any:
        return 100 * (right * weight[evaluated]).sum(axis=-1) / weight[evaluated].sum()

    accuracy = compute_accuracy(predictions[:, evaluated] == label[evaluated])
    rows_of_groups = [np.flatnonzero(in_first_half & is_used & (group == value)) for value in groups]
    sampled = list(zip(rows_of_groups, shares, strict=True))
    num_new = min([options.new_rows, *(len(rows) / share for rows, share in sampled if len(rows) and share)])
    new_rows = np.concatenate(
        [draw.permutation(rows)[: max(1, round(num_new * share)) if share else 0] for rows, share in sampled]
    )
    p_value = selection.compute_shift_p_value(
        compute_total_variation_to_erm(logits[:, new_rows]).numpy(),
        compute_total_variation_to_erm(in_distribution).numpy(),
        seed,
    )
    has_shifted = p_value <= selection.SHIFT_LEVEL
    places, probabilities = selection.sample_rows_to_label(predictions[:, new_rows], num_answers, seed)
    answers = label[new_rows[places]]
    is_wrong = draw.random(len(answers)) < options.wrong
    answers = np.where(is_wrong, (answers + 1) % (label.max() + 1), answers)
    selected = 0
    if len(places) and (has_shifted or options.anyway):
        gains = selection.estimate_gains(predictions[:, new_rows], places, answers, 1 / probabilities[places])
        selected = selection.select_candidate(gains, has_shifted)
    by_truth = np.nan
    if TRUE in outputs:
        by_truth = compute_accuracy(outputs[TRUE]["test"].argmax(axis=1)[evaluated] == label[evaluated])
    right = pd.Series(predictions[selected][evaluated] == label[evaluated])
    return {
        "ERM": accuracy[0],
        "best": accuracy.max(),
        "true": by_truth,
        "chosen": accuracy[selected],
        "its worst group": 100 * right.groupby(group[evaluated]).mean().min(),
        "change": has_shifted,
    }


def print_summary(means: pd.DataFrame, num_answers: int) -> None:
    """Print what selection by so many answers wins over ERM, over all sets.

    Args:
        means: A row for each set, the mean of ``evaluate_selection``.
        num_answers: Number of answers.
    """
    won = means["chosen"] - means["ERM"]
    for name, column in (("best candidate", "best"), ("true attribute", "true")):
        gain = means[column] - means["ERM"]
        is_large = gain >= 3
        if column == "best" or is_large.any():
            share = 100 * won[is_large].sum() / max(1e-9, gain[is_large].sum())
            print(f"{num_answers} answers: {share:.1f} % of the {name}'s gain ({is_large.sum()} sets)")
    gain = means["best"] - means["ERM"]
    others = won[gain < 3]
    if len(others):
        print(f"elsewhere {others.mean():.2f} points, at worst {others.min():.2f} ({len(others)} sets)")
    where, elsewhere = (100 * means["change"][part].mean() if part.any() else 0 for part in (gain >= 5, gain < 5))
    print(f"a shift is found in {where:.0f} % where 5 points can be won, else {elsewhere:.0f} %")


def judge(folder: Path, options: argparse.Namespace) -> None:
    """Print a line for each set, and a summary.

    Args:
        folder: Folder of the collected files.
        options: Those of the command line.
    """
    frames = []
    for num_answers in options.answers:
        records = []
        for file in sorted(folder.glob("*.pkl")):
            collected = pickle.loads(file.read_bytes())
            runs = [evaluate_selection(collected, num_answers, seed, options) for seed in range(options.times)]
            name = file.stem.rpartition("-")[0]
            records.append({"set": name, "answers": num_answers, **pd.DataFrame(runs).astype(float).mean()})
        by_set = pd.DataFrame(records).groupby("set", sort=False)
        means = by_set.mean()
        if not options.quiet:
            for name, mean in means.drop(columns="answers").iterrows():
                values = ", ".join(f"{key} {value:.1f}" for key, value in mean.items())
                print(f"{num_answers} {name} ({by_set.size()[name]}): {values}")
        print_summary(means, num_answers)
        frames.append(means.astype({"answers": int}).reset_index())
    if options.csv:
        pd.concat(frames).to_csv(options.csv, index=False)


def main() -> None:
    """Collect or judge, as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("collect", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drawn", type=int, default=0)
    parser.add_argument("--part", default="0/1", help="PLACE/COUNT: every COUNT-th drawn case from PLACE on")
    parser.add_argument("--real", type=Path, default=Path())
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--answers", type=int, nargs="*", default=[20, 50])
    parser.add_argument("--times", type=int, default=30, help="samples of each set and seed")
    parser.add_argument("--new-rows", type=int, default=1000)
    parser.add_argument("--wrong", type=float, default=0.0)
    parser.add_argument("--harder", action="store_true")
    parser.add_argument("--anyway", action="store_true", help="also use answers where no shift is found")
    parser.add_argument("--like", choices=("groups", "training", "mixture", "labels"), default="groups")
    parser.add_argument(
        "--without", nargs="*", default=[], help="candidates that are not considered, such as 'LC by MST'"
    )
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--csv", type=Path, help="also write the means of each set there, as in new-rows/sets.csv")
    options = parser.parse_args()
    if options.what == "judge":
        judge(options.folder, options)
        return
    for seed in range(options.seed, options.seed + options.seeds):
        for name in options.sets:
            collect(build_set_config(name, seed, options.real), options.folder / f"{name}-{seed}.pkl")
    first, parts = map(int, options.part.split("/"))
    for number in range(first, options.drawn, parts):
        collect_drawn(number, options.seed, options.folder, options.sources)


if __name__ == "__main__":
    main()
