"""From signs to the probability that correcting helps and the gain to expect, judged on families that were left out.

    python benchmarks/evidence_model.py CASES                 # writes results/evidence: signs.csv, model.yaml, *.md
    python benchmarks/evidence_model.py results/evidence/signs.csv --from-number 70      # judged on later cases alone
    python benchmarks/evidence_model.py results/evidence/*.csv --from-seed 1             # judged on a fresh seed

The model has few numbers, and a sign may push in one direction only. A logistic score of the signs, each clipped
between two values, is fitted so that a candidate counts by the points that are at stake. P(helps) is a logistic
function of the score. Where correcting helps, the gain rises with the sign ``lift``; where it does not, each way of
correcting has its usual loss. A case is corrected by the candidate of the greatest P(helps), if that is above a half:
fully if any full correction has so much, else at half the strength.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import yaml
from evidence_signs import area, table_of
from numpy.typing import NDArray
from scipy.optimize import minimize

Array: TypeAlias = NDArray[np.float64]

#: A shortcut is harmful if LC by the true attribute wins so many points; correcting helps if it wins more than this.
HARMFUL, HELPS = 3.0, 0.5

#: Sign -> direction, and the two values between which it counts.
SIGNS: dict[str, tuple[int, float, float]] = {
    "excess": (1, -0.1, 0.5),
    "plain information": (1, 0.0, 0.8),
    "rest": (-1, 0.5, 0.85),
    "shown": (1, -10.0, 40.0),
    "sure": (1, 0.05, 0.7),
    "explains": (1, 0.0, 0.8),
    "biased": (-1, 0.0, 1.0),
    "half": (1, 0.0, 1.0),
}

#: Points at stake count as no less and no more than these.
LEAST_STAKE, MOST_STAKE = 0.5, 12.0

#: What a model says of a candidate.
FIGURES = ["score", "probability", "expected", "low", "high"]

#: P(helps) from which on a case is corrected.
LEAST = 0.5

#: Fewer flagged rows are too few to correct by.
LEAST_ROWS = 3

#: Below and above it lies the gain in 5 % of the cases.
TAILS = (0.05, 0.95)


@dataclass(frozen=True)
class Model:
    """A score, P(helps) and gains in points of a balanced test.

    Attributes:
        signs: Names of the signs.
        weights: One for each, 0 or more, and at the end the intercept.
        chance: P(helps) is the logistic function of the first and of the second times the score.
        gain: Gain where correcting helps: a constant and what it rises by ``lift``.
        loss: Way of correcting (full, half, biased) -> gain where correcting does not help, below 0.
        spread: The two ends of the interval of 90 % around the expected gain, for scores below and above 0.
    """

    signs: tuple[str, ...]
    weights: Array
    chance: tuple[float, float] = (0.0, 1.0)
    gain: tuple[float, float] = (0.0, 0.0)
    loss: Mapping[str, float] = field(default_factory=dict)
    spread: tuple[tuple[float, float], tuple[float, float]] = ((0.0, 0.0), (0.0, 0.0))

    def score(self, table: pd.DataFrame) -> Array:
        """Return the score of each candidate; above 0 it is worth correcting by."""
        return np.asarray(features(table, self.signs) @ self.weights[:-1] + self.weights[-1])

    def probability(self, table: pd.DataFrame) -> Array:
        """Return P(helps) for each candidate."""
        return sigmoid(self.chance[0] + self.chance[1] * self.score(table))

    def expected(self, table: pd.DataFrame) -> Array:
        """Return the gain to expect of each candidate."""
        chance, lost = self.probability(table), way(table).map(dict(self.loss)).to_numpy()
        won = self.gain[0] + self.gain[1] * table["lift"].clip(0, 6).to_numpy()
        return np.asarray(chance * won + (1 - chance) * lost)

    def interval(self, table: pd.DataFrame) -> Array:
        """Return the interval of 90 % (n, 2) of the gain of each candidate."""
        return self.expected(table)[:, None] + np.array(self.spread)[(self.score(table) > 0).astype(int)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        signs = {
            name: {"direction": SIGNS[name][0], "from": SIGNS[name][1], "to": SIGNS[name][2], "weight": round(w, 3)}
            for name, w in zip(self.signs, self.weights.tolist(), strict=False)
        }
        return {
            "signs": signs,
            "intercept": round(float(self.weights[-1]), 3),
            "chance": [round(value, 3) for value in self.chance],
            "gain": {"constant": round(self.gain[0], 2), "lift": round(self.gain[1], 2)},
            "loss": {name: round(value, 2) for name, value in self.loss.items()},
            "interval": [[round(value, 1) for value in ends] for ends in self.spread],
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
    # How sure a head is where it errs; a network is never so sure, so of it this tells nothing.
    sure = table["sure errs"].where(~biased, 0.3)
    return table.assign(shown=shown, sure=sure, biased=biased.astype(float), half=half.astype(float))


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


def logistic(values: Array, helps: Array, weight: Array, penalty: float, least: float | None) -> Array:
    """Return the weights of a logistic regression and its intercept; ``least`` bounds the weights from below."""

    def loss(weights: Array) -> tuple[float, Array]:
        chance = sigmoid(values @ weights[:-1] + weights[-1]).clip(1e-9, 1 - 1e-9)
        total = -(weight * np.log(np.where(helps, chance, 1 - chance))).sum()
        slope = weight * (chance - helps)
        gradient = np.append(values.T @ slope + penalty * weights[:-1], slope.sum())
        return total + penalty * (weights[:-1] ** 2).sum() / 2, gradient

    bounds = [(least, None)] * values.shape[1] + [(None, None)]
    start = np.zeros(values.shape[1] + 1)
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)


def fit(table: pd.DataFrame, signs: Sequence[str] = tuple(SIGNS), penalty: float = 0.04) -> Model:
    """Fit a model; each case counts as much as any other, each of its candidates by the points at stake."""
    helps, gain = (table["gain"] > HELPS).to_numpy(), table["gain"].clip(-25, 25)
    weight = 1 / table.groupby(["seed", "number"])["gain"].transform("size").to_numpy()
    stake = weight * table["gain"].abs().clip(LEAST_STAKE, MOST_STAKE).to_numpy()
    first = Model(
        tuple(signs), logistic(features(table, signs), helps, stake * weight.sum() / stake.sum(), penalty, 0.0)
    )
    slope, constant = logistic(first.score(table)[:, None], helps, weight, 1e-3, 0.0)
    lift = table["lift"].clip(0, 6)[helps]
    rise = max(0.0, float(np.polyfit(lift, gain[helps], 1, w=np.sqrt(weight[helps]))[0]))
    won = float(np.average(gain[helps] - rise * lift, weights=weight[helps])), rise
    lost = {name: float(gain[~helps & (way(table) == name)].mean()) for name in ("full", "half", "biased")}
    lost = {name: value if np.isfinite(value) else -5.0 for name, value in lost.items()}
    model = replace(first, chance=(float(constant), float(slope)), gain=won, loss=lost)
    rest, above = table["gain"].to_numpy() - model.expected(table), model.score(table) > 0
    low, high = (
        np.quantile(rest[part], TAILS).tolist() if part.sum() > 9 else [-20.0, 20.0] for part in (~above, above)
    )
    return replace(model, spread=((low[0], low[1]), (high[0], high[1])))


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
    found = pd.DataFrame(index=table.index, columns=FIGURES, dtype=float)
    for group in set(groups):
        model = make(others[[not (group & one) for one in theirs]])
        own = table[groups == group]
        found.loc[own.index, "score"] = model.score(own)
        found.loc[own.index, "probability"] = model.probability(own)
        found.loc[own.index, "expected"] = model.expected(own)
        found.loc[own.index, ["low", "high"]] = model.interval(own)
    return found


# -- the decision


def decide(table: pd.DataFrame, least: float = LEAST, figure: str = "probability") -> pd.Series[Any]:
    """Return for each case the row label of the candidate to correct by, -1 for ERM.

    It is the one of the greatest ``figure``, which must be above ``least``; at half the strength only where nothing
    else is above it.
    """
    usable = table[(table["flagged"] >= LEAST_ROWS) & (table[figure] > least)]
    order = usable.assign(full=way(usable) != "half").sort_values(["full", figure])
    best = pd.Series(order.index, index=pd.MultiIndex.from_frame(order[["seed", "number"]]))
    best = best[~best.index.duplicated(keep="last")]
    return best.reindex(pd.MultiIndex.from_frame(table[["seed", "number"]].drop_duplicates()), fill_value=-1)


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
        "gain won, %": round(100 * gain[harmful].sum() / truth[harmful].sum(), 1) if harmful.any() else np.nan,
        "corrected, %": round(100 * (gain[harmful] > HELPS).mean(), 1) if harmful.any() else np.nan,
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


def strengths(table: pd.DataFrame) -> pd.DataFrame:
    """Return how well each sign alone tells candidates that help: areas under the curve, and a correlation."""
    helps, found = (table["gain"] > HELPS).to_numpy(), {}
    kinds = {"all": np.ones(len(table), bool), "views": way(table) == "full", "staged": way(table) == "biased"}
    kinds |= {kind: (table["kind"] == kind) & (way(table) == "full") for kind in ("images", "texts", "tables")}
    signs = [name for name in table.columns[table.columns.get_loc("rows") :] if name not in FIGURES]
    for name in signs:
        value = table[name].to_numpy().astype(float)
        found[name] = {kind: area(value[helps & rows], value[~helps & rows]) for kind, rows in kinds.items()}
        found[name]["rank correlation with gain"] = table[name].corr(table["gain"], method="spearman")
    order = sorted(found, key=lambda name: -abs(found[name]["views"] - 0.5))
    return pd.DataFrame({name: found[name] for name in order}).T.round(2)


def main() -> None:
    """Fit, judge and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, nargs="+", help="folder of the cases, or tables of signs")
    parser.add_argument("--out", type=Path, default=Path("results/evidence"))
    parser.add_argument("--from-number", type=int, help="judge cases from this number on by a model of those before")
    parser.add_argument("--from-seed", type=int, help="judge cases of seeds from this on by a model of those before")
    options = parser.parse_args()
    read = [pd.read_csv(path) if path.is_file() else table_of(path) for path in options.cases]
    table = pd.concat(read, ignore_index=True)
    if not options.cases[0].is_file():
        options.out.mkdir(parents=True, exist_ok=True)
        table.to_csv(options.out / "signs.csv", index=False)
    table, before = prepared(table), None
    key, first = ("seed", options.from_seed) if options.from_seed is not None else ("number", options.from_number)
    if first is not None:
        later = table[key] >= first
        table, before = table[later].reset_index(drop=True), table[~later].reset_index(drop=True)
    cases = table.drop_duplicates(["seed", "number"])
    table[FIGURES] = left_out(table, others=before)
    told = {name: figures(cases, gain) for name, gain in rules(table).items()}
    told["the model, families left out"] = figures(cases, gains(table, decide(table)))
    for least in (0.4, 0.6, 0.7):
        told[f"the same, P above {least}"] = figures(cases, gains(table, decide(table, least)))
    told["the same, expected gain above 0"] = figures(cases, gains(table, decide(table, 0.0, "expected")))
    cheap = left_out(table, lambda some: fit(some, [name for name in SIGNS if name != "shown"]), before)
    told["without `shown`, which takes a training by each candidate"] = figures(
        cases, gains(table, decide(table.assign(probability=cheap["probability"])))
    )
    kinds = {}
    parts = {kind: table["kind"] == kind for kind in ("images", "texts", "tables")}
    for kind, rows in {**parts, "two shortcuts": table["what"] == "two"}.items():
        own = table[rows]
        some = own.drop_duplicates(["seed", "number"])
        kinds[f"{kind}, the model ({len(some)} cases)"] = figures(some, gains(own, decide(own)))
        kinds[f"{kind}, `Auto`, today"] = figures(some, rules(own)["`Auto`, today"])
    inside = ((table["gain"] > table["low"]) & (table["gain"] < table["high"])).mean()
    lines = [
        f"{len(cases)} cases, {(cases['truth'] >= HARMFUL).sum()} of them harmful, {len(table)} candidates.",
        "",
        pd.DataFrame(told).T.to_markdown(),
        "",
        pd.DataFrame(kinds).T.to_markdown(),
        "",
        f"Calibration error of P(helps): {calibration(table):.3f}. Gains inside their 90 % interval: {inside:.0%}.",
    ]
    print("\n".join(lines))
    if before is None:
        (options.out / "table.md").write_text("\n".join(lines) + "\n")
        (options.out / "strengths.md").write_text(strengths(table).to_markdown() + "\n")
        (options.out / "model.yaml").write_text(yaml.safe_dump(fit(table).to_dict(), sort_keys=False))


if __name__ == "__main__":
    main()
