"""Frozen features: an encoder turns every input into a vector once, and a head trains on the vectors.

A pretrained network that is not trained any further gives the same features in every epoch, so each row passes through
it once. The features are cached, which makes every further training on the same data start at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from logit_correction.data.cache import CacheUnavailable, cache_array, compute_digest, get_cache_folder
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.evaluation.report import EncoderSummary
from logit_correction.formatting import format_option
from logit_correction.registry import ComponentConfig
from logit_correction.runs.inference import iterate_batches, restore_num_threads
from logit_correction.runs.options import RunConfig
from logit_correction.seeds import seed_default_generator
from logit_correction.training.display import Display
from logit_correction.types import DataInfo, Inputs


class EncodedStore(ArrayStore):
    """Features (M, F) in memory, and the store of the inputs that they were computed from.

    Attributes:
        original: The inputs before the encoder; its images are those of the rows.
        encoder: The encoder, which turns inputs of other rows into features in the same way.
    """

    def __init__(self, features: Tensor, original: InputStore, encoder: Encoder) -> None:
        super().__init__(features)
        self.original = original
        self.encoder = encoder

    @property
    def encoder_summary(self) -> EncoderSummary:
        """The entry ``encoder`` of ``report.json``."""
        encoder = self.encoder
        return EncoderSummary(
            name=encoder.name,
            options=encoder.options,
            facts=encoder.metadata,
            weights=encoder.weights,
            input_shape=list(encoder.info.input_shape),
            tokens=encoder.info.tokens,
            features=self.input_shape[0],
        )

    def digest(self) -> str:
        """Return the digest of the original inputs: features differ in their last digits from device to device."""
        return self.original.digest()

    def images(self, row_indices: Tensor) -> Tensor | None:
        """Return the images that the features of ``row_indices`` were computed from."""
        return self.original.images(row_indices)


class Encoder:
    """A frozen network that is used for its ``features`` alone: inputs (B, ...) -> features (B, F).

    Weights that are drawn at random do not depend on the seed of the run.

    Args:
        choice: The complete config of a network that has ``features``.
        info: Sizes of the inputs.
        device: Where features are computed.
        bf16: Whether they are computed in bfloat16.
        expected_weights: The digest of the weights in an earlier run; None accepts any weights.

    Attributes:
        features: The layers that are used.
        weights: Digest of their weights.
        metadata: Facts about the network, such as where its weights are from.

    Raises:
        InputError: The network has no ``features``, or its weights are not the expected ones.
    """

    MIN_CACHED_ROWS = 32  # features of fewer rows are computed faster than they are read
    # On a CPU few rows at a time: the layers of more photos are larger than what the system's allocator keeps, and
    # clearing new memory for each takes as long again.
    CPU_BATCH_SIZE = 3
    GPU_BATCH_SIZE = 32

    def __init__(
        self,
        choice: ComponentConfig,
        info: DataInfo,
        device: torch.device | str = "cpu",
        bf16: bool = False,
        expected_weights: str | None = None,
    ) -> None:
        self.name = choice.name
        self.options = choice.options
        self.info = info
        self.device = torch.device(device)
        self.bf16 = bf16
        with seed_default_generator(0, "encoder"):
            network = choice.make(info=info)
        if not isinstance(getattr(network, "features", None), nn.Module):
            raise InputError(
                f"{format_option('encoder', choice.name)} has no `features`: give it a module of that name"
            )
        self.features = network.features.eval().requires_grad_(False)
        self.metadata: dict[str, object] = getattr(network, "metadata", {})
        self.weights = compute_weights_digest(self.features)
        # Convolutions on a CPU take half the time where the channels of a pixel lie side by side.
        self.features.to(memory_format=torch.channels_last)
        if expected_weights not in (None, self.weights):
            raise InputError(
                f"the encoder {self.name} has other weights than when the run was trained: put its old file or version "
                "back, or train again"
            )

    def encode_store(self, store: InputStore, display: Display | None = None) -> EncodedStore:
        """Return the features of all rows of a store, from the cache if they are there.

        Args:
            store: N rows of inputs.
            display: Shows the progress if the rows are many; None shows nothing.
        """
        if len(store) < self.MIN_CACHED_ROWS:
            return EncodedStore(torch.from_numpy(self._compute_features(store, Display())), store, self)
        # Not computed again where they cannot be cached.
        compute = cache(partial(self._compute_features, store, display or Display()))
        settings = json.dumps([self.name, self.options, self.bf16], sort_keys=True, default=str)
        file = get_cache_folder() / "features" / f"{compute_digest([settings, self.weights, store.digest()])}.npy"
        try:
            features, _ = cache_array(file, lambda temporary: np.save(temporary, compute()))
        except CacheUnavailable:  # such as where a run predicts and nothing can be written
            features = compute()
        return EncodedStore(torch.from_numpy(features), store, self)

    def _compute_features(self, store: InputStore, display: Display) -> NDArray[np.float32]:
        batch_size = self.CPU_BATCH_SIZE if self.device.type == "cpu" else self.GPU_BATCH_SIZE
        parts: list[Tensor] = []
        num_encoded = 0
        with display:
            display.start(f"encode by {self.name}", len(store), 0)
            for features in self.encode_batches(iterate_batches(store, self.device, batch_size)):
                parts.append(features)
                num_encoded += len(features)
                display.update(num_encoded, {})
        return torch.cat(parts).numpy()

    def encode_batches(self, batches: Iterable[Inputs]) -> Iterator[Tensor]:
        """Yield the features (B, F) of batches on the encoder's device, as float32 on the CPU.

        On a CPU each thread computes a batch of its own: threads that share a layer wait for one another.
        """
        from joblib import Parallel, delayed

        self.features.to(self.device)
        if self.device.type != "cpu":
            yield from map(self._encode_batch, batches)
            return
        parallel = Parallel(torch.get_num_threads(), backend="threading", return_as="generator")
        with restore_num_threads():
            torch.set_num_threads(1)
            yield from parallel(delayed(self._encode_batch)(inputs) for inputs in batches)

    @torch.no_grad()
    def _encode_batch(self, inputs: Inputs) -> Tensor:
        if isinstance(inputs, Tensor) and inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            features: Tensor = self.features(inputs).float().cpu()
        if features.dim() != 2 or not features.isfinite().all():
            raise InputError(
                f"{format_option('encoder', self.name)} gives features that are not finite vectors: take another one"
            )
        return features


def encode_table(
    table: DataTable, config: RunConfig, display: Display | None = None, expected_weights: str | None = None
) -> DataTable:
    """Return a table with features in place of the inputs of all rows; training images are not augmented.

    Args:
        table: The data as its source builds it.
        config: A complete config that has an encoder.
        display: Shows the progress; None shows nothing.
        expected_weights: See ``Encoder``.
    """
    assert config.encoder is not None
    training = config.training
    device = "cuda" if training.device != "cpu" and torch.cuda.is_available() else "cpu"
    encoder = Encoder(config.encoder, table.info, device, training.precision == "bf16-mixed", expected_weights)
    with restore_num_threads():
        if training.threads:
            torch.set_num_threads(training.threads)
        inputs = encoder.encode_store(table.inputs, display)
    encoder.features.cpu()
    width = inputs.input_shape[0]
    metadata = {**table.metadata, "inputs": f"features of {encoder.name}, frozen: {width} numbers a row"}
    notes = table.notes
    if table.augment is not None:
        notes = (*notes, f"the encoder {encoder.name} sees every image once, without the augmentation asked for")
    return replace(table, inputs=inputs, metadata=metadata, notes=notes, augment=None)


def compute_weights_digest(module: nn.Module) -> str:
    """Return 32 hexadecimal digits that depend on the names, shapes and values of all weights and buffers."""
    state = hashlib.sha256()
    for name, value in module.state_dict().items():
        state.update(f"{name} {tuple(value.shape)} {value.dtype} ".encode())
        state.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return state.hexdigest()[:32]
