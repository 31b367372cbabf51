"""Small data sets in the layouts of the published ones, each with a real shortcut.

The attribute is written strongly into an image or a text, the label weakly; in training they mostly go together.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

#: Rows per group (label 0 with attribute 0, 0 with 1, 1 with 0, 1 with 1) of train, valid and test.
COUNTS = {"train": (16, 2, 2, 12), "valid": (3, 2, 2, 3), "test": (5, 4, 4, 5)}

_NAMES = """5_o_Clock_Shadow Arched_Eyebrows Attractive Bags_Under_Eyes Bald Bangs Big_Lips Big_Nose
    Black_Hair Blond_Hair Blurry Brown_Hair Bushy_Eyebrows Chubby Double_Chin Eyeglasses Goatee Gray_Hair Heavy_Makeup
    High_Cheekbones Male Mouth_Slightly_Open Mustache Narrow_Eyes No_Beard Oval_Face Pale_Skin Pointy_Nose
    Receding_Hairline Rosy_Cheeks Sideburns Smiling Straight_Hair Wavy_Hair Wearing_Earrings Wearing_Hat
    Wearing_Lipstick Wearing_Necklace Wearing_Necktie Young"""
CELEBA_ATTRIBUTES = _NAMES.split()

IDENTITIES = ["male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black", "white"]


def write_csv(path: Path, rows: Iterable[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def draw_rows(counts: dict[str, tuple[int, ...]]) -> list[tuple[int, int, int]]:
    """Split (0, 1, 2), label and attribute of every row, in mixed order."""
    rows = [
        (split, group // 2, group % 2)
        for split, name in enumerate(("train", "valid", "test"))
        for group, count in enumerate(counts[name])
        for _ in range(count)
    ]
    order = np.random.default_rng(0).permutation(len(rows))
    return [rows[i] for i in order]


def write_image(path: Path, label: int, attribute: int, size: tuple[int, int] = (16, 16), seed: int = 0) -> None:
    """Write an image whose background is the attribute and whose middle is the label, with noise upon both."""
    draw = np.random.default_rng([seed, label, attribute])
    pixels = np.zeros((*size, 3))
    pixels[:] = (190, 120, 60) if attribute else (60, 120, 190)
    top_edge = size[0] // 2 - 2
    left_edge = size[1] // 2 - 2
    pixels[top_edge : top_edge + 4, left_edge : left_edge + 4, 1] = 200 if label else 60
    pixels += draw.normal(0, 12, pixels.shape)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)


def write_waterbirds(root: Path, counts: dict[str, tuple[int, ...]] = COUNTS) -> Path:
    """Write ``metadata.csv`` and the images; returns the folder."""
    folder = root / "waterbird_complete95_forest2water2"
    table: list[Sequence[object]] = [("img_id", "img_filename", "y", "split", "place", "place_filename")]
    for i, (split, y, place) in enumerate(draw_rows(counts)):
        name = f"{i % 3:03d}.Some_Bird/Some_Bird_{i:04d}.jpg"
        write_image(folder / name, y, place, (14, 20), seed=i)
        table.append((i + 1, name, y, split, place, f"/o/ocean/{i:08d}.jpg"))
    write_csv(folder / "metadata.csv", table)
    return folder


def write_celeba(root: Path, text: bool = False, counts: dict[str, tuple[int, ...]] = COUNTS) -> Path:
    """Write both lists, as .csv or as torchvision's .txt files, and the images; returns the folder."""
    folder = root / "celeba"
    draw = np.random.default_rng(1)
    blond = CELEBA_ATTRIBUTES.index("Blond_Hair")
    male = CELEBA_ATTRIBUTES.index("Male")
    attributes: list[list[object]] = []
    partition: list[list[object]] = []
    for i, (split, label, attribute) in enumerate(draw_rows(counts)):
        name = f"{i + 1:06d}.jpg"
        write_image(folder / "img_align_celeba" / name, label, attribute, (22, 18), seed=i)
        values = draw.choice([-1, 1], len(CELEBA_ATTRIBUTES))
        values[blond] = 2 * label - 1
        values[male] = 2 * attribute - 1
        attributes.append([name, *values.tolist()])
        partition.append([name, split])
    if not text:
        write_csv(folder / "list_attr_celeba.csv", [["image_id", *CELEBA_ATTRIBUTES], *attributes])
        write_csv(folder / "list_eval_partition.csv", [["image_id", "partition"], *partition])
        return folder
    lines = [str(len(attributes)), " ".join(CELEBA_ATTRIBUTES) + " "]
    lines += [f"{name} " + " ".join(f"{value:>2}" for value in values) for name, *values in attributes]
    (folder / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    (folder / "list_eval_partition.txt").write_text("".join(f"{name} {split}\n" for name, split in partition))
    return folder


def write_bffhq(root: Path, pct: str = "0.5pct", counts: dict[str, tuple[int, ...]] = COUNTS) -> Path:
    """Write the images into their folders; returns the folder."""
    folder = root / "bffhq"
    for i, (split, y, bias) in enumerate(draw_rows(counts)):
        name = f"{i}_{y}_{bias}.png"
        train = f"{pct}/{'align' if y == bias else 'conflict'}/{y}"
        write_image(folder / (train, "valid", "test")[split] / name, y, bias, seed=i)
    return folder


def write_civilcomments(root: Path, rows: int = 160, seed: int = 0) -> Path:
    """Write ``all_data_with_identities.csv``; returns the folder."""
    folder = root / "civilcomments_v1.0"
    draw = np.random.default_rng(seed)
    header = ["", "id", "comment_text", "split", "created_date", *IDENTITIES, "identity_any", "toxicity"]
    table: list[Sequence[object]] = [header]
    for i in range(rows):
        toxic = int(i % 4 == 0)
        mentioned = draw.random(len(IDENTITIES)) < (0.35 if toxic else 0.1)
        words = [name for name, is_mentioned in zip(IDENTITIES, mentioned, strict=True) if is_mentioned]
        words += draw.choice(["the", "weather", "today", "null", "NA"], 4).tolist()
        words += ["awful", "nonsense"] if toxic and draw.random() < 0.8 else ["thanks"]
        split = ("train", "train", "train", "val", "test")[i % 5]
        toxicity = round(draw.uniform(0.5, 1.0) if toxic else draw.uniform(0.0, 0.49), 3)
        shares = [
            round(draw.uniform(0.5, 1.0) if is_mentioned else draw.uniform(0.0, 0.49), 3) for is_mentioned in mentioned
        ]
        comment = f'Row {i}: "{" ".join(words)}",\nsaid one.'
        table.append((i, 10_000 + i, comment, split, "2016-01-01", *shares, float(max(shares) >= 0.5), toxicity))
    write_csv(folder / "all_data_with_identities.csv", table)
    return folder
