"""``LogitCorrectionClassifier``: fit and predict as scikit-learn has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from logit_correction.errors import InputError
from logit_correction.integrations.scikit_learn import training as trainings
from logit_correction.integrations.scikit_learn.checks import checked_labels, checked_rows, known_attribute, seed_of
from logit_correction.integrations.scikit_learn.fitted import Fitted
from logit_correction.integrations.scikit_learn.inputs import Form, kind_of
from logit_correction.integrations.scikit_learn.wrapped import fit_corrected, way_of
from logit_correction.runs.api import Part
from logit_correction.training.display import choose_display

if TYPE_CHECKING:
    from logit_correction.config import RunConfig
    from logit_correction.data.table import DataTable


class LogitCorrectionClassifier(Fitted):
    """A classifier that looks for a shortcut in its training rows, and corrects by it where there is one.

    ``fit`` trains a network by ``LC``, with the defaults of ``train``; no attribute is needed. Rows are an array
    (n, F), images (n, C, H, W) or (n, H, W, C), a data frame of numbers, names and texts, or a list of texts. Numbers
    are standardised by the training rows. Rows are exchangeable: their order is never looked at.

    Args:
        method: Name of a method, or a mapping of its name and options.
        network: Name of a network, or a mapping; None takes one that fits the data.
        attributes: Attribute estimator of the method, a name or a mapping; None takes that of the method.
        preset: Name of a preset.
        shortcut: Views that are known to be a shortcut, such as ``column:scanner``.
        legitimate: Views that are known to be none.
        epochs: Passes over the training rows; None follows the number of rows.
        batch_size: Rows of a step; None likewise.
        learning_rate: Learning rate at the start.
        training: Further options of ``TrainingConfig``, such as ``{"weight_decay": 1e-4}``.
        selection: Rule by which an epoch's weights are kept; all but ``last`` hold out rows.
        validation_fraction: Share of the rows that is held out for such a rule.
        text: In a data frame, the column of texts.
        tokenizer: Splits texts for a language model, a name or a folder; None counts words.
        channels: ``first`` or ``last`` where images do not tell.
        random_state: Seed of everything random.
        device: auto, cpu or cuda.
        verbose: Whether to show progress.
        warm_start: Whether a further ``fit`` begins with the weights of the last one.
        estimator: A classifier to fit in place of a network of ours: the attributes are estimated as ever, and it is
            fitted with offsets of its logits by row where it takes such (``base_margin``, ``init_score``,
            ``baseline``, or a skorch net), else with weights by row.

    Attributes:
        classes_: The labels.
        n_features_in_: Columns of arrays and data frames.
        feature_names_in_: Their names, of data frames.
        evidence_: What was found of a shortcut: ``verdict``, ``sentence``, ``views`` and figures; None where a method
            does not look.
        attribute_: (n,) estimated attribute of each training row, -1 where unknown.
        attribute_names_: K names; that of a label means: looks like rows of this label.
        attribute_posterior_: (n, K) how likely each attribute is; None where nothing was found.
        group_prior_: (L, K) P(label, attribute); None where nothing is corrected.
        correction_: How it was corrected, in one line.
        estimator_: The fitted classifier, where one was given.
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
        shortcut: Sequence[str] = (),
        legitimate: Sequence[str] = (),
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        training: Mapping[str, Any] | None = None,
        selection: str = "last",
        validation_fraction: float = 0.1,
        text: str | None = None,
        tokenizer: str | None = None,
        channels: str | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        verbose: bool = False,
        warm_start: bool = False,
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
        self.selection = selection
        self.validation_fraction = validation_fraction
        self.text = text
        self.tokenizer = tokenizer
        self.channels = channels
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.warm_start = warm_start
        self.estimator = estimator

    # -- fit

    def fit(self, X: Any, y: ArrayLike, *, attribute: ArrayLike | None = None) -> LogitCorrectionClassifier:
        """Look for a shortcut in the rows, train, and correct by it where there is one.

        Args:
            X: n rows; see above.
            y: (n,) labels.
            attribute: (n,) attributes that are known, for methods and estimators that read them (``GroupDRO``,
                ``TrueAttributes``); others never see them.

        Raises:
            InputError: Something given is wrong; nothing was trained.
            TrainingError: The loss was not finite.
        """
        before = self.model_ if self.warm_start and hasattr(self, "model_") else None
        given, kind = X, kind_of(X, self.text)
        X = checked_rows(self, X, kind, self.channels, reset=before is None)  # type: ignore[arg-type]
        classes, label = checked_labels(X, y)
        if before is not None and self.estimator is not None:
            raise InputError("warm_start goes on with a network of ours: give it to estimator, or leave it out")
        if before is not None and not np.array_equal(classes, self.classes_):
            raise InputError("warm_start goes on with the labels of the last fit, and y has others: fit without it")
        way = None if self.estimator is None else way_of(self.estimator)
        seed, names = seed_of(self.random_state), classes.astype(str).tolist()
        fraction = 0.0 if self.selection == "last" or way is not None else self.validation_fraction
        split = trainings.split_rows(label, names, fraction, seed)
        train = split["train"].numpy()
        if before is None:
            names_in = getattr(self, "feature_names_in_", None)
            form, rows = Form.learn(kind, X, train, names_in, self.text, self.tokenizer)
        else:
            form = Form.from_state(before["form"])
            rows = form.read(X)
        table = trainings.table_of(rows, label, names, split, known_attribute(attribute, len(label)))
        config, display = self._config(table, seed), choose_display(quiet=not self.verbose)
        self.classes_ = classes
        if way is None:
            start = None if before is None else trainings.network_weights(before)
            trained = trainings.train(config, display, start)
            self.correction_ = trained.correction
        else:
            trained, self.estimator_, self.correction_ = fit_corrected(way, given, label, config, display)
        self._keep(trained, form, train, len(label))
        return self

    def _config(self, table: DataTable, seed: int) -> RunConfig:
        method: Any = dict(self.method) if isinstance(self.method, Mapping) else {"name": self.method}
        if self.attributes is not None:
            method["attributes"] = self.attributes
        chosen = {"epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate}
        options: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
        options |= {"seed": seed, "device": self.device, "selection": self.selection, **(self.training or {})}
        parts = {"method": method} | ({} if self.network is None else {"network": self.network})
        known = {"shortcut": self.shortcut, "legitimate": self.legitimate}
        views = {name: [one] if isinstance(one, str) else one for name, one in known.items()}
        return trainings.run_config(table, parts, self.preset, views, options)
