"""Waterbirds: birds of land and water, pasted before land or water."""

from __future__ import annotations

from pathlib import Path

from logit_correction.bench import published
from logit_correction.bench.published import PublishedImages
from logit_correction.correlation import Correlation
from logit_correction.data.augment import AugmentationName
from logit_correction.data.frames import read_frame, row_names
from logit_correction.data.rows import Problems, files_within
from logit_correction.data.table import DataTable

#: Rows per label (landbird, waterbird) and attribute (land, water).
COUNTS: dict[str, published.Counts] = {
    "train": [[3498, 184], [56, 1057]],
    "valid": [[467, 466], [133, 133]],
    "test": [[2255, 2255], [642, 642]],
}

_FOLDERS = ("waterbird_complete95_forest2water2", "waterbirds_v1.0", "waterbirds", "Waterbirds")
_ARCHIVE = "https://nlp.stanford.edu/data/dro/waterbird_complete95_forest2water2.tar.gz"
_COLUMNS = ("img_filename", "y", "split", "place")


class Waterbirds(PublishedImages):
    """Waterbirds: 4,795 train, 1,199 valid, 5,794 test; the background goes with the bird in 95 % of training."""

    def __init__(self, root: str | None = None, size: int = 224, augment: AugmentationName = "none") -> None:
        """Choose the place of the files and the form of the images.

        Args:
            root: Folder that holds ``metadata.csv``, or the folder ``waterbird_complete95_forest2water2`` with it; by
                default LOGIT_CORRECTION_DATA, else ``~/.cache/logit_correction``.
            size: Height and width that images are resized to.
            augment: Random changes of training images: ``none``, ``crop-flip`` or ``resized-crop-flip``.
        """
        super().__init__(root, size, augment)

    def _folder(self) -> Path:
        base = published.data_folder(self.root)
        source = f"`{published.fetch_command(_ARCHIVE, base)}` gets it, for research that is not commercial"
        return published.find_folder("Waterbirds", self.root, _FOLDERS, ["metadata.csv"], source)

    def build(self) -> DataTable:
        """Read ``metadata.csv`` and the images that it names."""
        folder = self._folder()
        frame = read_frame(folder / "metadata.csv", _COLUMNS, "get it again")
        problems = Problems(str(folder / "metadata.csv"), row_names(frame.index))
        two = {"0": 0, "1": 1}
        label, place = (published.codes(frame[name], two, problems) for name in ("y", "place"))
        split = published.codes(frame["split"], {"0": 0, "1": 1, "2": 2}, problems)
        names = frame["img_filename"].tolist()
        paths = files_within(folder, names, problems, "img_filename", look=False)
        problems.raise_if_any("error", published.get_again("metadata.csv"))
        table = DataTable(
            inputs=self._store(folder, paths, names),
            label=label,
            attribute=place,
            split=published.rows_of_splits(split),
            label_names=["landbird", "waterbird"],
            attribute_names=["land", "water"],
            correlation=Correlation.one_to_one(2),
            metadata={
                "source": "Waterbirds (waterbird_complete95_forest2water2)",
                "images": f"resized to {self.size} x {self.size}",
                "usual figures": "worst group, and the average with groups weighted as in training",
            },
            augment=self.augment,
            row_names=names,
            files=paths,
        )
        return published.with_count_note(table, "Waterbirds", COUNTS)
