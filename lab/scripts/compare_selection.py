"""What labels of a few new rows win: one candidate, an average, a correction on top, and published methods.

    python lab/scripts/new_rows.py collect OUT --sets column digits signature topic ... --seeds 3
    python lab/scripts/compare_selection.py OUT --answers 5 10 20 50 --times 10 --csv lab/results/new-rows/selection.csv

Reads what ``collect`` keeps: the logits of every candidate on the test rows, the features in front of ERM's last layer,
and further trainings of ERM. Half of the test rows (of each group) stand for new rows, at most 1,000 with all groups
alike; the other half judges, with all groups alike. Every rule gets the same number of true labels. "Share" is the
part of the single best candidate's gain over ERM that a rule wins, over the sets where this is 3 points or more.
Elsewhere nothing is to be won: the mean change and the worst set are written.

Rules; new rows are asked about whether or not a change of the inputs was seen, as with ``--ask``:

- select: rows by disagreement, one candidate if it is ahead of ERM by a margin; as it was
- greatest gain: the same rows and gains, no margin
- average, dispute: rows by disagreement; members weighted by the probability of being best
- average: rows as an audit asks, of 20 and more half by disagreement and half uniform
- advised: the average where a change was seen and its gain is above 0, or its 90 % interval does not hold 0, else ERM
- advised if sure: the average where its interval does not hold 0, else ERM
- taught: ``advised`` with the correction learned from the same labels, what an audit does; taught all: advised or not
- ERM taught: the correction of ERM's logits
- uniform average: all candidates, no label; ERM average: as many ERMs, no label
- CODA, Model Selector, VMA, DFR, random rows: see ``logit_correction_lab.active_selection``
"""

from __future__ import annotations

import argparse
import pickle
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from logit_correction.runs import teaching
from logit_correction.shortcuts import averaging, sampling, selection
from logit_correction_lab import active_selection

#: What a method that reads the true attribute is called; it is no candidate.
TRUE = "LC by the true attribute"

#: Most new rows, and the gain of the best candidate (points) from which there is something to win.
MAX_NEW_ROWS = 1000
MIN_GAIN = 3.0


@dataclass(frozen=True)
class Sample:
    """New rows and the rows that judge, of one collected set.

    Attributes:
        logits: (C, N, L) centred logits of the candidates on all test rows, ERM first.
        label: (N,) labels.
        pool: Positions of the new rows.
        judge: Positions of the rows that judge.
        weight: (J,) weights of these, which sum to 1.
        changed: Whether the inputs were seen to have changed.
    """

    logits: np.ndarray
    label: np.ndarray
    pool: np.ndarray
    judge: np.ndarray
    weight: np.ndarray
    changed: bool

    def measure_accuracy(self, logits: np.ndarray) -> float:
        """Return the accuracy (%) of logits (N, L) on the rows that judge, groups alike."""
        return float(100 * self.weight @ (logits[self.judge].argmax(axis=1) == self.label[self.judge]))


def draw_sample(kept: dict[str, Any], seed: int, harder: bool = False) -> Sample:
    """Divide the test rows of a collected set into new rows and rows that judge, by a seed."""
    generator = np.random.default_rng(seed)
    names = [name for name in kept["found"] if name != TRUE]
    logits = np.stack([kept["found"][name]["test"] for name in names]).astype(np.float64)
    validation = np.stack([kept["found"][name]["usual"] for name in names]).astype(np.float64)
    label = kept["label"]
    has_groups = (kept["attribute"] >= 0).all() and len(np.unique(kept["attribute"])) > 1
    group = label * 1000 + (kept["attribute"] if has_groups else 0)
    groups = np.unique(group)
    eligible = np.ones(len(label), dtype=bool)
    if harder:
        confidence = compute_probability(logits[0]).max(axis=1)
        eligible = confidence <= np.quantile(confidence, 1 / 3)
    pools = list[np.ndarray]()
    judges = list[np.ndarray]()
    for value in groups:
        rows = generator.permutation(np.flatnonzero((group == value) & eligible))
        pools.append(rows[: len(rows) // 2])
        judges.append(rows[len(rows) // 2 :])
    size = min([MAX_NEW_ROWS // len(groups), *(len(rows) for rows in pools if len(rows))])
    judge = np.concatenate(judges)
    weight = np.concatenate([np.full(len(rows), 1 / max(1, len(rows))) for rows in judges])
    pool = np.concatenate([rows[:size] for rows in pools])
    p_value = selection.compute_shift_p_value(compute_distances(logits[:, pool]), compute_distances(validation), seed)
    centred = logits - logits.mean(axis=2, keepdims=True)
    return Sample(centred, label, pool, judge, weight / weight.sum(), p_value <= selection.SHIFT_LEVEL)


def compute_probability(logits: np.ndarray) -> np.ndarray:
    """Return the softmax of logits."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def compute_distances(logits: np.ndarray) -> np.ndarray:
    """Return the total variation distance (C, M) of each candidate to ERM."""
    probability = compute_probability(logits)
    return np.asarray(np.abs(probability - probability[0]).sum(axis=2) / 2)


def draw_rows(predictions: np.ndarray, count: int, seed: int, uniform_share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return rows to label, and the inclusion probability of every row."""
    probability = sampling.compute_inclusion_probabilities(predictions, count, uniform_share=uniform_share)
    _, pattern = np.unique(predictions, axis=1, return_inverse=True)
    return sampling.draw_systematic_sample(probability, pattern.ravel(), seed), probability


def weigh_candidates(
    kept: dict[str, Any], sample: Sample, predictions: np.ndarray, rows: np.ndarray, probability: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the weight (C,) of each candidate, and the prior of its gain, None where a change was seen."""
    prior = None
    if not sample.changed:
        names = [name for name in kept["found"] if name != TRUE]
        label = kept["valid label"]
        validation = np.stack([kept["found"][name]["usual"][: len(label)].argmax(axis=1) for name in names])
        prior = averaging.compute_prior_gain(validation, label)
    label = sample.label[sample.pool[rows]]
    gain, error = averaging.estimate_gain_posterior(predictions, rows, label, 1 / probability[rows], prior)
    correlation = averaging.compute_prediction_correlation(predictions)
    best = averaging.compute_probability_best(gain, error, correlation, num_draws=4000)
    return averaging.select_members(best), prior


def compare_rules(
    kept: dict[str, Any], sample: Sample, counts: Sequence[int], seed: int, published: bool
) -> dict[int, dict[str, float]]:
    """Return for each number of labels the balanced accuracy (%) of every rule."""
    label = sample.label[sample.pool]
    pool_logits = sample.logits[:, sample.pool]
    predictions = pool_logits.argmax(axis=2)
    accuracy = [sample.measure_accuracy(logits) for logits in sample.logits]
    uniform = np.full(len(sample.logits), 1 / len(sample.logits))
    erm_average = np.mean([sample.logits[0], *map(center, kept["further ERM"])], axis=0)
    constant = {
        "ERM": accuracy[0],
        "best": max(accuracy),
        "uniform average": sample.measure_accuracy(np.tensordot(uniform, sample.logits, axes=1)),
        "ERM average": sample.measure_accuracy(erm_average),
        "changed": float(sample.changed),
    }
    selected = dict[str, list[int]]()
    if published:
        selected["CODA"] = active_selection.select_by_coda(pool_logits, label, counts, seed)
        selected["Model Selector"] = active_selection.select_by_model_selector(predictions, label, counts, seed)
        selected["VMA"] = active_selection.select_by_variance_minimization(pool_logits, label, counts, seed)
        selected["random rows"] = active_selection.select_by_random_rows(predictions, label, counts, seed)
    results = dict[int, dict[str, float]]()
    for position, count in enumerate(counts):
        result = dict(constant)
        result |= {rule: accuracy[candidates[position]] for rule, candidates in selected.items()}
        rows, probability = draw_rows(predictions, count, seed, 0.0)
        if len(rows):
            result |= compare_averages(kept, sample, predictions, rows, probability, accuracy)
        else:
            result |= dict.fromkeys(("select", "greatest gain", "average, dispute"), accuracy[0])
        rows, probability = draw_rows(predictions, count, seed, sampling.compute_uniform_share(count))
        result |= compare_teaching(kept, sample, predictions, rows, probability, accuracy[0])
        if published and len(kept["features"]):
            result["DFR"] = measure_retrained_layer(kept, sample, count, seed, accuracy[0])
        results[count] = result
    return results


def center(logits: np.ndarray) -> np.ndarray:
    """Return logits with mean 0 over the labels."""
    return np.asarray(logits.astype(np.float64) - logits.astype(np.float64).mean(axis=-1, keepdims=True))


def compare_averages(
    kept: dict[str, Any],
    sample: Sample,
    predictions: np.ndarray,
    rows: np.ndarray,
    probability: np.ndarray,
    accuracy: Sequence[float],
) -> dict[str, float]:
    """Return the accuracy of what is selected or averaged by rows where candidates contradict ERM."""
    gains = selection.estimate_gains(predictions, rows, sample.label[sample.pool[rows]], 1 / probability[rows])
    weight, _ = weigh_candidates(kept, sample, predictions, rows, probability)
    return {
        "select": accuracy[selection.select_candidate(gains, sample.changed)],
        "greatest gain": accuracy[int(gains.gain.argmax())],
        "average, dispute": sample.measure_accuracy(np.tensordot(weight, sample.logits, axes=1)),
    }


def compare_teaching(
    kept: dict[str, Any],
    sample: Sample,
    predictions: np.ndarray,
    rows: np.ndarray,
    probability: np.ndarray,
    erm: float,
) -> dict[str, float]:
    """Return the accuracy of the average by rows as an audit asks, and of what its correction learns of them."""
    labelled = sample.pool[rows]
    label = sample.label[labelled]
    weight, prior = weigh_candidates(kept, sample, predictions, rows, probability)
    average = np.tensordot(weight, sample.logits, axes=1)
    both = np.stack([predictions[0], average[sample.pool].argmax(axis=1)])
    both_prior = None
    if prior is not None:
        both_prior = np.array([0.0, weight[1:] @ prior[1:] / max(weight[1:].sum(), 1e-9)])
    gain, error = averaging.estimate_gain_posterior(both, rows, label, 1 / probability[rows], both_prior)
    accuracy = sample.measure_accuracy(average)
    is_advised = averaging.advise_average(gain[1], error[1], sample.changed).use == "average"
    is_sure = averaging.advise_average(gain[1], error[1], has_changed=False).use == "average"
    result = {
        "average": accuracy,
        "advised": accuracy if is_advised else erm,
        "advised if sure": accuracy if is_sure else erm,
    }
    if not kept["features"]:
        return result
    taught = measure_taught(kept, sample, average, rows, probability)
    result["taught all"] = taught
    result["taught"] = taught if is_advised else erm
    result["ERM taught"] = measure_taught(kept, sample, sample.logits[0], rows, probability)
    return result


def measure_taught(
    kept: dict[str, Any], sample: Sample, logits: np.ndarray, rows: np.ndarray, probability: np.ndarray
) -> float:
    """Return the accuracy (%) of logits (N, L) with the correction that is learned from labelled new rows."""
    features = kept["features"]["test"].astype(np.float64)
    mean = kept["features"]["mean"].astype(np.float64)
    scale = teaching.compute_feature_scale(features[sample.pool], mean)
    labelled = sample.pool[rows]
    correction = teaching.fit_guarded_logit_correction(
        features[labelled], logits[labelled], sample.label[labelled], mean, scale, weight=1 / probability[rows]
    )
    return sample.measure_accuracy(logits if correction.strength is None else logits + correction(features))


def measure_retrained_layer(kept: dict[str, Any], sample: Sample, count: int, seed: int, erm: float) -> float:
    """Return the accuracy of DFR on rows drawn uniformly, or that of ERM where they have one label."""
    rows = np.random.default_rng(seed).permutation(sample.pool)[:count]
    features = kept["features"]["test"].astype(np.float64)
    num_labels = sample.logits.shape[2]
    logits = active_selection.retrain_last_layer(features, sample.label, rows, num_labels, kept["features"]["scale"])
    return erm if logits is None else sample.measure_accuracy(logits)


def measure_set(file: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the mean balanced accuracy of every rule on one collected set, a line for each number of labels."""
    kept = pickle.loads(file.read_bytes())  # which `collect` has written
    accuracies: dict[int, dict[str, list[float]]] = {count: defaultdict(list) for count in options.answers}
    for seed in range(options.times):
        sample = draw_sample(kept, seed, options.harder)
        for count, result in compare_rules(kept, sample, options.answers, seed, not options.quick).items():
            for rule, value in result.items():
                accuracies[count][rule].append(value)
    name, _, seed_name = file.stem.rpartition("-")
    return [
        {"set": name, "seed": int(seed_name), "answers": count, **{rule: np.mean(v) for rule, v in of_count.items()}}
        for count, of_count in accuracies.items()
    ]


def summarize(table: pd.DataFrame) -> pd.DataFrame:
    """Return for each rule and number of labels the share of the best gain, and the change where nothing can be won."""
    means = table.drop(columns="seed").groupby(["set", "answers"], sort=False).mean().reset_index()
    rules = [name for name in means if name not in ("set", "answers", "best", "changed", "ERM")]
    lines = list[dict[str, Any]]()
    for answers, part in means.groupby("answers"):
        possible = part["best"] - part["ERM"]
        has_gain = possible >= MIN_GAIN
        for rule in rules:
            gain = part[rule] - part["ERM"]
            line: dict[str, Any] = {"answers": answers, "rule": rule}
            line["share of best gain"] = 100 * gain[has_gain].sum() / possible[has_gain].sum()
            line["sets"] = int(has_gain.sum())
            line["elsewhere"] = gain[~has_gain].mean()
            line["elsewhere worst"] = gain[~has_gain].min()
            line["other sets"] = int((~has_gain).sum())
            lines.append(line)
    return pd.DataFrame(lines).round(2)


def main() -> None:
    """Compare all rules on what was collected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what `new_rows.py collect` wrote")
    parser.add_argument("--answers", type=int, nargs="*", default=[5, 10, 20, 50])
    parser.add_argument("--times", type=int, default=10, help="samples of each set and seed")
    parser.add_argument("--sets", nargs="*", help="only these sets")
    parser.add_argument("--harder", action="store_true", help="only the third of the rows of which ERM is least sure")
    parser.add_argument("--quick", action="store_true", help="leave out the published methods")
    parser.add_argument("--csv", type=Path, help="write the accuracies of every set and seed there")
    options = parser.parse_args()
    lines = list[dict[str, Any]]()
    for file in sorted(options.folder.glob("*.pkl")):
        if options.sets is None or file.stem.rpartition("-")[0] in options.sets:
            lines += measure_set(file, options)
            print(file.stem, flush=True)
    table = pd.DataFrame(lines)
    if options.csv:
        table.round(2).to_csv(options.csv, index=False)
    print(summarize(table).to_string(index=False))


if __name__ == "__main__":
    main()
