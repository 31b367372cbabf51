"""``LogitCorrectionClassifier``: a scikit-learn classifier that trains in memory, by the library's own loop."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from logit_correction.data.features import ColumnReader
from logit_correction.data.frames import convert_to_label_array, convert_to_text
from logit_correction.data.reader import DataSource, NumericReader, as_frame, get_label_indices, get_row_values
from logit_correction.data.rows import Reader, Rows, Splitting, check_labels_distinct, encode_labels, make_splits
from logit_correction.data.stores import InputStore, build_view_inputs
from logit_correction.data.table import DataTable
from logit_correction.data.texts import TextReader
from logit_correction.errors import InputError, InputWarning, TrainingInterrupted
from logit_correction.evaluation.metrics import find_metrics, takes_probability
from logit_correction.evaluation.predictions import Predictions
from logit_correction.evaluation.report import EvaluatedRows, MetricSpec
from logit_correction.finding_text import finding_to_dict
from logit_correction.methods.base import Algorithm
from logit_correction.networks.base import skip_pretrained_weights
from logit_correction.registry import ComponentConfig
from logit_correction.runs.assemble import build_algorithm, prepare_run
from logit_correction.runs.estimate import AttributeEstimates, run_estimator
from logit_correction.runs.inference import iterate_batches, keep_num_threads
from logit_correction.runs.options import Part, RunConfig, build_config, complete_config
from logit_correction.serialization import to_json_values
from logit_correction.training.display import choose_display
from logit_correction.training.fit import get_attribute_names, predict_row_attributes
from logit_correction.types import UNKNOWN_ATTRIBUTE, DataInfo, to_numpy
from logit_correction.view_names import ViewName, name_views

if TYPE_CHECKING:
    import pandas as pd


#: What rows are, as ``Rows`` has it -> what reads them.
READERS: dict[str, Callable[[], Reader]] = {"frame": ColumnReader, "texts": TextReader, "values": NumericReader}


class TableSource(DataSource):
    """Rows that are there already."""

    def __init__(self, table: DataTable) -> None:
        self.table = table

    def build(self) -> DataTable:
        return self.table


class LogitCorrectionClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that looks for a shortcut in its training rows and corrects for it.

    ``fit`` trains a network by ``LC``, with the defaults of ``train``; no attribute is needed. Rows are an array
    (n, F), images (n, C, H, W) or (n, H, W, C), a data frame of numbers and names, or a list of texts. Their order is
    never looked at.

    Args:
        method: Name of a method, or a mapping of its name and options.
        network: Name of a network, or a mapping; None takes one that fits the data.
        attributes: Attribute estimator of the method, a name or a mapping; None takes that of the method.
        preset: Name of a preset.
        shortcut: Views that are known to be a shortcut, such as ``column:scanner``.
        legitimate: Views that are known to be legitimate causes of the label.
        epochs: Passes over the training rows; None chooses by the number of rows, as for ``batch_size``.
        batch_size: Rows of a step.
        learning_rate: Learning rate at the start.
        training: Further options of ``TrainingConfig``, such as ``{"weight_decay": 1e-4}``.
        random_state: Seed of everything random.
        device: auto, cpu or cuda.
        verbose: Whether to show progress.
        estimator: A classifier to fit in place of our network. It gets an offset of its logits for each row where it
            takes such (``base_margin``, ``init_score``, ``baseline``), else a weight for each row.

    Attributes:
        classes_: The labels.
        n_features_in_: Columns of arrays and data frames.
        feature_names_in_: Their names, of data frames.
        evidence_: What was found of a shortcut: ``verdict``, ``sentence``, ``views`` and figures; None if the method
            does not search.
        attribute_: (n,) estimated attribute of each training row, -1 where unknown.
        attribute_names_: K names; that of a label means: looks like rows of this label.
        attribute_posterior_: (n, K) how likely each attribute is; None where nothing was found.
        group_prior_: (L, K) P(label, attribute); None where nothing is corrected.
        correction_: How it was corrected, in one line.
        estimator_: The fitted classifier, where one was given.
        new_rows_: What new rows said, as ``new_rows`` of ``audit.json``; None without.
        n_epochs_: Epochs of the training.
        config_: All options of the run, as ``config.yaml`` holds them.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> classifier = LogitCorrectionClassifier(epochs=20, random_state=0).fit(X, X.sum(axis=1) > 0)
    >>> classifier.evidence_["verdict"], classifier.predict(X[:2]).tolist()
    ('none found', [True, False])
    """

    def __init__(
        self,
        method: Part = "LC",
        *,
        network: Part | None = None,
        attributes: Part | None = None,
        preset: str | None = None,
        shortcut: str | Sequence[str] = (),
        legitimate: str | Sequence[str] = (),
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        training: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        verbose: bool = False,
        estimator: Any = None,
    ) -> None:
        self.method = method
        self.network = network
        self.attributes = attributes
        self.preset = preset
        self.shortcut = shortcut
        self.legitimate = legitimate
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.training = training
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.estimator = estimator

    classes_: NDArray[Any]
    model_: dict[str, Any]

    # -- fit

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        attribute: ArrayLike | None = None,
        new_rows: Any = None,
        new_y: ArrayLike | None = None,
    ) -> LogitCorrectionClassifier:
        """Look for a shortcut in the rows, train, and correct for it.

        Args:
            X: n rows; see above.
            y: (n,) labels.
            attribute: (n,) attributes, none unknown, for methods and estimators that read them (``GroupDRO``,
                ``TrueAttributes``); others never see them. Where some are unknown, take ``Given``.
            new_rows: Rows that the classifier will be used on. They choose between ERM and every correction, with a
                fifth of the rows held out; then the chosen one is trained on all.
            new_y: Their labels, None where unknown. Without any, nothing is corrected, and ``new_rows_`` says whether
                labelling some is worth it.

        Raises:
            InputError: Something given is wrong; nothing was trained.
            TrainingError: The loss was not finite.
        """
        method: dict[str, Any] = dict(self.method) if isinstance(self.method, Mapping) else {"name": self.method}
        method |= {} if self.attributes is None else {"attributes": self.attributes}
        if self.estimator is not None:
            find_correction_argument(self.estimator)
        if new_rows is not None and (self.estimator is not None or method != {"name": "LC"}):
            raise InputError("new_rows choose the method: leave method, attributes and estimator out")
        rows = self._rows(X, reset=True)
        kind = next(name for name in READERS if getattr(rows, name) is not None)
        self.classes_, label = _checked_labels(rows, y)
        state = self.random_state
        seed = int(state if isinstance(state, int | np.integer) else check_random_state(state).randint(2**31 - 1))
        self._reader = READERS[kind]() if rows.frame is None else ColumnReader(list(rows.frame.columns))
        read, _, notes = self._reader.validate(rows)
        rows.errors.raise_if_any()
        every = torch.arange(len(label))
        with np.errstate(over="ignore", invalid="ignore"):  # of numbers whose mean no float holds
            made = self._reader.fit_transform(read, every, rows.errors)
        for note in (*notes, *made.notes):
            warnings.warn(note, InputWarning, stacklevel=2)
        self.model_ = {"kind": kind, "preparation": made.preparation, "shape": made.inputs.input_shape}
        known, known_names = _known_attribute(rows, attribute)
        table = DataTable(
            inputs=made.inputs,
            label=torch.from_numpy(label),
            attribute=torch.from_numpy(known),
            split={"train": every, "valid": every[:0], "test": every[:0]},
            label_names=[str(convert_to_text(name)) for name in convert_to_label_array(self.classes_)],
            attribute_names=known_names,
            preparation=made.preparation,
            ordered=False,  # a caller shuffles X, and new rows have no place in it
            **made.forms,
        )
        leave_out: list[str] = []
        self.new_rows_: dict[str, Any] | None = None
        with keep_num_threads():
            if new_rows is not None:
                method, leave_out = self._choose(table, seed, new_rows, new_y)
            algorithm, config, self.attribute_ = self._train(table, seed, X, method, leave_out)
        if leave_out:
            self.correction_ = f"{method['name']} that cannot see {name_views(leave_out)}"
        algorithm.eval()
        estimator, prior, weights = algorithm.attributes, algorithm.group_prior, io.BytesIO()
        torch.save(algorithm.state_dict(), weights)
        info = dict(vars(algorithm.info))  # sizes and names that networks are built by again
        self.model_ |= {"config": config.to_dict(), "info": info, "weights": weights.getvalue()}
        self.config_, self._algorithm = self.model_["config"], algorithm
        corrects = estimator is not None and not estimator.has_abstained
        posterior = estimator.row_posterior if estimator is not None and corrects else None
        finding = None if estimator is None else estimator.finding
        self.evidence_ = None if finding is None else finding_to_dict(finding)
        views = () if finding is None else finding.views
        if not hasattr(self, "feature_names_in_") and any(ViewName.of(view).family == "column" for view in views):
            warnings.warn(
                "The shortcut's columns are called by their numbers, since X has no names: give a data frame, or call "
                '.set_output(transform="pandas") of what makes X',
                InputWarning,
                stacklevel=2,
            )
        self.attribute_names_ = get_attribute_names(algorithm) if corrects else []
        self.attribute_posterior_ = None if posterior is None else posterior.cpu().numpy()
        self.group_prior_ = prior.table.double().cpu().numpy() if corrects and prior is not None else None
        return self

    def _choose(self, table: DataTable, seed: int, new_rows: Any, new_y: Any) -> tuple[dict[str, Any], list[str]]:
        """Return the method that new rows choose, and what the network may not see."""
        import pandas as pd

        from logit_correction.shortcuts.new_rows import build_new_rows_table, predict_candidates, select_from_answers

        split, _ = make_splits(table.label, None, table.label_names, Splitting(0.2, 0.0, seed))
        config = self._config(replace(table, split=split), seed, {"name": "LC", "attributes": "Auto"}, [])
        display = choose_display(quiet=not self.verbose)
        built = prepare_run(config, display, ("train", "valid"))
        with display:
            built.fit(display).run(estimator_only=True)
        rows, store, _ = self._read(new_rows)
        label = [None] * len(rows) if new_y is None else get_row_values(rows, new_y, "label")
        known, inputs = (
            build_new_rows_table([pd.DataFrame({"label": label})], table),
            iterate_batches(store, torch.device("cpu")),
        )
        told = select_from_answers(*predict_candidates(built, known, inputs, display), seed)
        self.new_rows_ = to_json_values(told)
        best = told.correction or told.candidates[0]
        return best.config["method"], best.config["leave_out"]

    def _config(self, table: DataTable, seed: int, method: Mapping[str, Any], leave_out: list[str]) -> RunConfig:
        """Return the complete config of a training on a table."""
        names = ("network", "shortcut", "legitimate", "epochs", "batch_size", "learning_rate", "preset")
        known = {name: getattr(self, name) for name in names} | {"method": method}
        training = dict(self.training or {})
        if twice := [name for name in training if known.get(name) is not None]:
            raise InputError(f"{twice[0]} is an argument of the classifier: leave it out of training")
        options = {"seed": seed, "device": self.device, "selection": "last", "leave_out": leave_out or None}
        data = ComponentConfig("rows in memory", cls=lambda: TableSource(table))
        config = build_config(data, **known | options | training)
        if config.training.devices * config.training.nodes > 1:
            raise InputError("The classifier trains in this process, on one device: leave devices and nodes out")
        return config

    def _train(
        self, table: DataTable, seed: int, X: Any, method: Mapping[str, Any], leave_out: list[str]
    ) -> tuple[Algorithm, RunConfig, NDArray[Any]]:
        """Train, and return the method, what was run, and the attribute that each row was taken for."""
        config = self._config(table, seed, method, leave_out)
        display = choose_display(quiet=not self.verbose)
        if self.estimator is not None:
            found, algorithm, config = run_estimator(config, display)
            self.estimator_, self.correction_ = fit_with_correction(self.estimator, X, table.label.numpy(), found)
            self.n_epochs_ = 0
            return algorithm, config, found.attribute
        built = prepare_run(config, display, ("train",))
        algorithm, fit = built.algorithm, built.fit(display)
        try:
            with display:
                fit.run()
        except TrainingInterrupted as error:
            raise KeyboardInterrupt from error
        estimator, attribute = algorithm.attributes, fit.estimate_training_attributes()
        self.n_epochs_, self.correction_ = fit.progress.epoch, f"the training of {built.config.method.name}"
        finding = None if estimator is None else estimator.finding
        if finding is not None and not finding.corrects:
            self.correction_ = f"none: {finding.verdict}"
        return (
            algorithm,
            built.config,
            np.full(len(table.label), UNKNOWN_ATTRIBUTE) if attribute is None else attribute.numpy(),
        )

    # -- answers

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of each row, (n,)."""
        check_is_fitted(self)
        if self.estimator is None:
            return self.classes_[self._probabilities(X).argmax(axis=1)]
        self._rows(X)  # its own checks may be none
        return self.classes_[np.asarray(self.estimator_.predict(X)).ravel().astype(np.int64)]

    @available_if(lambda self: self.estimator is None or hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of every label, (n, L), in the order of ``classes_``."""
        check_is_fitted(self)
        if self.estimator is None:
            return self._probabilities(X)
        self._rows(X)
        return np.asarray(self.estimator_.predict_proba(X))

    def group_report(
        self, X: Any, y: ArrayLike, attribute: ArrayLike | None = None, metrics: MetricSpec = ()
    ) -> pd.DataFrame:
        """Return how often the classifier is right in each group, label by attribute.

        Args:
            X: n rows.
            y: (n,) labels.
            attribute: (n,) names or numbers, -1 or None where unknown; by default estimated by the shortcut found.
            metrics: Further columns, such as ``["recall", "auroc", "sklearn.metrics.f1_score"]``; see ``Run.evaluate``.

        Returns:
            One row a group: ``label``, ``attribute``, ``count``, ``correct``, ``accuracy`` with the ends ``low`` and
            ``high`` of its 90 % interval, ``minority``, None where it is not known, and the metrics.

        Raises:
            InputError: A label was not in ``fit``, or nothing can be estimated.
        """
        check_is_fitted(self)
        has_probability = hasattr(self, "predict_proba")
        for name, metric in find_metrics(metrics).items():
            if takes_probability(metric) and not has_probability:
                raise InputError(f"metric {name} needs probabilities, and the estimator has no predict_proba")
        rows, store, forms = self._read(X)
        label_names = list(self.model_["info"]["label_names"])
        label = get_label_indices(rows, column_or_1d(y), label_names)
        answers = np.searchsorted(self.classes_, self.predict(X))
        correlation = None
        if attribute is not None:
            number, names = _known_attribute(rows, attribute)
        else:
            estimate = predict_row_attributes(self._method(), torch.from_numpy(label), build_view_inputs(store, forms))
            if estimate is None:
                none = f"there are no estimated groups (correction: {self.correction_})"
                raise InputError(f"{none}: give attribute=, one for each row")
            number, names, correlation = estimate.attribute, list(estimate.names), estimate.correlation
        told = Predictions(
            index=np.arange(len(label)),
            label=label,
            logits=np.eye(len(self.classes_))[answers],
            label_names=label_names,
            attribute=number,
            attribute_names=names,
        )
        probability = self.predict_proba(X) if metrics and has_probability else None
        groups = EvaluatedRows.from_predictions(told, correlation).table(metrics, probability)
        return groups.drop(columns=["margin_min", "margin_mean", "ece"])  # answers alone have none

    def _rows(self, X: Any, reset: bool = False) -> Rows:
        """Return checked rows as what they are; ``reset`` in ``fit``. An array may follow a data frame of numbers."""
        X = to_numpy(X) if isinstance(X, torch.Tensor) else X
        dense = not issparse(X)
        if dense and hasattr(X, "__len__") and not len(X):
            raise InputError("There are 0 rows: give at least one" + " of each label" * reset)
        columns = [] if reset else self.model_["preparation"].get("columns", [])
        frame = X.reset_index(drop=True) if hasattr(X, "reset_index") else X  # the index is no column
        frame = as_frame(frame) if dense and (reset or columns) else None
        if frame is None and any(column["kind"] != "numbers" for column in columns):
            raise InputError("fit was given a data frame, and these rows have no columns: give a data frame with them")
        kind, given = "frame", cast(Any, frame)
        if frame is not None:
            validate_data(self, X if hasattr(X, "columns") else frame, reset=reset, skip_check_array=True)
        elif getattr(X, "ndim", None) == 4:
            kind, given = "values", np.asarray(X)
        elif getattr(X, "ndim", 1) == 1 and isinstance(X, Iterable) and isinstance(next(iter(X)), str):
            kind, given = "texts", list(X)
        else:
            kind, given = "values", validate_data(self, X, reset=reset, dtype=np.float64)
        return Rows("the rows", range(len(given)), **{kind: given})

    def _read(self, X: Any) -> tuple[Rows, InputStore, dict[str, Any]]:
        """Return new rows, their inputs, and the forms that views may look at."""
        rows = self._rows(X)
        if not hasattr(self, "_reader"):  # after unpickling
            self._reader = READERS[self.model_["kind"]]()
            self._reader.load_state(self.model_["preparation"])
        store, forms = self._reader.transform(rows)
        rows.errors.raise_if_any()
        rows.errors.warn()
        if store.input_shape != self.model_["shape"]:
            raise InputError(f"Rows have shape {store.input_shape}, but had {self.model_['shape']} in fit: resize them")
        return rows, store, forms

    @torch.no_grad()
    def _probabilities(self, X: Any) -> NDArray[np.float64]:
        _, store, _ = self._read(X)
        method = self._method()
        # Vectors are multiplied in double precision, so that a row's answer does not depend on the rows beside it.
        precise = len(store.input_shape) == 1 and not method.info.tokens
        precision = torch.float64 if precise else torch.float32
        device = next(method.to(precision).parameters()).device
        found = [np.zeros((0, len(self.classes_)))]
        for inputs in iterate_batches(store, device):
            logits = method.predict(inputs if isinstance(inputs, dict) else inputs.to(precision))
            found.append(logits.double().softmax(1).cpu().numpy())
        return np.concatenate(found)

    def _method(self) -> Algorithm:
        """Return the trained method; after unpickling it is built from ``model_``."""
        if not hasattr(self, "_algorithm"):
            rows = ComponentConfig("rows in memory", cls=dict)  # which are not needed again
            config, info = complete_config({**self.model_["config"], "data": rows}), DataInfo(**self.model_["info"])
            with skip_pretrained_weights():
                algorithm = build_algorithm(config, info)
            weights = io.BytesIO(self.model_["weights"])
            algorithm.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
            device = "cuda" if self.device != "cpu" and torch.cuda.is_available() else "cpu"
            self._algorithm = algorithm.to(device).eval()
        return self._algorithm

    def __getstate__(self) -> dict[str, Any]:
        """Leave the modules out: ``model_`` holds all that builds them again."""
        return {name: value for name, value in super().__getstate__().items() if name not in ("_algorithm", "_reader")}


def _checked_labels(X: Any, y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the L labels, sorted, and the number (n,) of each row's label; raise ``ValueError`` for bad labels."""
    if y is None:
        raise InputError("The classifier requires y to be passed, but the target y is None")
    labels = column_or_1d(y, warn=True)
    check_consistent_length(X, labels)
    given = column_or_1d(convert_to_label_array(y)).tolist()
    if labels.dtype.kind in "OUSmM":
        missing = [row for row, label in enumerate(given) if convert_to_text(label) is None]
        if missing:
            raise InputError(f"Row {missing[0]} has no label ({len(missing)} such rows): give one, or leave it out")
    else:
        assert_all_finite(labels, input_name="y")
    texts = [label for label in given if isinstance(label, str)]
    if 0 < len(texts) < len(given):
        other = next(label for label in given if not isinstance(label, str))
        raise InputError(f"y holds texts and others, such as {texts[0]!r} and {other!r}: write all labels as texts")
    check_classification_targets(labels)
    classes, number = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"y holds one class only, {classes[0]!r}: a classifier needs rows of at least two classes")
    if labels.dtype.kind in "OUS":
        check_labels_distinct(list(map(str, labels.tolist())), list(map(str, classes.tolist())), "y")
    return classes, number.astype(np.int64)


def _known_attribute(rows: Rows, attribute: Any) -> tuple[NDArray[np.int64], list[str]]:
    """Return the number (n,) of each row's attribute, -1 where unknown, and the K names."""
    texts = [None] * len(rows) if attribute is None else get_row_values(rows, attribute, "attribute")
    number, names = encode_labels(texts, torch.ones(len(rows), dtype=torch.bool))
    return number.numpy(), names


def find_correction_argument(estimator: Any) -> str:
    """Return the argument of ``fit`` that takes the correction, with the step of a pipeline in front.

    Raises:
        InputError: If it is no classifier, or takes neither offsets nor weights.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> find_correction_argument(make_pipeline(LogisticRegression()))
    'logisticregression__sample_weight'
    """
    if isinstance(estimator, type) or not hasattr(estimator, "fit") or not hasattr(estimator, "predict"):
        name = type(estimator).__name__
        raise InputError(f"estimator is {name}, but must be a classifier with fit and predict, not yet fitted")
    if hasattr(estimator, "steps"):
        step, last = estimator.steps[-1]
        return f"{step}__{find_correction_argument(last)}"
    if hasattr(estimator, "cv") and hasattr(estimator, "estimator"):  # a search passes it on, cut to each fold
        return find_correction_argument(estimator.estimator)
    offsets = ("base_margin", "init_score", "baseline")  # added to each row's margins: XGBoost, LightGBM, CatBoost
    for argument in (*offsets, "sample_weight"):
        if has_fit_parameter(estimator, argument):
            return argument
    raise InputError(
        f"{type(estimator).__name__} takes neither offsets ({', '.join(offsets)}) nor sample_weight in fit, so that it "
        "cannot be corrected: take another estimator"
    )


def fit_with_correction(estimator: Any, X: Any, label: NDArray[np.int64], found: AttributeEstimates) -> tuple[Any, str]:
    """Return a copy of a classifier, fitted to labels (n,), 0..L-1, with the correction, and what that was."""
    argument, fitted = find_correction_argument(estimator), clone(estimator)
    if argument.endswith("sample_weight"):
        fitted.fit(X, label, **{argument: found.sample_weight()})
        said = f"sample weights ({argument})"
    else:
        log = found.log_prior_of_rows()
        offset = log[:, 1] - log[:, 0] if log.shape[1] == 2 else log  # of two labels, of the second against the first
        # Else XGBoost adds the share of the labels to its predictions, though it trained without; also in a pipeline.
        options = fitted.get_params()
        unset = [one for one in options if one.rpartition("__")[2] == "base_score" and options[one] is None]
        fitted.set_params(**dict.fromkeys(unset, 0.5))
        fitted.fit(X, label, **{argument: offset})
        said = f"logit offsets ({argument})"
    return fitted, said if found.corrects else f"{said}, which change nothing: {found.verdict}"
