"""Two shortcuts of which a person names both: one estimate for the two, or one for each of them.

    python lab/scripts/evidence_sets.py SETS
    python lab/scripts/named_shortcuts.py --real SETS --out lab/results/evidence/named.csv # goes on where it was killed

Each case of ``lab/results/evidence/signs.csv`` with two shortcuts is trained by ERM, and by LC with the true attribute,
with either view alone, with one estimate by both views, and with both named as ``--shortcut`` takes them. The views are
those that tell most of either shortcut within the labels, which the true attributes say. Figures are points over ERM
on the hidden balanced test.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from evidence import Settled, budget_of, network_of, probabilities, train
from evidence_cases import build_case, draw_case
from sklearn.metrics import mutual_info_score
from torch import Tensor

from logit_correction.attributes.auto import Auto
from logit_correction.attributes.heads import estimate_by_heads
from logit_correction.correlation import Correlation
from logit_correction.methods.base import Algorithm
from logit_correction.methods.erm import ERM
from logit_correction.methods.lc import LC
from logit_correction.seeds import derive_seed
from logit_correction.types import TrainingRows
from logit_correction.views.base import EVERYTHING, available_views, find_views

SIGNS = Path(__file__).parents[1] / "results" / "evidence" / "signs.csv"
RULES = ["first", "second", "together", "each"]


def one_case(number: int, seed: int, real: Path) -> dict[str, Any]:
    """Return what each training wins over ERM on a case, in points."""
    case = draw_case(number, seed)
    built = build_case(case, real)
    table, info = built.table, built.table.info
    seed, budget = derive_seed(case.seed, "evidence", case.number, "training"), budget_of(case, info.num_rows)
    inputs = {name: table.inputs.fetch(rows) for name, rows in table.split.items()}
    label, attribute = table.label[table.split["train"]], table.attribute[table.split["train"]]
    rows = TrainingRows(label, view_inputs=table.view_inputs("train"))
    balanced = built.balanced - len(table.split["train"]) - len(table.split["valid"])
    plain = Correlation.one_to_one(info.num_labels)
    assert rows.view_inputs is not None
    views = [view.name for view in available_views(rows.view_inputs) if view.breadth < EVERYTHING]
    if case.kind == "tables":
        views = [name for name in views if name.startswith("column:")]

    def network() -> torch.nn.Module:
        return network_of(case, info)

    def accuracy(method: Algorithm) -> float:
        method.setup(rows)
        train(method, inputs["train"], label, budget, seed)
        right = probabilities(method, inputs["test"]).argmax(dim=1) == table.label[table.split["test"]]
        return 100 * float(right[balanced].float().mean())

    def estimate(*names: str) -> Tensor:
        chosen, own = find_views(names, rows.view_inputs), derive_seed(seed, "estimate")
        return estimate_by_heads(chosen, rows, plain, own, exact=case.kind == "tables")[0]

    values = case.planted[1].values
    alone = {name: estimate(name) for name in views}
    told = {name: told_within(one, attribute // values, label) for name, one in alone.items()}
    first = max(told, key=lambda name: told[name])
    other = {name: told_within(one, attribute % values, label) for name, one in alone.items() if name != first}
    second = max(other, key=lambda name: other[name])
    erm = accuracy(ERM(network, info, seed=seed))

    def won(attributes: Any) -> float:
        return round(accuracy(LC(network, info, attributes=attributes, seed=seed)) - erm, 1)

    known = Correlation.counted(label, attribute, info.num_labels, info.num_attributes)
    return {
        "seed": case.seed,
        "number": number,
        "kind": case.kind,
        "data": case.data,
        "family": case.family,
        "labels": info.num_labels,
        "rows": info.num_rows,
        "views": f"{first} + {second}",
        "told": round(min(told[first], other[second]), 3),
        "erm": round(erm, 1),
        "truth": won(Settled(attribute, known)),
        "first": won(Settled(alone[first], plain)),
        "second": won(Settled(alone[second], plain)),
        "together": won(Settled(estimate(first, second), plain)),
        "each": won(Auto(shortcut=[first, second])),
    }


def told_within(estimate: Tensor, attribute: Tensor, label: Tensor) -> float:
    """Return the information, in nats, of an estimate about an attribute among rows of one label, on average."""
    own = [label == y for y in label.unique().tolist()]
    return sum(mutual_info_score(estimate[rows], attribute[rows]) * float(rows.float().mean()) for rows in own)


def main() -> None:
    """Train all, and print what is won of the true attribute's gain."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=Path, required=True, help="folder of evidence_sets.py")
    parser.add_argument("--out", type=Path, required=True, help="CSV with a line for each case")
    options = parser.parse_args()
    torch.set_num_threads(1)
    signs = pd.read_csv(SIGNS)
    cases = signs[signs["what"] == "two"].drop_duplicates(["seed", "number"]).sort_values("kind", ascending=False)
    found = pd.read_csv(options.out).to_dict("records") if options.out.is_file() else []
    done = {(one["seed"], one["number"]) for one in found}
    for number, seed in zip(cases["number"], cases["seed"], strict=True):
        if (seed, number) not in done:
            found.append(one_case(number, seed, options.real))
            pd.DataFrame(found).to_csv(options.out, index=False, lineterminator="\n")
    table = pd.DataFrame(found)
    for kind, some in table.groupby("kind"):
        harmful = some[some["truth"] >= 3]
        seen = harmful[harmful["told"] >= 0.03]
        for name, own in (("harmful", harmful), ("of these, either view tells 0.03 nats", seen)):
            print(kind, name, len(own), {rule: f"{own[rule].sum() / own['truth'].sum():.0%}" for rule in RULES})
        others = some[some["truth"] < 3]
        print(kind, "others", len(others), others[RULES].mean().round(1).to_dict())


if __name__ == "__main__":
    main()
