"""From signs to the probability that correcting helps and the gain to expect, judged on families that were left out.

    python benchmarks/evidence_model.py CASES    # writes signs.csv and README figures

The model has few numbers, and every sign may push in one direction only. There are two worlds. If a candidate's
attribute is a shortcut, a balanced test shows what validation rows show in the candidate's own groups; if it is none,
the test is like the validation rows. A logistic model of the signs tells the worlds apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from evidence_signs import table_of
from numpy.typing import NDArray
from scipy.optimize import minimize

Array: TypeAlias = NDArray[np.float64]

#: True attributes win so many points at least where a shortcut is harmful.
HARMFUL = 3.0

#: Sign -> direction, and the two values between which it counts.
SIGNS: dict[str, tuple[int, float, float]] = {
    "excess": (1, 0.0, 0.7),
    "information": (1, 0.0, 0.9),
    "odd": (-1, 0.5, 0.9),
    "apart": (1, 0.5, 1.0),
    "early excess": (1, -0.1, 0.7),
    "agrees staged": (1, 0.0, 1.0),
    "speed": (1, 0.5, 1.0),
    "error": (-1, 0.0, 0.4),
    "share": (-1, 0.0, 0.3),
    "few": (-1, 0.0, 1.0),
}


@dataclass(frozen=True)
class Model:
    """P(helps) by a logistic function of signs; gains in points.

    Attributes:
        signs: Their names.
        weights: One for each, 0 or more, and at the end the intercept.
        scale: What the gain that validation rows show is multiplied by, where the attribute is a shortcut.
    """

    signs: tuple[str, ...]
    weights: Array
    scale: float

    def probability(self, table: pd.DataFrame) -> Array:
        """Return P(helps) for each candidate."""
        return sigmoid(features(table, self.signs) @ self.weights[:-1] + self.weights[-1])

    def expected(self, table: pd.DataFrame) -> Array:
        """Return the gain to expect, in points of the balanced test."""
        chance = self.probability(table)
        gain: Array = chance * self.scale * shown(table) + (1 - chance) * 100 * table["valid change"].to_numpy()
        return gain


def sigmoid(value: Array) -> Array:
    """Return 1 / (1 + exp(-value))."""
    return np.asarray(1 / (1 + np.exp(-value)))


def shown(table: pd.DataFrame) -> Array:
    """Return the gain in points that validation rows show in the candidate's own groups, all groups weighted alike."""
    own = 1 / table["labels"].to_numpy()
    return np.asarray(100 * ((1 - own) * table["won"] - own * table["lost"]))


def features(table: pd.DataFrame, signs: Sequence[str]) -> Array:
    """Return the signs (n, S), each from 0 to 1 in the direction that speaks for a shortcut."""
    table = table.assign(few=1 / np.sqrt(table["flagged"] + 1))
    columns = []
    for name in signs:
        direction, low, high = SIGNS[name]
        part = ((table[name] - low) / (high - low)).clip(0, 1).to_numpy()
        columns.append(part if direction > 0 else 1 - part)
    return np.stack(columns, axis=1)


def fit(table: pd.DataFrame, signs: Sequence[str], penalty: float = 1.0) -> Model:
    """Fit a model; each case counts as much as any other."""
    values, helps = features(table, signs), (table["gain"] > 0.5).to_numpy().astype(float)
    weight = 1 / table.groupby(["seed", "number"])["gain"].transform("size").to_numpy()

    def loss(weights: Array) -> tuple[float, Array]:
        chance = sigmoid(values @ weights[:-1] + weights[-1]).clip(1e-9, 1 - 1e-9)
        total = -(weight * (helps * np.log(chance) + (1 - helps) * np.log(1 - chance))).sum()
        slope = weight * (chance - helps)
        gradient = np.append(values.T @ slope + penalty * weights[:-1] / 5, slope.sum())
        return total + penalty * (weights[:-1] ** 2).sum() / 10, gradient

    bounds = [(0, None)] * len(signs) + [(None, None)]
    weights = minimize(loss, np.zeros(len(signs) + 1), jac=True, method="L-BFGS-B", bounds=bounds).x
    real = helps > 0
    x, y = shown(table)[real], table["gain"].to_numpy()[real]
    ratio = (weight[real] * x * y).sum() / max(1e-9, (weight[real] * x * x).sum())
    return Model(tuple(signs), weights, float(np.clip(ratio, 0, 2)))


# -- left out


def groups_of(table: pd.DataFrame) -> pd.Series[Any]:
    """Return what a case resembles: the sorts of its shortcuts, and why it is clean."""
    clean = ~table["what"].isin(["shortcut", "two"])
    named = table["sorts"].where(~clean, table["sorts"] + "+" + table["what"])
    return named.map(lambda names: frozenset(names.split("+")))


def left_out(table: pd.DataFrame, make: Callable[[pd.DataFrame], Model]) -> pd.DataFrame:
    """Return probability and expected gain of each candidate, by a model of the cases that resemble it in nothing."""
    groups = groups_of(table)
    found = pd.DataFrame(index=table.index, columns=["probability", "expected"], dtype=float)
    for group in set(groups):
        others = table[[not (group & one) for one in groups]]
        own = table[groups == group]
        model = make(others)
        found.loc[own.index, "probability"] = model.probability(own)
        found.loc[own.index, "expected"] = model.expected(own)
    return found


# -- the decision


def decide(table: pd.DataFrame, least: float = 0.0) -> pd.Series[Any]:
    """Return for each case the candidate to correct by: the greatest expected gain, none unless it is above ``least``.

    ``table`` has the column ``expected``; the result holds row labels of ``table``, or -1 for ERM.
    """
    usable = table[table["flagged"] >= 3]
    best = usable.groupby(["seed", "number"])["expected"].idxmax()
    chosen = best.where(table.loc[best, "expected"].to_numpy() > least, -1)
    every = pd.MultiIndex.from_frame(table[["seed", "number"]].drop_duplicates())
    return chosen.reindex(every, fill_value=-1)


def gains(table: pd.DataFrame, chosen: pd.Series[Any]) -> Array:
    """Return the gain in points of each case by what was chosen."""
    gain = table["gain"].to_dict() | {-1: 0.0}
    return np.array([gain[row] for row in chosen])


def figures(cases: pd.DataFrame, gain: Array) -> dict[str, Any]:
    """Return how a rule does: ``cases`` has one row each with ``truth``, ``gain`` is what the rule won."""
    truth = cases["truth"].fillna(0).to_numpy()
    harmful = truth >= HARMFUL
    return {
        "gain won, %": round(100 * gain[harmful].sum() / truth[harmful].sum(), 1),
        "corrected, %": round(100 * (gain[harmful] > 0.5).mean(), 1),
        "others: points": round(gain[~harmful].mean(), 2),
        "others: lose over 1, %": round(100 * (gain[~harmful] < -1).mean(), 1),
        "regret": round((np.maximum(truth, 0) - gain).mean(), 2),
        "worst": round(gain.min(), 1),
    }


def rules(table: pd.DataFrame) -> dict[str, Array]:
    """Return the gains of each case by rules that need no model."""
    by_case = table.groupby(["seed", "number"], sort=False)
    every = by_case["gain"].first().index

    def of(rows: pd.DataFrame) -> Array:
        return rows.set_index(["seed", "number"])["gain"].reindex(every).fillna(0.0).to_numpy()

    auto = table[table["auto"]].drop_duplicates(["seed", "number"])
    return {
        "ERM": np.zeros(len(every)),
        "Auto, today": of(auto),
        "always staged": of(table[table["candidate"] == "staged"]),
        "always the most telling view": of(table[table["candidate"] == "view0"]),
        "best candidate, by the hidden test": by_case["gain"].max().clip(lower=0).to_numpy(),
        "true attribute": by_case["truth"].first().fillna(0).to_numpy(),
        "better of ERM and true attribute": by_case["truth"].first().fillna(0).clip(lower=0).to_numpy(),
    }


def calibration(table: pd.DataFrame, bins: int = 5) -> float:
    """Return the expected calibration error of P(helps), in bins of equally many candidates."""
    helps = (table["gain"] > 0.5).astype(float)
    part = pd.qcut(table["probability"].rank(method="first"), bins, labels=False)
    apart = [abs(helps[part == n].mean() - table["probability"][part == n].mean()) for n in range(bins)]
    return float(np.mean(apart))


def main() -> None:
    """Fit, judge and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, help="folder of the cases, or the table of signs")
    parser.add_argument("--out", type=Path, default=Path("results/evidence"))
    options = parser.parse_args()
    table = pd.read_csv(options.cases) if options.cases.is_file() else table_of(options.cases)
    if not options.cases.is_file():
        options.out.mkdir(parents=True, exist_ok=True)
        table.to_csv(options.out / "signs.csv", index=False)
    cases = table.drop_duplicates(["seed", "number"])
    harmful = (cases["truth"] >= HARMFUL).sum()
    print(f"{len(cases)} cases, {harmful} harmful, {len(table)} candidates")
    table[["probability", "expected"]] = left_out(table, lambda others: fit(others, list(SIGNS)))
    judged = {name: figures(cases, gain) for name, gain in rules(table).items()}
    for least in (0.0, 1.0):
        judged[f"the model, least {least:g}"] = figures(cases, gains(table, decide(table, least)))
    print(pd.DataFrame(judged).T.to_string())
    print("calibration error", round(calibration(table), 3))
    model = fit(table, list(SIGNS))
    print(
        {name: round(weight, 2) for name, weight in zip([*SIGNS, "intercept"], model.weights, strict=True)}, model.scale
    )


if __name__ == "__main__":
    main()
