"""Export a finished run for programs without this package, as ONNX or as a program of torch.

Exported is one module: the preparation of the inputs, the encoder and the network, from rows as they come to logits. A
format is one function that writes it into a folder. What it wrote is run and compared with the run itself before the
folder is there.
"""

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
from logit_correction.unicode_text import INVISIBLE
from logit_correction.views.texts import PAIR_PATTERN, WORD_PATTERN

#: File that describes inputs and outputs for other programs.
DESCRIPTION = "config.json"

#: Folder of the tokenizer that texts are read by.
TOKENIZER = "tokenizer"


class ExportedModel(nn.Module):
    """A run as one module in evaluation mode on the CPU: rows as they come -> logits (n, L).

    Args:
        run: The run.
        prepare: Brings rows to the scale or form of training.
        settings: Content of ``config.json``.

    Attributes:
        inputs: Name, type and shape of each input, as in ``settings``.
    """

    encoder: nn.Module | None

    def __init__(self, run: Run, prepare: nn.Module, settings: dict[str, Any]) -> None:
        super().__init__()
        model = run.model
        self.run = run
        self.settings = settings
        self.inputs = list(settings["input"]["inputs"])
        self.prepare = prepare
        self.network = model.algorithm.network
        self.encoder = None if model.encoder is None else model.encoder.features
        self.cpu().eval().requires_grad_(False)

    def encode(self, *inputs: Tensor) -> Inputs:
        """Return the inputs of the network."""
        prepared: Inputs = self.prepare(*inputs)
        return prepared if self.encoder is None else self.encoder(prepared)

    def forward(self, *inputs: Tensor) -> Tensor:
        logits: Tensor = self.network(self.encode(*inputs))
        return logits

    def make_example(self, num_rows: int, length: int) -> tuple[Tensor, ...]:
        """Return inputs that are drawn at random.

        Args:
            num_rows: n.
            length: Length of dimensions that may vary, such as that of tokens.
        """
        generator = torch.Generator().manual_seed(num_rows)
        example = []
        for description in self.inputs:
            shape = [num_rows, *(size or length for size in description["shape"][1:])]
            dtype = getattr(torch, description["dtype"])
            if description["name"] == TOKENS[1]:  # the mask
                example.append(torch.ones(shape, dtype=dtype))
                continue
            limit = {torch.uint8: 256, torch.int64: 2}.get(dtype, 1)  # every vocabulary has the tokens 0 and 1
            example.append((torch.rand(shape, generator=generator) * limit).to(dtype))
        return tuple(example)

    def check_logits(self, predict: Callable[..., Any], program: str) -> None:
        """Raise ``InputError`` unless an exported program gives the run's logits, on rows that were not traced.

        Args:
            predict: Calls the program with inputs.
            program: What messages call it.
        """
        inputs = self.make_example(num_rows=5, length=6)
        with torch.no_grad():
            expected = self.run.model.algorithm.predict(self.encode(*inputs))
            logits = predict(*inputs)
        if not np.allclose(logits, expected, rtol=1e-4, atol=1e-4):
            difference = np.abs(np.asarray(logits) - expected.numpy()).max()
            raise InputError(
                f"The logits of {program} are up to {difference:.2g} from the run's: choose another "
                f"{format_option('format')}"
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
        say: Called with the place of the folder and how to use it, such as ``print``; None shows nothing.

    Returns:
        The folder.

    Raises:
        InputError: If the run cannot be loaded, a package is missing, or the network cannot be written in the format
            or answers otherwise there. Nothing is written then.
    """
    write = import_component("format", format, FORMATS)
    folder = Path(out)
    loaded = load(run, trust_code=trust_code)
    with create_folder_atomically(folder) as temporary:
        prepare, description = build_input_module_and_description(loaded)
        settings = {
            "library_name": "logit-correction",
            "library_version": __version__,
            "format_name": format,
            "label_names": loaded.label_names,
            "input": description,
            "outputs": [{"name": "logits", "dtype": "float32", "shape": [None, len(loaded.label_names)]}],
        }
        write_json(temporary / DESCRIPTION, settings)
        tokenizer = loaded.config.data.options.get("tokenizer")
        if tokenizer:
            load_tokenizer(tokenizer).save_pretrained(temporary / TOKENIZER)
        advice = write(ExportedModel(loaded, prepare, settings), temporary) or ""  # a user's function may return none
    if say is not None:
        say(f"{folder}\n{advice.replace('FOLDER', shlex.quote(str(folder)))}".rstrip())
    return folder


# -- the formats: each writes its files into a folder that holds config.json, and returns how to use it


def write_onnx(exported: ExportedModel, folder: Path) -> str:
    """Write ``model.onnx``: rows in, ``logits`` out, of any number of rows; the labels are in its metadata.

    Args:
        exported: The run as one module.
        folder: Where to write; it has ``config.json`` already.

    Returns:
        How to use the file, with FOLDER for the folder.
    """
    for package in ("onnx", "onnxscript"):
        import_optional(package, format_option("format", "onnx"), "onnx")
    onnxruntime = import_optional("onnxruntime", format_option("format", "onnx"), "onnx")
    program = trace_model(exported)
    names = [description["name"] for description in exported.inputs]
    with _translate_errors("written as ONNX"):
        onnx = torch.onnx.export(program, input_names=names, output_names=["logits"], dynamo=True, verbose=False)
    assert onnx is not None
    for name in ("label_names", "input"):
        onnx.model.metadata_props[name] = json.dumps(exported.settings[name])
    path = folder / "model.onnx"
    onnx.save(path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def predict(*inputs: Tensor) -> Any:
        arrays = [value.numpy() for value in inputs]
        return session.run(["logits"], dict(zip(names, arrays, strict=True)))[0]

    exported.check_logits(predict, "ONNX Runtime")
    return "run it by: onnxruntime.InferenceSession('model.onnx') in FOLDER"


def write_torch_program(exported: ExportedModel, folder: Path) -> str:
    """Write ``model.pt2``: ``torch.export.load("model.pt2").module()(images)`` gives the logits of any rows.

    Args:
        exported: The run as one module.
        folder: Where to write; it has ``config.json`` already.

    Returns:
        How to use the file, with FOLDER for the folder.
    """
    program = trace_model(exported)
    exported.check_logits(program.module(), "the traced network")
    label_names = {"label_names.json": json.dumps(exported.settings["label_names"])}
    content = BytesIO()  # on a full disk torch would end the process
    torch.export.save(program, content, extra_files=label_names)
    (folder / "model.pt2").write_bytes(content.getbuffer())
    return "run it by: torch.export.load('model.pt2').module() in FOLDER"


def trace_model(exported: ExportedModel) -> torch.export.ExportedProgram:
    """Return the model as a program of torch, for any number of rows and, of texts, of tokens."""
    example = exported.make_example(num_rows=3, length=4)  # one row would be taken for a constant
    dynamic_shapes = []
    for description in exported.inputs:
        free = {axis: torch.export.Dim.DYNAMIC for axis, size in enumerate(description["shape"]) if size is None}
        dynamic_shapes.append({**free, 0: torch.export.Dim("rows")})
    with _translate_errors("traced"):
        return torch.export.export(exported, example, dynamic_shapes=(tuple(dynamic_shapes),))


@contextmanager
def _translate_errors(action: str) -> Iterator[None]:
    """Raise ``InputError`` in place of the many kinds of errors by which torch refuses a network."""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        raise InputError(
            f"this network cannot be {action} ({format_reason(error)}): use the run itself, by `logit-correction "
            "predict` or `load` in Python"
        ) from error


# -- how inputs are prepared


class InputScaling(nn.Module):
    """Brings numbers, or the bytes of images, to the scale of training: (values - mean) * factor."""

    factor: Tensor
    mean: Tensor

    def __init__(self, factor: Any, mean: Any = 0.0) -> None:
        super().__init__()
        self.register_buffer("factor", torch.as_tensor(factor, dtype=torch.float32))
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32))

    def forward(self, values: Tensor) -> Tensor:
        return (values.float() - self.mean) * self.factor


class TokenInputs(nn.Module):
    """Gives numbers of tokens and their mask the names that networks of texts take."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        return dict(zip(TOKENS, (input_ids, attention_mask), strict=True))


def build_input_module_and_description(run: Run) -> tuple[nn.Module, dict[str, Any]]:
    """Return the module that prepares unseen rows, and the entry ``input`` of ``config.json``: how to make them."""
    info = run.model.input_info
    reader = run.source.reader
    shape = tuple(info.input_shape)
    columns = run.report.data.preparation.get("columns")
    if info.tokens:
        inputs = [_describe_tensor(name, "int64", [None]) for name in TOKENS]
        max_tokens = reader.max_tokens if isinstance(reader, TextReader) else None
        padding = {"max_tokens": max_tokens, "padding": "longest", "truncation": True}
        return TokenInputs(), {"kind": "tokens", "inputs": inputs, **padding}
    if len(shape) == 3:
        description: dict[str, Any] = {"kind": "images", "inputs": [_describe_tensor("images", "uint8", shape)]}
        description |= {"range": [0, 255], "channels": "RGB"}
        if isinstance(reader, ImageReader):
            description |= {"orientation": "exif", "background": "white"}
            description |= {"resize": list(shape[1:]), "fit": reader.resizing, "resampling": "bilinear"}
            if reader.ranges:
                description["ranges_of_files"] = reader.ranges
        return InputScaling(reader.scale / 255), description
    if columns:
        inputs = [_describe_tensor("columns", "float64", [len(columns)])]
        return ColumnEncoder(columns), {"kind": "columns", "inputs": inputs, "columns": columns}
    if isinstance(reader, TextReader):
        return LengthNormalization(), {
            "kind": "words",
            "inputs": [_describe_tensor("words", "float32", shape)],
            "class": "sklearn.feature_extraction.FeatureHasher",
            "n_features": shape[0],
            "input_type": "pair",
            "normalization": "NFKC",
            "removed": "".join(map(chr, INVISIBLE)),
            "words": [WORD_PATTERN.pattern, PAIR_PATTERN.pattern],
            "weights": reader.weights,
            "most_words": MAX_WORDS,
        }
    description = {"kind": "numbers", "inputs": [_describe_tensor("numbers", "float32", shape)]}
    if isinstance(reader, NumericReader) and reader.mean is not None:
        return InputScaling(1 / reader.std, reader.mean), description
    return InputScaling(reader.scale), description


def _describe_tensor(name: str, dtype: str, shape: Sequence[int | None]) -> dict[str, Any]:
    """Return the description of a tensor of rows, each of a shape; None is a dimension that may vary."""
    return {"name": name, "dtype": dtype, "shape": [None, *shape]}
