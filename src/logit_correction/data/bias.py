"""From labels, a correlation and a minority ratio to attributes: the shortcut that a data set is given."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from logit_correction.correlation import Correlation
from logit_correction.errors import InputError


def named_correlation(kind: str | Sequence[Sequence[int]], num_labels: int) -> Correlation:
    """Return the correlation that a kind of the paper's section 4.2 names, or that a table spells out.

    - ``one-to-one``: label j goes with attribute value j.
    - ``many-to-one``: labels 0 and 1 share attribute value 0, label j > 1 goes with j - 1.
    - ``one-to-many``: label 0 goes with attribute values 0 and 1, label j > 0 with j + 1.
    - ``many-to-many``: labels 0 and 1 both go with values 0 and 1, label j > 1 with j.
    - a table: row y lists the attribute values of label y.

    Raises:
        InputError: If the kind is unknown or the table has not one row per label.
    """
    rest = range(2, num_labels)
    tables: dict[str, list[list[int]]] = {
        "one-to-one": [[j] for j in range(num_labels)],
        "many-to-one": [[0], [0], *([j - 1] for j in rest)],
        "one-to-many": [[0, 1], *([j + 1] for j in range(1, num_labels))],
        "many-to-many": [[0, 1], [0, 1], *([j] for j in rest)],
    }
    if isinstance(kind, str) and kind not in tables:
        raise InputError(f"correlation {kind!r} is unknown: give one of {', '.join(tables)}, or a table: [[0],[1]]")
    table = tables[kind] if isinstance(kind, str) else kind
    if len(table) != num_labels:
        raise InputError(f"the correlation has {len(table)} rows: give one for each of the {num_labels} labels")
    try:
        return Correlation.from_table(table)
    except ValueError as error:
        raise InputError(f"correlation table: {error}") from error


def check_ratio(name: str, ratio: float) -> float:
    """Raise ``InputError`` unless ``ratio`` lies in (0, 1]; return it."""
    if not 0 < ratio <= 1:
        raise InputError(f"{name} is {ratio}, but must lie in (0, 1]: a fraction, 0.005 for half a per cent")
    return float(ratio)


def ratios_of_splits(minority_ratio: float, valid: str) -> dict[str, float]:
    """Return the minority ratio of each split: validation is ``biased`` as training or ``balanced``, as the test is."""
    train = check_ratio("minority_ratio", minority_ratio)
    if valid not in ("biased", "balanced"):
        raise InputError(f"valid {valid!r} is unknown: give biased or balanced")
    return {"train": train, "valid": 1.0 if valid == "balanced" else train, "test": 1.0}


def names_of_values(correlation: Correlation, known: Sequence[str], kind: str) -> list[str]:
    """Return the names of a correlation's attribute values, the first of those that are known."""
    if correlation.num_attributes > len(known):
        raise InputError(f"the correlation names {correlation.num_attributes} {kind}, but there are only {len(known)}")
    return list(known)[: correlation.num_attributes]


def draw_attributes(
    label: Tensor, correlation: Correlation, minority_ratio: float, generator: torch.Generator
) -> Tensor:
    """Draw an attribute for every row, as Colored MNIST does.

    A row follows the correlation with probability ``1 - minority_ratio``; otherwise its attribute is drawn
    uniformly from all K values. So (K - 1) / K of the ratio ends up bias-conflicting under a one-to-one
    correlation (247.5 of 55,000 rows expected at 0.005; the published split has 249), and a ratio of 1
    removes the correlation altogether.
    """
    aligned = torch.multinomial(correlation.weights[label].float(), 1, generator=generator).squeeze(1)
    anything = torch.randint(correlation.num_attributes, label.shape, generator=generator)
    free = torch.rand(label.shape, generator=generator) < minority_ratio
    return torch.where(free, anything, aligned)
