"""Signs of a shortcut, computed from what ``evidence.py`` kept of each case; one row for each case and candidate.

No sign reads an attribute label. What is judged by (``gain`` and so on) does, and stands apart.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from logit_correction.shortcuts import evidence


def signs_of(case: Mapping[str, Any], meta: Mapping[str, Any], name: str) -> dict[str, float]:
    """Return the signs of one candidate of a case, as the package computes them."""
    label, network = case["label"].astype(int), case["network"].astype(float)
    attribute, own = case[f"{name}/attribute"].astype(int), set(meta["candidates"][name])
    alone, others = case[f"{name}/probability"], []
    for view, one in zip(case["views"], meta["views"], strict=True):
        names = set(one["name"].split(" + "))
        if names == own:
            alone = view
        elif not names & own:
            others.append(view.astype(float))
    rest = [case[f"{name}/rest"]] if f"{name}/rest" in case else list(case.get("blocks", ()))
    found = evidence.signs_of(
        label, network, attribute, alone.astype(float), others, [one.astype(float) for one in rest]
    )
    return {"rows": len(label), "labels": network.shape[1], **vars(found)}


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
    parser.add_argument("--out", type=Path, default=Path("lab/results/evidence/signs.csv"))
    options = parser.parse_args()
    table = table_of(options.cases)
    table.to_csv(options.out, index=False)
    print(f"{table[['seed', 'number']].drop_duplicates().shape[0]} cases, {len(table)} candidates: {options.out}")


if __name__ == "__main__":
    main()
