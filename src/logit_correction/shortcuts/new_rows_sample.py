"""A sample of the new rows as views look at them, and which views differ from those of the validation rows.

New rows need not fit into memory, so the features of the views are computed while they are read part by part, and only
of a random sample of them. Module ``shift`` has the statistics.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from logit_correction.pages.plots import encode_picture
from logit_correction.runs.assemble import PreparedRun
from logit_correction.seeds import derive_seed
from logit_correction.shortcuts.auto import Auto
from logit_correction.shortcuts.contrast import assign_column_parts
from logit_correction.shortcuts.shift import (
    ValueShare,
    ViewShift,
    compare_term_shares,
    compare_value_shares,
    measure_view_shift,
)
from logit_correction.shortcuts.terms import format_terms
from logit_correction.types import Array, ViewInputs
from logit_correction.view_names import EVERYTHING, ViewName
from logit_correction.views.base import View, available_views, compute_features
from logit_correction.views.files import FileFacts
from logit_correction.views.tables import Pairs, find_missing_values
from logit_correction.views.texts import TermView

#: Rows of each side that are compared at most: the error of an area is then about 0.01.
MAX_ROWS = 2000

#: Rows of each side without which nothing is compared: intervals would be wider than any difference.
MIN_ROWS = 10

#: Views of images of which pictures are kept, and most pixels along the longer side of a picture.
MAX_PICTURED_VIEWS = 3
PICTURE_SIDE = 96

#: Views that are compared at most, the first ones: in tables of very many columns the classifiers would take minutes.
MAX_VIEWS = 200


class NewRowsSample:
    """Features of a random sample of the new rows, by every view that applies to the training rows.

    Views of pairs of columns are left out, since most of them differ where one of the columns does.
    """

    def __init__(self, prepared_run: PreparedRun, num_rows: int) -> None:
        """Draw the sample, before any row is read.

        Args:
            prepared_run: The prepared run, after its search for shortcuts.
            num_rows: Number M of new rows that can be read.
        """
        self._table = prepared_run.table
        self._seed = derive_seed(prepared_run.config.training.seed, "what changed")
        self._views = _fit_views(prepared_run)
        self._positions = self._draw_rows(num_rows)
        self._num_read = 0
        self._features: dict[str, list[Array]] = {view.name: [] for view in self._views}
        self._columns: dict[str, list[Array]] = {name: [] for name in self._table.columns}
        self._images: list[Tensor] = []

    def _draw_rows(self, num_rows: int) -> NDArray[np.int64]:
        """Return at most ``MAX_ROWS`` positions of so many rows, in rising order."""
        draw = np.random.default_rng(self._seed)
        return np.sort(draw.choice(num_rows, min(num_rows, MAX_ROWS), replace=False))

    def add_part(self, inputs: ViewInputs) -> None:
        """Compute the features of those rows of the next part that are in the sample."""
        start = self._num_read
        self._num_read += inputs.num_rows
        in_part = self._positions[(self._positions >= start) & (self._positions < self._num_read)] - start
        if not len(in_part):
            return
        rows = inputs.take(torch.from_numpy(in_part))
        self._views = [view for view in self._views if view.is_applicable(rows)]
        for name, features in _compute_view_features(self._views, rows).items():
            self._features[name].append(features)
        for name, values in rows.columns.items():
            self._columns[name].append(values)
        images = rows.images(torch.arange(rows.num_rows))
        if images is not None:
            scale = PICTURE_SIDE / max(images.shape[2:])
            if scale < 1:  # the sample has to fit into memory
                images = interpolate(images.float(), scale_factor=scale, mode="area").byte()
            self._images.append(images)

    def compare_views(self) -> tuple[ViewShift, ...] | None:
        """Return how well each view separates the sample from validation rows, the greatest area first.

        Returns:
            The shift of each view; None where either side has too few rows.
        """
        valid = self._table.view_inputs("valid")
        old_rows = self._draw_rows(valid.num_rows)
        if min(len(old_rows), len(self._positions)) < MIN_ROWS:
            return None
        valid = valid.take(torch.from_numpy(old_rows))
        views = [view for view in self._views if view.is_applicable(valid)]
        old_features = _compute_view_features(views, valid)
        new_columns = {name: np.concatenate(parts) for name, parts in self._columns.items() if parts}
        shifts = []
        for view in views:
            new_features = np.concatenate(self._features[view.name])
            values = self._compute_value_shares(view, valid, new_columns, old_features[view.name], new_features)
            shift = measure_view_shift(
                view.name, old_features[view.name], new_features, self._seed, values, num_views=len(views)
            )
            shifts.append(shift)
        # Of views that differ alike, those of one kind of content: a change of the light is one of every place.
        breadth = {view.name: view.breadth for view in views}
        shifts.sort(key=lambda shift: (-round(shift.auc, 2), abs(breadth[shift.view] - 1), -shift.auc))
        for number, shift in enumerate(shifts[:MAX_PICTURED_VIEWS] if self._images else ()):
            if shift.is_significant:
                shifts[number] = self._add_images(shift, valid)
        return tuple(shifts)

    def _add_images(self, shift: ViewShift, valid: ViewInputs) -> ViewShift:
        """Add pictures of the rows that differ most in a view."""
        old_images = valid.images(torch.tensor(shift.old_rows))
        new_images = torch.cat(self._images)[list(shift.new_rows)]
        assert old_images is not None  # as of the new rows
        return replace(
            shift,
            old_images=tuple(encode_picture(pixels, PICTURE_SIDE) for pixels in old_images.numpy()),
            new_images=tuple(encode_picture(pixels, PICTURE_SIDE) for pixels in new_images.numpy()),
        )

    def _compute_value_shares(
        self,
        view: View,
        valid_inputs: ViewInputs,
        new_columns: dict[str, Array],
        old_features: Array,
        new_features: Array,
    ) -> list[ValueShare]:
        """Return the shares of the values or words that a view sees; none of views of images and of numbers."""
        family, member = ViewName.parse(view.name)
        if isinstance(view, TermView):
            return compare_term_shares(format_terms(view), old_features, new_features) if view.terms else []
        if view.name == "missing":
            gaps = [
                np.stack([find_missing_values(columns[name]) for name in new_columns], axis=1)
                for columns in (valid_inputs.columns, new_columns)
            ]
            return compare_term_shares([*new_columns], *gaps)
        if family != "column":
            return []
        values = np.concatenate([valid_inputs.columns[member], new_columns[member]])
        side = np.repeat(["old", "new"], [valid_inputs.num_rows, len(new_columns[member])])
        parts = assign_column_parts(values, side, partial(self._table.format_column_values, member)).part
        return compare_value_shares(parts[side == "old"].tolist(), parts[side == "new"].tolist())


def _fit_views(prepared_run: PreparedRun) -> list[View]:
    """Return the views that apply to the training rows, those of the search as it has fitted them."""
    estimator = prepared_run.algorithm.attributes
    assert isinstance(estimator, Auto) and estimator.search is not None
    fitted = estimator.search.fitted_views
    inputs = prepared_run.table.view_inputs("train")
    views = []
    for view in available_views(inputs):
        if view.breadth >= EVERYTHING or isinstance(view, Pairs):
            continue
        if view.name not in fitted:  # of a legitimate cause
            view.fit(inputs)
        views.append(fitted.get(view.name, view))
    return views[:MAX_VIEWS]


def _compute_view_features(views: list[View], inputs: ViewInputs) -> dict[str, Array]:
    """Return name of a view -> features (N, F), without the place at which files lie."""
    features = {}
    for view, values in zip(views, compute_features(views, inputs), strict=True):
        kept = values[:, : -FileFacts.NUM_PLACE_FEATURES] if isinstance(view, FileFacts) else values
        features[view.name] = kept.numpy()
    return features
