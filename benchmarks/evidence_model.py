"""From signs to the probability that correcting helps and the gain to expect, judged on families that were left out.

    python benchmarks/evidence_model.py CASES                 # writes results/evidence: signs.csv, model.yaml, table.md
    python benchmarks/evidence_model.py results/evidence/signs.csv --from-number 100     # judged on later cases alone

The model has few numbers, and a sign may push in one direction only. P(helps) is a logistic function of the signs,
each clipped between two values. Where correcting helps, the gain rises with the sign ``lift``; where it does not, each
way of correcting has its usual loss. A case is corrected by the candidate of the greatest expected gain, if that is
above 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import yaml
from evidence_signs import table_of
from numpy.typing import NDArray
from scipy.optimize import minimize

Array: TypeAlias = NDArray[np.float64]

#: A shortcut is harmful if LC by the true attribute wins so many points; correcting helps if it wins more than this.
HARMFUL, HELPS = 3.0, 0.5

#: Sign -> direction, and the two values between which it counts.
SIGNS: dict[str, tuple[int, float, float]] = {
    "excess": (1, -0.1, 0.5),
    "lift": (1, 0.0, 4.0),
    "plain information": (1, 0.0, 0.8),
    "rest": (-1, 0.5, 0.85),
    "shown": (1, -10.0, 40.0),
    "biased": (-1, 0.0, 1.0),
    "half": (1, 0.0, 1.0),
}

#: Fewer flagged rows are too few to correct by.
LEAST_ROWS = 3

#: Below and above it lies the gain in 5 % of the cases.
TAILS = (0.05, 0.95)


@dataclass(frozen=True)
class Model:
    """P(helps) and gains in points of a balanced test.

    Attributes:
        signs: Names of the signs.
        weights: One for each, 0 or more, and at the end the intercept.
        gain: Gain where correcting helps: a constant and what it rises by ``lift``.
        loss: Way of correcting (full, half, biased) -> gain where correcting does not help, below 0.
        spread: The two ends of the interval of 90 % around the expected gain, for P below and above a half.
    """

    signs: tuple[str, ...]
    weights: Array
    gain: tuple[float, float]
    loss: dict[str, float]
    spread: tuple[tuple[float, float], tuple[float, float]] = ((0.0, 0.0), (0.0, 0.0))

    def probability(self, table: pd.DataFrame) -> Array:
        """Return P(helps) for each candidate."""
        return sigmoid(features(table, self.signs) @ self.weights[:-1] + self.weights[-1])

    def expected(self, table: pd.DataFrame) -> Array:
        """Return the gain to expect of each candidate."""
        chance, lost = self.probability(table), way(table).map(self.loss).to_numpy()
        won = self.gain[0] + self.gain[1] * table["lift"].clip(0, 6).to_numpy()
        return np.asarray(chance * won + (1 - chance) * lost)

    def interval(self, table: pd.DataFrame) -> Array:
        """Return the interval of 90 % (n, 2) of the gain of each candidate."""
        ends = np.array(self.spread)[(self.probability(table) > 0.5).astype(int)]
        return self.expected(table)[:, None] + ends

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        signs = {
            name: {"direction": SIGNS[name][0], "from": SIGNS[name][1], "to": SIGNS[name][2], "weight": round(w, 3)}
            for name, w in zip(self.signs, self.weights.tolist(), strict=False)
        }
        gain = {"constant": round(self.gain[0], 2), "lift": round(self.gain[1], 2)}
        loss = {name: round(value, 2) for name, value in self.loss.items()}
        spread = [[round(value, 1) for value in ends] for ends in self.spread]
        return {
            "signs": signs,
            "intercept": round(float(self.weights[-1]), 3),
            "gain": gain,
            "loss": loss,
            "90 %": spread,
        }


def sigmoid(value: Array) -> Array:
    """Return 1 / (1 + exp(-value))."""
    return np.asarray(1 / (1 + np.exp(-value)))


def prepared(table: pd.DataFrame) -> pd.DataFrame:
    """Return the candidates that the model knows, with the signs that are made of others."""
    table = table[table["candidate"] != "errors"].reset_index(drop=True)
    own = 1 / table["labels"]
    shown = 100 * ((1 - own) * table["won"] - own * table["lost"])
    biased, half = (table["candidate"] == name for name in ("staged", "half"))
    return table.assign(shown=shown, biased=biased.astype(float), half=half.astype(float))


def way(table: pd.DataFrame) -> pd.Series[Any]:
    """Return how each candidate corrects."""
    return table["candidate"].map({"staged": "biased", "half": "half"}).fillna("full")


def features(table: pd.DataFrame, signs: Sequence[str]) -> Array:
    """Return the signs (n, S), each from 0 to 1 in the direction that speaks for a shortcut."""
    columns = []
    for name in signs:
        direction, low, high = SIGNS[name]
        part = ((table[name] - low) / (high - low)).clip(0, 1).to_numpy()
        columns.append(part if direction > 0 else 1 - part)
    return np.stack(columns, axis=1)


def fit(table: pd.DataFrame, signs: Sequence[str] = tuple(SIGNS), penalty: float = 0.2) -> Model:
    """Fit a model; each case counts as much as any other."""
    values, helps = features(table, signs), (table["gain"] > HELPS).to_numpy()
    weight = 1 / table.groupby(["seed", "number"])["gain"].transform("size").to_numpy()

    def loss(weights: Array) -> tuple[float, Array]:
        chance = sigmoid(values @ weights[:-1] + weights[-1]).clip(1e-9, 1 - 1e-9)
        total = -(weight * np.log(np.where(helps, chance, 1 - chance))).sum()
        slope = weight * (chance - helps)
        gradient = np.append(values.T @ slope + penalty * weights[:-1] / 5, slope.sum())
        return total + penalty * (weights[:-1] ** 2).sum() / 10, gradient

    bounds = [(0, None)] * len(signs) + [(None, None)]
    weights = minimize(loss, np.zeros(len(signs) + 1), jac=True, method="L-BFGS-B", bounds=bounds).x
    gain, ways = table["gain"].clip(-25, 25), way(table)
    lift = table["lift"].clip(0, 6)[helps]
    slope = max(0.0, float(np.cov(lift, gain[helps], aweights=weight[helps])[0, 1] / max(1e-9, np.cov(lift)[()])))
    constant = float(np.average(gain[helps] - slope * lift, weights=weight[helps]))
    lost = {name: float(gain[~helps & (ways == name)].mean()) for name in ("full", "half", "biased")}
    lost = {name: value if np.isfinite(value) else -5.0 for name, value in lost.items()}
    model = Model(tuple(signs), weights, (constant, slope), lost)
    rest, sure = table["gain"].to_numpy() - model.expected(table), model.probability(table) > 0.5
    low, high = (
        tuple(np.quantile(rest[part], TAILS).tolist()) if part.sum() > 9 else (-20.0, 20.0) for part in (~sure, sure)
    )
    return Model(tuple(signs), weights, (constant, slope), lost, (low, high))


# -- left out


def groups_of(table: pd.DataFrame) -> pd.Series[Any]:
    """Return what a case resembles: the sorts of its shortcuts, and why it is clean."""
    clean = ~table["what"].isin(["shortcut", "two"])
    named = table["sorts"].where(~clean, table["sorts"] + "+" + table["what"])
    return named.map(lambda names: frozenset(names.split("+")))


def left_out(
    table: pd.DataFrame, make: Callable[[pd.DataFrame], Model] = fit, others: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return what is said of each candidate by a model of those cases that resemble its own in nothing.

    The model learns from ``others``, by default from the same table.
    """
    others = table if others is None else others
    groups, theirs = groups_of(table), groups_of(others)
    found = pd.DataFrame(index=table.index, columns=["probability", "expected", "low", "high"], dtype=float)
    for group in set(groups):
        model = make(others[[not (group & one) for one in theirs]])
        own = table[groups == group]
        found.loc[own.index, "probability"] = model.probability(own)
        found.loc[own.index, "expected"] = model.expected(own)
        found.loc[own.index, ["low", "high"]] = model.interval(own)
    return found


# -- the decision


def decide(table: pd.DataFrame, least: float = 0.0, figure: str = "expected") -> pd.Series[Any]:
    """Return for each case the row label of the candidate to correct by, -1 for ERM.

    It is the one of the greatest ``figure``, which must be above ``least``.
    """
    usable = table[table["flagged"] >= LEAST_ROWS]
    best = usable.groupby(["seed", "number"], sort=False)[figure].idxmax()
    chosen = best.where(table.loc[best, figure].to_numpy() > least, -1)
    return chosen.reindex(pd.MultiIndex.from_frame(table[["seed", "number"]].drop_duplicates()), fill_value=-1)


def gains(table: pd.DataFrame, chosen: pd.Series[Any]) -> Array:
    """Return the gain in points of each case by what was chosen."""
    gain = table["gain"].to_dict() | {-1: 0.0}
    return np.array([gain[row] for row in chosen])


def rules(table: pd.DataFrame) -> dict[str, Array]:
    """Return the gains of each case by rules that need no model."""
    by_case = table.groupby(["seed", "number"], sort=False)
    every = by_case["gain"].first().index

    def of(rows: pd.DataFrame) -> Array:
        return (
            rows.drop_duplicates(["seed", "number"])
            .set_index(["seed", "number"])["gain"]
            .reindex(every, fill_value=0.0)
            .to_numpy()
        )

    truth = by_case["truth"].first().fillna(0)
    return {
        "ERM": np.zeros(len(every)),
        "`Auto`, today": of(table[table["auto"] & (table["candidate"] != "half")]),
        "always `staged`": of(table[table["candidate"] == "staged"]),
        "always the most telling view": of(table[table["candidate"] == "view0"]),
        "best candidate, by the hidden test": by_case["gain"].max().clip(lower=0).to_numpy(),
        "true attribute": truth.to_numpy(),
        "better of ERM and true attribute": truth.clip(lower=0).to_numpy(),
    }


def figures(cases: pd.DataFrame, gain: Array) -> dict[str, Any]:
    """Return how a rule does: ``cases`` has one row each with ``truth``, ``gain`` is what the rule won."""
    truth = cases["truth"].fillna(0).to_numpy()
    harmful = truth >= HARMFUL
    return {
        "gain won, %": round(100 * gain[harmful].sum() / truth[harmful].sum(), 1),
        "corrected, %": round(100 * (gain[harmful] > HELPS).mean(), 1),
        "others: points": round(gain[~harmful].mean(), 2),
        "others: lose over 1, %": round(100 * (gain[~harmful] < -1).mean(), 1),
        "regret": round((np.maximum(truth, 0) - gain).mean(), 2),
        "worst": round(gain.min(), 1),
    }


def calibration(table: pd.DataFrame, bins: int = 5) -> float:
    """Return the expected calibration error of P(helps), in bins of equally many candidates."""
    helps = (table["gain"] > HELPS).astype(float)
    part = pd.qcut(table["probability"].rank(method="first"), bins, labels=False)
    apart = [abs(helps[part == n].mean() - table["probability"][part == n].mean()) for n in range(bins)]
    return float(np.mean(apart))


def main() -> None:
    """Fit, judge and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, help="folder of the cases, or the table of signs")
    parser.add_argument("--out", type=Path, default=Path("results/evidence"))
    parser.add_argument("--from-number", type=int, help="judge cases from this number on by a model of those before")
    options = parser.parse_args()
    table = pd.read_csv(options.cases) if options.cases.is_file() else table_of(options.cases)
    if not options.cases.is_file():
        options.out.mkdir(parents=True, exist_ok=True)
        table.to_csv(options.out / "signs.csv", index=False)
    table, before = prepared(table), None
    if options.from_number is not None:
        later = table["number"] >= options.from_number
        table, before = table[later].reset_index(drop=True), table[~later].reset_index(drop=True)
    cases = table.drop_duplicates(["seed", "number"])
    table[["probability", "expected", "low", "high"]] = left_out(table, others=before)
    told = {name: figures(cases, gain) for name, gain in rules(table).items()}
    told["the model, families left out"] = figures(cases, gains(table, decide(table)))
    for least in (0.4, 0.5, 0.6):
        told[f"the model, P above {least}"] = figures(cases, gains(table, decide(table, least, "probability")))
    inside = ((table["gain"] > table["low"]) & (table["gain"] < table["high"])).mean()
    lines = [
        f"{len(cases)} cases, {(cases['truth'] >= HARMFUL).sum()} of them harmful, {len(table)} candidates.",
        "",
        pd.DataFrame(told).T.to_markdown(),
        "",
        f"Calibration error of P(helps): {calibration(table):.3f}. Gains inside their 90 % interval: {inside:.0%}.",
    ]
    print("\n".join(lines))
    if before is None:
        (options.out / "table.md").write_text("\n".join(lines) + "\n")
        (options.out / "model.yaml").write_text(yaml.safe_dump(fit(table).to_dict(), sort_keys=False))


if __name__ == "__main__":
    main()
