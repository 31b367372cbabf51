"""How likely does a correction help, given the statistics of a candidate? Fits the model of evidence and evaluates it.

    python lab/scripts/evidence_model.py CASES    # writes signs.csv, rules.csv, verdicts.csv; prints the model
    python lab/scripts/evidence_model.py lab/results/evidence/signs.csv --fit "seed < 2" --judge "seed >= 2"   # prints

CASES is a folder of cases that ``new_rows.py collect --drawn`` wrote. Each is evaluated by a model of the cases that
share no sort of shortcut with it.

The model is small. A score is the sum of the statistics, each clipped between two values and scaled to 0..1, times
weights of 0 or more, so that a statistic can only speak for a shortcut. Images, texts and tables have weights of their
own, which are shrunk towards common ones. P(helps), a logistic function of the score, is fitted by the log loss, in
which a candidate has the weight of its gain or loss in points. A case is corrected by the candidate of the greatest
P(helps) if that is above a threshold. Takes about ten seconds.
"""

from __future__ import annotations

import argparse
import pickle
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

#: Least gain in points of LC by the true attribute over ERM with which a shortcut is harmful.
HARMFUL = 3.0

#: A correction helps if it wins more points than this.
HELPS = 0.5

#: Kinds of data, which have weights of their own.
KINDS = ("images", "texts", "tables")

#: Factor of the penalty of the squared common weights.
SHRINKAGE = 0.04

#: Factor of the penalty of the squared differences between the weights of a kind and the common ones.
TIE = 0.03

#: The gain or loss of a candidate in points, which is its weight, is clipped to this range.
STAKE_RANGE = (0.5, 12.0)

#: Cases in which a person would answer that the shortcut is an accident.
PLANTED = ("shortcut", "two", "faint")

#: Columns that identify a case.
CASE = ["seed", "number"]


# -- the statistics of candidates


def read_statistics(folder: Path) -> pd.DataFrame:
    """Return a row for each candidate that the search scored in each drawn case of a folder.

    ``gain`` is the gain of LC by the candidate over ERM on the balanced test in points, ``truth`` that of LC by the
    true attribute.
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


def predict_probability(table: pd.DataFrame, weights: Array) -> Array:
    """Return P(helps) of each candidate.

    Args:
        table: Candidates, as from ``read_statistics``.
        weights: (3, S + 1) as from ``fit_weights``.
    """
    kind_weights = weights[table["kind"].map(KINDS.index)]
    return sigmoid((scale_statistics(table) * kind_weights[:, :-1]).sum(axis=1) + kind_weights[:, -1])


def sigmoid(value: Array) -> Array:
    """Return 1 / (1 + exp(-value)); not by scipy, whose rounding differs, which moves the fitted weights."""
    return np.asarray(1 / (1 + np.exp(-value)))


def scale_statistics(table: pd.DataFrame) -> Array:
    """Return the statistics (N, S) of candidates, each from 0 to 1, the most evidence for a shortcut."""
    parts = [(table[name] - none) / (full - none) for name, (none, full) in EvidenceModel.ends.items()]
    return np.stack([part.clip(0, 1).to_numpy() for part in parts], axis=1)


def fit_weights(table: pd.DataFrame) -> Array:
    """Fit the model to candidates.

    Returns:
        (3, S + 1): for each of ``KINDS`` the weights of the S statistics, 0 or more, and a constant.
    """
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

    # A line through the score, fitted with equal weights of the candidates of a case, calibrates P.
    constant, slope = minimize(compute_calibration_loss, [0.0, 0.5], method="Nelder-Mead").x
    weights = slope * weights
    weights[:, -1] += constant
    return weights


def predict_left_out(table: pd.DataFrame, others: pd.DataFrame) -> Array:
    """Return P(helps) of each candidate by a model of the cases that share no sort with its own.

    Args:
        table: Candidates, as from ``read_statistics``.
        others: Candidates to which models are fitted.
    """
    groups = list_sorts(table)
    other_groups = list_sorts(others)
    probability = np.zeros(len(table))
    for group in set(groups):
        is_group = (groups == group).to_numpy()
        weights = fit_weights(others[[not (group & other) for other in other_groups]])
        probability[is_group] = predict_probability(table[is_group], weights)
    return probability


def list_sorts(table: pd.DataFrame) -> pd.Series[Any]:
    """Return for each candidate the set of the sorts of its case: those of its shortcuts, and why it is clean."""
    is_clean = ~table["what"].isin(["shortcut", "two"])
    names = table["sorts"].where(~is_clean, table["sorts"] + "+" + table["what"])
    return names.map(lambda sorts: frozenset(sorts.split("+")))


# -- rules of decision


def align_with_cases(values: pd.Series[float], cases: pd.DataFrame) -> Array:
    """Return a value for each case, 0 where it has none.

    Args:
        values: Values with an index of the columns ``CASE``.
        cases: A row for each case.
    """
    return values.reindex(pd.MultiIndex.from_frame(cases[CASE]), fill_value=0.0).to_numpy()


def compute_gains(cases: pd.DataFrame, table: pd.DataFrame, threshold: float) -> Array:
    """Return the gain in points of each case by its candidate of the greatest P(helps) above a threshold, 0 without.

    Args:
        cases: A row for each case.
        table: Candidates, with ``probability``.
        threshold: P(helps) must be above it.
    """
    usable = table[(table["flagged"] >= MIN_FLAGGED_ROWS) & (table["probability"] > threshold)]
    best = usable.sort_values("probability").drop_duplicates(CASE, keep="last")
    return align_with_cases(best.set_index(CASE)["gain"], cases)


def evaluate_rule(cases: pd.DataFrame, gain: Array) -> dict[str, float]:
    """Return the gains of a rule in cases with a harmful shortcut and in the others.

    Args:
        cases: A row for each case, with ``truth``.
        gain: Gain of the rule in each case, in points.
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


def evaluate_rules(cases: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each rule, with the columns of ``evaluate_rule``.

    Args:
        cases: A row for each case, with ``truth``.
        table: Candidates, with ``probability``.
    """
    threshold = EvidenceModel.verdicts["shortcut"]
    ask_threshold = EvidenceModel.verdicts["cannot tell"]
    best = table.groupby(CASE)["gain"].max().clip(lower=0)
    gains = {"best candidate, by the hidden test": align_with_cases(best, cases)}
    for value in (threshold, threshold - 0.1, threshold + 0.1):
        gains[f"the model, P above {value:.1f}"] = compute_gains(cases, table, value)
    often_flagged = table[table["flagged"] >= MIN_CONFLICTS_TO_CHECK]
    gains[f"the model, and {MIN_CONFLICTS_TO_CHECK} flagged rows or more"] = compute_gains(
        cases, often_flagged, threshold
    )
    gain = compute_gains(cases, table, ask_threshold) * cases["what"].isin(PLANTED).to_numpy()
    gains[f"P above {ask_threshold}, and a person answers"] = gain
    results = {rule: evaluate_rule(cases, gain) for rule, gain in gains.items()}
    for kind in KINDS:
        part = cases[cases["kind"] == kind]
        results[f"{kind}, the model ({len(part)} cases)"] = evaluate_rule(part, compute_gains(part, table, threshold))
    return pd.DataFrame(results).T.rename_axis("rule").reset_index()


def count_verdicts(cases: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return how many cases get each verdict, and how many of these have a harmful shortcut.

    Args:
        cases: A row for each case, with ``truth``.
        table: Candidates, with ``probability``.
    """
    probability = table[table["flagged"] >= MIN_FLAGGED_ROWS].groupby(CASE)["probability"].max()
    verdict = [EvidenceModel.classify(value) for value in align_with_cases(probability, cases)]
    is_harmful = (cases["truth"] >= HARMFUL).to_numpy()
    counts = pd.DataFrame({"verdict": verdict, "harmful": is_harmful}).groupby("verdict")["harmful"]
    return counts.agg(cases="size", harmful="sum").reset_index()


def evaluate_model() -> None:
    """Fit, evaluate and write what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, help="folder of the cases, or a table of signs")
    parser.add_argument("--out", type=Path, default=Path("lab/results/evidence"))
    parser.add_argument("--fit", help='cases to learn from, such as "seed == 0"; by default those that are judged')
    parser.add_argument("--judge", help="cases to judge; all by default, each by a model of those that share no sort")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.cases.is_file():
        candidates = pd.read_csv(options.cases)
    else:
        candidates = read_statistics(options.cases)
        candidates.to_csv(options.out / "signs.csv", index=False)
    table = candidates.query(options.judge) if options.judge else candidates
    others = candidates.query(options.fit) if options.fit else table
    cases = table.drop_duplicates(CASE)
    table = table.assign(probability=predict_left_out(table, others))
    rules = evaluate_rules(cases, table)
    verdicts = count_verdicts(cases, table)
    num_harmful = (cases["truth"] >= HARMFUL).sum()
    print(f"{len(cases)} cases, {num_harmful} of them harmful.", rules.to_string(), verdicts.to_string(), sep="\n\n")
    if not options.fit:
        rules.to_csv(options.out / "rules.csv", index=False)
        verdicts.to_csv(options.out / "verdicts.csv", index=False)
    for kind, weights in zip(KINDS, fit_weights(others), strict=True):
        print(f"{kind}: {dict(zip([*EvidenceModel.ends, 'constant'], weights.round(2).tolist(), strict=True))}")


if __name__ == "__main__":
    evaluate_model()
