"""``export``: a finished run in, a folder for other programs out. A format is one function that writes it."""

from __future__ import annotations

import json
import os
import re
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor, nn

from logit_correction import __version__
from logit_correction.config import ComponentConfig, RunConfig
from logit_correction.data.features import FromColumns
from logit_correction.data.images import Images
from logit_correction.data.reader import Numbers
from logit_correction.data.texts import MOST_WORDS, TOKENS, Lengthened, Texts, load_tokenizer
from logit_correction.errors import InputError, format_percent, reason_of
from logit_correction.evaluation.report import REPORT, Report
from logit_correction.exporting import FORMATS
from logit_correction.files import new_folder, seal, write_text
from logit_correction.networks.base import without_pretrained_weights
from logit_correction.pages.compare import sides
from logit_correction.registry import needed, resolve
from logit_correction.runs.api import load
from logit_correction.runs.assemble import network_factory
from logit_correction.runs.folder import CONFIG, write_json
from logit_correction.runs.leave_out import without
from logit_correction.runs.run import ENCODER, HERE, NETWORK, WEIGHTS, Run
from logit_correction.sentences import answer, describe_selection
from logit_correction.types import Inputs
from logit_correction.views.texts import PAIR, WORD

#: Folders beside ``config.json`` that hold what texts are read by, and the sizes of text encoders.
TOKENIZER, TEXT_MODEL, TEXT_ENCODER = "tokenizer", "text_model", "text_encoder"

#: What goes in and what comes out, for other programs.
DESCRIPTION = "config.json"


#: Kind of input -> task, and what ``load(...).predict`` takes.
_KINDS = {
    "images": ("image-classification", "a list of image files, or bytes of shape (n, channels, height, width)"),
    "columns": ("tabular-classification", "a data frame with the columns of training"),
    "numbers": ("tabular-classification", "an array of numbers, a row each"),
    "words": ("text-classification", "a list of texts"),
    "tokens": ("text-classification", "a list of texts"),
}


class Exported(nn.Module):
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
        self.prepare, self.network = prepare, run.algorithm.network
        self.encoder = None if run.config.encoder is None else run.encoder.features
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
            expected, found = self.run.algorithm.predict(self.encoded(*inputs)), answer(*inputs)
        if not np.allclose(found, expected, rtol=1e-4, atol=1e-4):
            far = np.abs(np.asarray(found) - expected.numpy()).max()
            raise InputError(f"The logits of {what} are up to {far:.2g} from the run's: take another --format")


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
        format: ``onnx``, ``torch-export``, ``safetensors``, ``hub``, or the dotted path of a function of your own.
        out: Folder to write; new or empty.
        trust_code: Import classes that the run's config names by a dotted path.
        say: Told where the folder is and what can be done with it, such as ``print``.

    Returns:
        The folder.

    Raises:
        InputError: If the run cannot be loaded, a package is missing, or the network cannot be written in the format
            or answers otherwise there. Nothing is written then.
    """
    write = resolve("format", format, FORMATS)
    folder, loaded = Path(out), load(run, trust_code=trust_code)
    with new_folder(folder) as temporary:
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
        advice = write(Exported(loaded, prepare, settings), temporary)
        seal(temporary, [CONFIG, REPORT, WEIGHTS])
    if say is not None:
        say(f"{folder}\n{advice.replace('FOLDER', shlex.quote(str(folder)))}")
    return folder


# -- the formats: each writes its files into a folder that holds config.json, and returns what to tell of FOLDER


def write_onnx(exported: Exported, folder: Path) -> str:
    """Write ``model.onnx``: rows in, ``logits`` out, of any number of rows; the labels lie in its metadata."""
    for package in ("onnx", "onnxscript"):
        needed(package, "--format onnx", "onnx")
    onnxruntime = needed("onnxruntime", "--format onnx", "onnx")
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


def write_program(exported: Exported, folder: Path) -> str:
    """Write ``model.pt2``: ``torch.export.load("model.pt2").module()(images)`` gives the logits of any rows."""
    program = _traced(exported)
    exported.check(program.module(), "the traced network")
    extra = {"label_names.json": json.dumps(exported.settings["label_names"])}
    content = BytesIO()  # on a full disk torch would end the process
    torch.export.save(program, content, extra_files=extra)
    (folder / "model.pt2").write_bytes(content.getbuffer())
    return "run it by: torch.export.load('model.pt2').module() in FOLDER"


def write_weights(exported: Exported, folder: Path) -> str:
    """Write a run folder whose checkpoint is ``model.safetensors``, and see that it answers as the run does."""
    safetensors = needed("safetensors.torch", "--format safetensors", "hub")
    # Cloned, for tensors that share their memory are refused.
    weights = exported.state_dict().items()
    tensors = {name: value.contiguous().clone() for name, value in weights if name.startswith((NETWORK, ENCODER))}
    write_text(folder / CONFIG, yaml.safe_dump(_portable_config(exported.run), sort_keys=False, allow_unicode=True))
    write_json(folder / REPORT, _portable_report(exported.run.results).to_dict())
    (folder / WEIGHTS).write_bytes(safetensors.save(tensors, metadata={"format": "pt"}))
    for name, features in ((TEXT_MODEL, getattr(exported.network, "features", None)), (TEXT_ENCODER, exported.encoder)):
        sizes: Any = getattr(getattr(features, "encoder", None), "config", None)
        if hasattr(sizes, "save_pretrained"):
            sizes.save_pretrained(folder / name)
    again = Run(folder, trust_code=exported.run.trust_code)
    exported.check(Exported(again, exported.prepare, exported.settings), "the network that is built again")
    return "load it by: logit_correction.load(folder)"


def write_hub(exported: Exported, folder: Path) -> str:
    """Write the weights and ``README.md``, the model card; nothing is uploaded."""
    write_weights(exported, folder)
    card = model_card(Run(folder).results, exported.settings["input"]["kind"])
    (folder / "README.md").write_text(card, encoding="utf-8")
    return "nothing was uploaded; put a licence into README.md, then: hf upload OWNER/NAME FOLDER"


def _traced(exported: Exported) -> torch.export.ExportedProgram:
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
        told = f"this network cannot be {how} ({reason_of(error)}): take --format safetensors or hub"
        raise InputError(told) from error


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
    info, reader = run.inputs_info, run.source.reader
    shape: tuple[int | None, ...] = tuple(info.input_shape)
    columns = (run.report["data"].get("preparation") or {}).get("columns")

    def described(kind: str, dtype: str, shape: Sequence[int | None], names: Sequence[str] = (), **more: Any) -> Any:
        inputs = [{"name": name, "dtype": dtype, "shape": [None, *shape]} for name in names or (kind,)]
        return {"kind": kind, "inputs": inputs, **more}

    if info.tokens:
        more: dict[str, Any] = {"max_tokens": reader.max_tokens if isinstance(reader, Texts) else None}
        more |= {"padding": "longest", "truncation": True}
        return Tokens(), described("tokens", "int64", (None,), TOKENS, **more)
    if len(shape) == 3:
        more = {"range": [0, 255], "channels": "RGB"}
        if isinstance(reader, Images):
            more |= {"resize": list(shape[1:]), "fit": reader.fit, "resampling": "bilinear"}
            more |= {"range_of_files": reader.range} if reader.range is not None else {}
        return Scaled(reader.scale / 255), described("images", "uint8", shape, **more)
    if columns:
        return FromColumns(columns), described("columns", "float64", (len(columns),), columns=columns)
    if isinstance(reader, Texts):
        more = {"class": "sklearn.feature_extraction.FeatureHasher", "n_features": shape[0], "input_type": "pair"}
        more |= {"words": [WORD.pattern, PAIR.pattern], "weights": reader.weights, "most_words": MOST_WORDS}
        return Lengthened(), described("words", "float32", shape, **more)
    if isinstance(reader, Numbers) and reader.mean is not None:
        return Scaled(1 / reader.std, reader.mean), described("numbers", "float32", shape)
    return Scaled(reader.scale), described("numbers", "float32", shape)


# -- the run, as others may see it


def _portable_report(report: Report) -> Report:
    """Return figures and sentences of a report, without examples of rows and places on this machine."""
    evidence = report.evidence and {name: report.evidence.get(name) for name in ("verdict", "sentence", "views")}
    return Report(
        method=report.method,
        data=replace(report.data, options={}, facts={}, counts={}, scoring=None, fingerprint=None),
        encoder=report.encoder and replace(report.encoder, options={}, facts={}),
        epochs=report.epochs,
        labels_read=report.labels_read,
        evidence=evidence,
        environment={"version": __version__},
        selection=report.selection,
        test=report.test,
    )


def _portable_config(run: Run) -> dict[str, Any]:
    """Return the parts of a run's config that predicting takes.

    A network that is its method's whole answer is named as that of ``ERM``, so that nothing else has to be built.
    """
    config = run.config
    with run.names():
        with without_pretrained_weights():
            build = network_factory(_origin(config.network), run.info)
            plain = without(build, config.training.leave_out, run.info)().state_dict()
        trained = run.algorithm.network.state_dict()
        alone = {name: value.shape for name, value in plain.items()} == {k: v.shape for k, v in trained.items()}
        flat = RunConfig(config.data, ComponentConfig("ERM") if alone else config.method).to_dict()
        parts = {"data": flat["data"], "method": flat["method"]}
        for part, choice, model in (
            ("network", config.network, TEXT_MODEL),
            ("encoder", config.encoder, TEXT_ENCODER),
        ):
            if choice is not None:
                origin = _origin(choice)
                own = {"model": HERE + model} if origin.name == "TextClassifier" else {}
                parts[part] = {"name": origin.name, **origin.options, **own}
    if parts["data"].get("tokenizer"):
        parts["data"]["tokenizer"] = HERE + TOKENIZER
    found: dict[str, Any] = _without_places(parts) | {"precision": config.training.precision}
    return found | ({"leave_out": config.training.leave_out} if config.training.leave_out else {})


def _origin(choice: ComponentConfig) -> ComponentConfig:
    """Return the network that a network of a run is, wherever that run took it from."""
    return Run(Path(choice.options["run"])).config.network if choice.name == "FromRun" else choice


def _without_places(value: Any) -> Any:
    """Return options with paths on this machine cut to the last name."""
    if isinstance(value, Mapping):
        return {name: _without_places(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_places(part) for part in value]
    if not isinstance(value, str) or value.startswith(HERE):
        return value
    path = PurePath(value)
    is_place = path.is_absolute() or value.startswith(("~", "..")) or (len(path.parts) > 1 and os.path.exists(value))
    return path.name if is_place else value


# -- the model card


def model_card(report: Report, kind: str) -> str:
    """Return the model card as Markdown, YAML in front; all text of users is escaped.

    Args:
        report: The run's.
        kind: What a row is, such as ``images``.
    """
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    def written(value: Any) -> Markup:
        return value if isinstance(value, Markup) else Markup(markdown(value))

    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, finalize=written, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"percent": format_percent, "count": "{:,}".format, "join": lambda parts, by: by.join(parts)}
    environment.globals |= {"sides": sides, "answer": answer, "selection": describe_selection}
    task, rows = _KINDS[kind]
    template = environment.get_template("card.md.j2")
    return template.render(report=report, test=report.test, task=task, rows=rows).lstrip() + "\n"


def markdown(text: Any) -> str:
    r"""Return a text so that Markdown shows it as it is, on one line and in a table too; code stays code.

    >>> markdown("a|b <img src=x> [c](d)\n# e"), markdown("<=50K of `form_version` (90 %) & <b>")
    ('a\\|b &lt;img src=x> \\[c\\](d) \\# e', '<=50K of `form_version` (90 %) & &lt;b>')
    """
    code, acting = r"`[^`<&|]+`", r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])|(?<!\S)#|<(?=[a-zA-Z/!?])|&(?=#?\w+;)"
    marks = {"<": "&lt;", "&": "&amp;"}
    line = " ".join(str(text).split())
    return re.sub(f"{code}|{acting}", lambda m: m[0] if m[0][1:] else marks.get(m[0], f"\\{m[0]}"), line)
