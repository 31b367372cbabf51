"""What an audit trains: ordinary networks in folds to find a shortcut, and LC in folds to see what it would bring."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from logit_correction.attributes.auto import Auto
from logit_correction.config import RunConfig
from logit_correction.data.table import DataTable
from logit_correction.runs.assemble import build_algorithm
from logit_correction.runs.options import complete
from logit_correction.runs.train import Built, prepare, training_rows
from logit_correction.seeds import make_generator
from logit_correction.training.display import Display

#: Parts of the training rows, each judged by an LC that was trained on the others.
FOLDS = 3

#: With more training rows than this one part is enough, and costs a third.
MANY_ROWS = 10_000


@dataclass(frozen=True)
class ShortcutSearch:
    """The search of an audit: all that may be refused has been, and nothing was written yet.

    Attributes:
        built: What it looks at: the data, and the config with nothing left open.
        estimator: Holds, after ``run``, the evidence and, for a shortcut, the attribute of every training row.
        shortcut: Views that a person calls a shortcut, whatever the search concludes.
    """

    built: Built
    estimator: Auto
    shortcut: Sequence[str]

    def run(self, display: Display) -> None:
        """Look for a shortcut, and estimate the attribute of all training rows where there is one."""
        fit = self.built.fit(display)
        with display:
            fit.run(estimator_only=True)
            if self.shortcut:
                self.estimator.insist(self.shortcut)

    @property
    def view(self) -> str | None:
        """The views of a shortcut, joined by " + "; None where there is none."""
        assert self.estimator.evidence is not None
        return " + ".join(self.estimator.evidence["views"]) or None

    @property
    def examined(self) -> str | None:
        """The run or the file of predictions that was examined; None where the audit trained networks of its own."""
        return self.estimator.run or self.estimator.predictions


def prepared_search(config: RunConfig, shortcut: Sequence[str], display: Display) -> ShortcutSearch:
    """Read the data and build what searches.

    Args:
        config: With the method ``LC`` and the estimator ``Auto``.
        shortcut: Views that a person calls a shortcut, whatever the search concludes.
        display: Told of long work.

    Raises:
        InputError: Something given is wrong.
    """
    built = prepare(complete(config), display)
    estimator = built.algorithm.attributes
    assert isinstance(estimator, Auto)
    estimator.check_views(shortcut)
    if built.chosen:
        display.say(built.chosen)
    return ShortcutSearch(built, estimator, shortcut)


def expected_of_lc(config: RunConfig, table: DataTable, new_display: Callable[[], Display]) -> Tensor:
    """Return what LC with the estimated attributes says of training rows that it was not trained on.

    Args:
        config: LC with the attributes of the audit's own file of rows.
        table: The data.
        new_display: Shows the progress of one training.

    Returns:
        (N, L) class probabilities; NaN of rows that were not judged.
    """
    config = complete(replace(config, training=replace(config.training, selection="last", also_select=[])))
    found = torch.full((len(table.split["train"]), len(table.label_names)), torch.nan)
    for number, (learned, judged) in enumerate(_parts(len(found), config.training.seed)):
        rows = table.split["train"]
        part = replace(table, split={**table.split, "train": rows[learned], "test": rows[judged]})
        display = new_display()
        display.say(f"what LC would bring: training {number + 1}")
        algorithm = build_algorithm(config, part.info)
        algorithm.setup(training_rows(part, algorithm, config.training.epochs or 0, None))
        fit = Built(config, part, algorithm, "").fit(display)
        with display:
            fit.run()
            found[judged] = fit.predict("test").softmax(dim=1)
    return found


def _parts(count: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the rows to learn from and the rows to judge of each part."""
    order = torch.randperm(count, generator=make_generator(seed, "folds of the audit"))
    for number in range(1 if count > MANY_ROWS else FOLDS):
        judged = order[number::FOLDS].sort().values
        learned = torch.ones(count, dtype=torch.bool)
        learned[judged] = False
        yield learned.nonzero().squeeze(1), judged
