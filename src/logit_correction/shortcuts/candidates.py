"""What might be trained instead of ERM: corrected by a view, without what a view sees, corrected by an estimator."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, TrainingError
from logit_correction.finding import BASELINE
from logit_correction.formatting import format_option
from logit_correction.registry import ComponentConfig
from logit_correction.runs.assemble import PreparedRun, build_training_rows
from logit_correction.runs.inference import keep_num_threads
from logit_correction.runs.leave_out import build_view_removal
from logit_correction.runs.model import build_algorithm
from logit_correction.runs.options import RunConfig, complete_part
from logit_correction.shortcuts.auto import Auto
from logit_correction.shortcuts.search import Search
from logit_correction.threads import count_available_cores
from logit_correction.training.display import Display
from logit_correction.training.fit import Trainer
from logit_correction.view_names import name_training, name_views

#: Ways to estimate the attribute that are tried whatever the views show -> what they take for it.
ESTIMATORS = {
    "Online": "what a second, biased network learns while LC trains",
    "XRM": "what two networks, each on one half, learn to mistake",
}


@dataclass(frozen=True)
class Candidate:
    """One way to train a classifier on the same rows.

    Attributes:
        name: What tables call it; ``does``, what it does.
        config: What trains it, as ``train`` takes it.
        views: The views that it corrects by, or leaves out; none of ERM and of an estimator.
    """

    name: str
    does: str
    config: RunConfig
    views: tuple[str, ...] = ()


def build_candidates(built: PreparedRun) -> list[Candidate]:
    """Return ERM, two for each group of promising views, and the estimators; ``built`` is after its search."""
    config, table, estimator = built.config, built.table, built.algorithm.attributes
    assert isinstance(estimator, Auto) and estimator.search is not None
    found: list[Candidate] = []

    def add(name: str, does: str, attributes: Any = None, views: Sequence[str] = (), leave_out: bool = False) -> None:
        """Add a training, each once, under a name of its own: long lists of words may begin alike."""
        method = ComponentConfig("LC", {"attributes": attributes}) if attributes else ComponentConfig(BASELINE)
        training = replace(config.training, leave_out=[*config.training.leave_out, *(views if leave_out else ())])
        own, name = replace(config, method=complete_part("method", method), training=training), name.replace("`", "")
        if all(own != other.config for other in found):
            alike = sum(name == other.name.partition(" (no. ")[0] for other in found)
            found.append(Candidate(f"{name} (no. {alike + 1})" if alike else name, does, own, tuple(views)))

    add(BASELINE, "ordinary training")
    auto = {"name": "Auto", "decided_by": "answers"}
    for names in _groups_of(estimator.search, estimator.shortcut):
        add(
            f"LC by {name_views(names, short=True)}",
            f"corrects by {name_views(names)}",
            {**auto, "shortcut": [*names]},
            names,
        )
        if gone := [one for one in names if build_view_removal(one, table.info) is not None]:
            add(name_training(BASELINE, gone), f"ERM that cannot see {name_views(gone)}", views=gone, leave_out=True)
    if build_view_removal("spelling", table.info) is not None:
        does = "ERM to which names that differ in case and blanks are one"
        add(name_training(BASELINE, ["spelling"]), does, views=["spelling"], leave_out=True)
    for name, told in ESTIMATORS.items():
        add(f"LC by {name}", f"corrects by {told}", name)
    return found


def _groups_of(search: Search, named: Sequence[str]) -> list[list[str]]:
    """Return the views to try, each group together: those that a person ``named``, and the promising ones.

    The two that tell most are one more group, since there may be two shortcuts. Of texts, the words that tell most are
    one more for each view of words.
    """
    groups = [list(named)] if named else []
    groups += [[*names] for names in search.promising()]
    two = search.telling()[:2]
    groups += [[name for look in two for name in look.views]] if len(two) == 2 else []
    for names in list(groups):
        words = [f"word:{word}" for name in names for word in search.select_words(name)]
        groups += [list(dict.fromkeys(words))] if words else []
    return [list(one) for one in dict.fromkeys(map(tuple, groups))]


@dataclass(frozen=True)
class TrainedCandidate:
    """A candidate that was trained.

    Attributes:
        candidate: What it is.
        network: Inputs -> logits (B, L), in evaluation mode, on the processor.
        usual: (n, L) logits of rows like those of training that it was not trained on: of the validation rows, and
            of the test rows where these were drawn as they were. No label of the test is read.
        seconds: That its training took.
    """

    candidate: Candidate
    network: nn.Module
    usual: Tensor
    seconds: float


def list_in_distribution_splits(table: DataTable) -> list[str]:
    """Return the splits whose rows are like those of training, and were not trained on."""
    return ["valid", *(["test"] if "test" in table.drawn else [])]


def fit_config(config: RunConfig, table: DataTable, display: Display) -> Trainer:
    """Train a complete config on a table, and take the weights that `train` would keep."""
    algorithm = build_algorithm(config, table.info)
    algorithm.setup(build_training_rows(table, algorithm, config.training.epochs or 0))
    fit = PreparedRun(config, table, algorithm).fit(display)
    fit.run()
    if (best := fit.progress.best.get(fit.rule.name)) is not None:
        algorithm.load_state_dict(best.state)
    return fit


def train_candidate(candidate: Candidate, table: DataTable) -> TrainedCandidate:
    """Train a candidate."""
    started = time.monotonic()
    with keep_num_threads():
        fit = fit_config(candidate.config, table, Display())
        usual = torch.cat([fit.predict(split) for split in list_in_distribution_splits(table)])
    return TrainedCandidate(candidate, fit.algorithm.network.cpu().eval(), usual, time.monotonic() - started)


#: What forked processes find in the memory of the process that they come from.
_SHARED: dict[str, tuple[Sequence[Candidate], DataTable]] = {}


def _of_shared(number: int) -> bytes:
    """Return what was trained as bytes: tensors that processes share end with the process that made them."""
    torch.set_num_threads(1)
    candidates, table = _SHARED["now"]
    found = train_candidate(candidates[number], table)
    return pickle.dumps((found.network, found.usual, found.seconds))


def _result(candidate: Candidate, future: Future[bytes]) -> TrainedCandidate:
    return TrainedCandidate(candidate, *pickle.loads(future.result()))  # which this program has made


def train_candidates(candidates: Sequence[Candidate], table: DataTable, display: Display) -> list[TrainedCandidate]:
    """Train all candidates, side by side where the processor has several cores and the system can fork.

    A candidate that cannot be trained on these rows, such as by a label of two rows, is left out, and told.
    """
    found = dict[int, TrainedCandidate]()
    cores = count_available_cores() if sys.platform == "linux" else 1  # elsewhere a fork is not safe
    on_processor = candidates[0].config.training.device == "cpu" or not torch.cuda.is_available()
    started, total = time.monotonic(), len(candidates)

    def told(number: int, result: Callable[[], TrainedCandidate]) -> None:
        try:
            found[number] = result()
        except (InputError, TrainingError) as error:
            display.show_message(f"{candidates[number].name} is left out: {error}")
            return
        passed, done = time.monotonic() - started, len(found)
        left = f", about {passed / done * (total - done):.0f} s left" if done < total else ""
        display.show_message(f"{candidates[number].name}: {found[number].seconds:.0f} s ({done} of {total}{left})")

    if cores == 1 or not on_processor:
        for number, candidate in enumerate(candidates):
            told(number, partial(train_candidate, candidate, table))
    else:
        _SHARED["now"] = candidates, table
        try:
            with ProcessPoolExecutor(min(cores, total), mp_context=multiprocessing.get_context("fork")) as pool:
                waiting = {pool.submit(_of_shared, number): number for number in range(total)}
                for future in as_completed(waiting):
                    told(waiting[future], partial(_result, candidates[waiting[future]], future))
        finally:
            _SHARED.clear()
    if 0 not in found:
        raise InputError(f"ERM cannot be trained on these rows: train with {format_option('method', 'ERM')} to see why")
    return [found[number] for number in sorted(found)]
