"""A fitted classifier: what it keeps, what it answers, and how it is shown and stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from logit_correction.data.table import UNKNOWN
from logit_correction.errors import InputError
from logit_correction.integrations.scikit_learn.checks import checked_rows
from logit_correction.integrations.scikit_learn.inputs import Form, Rows, kind_of
from logit_correction.integrations.scikit_learn.report import group_report, verdict_as_html
from logit_correction.integrations.scikit_learn.training import Trained, probabilities, rebuilt
from logit_correction.training.estimates import attribute_names_of, estimate_rows

if TYPE_CHECKING:
    import pandas as pd

    from logit_correction.methods.base import Algorithm


def _has_probabilities(classifier: Any) -> bool:
    """Tell whether the classifier inside has probabilities; a network of ours has."""
    wrapped = getattr(classifier, "estimator_", classifier.estimator)
    return wrapped is None or hasattr(wrapped, "predict_proba")


class Fitted(ClassifierMixin, BaseEstimator):
    """What a classifier does after ``fit``."""

    classes_: NDArray[Any]
    model_: dict[str, Any]
    correction_: str

    def _keep(self, trained: Trained, form: Form, train: NDArray[np.int64], n: int) -> None:
        """Keep what was found of n rows, of which ``train`` were trained on, and the network as plain arrays."""
        algorithm, estimator = trained.algorithm, trained.algorithm.attributes
        self.model_ = {**trained.state(), "form": form.state()}
        self.config_, self.n_epochs_ = self.model_["config"], trained.epochs
        corrects = estimator is not None and not estimator.abstained
        self.evidence_ = None if estimator is None else estimator.evidence
        self.attribute_ = np.full(n, UNKNOWN)
        self.attribute_[train] = trained.attribute
        self.attribute_names_ = attribute_names_of(algorithm) if corrects else []
        posterior = estimator.row_posterior() if estimator is not None and corrects else None
        self.attribute_posterior_ = None
        if posterior is not None:
            self.attribute_posterior_ = np.full((n, posterior.shape[1]), np.nan)
            self.attribute_posterior_[train] = posterior.cpu().numpy()
        prior = algorithm.group_prior
        self.group_prior_ = prior.table.double().cpu().numpy() if corrects and prior is not None else None
        self._algorithm = algorithm

    # -- answers

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of each row, (n,)."""
        check_is_fitted(self)
        if self.estimator is None:
            return self.classes_[self._probabilities(X).argmax(axis=1)]
        answers = np.asarray(self.estimator_.predict(self._for_wrapped(X))).ravel()
        return self.classes_[answers.astype(np.int64)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of every label, (n, L), in the order of ``classes_``."""
        check_is_fitted(self)
        if self.estimator is None:
            return self._probabilities(X)
        found = np.asarray(self.estimator_.predict_proba(self._for_wrapped(X)))
        if found.ndim == 1:  # some nets of two labels give that of the second alone
            found = np.stack([1 - found, found], axis=1)
        return found

    def group_report(self, X: Any, y: ArrayLike, attribute: ArrayLike | None = None) -> pd.DataFrame:
        """Return how often the classifier is right in each group, label by attribute.

        Args:
            X: n rows.
            y: (n,) labels.
            attribute: (n,) names or numbers, -1 or None where unknown; left out, the groups are those that the
                classifier itself estimates of these rows, by the shortcut that it found, and reads no attribute for.

        Returns:
            One row a group: ``label``, ``attribute``, ``count``, ``correct``, ``accuracy`` with the ends ``low`` and
            ``high`` of its 95 % interval, and ``minority``, None where it is not known.

        Raises:
            InputError: If a label was not in ``fit``, or nothing can be estimated.
        """
        check_is_fitted(self)
        estimate = None
        label = self._numbers(y)
        if attribute is None:
            rows = self._read(X)
            estimate = estimate_rows(self._method(), torch.from_numpy(label), rows.views)
            if estimate is None:
                raise InputError(
                    f"there are no estimated groups (correction: {self.correction_}): give attribute=, one for each row"
                )
        answers = np.searchsorted(self.classes_, self.predict(X))
        return group_report(answers, label, self.classes_.astype(str).tolist(), attribute, estimate)

    def _numbers(self, y: ArrayLike) -> NDArray[np.int64]:
        number = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        given = np.asarray(y)
        unknown = np.flatnonzero(self.classes_[number] != given)
        if len(unknown):
            row, label = int(unknown[0]), given.tolist()[int(unknown[0])]
            raise InputError(f"row {row}: the label {label!r} was not in fit: leave such rows out")
        return number.astype(np.int64)

    def _checked(self, X: Any) -> tuple[Form, Any]:
        """Return how rows are read, and new ones as ``Form`` takes them."""
        form = Form.from_state(self.model_["form"])
        kind = kind_of(X, form.text)
        if kind != form.kind and {kind, form.kind} != {"numbers", "columns"}:
            raise InputError(f"fit was given {form.kind}, and these rows are {kind}: give the same kind of rows")
        if form.kind == "columns" and not hasattr(X, "columns"):
            raise InputError("fit was given a data frame, and these rows have no columns: give a data frame with them")
        return form, checked_rows(self, X, form.kind, self.channels, reset=False)

    def _read(self, X: Any) -> Rows:
        form, X = self._checked(X)
        return form.read(X)

    def _for_wrapped(self, X: Any) -> Any:
        self._checked(X)  # its own checks may be none
        return X

    def _probabilities(self, X: Any) -> NDArray[np.float64]:
        return probabilities(self._method(), self._read(X).store)

    def _method(self) -> Algorithm:
        """Return the trained method, made again where only its arrays are here."""
        if not hasattr(self, "_algorithm"):
            device = "cuda" if self.device in ("auto", "cuda") and torch.cuda.is_available() else "cpu"
            self._algorithm = rebuilt(self.model_, device)
        return self._algorithm

    # -- what scikit-learn asks

    def __getstate__(self) -> dict[str, Any]:
        """Leave the modules out: the arrays in ``model_`` say all of them."""
        return {name: value for name, value in super().__getstate__().items() if name != "_algorithm"}

    def _repr_html_inner(self) -> str:
        """Show the verdict above the parameters."""
        return verdict_as_html(self) + str(super()._repr_html_inner())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Show the verdict above the parameters."""
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in shown:
            shown["text/html"] = verdict_as_html(self) + shown["text/html"]
        return shown
