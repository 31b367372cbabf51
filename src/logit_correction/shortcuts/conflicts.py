"""How rows that a correction takes for bias-conflicting differ from the bias-aligned rows of the same label.

A correction is called by its views or its estimator, such as ``LC by XRM``. From that nobody can see what ERM gets
wrong. Images of both sides, words, and conditions on columns show it, so that a person can name it: blond men were
taken for not blond. All rows are training rows, whose labels are known; which of them conflict is estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import starmap
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.data.image_files import read_picture
from logit_correction.data.table import DataTable
from logit_correction.pages.plots import encode_picture
from logit_correction.shortcuts.heads import limit_to_one_thread
from logit_correction.shortcuts.search import Search
from logit_correction.shortcuts.summaries import Contrast, ContrastImage, ContrastRow
from logit_correction.shortcuts.terms import format_term_rows, select_distinct_terms
from logit_correction.training.fit import Trainer
from logit_correction.types import ViewInputs
from logit_correction.view_names import RICH, ViewName
from logit_correction.views.base import available_views
from logit_correction.views.tables import find_missing_values, find_most_frequent_categories, is_numeric
from logit_correction.views.texts import TermView

#: Labels that are shown: those of most bias-conflicting rows.
MAX_LABELS = 6

#: Images of a side.
MAX_IMAGES = 6

#: Rows of the clearest score among which the images of a side are chosen, at most; also the bias-aligned rows that they
#: are compared with; and the nearest of these that count.
MAX_COMPARED_ROWS = 1000
NUM_NEAREST = 10

#: Families of views of fine detail, which is lost where an image is made small; and the side of the crop that shows it.
FINE_FAMILIES = {"file", "spectrum", "stripes", "texture"}
CROP_SIDE = 64

#: Images of at most so many pixels are shown whole: a page shows each of their pixels.
MAX_WHOLE_SIDE = 160

#: Families of views of terms: those of any text first, by which rows are described that no narrower view explains.
TERM_FAMILIES = ("word", "characters", "opening", "closing")

#: Training rows whose words and columns are compared at most; rows at even distances stand for the others.
MAX_ROWS = 10_000

#: Words of each label, conditions of each label, and names of a column that a condition can name.
MAX_WORDS = 4
MAX_CONDITIONS = 2
MAX_NAMES = 20

#: Rows that a condition holds for, at least, and bias-conflicting rows of a label that are described.
MIN_ROWS = 5

#: Chance that words or conditions are shown of a label whose bias-conflicting rows were drawn at random.
ERROR_LEVEL = 0.05

#: Least difference between the shares of both sides that have a word or meet a condition.
MIN_SHARE_DIFFERENCE = 0.1

#: Least impurity, from 0 to 0.5, that a split must remove: of several conditions that say the same, the simpler.
MIN_IMPURITY_REMOVED = 0.05

#: Least area under the ROC curve by which a view is said to explain which rows conflict.
MIN_EXPLAINING_AUC = 0.8

#: From values of a column to their texts.
ValueFormatter: TypeAlias = Callable[[NDArray[Any]], list[str]]

#: Rows with columns row, label, attribute, conflicting and score, of all training rows in their order.
ConflictFrame: TypeAlias = pd.DataFrame


def estimate_conflicts(trainer: Trainer) -> ConflictFrame | None:
    """Return which training rows a trained method takes for bias-conflicting; None of one that corrects nothing.

    Args:
        trainer: The training loop, at its end.

    Returns:
        A line for each training row: ``row``, its number in the table; ``label`` and ``attribute``, by name;
        ``conflicting``; and ``score``, the probability of that, from 0 to 1.
    """
    estimator = trainer.algorithm.attributes
    if estimator is None or estimator.has_abstained:
        return None
    if estimator.is_static:
        attribute = estimator.row_attribute.cpu()
        posterior = estimator.row_posterior
    else:
        randomness = trainer.algorithm.randomness
        posterior = trainer.predict("train", lambda batch: estimator(batch, 0.0, randomness).posterior)
        attribute = posterior.argmax(dim=1)
    table = trainer.table
    rows = table.split["train"]
    label = table.label[rows]
    is_conflicting = estimator.correlation.is_minority(label, attribute)
    score = is_conflicting.double()
    if posterior is not None:
        posterior = posterior.double().cpu()
        of_conflicting = posterior * estimator.correlation.minority_groups()[label]
        score = of_conflicting.sum(dim=1) / posterior.sum(dim=1).clamp_min(1e-12)
    names = np.asarray(estimator.attribute_names or table.label_names, dtype=object)
    return pd.DataFrame(
        {
            "row": rows.numpy(),
            "label": np.asarray(table.label_names, dtype=object)[label.numpy()],
            "attribute": names[attribute.numpy()],
            "conflicting": is_conflicting.numpy(),
            "score": score.numpy(),
        }
    )


def find_explaining_views(search: Search, conflicts: ConflictFrame, views: tuple[str, ...]) -> tuple[str, ...]:
    """Return the narrow views whose probe contradicts the label on just the rows that conflict; none if no views do.

    They name what was found by an estimator without views, such as ``XRM``, or by a view of rich statistics, such as
    ``texture``, whose own name does not show which feature counts.
    Rows are compared within a label: where rows of one label conflict more often, any probe that rarely predicts this
    label would seem to explain it.

    Args:
        search: The search in the training rows; its probes were not trained on the rows that they predict.
        conflicts: From ``estimate_conflicts``.
        views: That are corrected by; narrow ones need no other name.
    """
    from sklearn.metrics import roc_auc_score

    is_conflicting = conflicts["conflicting"].to_numpy()[search.held_out.rows.numpy()]
    is_narrow = views in search.evidence and search.evidence[views].breadth < RICH
    label = search.label.numpy()
    masks = [label == number for number in np.unique(label)]
    masks = [mask for mask in masks if len(np.unique(is_conflicting[mask])) == 2]
    if is_narrow or search.held_out.split != "train" or not masks:
        return ()
    areas = {}
    for evidence in search.rank_informative_views():
        if evidence.breadth < RICH:
            contradiction = -search.predictions[evidence.views].numpy()[np.arange(len(label)), label]
            areas[evidence.views] = np.mean(
                [roc_auc_score(is_conflicting[mask], contradiction[mask]) for mask in masks]
            )
    explained_by = max(areas, key=areas.__getitem__, default=())
    is_explained = explained_by and areas[explained_by] >= MIN_EXPLAINING_AUC
    return explained_by if is_explained and not {*explained_by} & {*views} else ()


class ConflictDescriber:
    """Describes which training rows conflict, for several corrections of the same data."""

    def __init__(self, table: DataTable) -> None:
        """Store the data; words and columns are read when they are first needed."""
        self._table = table
        rows = table.split["train"]
        self._sample = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MAX_ROWS)).astype(np.int64))
        self._rows = rows[self._sample]
        self._terms: dict[str, tuple[TermView, NDArray[np.bool_]]] = {}

    def _fit_terms(self, family: str) -> tuple[TermView, NDArray[np.bool_]]:
        """Return a view of the sample's texts with its terms, and which rows have them (n, F)."""
        if family not in self._terms:
            (view,) = available_views(self._inputs, (family,))
            assert isinstance(view, TermView)
            view.fit(self._inputs)
            self._terms[family] = view, view.features(self._inputs).numpy()[:, : len(view.terms)] > 0
        return self._terms[family]

    @cached_property
    def _inputs(self) -> ViewInputs:
        return self._table.view_inputs("train").take(torch.from_numpy(self._sample))

    @cached_property
    def _questions(self) -> list[tuple[str, NDArray[np.float64]]]:
        """What a condition can ask of the rows of the sample: columns, each with numbers or answers (n,)."""
        return [
            (column, answers)
            for column, values in self._table.columns.items()
            for answers in _list_answers(np.asarray(values)[self._rows])
        ]

    def describe(self, conflicts: ConflictFrame, views: Sequence[str] = ()) -> tuple[Contrast, ...]:
        """Return images of both sides, or words or conditions by which bias-conflicting rows of a label differ most.

        Args:
            conflicts: From ``estimate_conflicts``; rows whose ``conflicting`` is missing count on neither side.
            views: That are corrected by; of fine ones, images are cropped.
        """
        if self._table.texts is None and not self._table.columns:
            contrast = build_image_contrast(self._table, conflicts, views)
            return (contrast,) if contrast else ()
        if self._table.texts is None:
            rows = self._describe_labels(conflicts)
            return (Contrast("conflicts", ", ".join(views), tuple(rows)),) if rows else ()
        families = [ViewName.parse(view).family for view in views]
        own_families = [family for family in families if family in TERM_FAMILIES]
        for family in dict.fromkeys([*own_families, *TERM_FAMILIES[:2]]):
            rows = self._describe_labels(conflicts, family)
            if rows:
                view, _ = self._fit_terms(family)
                return (Contrast("conflicts", family, format_term_rows(view, rows, self._inputs.texts or [])),)
        return ()

    def _describe_labels(self, conflicts: ConflictFrame, family: str = "") -> list[ContrastRow]:
        """Return terms of a family of views, or conditions, that mark the bias-conflicting rows of any label."""
        labels = list_conflicting_labels(conflicts)
        return [row for label in labels for row in self._describe_label(label, conflicts, family)]

    def _describe_label(self, label: str, conflicts: ConflictFrame, family: str) -> list[ContrastRow]:
        """Return terms or conditions that more of a label's rows of one side have than chance explains."""
        sample = conflicts.iloc[self._sample]
        is_used = (sample["label"].eq(label) & sample["conflicting"].notna()).to_numpy()
        is_conflicting = sample["conflicting"].eq(True).to_numpy()[is_used]
        if min(is_conflicting.sum(), (~is_conflicting).sum()) < MIN_ROWS:
            return []
        if family:
            view, has_term = self._fit_terms(family)
            described = pd.DataFrame({"term": view.terms})
            has_property = has_term[is_used]
            num_tests = len(view.terms)
            max_rows = MAX_WORDS
        else:
            conditions, has_property, num_tests = self._find_conditions(is_used, is_conflicting)
            described = pd.DataFrame({"value": conditions})
            max_rows = MAX_CONDITIONS
        num_rows = int(is_conflicting.sum())
        num_other_rows = len(is_conflicting) - num_rows
        counts = has_property[is_conflicting].sum(axis=0)
        other_counts = has_property[~is_conflicting].sum(axis=0)
        shares = counts / num_rows
        other_shares = other_counts / num_other_rows
        differs = np.abs(shares - other_shares) >= MIN_SHARE_DIFFERENCE  # few words do, and the test takes long
        log_p_value = compute_fisher_exact_log_p_values(
            counts[differs], other_counts[differs], num_rows, num_other_rows
        )
        is_significant = log_p_value < np.log(ERROR_LEVEL / max(1, num_tests))
        length = np.array([len(name) for name in described.iloc[differs, 0]])
        order = np.lexsort((-length, log_p_value))  # of parts of words in the same rows the longest says most
        by_p_value = np.flatnonzero(differs)[order[is_significant[order]]].tolist()
        described = described.assign(rows=counts, other_rows=other_counts, share=shares, other_share=other_shares)
        shown = described.iloc[select_distinct_terms(by_p_value, has_property, max_rows, family == "characters")]
        looks_like = find_main_attribute(conflicts[conflicts["label"].eq(label)])
        records: list[dict[str, Any]] = shown.to_dict("records")  # type: ignore[assignment]
        return [ContrastRow(str(label), looks_like=looks_like, **record) for record in records]

    def _find_conditions(
        self, is_used: NDArray[np.bool_], is_conflicting: NDArray[np.bool_]
    ) -> tuple[list[str], NDArray[np.bool_], int]:
        """Return conditions that mostly bias-conflicting rows meet, which rows meet them (n, F), and of how many tried.

        They are the leaves of a decision tree of depth two.
        """
        from sklearn.tree import DecisionTreeClassifier

        questions = self._questions
        features = np.stack([answers[is_used] for _, answers in questions], axis=1)
        num_tests = sum(len(np.unique(values)) for values in features.T)
        tree = DecisionTreeClassifier(
            max_depth=2,
            class_weight="balanced",
            min_samples_leaf=MIN_ROWS,
            ccp_alpha=MIN_IMPURITY_REMOVED,
            random_state=0,
        )
        with limit_to_one_thread():
            tree.fit(features, is_conflicting)
        leaf = tree.apply(features)
        conditions = []
        met = [np.zeros((len(leaf), 0), dtype=bool)]
        for node in np.unique(leaf):
            is_met = leaf == node
            if is_conflicting[is_met].mean() <= is_conflicting.mean():
                continue
            row = features[is_met][:1]
            is_left: dict[str, NDArray[np.bool_]] = {}  # rows of the sample that the steps of a column leave
            for step in tree.decision_path(row).indices[:-1].tolist():  # the last one is the leaf
                number = tree.tree_.feature[step]
                threshold = tree.tree_.threshold[step]
                column, answers = questions[number]
                is_same_side = (answers > threshold) == (row[0, number] > threshold)
                is_left[column] = is_same_side & is_left.get(column, True)
            conditions.append(" and ".join(starmap(self._format_condition, is_left.items())))
            met.append(is_met[:, np.newaxis])
        return conditions, np.concatenate(met, axis=1), num_tests

    def _format_condition(self, column: str, is_left: NDArray[np.bool_]) -> str:
        """Return what rows of the sample have in a column and others not, in the shortest form.

        Args:
            column: The column.
            is_left: (n,) the rows.
        """
        values = np.asarray(self._table.columns[column])[self._rows]
        is_missing = find_missing_values(values)
        left = np.unique(values[is_left & ~is_missing])
        excluded = np.unique(values[~is_left & ~is_missing])
        if not len(left) or not len(excluded):
            return f"{column} {'has a value' if len(left) else 'is empty'}"
        format_values = partial(self._table.format_column_values, column)
        if is_numeric(values):
            bounds = {">": excluded[excluded < left[0]][-1:], "≤": left[-1:][excluded[-1:] > left[-1]]}
            steps = [f"{sign} {text}" for sign, bound in bounds.items() for text in format_values(bound)]
        else:
            steps = [f"≠ {name}" for name in format_values(excluded)]
        condition = " and ".join(f"{column} {step}" for step in steps)
        if is_missing[is_left].any() or len(left) > MAX_NAMES:
            return condition
        return min(f"{column} = {' or '.join(format_values(left))}", condition, key=len)


def compute_fisher_exact_log_p_values(
    counts: NDArray[Any], other_counts: NDArray[Any], num_rows: int, num_other_rows: int
) -> NDArray[np.float64]:
    """Return the logarithm of the chance (F,) that rows drawn at random differ so far in how many have a property.

    Fisher's exact test, of the side to which they differ.

    Args:
        counts: (F,) rows of one side that have each property.
        other_counts: (F,) rows of the other side that have it.
        num_rows: Rows of the side.
        num_other_rows: Rows of the other side.

    >>> compute_fisher_exact_log_p_values(np.array([3]), np.array([0]), 3, 3).round(3)  # one of 20 ways to draw 3 of 6
    array([-2.996])
    """
    from scipy.stats import hypergeom

    total = counts + other_counts
    num_all_rows = num_rows + num_other_rows
    above = hypergeom.logsf(counts - 1, num_all_rows, total, num_rows)
    below = hypergeom.logcdf(counts, num_all_rows, total, num_rows)
    return np.asarray(np.minimum(above, below))


def _list_answers(values: NDArray[Any]) -> list[NDArray[np.float64]]:
    """Return the numbers of a column, or which rows hold each of its commonest names; and which rows hold nothing."""
    is_missing = find_missing_values(values)
    answers = [is_missing.astype(np.float64)] if is_missing.any() else []
    present = values[~is_missing]
    if is_numeric(values):
        numbers = values.astype(np.float64)
        typical = np.median(numbers[~is_missing]) if len(present) else 0.0
        return [*answers, np.where(is_missing, typical, numbers)]
    return answers + [(values == name).astype(np.float64) for name in find_most_frequent_categories(present, MAX_NAMES)]


def list_conflicting_labels(conflicts: ConflictFrame) -> list[str]:
    """Return the labels with the most bias-conflicting rows, at most ``MAX_LABELS``."""
    return list(conflicts.loc[conflicts["conflicting"].eq(True), "label"].value_counts().index[:MAX_LABELS])


def find_main_attribute(conflicts: ConflictFrame) -> str | None:
    """Return the attribute of more than half of the rows that conflict; None if none has so many."""
    shares = conflicts.loc[conflicts["conflicting"].eq(True), "attribute"].value_counts(normalize=True)
    return str(shares.index[0]) if shares.iloc[0] > 0.5 else None


def build_image_contrast(table: DataTable, conflicts: ConflictFrame, views: Sequence[str]) -> Contrast | None:
    """Return bias-aligned and bias-conflicting images of each label, those first that differ most clearly.

    Rows of the clearest score are often merely hard, such as dark blond hair. With frozen features, those come first
    that also resemble bias-aligned rows of another label, or do not: what these have in common can be seen. Without,
    the score alone decides. Of views of fine detail they are the middle of the image files.

    Args:
        table: The data.
        conflicts: Rows with their estimates, see ``estimate_conflicts``.
        views: That are corrected by.
    """
    names = [ViewName.parse(view) for view in views]
    crop = _choose_crop_side(table, conflicts) if any(name.family in FINE_FAMILIES for name in names) else None
    cells = () if crop else tuple(name.member for name in names if name.family == "places")
    rows = []
    aligned = conflicts[conflicts["conflicting"].eq(False)]
    for label in list_conflicting_labels(conflicts):
        of_label = conflicts[conflicts["label"] == label]
        is_own = aligned["label"].eq(label)
        own, others = (aligned.loc[mask, "row"].to_numpy() for mask in (is_own, ~is_own))
        counts = []
        images = []
        for is_conflicting in (True, False):
            side = of_label[of_label["conflicting"].eq(is_conflicting)]
            clearest = side.sort_values("score", ascending=not is_conflicting, kind="stable")[:MAX_COMPARED_ROWS]
            resemblance = measure_resemblance(table, clearest["row"].to_numpy(), own, others)
            shown = clearest.iloc[
                np.argsort(-resemblance if is_conflicting else resemblance, kind="stable")[:MAX_IMAGES]
            ]
            numbers = shown["row"].tolist()
            pixels = table.inputs.images(torch.tensor(numbers, dtype=torch.long))
            if pixels is None:
                return None
            counts.append(len(side))
            images.append(
                tuple(
                    ContrastImage(_encode_image(table, number, image, crop), looks_like)
                    for number, image, looks_like in zip(numbers, pixels, shown["attribute"].astype(str), strict=True)
                )
            )
        rows.append(
            ContrastRow(
                str(label),
                rows=counts[0],
                other_rows=counts[1],
                conflict=images[0],
                agree=images[1],
                looks_like=find_main_attribute(of_label),
            )
        )
    return Contrast("images", ", ".join(views), tuple(rows), cells, crop) if rows else None


def _choose_crop_side(table: DataTable, conflicts: ConflictFrame) -> int:
    """Return the side of the crop: that of the whole image where a page can show all its pixels, by the first one."""
    file = None if table.files is None or conflicts.empty else table.files[int(conflicts["row"].iloc[0])]
    shape = table.info.input_shape if file is None else read_picture(file, None).pixels.shape
    side = max(shape[1:], default=0)
    return side if CROP_SIDE < side <= MAX_WHOLE_SIDE else CROP_SIDE


def measure_resemblance(
    table: DataTable, rows: NDArray[np.int64], own: NDArray[np.int64], others: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return how much more rows resemble bias-aligned rows of other labels than of their own; 0 without features.

    The difference of the mean cosine similarities of features to the ``NUM_NEAREST`` rows of each side.

    Args:
        table: The data.
        rows: (n,) numbers of rows of a label.
        own: Bias-aligned rows of this label, of which about ``MAX_COMPARED_ROWS`` at even distances are taken.
        others: Bias-aligned rows of other labels, also.
    """
    if len(table.info.input_shape) != 1 or not len(own) or not len(others):
        return np.zeros(len(rows))
    samples = [side[:: len(side) // MAX_COMPARED_ROWS + 1] for side in (own, others)]
    features, *sides = (
        torch.nn.functional.normalize(torch.as_tensor(table.inputs.fetch(torch.tensor(numbers))))
        for numbers in (rows, *samples)
    )
    near_own, near_others = ((features @ side.T).topk(min(NUM_NEAREST, len(side))).values.mean(dim=1) for side in sides)
    return np.asarray((near_others - near_own).cpu())


def _encode_image(table: DataTable, row: int, image: Tensor, crop: int | None) -> str:
    """Return an image (C, H, W) as a data URI, with a crop the middle of its file where it has one."""
    if crop is not None and table.files is not None:
        image = torch.from_numpy(read_picture(table.files[row], None, ranges=table.preparation.get("ranges")).pixels)
    if crop is not None:
        top, left = (max(0, (length - crop) // 2) for length in image.shape[1:])
        image = image[:, top : top + crop, left : left + crop]
    return encode_picture(image.cpu().numpy())
