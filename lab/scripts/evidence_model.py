"""Fits the model of evidence, from statistics of candidates to P(helps), and evaluates it on families left out.

    python lab/scripts/evidence_model.py CASES    # writes signs.csv, rules.csv, verdicts.csv; prints the model
    python lab/scripts/evidence_model.py lab/results/evidence/signs.csv --fit "seed < 2" --judge "seed >= 2"   # prints

The model has few numbers, and a statistic may push in one direction only. A logistic score of the statistics, each
clipped between two values, is fitted so that a candidate counts by the points at stake. Images, texts and tables have
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

from logit_correction.finding import MIN_CONFLICTS_TO_CHECK
from logit_correction.shortcuts.evidence import MIN_FLAGGED_ROWS, EvidenceModel

Array: TypeAlias = NDArray[np.float64]

#: Points that LC by the true attribute wins where a shortcut is harmful.
HARMFUL = 3.0

#: Points that a correction wins where it helps.
HELPS = 0.5

#: Kinds of data, which have weights of their own.
KINDS = ("images", "texts", "tables")

#: How strongly common weights are drawn to 0.
SHRINKAGE = 0.04

#: How strongly the weights of a kind are drawn to the common ones.
TIE = 0.03

#: Least and greatest weight of the points at stake.
STAKE_RANGE = (0.5, 12.0)

#: Cases in which a person would answer that the shortcut is an accident.
PLANTED = ("shortcut", "two", "faint")

#: Columns that identify a case.
CASE = ["seed", "number"]


# -- what new_rows.py kept of each case


def read_statistics(folder: Path) -> pd.DataFrame:
    """Return a row for each drawn case in a folder and candidate that the search scored.

    ``gain`` is what LC by the candidate wins over ERM in the balanced test, in points, ``truth`` LC by the attribute.
    """
    rows = []
    for file in sorted(folder.glob("drawn *.pkl")):
        collected = pickle.loads(file.read_bytes())
        case = collected["case"]
        planted = case["planted"]
        label = collected["label"]
        accuracy = {
            name: 100 * float((output["test"].argmax(1) == label).mean()) for name, output in collected["found"].items()
        }
        sorts = sorted({FAMILIES[shortcut["family"]].sort for shortcut in planted})
        facts = {name: case[name] for name in ("seed", "number", "kind", "data", "what")}
        facts["family"] = collected["family"]
        facts["sorts"] = "+".join(sorts) or case["what"]
        for name in ("conflicting", "strength"):
            facts[name] = min((shortcut[name] for shortcut in planted), default=np.nan)
        erm = accuracy["ERM"]
        truth = accuracy[TRUE] - erm if planted and TRUE in accuracy else np.nan
        for name, statistics in collected["signs"].items():
            if name in accuracy:
                gain = round(accuracy[name] - erm, 2)
                rows.append({**facts, "candidate": name, "truth": truth, "gain": gain, "erm": erm, **statistics})
    return pd.DataFrame(rows)


# -- the model


@dataclass(frozen=True)
class FittedWeights:
    """Weights (K, S + 1) of each kind: of each statistic, 0 or more, and at the end a constant."""

    weights: Array

    def predict_probability(self, table: pd.DataFrame) -> Array:
        """Return P(helps) for each candidate."""
        weights = self.weights[table["kind"].map(KINDS.index)]
        return sigmoid((scale_statistics(table) * weights[:, :-1]).sum(axis=1) + weights[:, -1])


def sigmoid(value: Array) -> Array:
    """Return 1 / (1 + exp(-value)); written out, since scipy's rounds otherwise, which moves the fitted weights."""
    return np.asarray(1 / (1 + np.exp(-value)))


def scale_statistics(table: pd.DataFrame) -> Array:
    """Return the statistics (n, S), each from 0 to 1; 1 is most evidence for a shortcut."""
    parts = [(table[name] - none) / (full - none) for name, (none, full) in EvidenceModel.ends.items()]
    return np.stack([part.clip(0, 1).to_numpy() for part in parts], axis=1)


def fit(table: pd.DataFrame) -> FittedWeights:
    """Fit a model; each case counts equally, each of its candidates by the points at stake."""
    helps = (table["gain"] > HELPS).to_numpy()
    case_weight = 1 / table.groupby(CASE)["gain"].transform("size").to_numpy()
    stake = case_weight * table["gain"].abs().clip(*STAKE_RANGE).to_numpy()
    stake *= case_weight.sum() / stake.sum()
    kind = table["kind"].map(KINDS.index).to_numpy()
    values = np.column_stack([scale_statistics(table), np.ones(len(table))])
    shape = (len(KINDS) + 1, values.shape[1])  # the last row has the common weights

    def compute_log_loss(probability: Array, weight: Array) -> float:
        return float(-(weight * np.log(np.where(helps, probability, 1 - probability))).sum())

    def compute_loss(flat: Array) -> tuple[float, Array]:
        """Return the penalised loss and its gradient."""
        weights = flat.reshape(shape)
        probability = sigmoid((values * weights[kind]).sum(axis=1)).clip(1e-9, 1 - 1e-9)
        gradient = np.zeros(shape)
        np.add.at(gradient, kind, (stake * (probability - helps))[:, None] * values)
        tied = weights[:-1] - weights[-1]
        tied[:, -1] *= 0.1  # constants may differ more
        gradient[:-1] += TIE * tied
        gradient[-1] -= TIE * tied.sum(axis=0)
        common = np.append(weights[-1, :-1], 0.0)
        gradient[-1] += SHRINKAGE * common
        penalty = TIE * ((weights[:-1] - weights[-1]) * tied).sum() / 2 + SHRINKAGE * (common**2).sum() / 2
        return compute_log_loss(probability, stake) + penalty, gradient.ravel()

    bounds = [(0.0, None)] * (shape[1] - 1) + [(None, None)]
    fitted = minimize(compute_loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", bounds=bounds * shape[0]).x
    weights = fitted.reshape(shape)[:-1]
    score = (values * weights[kind]).sum(axis=1)

    def compute_calibration_loss(line: Array) -> float:
        return compute_log_loss(sigmoid(line[0] + line[1] * score).clip(1e-9, 1 - 1e-9), case_weight)

    # So that P is right in the mean.
    constant, slope = minimize(compute_calibration_loss, [0.0, 0.5], method="Nelder-Mead").x
    weights = slope * weights
    weights[:, -1] += constant
    return FittedWeights(weights)


def predict_left_out(table: pd.DataFrame, others: pd.DataFrame) -> Array:
    """Return P(helps) of each candidate by a model of the cases that share no sort with its own.

    Args:
        table: Candidates, as from ``read_statistics``.
        others: Candidates of the cases that models are fitted to.
    """
    groups = list_sorts(table)
    other_groups = list_sorts(others)
    probability = np.zeros(len(table))
    for group in set(groups):
        is_group = (groups == group).to_numpy()
        model = fit(others[[not (group & other) for other in other_groups]])
        probability[is_group] = model.predict_probability(table[is_group])
    return probability


def list_sorts(table: pd.DataFrame) -> pd.Series[Any]:
    """Return the sets of what cases resemble: the sorts of their shortcuts, and why they are clean."""
    is_clean = ~table["what"].isin(["shortcut", "two"])
    names = table["sorts"].where(~is_clean, table["sorts"] + "+" + table["what"])
    return names.map(lambda sorts: frozenset(sorts.split("+")))


# -- the decision


def compute_gains(cases: pd.DataFrame, table: pd.DataFrame, threshold: float) -> Array:
    """Return the gain in points of each case by its candidate of the greatest P(helps) above a threshold, 0 without.

    Args:
        cases: A row for each case.
        table: Candidates, with ``probability``.
        threshold: Least P(helps).
    """
    usable = table[(table["flagged"] >= MIN_FLAGGED_ROWS) & (table["probability"] > threshold)]
    best = usable.sort_values("probability").drop_duplicates(CASE, keep="last").set_index(CASE)["gain"]
    return best.reindex(pd.MultiIndex.from_frame(cases[CASE]), fill_value=0.0).to_numpy()


def evaluate_rule(cases: pd.DataFrame, gain: Array) -> dict[str, Any]:
    """Return how a rule does.

    Args:
        cases: A row for each case, with ``truth``.
        gain: What the rule won in each case, in points.
    """
    truth = cases["truth"].fillna(0).to_numpy()
    is_harmful = truth >= HARMFUL
    harmful = gain[is_harmful]
    others = gain[~is_harmful]
    return {
        "gain won, %": round(100 * harmful.sum() / truth[is_harmful].sum(), 1) if len(harmful) else np.nan,
        "corrected, %": round(100 * (harmful > HELPS).mean(), 1) if len(harmful) else np.nan,
        "others: points": round(others.mean(), 2),
        "others: lose over 1, %": round(100 * (others < -1).mean(), 1),
        "all: points": round(gain.mean(), 2),
        "worst": round(gain.min(), 1),
    }


def count_verdicts(cases: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return how many cases get each verdict, and in how many of them there is a harmful shortcut.

    Args:
        cases: A row for each case, with ``truth``.
        table: Candidates, with ``probability``.
    """
    usable = table[table["flagged"] >= MIN_FLAGGED_ROWS]
    greatest = usable.groupby(CASE)["probability"].max().reindex(pd.MultiIndex.from_frame(cases[CASE]), fill_value=0.0)
    verdict = [EvidenceModel.classify(probability) for probability in greatest]
    is_harmful = (cases["truth"] >= HARMFUL).to_numpy()
    counts = pd.DataFrame({"verdict": verdict, "harmful": is_harmful}).groupby("verdict")["harmful"]
    return counts.agg(cases="size", harmful="sum").reset_index()


def main() -> None:
    """Fit, evaluate and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, help="folder of the cases, or a table of signs")
    parser.add_argument("--out", type=Path, default=Path("lab/results/evidence"))
    parser.add_argument("--fit", help='cases to learn from, such as "seed == 0"; by default those that are judged')
    parser.add_argument("--judge", help="cases to judge; all by default, each by a model of those that share no sort")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.cases.is_file():
        table = pd.read_csv(options.cases)
    else:
        table = read_statistics(options.cases)
        table.to_csv(options.out / "signs.csv", index=False)
    fitted = table.query(options.fit) if options.fit else None
    table = table.query(options.judge) if options.judge else table
    fitted = table if fitted is None else fitted
    cases = table.drop_duplicates(CASE)
    table = table.assign(probability=predict_left_out(table, fitted))
    best = table.groupby(CASE)["gain"].max().clip(lower=0).reindex(pd.MultiIndex.from_frame(cases[CASE])).to_numpy()
    results = {"best candidate, by the hidden test": evaluate_rule(cases, best)}
    threshold = EvidenceModel.verdicts["shortcut"]
    for value in (threshold, threshold - 0.1, threshold + 0.1):
        results[f"the model, P above {value:.1f}"] = evaluate_rule(cases, compute_gains(cases, table, value))
    gain = compute_gains(cases, table[table["flagged"] >= MIN_CONFLICTS_TO_CHECK], threshold)
    results[f"the model, and {MIN_CONFLICTS_TO_CHECK} flagged rows or more"] = evaluate_rule(cases, gain)
    asked_above = EvidenceModel.verdicts["cannot tell"]
    gain = compute_gains(cases, table, asked_above) * cases["what"].isin(PLANTED).to_numpy()
    results[f"P above {asked_above}, and a person answers"] = evaluate_rule(cases, gain)
    for kind in KINDS:
        part = cases[cases["kind"] == kind]
        gain = compute_gains(part, table, threshold)
        results[f"{kind}, the model ({len(part)} cases)"] = evaluate_rule(part, gain)
    num_harmful = (cases["truth"] >= HARMFUL).sum()
    rules = pd.DataFrame(results).T.rename_axis("rule").reset_index()
    verdicts = count_verdicts(cases, table)
    print(f"{len(cases)} cases, {num_harmful} of them harmful.", rules.to_string(), verdicts.to_string(), sep="\n\n")
    if not options.fit:
        rules.to_csv(options.out / "rules.csv", index=False)
        verdicts.to_csv(options.out / "verdicts.csv", index=False)
    for kind, weights in zip(KINDS, fit(fitted).weights, strict=True):
        print(f"{kind}: {dict(zip([*EvidenceModel.ends, 'constant'], weights.round(2).tolist(), strict=True))}")


if __name__ == "__main__":
    main()
