"""Views: named, limited looks at an input that keep one kind of easy feature; one line each here."""

from __future__ import annotations

#: Name -> path from here and one line. A dotted path of your own works wherever a name does.
VIEWS: dict[str, tuple[str, str]] = {
    "column": ("tables.Columns", "each column of a table of features alone"),
    "pair": ("tables.Pairs", "two columns of a table of features together, such as which of them is greater"),
    "missing": ("tables.Missing", "which columns of a table of features have no value"),
    "places": ("images.Places", "each cell of a grid of 4 x 4 over the image alone, such as a mark in a corner"),
    "file": ("files.FileFacts", "facts of the file: size, format, camera, name, folder and order, without its content"),
    "colour": ("images.Colour", "the colours of the image, wherever they are"),
    "border": ("images.Border", "the colours of a frame along the edge of the image, against those of its centre"),
    "thumbnail": (
        "images.Thumbnail",
        "the image averaged to 4 x 4 points: where it is light and dark, and in which colour",
    ),
    "spectrum": (
        "textures.Spectrum",
        "blur, noise and compression: how much of the image is coarse and how much is fine",
    ),
    "stripes": ("textures.Stripes", "stripes and grids all over the image: their direction"),
    "light": ("images.Light", "the side that the image is lit from: how brightness rises and falls across all of it"),
    "word": ("texts.Words", "which words a text has, in any order"),
    "characters": ("texts.Characters", "which short runs of characters a text has"),
    "form": ("texts.Form", "length, punctuation, capitals and digits of a text"),
    "opening": ("texts.Opening", "the first words of a text"),
    "closing": ("texts.Closing", "the last words of a text"),
    "texture": (
        "textures.Texture",
        "colours and textures of small patches, wherever they are: no shapes larger than a patch",
    ),
    "words": (
        "words.PhotoWords",
        "what stands in a photo, by ImageNet's classes; behind the encoder of photos, and only where you name it",
    ),
    "inputs": (
        "tables.Inputs",
        "all numbers that the network sees, with a small head; also the features of a frozen encoder",
    ),
}
VIEWS |= {name: (f"{__name__}.{path}", line) for name, (path, line) in VIEWS.items()}
