"""The registry of views: named sets of simple features that can express one kind of shortcut each."""

from __future__ import annotations

_HERE = "logit_correction.views."

#: Name -> dotted path and one line. A dotted path of your own works wherever a name does.
VIEWS: dict[str, tuple[str, str]] = {
    "column": (_HERE + "tables.OneColumn", "each column of a table of features alone"),
    "pair": (_HERE + "tables.Pairs", "two columns of a table of features together, such as which of them is greater"),
    "missing": (_HERE + "tables.Missing", "which columns of a table of features have no value"),
    "places": (_HERE + "images.Places", "each cell of a grid of 4 x 4 alone, such as a mark in a corner"),
    "file": (_HERE + "files.FileFacts", "size, format, camera, name, folder and order of the file"),
    "colour": (_HERE + "images.Colour", "the colours of the image, wherever they are"),
    "border": (_HERE + "images.Border", "the colours of a frame along the edge, against those of the centre"),
    "thumbnail": (_HERE + "images.Thumbnail", "the image averaged to 4 x 4 points"),
    "spectrum": (_HERE + "images.Spectrum", "blur, noise and compression: coarse against fine detail"),
    "stripes": (_HERE + "images.Stripes", "stripes and grids all over the image: their direction"),
    "light": (_HERE + "images.Light", "the side that the image is lit from"),
    "word": (_HERE + "texts.Words", "which words a text has, in any order"),
    "characters": (_HERE + "texts.Characters", "which short runs of characters a text has"),
    "form": (_HERE + "texts.Form", "length, punctuation, capitals and digits of a text"),
    "opening": (_HERE + "texts.Opening", "the first words of a text"),
    "closing": (_HERE + "texts.Closing", "the last words of a text"),
    "texture": (_HERE + "images.Texture", "colours and textures of small patches, wherever they are"),
}
