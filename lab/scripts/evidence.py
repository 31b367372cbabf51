"""Collects what evidence of a shortcut is learned from: cases of all families, each corrected by every candidate.

    python lab/scripts/evidence_sets.py SETS                     # real texts and tables, once
    python lab/scripts/evidence.py --real SETS --out CASES       # goes on where it was killed
    python lab/scripts/evidence.py --real SETS --out CASES --part 1/2 --seed 0    # every second case
    python lab/scripts/evidence_model.py CASES                   # signs, the model, and its judgement

Of each case it trains ERM, and LC by several attributes: the true one, and those of the most promising views. All
held-out probabilities are kept, row by row, in one file for each case, so that a new sign can be computed without
training again. True attributes are kept to judge by, and are given to nothing but LC by the true attribute.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from evidence_cases import Case, build_case, draw_case
from evidence_shortcuts import FAMILIES
from torch import Tensor

from logit_correction.attributes.base import AttributeEstimator, Builder
from logit_correction.attributes.folds import draw_folds
from logit_correction.correlation import Correlation
from logit_correction.errors import InputError
from logit_correction.files import replacing
from logit_correction.finding import EVERYTHING
from logit_correction.methods.base import Algorithm
from logit_correction.methods.erm import ERM
from logit_correction.methods.lc import LC
from logit_correction.networks.small import MLP, ConvNet, Linear
from logit_correction.seeds import derive_seed, make_generator
from logit_correction.shortcuts.auto import FOLDS
from logit_correction.shortcuts.heads import estimate_by_heads
from logit_correction.shortcuts.search import Judged, Search
from logit_correction.types import Batch, DataInfo, NetworkFactory, TrainingRows
from logit_correction.views.base import available_views, find_views

#: Most candidates that are views; of images fewer, which take longest.
MOST_VIEWS, MOST_OF_IMAGES = 4, 3


class Settled(AttributeEstimator):
    """Attributes of all training rows that are known before."""

    def __init__(self, attribute: Tensor, correlation: Correlation) -> None:
        super().__init__()
        self.given, self.known = attribute, correlation

    def attach(self, build: Builder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        """Take over which values go with which labels."""
        super().attach(build, network, info, seed)
        self.correlation = self.known

    def estimate_rows(self, outputs: Tensor | None) -> Tensor:
        """Return the attributes."""
        return self.given

    def describe(self) -> str:
        """Say where they come from."""
        return "given"


@dataclass(frozen=True)
class Budget:
    """How a network is trained: like the product's defaults, but shorter."""

    steps: int
    batch: int
    decay: float


def budget_of(case: Case, rows: int) -> Budget:
    """Return the budget of a case's networks."""
    if case.kind == "images":
        return Budget(340 if rows < 2000 else 400, 48, 0.0)
    if case.kind == "texts":
        return Budget(700, 32 if rows < 4000 else 64, 0.0)
    return Budget(1000, 32 if rows < 4000 else 64, 1e-3)


def network_of(case: Case, info: DataInfo) -> torch.nn.Module:
    """Build a small network of the usual kind."""
    if case.kind == "images":
        return ConvNet(info, channels=(8, 16, 32), hidden=64).to(memory_format=torch.channels_last)
    return Linear(info) if case.kind == "texts" else MLP(info)


# -- training


def train(method: Algorithm, inputs: Tensor, label: Tensor, budget: Budget, seed: int) -> None:
    """Train a method through all its stages."""
    outputs = None
    for stage in range(method.num_stages):
        plan = method.begin_stage(stage, outputs)
        batch = 32 if stage + 1 < method.num_stages else budget.batch
        per_epoch = math.ceil(len(label) / batch)
        steps = (plan.epochs or 1) * per_epoch if stage + 1 < method.num_stages else budget.steps
        groups = [{**group, "lr": 2e-3} for group in method.parameter_groups()]
        optimizer = torch.optim.Adam(groups, weight_decay=budget.decay, fused=True)
        generator, order = make_generator(seed, "order", stage), torch.zeros(0, dtype=torch.long)
        method.train()
        for step in range(steps):
            if len(order) == 0:
                order = torch.randperm(len(label), generator=generator)
            rows, order = order[:batch], order[batch:]
            for group in optimizer.param_groups:
                constant = group.get("schedule") == "none"
                group["lr"] = 2e-3 if constant else 1e-3 * (1 + math.cos(math.pi * step / steps))
            method(Batch(inputs[rows], label[rows], rows), step / per_epoch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        method.eval()
        if stage + 1 < method.num_stages:
            with torch.no_grad():
                parts = torch.arange(len(label)).split(512)
                outputs = torch.cat([method.collect(Batch(inputs[rows], label[rows], rows)) for rows in parts])


@torch.no_grad()
def probabilities(method: Algorithm, inputs: Tensor) -> Tensor:
    """Return the class probabilities (n, L) by a method, which stays in training mode."""
    method.eval()
    found = torch.cat([method.predict(part).softmax(dim=1) for part in inputs.split(512)])
    method.train()
    return found


# -- one case


def collect(case: Case, real: Path) -> dict[str, Any]:
    """Train all that is to be compared on a case; return arrays by name, and plain values under ``meta``."""
    started = time.process_time()
    built = build_case(case, real)
    table, info = built.table, built.table.info
    split = {name: rows for name, rows in table.split.items()}
    seed, budget = derive_seed(case.seed, "evidence", case.number, "training"), budget_of(case, info.num_rows)
    inputs = {name: table.inputs.fetch(rows) for name, rows in split.items()}
    label = {name: table.label[rows] for name, rows in split.items()}
    rows = TrainingRows(label["train"], view_inputs=table.view_inputs("train"))

    def network() -> torch.nn.Module:
        return network_of(case, info)

    def fitted(method: Algorithm) -> Algorithm:
        method.setup(rows)
        train(method, inputs["train"], label["train"], budget, seed)
        return method

    found: dict[str, Any] = {"label": label["train"], "attribute": table.attribute[split["train"]]}
    found |= {"label_test": label["test"], "attribute_test": table.attribute[split["test"]]}
    for name in ("like", "balanced"):
        found[name] = getattr(built, name) - len(split["train"]) - len(split["valid"])

    # What an ordinary network says of rows that it did not see.
    fold = draw_folds(info.num_rows, FOLDS, make_generator(seed, "looked at"))
    shorter = Budget(round(budget.steps * (1 - 1 / FOLDS)), budget.batch, budget.decay)
    held_out = torch.zeros(info.num_rows, info.num_labels)
    for number in range(FOLDS):
        own, others = fold == number, fold != number
        method = ERM(network, info, seed=derive_seed(seed, "fold", number))
        train(method, inputs["train"][others], label["train"][others], shorter, seed)
        held_out[own] = probabilities(method, inputs["train"][own])
    found |= {"fold": fold, "network": held_out}

    # What each view says of them.
    judged = Judged("train", torch.arange(info.num_rows), held_out, fold)
    plain = Correlation.one_to_one(info.num_labels)
    search = Search(rows, judged.rows, judged, plain, derive_seed(seed, "estimate"))
    assert rows.view_inputs is not None
    views = [view for view in available_views(rows.view_inputs) if view.breadth < EVERYTHING]
    search.look(views)
    found["views"] = torch.stack([search.seen[look.views] for look in search.looks])
    meta: dict[str, Any] = {
        "case": case.to_dict(),
        "family": case.family,
        "sorts": sorts_of(case),
        "views": [{"name": " + ".join(look.views), "breadth": look.breadth} for look in search.looks],
        "budget": budget.steps,
    }

    # Corrected by each candidate, and not at all.
    def keep(name: str, method: Algorithm) -> None:
        found[f"{name}/test"] = probabilities(method, inputs["test"]).argmax(dim=1)

    keep("erm", fitted(ERM(network, info, seed=seed)))
    if case.planted:
        attribute = table.attribute[split["train"]]
        known = Correlation.counted(label["train"], attribute, info.num_labels, info.num_attributes)
        keep("truth", fitted(LC(network, info, attributes=Settled(attribute, known), seed=seed)))
    meta["candidates"] = {}
    most = MOST_OF_IMAGES if case.kind == "images" else MOST_VIEWS
    for number, names in enumerate(search.promising()[:most]):
        chosen_views = find_views(names, rows.view_inputs)
        own, probability, _ = estimate_by_heads(chosen_views, rows, plain, derive_seed(seed, "estimate"))
        name = f"view{number}"
        meta["candidates"][name] = names
        keep(name, fitted(LC(network, info, attributes=Settled(own, plain), seed=seed)))
        found |= {f"{name}/probability": probability, f"{name}/attribute": own}
    meta["seconds"] = round(time.process_time() - started, 1)
    return {**{name: as_small(value) for name, value in found.items()}, "meta": json.dumps(meta)}


def sorts_of(case: Case) -> list[str]:
    """Return the sorts of what is planted."""
    return sorted({FAMILIES[one.family].sort for one in case.planted})


def as_small(value: Tensor) -> np.ndarray[Any, Any]:
    """Return a tensor as an array of a small type."""
    return value.half().numpy() if value.is_floating_point() else value.to(torch.int16).numpy()


def main() -> None:
    """Collect one case after the other that is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=Path, required=True, help="folder of the real texts and tables")
    parser.add_argument("--out", type=Path, required=True, help="folder of the cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=10_000, help="how many, from the first on")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th case, from the I-th on")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    first, step = map(int, options.part.split("/"))
    for number in range(first, options.cases, step):
        file = options.out / f"{options.seed}-{number:05}.npz"
        if file.exists():
            continue
        case = draw_case(number, options.seed)
        try:
            found = collect(case, options.real)
        except (InputError, RuntimeError, ValueError, IndexError, np.linalg.LinAlgError):
            print(f"case {number} failed ({case.family}, {case.data})\n{traceback.format_exc()}", flush=True)
            continue
        with replacing(file) as target:
            np.savez_compressed(target, **found)
        told = json.loads(found["meta"])
        print(f"case {number}: {case.data}, {case.family}, {told['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
