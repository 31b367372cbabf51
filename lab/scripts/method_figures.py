"""Draws the figures of docs/method.md: the two networks, the prior as a heat map, and logit correction on four points.

python lab/scripts/method_figures.py docs/images
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from matplotlib import colors, pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from logit_correction.data.digits import Digits
from logit_correction.functional import count_prior, logit_corrected_cross_entropy

BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#5d6673"
#: P(y, a) of the four points: rows are labels, columns attribute values.
PRIOR = torch.tensor([[0.45, 0.05], [0.05, 0.45]], dtype=torch.float64)
#: Places that the number z of the four points is computed at.
Z = torch.linspace(-6.0, 6.0, 601, dtype=torch.float64)


def networks() -> Figure:
    """The paper's two networks, and what flows between them."""
    figure = pyplot.figure(figsize=(7.2, 3.1), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(0, 10.4), ylim=(0, 4.6))
    axes.axis("off")

    def box(x: float, y: float, text: str, colour: str, width: float = 2.1) -> None:
        style = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": colour, "linewidth": 1.6}
        axes.text(x + width / 2, y, text, ha="center", va="center", fontsize=9, bbox=style)

    def arrow(start: tuple[float, float], end: tuple[float, float], dashed: bool = False) -> None:
        look = {"arrowstyle": "-|>", "color": GREY, "linewidth": 1.2, "linestyle": "--" if dashed else "-"}
        axes.annotate("", xy=end, xytext=start, arrowprops=look)

    box(0.0, 2.3, "row x\nwith label y", GREY, 1.5)
    box(2.3, 3.7, "biased network\ntrusts what is easy", ORANGE)
    box(5.3, 3.7, "attribute $a_x$:\nits most probable\nvalue", ORANGE, 1.9)
    box(8.2, 3.7, "group prior\nP(y, a)", ORANGE, 1.7)
    box(2.3, 0.9, "robust network\npredicts", BLUE)
    box(5.3, 0.9, "logits f(x)", BLUE, 1.9)
    box(8.2, 0.9, "cross-entropy of\nf(x) + ln P(·, $a_x$)", BLUE, 1.7)
    arrow((1.4, 2.7), (2.4, 3.4))
    arrow((1.4, 1.9), (2.6, 1.2))
    arrow((4.3, 3.7), (5.4, 3.7))
    arrow((7.1, 3.7), (8.45, 3.7))
    arrow((4.1, 0.9), (5.7, 0.9))
    arrow((6.8, 0.9), (8.2, 0.9))
    arrow((9.05, 3.2), (9.05, 1.4), dashed=True)
    arrow((6.6, 3.0), (8.3, 1.4), dashed=True)
    axes.text(7.1, 2.1, "no gradient flows back", ha="right", va="center", fontsize=8.5, color=GREY)
    axes.text(6.25, 0.2, "in use: these logits alone", ha="center", fontsize=8.5, color=GREY)
    return figure


def prior() -> Figure:
    """P(y, a) of the coloured digits, and what the correction adds to the logits of a red row."""
    table = Digits(minority_ratio=0.05).build()
    rows = table.split["train"]
    joint = count_prior(table.label[rows], table.attribute[rows], num_labels=10, num_attributes=10, smoothing=0.3)
    figure = pyplot.figure(figsize=(7.6, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    shown = left.imshow(joint.numpy(), norm=colors.LogNorm(), cmap="Blues")
    figure.colorbar(shown, ax=left, label="P(y, a)", shrink=0.85)
    left.set(title="the group prior", xlabel="attribute a (colour)", ylabel="label y (digit)")
    left.set(xticks=range(10), yticks=range(10))
    right.barh(range(10), joint[:, 3].log().numpy(), color=[ORANGE if y == 3 else BLUE for y in range(10)])
    right.invert_yaxis()
    right.set(title="added to a row of colour 3", xlabel="ln P(y, 3)", yticks=range(10))
    right.spines[["top", "right"]].set_visible(False)
    return figure


def thresholds() -> dict[str, tuple[float, float]]:
    """Where each loss puts the border between the labels, for attribute 0 and 1.

    An input is (z, a). z is normal with mean -1 under label 0 and 1 under label 1, whatever a is. Logits are linear in
    z and free for each a, and the loss is minimized over the whole distribution.
    """
    density = torch.exp(-0.5 * (Z[:, None] - torch.tensor([-1.0, 1.0])) ** 2)
    mass = (density / density.sum(0))[:, :, None] * PRIOR  # P(z, y, a)
    found = {}
    for name, log_prior in (("cross-entropy", 0 * PRIOR), ("logit correction", PRIOR.log())):
        slope, offset = torch.zeros((), dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
        weights = [slope.requires_grad_(), offset.requires_grad_()]
        optimizer = torch.optim.LBFGS(weights, max_iter=200, tolerance_grad=1e-12, line_search_fn="strong_wolfe")
        optimizer.step(lambda w=weights, p=log_prior, o=optimizer: _loss(w, p, mass, o))
        border = (-offset / slope).detach()
        found[name] = (float(border[0]), float(border[1]))
    return found


def _loss(
    weights: list[torch.Tensor], log_prior: torch.Tensor, mass: torch.Tensor, optimizer: torch.optim.Optimizer
) -> torch.Tensor:
    """The loss over the whole distribution, with its gradient in the weights."""
    optimizer.zero_grad()
    slope, offset = weights
    loss = torch.zeros((), dtype=torch.float64)
    for a in (0, 1):
        score = slope * Z + offset[a]
        logits = torch.stack([-score / 2, score / 2], dim=1)
        added = log_prior[:, a].expand_as(logits)
        for y in (0, 1):
            label = torch.full((len(Z),), y)
            loss = loss + (mass[:, y, a] * logit_corrected_cross_entropy(logits, label, added)).sum()
    loss.backward()
    return loss


def four_points(found: dict[str, tuple[float, float]]) -> Figure:
    """The four groups as points, their size their frequency, and the border that each loss draws between the labels."""
    figure = pyplot.figure(figsize=(7.2, 2.9), layout="constrained")
    for axes, (name, borders) in zip(figure.subplots(1, 2, sharey=True), found.items(), strict=True):
        for y, colour in enumerate((BLUE, ORANGE)):
            for a in (0, 1):
                axes.scatter(2 * y - 1, a, s=900 * float(PRIOR[y, a]) + 30, color=colour, zorder=3)
                text = f"{100 * float(PRIOR[y, a]):.0f} %"
                axes.annotate(text, (2 * y - 1, a), xytext=(0, 15), textcoords="offset points", ha="center", fontsize=8)
        for a, border in enumerate(borders):
            axes.axvspan(-3, border, ymin=a / 2, ymax=(a + 1) / 2, color=BLUE, alpha=0.12, linewidth=0)
            axes.axvspan(border, 3, ymin=a / 2, ymax=(a + 1) / 2, color=ORANGE, alpha=0.12, linewidth=0)
        _label(axes, name)
    return figure


def _label(axes: Axes, name: str) -> None:
    axes.set(title=name, xlim=(-3, 3), ylim=(-0.5, 1.5), xlabel="z: what the label is to be read from")
    axes.set(yticks=(0, 1), yticklabels=("attribute 0", "attribute 1"))


def main(folder: Path) -> None:
    """Write the figures as SVG."""
    found = thresholds()
    for name, borders in found.items():
        print(f"{name}: border at z = {borders[0]:.2f} for attribute 0, {borders[1]:.2f} for attribute 1")
    style = {"svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": "logit-correction"}
    with pyplot.rc_context(style):
        drawn = {"networks": networks(), "prior": prior(), "four-points": four_points(found)}
        for name, figure in drawn.items():
            figure.savefig(folder / f"method-{name}.svg", metadata={"Date": None}, facecolor="white")
            pyplot.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
