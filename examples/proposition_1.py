"""Proposition 1 by computation: logit correction finds the group-balanced Bayes rule, cross-entropy does not.

An input x = (z, a) is a number z and an attribute a that shows in x, so each x carries exactly one attribute
value: the condition under which Proposition 1 leads to eq. 7. P(z | y, a) and the group prior are known.

    python examples/proposition_1.py figure.png

Without a file it only prints the accuracies of the rules.
"""

from __future__ import annotations

import sys

import torch
from matplotlib import colors, pyplot

from logit_correction.functional import logit_corrected_cross_entropy

PRIOR = torch.tensor([[0.38, 0.01, 0.02], [0.01, 0.28, 0.01], [0.005, 0.02, 0.265]], dtype=torch.float64)
GRID = torch.linspace(-6.0, 6.0, 400, dtype=torch.float64)
RULES = ("Bayes rule for\nbalanced groups", "minimiser of the\nLC loss", "minimiser of\ncross-entropy")
COLOURS = ("#0072B2", "#E69F00", "#009E73")
Solution = dict[str, tuple[torch.Tensor, torch.Tensor]]


def density() -> torch.Tensor:
    """P(z | y, a) as (Z, K, L): bell curves around -2.6, 0 and 2.6, shifted a little by the attribute."""
    centre = 2.6 * torch.arange(-1, 2) + 0.4 * torch.arange(-1, 2)[:, None]
    weight = torch.exp(-0.5 * (GRID[:, None, None] - centre) ** 2)
    return weight / weight.sum(dim=0)


def minimise(log_prior: torch.Tensor) -> torch.Tensor:
    """Logits (Z, K, L), linear in z for each a, that minimise the loss over the whole distribution."""
    line = torch.zeros(2, 3, 3, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([line], max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe")
    mass = (density() * PRIOR.T).flatten()  # P(z, a, y)
    label = torch.arange(3).repeat(3 * len(GRID))
    correction = log_prior.T.repeat_interleave(3, dim=0).repeat(len(GRID), 1)

    def closure() -> torch.Tensor:
        logits = (GRID[:, None, None] * line[0] + line[1]).flatten(0, 1).repeat_interleave(3, dim=0)
        loss = (logit_corrected_cross_entropy(logits, label, correction) * mass).sum()
        (line.grad,) = torch.autograd.grad(loss, line)
        return loss

    optimiser.step(closure)
    return (GRID[:, None, None] * line[0] + line[1]).detach()


def solve() -> Solution:
    """Predictions (Z, K) and group accuracies (K, L) of the three rules."""
    chosen = [score.argmax(dim=2) for score in (density(), minimise(PRIOR.log()), minimise(0 * PRIOR))]
    right = [(density() * torch.nn.functional.one_hot(choice, 3)).sum(dim=0) for choice in chosen]
    return dict(zip(RULES, zip(chosen, right, strict=True), strict=True))


def draw(solution: Solution, path: str) -> None:
    """A panel for each attribute value: the training distribution, and below it what each rule predicts."""
    figure = pyplot.figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True, sharey="row", height_ratios=(3, 2))
    for a, (top, bottom) in enumerate(axes.T):
        for y, colour in enumerate(COLOURS):
            curve = density()[:, a, y] * PRIOR[y, a] / PRIOR[:, a].sum()
            top.semilogy(GRID.numpy(), curve.numpy(), color=colour, linewidth=2, label=f"label {y}")
        top.set(title=f"attribute {a}", ylim=(1e-6, 0.03), ylabel="P(z, y | a)" if a == 0 else None)
        strips = torch.stack([solution[rule][0][:, a] for rule in RULES]).numpy()
        style = {"aspect": "auto", "extent": (-6, 6, 2.5, -0.5), "interpolation": "nearest"}
        bottom.imshow(strips, cmap=colors.ListedColormap(COLOURS), vmin=0, vmax=2, **style)
        bottom.set(xlabel="z", xticks=range(-4, 5, 2), yticks=range(3), yticklabels=RULES)
        bottom.hlines((0.5, 1.5), -6, 6, color="white", linewidth=5)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    solution = solve()
    for rule, (chosen, accuracy) in solution.items():
        agreement = float((chosen == solution[RULES[0]][0]).double().mean())
        figures = f"group-balanced {accuracy.mean():.3f}, worst group {accuracy.min():.3f}"
        print(f"{rule.replace(chr(10), ' '):32} agrees with the Bayes rule {agreement:.3f}, {figures}")
    if len(sys.argv) > 1:
        draw(solution, sys.argv[1])
