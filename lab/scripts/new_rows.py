"""Whether new rows choose the right candidate: trains all candidates once on each set, then asks about samples of rows.

    python lab/scripts/new_rows.py collect OUT --sets compas bar digits signature:control --seeds 3 --real FOLDER
    python lab/scripts/new_rows.py collect OUT --drawn 100 --seed 7 --sources SETS     # cases of evidence_cases.py
    python lab/scripts/new_rows.py judge OUT --answers 20 50

``collect`` keeps what each candidate says of validation and test rows, one file a set and seed; it goes on where it was
killed. FOLDER holds ``BAR`` and the packages of the source ``Wild``, unpacked; SETS is what ``evidence_sets.py`` wrote.
Of what it keeps of drawn cases ``evidence_model.py`` learns.

``judge`` divides the test rows into halves, draws up to 1,000 new rows of the first, as many of each group (label by
attribute), and judges what is chosen on the second, groups alike. ``--like training`` draws and judges by the shares of
the training rows, ``mixture`` by the mean of both, ``labels`` by those of training but for the labels, of which one has
80 %. Answers are the true labels, of which ``--wrong`` says how many are wrong; ``--new-rows`` how many rows there are;
``--harder`` takes those of which ERM is least sure. ``--without`` leaves candidates out.
"""

from __future__ import annotations

import argparse
import pickle
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import torch

from logit_correction.data.loading import BatchLoader
from logit_correction.data.source import DataSource
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, TrainingError
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

#: What a method that reads the true attribute is called; it is no candidate.
TRUE = "LC by the true attribute"


class InMemory(DataSource):
    """A table that is there already."""

    def __init__(self, table: DataTable) -> None:
        self.table = table

    def build(self) -> DataTable:
        return self.table


def config_of_set(name: str, seed: int, real: Path) -> RunConfig:
    """Return the config of a set by name: BAR, of ``bench.wild``, of ``bench.real``, or of ``bench.planted``."""
    name, _, control = name.partition(":")
    options: dict[str, Any] = {"epochs": 4} if name in ("celeba", "adult") else {}
    if name == "bar":
        data: dict[str, Any] = {"name": "ImageFolder", "root": str(real / "BAR"), "seed": seed}
    elif name in get_args(wild.Set):
        data = {"name": "Wild", "set": name, "root": str(real), "seed": seed}
    elif name in stand_ins.SETS:
        data = {"name": "StandIn", "set": name}
        if stand_ins.SETS[name]["files"][0].endswith(".tar"):  # photos, as the program encodes a user's own
            model = {"model": "tf_efficientnet_lite0", "weights": "pretrained", "size": 224}
            options["encoder"] = {"name": "Timm", **model}
    else:
        data = {"name": "Planted", "set": name, "control": bool(control), "seed": seed}
    return build_config(
        data, method={"name": "LC", "attributes": "Auto"}, seed=seed, device="cpu", threads=1, **options
    )


def collect(config: RunConfig, out: Path, **told: Any) -> None:
    """Train all candidates on a set, and keep what they say, the signs of those that a search weighs, and ``told``."""
    if out.exists():
        return
    started, built = time.monotonic(), prepare_run(config, Display())
    built.make_trainer(Display()).run(estimator_only=True)
    table, estimator = built.table, built.algorithm.attributes
    candidates = build_candidates(built)
    if table.has_attributes("train"):
        true = replace(built.config, method=ComponentConfig("LC", {"attributes": "TrueAttributes"}))
        candidates.append(Candidate(TRUE, "reads attributes", complete_config(true)))
    rows, found = table.split["test"], {}
    for candidate in candidates:
        try:
            model = train_candidate(candidate, table)
        except (InputError, TrainingError) as error:
            print(f"{out.stem}: {candidate.name} is left out: {error}")
            continue
        with torch.no_grad():
            said = torch.cat([model.network(batch.inputs) for batch in BatchLoader(table, "test").epoch()])
        found[candidate.name] = {
            "usual": model.in_distribution_logits.half().numpy(),
            "test": said.half().numpy(),
            "seconds": model.seconds,
        }
    default = [*estimator.finding.views]
    kept = {"found": found, "label": table.label[rows].numpy(), "attribute": table.attribute[rows].numpy()}
    kept |= {"default": default, "rows": len(table.split["train"]), "usual": list_in_distribution_splits(table)}
    weighed = {one.views: vars(one.scored.statistics) for one in estimator.search.candidates}
    kept["signs"] = {
        one.name: weighed[one.views] for one in candidates if one.views in weighed and one.config.method.name == "LC"
    }
    kept["trained on"] = {name: getattr(table, name)[table.split["train"]].numpy() for name in ("label", "attribute")}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(pickle.dumps(kept | told))
    print(f"{out.stem}: {len(found)} candidates, {time.monotonic() - started:.0f} s", flush=True)


def collect_drawn(number: int, seed: int, out: Path, sources: Path) -> None:
    """The same of a drawn case: usual rows are its validation rows, the test is the balanced one."""
    from evidence_cases import build_case, draw_case

    case = draw_case(number, seed)
    file = out / f"drawn {case.kind} {case.what} {case.family.replace('/', '-')} {number}-{seed}.pkl"
    if file.exists():
        return
    made = build_case(case, sources)
    table = replace(made.table, split={**made.table.split, "test": made.balanced})
    data = ComponentConfig("rows in memory", cls=lambda: InMemory(table))
    options = {"seed": seed, "device": "cpu", "threads": 1}
    config = build_config(data, method={"name": "LC", "attributes": "Auto"}, **options)
    collect(config, file, case=case.to_dict(), family=case.family)


# -- judgement


def groups_of_rows(kept: dict[str, Any], rows: dict[str, Any]) -> np.ndarray:
    """Return the group of each of the rows: label by attribute, or the label where attributes are unknown."""
    known = (kept["attribute"] >= 0).all() and len(np.unique(kept["attribute"])) > 1
    return np.asarray(rows["label"] * 1000 + (rows["attribute"] if known else 0))


def shares_of(kept: dict[str, Any], groups: np.ndarray, like: str, draw: np.random.Generator) -> np.ndarray:
    """Return the share that each of the ``groups`` has of the new rows."""
    alike = np.full(len(groups), 1 / len(groups))
    if like == "groups":
        return alike
    own = groups_of_rows(kept, kept["trained on"])
    training = np.array([(own == group).sum() for group in groups], dtype=float)
    training /= training.sum()
    if like == "mixture":
        return (alike + training) / 2
    if like == "labels":
        label = groups // 1000
        favoured = draw.choice(np.unique(label))
        for one in np.unique(label):
            wanted = 0.8 if one == favoured else 0.2 / (len(np.unique(label)) - 1)
            training[label == one] *= wanted / max(1e-9, training[label == one].sum())
    return training / training.sum()


def judged(kept: dict[str, Any], answers: int, seed: int, asked: argparse.Namespace) -> dict[str, float]:
    """Return the accuracy (%) of ERM, the best candidate, the truth, and what so many answers choose, and its worst."""
    draw, names = np.random.default_rng(seed), [name for name in kept["found"] if name not in (TRUE, *asked.without)]
    logits = torch.stack([torch.from_numpy(kept["found"][name]["test"]).float() for name in names])
    usual = torch.stack([torch.from_numpy(kept["found"][name]["usual"]).float() for name in names])
    said, label, group = logits.argmax(dim=2).numpy(), kept["label"], groups_of_rows(kept, kept)
    present, of_group, rows = np.unique(group, return_inverse=True, return_counts=True)
    share = shares_of(kept, present, asked.like, draw)
    weight = (share / rows)[of_group]
    half = np.zeros(len(label), dtype=bool)
    for one in np.unique(group):
        own = draw.permutation(np.flatnonzero(group == one))
        half[own[: len(own) // 2]] = True
    hard = np.ones(len(label), dtype=bool)
    if asked.harder:
        sure = logits[0].softmax(dim=1).amax(dim=1).numpy()
        hard = sure <= np.quantile(sure, 1 / 3)
    other = np.flatnonzero(~half & hard)
    accuracy = 100 * ((said[:, other] == label[other]) * weight[other]).sum(axis=1) / weight[other].sum()
    of_each = [np.flatnonzero(half & hard & (group == one)) for one in present]
    there = min(
        [asked.new_rows, *(len(own) / part for own, part in zip(of_each, share, strict=True) if len(own) and part)]
    )
    each = [max(1, round(there * part)) if part else 0 for part in share]
    pool = np.concatenate(
        [draw.permutation(own)[:some] for own, some in zip(of_each, each, strict=True)]
    )  # no row twice
    likely = selection.compute_shift_p_value(
        compute_total_variation_to_erm(logits[:, pool]).numpy(), compute_total_variation_to_erm(usual).numpy(), seed
    )
    found = likely <= selection.SHIFT_LEVEL
    places, chances = selection.sample_rows_to_label(said[:, pool], answers, seed)
    told = label[pool[places]]
    wrong = draw.random(len(told)) < asked.wrong
    told = np.where(wrong, (told + 1) % (label.max() + 1), told)
    chosen = 0
    if len(places) and (found or asked.anyway):
        gains = selection.estimate_gains(said[:, pool], places, told, 1 / chances[places])
        chosen = selection.select_candidate(gains, found)
    by_truth = np.nan
    if TRUE in kept["found"]:
        right = kept["found"][TRUE]["test"].argmax(axis=1)[other] == label[other]
        by_truth = 100 * (right * weight[other]).sum() / weight[other].sum()
    right = said[chosen] == label
    alone = [100 * right[own].mean() for one in present if len(own := other[group[other] == one])]
    return {
        "ERM": accuracy[0],
        "best": accuracy.max(),
        "true": by_truth,
        "chosen": accuracy[chosen],
        "its worst group": min(alone),
        "change": found,
    }


def judge(folder: Path, asked: argparse.Namespace) -> None:
    """Print a line for each set, and what it comes to."""
    files = sorted(folder.glob("*.pkl"))
    set_means = []
    for answers in asked.answers:
        lines = {}
        for file in files:
            kept = pickle.loads(file.read_bytes())
            found = [judged(kept, answers, seed, asked) for seed in range(asked.times)]
            lines.setdefault(file.stem.rpartition("-")[0], []).append(
                {key: np.mean([one[key] for one in found]) for key in found[0]}
            )
        won, lost, changed, quiet, of_truth = [], [], [], [], []
        for name, seeds in lines.items():
            mean = {key: float(np.mean([one[key] for one in seeds])) for key in seeds[0]}
            set_means.append({"set": name, "answers": answers, **mean})
            if not asked.quiet:
                print(
                    f"{answers} {name} ({len(seeds)}): "
                    + ", ".join(f"{key} {value:.1f}" for key, value in mean.items())
                )
            gain = mean["best"] - mean["ERM"]
            (won if gain >= 3 else lost).append((mean["chosen"] - mean["ERM"], gain))
            (changed if gain >= 5 else quiet).append(mean["change"])
            if mean["true"] - mean["ERM"] >= 3:
                of_truth.append((mean["chosen"] - mean["ERM"], mean["true"] - mean["ERM"]))
        share = 100 * sum(one for one, _ in won) / max(1e-9, sum(all_ for _, all_ in won))
        print(f"{answers} answers: {share:.1f} % of the best candidate's gain ({len(won)} sets)")
        if of_truth:
            share = 100 * sum(one for one, _ in of_truth) / sum(all_ for _, all_ in of_truth)
            print(f"{answers} answers: {share:.1f} % of the true attribute's gain ({len(of_truth)} sets)")
        if lost:
            mean, worst = np.mean([one for one, _ in lost]), min(lost)[0]
            print(f"elsewhere {mean:.2f} points, at worst {worst:.2f} ({len(lost)} sets)")
        told = f"where 5 points can be won, else {100 * np.mean(quiet or [0]):.0f} %"
        print(f"a change is told in {100 * np.mean(changed or [0]):.0f} % {told}")
    if asked.csv:
        pd.DataFrame(set_means).to_csv(asked.csv, index=False)


def main() -> None:
    """Collect or judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("collect", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drawn", type=int, default=0)
    parser.add_argument("--part", default="0/1", help="every so many-th drawn case")
    parser.add_argument("--real", type=Path, default=Path())
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--answers", type=int, nargs="*", default=[20, 50])
    parser.add_argument("--times", type=int, default=30, help="samples of each set and seed")
    parser.add_argument("--new-rows", type=int, default=1000)
    parser.add_argument("--wrong", type=float, default=0.0)
    parser.add_argument("--harder", action="store_true")
    parser.add_argument("--anyway", action="store_true", help="ask where no change is seen, too")
    parser.add_argument("--like", choices=("groups", "training", "mixture", "labels"), default="groups")
    parser.add_argument("--without", nargs="*", default=[], help="candidates that are not asked, such as 'LC by MST'")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--csv", type=Path, help="also write the means of each set there, as in new-rows/sets.csv")
    asked = parser.parse_args()
    if asked.what == "judge":
        judge(asked.folder, asked)
        return
    for seed in range(asked.seed, asked.seed + asked.seeds):
        for name in asked.sets:
            collect(config_of_set(name, seed, asked.real), asked.folder / f"{name}-{seed}.pkl")
    first, parts = map(int, asked.part.split("/"))
    for number in range(first, asked.drawn, parts):
        collect_drawn(number, asked.seed, asked.folder, asked.sources)


if __name__ == "__main__":
    main()
