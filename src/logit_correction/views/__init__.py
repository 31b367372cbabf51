"""Views: named, limited looks at an input that keep one kind of easy feature. One file each, and one line here."""

from __future__ import annotations

#: Name -> dotted path and one line. A dotted path of your own works wherever a name does.
VIEWS: dict[str, tuple[str, str]] = {
    "column": ("logit_correction.views.columns.Columns", "each column of a table of features alone"),
    "missing": ("logit_correction.views.missing.Missing", "which columns of a table of features have no value"),
    "places": (
        "logit_correction.views.places.Places",
        "each cell of a grid of 4 x 4 over the image alone, such as a mark in a corner",
    ),
    "file": (
        "logit_correction.views.file_facts.FileFacts",
        "facts of the file: size, format, camera, name, folder and order, without its content",
    ),
    "colour": ("logit_correction.views.colour.Colour", "the colours of the image, wherever they are"),
    "border": (
        "logit_correction.views.border.Border",
        "the colours of a frame along the edge of the image, beside those of its centre",
    ),
    "thumbnail": (
        "logit_correction.views.thumbnail.Thumbnail",
        "the image averaged to 4 x 4 points: where it is light and dark, and in which colour",
    ),
    "spectrum": (
        "logit_correction.views.spectrum.Spectrum",
        "blur, noise and compression: how much of the image is coarse and how much is fine",
    ),
    "stripes": ("logit_correction.views.stripes.Stripes", "stripes and grids all over the image: their direction"),
    "light": (
        "logit_correction.views.light.Light",
        "the side that the image is lit from: how brightness rises and falls across all of it",
    ),
    "word": ("logit_correction.views.words.Words", "which words a text has, in any order"),
    "characters": ("logit_correction.views.characters.Characters", "which short runs of characters a text has"),
    "form": ("logit_correction.views.form.Form", "length, punctuation, capitals and digits of a text"),
    "opening": ("logit_correction.views.ends.Opening", "the first words of a text"),
    "closing": ("logit_correction.views.ends.Closing", "the last words of a text"),
    "texture": (
        "logit_correction.views.texture.Texture",
        "colours and textures of small patches, wherever they are: no shapes larger than a patch",
    ),
    "inputs": (
        "logit_correction.views.whole.Inputs",
        "all numbers that the network sees, with a small head; also the features of a frozen encoder",
    ),
}
