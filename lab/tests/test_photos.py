"""Readers of published data sets, on small files in the published layouts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction.data.loading import BatchLoader
from logit_correction.data.rows import Rows
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction_lab.original_crops import OriginalCropFlip
from logit_correction_lab.sources.civilcomments import IDENTITIES, CivilComments
from logit_correction_lab.sources.photos import BiasedFFHQ, CelebA, Waterbirds

SOURCES = {"waterbirds": Waterbirds, "celeba": CelebA, "bffhq": BiasedFFHQ}


def count_groups_by_split(table: DataTable) -> dict[str, tuple[int, ...]]:
    return {split: tuple(table.count_groups(split).flatten().tolist()) for split in table.split}


def background(images: torch.Tensor) -> torch.Tensor:
    """The attribute as it is seen: red outweighs blue in the corner, or does not."""
    corner = images[:, :, :2, :2].double().mean((2, 3))
    return (corner[:, 0] > corner[:, 2]).long()


@pytest.mark.parametrize(
    ("name", "layout"), [("waterbirds", {}), ("celeba", {}), ("celeba", {"text": True}), ("bffhq", {})]
)
def test_build_keeps_groups_splits_and_images_together(
    name: str, layout: dict[str, bool], layouts: ModuleType, tmp_path: Path
) -> None:
    getattr(layouts, f"write_{name}")(tmp_path, **layout)
    table = SOURCES[name](root=str(tmp_path), size=16).build().check()
    assert count_groups_by_split(table) == layouts.COUNTS
    assert table.inputs.input_shape == (3, 16, 16)
    images = table.inputs.images(torch.arange(len(table.label)))
    assert images is not None and torch.equal(background(images), table.attribute)
    middle = images[:, 1, 7:9, 7:9].double().mean((1, 2))
    assert bool(middle[table.label == 1].min() > middle[table.label == 0].max())
    fetched = table.inputs.fetch(torch.arange(3))
    assert isinstance(fetched, torch.Tensor) and float(fetched.min()) >= 0 and float(fetched.max()) <= 1
    assert table.row_names is not None and len(set(table.row_names)) == len(table.label)
    view_inputs = table.view_inputs("train")
    assert name != "bffhq" or (
        view_inputs.files is None and view_inputs.position is None
    )  # which would reveal the attribute
    assert [len(rows) for rows in table.split.values()] == [sum(counts) for counts in layouts.COUNTS.values()]


def test_waterbirds_crops_originals_as_published(layouts: ModuleType, tmp_path: Path) -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    layouts.write_waterbirds(tmp_path)
    options = {"root": str(tmp_path), "size": 14, "fit": "centre"}
    table = Waterbirds(**options, augment="resized-crop-flip", crops="original").build().check()
    assert table.inputs.input_shape == (3, 14, 14) and table.files is not None
    cut = transforms.Compose([transforms.Resize((16, 16)), transforms.CenterCrop(14)])
    images = table.inputs.images(torch.arange(len(table.label)))
    for row, path in enumerate(table.files):
        expected = torch.from_numpy(np.array(cut(Image.open(path)))).permute(2, 0, 1)
        assert images is not None and torch.equal(images[row], expected)
    assert isinstance(table.augment, OriginalCropFlip)
    larger = table.augment.store.images(torch.arange(len(table.label)))
    assert larger is not None and larger.shape[1:] == (3, 24, 24)
    train = table.split["train"]
    assert bool((larger[train].flatten(1) > 0).any(1).all())
    assert int((larger.flatten(1) > 0).any(1).sum()) == len(train)  # others are not read
    assert table.augment.originals[train].unique(dim=0).tolist() == [[14, 20]]
    batch = next(BatchLoader(table, "train", batch_size=8, shuffle=True).epoch())
    assert isinstance(batch.inputs, torch.Tensor) and batch.inputs.shape == (8, 3, 14, 14)
    new, _ = Waterbirds(**options).reader.transform(Rows("new", range(2), files=table.files[:2]))
    assert torch.equal(new.fetch(torch.arange(2)), table.inputs.fetch(torch.arange(2)))
    with pytest.raises(InputError, match="resized-crop-flip"):
        Waterbirds(**options, crops="original")


def test_civil_comments_has_sixteen_overlapping_groups(layouts: ModuleType, tmp_path: Path) -> None:
    file = layouts.write_civilcomments(tmp_path) / "all_data_with_identities.csv"
    frame = pd.read_csv(file, index_col=0, keep_default_na=False)
    table = CivilComments(root=str(tmp_path)).build().check()
    assert table.label.tolist() == (frame["toxicity"] >= 0.5).astype(int).tolist()
    assert table.attribute.tolist() == (frame["identity_any"] >= 0.5).astype(int).tolist()
    for name, name_in_file in (("train", "train"), ("valid", "val"), ("test", "test")):
        assert table.split[name].tolist() == np.flatnonzero(frame["split"] == name_in_file).tolist()
    assert table.inputs.input_shape == (4096,)
    assert table.count_groups("train").shape == (2, 2)
    groups = table.evaluation_groups
    assert groups is not None and groups.membership.shape == (len(frame), 16)
    for group, (label, identity) in enumerate(groups.group_names):
        expected = (frame["toxicity"] >= 0.5) == (label == "toxic")
        expected &= frame[identity.replace(" ", "_")] >= 0.5
        assert groups.membership[:, group].tolist() == expected.tolist()
    assert Counter(name for name, _ in groups.group_names) == {"non-toxic": 8, "toxic": 8}
    assert {name.replace(" ", "_") for _, name in groups.group_names} == set(IDENTITIES)
    per_row = groups.membership.sum(1)
    assert int(per_row.max()) > 1 and int(per_row.min()) == 0
