"""How likely a row conflicts, by a view alone: from probabilities of the label to probabilities of the attribute."""

from __future__ import annotations

import torch
from torch import Tensor


def conflict_probability(seen: Tensor, label: Tensor) -> Tensor:
    """Return how likely each row's attribute goes with another label than its own, (n,) float64.

    A head on a view predicts the label, P(y | v) = sum over a of P(y | a) P(a | v), as far as the view tells the
    attribute. P(y | a) is counted by the confident joint (Northcutt, Jiang and Chuang, 2021): of the rows of which the
    head is as sure as in the mean of that label. The equation is then solved for P(a | v), and the row's own label is
    taken for evidence: P(a | v, y) is in proportion to P(a | v) P(y | a).

    Args:
        seen: (n, L) held-out class probabilities of a head on the view.
        label: (n,) long.

    >>> seen = torch.tensor([[0.95, 0.05]] * 19 + [[0.05, 0.95]] * 19 + [[0.95, 0.05], [0.05, 0.95]])
    >>> label = torch.tensor([0] * 19 + [1] * 19 + [1, 0])
    >>> [round(float(p), 2) for p in conflict_probability(seen, label)[[0, -1]]]
    [0.0, 1.0]
    """
    num_labels, seen = seen.shape[1], seen.double()
    of_label = torch.nn.functional.one_hot(label, num_labels).double()
    typical = (seen * of_label).sum(dim=0) / of_label.sum(dim=0).clamp_min(1)
    confident = seen.where(seen >= typical, -torch.ones((), dtype=torch.float64))
    greatest, attribute = confident.max(dim=1)
    told = greatest >= 0
    cell = attribute[told] * num_labels + label[told]
    joint = torch.bincount(cell, minlength=num_labels**2).view(num_labels, num_labels).double() + 1e-3
    given = joint / joint.sum(dim=1, keepdim=True)  # P(y | a), a row for each a
    solved = torch.linalg.lstsq(given.t(), seen.t()).solution.t().clamp_min(0)
    solved = solved / solved.sum(dim=1, keepdim=True).clamp_min(1e-12)
    posterior = solved * given[:, label].t()
    posterior = posterior / posterior.sum(dim=1, keepdim=True).clamp_min(1e-12)
    return 1 - posterior.gather(1, label.unsqueeze(1)).squeeze(1)
