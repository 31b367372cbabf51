"""The options of the training loop. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal


@dataclass(frozen=True)
class TrainingConfig:
    """Options of the training loop.

    Args:
        epochs: Passes over the training rows. If left out, those of about 1,500 steps, from 15 to 100.
        batch_size: Rows of one step, over all devices together. If left out 256; for fewer than 20,000 rows 128, 64 or
            32, from 500,000 on 1,024.
        drop_last: Leave out the rows of each epoch that do not fill a batch, as the paper's published code does.
        optimizer: Name of the optimizer.
        learning_rate: Learning rate at the start, above 0; lower it if the loss is not finite.
        weight_decay: Weight decay of the optimizer. If left out 0.001 for rows of numbers, such as a table's, which a
            network soon memorizes, and 0 elsewhere.
        decay_norm_and_bias: Let biases and the weights of normalisation decay too, as torch does; language models are
            trained without.
        sgd_momentum: Momentum of sgd, in [0, 1); the other optimizers do not use it.
        schedule: cosine and linear fall to 0 over the stage, step falls every step_every steps, none stays constant.
        step_every: Steps between two falls of the step schedule.
        step_from: Step from which step_every is counted: the first fall comes step_every steps later.
        step_factor: Factor of each fall of the step schedule.
        gradient_clip: Largest gradient norm, per network, 0 or more; 0 does not clip. Take 1 if the loss is not finite.
        finetune: Train the pretrained network of photos or texts whole, not only a head on its frozen features. The
            last third of its layers trains first, all layers after a third of the epochs, at a twentieth of the head's
            learning rate. Needs the pretrained weights. If epochs is left out, it is then 5.
        selection: Rule by which an epoch's weights are reported and kept: `logit-correction list rules` shows them, a
            dotted path names one of your own; none reads the test split. If left out: last, or
            valid_estimated_within_error where the method estimates each row's attribute before it trains, as LC
            does where it has found a shortcut.
        refit: After the training, train anew on all rows, for as many steps as were selected, also on those that were
            drawn for validation and test; the accuracy that is reported was measured before. Splits that you give stay
            as they are. An audit's `fix.yaml` sets it; `--no-refit` keeps the split.
        seed: Seed of everything random in training, such as weights and the order of rows.
        device: Where to train.
        devices: Processes on this machine, one device each.
        nodes: Machines.
        precision: Arithmetic of the networks.
        channels_last: Keep the channels of a pixel side by side in memory, which convolutions are faster with.
        compile: Compile the networks with torch.compile: slow to start, pays in long runs on a GPU; reduce-overhead
            replays CUDA graphs of them, which saves launching their kernels one by one.
        deterministic: Ask CUDA for reproducible kernels.
        threads: Processor threads of each process, at most those of the machine; 0 leaves it to torch. If left out 1
            for a small network on vectors or images of less than 64 pixels, which several threads only slow down; 0
            elsewhere.
        log_every: Steps between two lines of metrics.csv.
        logger: Also log to these loggers of Lightning; may be repeated. Others are handed over in Python.
        leave_out: A view that is hidden from the networks, such as column:NAME, word:WORD, colour (images turn grey)
            or border (they lose their frame); `spelling` lets names that differ in case and blanks count as one. May be
            repeated.

    >>> TrainingConfig(epochs=3).learning_rate
    0.002
    """

    #: Options that are chosen to fit the data if they are None.
    LEFT_TO_THE_DATA: ClassVar[tuple[str, ...]] = ("epochs", "batch_size", "weight_decay", "threads")

    epochs: int | None = None
    batch_size: int | None = None
    drop_last: bool = False
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: float = 2e-3
    weight_decay: float | None = None
    decay_norm_and_bias: bool = True
    sgd_momentum: float = 0.9
    schedule: Literal["cosine", "linear", "step", "none"] = "cosine"
    step_every: int = 10_000
    step_from: int = 0
    step_factor: float = 0.5
    gradient_clip: float = 0.0
    finetune: bool = False
    selection: str | None = None
    refit: bool = False
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    devices: int = 1
    nodes: int = 1
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    channels_last: bool = True
    compile: bool | Literal["reduce-overhead"] = False
    deterministic: bool = True
    threads: int | None = None
    log_every: int = 50
    logger: list[Literal["csv", "tensorboard"]] = field(default_factory=list)
    leave_out: list[str] = field(default_factory=list)
