"""Images in tar files: what lies where in them, batches in any order, and what may be wrong."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from logit_correction.config import ComponentConfig, RunConfig, TrainingConfig
from logit_correction.data import image_shards, shards
from logit_correction.data.image_folder import ImageFolder
from logit_correction.data.image_shards import ImageShards
from logit_correction.data.loading import BatchLoader
from logit_correction.data.shards import shard_files
from logit_correction.errors import InputError, TrainingError
from logit_correction.runs.train import train
from logit_correction.runs.trained import TrainedRun

SIZE = 8
Member = tuple[str, bytes]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))


def picture(brightness: int, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (6, 6), (brightness, 0, 0)).save(buffer, kind)
    return buffer.getvalue()


def write(path: Path, members: list[Member | tarfile.TarInfo]) -> Path:
    with tarfile.open(path, "w") as shard:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                shard.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            shard.addfile(info, io.BytesIO(member[1]))
    return path


def sample(number: int, label: object, **more: object) -> list[Member | tarfile.TarInfo]:
    """Return the members of a sample, in the order of their names as WebDataset wants it."""
    said = json.dumps({"kind": label, **more}).encode()
    return [
        (f"{number:04}.cls", f"{label}\n".encode()),
        (f"{number:04}.json", said),
        (f"{number:04}.png", picture(number)),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four shards of ten samples; number i has brightness i, label i % 2 and place i % 3."""
    for shard in range(4):
        numbers = range(10 * shard, 10 * shard + 10)
        write(tmp_path / f"train-{shard:03}.tar", [m for i in numbers for m in sample(i, i % 2, place=i % 3)])
    return tmp_path


def source(folder: Path, **options: object) -> ImageShards:
    given = {"train": str(folder / "train-{000..003}.tar"), "size": SIZE} | options
    return ImageShards(**given)  # type: ignore[arg-type]


def test_samples_are_found_and_read_in_any_order(folder: Path) -> None:
    table = source(folder).build().check()
    assert table.label.tolist() == [i % 2 for i in range(40)] and list(table.label_names) == ["0", "1"]
    assert {name: len(rows) for name, rows in table.split.items()} == {"train": 28, "valid": 4, "test": 8}
    rows = torch.tensor([33, 2, 17])
    images = table.inputs.images(rows)
    assert images is not None and images.shape == (3, 3, SIZE, SIZE) and images[:, 0, 0, 0].tolist() == [33, 2, 17]
    assert torch.equal(table.inputs.fetch(rows), images.float() / 255)
    assert table.row_names is not None and list(table.row_names[32:34]) == ["train-003.tar/0032", "train-003.tar/0033"]


def test_entries_of_json_are_labels_and_attributes(folder: Path) -> None:
    table = source(folder, label="kind", attribute=["place"]).build().check()
    assert table.label.tolist() == [i % 2 for i in range(40)]
    assert table.attribute.tolist() == [i % 3 for i in range(40)] and list(table.attribute_names) == ["0", "1", "2"]


def test_shards_of_splits(folder: Path) -> None:
    def part(name: str, numbers: str) -> str:
        return str(folder / f"{name}-{numbers}.tar")

    table = source(folder, train=[part("train", "{000..001}")], valid=part("train", "002"), test=part("train", "*3"))
    rows = table.build().check().split
    assert [rows[name].tolist() for name in ("train", "valid", "test")] == [
        [*range(20)],
        [*range(20, 30)],
        [*range(30, 40)],
    ]
    drawn = source(folder, train=part("train", "{000..002}"), test=part("train", "003")).build()
    assert drawn.split["test"].tolist() == [*range(30, 40)] and len(drawn.split["valid"]) == 4
    with pytest.raises(InputError, match=r"train-003\.tar is named more than once"):
        source(folder, test=part("train", "003")).build()


def test_the_index_is_kept_until_a_shard_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = source(folder).build()
    with monkeypatch.context() as patch:
        patch.setattr(shards, "_samples", lambda *_: pytest.fail("read again"))
        again = source(folder).build()
    assert torch.equal(again.label, table.label) and list(again.row_names or ()) == list(table.row_names or ())
    for kept in (folder / "cache" / "shards").iterdir():
        kept.write_bytes(kept.read_bytes()[:-9])  # a damaged one is made again
    assert torch.equal(source(folder).build().label, table.label)
    write(folder / "train-000.tar", [m for i in range(10) for m in sample(i, (i + 1) % 2)])
    assert source(folder).build().label[:10].tolist() == [(i + 1) % 2 for i in range(10)]


def bad(folder: Path, members: list[Member | tarfile.TarInfo]) -> ImageShards:
    """Return a source whose second shard holds these members beside good ones."""
    write(folder / "train-001.tar", [*(m for i in range(50, 60) for m in sample(i, i % 2)), *members])
    return source(folder)


def link(kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo("0099.png")
    info.type, info.linkname = kind, "/etc/passwd"
    return info


@pytest.mark.parametrize(
    "members",
    [
        [("../0099.png", picture(9))],
        [("/etc/0099.png", picture(9))],
        [("a/../../b.png", picture(9))],
        [link(tarfile.SYMTYPE)],
        [link(tarfile.LNKTYPE)],
        [link(tarfile.CHRTYPE)],
    ],
)
def test_members_that_no_shard_may_hold_are_refused(folder: Path, members: list[Member | tarfile.TarInfo]) -> None:
    for rule in ("error", "skip"):
        refused = bad(folder, members)
        refused.on_bad_rows = rule  # type: ignore[assignment]
        with pytest.raises(InputError, match=r"train-001\.tar: member .* (no plain file|leaves its folder)"):
            refused.build()


def test_bad_samples_are_named_or_left_out(folder: Path) -> None:
    members: list[Member | tarfile.TarInfo] = [
        ("a.cls", b"1"),
        ("b.png", picture(1)),
        ("c.cls", b"0"),
        ("c.jpg", picture(1, "JPEG")[:-60]),
        ("d.cls", b"\xff\xfe"),
        ("d.png", picture(1)),
        ("e.cls", b"1" * (2**20 + 1)),
        ("e.png", picture(1)),
        ("f.cls", b"1"),
        ("f.jpg", picture(1, "JPEG")),
        ("f.png", picture(1)),
        ("0050.png", picture(1)),
        ("0050.cls", b"0"),
    ]
    with pytest.raises(InputError) as caught:
        bad(folder, members).build()
    for fault in (
        r"train-001.tar/a: has no image",
        "train-001.tar/b: has no label",
        "train-001.tar/c: cannot be read",
        "train-001.tar/d: has a cls that cannot be read",
        "train-001.tar/e: has a cls of 1,048,577 bytes",
        "train-001.tar/f: holds several images",
        "train-001.tar/0050: repeats train-001.tar/0050",
    ):
        assert fault in str(caught.value)
    skipping = source(folder, on_bad_rows="skip").build().check()
    assert sum(map(len, skipping.split.values())) == 40 and "7 bad rows were left out" in skipping.notes[0]


def test_an_image_file_of_any_size_is_not_read_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MOST_OF_IMAGE", 60)
    with pytest.raises(InputError, match=r"train-000\.tar/0000: has an image file of \d\d bytes, more than 60"):
        source(folder).build()


@pytest.mark.parametrize("said", [b"[1]", b"{", b'{"kind": [1, 2]}', b"[" * 100_000])
def test_json_of_another_form_is_a_bad_row(folder: Path, said: bytes) -> None:
    source_ = bad(folder, [("x.json", said), ("x.png", picture(1))])
    source_.label = "kind"
    with pytest.raises(InputError, match=r"1 row is bad: train-001\.tar/x: has a json"):
        source_.build()


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def cut_at_a_member(content: bytes) -> bytes:
    return content[: 512 * 30]


def flipped(content: bytes) -> bytes:
    place = content.index(b"0005.png")
    return content[:place] + b"\x00\xff" + content[place + 2 :]


def squeezed(content: bytes) -> bytes:
    import gzip

    return gzip.compress(content)


@pytest.mark.parametrize("damage", [cut, cut_at_a_member, flipped, squeezed, lambda _: b"", lambda _: b"no tar" * 200])
def test_a_damaged_shard_is_named(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    shard = folder / "train-000.tar"
    shard.write_bytes(damage(shard.read_bytes()))
    with pytest.raises(InputError, match=r"train-000\.tar is damaged, or no tar file without compression, at '.*copy"):
        source(folder, on_bad_rows="skip").build()


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        ("https://example.org/train-{000..009}.tar", "is no file: .*examples/stream.py"),
        ("pipe:cat x.tar", "is no file"),
        ("missing-{0..2}.tar", r"missing-0\.tar is missing and 2 more: give tar files"),
        ("missing-*.tar", "no file is called"),
        ("x-{0..99999999999999}.tar", "more than 1,000,000 shards"),
        ("x-{0..9999}{0..9999}.tar", "more than 1,000,000 shards"),
    ],
)
def test_shards_that_are_none(shard: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^--data.train.*{message}"):
        ImageShards(shard).build()


def test_braces_keep_their_zeros(tmp_path: Path) -> None:
    for name in ("a08-1.tar", "a09-1.tar", "a10-1.tar"):
        (tmp_path / name).touch()
    found = shard_files([str(tmp_path / "a{08..10}-{1..1}.tar")], "--data.train")
    assert [file.name for file in found] == ["a08-1.tar", "a09-1.tar", "a10-1.tar"]


def test_batches_are_those_of_a_folder_with_and_without_processes_beside(folder: Path, tmp_path: Path) -> None:
    for i in range(40):
        path = tmp_path / "photos" / f"label {i % 2}" / f"{i:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(i))
    other = ImageFolder(str(tmp_path / "photos"), size=SIZE).build()
    place = {row: i for i, row in enumerate(other.row_names or ())}
    table = source(folder, augment="crop-flip").build()
    order = torch.tensor([place[f"label {i % 2}/{i:04}.png"] for i in range(40)])
    assert torch.equal(table.inputs.fetch(torch.arange(40)), other.inputs.fetch(order))  # type: ignore[arg-type]
    read = [
        torch.cat(
            [batch.inputs for batch in BatchLoader(table, "train", batch_size=8, shuffle=True, workers=n).epoch(3, 1)]
        )  # type: ignore[misc]
        for n in (0, 1)
    ]
    assert len(read[0]) == 20 and torch.equal(*read)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_shard_that_changes_under_a_training_ends_it_by_name(folder: Path, workers: int) -> None:
    table = source(folder).build()
    shard = folder / "train-002.tar"
    shard.write_bytes(b"\0" * shard.stat().st_size)
    with pytest.raises(
        TrainingError, match=r"^\S*train-002\.tar: the image at byte \d+ is no image .*copy the shard again$"
    ):
        list(BatchLoader(table, "train", batch_size=4, workers=workers).epoch())


def test_a_run_on_shards_trains_resumes_and_predicts_as_any_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig(
        data=ComponentConfig("ImageShards", {"train": str(folder / "train-*.tar"), "size": SIZE}),
        method=ComponentConfig("LC", {"attributes": {"name": "Auto", "shortcut": ["colour"]}}),
        training=TrainingConfig(epochs=3, batch_size=8),
    )
    whole = TrainedRun(train(config, folder / "whole", page=False))
    assert whole.report["data"]["facts"]["source"] == "4 tar files, the first of them train-000.tar"
    calls, images = [0], image_shards.ShardedImages.images

    def failing(self: image_shards.ShardedImages, rows: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        if calls[0] == 20:
            raise TrainingError("a disk is gone")
        return images(self, rows)

    with monkeypatch.context() as patch:
        patch.setattr(image_shards.ShardedImages, "images", failing)
        with pytest.raises(TrainingError, match="a disk is gone"):
            train(config, folder / "part", page=False, checkpoint_seconds=0)
    resumed = TrainedRun(train(config, folder / "part", resume=True, page=False))
    states = [run.algorithm.state_dict() for run in (whole, resumed)]
    assert all(
        torch.equal(states[0][name], states[1][name])
        for name in whole.algorithm.state_dict()
        if name.endswith("weight")
    )
    (folder / "new.png").write_bytes(picture(3))
    assert len(whole.predict([folder / "new.png"])) == 1
