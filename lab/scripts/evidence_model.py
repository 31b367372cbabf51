"""From signs to the probability that correcting helps and the gain to expect, judged on families that were left out.

    python lab/scripts/evidence_model.py CASES    # writes lab/results/evidence: signs.csv, model.yaml, *.md
    python lab/scripts/evidence_model.py lab/results/evidence/signs.csv --fit "seed < 2" --judge "seed >= 2"   # prints

The model has few numbers, and a sign may push in one direction only. A logistic score of the signs, each clipped
between two values, is fitted so that a candidate counts by the points that are at stake. Images, texts, tables and
biased networks have weights of their own, drawn to common ones. P(helps) is a logistic function of the score. Where
correcting helps, the gain rises with the sign ``lift``; where it does not, it has its usual loss. A case is corrected
by the candidate of the greatest P(helps) above a threshold. Two guards cap P(helps): where wrong labels would look the
same, and where the network does not follow.
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
from evidence_signs import table_of
from numpy.typing import NDArray
from scipy.optimize import minimize

from logit_correction.shortcuts.evidence import area

Array: TypeAlias = NDArray[np.float64]

#: A shortcut is harmful if LC by the true attribute wins so many points; correcting helps if it wins more than this.
HARMFUL, HELPS = 3.0, 0.5

#: Sign -> direction, and the two values between which it counts.
SIGNS: dict[str, tuple[int, float, float]] = {
    "excess": (1, -0.1, 0.5),
    "lift": (1, -1.0, 5.0),
    "explains": (1, 0.0, 0.8),
    "accuracy": (-1, 0.6, 1.0),
    "plain_information": (1, 0.0, 0.8),
    "rest": (-1, 0.5, 0.85),
    "linked": (-1, 0.0, 0.5),
}

#: What has weights of its own: views of each kind of data, and the biased network's estimate of any.
PARTS = ("images", "texts", "tables", "biased")

#: How strongly common weights are drawn to 0, and those of a part to the common ones.
SHRUNK, TIED = 0.04, 0.03

#: Points at stake count as no less and no more than these.
LEAST_STAKE, MOST_STAKE = 0.5, 12.0

#: What a model says of a candidate.
FIGURES = ["score", "probability", "expected", "low", "high"]

#: P(helps) from which on a case is corrected.
LEAST = 0.6

#: Fewer flagged rows are too few to correct by.
LEAST_ROWS = 3

#: Sign -> the value below which P(helps) is no greater than the second: wrong labels look the same; nobody follows.
GUARDS = {"doubtful": (0.62, 0.5), "excess": (0.02, 0.1)}

#: P(helps) from which on a person is asked: the greatest tenth such that of the cases of signs.csv in which nothing is
#: found, families left out, at most one in ten holds a harmful shortcut.
ASKED = 0.3

#: Cases of which a person who is asked answers that what was found is an accident.
PLANTED = ("shortcut", "two", "faint")

#: Below and above it lies the gain in 5 % of the cases; narrower in the sample, so that it is 5 % outside.
TAILS = (0.03, 0.97)


@dataclass(frozen=True)
class Model:
    """A score, P(helps) and gains in points of a balanced test.

    Attributes:
        signs: Names of the signs.
        weights: One row for each part: of each sign, 0 or more, and at the end the intercept.
        chance: P(helps) is the logistic function of the first and of the second times the score.
        gain: Gain where correcting helps: a constant and what it rises by ``lift``.
        loss: Part -> gain where correcting does not help, below 0.
        doubtful_loss: The same where the labels of the flagged rows may be wrong.
        spread: The two ends of the interval of 90 % around the expected gain, for scores below and above 0, and where
            labels may be wrong.
    """

    signs: tuple[str, ...]
    weights: Array
    chance: tuple[float, float] = (0.0, 1.0)
    gain: tuple[float, float] = (0.0, 0.0)
    loss: Mapping[str, float] = field(default_factory=dict)
    doubtful_loss: float = 0.0
    spread: Sequence[Sequence[float]] = ()

    def score(self, table: pd.DataFrame) -> Array:
        """Return the score of each candidate; above 0 it is worth correcting by."""
        own = self.weights[[PARTS.index(part) for part in part_of(table)]]
        return np.asarray((features(table, self.signs) * own[:, :-1]).sum(axis=1) + own[:, -1])

    def probability(self, table: pd.DataFrame) -> Array:
        """Return P(helps) for each candidate."""
        chance = sigmoid(self.chance[0] + self.chance[1] * self.score(table))
        for name, (least, most) in GUARDS.items():
            chance = np.where(table[name] < least, np.minimum(chance, most), chance)
        return np.asarray(chance)

    def expected(self, table: pd.DataFrame) -> Array:
        """Return the gain to expect of each candidate."""
        chance, lost = self.probability(table), part_of(table).map(dict(self.loss)).to_numpy()
        lost = np.where(in_doubt(table), self.doubtful_loss, lost)
        won = self.gain[0] + self.gain[1] * table["lift"].clip(0, 6).to_numpy()
        return np.asarray(chance * won + (1 - chance) * lost)

    def interval(self, table: pd.DataFrame) -> Array:
        """Return the interval of 90 % (n, 2) of the gain of each candidate."""
        part = np.where(in_doubt(table), 2, self.score(table) > 0)
        return self.expected(table)[:, None] + np.array(self.spread)[part]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""

        def of_parts(values: Array) -> dict[str, float]:
            return {part: round(value, 2) for part, value in zip(PARTS, values.tolist(), strict=True)}

        signs = {
            name: {"direction": SIGNS[name][0], "from": SIGNS[name][1], "to": SIGNS[name][2], "weight": of_parts(own)}
            for name, own in zip(self.signs, self.weights.T, strict=False)
        }
        return {
            "signs": signs,
            "intercept": of_parts(self.weights[:, -1]),
            "chance": [round(value, 3) for value in self.chance],
            "gain": {"constant": round(self.gain[0], 2), "lift": round(self.gain[1], 2)},
            "loss": {name: round(value, 2) for name, value in self.loss.items()},
            "interval": [[round(value, 1) for value in ends] for ends in self.spread],
            "guards": {name: dict(zip(("least", "most"), one, strict=True)) for name, one in GUARDS.items()},
            "doubtful_loss": round(self.doubtful_loss, 2),
        }


def in_doubt(table: pd.DataFrame) -> Array:
    """Return whether the labels of the rows that a candidate flags may be wrong."""
    return (table["doubtful"] < GUARDS["doubtful"][0]).to_numpy()


def sigmoid(value: Array) -> Array:
    """Return 1 / (1 + exp(-value))."""
    return np.asarray(1 / (1 + np.exp(-value)))


def part_of(table: pd.DataFrame) -> pd.Series[Any]:
    """Return the part of each candidate."""
    return table["kind"].where(table["candidate"] != "staged", "biased")


def features(table: pd.DataFrame, signs: Sequence[str]) -> Array:
    """Return the signs (n, S), each from 0 to 1 in the direction that speaks for a shortcut."""
    columns = []
    for name in signs:
        direction, low, high = SIGNS[name]
        part = ((table[name] - low) / (high - low)).clip(0, 1).to_numpy()
        columns.append(part if direction > 0 else 1 - part)
    return np.stack(columns, axis=1)


def fit_parts(values: Array, part: Array, helps: Array, weight: Array) -> Array:
    """Return the weights (P, S + 1) of a logistic regression for each part, none below 0, drawn to common ones."""
    shape = len(PARTS) + 1, values.shape[1] + 1
    values = np.column_stack([values, np.ones(len(values))])

    def loss(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(shape)
        chance = sigmoid((values * weights[part]).sum(axis=1)).clip(1e-9, 1 - 1e-9)
        total = -(weight * np.log(np.where(helps, chance, 1 - chance))).sum()
        slope = np.zeros(shape)
        np.add.at(slope, part, (weight * (chance - helps))[:, None] * values)
        apart = weights[:-1] - weights[-1]
        apart[:, -1] *= 0.1  # intercepts may differ more
        slope[:-1] += TIED * apart
        slope[-1] -= TIED * apart.sum(axis=0)
        common = np.append(weights[-1, :-1], 0.0)
        total += TIED * ((weights[:-1] - weights[-1]) * apart).sum() / 2 + SHRUNK * (common**2).sum() / 2
        slope[-1] += SHRUNK * common
        return total, slope.ravel()

    bounds = [(0.0, None)] * (shape[1] - 1) + [(None, None)]
    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", bounds=bounds * shape[0]).x
    return np.asarray(found.reshape(shape)[:-1])


def fit_chance(score: Array, helps: Array, weight: Array) -> tuple[float, float]:
    """Return the constant and the slope of the logistic regression of whether correcting helps on a score."""

    def loss(flat: Array) -> float:
        chance = sigmoid(flat[0] + flat[1] * score).clip(1e-9, 1 - 1e-9)
        return float(-(weight * np.log(np.where(helps, chance, 1 - chance))).sum())

    constant, slope = minimize(loss, [0.0, 0.5], method="Nelder-Mead").x
    return float(constant), float(slope)


def fit(table: pd.DataFrame, signs: Sequence[str] = tuple(SIGNS)) -> Model:
    """Fit a model; each case counts as much as any other, each of its candidates by the points at stake."""
    helps, gain = (table["gain"] > HELPS).to_numpy(), table["gain"].clip(-25, 25)
    weight = 1 / table.groupby(["seed", "number"])["gain"].transform("size").to_numpy()
    stake = weight * table["gain"].abs().clip(LEAST_STAKE, MOST_STAKE).to_numpy()
    part = part_of(table).map(PARTS.index).to_numpy()
    weights = fit_parts(features(table, signs), part, helps, stake * weight.sum() / stake.sum())
    first = Model(tuple(signs), weights)
    chance = fit_chance(first.score(table), helps, weight)
    lift = table["lift"].clip(0, 6)[helps]
    rise = max(0.0, float(np.polyfit(lift, gain[helps], 1, w=np.sqrt(weight[helps]))[0]))
    won = float(np.average(gain[helps] - rise * lift, weights=weight[helps])), rise
    lost = {name: float(gain[~helps & (part == number)].mean()) for number, name in enumerate(PARTS)}
    model = replace(first, chance=chance, gain=won, loss=lost)
    doubt = in_doubt(table)
    wrong = gain[doubt & ~helps]
    model = replace(model, doubtful_loss=float(wrong.mean()) if len(wrong) else min(lost.values()))
    rest, score = table["gain"].to_numpy() - model.expected(table), model.score(table)
    parts = [rest[own] for own in (~doubt & (score <= 0), ~doubt & (score > 0), doubt)]
    return replace(model, spread=[np.quantile(own, TAILS).tolist() if len(own) > 9 else [-20.0, 20.0] for own in parts])


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
    """Return for each case the row label of the candidate of the greatest ``figure`` above ``least``, -1 for ERM."""
    usable = table[(table["flagged"] >= LEAST_ROWS) & (table[figure] > least)]
    order = usable.sort_values(figure)
    best = pd.Series(order.index, index=pd.MultiIndex.from_frame(order[["seed", "number"]]))
    best = best[~best.index.duplicated(keep="last")]
    return best.reindex(pd.MultiIndex.from_frame(table[["seed", "number"]].drop_duplicates()), fill_value=-1)


def gains(table: pd.DataFrame, chosen: pd.Series[Any]) -> Array:
    """Return the gain in points of each case by what was chosen."""
    gain = table["gain"].to_dict() | {-1: 0.0}
    return np.array([gain[row] for row in chosen])


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Return for each verdict in how many cases it is, and how many of these hold a harmful shortcut."""
    best = table[table["flagged"] >= LEAST_ROWS].groupby(["seed", "number"])["probability"].max()
    cases = table.drop_duplicates(["seed", "number"]).set_index(["seed", "number"])
    chance, harmful = best.reindex(cases.index, fill_value=0.0), cases["truth"].fillna(0) >= HARMFUL
    verdict = np.select([chance > LEAST, chance > ASKED], ["shortcut", "cannot tell"], "none found")
    found = harmful.groupby(verdict).agg(["size", "sum"])
    found.columns = ["cases", "harmful"]
    return found.assign(share=(found["harmful"] / found["cases"]).round(2))


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
        "`Auto`, before": of(table[table["auto"]]),
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
    kinds = {
        "all": np.ones(len(table), bool),
        "views": part_of(table) != "biased",
        "biased": part_of(table) == "biased",
    }
    kinds |= {kind: part_of(table) == kind for kind in ("images", "texts", "tables")}
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
    parser.add_argument("--out", type=Path, default=Path("lab/results/evidence"))
    parser.add_argument("--fit", help='cases to learn from, such as "seed == 0"; all')
    parser.add_argument("--judge", help="cases to judge; all, each by a model of those that resemble it in nothing")
    options = parser.parse_args()
    read = [pd.read_csv(path) if path.is_file() else table_of(path) for path in options.cases]
    table = pd.concat(read, ignore_index=True)
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.cases[0].is_file():
        table.to_csv(options.out / "signs.csv", index=False)
    before = table.query(options.fit) if options.fit else None
    table = table.query(options.judge).reset_index(drop=True) if options.judge else table
    cases = table.drop_duplicates(["seed", "number"])
    table[FIGURES] = left_out(table, others=before)
    told = {name: figures(cases, gain) for name, gain in rules(table).items()}
    for least in (LEAST, 0.4, 0.5, 0.7):
        told[f"the model, P above {least}"] = figures(cases, gains(table, decide(table, least)))
    told["the same, expected gain above 0"] = figures(cases, gains(table, decide(table, 0.0, "expected")))
    asked = decide(table, ASKED)
    accident = cases["what"].isin(PLANTED).to_numpy()
    told[f"P above {ASKED}, and a person answers"] = figures(cases, gains(table, asked.where(accident, -1)))
    kinds = {}
    parts = {kind: table["kind"] == kind for kind in ("images", "texts", "tables")}
    for kind, rows in {**parts, "two shortcuts": table["what"] == "two"}.items():
        if not rows.any():
            continue
        own = table[rows]
        some = own.drop_duplicates(["seed", "number"])
        kinds[f"{kind}, the model ({len(some)} cases)"] = figures(some, gains(own, decide(own)))
        kinds[f"{kind}, `Auto`, before"] = figures(some, rules(own)["`Auto`, before"])
    inside = ((table["gain"] > table["low"]) & (table["gain"] < table["high"])).mean()
    lines = [
        f"{len(cases)} cases, {(cases['truth'] >= HARMFUL).sum()} of them harmful, {len(table)} candidates.",
        "",
        pd.DataFrame(told).T.to_markdown(),
        "",
        pd.DataFrame(kinds).T.to_markdown(),
        "",
        verdicts(table).to_markdown(),
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
