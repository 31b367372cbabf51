"""Is a shortcut found that is spread over many names of a column, such as sites of which each goes with one label?

    python lab/scripts/many_names.py --sites 20 80 240 900

The rows are generated: a column `site`, of which half the names go with each label in 95 % of the rows, beside six
columns of which four tell something of the label. In the control each site has both labels alike. A line says what the
search concludes and how many rows have their attribute right.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from logit_correction import estimate_attributes

#: Rows of a site.
ROWS = 45


def people(sites: int, control: bool, seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return rows, labels and attributes."""
    draw = np.random.default_rng(seed)
    number = ROWS * max(sites, 60)
    site = draw.integers(0, sites, number)
    attribute = site % 2
    label = np.where(draw.random(number) < (0.5 if control else 0.95), attribute, 1 - attribute)
    told = draw.normal(size=(number, 6)) + label[:, None] * np.array([0.6, 0.5, 0.4, 0.3, 0, 0])
    rows = pd.DataFrame(told, columns=list("abcdef")).assign(site=[f"site {one}" for one in site])
    return rows, np.array(["well", "ill"])[label], attribute


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, nargs="+", default=[20, 80, 240, 900])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| sites | rows | verdict, view | attributes right | control |\n|---|---|---|---|---|")
    for sites in options.sites:
        rows, label, attribute = people(sites, False, options.seed)
        other_rows, other_label, _ = people(sites, True, options.seed)
        found = estimate_attributes(rows, label, seed=options.seed, device="cpu", threads=1)
        control = estimate_attributes(other_rows, other_label, seed=options.seed, device="cpu", threads=1)
        agree = (found.attribute == attribute).mean()  # values of the estimate are numbered like the labels
        right = f"{100 * max(agree, 1 - agree):.1f} %" if found.verdict == "shortcut" else ""
        view = found.evidence["view"]
        verdict = found.verdict + (f", {view}" if view else "")
        print(f"| {sites} | {len(rows):,} | {verdict} | {right} | {control.verdict} |", flush=True)


if __name__ == "__main__":
    main()
