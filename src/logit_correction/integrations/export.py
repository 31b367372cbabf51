"""``export``: a finished run in, a folder for other programs out. A format is one function that writes it."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from logit_correction import __version__
from logit_correction.atomic_files import create_folder_atomically
from logit_correction.data.features import ColumnEncoder
from logit_correction.data.images import ImageReader
from logit_correction.data.reader import NumericReader
from logit_correction.data.texts import MAX_WORDS, TOKENS, LengthNormalization, TextReader, load_tokenizer
from logit_correction.errors import InputError
from logit_correction.formatting import format_option, format_reason
from logit_correction.integrations import FORMATS
from logit_correction.registry import import_component, import_optional
from logit_correction.runs.folder import write_json
from logit_correction.runs.run import Run, load
from logit_correction.types import Inputs
from logit_correction.views.texts import PAIR_PATTERN, WORD_PATTERN

#: What goes in and what comes out, for other programs; and the folder of what texts are read by.
DESCRIPTION, TOKENIZER = "config.json", "tokenizer"


class ExportedModel(nn.Module):
    """A run as a format writes it, in evaluation mode, on the CPU: inputs as they come -> logits (n, L).

    Attributes:
        run: The run.
        settings: Content of ``config.json``.
        inputs: Name, type and shape of each input, in ``settings`` too.
    """

    encoder: nn.Module | None

    def __init__(self, run: Run, prepare: nn.Module, settings: dict[str, Any]) -> None:
        """Take the preparation, the encoder and the network of a run as one module."""
        super().__init__()
        self.run, self.settings, self.inputs = run, settings, list(settings["input"]["inputs"])
        self.prepare, self.network = prepare, run.model.algorithm.network
        self.encoder = None if run.model.encoder is None else run.model.encoder.features
        self.cpu().eval().requires_grad_(False)

    def encoded(self, *inputs: Tensor) -> Inputs:
        """Return the inputs of the network."""
        prepared: Inputs = self.prepare(*inputs)
        return prepared if self.encoder is None else self.encoder(prepared)

    def forward(self, *inputs: Tensor) -> Tensor:
        logits: Tensor = self.network(self.encoded(*inputs))
        return logits

    def example(self, rows: int, length: int) -> tuple[Tensor, ...]:
        """Return inputs, drawn at random; ``length`` stands for what may vary."""
        draw, found = torch.Generator().manual_seed(rows), []
        for one in self.inputs:
            shape, dtype = [rows, *(size or length for size in one["shape"][1:])], getattr(torch, one["dtype"])
            # Of whole numbers below 2 every vocabulary has tokens; nothing is masked.
            values = torch.rand(shape, generator=draw) * {torch.uint8: 256, torch.int64: 2}.get(dtype, 1)
            found.append(torch.ones(shape, dtype=dtype) if one["name"] == TOKENS[1] else values.to(dtype))
        return tuple(found)

    def check(self, answer: Callable[..., Any], what: str) -> None:
        """Raise ``InputError`` unless ``answer`` gives the run's logits, on rows that it was not traced with."""
        inputs = self.example(rows=5, length=6)
        with torch.no_grad():
            expected, found = self.run.model.algorithm.predict(self.encoded(*inputs)), answer(*inputs)
        if not np.allclose(found, expected, rtol=1e-4, atol=1e-4):
            far = np.abs(np.asarray(found) - expected.numpy()).max()
            raise InputError(
                f"The logits of {what} are up to {far:.2g} from the run's: choose another {format_option('format')}"
            )


def export(
    run: Run | Path | str,
    format: str,
    out: Path | str,
    *,
    trust_code: bool = False,
    say: Callable[[str], object] | None = None,
) -> Path:
    """Write the predicting network of a run, with the preparation of its inputs, for other programs.

    ``config.json`` in the folder describes inputs and outputs. Of tokens the folder holds the tokenizer.

    Args:
        run: The run, or its folder.
        format: ``onnx``, ``torch-export``, or the dotted path of a function of your own.
        out: Folder to write; new or empty.
        trust_code: Import classes that the run's config names by a dotted path.
        say: Told where the folder is and what can be done with it, such as ``print``.

    Returns:
        The folder.

    Raises:
        InputError: If the run cannot be loaded, a package is missing, or the network cannot be written in the format
            or answers otherwise there. Nothing is written then.
    """
    write = import_component("format", format, FORMATS)
    folder, loaded = Path(out), load(run, trust_code=trust_code)
    with create_folder_atomically(folder) as temporary:
        prepare, given = _input(loaded)
        settings = {
            "library_name": "logit-correction",
            "library_version": __version__,
            "format_name": format,
            "label_names": loaded.label_names,
            "input": given,
            "outputs": [{"name": "logits", "dtype": "float32", "shape": [None, len(loaded.label_names)]}],
        }
        write_json(temporary / DESCRIPTION, settings)
        tokenizer = loaded.config.data.options.get("tokenizer")
        if tokenizer:
            load_tokenizer(tokenizer).save_pretrained(temporary / TOKENIZER)
        advice = write(ExportedModel(loaded, prepare, settings), temporary)
    if say is not None:
        say(f"{folder}\n{advice.replace('FOLDER', shlex.quote(str(folder)))}")
    return folder


# -- the formats: each writes its files into a folder that holds config.json, and returns what to tell of FOLDER


def write_onnx(exported: ExportedModel, folder: Path) -> str:
    """Write ``model.onnx``: rows in, ``logits`` out, of any number of rows; the labels lie in its metadata."""
    for package in ("onnx", "onnxscript"):
        import_optional(package, format_option("format", "onnx"), "onnx")
    onnxruntime = import_optional("onnxruntime", format_option("format", "onnx"), "onnx")
    program, names = _traced(exported), [one["name"] for one in exported.inputs]
    with _translating("written as ONNX"):
        made = torch.onnx.export(program, input_names=names, output_names=["logits"], dynamo=True, verbose=False)
    assert made is not None
    for name in ("label_names", "input"):
        made.model.metadata_props[name] = json.dumps(exported.settings[name])
    path = folder / "model.onnx"
    made.save(path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def answer(*inputs: Tensor) -> Any:
        return session.run(["logits"], {name: one.numpy() for name, one in zip(names, inputs, strict=True)})[0]

    exported.check(answer, "ONNX Runtime")
    return "run it by: onnxruntime.InferenceSession('model.onnx') in FOLDER"


def write_program(exported: ExportedModel, folder: Path) -> str:
    """Write ``model.pt2``: ``torch.export.load("model.pt2").module()(images)`` gives the logits of any rows."""
    program = _traced(exported)
    exported.check(program.module(), "the traced network")
    extra = {"label_names.json": json.dumps(exported.settings["label_names"])}
    content = BytesIO()  # on a full disk torch would end the process
    torch.export.save(program, content, extra_files=extra)
    (folder / "model.pt2").write_bytes(content.getbuffer())
    return "run it by: torch.export.load('model.pt2').module() in FOLDER"


def _traced(exported: ExportedModel) -> torch.export.ExportedProgram:
    """Return the network as a program of torch, for any number of rows and, of texts, of tokens."""
    example = exported.example(rows=3, length=4)  # one row would be taken for a constant
    free: tuple[dict[int, Any], ...] = tuple(
        {0: torch.export.Dim("rows")}
        | {axis: torch.export.Dim.DYNAMIC for axis, size in enumerate(one["shape"]) if axis and size is None}
        for one in exported.inputs
    )
    with _translating("traced"):
        return torch.export.export(exported, example, dynamic_shapes=(free,))


@contextmanager
def _translating(how: str) -> Iterator[None]:
    """Let torch translate the network, without its warnings; it raises many kinds of errors."""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        told = f"this network cannot be {how} ({format_reason(error)})"
        raise InputError(f"{told}: use the run itself, by `logit-correction predict` or `load` in Python") from error


# -- how inputs are prepared


class Scaled(nn.Module):
    """Numbers less a mean, or the bytes of images, times a factor: the scale of training."""

    factor: Tensor
    mean: Tensor

    def __init__(self, factor: Any, mean: Any = 0.0) -> None:
        super().__init__()
        for name, value in (("factor", factor), ("mean", mean)):
            self.register_buffer(name, torch.as_tensor(value, dtype=torch.float32))

    def forward(self, values: Tensor) -> Tensor:
        return (values.float() - self.mean) * self.factor


class Tokens(nn.Module):
    """Numbers of tokens and their mask, by name."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        return dict(zip(TOKENS, (input_ids, attention_mask), strict=True))


def _input(run: Run) -> tuple[nn.Module, dict[str, Any]]:
    """Return what brings new rows to what the network learnt on, and how to make them, for ``config.json``."""
    info, reader = run.model.input_info, run.source.reader
    shape: tuple[int | None, ...] = tuple(info.input_shape)
    columns = run.report.data.preparation.get("columns")

    def described(kind: str, dtype: str, shape: Sequence[int | None], names: Sequence[str] = (), **more: Any) -> Any:
        inputs = [{"name": name, "dtype": dtype, "shape": [None, *shape]} for name in names or (kind,)]
        return {"kind": kind, "inputs": inputs, **more}

    if info.tokens:
        more: dict[str, Any] = {"max_tokens": reader.max_tokens if isinstance(reader, TextReader) else None}
        more |= {"padding": "longest", "truncation": True}
        return Tokens(), described("tokens", "int64", (None,), TOKENS, **more)
    if len(shape) == 3:
        more = {"range": [0, 255], "channels": "RGB"}
        if isinstance(reader, ImageReader):
            more |= {"resize": list(shape[1:]), "fit": reader.resizing, "resampling": "bilinear"}
            more |= {"ranges_of_files": reader.ranges} if reader.ranges else {}
        return Scaled(reader.scale / 255), described("images", "uint8", shape, **more)
    if columns:
        return ColumnEncoder(columns), described("columns", "float64", (len(columns),), columns=columns)
    if isinstance(reader, TextReader):
        more = {"class": "sklearn.feature_extraction.FeatureHasher", "n_features": shape[0], "input_type": "pair"}
        more |= {
            "words": [WORD_PATTERN.pattern, PAIR_PATTERN.pattern],
            "weights": reader.weights,
            "most_words": MAX_WORDS,
        }
        return LengthNormalization(), described("words", "float32", shape, **more)
    if isinstance(reader, NumericReader) and reader.mean is not None:
        return Scaled(1 / reader.std, reader.mean), described("numbers", "float32", shape)
    return Scaled(reader.scale), described("numbers", "float32", shape)
