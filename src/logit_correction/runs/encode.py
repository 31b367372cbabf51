"""Frozen features: a network turns every input into a vector once, and heads train on the vectors."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from logit_correction.data.cache import CacheUnavailable, cache_array, compute_digest, get_cache_folder
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.evaluation.report import EncoderSummary
from logit_correction.formatting import format_option
from logit_correction.networks.base import Network
from logit_correction.registry import ComponentConfig
from logit_correction.runs.inference import iterate_batches, keep_num_threads
from logit_correction.runs.options import RunConfig
from logit_correction.seeds import derive_seed
from logit_correction.training.display import Display
from logit_correction.types import DataInfo, Inputs


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
            network = choice.make(info=info)
        if not isinstance(getattr(network, "features", None), nn.Module):
            raise InputError(
                f"{format_option('encoder', choice.name)} has no `features`: give it a module of that name"
            )
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
        with keep_num_threads(), ThreadPoolExecutor(threads) as pool:
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
            raise InputError(
                f"{format_option('encoder', self.name)} gives features that are not finite vectors: take another one"
            )
        return values

    def of_store(
        self, store: InputStore, device: torch.device, bf16: bool = False, display: Display | None = None
    ) -> EncodedStore:
        """Return the features of all rows of a store; those of many rows are kept in the cache."""

        @cache  # not made again where it cannot be kept
        def make() -> np.ndarray[Any, Any]:
            parts, done = list[Tensor](), 0
            shown = display if display and len(store) >= self.KEPT else Display()
            batches = iterate_batches(store, device, self.ON_PROCESSOR if device.type == "cpu" else self.ON_GPU)
            with shown:
                shown.start(f"encode by {self.name}", len(store), 0)
                for values in self.encode(batches, device, bf16):
                    parts.append(values)
                    shown.update(done := done + len(values), {})
            return torch.cat(parts).numpy()

        again = partial(self.of_store, device=device, bf16=bf16)
        if len(store) >= self.KEPT:
            named = json.dumps([self.name, self.options, bf16], sort_keys=True, default=str)
            path = get_cache_folder() / "features" / f"{compute_digest([named, self.weights, store.digest()])}.npy"
            with suppress(CacheUnavailable):  # such as where a run predicts and nothing can be written
                kept, _ = cache_array(path, lambda file: np.save(file, make()))
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
    with keep_num_threads():
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
