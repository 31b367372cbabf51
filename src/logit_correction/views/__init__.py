"""Views: named, limited looks at an input that keep one kind of easy feature; one line each here."""

from __future__ import annotations

_HERE = "logit_correction.views."

#: Name -> dotted path and one line. A dotted path of your own works wherever a name does.
VIEWS: dict[str, tuple[str, str]] = {
    "column": (_HERE + "tables.OneColumn", "each column of a table of features alone"),
    "pair": (_HERE + "tables.Pairs", "two columns of a table of features together, such as which of them is greater"),
    "missing": (_HERE + "tables.Missing", "which columns of a table of features have no value"),
    "places": (
        _HERE + "images.Places",
        "each cell of a grid of 4 x 4 over the image alone, such as a mark in a corner",
    ),
    "file": (
        _HERE + "files.FileFacts",
        "facts of the file: size, format, camera, name, folder and order, without its content",
    ),
    "colour": (_HERE + "images.Colour", "the colours of the image, wherever they are"),
    "border": (
        _HERE + "images.Border",
        "the colours of a frame along the edge of the image, against those of its centre",
    ),
    "thumbnail": (
        _HERE + "images.Thumbnail",
        "the image averaged to 4 x 4 points: where it is light and dark, and in which colour",
    ),
    "spectrum": (
        _HERE + "textures.Spectrum",
        "blur, noise and compression: how much of the image is coarse and how much is fine",
    ),
    "stripes": (_HERE + "textures.Stripes", "stripes and grids all over the image: their direction"),
    "light": (
        _HERE + "images.Light",
        "the side that the image is lit from: how brightness rises and falls across all of it",
    ),
    "word": (_HERE + "texts.Words", "which words a text has, in any order"),
    "characters": (_HERE + "texts.Characters", "which short runs of characters a text has"),
    "form": (_HERE + "texts.Form", "length, punctuation, capitals and digits of a text"),
    "opening": (_HERE + "texts.Opening", "the first words of a text"),
    "closing": (_HERE + "texts.Closing", "the last words of a text"),
    "texture": (
        _HERE + "textures.Texture",
        "colours and textures of small patches, wherever they are: no shapes larger than a patch",
    ),
    "inputs": (
        _HERE + "tables.Inputs",
        "all numbers that the network sees, with a small head; also the features of a frozen encoder",
    ),
}
