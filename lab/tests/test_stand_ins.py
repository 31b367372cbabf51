"""Stand-ins for the paper's data: from small archives and tables in their layout, and the counts of the real ones."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction_lab.sources.stand_ins import SETS, StandIn

DATA = Path(os.environ.get("LOGIT_CORRECTION_DATA", ""))

#: Rows of each group, as in the files next to the real sets.
COUNTS = {
    "birds-on-scenes": ([664, 35, 21, 397], [105, 105, 63, 63], [245, 245, 147, 146]),
    "fairface-age-by-gender": ([4614, 23, 23, 4614], [250] * 4, [387] * 4),
    "celeba-subset": ([4412, 4136, 1371, 81], [3482, 2645, 903, 69], [5276, 3726, 1294, 81]),
    "tweets-by-dialect": ([2135, 361, 4585, 7805], [522, 105, 1111, 1961], [880, 157, 1911, 3246]),
    "wiki-identity": ([3266, 335, 2891, 816], [869, 86, 670, 202], [1402, 132, 1168, 343]),
}

#: Split, label and attribute of the rows of a small set; two of split extra are for training at 2 % and at 5 %.
ROWS = [(part, y, a) for part in ("test", "train", "val") for y in (0, 1) for a in (0, 1) for _ in range(2)]


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Made-up archives and tables, in the layout of the real ones."""
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))
    for name, facts in SETS.items():
        extra = [("extra", 0, 1), ("extra", 1, 0)] if name == "fairface-age-by-gender" else []
        frame = pd.DataFrame([*ROWS, *extra], columns=["split", "label", "attribute"])
        if facts["files"][0].endswith(".gz"):
            frame["text"] = [f"words of row {row}, NA" for row in range(len(frame))]
            frame.to_csv(tmp_path / facts["files"][0], index=False)
            continue
        frame["path"] = [f"{name}/{part}/{row}.png" for row, part in enumerate(frame["split"])]
        frame["in_train_from_percent"] = ["0.5" if part == "train" else "" for part, _, _ in ROWS] + ["2", "5"][
            : len(extra)
        ]
        files = facts["files"]
        parts = [frame[frame["split"] == part] for part in ("train", "val", "test")]
        for number, file in enumerate(files):
            if len(files) == 3:
                listed = parts[number]
                members = parts[number]
                table = f"metadata-{members['split'].iloc[0]}.csv"
            else:  # each archive has the table of all rows, the last one their images
                listed = frame
                members = frame if file == files[-1] else frame[:0]
                table = "metadata.csv"
            with tarfile.open(tmp_path / file, "w") as archive:
                add_member(archive, f"{name}/{table}", listed.to_csv(index=False).encode())
                for path, y, a in members[["path", "label", "attribute"]].itertuples(index=False):
                    add_member(archive, path, encode_image(y, a))
    return tmp_path


def add_member(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def encode_image(label: int, attribute: int) -> bytes:
    """A picture of 12 x 10 pixels, red by its label and green by its attribute."""
    file = io.BytesIO()
    Image.new("RGB", (12, 10), (255 * label, 255 * attribute, 0)).save(file, "png")
    return file.getvalue()


@pytest.mark.parametrize("name", SETS)
def test_build_reads_the_layout_of_each_set(made_up: Path, name: str) -> None:
    table = StandIn(name, root=str(made_up)).build().check()
    for part in ("train", "valid", "test"):
        assert table.count_groups(part).tolist() == [[2, 2], [2, 2]]
    rows = torch.arange(len(table.label))
    if table.texts is None:
        pixels = table.inputs.fetch(rows)
        assert isinstance(pixels, torch.Tensor) and pixels.shape[1:] == (3, 10, 10)
        assert torch.equal(pixels[:, 0, 5, 5], table.label.float())
        assert torch.equal(pixels[:, 1, 5, 5], table.attribute.float())
    else:
        assert table.texts[3].startswith("words of row 3") and table.inputs.holds_words
    assert table.metadata["this is"] == SETS[name]["description"] and not table.ordered


def test_larger_minority_ratios_train_on_more_rows_of_the_same_inputs(made_up: Path) -> None:
    tables = {ratio: StandIn("fairface-age-by-gender", str(made_up), ratio).build() for ratio in (0.01, 0.02, 0.05)}
    assert [len(table.split["train"]) for table in tables.values()] == [8, 9, 10]
    assert len({len(table.inputs) for table in tables.values()}) == 1
    assert tables[0.05].metadata["minority ratio"] == 0.05


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_real_sets_have_the_documented_group_sizes(name: str) -> None:
    if not all((DATA / file).is_file() for file in SETS[name]["files"]):
        pytest.skip("LOGIT_CORRECTION_DATA names no folder with it")
    table = StandIn(name).build()  # type: ignore[arg-type]
    assert tuple(table.count_groups(part).flatten().tolist() for part in ("train", "valid", "test")) == COUNTS[name]
