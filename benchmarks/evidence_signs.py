"""Signs of a shortcut, computed from what ``evidence.py`` kept of each case; one row for each case and candidate.

No sign reads an attribute label. What is judged by (``gain`` and so on) does, and stands apart.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

Array: TypeAlias = NDArray[Any]

#: Probabilities count as no less than this where a logarithm is taken.
LEAST = 1e-3

#: Views that know less of the label than this share of its entropy do not vote on independence.
KNOWS = 0.02


def area(above: Array, below: Array) -> float:
    """Return the area under the curve of ``above`` against ``below``; 0.5 where they are alike or too few.

    >>> area(np.array([2.0, 3.0, 4.0]), np.array([0.0, 1.0, 1.0]))
    1.0
    """
    if min(len(above), len(below)) < 3:
        return float("nan")
    rank = rankdata(np.concatenate([above, below]))
    return float((rank[: len(above)].sum() - len(above) * (len(above) + 1) / 2) / (len(above) * len(below)))


def margin(probability: Array, label: Array) -> Array:
    """Return the log odds (n,) of each row's label by probabilities (n, L)."""
    own = probability[np.arange(len(label)), label].astype(float).clip(LEAST, 1 - LEAST)
    return np.log(own / (1 - own))


def information(probability: Array, label: Array) -> float:
    """Return the share of the label's entropy that predictions (n, L) take away."""
    share = np.bincount(label, minlength=probability.shape[1]) / len(label)
    entropy = -(share[share > 0] * np.log(share[share > 0])).sum()
    own = probability[np.arange(len(label)), label].astype(float).clip(LEAST)
    return float(1 + np.log(own).mean() / max(entropy, LEAST))


def typical(other: Array, label: Array, flagged: Array) -> float:
    """Return how much less typical of their label flagged rows are to another view than the rest; 0.5 is as typical."""
    odds, found, rows = margin(other, label), 0.0, 0
    for y in np.unique(label):
        own = label == y
        one = area(odds[own & ~flagged], odds[own & flagged])
        if np.isfinite(one):
            found, rows = found + one * (own & flagged).sum(), rows + (own & flagged).sum()
    return found / rows if rows else 0.75


def signs_of(case: Mapping[str, Any], meta: Mapping[str, Any], name: str) -> dict[str, float]:
    """Return the signs of one candidate of a case."""
    label, network, early = case["label"].astype(int), case["network"], case["early"]
    attribute = case[f"{name}/attribute"].astype(int)
    seen, num_labels, rows = case[f"{name}/probability"], network.shape[1], len(label)
    flagged, says, first = attribute != label, network.argmax(1), early.argmax(1)
    few = flagged.sum()
    error = float((says != label)[~flagged].mean()) if few < rows else 1.0
    # Towards few rows each share is drawn to what the network does everywhere.
    follows = ((says == attribute)[flagged].sum() + 4 * error) / (few + 4)
    soon = ((first == attribute)[flagged].sum() + 4 * error) / (few + 4)
    shares = {"rows": rows, "labels": num_labels, "flagged": int(few), "share": few / rows, "error": error}
    found: dict[str, float] = shares | {"follows": follows, "excess": follows - error, "early": soon}
    # The same as odds: where a network hardly errs, to follow a few of the rows is much.
    odds = np.log([max(LEAST, follows) / max(LEAST, 1 - follows), max(error, 2 / rows) / (1 - min(error, 0.99))])
    found["lift"] = float(odds[0] - odds[1])
    found["early excess"] = soon - float((first != label)[~flagged].mean() if few < rows else 1.0)
    found["speed"] = float((first == label).mean() / max(0.01, (says == label).mean()))
    found["information"] = information(seen, label)
    found["ratio"] = float((seen.argmax(1) == label).mean() / max(0.01, (says == label).mean()))
    found["network information"] = information(network, label)
    found["confidence"] = float(seen.max(1).astype(float).mean())

    # A shortcut is there or not: a head that is right about it is seldom unsure, and sure where it errs.
    plain = seen
    for view, one in zip(case["views"], meta["views"], strict=True):
        if set(one["name"].split(" + ")) == set(meta["candidates"][name]):
            plain = view
    own_share, greatest = plain[np.arange(rows), label].astype(float), plain.max(1).astype(float)
    errs = plain.argmax(1) != label
    found["plain information"] = information(plain, label)
    found["unsure"] = float(((own_share > 0.2) & (own_share < 0.8)).mean())
    found["sure errs"] = float(((greatest[errs] > 0.8).sum() + 1) / (errs.sum() + 4))
    found["errs"] = float(errs.mean())
    # Of the network's errors those that the candidate explains, and of its flagged rows those that are errors.
    wrong = says != label
    found["explains"] = float(((says == attribute) & flagged & wrong).sum() / max(1, wrong.sum()))

    # Is the rest independent of what conflicts, given the label? Views that know nothing do not vote.
    own = set(meta["candidates"][name])
    others = []
    for view, one in zip(case["views"], meta["views"], strict=True):
        knows = information(view, label)
        if set(one["name"].split(" + ")) & own or knows < KNOWS:
            continue
        others.append((typical(view, label, flagged), knows))
    if f"{name}/rest" in case:
        others.append((typical(case[f"{name}/rest"], label, flagged), information(case[f"{name}/rest"], label)))
    blocks = [(typical(block, label, flagged), information(block, label)) for block in case.get("blocks", ())]
    others = sorted(others + [one for one in blocks if one[1] >= KNOWS])
    found["others"] = len(others)
    found["odd"] = float(np.mean([auc for auc, _ in others[: max(1, (len(others) + 1) // 2)]])) if others else 0.75
    found["odd least"] = others[0][0] if others else 0.75
    found["odd mean"] = (
        float(np.average([auc for auc, _ in others], weights=[k for _, k in others])) if others else 0.75
    )
    # The best that is known of the rest: all other columns of a table, half the parts of a text, of images a view.
    lower = sorted(auc for auc, _ in blocks)[: len(blocks) // 2] or [found["odd least"]]
    found["rest"] = typical(case[f"{name}/rest"], label, flagged) if f"{name}/rest" in case else float(np.mean(lower))
    found["odd most"] = max((auc for auc, _ in others), default=0.75)
    found["odd range"] = found["odd most"] - found["odd least"]
    found["odd network"] = typical(network, label, flagged)
    found["odd biased"] = typical(case["staged/probability"], label, flagged)

    # Wrong labels: can the network tell flagged rows from rows of the label that they look like?
    apart = [
        (
            area(
                network[(label == a) & ~flagged, a].astype(float), network[flagged & (attribute == a), a].astype(float)
            ),
            n,
        )
        for a in range(num_labels)
        if (n := int((flagged & (attribute == a)).sum())) >= 3
    ]
    apart = [(value, n) for value, n in apart if np.isfinite(value)]
    found["apart"] = float(np.average([v for v, _ in apart], weights=[n for _, n in apart])) if apart else 0.5

    # Who else flags the same rows?
    for other in ("staged",):
        theirs = case[f"{other}/attribute"].astype(int)
        same = ((theirs == attribute) & flagged).sum()
        found[f"agrees {other}"] = same / max(1, few)
        found[f"finds {other}"] = same / max(1, (theirs != label).sum())
    agree = [
        ((view.argmax(1) == attribute) & flagged).sum() / max(1, few)
        for view, one in zip(case["views"], meta["views"], strict=True)
        if not set(one["name"].split(" + ")) & own
    ]
    found["agrees views"] = float(max(agree, default=0.0))

    # Each label by itself: the least and the greatest share of its rows that is flagged.
    by_label = np.array([flagged[label == y].mean() for y in range(num_labels)])
    found["flagged least"], found["flagged most"] = float(by_label.min()), float(by_label.max())

    # What correcting does on validation rows, in the groups that the candidate itself tells.
    truth, group = case["label_valid"].astype(int), case[f"{name}/attribute_valid"].astype(int)
    right = {who: (case[f"{who}/valid"].argmax(1) == truth).astype(float) for who in ("erm", name)}
    conflict, change = group != truth, right[name] - right["erm"]
    found["valid flagged"] = int(conflict.sum())
    found["won"] = float(change[conflict].sum() / (conflict.sum() + 4))
    found["lost"] = float(-change[~conflict].sum() / ((~conflict).sum() + 4))
    found["valid change"] = float(change.mean())
    found["gap before"] = (
        float(
            right["erm"][~conflict].mean()
            - (right["erm"][conflict].sum() + 4 * right["erm"].mean()) / (conflict.sum() + 4)
        )
        if (~conflict).any()
        else 0.0
    )
    found["gap after"] = (
        float(
            right[name][~conflict].mean()
            - (right[name][conflict].sum() + 4 * right[name].mean()) / (conflict.sum() + 4)
        )
        if (~conflict).any()
        else 0.0
    )
    return found


def outcome(case: Mapping[str, Any], name: str) -> dict[str, float]:
    """Return what correcting by a candidate brings in the hidden tests, in points, and how well it estimates."""
    truth = case["label_test"].astype(int)
    right = {who: case[f"{who}/test"] == truth for who in ("erm", name)}
    found = {}
    for test, figure in (("balanced", "gain"), ("like", "change")):
        rows = case[test].astype(int)
        change = right[name][rows].astype(float) - right["erm"][rows]
        found[figure] = 100 * change.mean()
        found[f"{figure} error"] = 100 * change.std() / np.sqrt(len(rows))
    found["erm"] = 100 * float(right["erm"][case["balanced"].astype(int)].mean())
    found["erm like"] = 100 * float(right["erm"][case["like"].astype(int)].mean())
    return found


def table_of(folder: Path) -> pd.DataFrame:
    """Return one row for each case and candidate, of all cases in a folder."""
    rows = []
    for file in sorted(folder.glob("*.npz")):
        with np.load(file) as loaded:
            case = dict(loaded)
        meta = json.loads(str(case.pop("meta")))
        drawn = meta["case"]
        planted = drawn["planted"]
        key = {name: drawn[name] for name in ("seed", "number", "kind", "data", "what")}
        key |= {"family": meta["family"], "sorts": "+".join(meta["sorts"]) or drawn["what"], "verdict": meta["verdict"]}
        key |= {"conflicting": min((one["conflicting"] for one in planted), default=np.nan)}
        key |= {"strength": min((one["strength"] for one in planted), default=np.nan), "seconds": meta["seconds"]}
        truth = outcome(case, "truth")["gain"] if "truth/test" in case else np.nan
        for name, views in meta["candidates"].items():
            auto = bool(views) and sorted(set(meta["auto"])) == views
            told = {"candidate": name, "views": "+".join(views), "auto": auto, "truth": truth}
            judged = {figure: round(value, 2) for figure, value in outcome(case, name).items()}
            signs = {figure: round(float(value), 4) for figure, value in signs_of(case, meta, name).items()}
            rows.append(key | told | judged | signs)
    return pd.DataFrame(rows)


def main() -> None:
    """Write the table of all signs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, help="folder of the cases")
    parser.add_argument("--out", type=Path, default=Path("results/evidence/signs.csv"))
    options = parser.parse_args()
    table = table_of(options.cases)
    table.to_csv(options.out, index=False)
    print(f"{table[['seed', 'number']].drop_duplicates().shape[0]} cases, {len(table)} candidates: {options.out}")


if __name__ == "__main__":
    main()
