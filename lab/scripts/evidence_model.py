"""From signs to the probability that correcting helps, judged on families that were left out.

    python lab/scripts/evidence_model.py CASES    # writes signs.csv, rules.csv, verdicts.csv; prints the model
    python lab/scripts/evidence_model.py lab/results/evidence/signs.csv --fit "seed < 2" --judge "seed >= 2"   # prints

The model has few numbers, and a sign may push in one direction only. A logistic score of the signs, each clipped
between two values, is fitted so that a candidate counts by the points that are at stake. Images, texts and tables have
weights of their own, drawn to common ones. P(helps) is a logistic function of the score. A case is corrected by the
candidate of the greatest P(helps) above a threshold.
"""

from __future__ import annotations

import argparse
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from evidence_shortcuts import FAMILIES
from new_rows import TRUE
from numpy.typing import NDArray
from scipy.optimize import minimize

from logit_correction.shortcuts.evidence import MIN_FLAGGED_ROWS, EvidenceModel

Array: TypeAlias = NDArray[np.float64]

#: A shortcut is harmful if LC by the true attribute wins so many points; correcting helps if it wins more than this.
HARMFUL, HELPS = 3.0, 0.5

#: What has weights of its own.
KINDS = ("images", "texts", "tables")

#: How strongly common weights are drawn to 0, and those of a kind to the common ones.
SHRUNK, TIED = 0.04, 0.03

#: Points at stake count as no less and no more than these.
LEAST_STAKE, MOST_STAKE = 0.5, 12.0

#: Cases of which a person who is asked answers that what was found is an accident.
PLANTED = ("shortcut", "two", "faint")

CASE = ["seed", "number"]


# -- signs of what new_rows.py kept of each case


def table_of(folder: Path) -> pd.DataFrame:
    """Return one row for each drawn case in a folder and candidate that a search weighed.

    ``gain`` is what LC by the candidate wins over ERM in the balanced test, in points, ``truth`` LC by the attribute.
    """
    rows = []
    for file in sorted(folder.glob("drawn *.pkl")):
        kept = pickle.loads(file.read_bytes())
        right = {
            name: 100 * float((one["test"].argmax(1) == kept["label"]).mean()) for name, one in kept["found"].items()
        }
        case, planted = kept["case"], kept["case"]["planted"]
        key = {name: case[name] for name in ("seed", "number", "kind", "data", "what")} | {"family": kept["family"]}
        key["sorts"] = "+".join(sorted({FAMILIES[one["family"]].sort for one in planted})) or case["what"]
        key |= {name: min((one[name] for one in planted), default=np.nan) for name in ("conflicting", "strength")}
        truth = right[TRUE] - right["ERM"] if planted and TRUE in right else np.nan
        for name, signs in kept["signs"].items():
            if name in right:
                gain = round(right[name] - right["ERM"], 2)
                rows.append({**key, "candidate": name, "truth": truth, "gain": gain, "erm": right["ERM"], **signs})
    return pd.DataFrame(rows)


# -- the model


@dataclass(frozen=True)
class Fitted:
    """Weights (K, S + 1) of each kind: of each sign, 0 or more, and at the end a constant."""

    weights: Array

    def probability(self, table: pd.DataFrame) -> Array:
        """Return P(helps) for each candidate."""
        own = self.weights[table["kind"].map(KINDS.index)]
        return sigmoid((features(table) * own[:, :-1]).sum(axis=1) + own[:, -1])


def sigmoid(value: Array) -> Array:
    """Return 1 / (1 + exp(-value))."""
    return np.asarray(1 / (1 + np.exp(-value)))


def features(table: pd.DataFrame) -> Array:
    """Return the signs (n, S), each from 0 to 1 in the direction that speaks for a shortcut."""
    parts = [(table[name] - none) / (full - none) for name, (none, full) in EvidenceModel.ends.items()]
    return np.stack([part.clip(0, 1).to_numpy() for part in parts], axis=1)


def fit(table: pd.DataFrame) -> Fitted:
    """Fit a model; each case counts as much as any other, each of its candidates by the points at stake."""
    helps, values = (table["gain"] > HELPS).to_numpy(), features(table)
    weight = 1 / table.groupby(CASE)["gain"].transform("size").to_numpy()
    stake = weight * table["gain"].abs().clip(LEAST_STAKE, MOST_STAKE).to_numpy()
    stake *= weight.sum() / stake.sum()
    kind = table["kind"].map(KINDS.index).to_numpy()
    shape = len(KINDS) + 1, values.shape[1] + 1
    values = np.column_stack([values, np.ones(len(values))])

    def loss(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(shape)
        chance = sigmoid((values * weights[kind]).sum(axis=1)).clip(1e-9, 1 - 1e-9)
        total = -(stake * np.log(np.where(helps, chance, 1 - chance))).sum()
        slope = np.zeros(shape)
        np.add.at(slope, kind, (stake * (chance - helps))[:, None] * values)
        apart = weights[:-1] - weights[-1]
        apart[:, -1] *= 0.1  # constants may differ more
        slope[:-1] += TIED * apart
        slope[-1] -= TIED * apart.sum(axis=0)
        common = np.append(weights[-1, :-1], 0.0)
        total += TIED * ((weights[:-1] - weights[-1]) * apart).sum() / 2 + SHRUNK * (common**2).sum() / 2
        slope[-1] += SHRUNK * common
        return total, slope.ravel()

    bounds = [(0.0, None)] * (shape[1] - 1) + [(None, None)]
    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", bounds=bounds * shape[0]).x
    weights = found.reshape(shape)[:-1]
    score = (values * weights[kind]).sum(axis=1)

    def wrong(flat: Array) -> float:
        chance = sigmoid(flat[0] + flat[1] * score).clip(1e-9, 1 - 1e-9)
        return float(-(weight * np.log(np.where(helps, chance, 1 - chance))).sum())

    constant, rise = minimize(wrong, [0.0, 0.5], method="Nelder-Mead").x  # so that P is right in the mean
    weights = rise * weights
    weights[:, -1] += constant
    return Fitted(weights)


def left_out(table: pd.DataFrame, others: pd.DataFrame) -> Array:
    """Return P(helps) of each candidate by a model of those cases among ``others`` that share no sort with its own."""
    groups, theirs = groups_of(table), groups_of(others)
    found = np.zeros(len(table))
    for group in set(groups):
        own = (groups == group).to_numpy()
        found[own] = fit(others[[not (group & one) for one in theirs]]).probability(table[own])
    return found


def groups_of(table: pd.DataFrame) -> pd.Series[Any]:
    """Return what a case resembles: the sorts of its shortcuts, and why it is clean."""
    clean = ~table["what"].isin(["shortcut", "two"])
    named = table["sorts"].where(~clean, table["sorts"] + "+" + table["what"])
    return named.map(lambda names: frozenset(names.split("+")))


# -- the decision


def gains(cases: pd.DataFrame, table: pd.DataFrame, least: float) -> Array:
    """Return the gain in points of each case by its candidate of the greatest P(helps) above ``least``, 0 without."""
    usable = table[(table["flagged"] >= MIN_FLAGGED_ROWS) & (table["probability"] > least)]
    best = usable.sort_values("probability").drop_duplicates(CASE, keep="last").set_index(CASE)["gain"]
    return best.reindex(pd.MultiIndex.from_frame(cases[CASE]), fill_value=0.0).to_numpy()


def figures(cases: pd.DataFrame, gain: Array) -> dict[str, Any]:
    """Return how a rule does: ``cases`` has one row each with ``truth``, ``gain`` is what the rule won."""
    truth = cases["truth"].fillna(0).to_numpy()
    harmful = truth >= HARMFUL
    return {
        "gain won, %": round(100 * gain[harmful].sum() / truth[harmful].sum(), 1) if harmful.any() else np.nan,
        "corrected, %": round(100 * (gain[harmful] > HELPS).mean(), 1) if harmful.any() else np.nan,
        "others: points": round(gain[~harmful].mean(), 2),
        "others: lose over 1, %": round(100 * (gain[~harmful] < -1).mean(), 1),
        "all: points": round(gain.mean(), 2),
        "worst": round(gain.min(), 1),
    }


def count_verdicts(cases: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return how many cases get each verdict, and in how many of them there is a harmful shortcut."""
    usable = table[table["flagged"] >= MIN_FLAGGED_ROWS]
    greatest = usable.groupby(CASE)["probability"].max().reindex(pd.MultiIndex.from_frame(cases[CASE]), fill_value=0.0)
    verdict = [EvidenceModel.classify(probability) for probability in greatest]
    harmful = (cases["truth"] >= HARMFUL).to_numpy()
    counts = pd.DataFrame({"verdict": verdict, "harmful": harmful}).groupby("verdict")["harmful"].agg(["size", "sum"])
    return counts.rename(columns={"size": "cases", "sum": "harmful"}).reset_index()


def main() -> None:
    """Fit, judge and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, help="folder of the cases, or a table of signs")
    parser.add_argument("--out", type=Path, default=Path("lab/results/evidence"))
    parser.add_argument("--fit", help='cases to learn from, such as "seed == 0"; by default those that are judged')
    parser.add_argument("--judge", help="cases to judge; all, each by a model of those that resemble it in nothing")
    options = parser.parse_args()
    table = pd.read_csv(options.cases) if options.cases.is_file() else table_of(options.cases)
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.cases.is_file():
        table.to_csv(options.out / "signs.csv", index=False)
    others = table.query(options.fit) if options.fit else None
    table = table.query(options.judge) if options.judge else table
    others = table if others is None else others
    cases = table.drop_duplicates(CASE)
    table = table.assign(probability=left_out(table, others))
    best = table.groupby(CASE)["gain"].max().clip(lower=0).reindex(pd.MultiIndex.from_frame(cases[CASE])).to_numpy()
    told = {"best candidate, by the hidden test": figures(cases, best)}
    sure, asked = EvidenceModel.verdicts["shortcut"], EvidenceModel.verdicts["cannot tell"]
    for least in (sure, sure - 0.1, sure + 0.1):
        told[f"the model, P above {least:.1f}"] = figures(cases, gains(cases, table, least))
    accident = cases["what"].isin(PLANTED).to_numpy()
    told[f"P above {asked}, and a person answers"] = figures(cases, gains(cases, table, asked) * accident)
    for kind in KINDS:
        some = cases[cases["kind"] == kind]
        told[f"{kind}, the model ({len(some)} cases)"] = figures(some, gains(some, table, sure))
    harmful = (cases["truth"] >= HARMFUL).sum()
    rules = pd.DataFrame(told).T.rename_axis("rule").reset_index()
    verdicts = count_verdicts(cases, table)
    print(f"{len(cases)} cases, {harmful} of them harmful.", rules.to_string(), verdicts.to_string(), sep="\n\n")
    if not options.fit:
        rules.to_csv(options.out / "rules.csv", index=False)
        verdicts.to_csv(options.out / "verdicts.csv", index=False)
    for kind, weights in zip(KINDS, fit(others).weights, strict=True):
        print(f"{kind}: {dict(zip([*EvidenceModel.ends, 'constant'], weights.round(2).tolist(), strict=True))}")


if __name__ == "__main__":
    main()
