"""What a run takes where nobody chose: network and weight decay by the kind of inputs, batch and epochs by the rows."""

from __future__ import annotations

import math
from dataclasses import replace

from logit_correction.config import ComponentConfig, RunConfig
from logit_correction.types import DataInfo

#: Steps that a training should at least have: small data take more epochs, for a network learns by steps.
LEAST_STEPS = 1500

#: Least and most epochs that are chosen.
LEAST_EPOCHS, MOST_EPOCHS = 15, 100

#: Rows from which on a batch has so many rows.
BATCHES = ((500_000, 1024), (20_000, 256), (8_000, 128), (4_000, 64), (0, 32))

#: Weight decay where rows are numbers: without it an MLP knows a few thousand rows by heart, the minority's first, and
#: then no correction is left to be learned from. ``docs/results.md`` has what was measured.
DECAY_OF_NUMBERS = 1e-3

#: Images of a shorter side are vectors to a network, and of one as long as the second they want a deep one.
SMALL_SIDE, LARGE_SIDE = 16, 64


def fitted(config: RunConfig, info: DataInfo) -> tuple[RunConfig, list[str]]:
    """Return the config with all that it leaves to the data filled in, and what to tell a user of it.

    Args:
        config: With an empty name for a network that nobody chose, and None for weight decay, batch size and epochs.
        info: Sizes of the data, behind an encoder those of its features.
    """
    told = []
    if not config.network.name:
        name, why = usual_network(info, config.encoder is not None)
        config = replace(config, network=ComponentConfig(name))
        told.append(f"network {name}, for {why}")
    training, rows = config.training, info.num_rows
    decay = training.weight_decay
    if decay is None:
        decay = usual_decay(info, config.encoder is not None)
        told += [f"weight decay {decay:g}"] if decay else []
    size = training.batch_size
    if size is None:
        size = usual_batch(rows, training.devices * training.nodes)
        told.append(f"batches of {size}")
    epochs = training.epochs
    if epochs is None:
        epochs = usual_epochs(rows, size)
        told.append(f"{epochs} epochs, {epochs * math.ceil(rows / size):,} steps, for {rows:,} rows")
    training = replace(training, weight_decay=decay, batch_size=size, epochs=epochs)
    return replace(config, training=training), told


def usual_network(info: DataInfo, encoded: bool = False) -> tuple[str, str]:
    """Return the network for inputs of a kind and size, and these in words.

    >>> usual_network(DataInfo(num_labels=2, num_rows=9, input_shape=(3, 224, 224)))
    ('ResNet18', 'images of 224 x 224 pixels')
    >>> usual_network(DataInfo(num_labels=2, num_rows=9, input_shape=(12,)))
    ('MLP', '12 numbers a row')
    """
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


def usual_decay(info: DataInfo, encoded: bool = False) -> float:
    """Return the weight decay for inputs of a kind.

    >>> usual_decay(DataInfo(num_labels=2, num_rows=9, input_shape=(12,)))
    0.001
    >>> usual_decay(DataInfo(num_labels=2, num_rows=9, input_shape=(3, 32, 32)))
    0.0
    """
    numbers = len(info.input_shape) == 1 and not (info.tokens or info.words or encoded)
    return DECAY_OF_NUMBERS if numbers else 0.0


def usual_batch(num_rows: int, processes: int = 1) -> int:
    """Return the rows of a batch, divisible by the number of processes.

    >>> usual_batch(300), usual_batch(55_000), usual_batch(700_000), usual_batch(300, processes=3)
    (32, 256, 1024, 33)
    """
    size = next(size for rows, size in BATCHES if num_rows >= rows)
    return math.ceil(size / processes) * processes


def usual_epochs(num_rows: int, batch_size: int) -> int:
    """Return the epochs of a training.

    >>> usual_epochs(55_000, 256), usual_epochs(2_240, 32), usual_epochs(300, 32)
    (15, 22, 100)
    """
    wanted = math.ceil(LEAST_STEPS / math.ceil(num_rows / batch_size))
    return min(MOST_EPOCHS, max(LEAST_EPOCHS, wanted))
