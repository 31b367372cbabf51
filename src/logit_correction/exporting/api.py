"""``export``: a finished run in, a folder for other programs out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from logit_correction.errors import InputError
from logit_correction.exporting import FORMATS
from logit_correction.exporting.base import Exported, Format
from logit_correction.exporting.forms import ImageType, form_of
from logit_correction.exporting.hub import check_repository
from logit_correction.exporting.network import portable_network
from logit_correction.exporting.settings import settings_of
from logit_correction.exporting.weights import write_text_parts
from logit_correction.files import new_folder, seal
from logit_correction.registry import needed, resolve
from logit_correction.runs.api import load
from logit_correction.runs.folder import write_json
from logit_correction.runs.run import EXPORT, Run


def export(
    run: Run | Path | str,
    format: str,
    out: Path | str,
    *,
    images: ImageType = "uint8",
    repository: str | None = None,
    trust_code: bool = False,
    say: Callable[[str], object] | None = None,
) -> Path:
    """Write the predicting network of a run, with the preparation of its inputs, for other programs.

    The preparation is part of the network: the scaling of images and columns, one number for each name of a column, an
    encoder. Texts come as tokens, and their tokenizer lies beside. ``config.json`` says what goes in and comes out.

    Args:
        run: The run, or its folder.
        format: ``onnx``, ``torch-export``, ``safetensors``, ``hub``, or the dotted path of a class of your own.
        out: Folder to write; new or empty.
        images: What a traced network takes: bytes, or floats in [0, 1].
        repository: OWNER/NAME on the Hugging Face Hub, for the model card; nothing is uploaded.
        trust_code: Import classes that the run's config names by a dotted path.
        say: Told where the folder is and what can be done with it, such as ``print``.

    Returns:
        The folder.

    Raises:
        InputError: If the run cannot be loaded, a package is missing, or the network cannot be written in the format
            or answers otherwise there. Nothing is written then.
    """
    if images not in ("uint8", "float32"):
        raise InputError(f"--images is {images!r}, but must be uint8 or float32")
    kind = resolve("format", format, FORMATS, Format)
    if repository is not None:
        check_repository(repository)
    for package in kind.packages:
        needed(package, f"--format {format}", kind.extra)
    folder, loaded = Path(out), load(run, trust_code=trust_code)
    if images != "uint8" and not kind.portable:
        raise InputError(
            f"--images is for onnx and torch-export; {format} is loaded with the run's own reading: leave it out"
        )
    with new_folder(folder) as temporary:
        form = form_of(loaded, images)
        settings = settings_of(loaded, form, format)
        exported = Exported(loaded, portable_network(loaded, form), form, settings, repository)
        write_json(temporary / EXPORT, settings)
        if kind.portable:
            write_text_parts(exported, temporary, models=False)
        writer = kind()
        writer.write(exported, temporary)
        seal(temporary, [EXPORT])
    if say is not None:
        say("\n".join([str(folder), *filter(None, [writer.advice(exported, folder)])]))
    return folder
