"""Everything that a run depends on, as plain data; what ``config.yaml`` holds. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import yaml

from logit_correction.errors import InputError, did_you_mean
from logit_correction.files import read_yaml
from logit_correction.presets import with_preset

#: What a run is put together from, each a class with options of its own.
PARTS = ("data", "method", "network", "biased_network", "encoder")

#: A name for each part, for messages.
EXAMPLES = {"data": "Digits", "method": "LC", "network": "MLP", "biased_network": "MLP", "encoder": "ResNet18"}

#: Training options that say how a run goes on its machine, and by which nothing changes that comes out of it.
PLACE_OF_TRAINING = ("threads", "workers", "log_every", "logger")

#: Options of a data source that say where its files are.
PLACE_OF_DATA = ("root", "download")

Optimizer = Literal["adam", "adamw", "sgd"]
Schedule = Literal["cosine", "step", "none"]
Watch = Literal["test", "train_margins"]
Compilation = Literal["reduce-overhead"]


@dataclass
class TrainingConfig:
    """Options of the training loop, the same for every method.

    Args:
        epochs: Passes over the training rows in each stage that does not say otherwise; None takes 15, more for few
            rows: about 1,500 steps, and at most 100.
        batch_size: Rows of one step, over all devices together; None takes 256, for fewer than 20,000 rows 128, 64 or
            32, from 500,000 on 1,024.
        optimizer: adam, adamw, or sgd.
        learning_rate: Learning rate at the start.
        weight_decay: Weight decay of the optimizer; None takes 0.001 for rows of numbers, such as a table's, which a
            network soon knows by heart, and 0 elsewhere.
        decay_norm_and_bias: Let biases and the weights of normalisation decay too, as torch does; language models are
            trained without.
        sgd_momentum: Momentum of sgd.
        schedule: cosine falls to 0 over the stage, step falls every step_every steps, none stays constant.
        step_every: Steps between two falls of the step schedule.
        step_factor: Factor of each fall of the step schedule.
        gradient_clip: Largest gradient norm, per network; 0 does not clip.
        selection: Rule by which an epoch's weights are reported and kept: `logit-correction list rules` shows them, a
            dotted path names one of your own; none reads the test split. None takes valid_estimated_within_error
            where the method has settled each row's attribute before it trains and can tell that of other rows, as LC
            does where it has found a shortcut, and last elsewhere.
        also_select: Further rules to report beside.
        seed: Seed of the weights, the order of the rows and all else that is random in training.
        device: auto, cpu or cuda.
        devices: Processes on this machine, one device each.
        nodes: Machines.
        precision: Arithmetic of the networks.
        channels_last: Keep the channels of a pixel side by side in memory, which convolutions are faster with.
        compile: Compile the networks with torch.compile: slow to start, pays in long runs on a GPU; reduce-overhead
            replays CUDA graphs of them, which saves launching their kernels one by one.
        deterministic: Ask CUDA for reproducible kernels.
        threads: Processor threads of each process; 0 leaves it to torch. Small networks are fastest with 1.
        workers: Processes that read and augment images ahead of each process that trains; -1 chooses, and starts none
            for what is resident and not augmented one by one.
        log_every: Steps between two lines of metrics.csv.
        logger: Where figures and groups go beside metrics.csv: csv, tensorboard, wandb, mlflow, or the dotted path of
            a class of your own; may be repeated.
        watch: What to follow in metrics.csv after each epoch though nothing is chosen by it: test, the accuracy on the
            test split; train_margins, the margins of majority and minority groups in training.

    >>> TrainingConfig(epochs=3).learning_rate
    0.002
    """

    epochs: int | None = None
    batch_size: int | None = None
    optimizer: Optimizer = "adam"
    learning_rate: float = 2e-3
    weight_decay: float | None = None
    decay_norm_and_bias: bool = True
    sgd_momentum: float = 0.9
    schedule: Schedule = "cosine"
    step_every: int = 10_000
    step_factor: float = 0.5
    gradient_clip: float = 0.0
    selection: str | None = None
    also_select: list[str] = field(default_factory=lambda: ["valid_average"])
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    devices: int = 1
    nodes: int = 1
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    channels_last: bool = True
    compile: bool | Compilation = False
    deterministic: bool = True
    threads: int = 0
    workers: int = -1
    log_every: int = 50
    logger: list[str] = field(default_factory=list)
    watch: list[Watch] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Take one name of a logger, or several in a text such as ``[csv, wandb]``, for a list of names."""
        given: Any = self.logger
        if isinstance(given, str | list):  # anything else is refused with the other options
            self.logger = list(dict.fromkeys(name for one in listed(given) for name in _names(one)))


@dataclass(eq=False)
class ComponentConfig:
    """A data source, method or network by name or dotted path, with its options.

    >>> ComponentConfig("LC", {"strength": 0.9})
    ComponentConfig(name='LC', options={'strength': 0.9})
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Return whether the other has the same name and options, checked or not."""
        return isinstance(other, ComponentConfig) and (self.name, self.options) == (other.name, other.options)


@dataclass
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
        """Return the form of ``config.yaml``: choices as ``{name, options...}``, training options flat."""
        flat: dict[str, Any] = {}
        for part in PARTS:
            choice = getattr(self, part)
            if choice is not None and choice.name:
                flat[part] = {"name": choice.name, **choice.options}
        return flat | asdict(self.training)

    @classmethod
    def from_dict(cls, flat: dict[str, Any]) -> RunConfig:
        """Read the form that ``to_dict`` gives; ``method: LC`` is short for ``method: {name: LC}``.

        Raises:
            InputError: If data or method is missing, a part has no name, or an option is unknown.
        """
        rest = named_parts(with_preset(flat))
        for part in ("data", "method"):
            if part not in rest:
                raise InputError(f"{part} is missing: give a name, such as `{part}: {EXAMPLES[part]}`")
        parts = {part: dict(rest.pop(part)) for part in PARTS if part in rest}
        choices = {part: ComponentConfig(options.pop("name"), options) for part, options in parts.items()}
        known = [option.name for option in fields(TrainingConfig)]
        for name in list(rest):
            plain = str(name).removesuffix("+")
            if plain not in known:
                raise InputError(f"there is no option {name!r}{did_you_mean(str(name), [*PARTS, *known])}")
            if plain != name:  # `also_select+: [last]` appends
                rest[plain] = [*(rest.get(plain) or getattr(TrainingConfig(), plain)), *rest.pop(name)]
        return cls(**choices, training=TrainingConfig(**rest))

    def to_yaml(self) -> str:
        """Return the text of ``config.yaml``."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)

    @classmethod
    def read(cls, path: Path) -> RunConfig:
        """Read a ``config.yaml``.

        Raises:
            InputError: If the file is missing, damaged, or of another version.
        """
        flat = read_yaml(path)
        try:
            return cls.from_dict(flat)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def listed(names: str | Sequence[str] | None) -> list[str]:
    """Return names in a list, of which one may stand alone, or none.

    >>> listed("colour"), listed(("colour", "places")), listed(None)
    (['colour'], ['colour', 'places'], [])
    """
    return [names] if isinstance(names, str) else list(names or ())


def _names(given: Any) -> list[Any]:
    """Return the names in a text.

    >>> _names("csv"), _names("[csv, wandb]")
    (['csv'], ['csv', 'wandb'])
    """
    if isinstance(given, str) and given.strip().startswith("["):
        return [name.strip() for name in given.strip().strip("[]").split(",") if name.strip()]
    return [given]


def named_parts(flat: dict[str, Any]) -> dict[str, Any]:
    """Return ``flat`` with every part as a mapping with a name.

    Raises:
        InputError: If a part is neither a name nor a mapping with a name.

    >>> named_parts({"method": "LC", "epochs": 3})
    {'method': {'name': 'LC'}, 'epochs': 3}
    """
    named = dict(flat)
    for part in PARTS:
        if isinstance(named.get(part), str):
            named[part] = {"name": named[part]}
        if part in named and not (isinstance(named[part], dict) and isinstance(named[part].get("name"), str)):
            raise InputError(
                f"{part} must be a name such as `{EXAMPLES[part]}`, or a mapping with a name: "
                f"`{part}: {{name: {EXAMPLES[part]}, ...}}`"
            )
    return named
