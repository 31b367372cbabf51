"""Trains all candidates on sets with known groups and writes what they predict, for ``compare_selection.py``.

    python lab/scripts/new_rows.py collect OUT --sets compas bar digits signature:control --seeds 3 --real FOLDER
    python lab/scripts/new_rows.py collect OUT --drawn 100 --seed 7 --sources SETS     # cases of evidence_cases.py
    python lab/scripts/new_rows.py collect OUT --drawn 88 --seed 7 --kinds images --max-rows 1100

All candidates are trained once on each set, and their logits on validation and test rows are written to OUT, a file for
each set and seed; the command continues where it was killed. FOLDER holds ``BAR`` and the unpacked packages of the
source ``Wild``; SETS was written by ``evidence_sets.py``. ``evidence_model.py`` is fitted to the drawn cases.
On 21 sets all candidates trained for 11 to 143 s together; the search, five more trainings of ERM and the encoding of
photos are not in this.
"""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import torch

from logit_correction.data.loading import BatchLoader
from logit_correction.data.reader import NumericReader
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, TrainingError
from logit_correction.integrations.sklearn import TableSource
from logit_correction.registry import ComponentConfig
from logit_correction.runs.assemble import prepare_run
from logit_correction.runs.options import RunConfig, build_config, complete_config
from logit_correction.shortcuts.candidates import (
    Candidate,
    build_candidates,
    list_held_out_in_distribution_splits,
    train_candidate,
)
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
        "usual": list_held_out_in_distribution_splits(table),
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
    """Return the outputs of a network for all rows of a split.

    Args:
        network: Turns inputs (B, ...) into outputs (B, ...).
        table: The data.
        split: The split.

    Returns:
        (N, D), the outputs of each row flattened.
    """
    return torch.cat([network(batch.inputs).flatten(1) for batch in BatchLoader(table, split).epoch()])


def collect_features(network: torch.nn.Module, table: DataTable) -> dict[str, Any]:
    """Return the features of the test rows in front of a network's head, and their mean and deviation in training.

    Args:
        network: The network; without ``features`` the result is empty.
        table: The data.
    """
    if not hasattr(network, "features"):
        return {}
    test, train = (compute_test_outputs(network.features, table, split).float() for split in ("test", "train"))
    return {"test": test.half().numpy(), "mean": train.mean(dim=0).numpy(), "scale": train.std(dim=0).numpy()}


def collect_drawn(number: int, options: argparse.Namespace) -> None:
    """Collect a drawn case, whose balanced test takes the place of the test, if it is of the kinds and size asked for.

    Args:
        number: Number of the case.
        options: Options of the command line.
    """
    from evidence_cases import build_case, draw_case

    case = draw_case(number, options.seed)
    name = f"drawn {case.kind} {case.what} {case.family.replace('/', '-')} {number}-{options.seed}"
    file = options.folder / f"{name}.pkl"
    if file.exists() or case.kind not in options.kinds or case.rows > options.max_rows:
        return
    built = build_case(case, options.sources)
    table = replace(built.table, split={**built.table.split, "test": built.balanced})
    data = TableSource(NumericReader(), table).as_component()
    training = {"seed": options.seed, "device": "cpu", "threads": 1}
    config = build_config(data, method={"name": "LC", "attributes": "Auto"}, **training)
    collect(config, file, case=asdict(case), family=case.family)


def collect_sets() -> None:
    """Collect the sets and drawn cases of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("collect",))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drawn", type=int, default=0)
    parser.add_argument("--part", default="0/1", help="PLACE/COUNT: every COUNT-th drawn case from PLACE on")
    parser.add_argument("--kinds", nargs="*", default=["images", "texts", "tables"], help="kinds of drawn cases")
    parser.add_argument("--max-rows", type=int, default=10_000, help="most training rows of a drawn case")
    parser.add_argument("--real", type=Path, default=Path())
    parser.add_argument("--sources", type=Path)
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.seeds):
        for name in options.sets:
            collect(build_set_config(name, seed, options.real), options.folder / f"{name}-{seed}.pkl")
    first, parts = map(int, options.part.split("/"))
    for number in range(first, options.drawn, parts):
        collect_drawn(number, options)


if __name__ == "__main__":
    collect_sets()
