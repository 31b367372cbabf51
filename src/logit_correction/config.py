"""What a run depends on, as plain data: what ``config.yaml`` holds, and presets. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePath
from typing import Any, Literal

import yaml

from logit_correction.errors import InputError, did_you_mean
from logit_correction.files import canonical, read_yaml

#: What a run is put together from, each a class with options of its own.
PARTS = ("data", "method", "network", "biased_network", "encoder")

#: Name -> one line. Each is a file of options in ``presets/``, which count where nothing else is given.
PRESETS = {
    "paper": "the training of the paper: two networks side by side, a moving prior, Group MixUp",
    "staged": "cross-fitted biased networks first, then logit correction; what StagedLC is",
}

#: Training options that follow the data where they are None, as the network does without a name.
LEFT_TO_THE_DATA = ("epochs", "batch_size", "weight_decay", "threads")


@dataclass(frozen=True)
class TrainingConfig:
    """Options of the training loop.

    Args:
        epochs: Passes over the training rows. If left out, as many as about 1,500 steps take, from 15 to 100.
        batch_size: Rows of one step, over all devices together. If left out 256; for fewer than 20,000 rows 128, 64 or
            32, from 500,000 on 1,024.
        optimizer: Name of the optimizer.
        learning_rate: Learning rate at the start.
        weight_decay: Weight decay of the optimizer. If left out 0.001 for rows of numbers, such as a table's, which a
            network soon memorizes, and 0 elsewhere.
        decay_norm_and_bias: Let biases and the weights of normalisation decay too, as torch does; language models are
            trained without.
        sgd_momentum: Momentum of sgd.
        schedule: cosine falls to 0 over the stage, step falls every step_every steps, none stays constant.
        step_every: Steps between two falls of the step schedule.
        step_factor: Factor of each fall of the step schedule.
        gradient_clip: Largest gradient norm, per network; 0 does not clip.
        finetune: Train the pretrained network of photos or texts whole, not only a head on its frozen features. The
            last third of its layers trains first, all layers after a third of the epochs, at a twentieth of the head's
            learning rate. Needs the pretrained weights. If epochs is left out, it is then 5.
        selection: Rule by which an epoch's weights are reported and kept: `logit-correction list rules` shows them, a
            dotted path names one of your own; none reads the test split. If left out: last, or
            valid_estimated_within_error where the method estimates each row's attribute before it trains, as LC
            does where it has found a shortcut.
        seed: Seed of everything random in training, such as weights and the order of rows.
        device: Where to train.
        devices: Processes on this machine, one device each.
        nodes: Machines.
        precision: Arithmetic of the networks.
        channels_last: Keep the channels of a pixel side by side in memory, which convolutions are faster with.
        compile: Compile the networks with torch.compile: slow to start, pays in long runs on a GPU; reduce-overhead
            replays CUDA graphs of them, which saves launching their kernels one by one.
        deterministic: Ask CUDA for reproducible kernels.
        threads: Processor threads of each process; 0 leaves it to torch. If left out 1 for a small network on vectors
            or images of less than 64 pixels, which several threads only slow down; 0 elsewhere.
        log_every: Steps between two lines of metrics.csv.
        logger: Also log to these loggers of Lightning; may be repeated. Others are handed over in Python.
        leave_out: A view of which the networks see nothing, such as column:NAME, word:WORD, colour (images turn grey)
            or border (they lose their frame); `spelling` lets names that differ in case and blanks count as one. May be
            repeated.

    >>> TrainingConfig(epochs=3).learning_rate
    0.002
    """

    epochs: int | None = None
    batch_size: int | None = None
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: float = 2e-3
    weight_decay: float | None = None
    decay_norm_and_bias: bool = True
    sgd_momentum: float = 0.9
    schedule: Literal["cosine", "step", "none"] = "cosine"
    step_every: int = 10_000
    step_factor: float = 0.5
    gradient_clip: float = 0.0
    finetune: bool = False
    selection: str | None = None
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


@dataclass(frozen=True)
class ComponentConfig:
    """A part of a run, such as a data source or a method, by name or dotted path, with its options.

    Attributes:
        name: A name that ``logit-correction list`` shows, or the dotted path of a class of your own.
        options: Of the class's constructor, as ``config.yaml`` holds them.
        cls: The class, or a function that makes the part, once all options have been checked and completed.
        arguments: The options then, of the types that the class asks for; components are ``ComponentConfig`` too.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    cls: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    arguments: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the form of ``config.yaml``: the name, and the options beside it."""
        own = {name: one.to_dict() if isinstance(one, ComponentConfig) else one for name, one in self.options.items()}
        return {"name": self.name, **own}

    def make(self, *given: Any, **more: Any) -> Any:
        """Make it, with further arguments that the run gives."""
        assert self.cls is not None, f"{self.name} was not completed"
        own = {name: one.make() if isinstance(one, ComponentConfig) else one for name, one in self.arguments.items()}
        return self.cls(*given, **own, **more)


@dataclass(frozen=True)
class RunConfig:
    """One run: data, method, networks and training options.

    Attributes:
        data: The data source.
        method: The method.
        network: The network that predicts; an empty name leaves it to the kind and size of the inputs.
        biased_network: The network of methods that have a biased one; by default like ``network``.
        training: Options of the loop.
        encoder: A frozen network whose features take the place of the inputs.

    >>> from logit_correction import ComponentConfig, RunConfig, TrainingConfig
    >>> config = RunConfig(ComponentConfig("Digits"), ComponentConfig("LC"), training=TrainingConfig(epochs=3))
    >>> config.to_dict()["method"], RunConfig.from_dict({"data": "Digits", "method": "LC", "epochs": 3}) == config
    ({'name': 'LC'}, True)
    """

    data: ComponentConfig
    method: ComponentConfig
    network: ComponentConfig = field(default_factory=lambda: ComponentConfig(""))
    biased_network: ComponentConfig | None = None
    training: TrainingConfig = field(default_factory=TrainingConfig)
    encoder: ComponentConfig | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the form of ``config.yaml``: parts as ``{name, options...}``, training options flat."""
        parts = {part: one.to_dict() for part in PARTS if (one := getattr(self, part)) is not None and one.name}
        return parts | vars(self.training)

    @classmethod
    def from_dict(cls, flat: Mapping[str, Any]) -> RunConfig:
        """Read the form that ``to_dict`` gives; what the options of parts are is checked when a run begins."""
        training, parts = dict(flat), dict[str, ComponentConfig]()
        for part in PARTS:
            if part in flat or part in ("data", "method"):
                options = as_mapping(part, training.pop(part, None))
                if "name" not in options:
                    raise InputError(f"--{part} has options, but no name: give --{part} NAME too")
                parts[part] = ComponentConfig(options.pop("name"), options)
        known = [option.name for option in fields(TrainingConfig)]
        for name in training:
            if name not in known:
                raise InputError(f"There is no option --{name}{did_you_mean(str(name), [*PARTS, *known], '--')}")
        return cls(**parts, training=TrainingConfig(**training))

    def to_yaml(self) -> str:
        """Return the text of ``config.yaml``."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)

    @classmethod
    def read(cls, path: Path) -> RunConfig:
        """Read a ``config.yaml``; ``InputError`` if it is missing, damaged, or of another version."""
        flat = read_yaml(path)
        try:
            return cls.from_dict(flat)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def as_mapping(part: str, given: Any) -> dict[str, Any]:
    """Return a part that is given by its name, its place, its name and options, or as a ``ComponentConfig``."""
    if isinstance(given, ComponentConfig):
        return given.to_dict()
    if isinstance(given, str) or (isinstance(given, PurePath) and part == "data"):
        return {"name": str(given)}
    if isinstance(given, Mapping) and isinstance(given.get("name", ""), str):
        return dict(given)
    hint = "; from_arrays and from_table make it of rows of your own" if part == "data" else ""
    raise InputError(f"--{part} must be a name, or a mapping with a name and options: {{name: NAME, ...}}{hint}")


def listed(names: str | Sequence[str] | None) -> list[str]:
    """Return names in a list, of which one may stand alone, or none, or several in a text such as ``[a, b]``."""
    if isinstance(names, str):
        several = names[1:-1].split(",") if names.startswith("[") else [names]
        return [canonical(name) for one in several if (name := one.strip(" '\""))]
    return [] if names is None else [canonical(str(name)) for name in names]


def load_preset(name: str) -> dict[str, Any]:
    """Return the options of a preset, such as ``{"method": {"name": "LC", ...}}``."""
    if name not in PRESETS:
        hint = did_you_mean(str(name), PRESETS)
        raise InputError(f"there is no preset {name!r}{hint}: take one of {', '.join(PRESETS)}")
    file = Path(__file__).with_name("presets") / f"{name}.yaml"
    options: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return options
