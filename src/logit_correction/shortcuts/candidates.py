"""The candidates of model selection on new rows, and their training.

What is better on the new rows cannot be known from the training data. So an audit trains several classifiers on it:
ERM, LC by each promising group of views, ERM whose network does not see these views, and LC by other estimators.
"""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
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
from logit_correction.runs.assemble import PreparedRun, train_from_config
from logit_correction.runs.inference import restore_num_threads
from logit_correction.runs.leave_out import build_view_removal, describe_trace
from logit_correction.runs.options import RunConfig, complete_part
from logit_correction.shortcuts.auto import Auto
from logit_correction.shortcuts.conflicts import ConflictFrame, estimate_conflicts
from logit_correction.shortcuts.search import Search
from logit_correction.threads import count_available_cores
from logit_correction.training.display import Display
from logit_correction.view_names import format_training_name, format_view_names

#: Attribute estimators that are always tried -> what they take for the attribute.
ESTIMATORS = {
    "Online": "what a second, biased network learns while LC trains",
    "XRM": "what two networks, each on one half, learn to mistake",
}


@dataclass(frozen=True)
class Candidate:
    """One way to train a classifier on the training data.

    Attributes:
        name: Its name in tables.
        description: What it does, in a phrase.
        config: The training, as ``train`` takes it.
        views: The views that it corrects by, or that its network does not see; none of ERM and of an estimator.
    """

    name: str
    description: str
    config: RunConfig
    views: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainedCandidate:
    """A trained candidate.

    Attributes:
        candidate: What was trained.
        network: Inputs -> logits (B, L), in evaluation mode, on the processor.
        in_distribution_logits: (U, L) of held-out rows like those of training: of the validation rows, and of the test
            rows where these were drawn at random. No label of the test is read.
        seconds: Training time in seconds.
        conflicts: Which training rows it takes for bias-conflicting, see ``estimate_conflicts``; None of ERM.
    """

    candidate: Candidate
    network: nn.Module
    in_distribution_logits: Tensor
    seconds: float
    conflicts: ConflictFrame | None


def build_candidates(prepared_run: PreparedRun) -> list[Candidate]:
    """Return ERM, two candidates for each group of promising views, and the estimators.

    Args:
        prepared_run: The prepared run, after its search for shortcuts.
    """
    estimator = prepared_run.algorithm.attributes
    assert isinstance(estimator, Auto) and estimator.search is not None
    info = prepared_run.table.info

    def correct(name: str, description: str, attributes: Any, views: Sequence[str] = ()) -> Candidate:
        method = complete_part("method", ComponentConfig("LC", {"attributes": attributes}))
        return Candidate(name, description, replace(prepared_run.config, method=method), tuple(views))

    def train_erm(name: str, description: str, hidden_views: Sequence[str] = ()) -> Candidate:
        method = complete_part("method", ComponentConfig(BASELINE))
        training = prepared_run.config.training
        training = replace(training, leave_out=[*training.leave_out, *hidden_views])
        config = replace(prepared_run.config, method=method, training=training)
        return Candidate(name, description, config, tuple(hidden_views))

    candidates = [train_erm(BASELINE, "ordinary training")]
    for views in _list_view_groups(estimator.search, estimator.shortcut):
        attributes = {"name": "Auto", "decided_by": "answers", "shortcut": [*views]}
        name = f"LC by {format_view_names(views, short=True)}"
        candidates.append(correct(name, f"corrects by {format_view_names(views)}", attributes, views))
        hidden = [view for view in views if build_view_removal(view, info) and not describe_trace(view, info)]
        if hidden:
            description = f"ERM that cannot see {format_view_names(hidden)}"
            candidates.append(train_erm(format_training_name(BASELINE, hidden), description, hidden))
    if build_view_removal("spelling", info) is not None:
        description = "ERM to which names that differ in case and blanks are one"
        candidates.append(train_erm(format_training_name(BASELINE, ["spelling"]), description, ["spelling"]))
    for name, attribute in ESTIMATORS.items():
        candidates.append(correct(f"LC by {name}", f"corrects by {attribute}", name))
    return _remove_duplicates(candidates)


def _remove_duplicates(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Keep each training once, and number names that are alike, as the short names of long lists of words may be."""
    unique: list[Candidate] = []
    for candidate in candidates:
        if any(candidate.config == other.config for other in unique):
            continue
        name = candidate.name.replace("`", "")
        num_alike = sum(name == other.name.partition(" (no. ")[0] for other in unique)
        unique.append(replace(candidate, name=f"{name} (no. {num_alike + 1})" if num_alike else name))
    return unique


def _list_view_groups(search: Search, user_views: Sequence[str]) -> list[tuple[str, ...]]:
    """Return groups of views to correct by: those that the user named, and the promising ones.

    The two most informative views are one more group, since there may be two shortcuts. Of texts, the most informative
    words are one more for each view of words. Of groups of the same views the first stays.
    """
    groups = [tuple(user_views)] if user_views else []
    groups += search.select_promising_views()
    best_two = search.rank_informative_views()[:2]
    if len(best_two) == 2:
        groups.append((*best_two[0].views, *best_two[1].views))
    for views in list(groups):
        words = [f"word:{word}" for view in views for word in search.select_words(view)]
        if words:
            groups.append(tuple(dict.fromkeys(words)))
    unique: dict[frozenset[str], tuple[str, ...]] = {}
    for views in groups:
        unique.setdefault(frozenset(views), views)
    return list(unique.values())


def list_held_out_in_distribution_splits(table: DataTable) -> list[str]:
    """Return the splits that nothing is trained on and that count as in-distribution: valid, and a drawn test."""
    return ["valid", *(["test"] if "test" in table.drawn else [])]


def train_candidate(candidate: Candidate, table: DataTable) -> TrainedCandidate:
    """Train a candidate on the training rows of a table, and predict its in-distribution rows.

    Args:
        candidate: What to train.
        table: The data.
    """
    started = time.monotonic()
    with restore_num_threads():
        trainer = train_from_config(candidate.config, table, Display())
        logits = torch.cat([trainer.predict(split) for split in list_held_out_in_distribution_splits(table)])
        conflicts = estimate_conflicts(trainer)
    network = trainer.algorithm.network.cpu().eval()
    return TrainedCandidate(candidate, network, logits, time.monotonic() - started, conflicts)


def train_candidates(candidates: Sequence[Candidate], table: DataTable, display: Display) -> list[TrainedCandidate]:
    """Train all candidates, in parallel where the processor has several cores and the system can fork.

    A candidate that cannot be trained on these rows, for example because a label has two rows, is left out with a
    message.

    Args:
        candidates: ERM first.
        table: The data.
        display: Shows each candidate as it is done.

    Raises:
        InputError: ERM, the first candidate, cannot be trained.
    """
    trained: dict[int, TrainedCandidate] = {}
    started = time.monotonic()
    total = len(candidates)
    for number, get_result in _iterate_results(candidates, table):
        name = candidates[number].name
        try:
            trained[number] = get_result()
        except (InputError, TrainingError) as error:
            display.show_message(f"{name} is left out: {error}")
            continue
        num_done = len(trained)
        seconds_left = (time.monotonic() - started) / num_done * (total - num_done)
        remaining = f", about {seconds_left:.0f} s left" if num_done < total else ""
        display.show_message(f"{name}: {trained[number].seconds:.0f} s ({num_done} of {total}{remaining})")
    if 0 not in trained:
        raise InputError(f"ERM cannot be trained on these rows: train with {format_option('method', 'ERM')} to see why")
    return [trained[number] for number in sorted(trained)]


def _iterate_results(
    candidates: Sequence[Candidate], table: DataTable
) -> Iterator[tuple[int, Callable[[], TrainedCandidate]]]:
    """Yield the number of each candidate as it is done, and a function that returns it or raises what it raised.

    Forked workers share the table in memory. joblib would pickle it for each candidate, and its default backend starts
    new interpreters: with two cores, 23 s instead of 0.4 s before anything is trained.
    """
    uses_gpu = candidates[0].config.training.device != "cpu" and torch.cuda.is_available()
    num_workers = 1 if sys.platform != "linux" or uses_gpu else count_available_cores()  # elsewhere a fork is not safe
    if num_workers == 1:
        for number, candidate in enumerate(candidates):
            yield number, partial(train_candidate, candidate, table)
        return
    with ProcessPoolExecutor(
        min(num_workers, len(candidates)),
        mp_context=multiprocessing.get_context("fork"),
        initializer=_start_worker,
        initargs=(candidates, table),
    ) as pool:
        numbers = {pool.submit(_train_in_worker, number): number for number in range(len(candidates))}
        for future in as_completed(numbers):
            yield numbers[future], partial(_load_worker_result, candidates[numbers[future]], future)


#: What a worker trains; a fork inherits it, so nothing is pickled.
_worker_data: dict[str, Any] = {}


def _start_worker(candidates: Sequence[Candidate], table: DataTable) -> None:
    torch.set_num_threads(1)
    _worker_data.update(candidates=candidates, table=table)


def _train_in_worker(candidate_index: int) -> bytes:
    """Return what was trained as bytes, since tensors in shared memory end with the process that made them."""
    trained = train_candidate(_worker_data["candidates"][candidate_index], _worker_data["table"])
    return pickle.dumps((trained.network, trained.in_distribution_logits, trained.seconds, trained.conflicts))


def _load_worker_result(candidate: Candidate, future: Future[bytes]) -> TrainedCandidate:
    return TrainedCandidate(candidate, *pickle.loads(future.result()))  # bytes that this program has made
