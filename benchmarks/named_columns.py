"""Tables with two shortcuts whose two columns a person names: one estimate for both, or one for each of them.

    python benchmarks/evidence_sets.py SETS
    python benchmarks/named_columns.py --real SETS --out results/evidence/named.csv

Each drawn table with two shortcuts of ``results/evidence/signs.csv`` is trained by ERM, and by LC with the true
attribute, with each column alone, with one estimate by both columns, and with both named as ``--shortcut`` takes them.
The columns are those that tell most of either shortcut within the labels, which the true attributes say. Figures are
points over ERM on the hidden balanced test.
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
from logit_correction.views.base import available_views, find_views

SIGNS = Path(__file__).parents[1] / "results" / "evidence" / "signs.csv"


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

    def network() -> torch.nn.Module:
        return network_of(case, info)

    def accuracy(method: Algorithm) -> float:
        method.setup(rows)
        train(method, inputs["train"], label, budget, seed)
        right = probabilities(method, inputs["test"]).argmax(dim=1) == table.label[table.split["test"]]
        return 100 * float(right[balanced].float().mean())

    def estimate(*columns: str) -> Tensor:
        views, own = find_views(columns, rows.view_inputs), derive_seed(seed, "estimate")
        return estimate_by_heads(views, rows, plain, own, exact=True)[0]

    assert rows.view_inputs is not None
    columns = [view.name for view in available_views(rows.view_inputs, ["column"])]
    alone = {name: estimate(name) for name in columns}
    second = case.planted[1].values
    first_column = telling(alone, attribute // second, label)
    second_column = telling({c: one for c, one in alone.items() if c != first_column}, attribute % second, label)
    erm = accuracy(ERM(network, info, seed=seed))

    def won(attributes: Any) -> float:
        return round(accuracy(LC(network, info, attributes=attributes, seed=seed)) - erm, 1)

    known = Correlation.counted(label, attribute, info.num_labels, info.num_attributes)
    return {
        "seed": case.seed,
        "number": number,
        "data": case.data,
        "family": case.family,
        "labels": info.num_labels,
        "rows": info.num_rows,
        "columns": f"{first_column} + {second_column}",
        "told": round(min(within(alone[first_column], attribute // second, label),
                          within(alone[second_column], attribute % second, label)), 3),
        "erm": round(erm, 1),
        "truth": won(Settled(attribute, known)),
        "first": won(Settled(alone[first_column], plain)),
        "second": won(Settled(alone[second_column], plain)),
        "together": won(Settled(estimate(first_column, second_column), plain)),
        "each": won(Auto(shortcut=[first_column, second_column])),
    }  # fmt: skip


def telling(estimates: dict[str, Tensor], attribute: Tensor, label: Tensor) -> str:
    """Return the column whose estimate tells most of an attribute."""
    return max(estimates, key=lambda column: within(estimates[column], attribute, label))


def within(estimate: Tensor, attribute: Tensor, label: Tensor) -> float:
    """Return the information, in nats, of an estimate about an attribute among rows of one label, on average."""
    labels = label.unique().tolist()
    found = [mutual_info_score(estimate[label == y], attribute[label == y]) for y in labels]
    return sum(one * float((label == y).float().mean()) for one, y in zip(found, labels, strict=True))


def main() -> None:
    """Train all, and print what is won of the true attribute's gain."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=Path, required=True, help="folder of evidence_sets.py")
    parser.add_argument("--out", type=Path, required=True, help="CSV with a line for each case")
    options = parser.parse_args()
    torch.set_num_threads(1)
    signs = pd.read_csv(SIGNS)
    cases = signs[(signs["what"] == "two") & (signs["kind"] == "tables")].drop_duplicates(["seed", "number"])
    found = pd.DataFrame([one_case(n, s, options.real) for n, s in zip(cases["number"], cases["seed"], strict=True)])
    found.to_csv(options.out, index=False, lineterminator="\n")
    harmful = found[found["truth"] >= 3]
    for name, some in (
        ("harmful", harmful),
        ("of these, each column tells 0.03 nats", harmful[harmful["told"] >= 0.03]),
    ):
        shares = {
            rule: f"{some[rule].sum() / some['truth'].sum():.0%}" for rule in ("first", "second", "together", "each")
        }
        print(name, len(some), shares)
    others = found[found["truth"] < 3]
    print("others", len(others), others[["first", "second", "together", "each"]].mean().round(1).to_dict())


if __name__ == "__main__":
    main()
