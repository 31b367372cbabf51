"""How much accuracy do labels of a few new rows win: by one candidate, an average, a correction, published methods?

    python lab/scripts/new_rows.py collect OUT --sets column digits signature topic ... --seeds 3
    python lab/scripts/compare_selection.py OUT --answers 5 10 20 50 --times 10 --csv selection-sets.csv

Reads what ``collect`` writes: logits of every candidate on the test rows, the features in front of ERM's last layer,
and further trainings of ERM. In each group (label by attribute) half of the test rows stand for new rows, at most 1,000
in all, and the other half evaluates; both have all groups in equal shares. Every rule gets the same number of true
labels. ``gain_won`` is the share of the best candidate's gain over ERM that a rule wins, over the sets where this gain
is 3 points or more; ``elsewhere`` is the mean change on the other sets, and ``elsewhere_worst`` that of the worst set.
Takes a second or two for each sample of a set and seed. Goes on where it was killed: sets and seeds that the CSV file
holds are not measured again, so other options need another file.

``--like training`` draws and evaluates by the shares of the training rows, ``mixture`` by the mean of both, ``labels``
by those of training, except that one label has 80 %. The share ``--wrong`` of the labels is wrong. ``--harder`` takes
only rows on which ERM is least sure. ``--without`` leaves candidates out.

Rules; labels are given whether or not a change of the inputs was detected, as with ``--ask``:

- average: rows as an audit asks, of 20 and more half by disagreement and half uniform; members weighted by the
  probability of being best, also where ERM would be advised
- average, dispute: the same, all rows by disagreement
- average, all pairs: half of the rows by the share of all pairs of candidates that contradict each other
- average, two rounds: half of the labels in a second round, as ``--ask`` asks again; average, members: the second round
  only where members of the first average contradict each other
- advised: the average, shrunk towards ERM where its gain is doubtful, or ERM; advised if sure: ERM unless the 90 %
  interval excludes 0
- taught: ``advised`` with the correction learned from the same labels, what a fix trains; taught all: the average with
  it, not shrunk; taught if changed: only where a change was detected, else ERM
- single: the likeliest candidate, or ERM, as with ``--single``; greatest gain: the candidate of the greatest gain
- ERM taught: the correction of ERM's logits
- uniform average: all candidates, no label; ERM average: as many ERMs, no label
- CODA, Model Selector, VMA, DFR, random rows: see ``active_selection.py``
"""

from __future__ import annotations

import argparse
import itertools
import pickle
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import active_selection
import numpy as np
import pandas as pd
from scipy.special import softmax

from logit_correction.runs import target_correction
from logit_correction.shortcuts import averaging, sampling, selection

#: Name of the method that reads the true attribute, which a candidate may not.
TRUE = "LC by the true attribute"

#: Least gain of the best candidate over ERM, in points, of the sets of ``gain_won``.
MIN_GAIN = 3.0


@dataclass(frozen=True)
class Sample:
    """New rows and the rows that evaluate, of one collected set.

    Attributes:
        logits: (C, N, L) centred logits of the candidates on all test rows, ERM first.
        label: (N,) true labels.
        answers: (N,) labels that a person gives.
        pool: (M,) positions of the new rows.
        evaluated: (J,) positions of the rows that evaluate.
        weight: (J,) weights of these, which sum to 1.
        prior_gain: (C,) gains of the candidates on validation rows; None where a change of the inputs was detected.
    """

    logits: np.ndarray
    label: np.ndarray
    answers: np.ndarray
    pool: np.ndarray
    evaluated: np.ndarray
    weight: np.ndarray
    prior_gain: np.ndarray | None

    @property
    def predictions(self) -> np.ndarray:
        """The labels (C, M) that the candidates predict on the new rows."""
        return np.asarray(self.logits[:, self.pool].argmax(axis=2))

    def measure_accuracy(self, logits: np.ndarray) -> float:
        """Return the accuracy (%) of logits (N, L) on the rows that evaluate."""
        return float(100 * self.weight @ (logits[self.evaluated].argmax(axis=1) == self.label[self.evaluated]))


def compute_groups(collected: dict[str, Any], rows: dict[str, Any]) -> np.ndarray:
    """Return the group of each row: label by attribute, or the label where the test has fewer than two attributes.

    Args:
        collected: What ``collect`` wrote of a set.
        rows: ``label`` and ``attribute`` of rows.
    """
    attribute = collected["attribute"]
    has_groups = (attribute >= 0).all() and len(np.unique(attribute)) > 1
    return np.asarray(rows["label"] * 1000 + (rows["attribute"] if has_groups else 0))


def compute_group_shares(
    collected: dict[str, Any], groups: np.ndarray, like: str, generator: np.random.Generator
) -> np.ndarray:
    """Return the share of each group among the new rows.

    Args:
        collected: What ``collect`` wrote of a set.
        groups: (G,) groups.
        like: The option ``--like``.
        generator: Draws the label that is common with ``labels``.
    """
    equal = np.full(len(groups), 1 / len(groups))
    if like == "groups":
        return equal
    training_groups = compute_groups(collected, collected["trained on"])
    shares = np.array([(training_groups == group).mean() for group in groups])
    if like == "mixture":
        shares = (equal + shares) / 2
    if like == "labels":
        label = groups // 1000
        common = label == generator.choice(np.unique(label))
        for rows, share in ((common, 0.8), (~common, 0.2)):
            shares[rows] *= share / shares[rows].sum().clip(1e-9)
    return np.asarray(shares / shares.sum())


def draw_new_rows(collected: dict[str, Any], seed: int, options: argparse.Namespace) -> Sample:
    """Divide the test rows of a set into new rows and rows that evaluate.

    Args:
        collected: What ``collect`` wrote of the set.
        seed: Seed of all draws.
        options: Options of the command line.
    """
    generator = np.random.default_rng(seed)
    names = [name for name in collected["found"] if name not in (TRUE, *options.without)]
    logits = center(np.stack([collected["found"][name]["test"] for name in names]))
    validation = np.stack([collected["found"][name]["usual"] for name in names]).astype(np.float64)
    label = collected["label"]
    group = compute_groups(collected, collected)
    groups = np.unique(group)
    shares = compute_group_shares(collected, groups, options.like, generator)
    eligible = np.ones(len(label), dtype=bool)
    if options.harder:
        confidence = softmax(logits[0], axis=1).max(axis=1)
        eligible = confidence <= np.quantile(confidence, 1 / 3)
    pools = list[np.ndarray]()
    evaluated_parts = list[np.ndarray]()
    for value in groups:
        rows = generator.permutation(np.flatnonzero((group == value) & eligible))
        pools.append(rows[: len(rows) // 2])
        evaluated_parts.append(rows[len(rows) // 2 :])
    sizes = [len(rows) / share for rows, share in zip(pools, shares, strict=True) if len(rows) and share]
    size = min([options.new_rows, *sizes]) + 1e-6
    pool = np.concatenate([rows[: int(size * share)] for rows, share in zip(pools, shares, strict=True)])
    evaluated = np.concatenate(evaluated_parts)
    weight = np.concatenate(
        [np.full(len(rows), share / max(1, len(rows))) for rows, share in zip(evaluated_parts, shares, strict=True)]
    )
    p_value = selection.compute_shift_p_value(compute_distances(logits[:, pool]), compute_distances(validation), seed)
    valid_label = collected["valid label"]
    predictions = validation[:, : len(valid_label)].argmax(axis=2)
    prior_gain = averaging.compute_prior_gain(
        (predictions == valid_label).mean(axis=1), averaging.compute_disagreement(predictions), len(valid_label)
    )
    is_wrong = generator.random(len(label)) < options.wrong
    answers = np.where(is_wrong, (label + 1) % logits.shape[2], label)
    has_changed = p_value <= selection.SHIFT_LEVEL
    return Sample(logits, label, answers, pool, evaluated, weight / weight.sum(), None if has_changed else prior_gain)


def center(logits: np.ndarray) -> np.ndarray:
    """Return logits with mean 0 over the labels."""
    logits = logits.astype(np.float64)
    return np.asarray(logits - logits.mean(axis=-1, keepdims=True))


def compute_distances(logits: np.ndarray) -> np.ndarray:
    """Return the total variation distance (C, M) of each candidate to ERM."""
    probability = softmax(logits, axis=-1)
    return np.asarray(np.abs(probability - probability[0]).sum(axis=2) / 2)


def compare_rules(
    collected: dict[str, Any], sample: Sample, counts: Sequence[int], seed: int, published: bool
) -> dict[int, dict[str, float]]:
    """Compute the accuracy of every rule with several numbers of labels.

    Args:
        collected: What ``collect`` wrote of the set.
        sample: New rows and rows that evaluate.
        counts: Numbers of labels.
        seed: Seed of the rows that are labelled.
        published: Whether published methods are among the rules.

    Returns:
        Number of labels -> rule -> balanced accuracy in %.
    """
    label = sample.answers[sample.pool]
    pool_logits = sample.logits[:, sample.pool]
    predictions = sample.predictions
    accuracy = [sample.measure_accuracy(logits) for logits in sample.logits]
    constant = {
        "ERM": accuracy[0],
        "best": max(accuracy),
        "uniform average": sample.measure_accuracy(sample.logits.mean(axis=0)),
        "changed": float(sample.prior_gain is None),
    }
    if collected.get("further ERM"):
        erm_average = np.mean([sample.logits[0], *map(center, collected["further ERM"])], axis=0)
        constant["ERM average"] = sample.measure_accuracy(erm_average)
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
        result |= compare_averages(collected, sample, count, seed, accuracy)
        if published and collected["features"]:
            result["DFR"] = measure_retrained_layer(collected, sample, count, seed, accuracy[0])
        results[count] = result
    return results


def compare_averages(
    collected: dict[str, Any], sample: Sample, count: int, seed: int, accuracy: Sequence[float]
) -> dict[str, float]:
    """Compute the accuracy of what the program selects, averages and teaches.

    Args:
        collected: What ``collect`` wrote of the set.
        sample: New rows and rows that evaluate.
        count: Number of labels.
        seed: Seed of the rows that are labelled.
        accuracy: Accuracy of each candidate in %.

    Returns:
        Rule -> balanced accuracy in %.
    """
    predictions = sample.predictions
    pool_logits = sample.logits[:, sample.pool]
    uniform_share = sampling.compute_uniform_share(count)
    averages = {}
    for name, by, share, logits in (
        ("dispute", predictions, 0.0, pool_logits),
        ("all pairs", compare_all_pairs(predictions), uniform_share, pool_logits),
        ("audit", predictions, uniform_share, pool_logits),
        ("single", predictions, uniform_share, None),
    ):
        rows, probability = selection.sample_rows_to_label(by, count, seed, uniform_share=share)
        averages[name] = average_labelled(sample, logits, rows, 1 / probability[rows])
    for name, is_adaptive in (("two rounds", False), ("members", True)):
        averages[name] = average_two_rounds(sample, count, seed, is_adaptive)
    erm = accuracy[0]
    average = averages["audit"]
    is_averaged = average.is_advised or sample.prior_gain is None
    trained = np.tensordot(average.weight, sample.logits, axes=1) if is_averaged else sample.logits[0]
    by_training = sample.measure_accuracy(trained)
    averaged = average_by_probability(average, sample)
    single = averages["single"]
    others = ("dispute", "all pairs", "two rounds", "members")
    result = {
        f"average, {name}": sample.measure_accuracy(average_by_probability(averages[name], sample)) for name in others
    }
    result |= {
        "average": sample.measure_accuracy(averaged),
        "advised": by_training,
        "advised if sure": erm if average.is_unsure else by_training,
        "single": accuracy[int(single.weight.argmax())] if single.is_advised else erm,
        "greatest gain": accuracy[int(average.candidate_gain.argmax())],
    }
    if not collected["features"]:
        return result
    labelled = sample.pool[rows]
    row_weight = 1 / probability[rows]
    result["taught all"] = measure_taught(collected, sample, averaged, labelled, row_weight)
    result["ERM taught"] = measure_taught(collected, sample, sample.logits[0], labelled, row_weight)
    result["taught"] = measure_taught(collected, sample, trained, labelled, row_weight)
    result["taught if changed"] = result["taught"] if sample.prior_gain is None else erm
    return result


def compare_all_pairs(predictions: np.ndarray) -> np.ndarray:
    """Return an array (1 + P, M) of zeros and ones: below a row of zeros, whether each of P pairs differs on a row."""
    pairs = [predictions[a] != predictions[b] for a, b in itertools.combinations(range(len(predictions)), 2)]
    return np.array([np.zeros_like(pairs[0]), *pairs]).astype(np.int64)


def average_labelled(
    sample: Sample, logits: np.ndarray | None, rows: np.ndarray, weight: np.ndarray
) -> averaging.CandidateAverage:
    """Return the average of the candidates by the labels of some new rows.

    Args:
        sample: New rows and rows that evaluate.
        logits: (C, M, L) logits on the new rows; None for one candidate.
        rows: (n,) positions of the labelled rows among the new rows.
        weight: (n,) number of rows for which each stands.
    """
    label = sample.answers[sample.pool[rows]]
    return averaging.average_candidates(sample.predictions, logits, rows, label, weight, sample.prior_gain)


def average_two_rounds(sample: Sample, count: int, seed: int, is_adaptive: bool) -> averaging.CandidateAverage:
    """Return the average by two rounds of half the labels each.

    Args:
        sample: New rows and rows that evaluate.
        count: Number of labels.
        seed: Seed of the rows that are labelled.
        is_adaptive: Whether the second round compares only ERM and the members of the average of the first.
    """
    predictions = sample.predictions
    logits = sample.logits[:, sample.pool]
    first_count = count // 2
    share = sampling.compute_uniform_share(first_count)
    first, probability = selection.sample_rows_to_label(predictions, first_count, seed, uniform_share=share)
    by = predictions
    if is_adaptive:
        average = average_labelled(sample, logits, first, 1 / probability[first])
        is_member = average.weight > 0
        is_member[0] = True
        by = predictions[is_member]
    share = sampling.compute_uniform_share(count - first_count, first_count)
    second, second_probability = selection.sample_rows_to_label(by, count - first_count, seed, first.tolist(), share)
    rounds = np.full(predictions.shape[1], -1)
    rounds[first] = 1
    rounds[second] = 2
    weight = sampling.compute_answer_weights(predictions, rounds > 0, rounds, {1: probability, 2: second_probability})
    rows = np.flatnonzero(rounds > 0)
    return average_labelled(sample, logits, rows, weight[rows])


def average_by_probability(average: averaging.CandidateAverage, sample: Sample) -> np.ndarray:
    """Return the logits (N, L) of the average by the probability of being best, not shrunk towards ERM."""
    return np.tensordot(averaging.select_members(average.probability_best), sample.logits, axes=1)


def measure_taught(
    collected: dict[str, Any], sample: Sample, logits: np.ndarray, labelled: np.ndarray, weight: np.ndarray
) -> float:
    """Return the accuracy in % of logits with the correction that is learned from labelled new rows.

    Args:
        collected: What ``collect`` wrote of the set.
        sample: New rows and rows that evaluate.
        logits: (N, L) logits of all test rows.
        labelled: (M,) positions of the labelled rows.
        weight: (M,) their inverse-probability weights.
    """
    features = collected["features"]["test"]
    mean = collected["features"]["mean"]
    scale = target_correction.compute_feature_scale(features[sample.pool], mean)
    correction = target_correction.fit_guarded_logit_correction(
        features[labelled], logits[labelled], sample.answers[labelled], mean, scale, weight=weight
    )
    corrected = logits.copy()
    corrected[sample.evaluated] += correction(features[sample.evaluated])
    return sample.measure_accuracy(corrected)


def measure_retrained_layer(collected: dict[str, Any], sample: Sample, count: int, seed: int, erm: float) -> float:
    """Return the accuracy in % of DFR on rows drawn uniformly, or that of ERM where they have one label.

    Args:
        collected: What ``collect`` wrote of the set.
        sample: New rows and rows that evaluate.
        count: Number of labels.
        seed: Seed of the rows.
        erm: Accuracy of ERM in %.
    """
    rows = np.random.default_rng(seed).permutation(sample.pool)[:count]
    features = collected["features"]["test"]
    num_labels = sample.logits.shape[2]
    logits = active_selection.retrain_last_layer(
        features, sample.answers, rows, num_labels, collected["features"]["scale"]
    )
    return erm if logits is None else sample.measure_accuracy(logits)


def measure_set(file: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the mean balanced accuracy of every rule on one set, a line for each number of labels.

    Args:
        file: A file of ``collect``.
        options: Options of the command line.
    """
    collected = pickle.loads(file.read_bytes())
    collected["features"] = {name: values.astype(np.float64) for name, values in collected["features"].items()}
    accuracies: dict[int, dict[str, list[float]]] = {count: defaultdict(list) for count in options.answers}
    for seed in range(options.times):
        sample = draw_new_rows(collected, seed, options)
        for count, result in compare_rules(collected, sample, options.answers, seed, not options.quick).items():
            for rule, value in result.items():
                accuracies[count][rule].append(value)
    name, _, seed_name = file.stem.rpartition("-")
    return [
        {
            "set": name,
            "seed": int(seed_name),
            "answers": count,
            **{rule: np.mean(values) for rule, values in by_rule.items()},
        }
        for count, by_rule in accuracies.items()
    ]


def summarize_gains(table: pd.DataFrame) -> pd.DataFrame:
    """Return for each rule and number of labels its share of the best gain, and its change on the other sets."""
    means = table.drop(columns="seed").groupby(["set", "answers"], sort=False).mean().reset_index()
    rules = [name for name in means if name not in ("set", "answers", "best", "changed", "ERM")]
    lines = list[dict[str, Any]]()
    for answers, part in means.groupby("answers"):
        possible = part["best"] - part["ERM"]
        has_gain = possible >= MIN_GAIN
        for rule in rules:
            gain = part[rule] - part["ERM"]
            line: dict[str, Any] = {"answers": answers, "rule": rule}
            line["gain_won"] = 100 * gain[has_gain].sum() / max(1e-9, possible[has_gain].sum())
            line["sets"] = int(has_gain.sum())
            line["elsewhere"] = gain[~has_gain].mean()
            line["elsewhere_worst"] = gain[~has_gain].min()
            line["other_sets"] = int((~has_gain).sum())
            lines.append(line)
    return pd.DataFrame(lines).round(2)


def compare_rules_on_sets() -> None:
    """Compare all rules on the sets of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what `new_rows.py collect` wrote")
    parser.add_argument("--answers", type=int, nargs="*", default=[5, 10, 20, 50])
    parser.add_argument("--times", type=int, default=10, help="samples of each set and seed")
    parser.add_argument("--sets", nargs="*", help="only these sets")
    parser.add_argument("--new-rows", type=int, default=1000, help="most new rows")
    parser.add_argument("--wrong", type=float, default=0.0, help="share of the labels that are wrong")
    parser.add_argument("--harder", action="store_true", help="only the third of the rows on which ERM is least sure")
    parser.add_argument("--like", choices=("groups", "training", "mixture", "labels"), default="groups")
    parser.add_argument("--without", nargs="*", default=[], help="candidates that are left out, such as 'LC by Online'")
    parser.add_argument("--quick", action="store_true", help="leave out the published methods")
    parser.add_argument("--csv", type=Path, help="write the accuracies of every set and seed there")
    options = parser.parse_args()
    lines = list[dict[str, Any]]()
    if options.csv and options.csv.exists():
        lines = pd.read_csv(options.csv).to_dict("records")
    measured = {f"{line['set']}-{line['seed']}" for line in lines}
    for file in sorted(options.folder.glob("*.pkl")):
        is_wanted = options.sets is None or file.stem.rpartition("-")[0] in options.sets
        if not is_wanted or file.stem in measured:
            continue
        lines += measure_set(file, options)
        if options.csv:
            pd.DataFrame(lines).round(2).to_csv(options.csv, index=False)
        print(file.stem, flush=True)
    table = pd.DataFrame(lines)
    print(summarize_gains(table).to_string(index=False))


if __name__ == "__main__":
    compare_rules_on_sets()
