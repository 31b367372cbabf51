"""``logit-correction export RUN --format F --out DIR``: the predicting network for other programs."""

from __future__ import annotations

from pathlib import Path

from logit_correction.cli.arguments import Parser, add_trust
from logit_correction.exporting import FORMATS


def main(arguments: list[str]) -> int:
    """Export a run and say what can be done with the folder."""
    parser = Parser(
        "export", "The predicting network of a run, with the preparation of its inputs, for other programs."
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder that `train` wrote")
    formats = "; ".join(f"{name}: {line}" for name, (_, line) in FORMATS.items())
    parser.add_argument("--format", required=True, metavar="FORMAT", help=f"{formats}; or a class of your own")
    parser.add_argument("--out", type=Path, required=True, help="folder to write, new or empty")
    parser.add_argument(
        "--images",
        choices=("uint8", "float32"),
        default="uint8",
        help="what onnx and torch-export take for an image: bytes, or floats in [0, 1]; uint8 by default",
    )
    parser.add_argument("--repository", metavar="OWNER/NAME", help="for the card of hub; nothing is uploaded")
    add_trust(parser)
    options = parser.parse_args(arguments)
    from logit_correction.exporting.api import export

    export(
        options.run,
        options.format,
        options.out,
        images=options.images,
        repository=options.repository,
        trust_code=options.trust_code,
        say=print,
    )
    return 0
