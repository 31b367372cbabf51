"""``LogitCorrectionClassifier``: a scikit-learn classifier that trains in memory, by the library's own loop."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

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

from logit_correction.data.cells import convert_to_label_array, convert_to_text, is_missing_cell
from logit_correction.data.features import ColumnReader
from logit_correction.data.labels import check_labels_distinct, encode_labels
from logit_correction.data.new_rows import convert_to_frame, get_annotations, get_label_indices
from logit_correction.data.reader import NumericReader, Reader
from logit_correction.data.rows import Rows
from logit_correction.data.source import DataSource
from logit_correction.data.splits import Splitting, make_splits
from logit_correction.data.table import DataTable
from logit_correction.data.texts import TextReader
from logit_correction.errors import InputError, TrainingInterrupted, warn_user
from logit_correction.evaluation.metrics import MetricSpec, resolve_metrics, takes_probability
from logit_correction.evaluation.predictions import Predictions
from logit_correction.evaluation.report import EvaluatedRows
from logit_correction.finding_text import finding_to_dict
from logit_correction.formatting import format_percent
from logit_correction.methods.base import Algorithm
from logit_correction.registry import CompleteComponent, parse_name_list
from logit_correction.runs.assemble import prepare_run
from logit_correction.runs.average import build_trainer
from logit_correction.runs.estimate import AttributeEstimates, run_estimator
from logit_correction.runs.inference import iterate_batches, restore_num_threads
from logit_correction.runs.model import FittedModel
from logit_correction.runs.options import Part, RunConfig, build_config, complete_config
from logit_correction.serialization import to_json_values
from logit_correction.training.display import choose_display
from logit_correction.training.fit import get_attribute_names
from logit_correction.types import UNKNOWN_ATTRIBUTE, to_numpy
from logit_correction.view_names import ViewName, format_view_names

if TYPE_CHECKING:
    import pandas as pd


#: Form of the rows, a field of ``Rows`` -> the reader of such rows.
READERS: dict[str, Callable[..., Reader]] = {"frame": ColumnReader, "texts": TextReader, "values": NumericReader}


class TableSource(DataSource):
    """The rows that a caller gave, as a data source; without a table, only a reader of unseen rows."""

    def __init__(self, reader: Reader, table: DataTable | None = None) -> None:
        self.reader = reader
        self.table = table

    def build(self) -> DataTable:
        assert self.table is not None
        return self.table

    def as_component(self) -> CompleteComponent:
        """Return the source as the part ``data`` of a config."""
        return CompleteComponent("rows in memory", factory=lambda: self)


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
        numbers: Columns of a data frame that hold numbers, whatever their cells look like: cells that are none are
            missing, and whole numbers that differ in every row stay features.
        categorical: Columns of a data frame that hold names, even if these are numbers.
        epochs: Passes over the training rows; None chooses by the number of rows, as for ``batch_size``.
        batch_size: Rows of a step.
        learning_rate: Learning rate at the start.
        training: Further options of ``TrainingConfig``, such as ``{"weight_decay": 1e-4}``.
        random_state: Seed of everything random.
        device: auto, cpu or cuda.
        verbose: Whether to show progress.
        single: With labelled new rows, train the best candidate, where its gain is clear, and no average of the likely
            ones.
        refit: After new rows have selected what to train, train it on all rows; otherwise on the four fifths by which
            it was selected.
        estimator: A classifier to fit in place of our network. It gets an offset of its logits for each row where it
            takes such (``base_margin``, ``init_score``, ``baseline``), else a weight for each row.

    Attributes:
        classes_: The labels.
        n_features_in_: Columns of arrays and data frames.
        feature_names_in_: Their names, of data frames.
        evidence_: The result of the search for a shortcut: ``verdict``, ``sentence``, ``views`` and figures; None
            if the method does not search.
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
        numbers: str | Sequence[str] = (),
        categorical: str | Sequence[str] = (),
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        training: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        verbose: bool = False,
        single: bool = False,
        refit: bool = True,
        estimator: Any = None,
    ) -> None:
        self.method = method
        self.network = network
        self.attributes = attributes
        self.preset = preset
        self.shortcut = shortcut
        self.legitimate = legitimate
        self.numbers = numbers
        self.categorical = categorical
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.training = training
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.single = single
        self.refit = refit
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
                ``TrueAttributes``); others never see them. Where some are unknown, take ``Given`` with the name of a
                column, or with a file.
            new_rows: Rows that the classifier will be used on. They choose between ERM and every correction, with a
                fifth of the rows held out.
            new_y: Their labels, None where unknown. The likely candidates are averaged, and a correction is learned
                from these labels, as in an audit with answers. Without any, nothing is corrected, and ``new_rows_``
                says whether labelling some is worth it.

        Raises:
            InputError: Something given is wrong; nothing was trained.
            TrainingError: The loss was not finite.
        """
        for name in ("config_", "_model"):  # a fit that fails leaves no model, neither a new nor an old one
            self.__dict__.pop(name, None)
        method: dict[str, Any] = dict(self.method) if isinstance(self.method, Mapping) else {"name": self.method}
        if self.attributes is not None:
            method["attributes"] = self.attributes
        if self.estimator is not None:
            find_correction_argument(self.estimator)
        if new_rows is not None and (self.estimator is not None or method != {"name": "LC"}):
            raise InputError("new_rows choose the method: leave method, attributes and estimator out")
        if self.single and new_rows is None:
            raise InputError("single chooses among candidates by new rows: give new_rows to fit, or leave it out")
        rows = self._check_rows(X, reset=True)
        self.classes_, label = check_labels(rows, y)
        source = self._build_source(rows, label, attribute)
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        leave_out: list[str] = []
        self.new_rows_: dict[str, Any] | None = None
        with restore_num_threads(), TemporaryDirectory() as folder:
            if new_rows is not None:
                source, method, leave_out = self._select_method(source, int(seed), new_rows, new_y, Path(folder))
            model = self._train(self._build_config(source, int(seed), method, leave_out), X)
        if leave_out:
            self.correction_ = f"{method['name']} that cannot see {format_view_names(leave_out)}"
        elif method["name"] == "Average":
            members = [f"{format_percent(member['weight'])} {member['name']}" for member in method["members"]]
            self.correction_ = f"an average of {', '.join(members)}"
        model.algorithm.eval()
        buffer = io.BytesIO()
        torch.save(model.state(), buffer)
        self.model_["state"] = buffer.getvalue()
        self.config_ = model.config.to_dict()
        if method["name"] == "Average":
            self.config_["method"]["answers"] = None  # what is learned from them is in the weights
        self._model = model
        self._describe_attributes(model.algorithm)
        return self

    def _build_source(self, rows: Rows, label: NDArray[np.int64], attribute: Any) -> TableSource:
        """Return the source of the training rows, without rows for validation or test."""
        kind = next(name for name in READERS if getattr(rows, name) is not None)
        reader = self._make_reader(kind)
        values, _, notes = reader.validate(rows)
        rows.errors.raise_if_any()
        every_row = torch.arange(len(label))
        with np.errstate(over="ignore", invalid="ignore"):  # of numbers whose mean no float holds
            fitted = reader.fit_transform(values, every_row, rows.errors)
        for note in (*notes, *fitted.notes):
            warn_user(note)
        self.model_ = {"kind": kind, "preparation": fitted.preparation}
        attribute_indices, attribute_names = encode_attributes(rows, attribute)
        table = DataTable(
            inputs=fitted.inputs,
            label=torch.from_numpy(label),
            attribute=torch.from_numpy(attribute_indices),
            split={"train": every_row, "valid": every_row[:0], "test": every_row[:0]},
            label_names=[str(convert_to_text(name)) for name in convert_to_label_array(self.classes_)],
            attribute_names=attribute_names,
            preparation=fitted.preparation,
            ordered=False,  # a caller shuffles X, and new rows have no place in it
            **fitted.forms,
        )
        return TableSource(reader, table)

    def _make_reader(self, kind: str) -> Reader:
        """Return a reader of rows in a form of ``READERS``."""
        options = {name: parse_name_list(getattr(self, name)) for name in ("numbers", "categorical")}
        if kind == "frame":
            return READERS[kind](**options)
        for name, columns in options.items():
            if columns:
                raise InputError(f"{name} names columns: give a data frame that has them, or leave it out")
        return READERS[kind]()

    def _build_config(
        self, source: TableSource, seed: int, method: Mapping[str, Any], leave_out: Sequence[str] = ()
    ) -> RunConfig:
        """Return the complete config of a training on a source."""
        names = ("network", "shortcut", "legitimate", "epochs", "batch_size", "learning_rate", "preset")
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        training = dict(self.training or {})
        own = {"seed": "random_state"} | dict.fromkeys(("method", "refit", "device"))
        repeated = [name for name in training if options.get(name) is not None or name in own]
        if repeated:
            name = own.get(repeated[0]) or repeated[0]
            raise InputError(f"{name} is an argument of the classifier: leave {repeated[0]} out of training")
        if training.get("selection", "last") != "last":
            raise InputError("The classifier has no rows to select an epoch by: leave selection out of training")
        leave_out = [*leave_out, *parse_name_list(training.pop("leave_out", ()))]
        options |= {
            "method": method,
            "seed": seed,
            "device": self.device,
            "selection": "last",
            "leave_out": list(leave_out) or None,
            **training,
        }
        config = build_config(source.as_component(), **options)
        if config.training.devices * config.training.nodes > 1:
            raise InputError("The classifier trains in this process, on one device: leave devices and nodes out")
        return config

    def _select_method(
        self, source: TableSource, seed: int, new_rows: Any, new_y: Any, folder: Path
    ) -> tuple[TableSource, dict[str, Any], list[str]]:
        """Return the rows to train on, the method that new rows select, and the views that its network may not see.

        Args:
            source: All rows.
            seed: Of the split, the candidates and the selection.
            new_rows: See ``fit``.
            new_y: See ``fit``.
            folder: Gets the labelled new rows, from which an average learns a correction.
        """
        import pandas as pd

        from logit_correction.shortcuts.audit_files import build_advised_config
        from logit_correction.shortcuts.new_rows import build_new_rows_table, predict_candidates
        from logit_correction.shortcuts.selection import select_from_answers

        table = source.build()
        split, _ = make_splits(table.label, (), table.label_names, Splitting(0.2, 0.0, seed))
        split_source = TableSource(source.reader, replace(table, split=split))
        config = self._build_config(split_source, seed, {"name": "LC", "attributes": "Auto"})
        display = choose_display(self.verbose)
        prepared = prepare_run(config, display, ("train", "valid"))
        with display:
            prepared.make_trainer(display).run(estimator_only=True)
        rows = self._check_rows(new_rows)
        stores = [store for _, store, _ in prepared.build_model().read([rows])]
        inputs = chain.from_iterable(iterate_batches(store, torch.device("cpu")) for store in stores)
        label = [None] * len(rows) if new_y is None else get_annotations(rows, new_y, "label")
        known = build_new_rows_table([pd.DataFrame({"label": label})], table)
        predicted, selection = predict_candidates(prepared, known, inputs, display)
        selection = select_from_answers(predicted, replace(selection, single=self.single))
        self.new_rows_ = to_json_values(selection)
        advised = build_advised_config(selection, predicted, folder, folder)
        return source if self.refit else split_source, advised.method.to_dict(), advised.training.leave_out

    def _train(self, config: RunConfig, X: Any) -> FittedModel:
        """Train the network, or the given classifier with a correction."""
        display = choose_display(self.verbose)
        if self.estimator is not None:
            estimates = run_estimator(config, display)
            self.estimator_, self.correction_ = fit_with_correction(self.estimator, X, estimates)
            self.n_epochs_ = 0
            self.attribute_ = estimates.attribute
            assert estimates.model is not None
            return estimates.model
        prepared = prepare_run(config, display, ("train",))
        fit = build_trainer(prepared, display)
        try:
            with display:
                fit.run()
        except TrainingInterrupted as error:
            raise KeyboardInterrupt from error
        attribute = fit.estimate_training_attributes()
        self.attribute_ = np.full(len(prepared.table.label), UNKNOWN_ATTRIBUTE)
        if attribute is not None:
            self.attribute_[prepared.table.split["train"]] = attribute
        self.n_epochs_ = fit.progress.epoch
        self.correction_ = f"the training of {prepared.config.method.name}"
        estimator = prepared.algorithm.attributes
        if estimator is not None and estimator.finding is not None and not estimator.finding.corrects:
            self.correction_ = f"none: {estimator.finding.verdict}"
        return prepared.build_model()

    def _describe_attributes(self, algorithm: Algorithm) -> None:
        """Set the attributes of the fitted classifier that describe the shortcut and the estimates."""
        estimator = algorithm.attributes
        finding = None if estimator is None else estimator.finding
        self.evidence_ = finding_to_dict(finding)
        self.attribute_names_: list[str] = []
        self.attribute_posterior_ = None
        self.group_prior_ = None
        if estimator is not None and not estimator.has_abstained:
            posterior = estimator.row_posterior
            prior = algorithm.group_prior
            self.attribute_names_ = get_attribute_names(algorithm)
            self.attribute_posterior_ = None if posterior is None else posterior.cpu().numpy()
            self.group_prior_ = None if prior is None else prior.table.double().cpu().numpy()
        views = () if finding is None else finding.views
        if not hasattr(self, "feature_names_in_") and any(ViewName.parse(view).family == "column" for view in views):
            warn_user(
                "The shortcut's columns are called by their numbers, since X has no names: give a data frame, or call "
                '.set_output(transform="pandas") of what makes X'
            )

    # -- predict

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of each row, (n,)."""
        check_is_fitted(self)
        if self.estimator is None:
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        self._check_rows(X)  # the classifier's own checks may be none
        return self.classes_[np.asarray(self.estimator_.predict(X)).ravel().astype(np.int64)]

    @available_if(lambda self: self.estimator is None or hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of every label, (n, L), in the order of ``classes_``."""
        check_is_fitted(self)
        rows = self._check_rows(X)
        if self.estimator is None:
            return self._get_model().predict_logits([rows]).double().softmax(1).numpy()
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
        for name, metric in resolve_metrics(metrics).items():
            if takes_probability(metric) and not has_probability:
                raise InputError(f"metric {name} needs probabilities, and the estimator has no predict_proba")
        rows = self._check_rows(X)
        model = self._get_model()
        label = get_label_indices(rows, column_or_1d(y), model.info.label_names)
        predicted = np.searchsorted(self.classes_, self.predict(X))
        correlation = None
        if attribute is not None:
            attribute_indices, names = encode_attributes(rows, attribute)
        else:
            estimates = model.predict_attributes([rows], torch.from_numpy(label))
            if estimates is None:
                reason = f"there are no estimated groups (correction: {self.correction_})"
                raise InputError(f"{reason}: give attribute=, one for each row")
            attribute_indices = estimates.attribute
            names = list(estimates.names)
            correlation = estimates.correlation
        predictions = Predictions(
            index=np.arange(len(label)),
            label=label,
            logits=np.eye(len(self.classes_))[predicted],
            label_names=model.info.label_names,
            attribute=attribute_indices,
            attribute_names=names,
        )
        probability = self.predict_proba(X) if metrics and has_probability else None
        groups = EvaluatedRows.from_predictions(predictions, correlation).build_group_table(metrics, probability)
        return groups.drop(columns=["margin_min", "margin_mean", "ece"])  # predictions alone have none

    def _check_rows(self, X: Any, reset: bool = False) -> Rows:
        """Return rows in the form that a reader takes, after the checks of scikit-learn.

        Args:
            X: n rows. After a data frame of numbers alone in ``fit`` they may be an array.
            reset: Whether they are those of ``fit``, whose width and names later rows must have.
        """
        X = to_numpy(X) if isinstance(X, torch.Tensor) else X
        is_dense = not issparse(X)
        if is_dense and hasattr(X, "__len__") and not len(X):
            raise InputError("There are 0 rows: give at least one" + " of each label" * reset)
        columns = [] if reset else self.model_["preparation"].get("columns", [])
        frame = None
        if is_dense and (reset or columns):
            frame = convert_to_frame(
                X.reset_index(drop=True) if hasattr(X, "reset_index") else X
            )  # the index is not a column
        if frame is not None:
            validate_data(self, X if hasattr(X, "columns") else frame, reset=reset, skip_check_array=True)
            return Rows("the rows", range(len(frame)), frame=frame)
        if any(column["kind"] != "numbers" for column in columns):
            raise InputError("fit was given a data frame, and these rows have no columns: give a data frame with them")
        if isinstance(X, str):
            raise InputError("X is one text: give a list of texts, such as [text]")
        if getattr(X, "ndim", 1) == 1 and isinstance(X, Iterable) and _begins_with_text(X):
            texts = list(X)
            return Rows("the rows", range(len(texts)), texts=texts)
        is_image = getattr(X, "ndim", None) == 4
        values = np.asarray(X) if is_image else validate_data(self, X, reset=reset, dtype=np.float64)
        return Rows("the rows", range(len(values)), values=values)

    def _get_model(self) -> FittedModel:
        """Return the trained model; after unpickling it is built from ``model_``."""
        if not hasattr(self, "_model"):
            reader = self._make_reader(self.model_["kind"])
            reader.load_state(self.model_["preparation"])
            source = TableSource(reader)
            config = complete_config({**self.config_, "data": source.as_component()})
            state = torch.load(io.BytesIO(self.model_["state"]), map_location="cpu", weights_only=True)
            self._model = FittedModel.from_state(state, config, source)
            if self.device != "cpu" and torch.cuda.is_available():
                self._model.algorithm.to("cuda")
        info = self._model.info
        if len(info.input_shape) == 1 and not info.tokens:
            # In double precision the prediction of a row does not depend on the rows that are predicted with it.
            self._model.algorithm.double()
        return self._model

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the last ``fit`` came to its end."""
        return hasattr(self, "config_")

    def __getstate__(self) -> dict[str, Any]:
        """Leave the networks out: ``model_`` holds all that builds them again."""
        return {name: value for name, value in super().__getstate__().items() if name != "_model"}


def _begins_with_text(values: Iterable[Any]) -> bool:
    """Return whether the first value that is not missing is a text."""
    return isinstance(next((value for value in values if not is_missing_cell(value)), None), str)


def check_labels(X: Any, y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Check labels as classifiers of scikit-learn do.

    Args:
        X: n rows.
        y: (n,) labels.

    Returns:
        The L labels, sorted, and the index (n,) of each row's label.

    Raises:
        ValueError: A label is missing, labels are of several types or look alike, or there is one only.
    """
    if y is None:
        raise InputError("The classifier requires y to be passed, but the target y is None")
    labels = column_or_1d(y, warn=True)
    check_consistent_length(X, labels)
    given = column_or_1d(convert_to_label_array(y))
    values = given.tolist()
    is_complete = given.dtype.kind in "biu"
    missing = [] if is_complete else [row for row, label in enumerate(values) if convert_to_text(label) is None]
    if missing:
        raise InputError(f"Row {missing[0]} has no label ({len(missing)} such rows): give one, or leave it out")
    if given.dtype.kind not in "OUSmM":
        assert_all_finite(labels, input_name="y")
    texts = [label for label in values if isinstance(label, str)]
    if 0 < len(texts) < len(values):
        other = next(label for label in values if not isinstance(label, str))
        raise InputError(f"y holds texts and others, such as {texts[0]!r} and {other!r}: write all labels as texts")
    check_classification_targets(labels)
    classes, indices = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"y holds one class only, {classes[0]!r}: a classifier needs rows of at least two classes")
    if labels.dtype.kind in "OUS":
        check_labels_distinct(list(map(str, labels.tolist())), list(map(str, classes.tolist())), "y")
    return classes, indices.astype(np.int64)


def encode_attributes(rows: Rows, attribute: Any) -> tuple[NDArray[np.int64], list[str]]:
    """Return the index (n,) of each row's attribute, -1 where unknown, and the K names.

    Args:
        rows: n rows.
        attribute: (n,) names or numbers, None or -1 where unknown; None if it is unknown for every row.
    """
    values = [None] * len(rows) if attribute is None else get_annotations(rows, attribute, "attribute")
    indices, names = encode_labels(values, torch.ones(len(rows), dtype=torch.bool))
    return indices.numpy(), names


def find_correction_argument(estimator: Any) -> str:
    """Return the argument of ``fit`` that takes the correction, with the step of a pipeline in front.

    Raises:
        InputError: It is not a classifier, or takes neither offsets nor weights.

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


def fit_with_correction(estimator: Any, X: Any, estimates: AttributeEstimates) -> tuple[Any, str]:
    """Fit a copy of a classifier to the rows and labels that were estimated, with logit correction.

    Args:
        estimator: A classifier of scikit-learn's interface; see ``find_correction_argument``.
        X: n rows, as the classifier takes them.
        estimates: Labels and attributes of the same rows.

    Returns:
        The fitted copy, whose labels are 0..L-1, and how it was corrected, in one line.
    """
    argument = find_correction_argument(estimator)
    classifier = clone(estimator)
    if argument.endswith("sample_weight"):
        correction: NDArray[Any] = estimates.sample_weight()
        description = f"sample weights ({argument})"
    else:
        correction = estimates.log_prior_of_rows()
        if correction.shape[1] == 2:  # of two labels, that of the second against the first
            correction = correction[:, 1] - correction[:, 0]
        description = f"logit offsets ({argument})"
        # Else XGBoost adds the share of the labels to its predictions, though it trained without; also in a pipeline.
        options = classifier.get_params()
        unset = [name for name in options if name.rpartition("__")[2] == "base_score" and options[name] is None]
        classifier.set_params(**dict.fromkeys(unset, 0.5))
    classifier.fit(X, estimates.label, **{argument: correction})
    if not estimates.corrects:
        description += f", which change nothing: {estimates.verdict}"
    return classifier, description
