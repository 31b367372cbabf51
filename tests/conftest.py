"""What many tests share: small data, the command line, the user's own module, models of random weights."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import Tensor, nn

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.registry import import_component
from logit_correction.runs.options import get_component_kinds, get_inner_components
from logit_correction.types import Correlation

from .forked_programs import ForkedProgram

TableFactory = Callable[..., DataTable]

os.environ["HF_HUB_OFFLINE"] = "1"  # no test asks the network

# The module ``my_parts``, here and in child processes.
USER_CODE = str(Path(__file__).parent / "user_code")
sys.path.insert(0, USER_CODE)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [USER_CODE, os.environ.get("PYTHONPATH")]))

# The networks are small, and several test processes would be in each other's way.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples each time; a slow machine is not a failure.
settings.register_profile(
    "steady", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

# A shell that starts the tests in the background has them ignore SIGINT, which some of them send and wait for.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def build_biased_table(
    correlation: Correlation | None = None,
    *,
    images: bool = False,
    train: int = 48,
    valid: int = 20,
    test: int = 20,
    seed: int = 0,
) -> DataTable:
    """Random rows whose label is written weakly, and whose attribute is written strongly, into the inputs.

    Nine training rows in ten follow the correlation; labels come in turn, so that every split has them all.
    """
    correlation = correlation or Correlation.one_to_one(3)
    num_labels = correlation.num_labels
    num_attributes = correlation.num_attributes
    generator = torch.Generator().manual_seed(seed)
    total = train + valid + test
    label = torch.arange(total) % num_labels
    aligned = torch.multinomial(correlation.weights[label], 1, generator=generator).squeeze(1)
    random_attribute = torch.randint(num_attributes, (total,), generator=generator)
    is_random = (torch.rand(total, generator=generator) < 0.1) | (torch.arange(total) >= train)
    attribute = torch.where(is_random, random_attribute, aligned)
    shape = (3, 4, 4) if images else (12,)
    values = 0.2 * torch.randn((total, *shape), generator=generator)
    flat = values.view(total, -1)
    flat[torch.arange(total), label] += 1.0
    flat[torch.arange(total), num_labels + attribute] += 2.0
    if images:
        values = ((0.2 + 0.35 * values).clamp(0, 1) * 255).round().to(torch.uint8)
    ends = [0, train, train + valid, total]
    return DataTable(
        inputs=ArrayStore(values),
        label=label,
        attribute=attribute,
        split={name: torch.arange(ends[i], ends[i + 1]) for i, name in enumerate(("train", "valid", "test"))},
        label_names=[f"label {i}" for i in range(num_labels)],
        attribute_names=[f"attribute {i}" for i in range(num_attributes)],
        correlation=correlation,
    )


@pytest.fixture
def make_table() -> TableFactory:
    """A factory of small biased tables; see ``build_biased_table`` for its options."""
    return build_biased_table


@pytest.fixture(scope="session")
def sites() -> tuple[pd.DataFrame, np.ndarray]:
    """600 rows whose column ``site`` agrees with the label in nineteen of twenty, with two weak honest columns."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 600)
    site = np.where(np.where(rng.random(600) < 0.95, label, 1 - label) > 0, "north", "south")
    frame = pd.DataFrame({"blood": rng.normal(size=600) + label, "site": site, "age": rng.normal(size=600)})
    return frame, np.where(label > 0, "ill", "well")


@dataclass(frozen=True)
class CommandResult:
    """What a command did."""

    status: int
    out: str
    err: str


def run_command_line(*words: object) -> CommandResult:
    """Call the command line as a user does, in this process."""
    from logit_correction.cli import main

    out = io.StringIO()
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([str(word) for word in words])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
    return CommandResult(status, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def run_command() -> Callable[..., CommandResult]:
    """The command line."""
    return run_command_line


def copy_tensors(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return a copy of the tensors of a state."""
    return {name: value.clone() for name, value in state.items() if isinstance(value, Tensor)}


def save_and_load(state: Any) -> Any:
    """Return what a checkpoint gives back, which is read without pickle."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def load_trained_tensors(run: Path) -> dict[str, Tensor]:
    """Return the tensors of a finished run."""
    return copy_tensors(torch.load(run / "checkpoint.pt", weights_only=True)["algorithm"])


def find_differing_tensors(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> list[str]:
    """Return the names of the tensors that are not the same bit for bit."""
    assert first.keys() == second.keys() and first
    return [name for name, value in first.items() if not torch.equal(value, second[name])]


@pytest.fixture(scope="session")
def run_files() -> set[str]:
    """The files of a finished run, and no others."""
    tables = {"config.yaml", "metrics.csv", "report.json", "report.html", "checkpoint.pt"}
    return tables | {"predictions.parquet", "validation.parquet", ".checksums"}


def build_arguments(cls: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as arguments of a constructor: components given as ``{"name": ..., ...}`` are built."""
    arguments = dict(options)
    for kind in get_inner_components(cls):
        if isinstance(arguments.get(kind), Mapping):
            inner = dict(arguments[kind])
            component_class = import_component(kind, inner.pop("name"), get_component_kinds()[kind][1])
            arguments[kind] = component_class(**build_arguments(component_class, inner))
    return arguments


class FixedAttributes(AttributeEstimator):
    """Says what it was told."""

    def __init__(self, attribute: Tensor) -> None:
        super().__init__()
        self.attribute = attribute

    def assign_training(self, outputs: Tensor | None) -> Tensor:
        return self.attribute

    def describe(self) -> str:
        return "what it was told"


class FixedLogits(nn.Module):
    """Returns these logits for any input."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.logits * self.scale


def import_lab_script(name: str) -> ModuleType:
    """Import a script of ``lab/scripts/``, which may import those next to it."""
    folder = Path(__file__).parents[1] / "lab" / "scripts"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        return import_file(folder / f"{name}.py")


def import_file(path: Path) -> ModuleType:
    """Import a file that lies in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where its dataclasses look for their types
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run_two_processes() -> Callable[[str, Path], None]:
    """Run a program as two processes that may talk over gloo, with a folder and their rank as arguments."""

    def run(program: str, folder: Path) -> None:
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
        with ExitStack() as stack:
            workers = [
                stack.enter_context(ForkedProgram(program, str(folder), str(rank), environment=environment))
                for rank in range(2)
            ]
            for worker in workers:
                assert worker.wait() == 0, worker.output

    return run


@pytest.fixture(autouse=True)
def use_session_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep caches in a folder of the test session, not in the user's."""
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def foreign_import_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that the module ``foreign_module`` leaves when it is imported; it has a method and a network."""
    (tmp_path / "foreign_module.py").write_text(
        f"from pathlib import Path\nfrom logit_correction.methods.erm import ERM\n"
        f"from logit_correction.networks.small import MLP\nPath({str(tmp_path / 'foreign_import_marker')!r}).touch()\n"
        "class TheirMethod(ERM):\n    pass\nclass TheirNetwork(MLP):\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "foreign_import_marker"
    sys.modules.pop("foreign_module", None)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a BERT of two narrow layers with random weights, and of its tokenizer of twenty words."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "the", "film", "book", "is", "was"]
    words += ["good", "bad", "long", "short", "very", "not", "and", "but", "i"]
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=24, **sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(folder)
    model = tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    return folder
