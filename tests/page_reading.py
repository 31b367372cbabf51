"""A page as a reader sees it, its sentences, tables and figures; and a run folder as another program reads it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from scipy.stats import binomtest

#: How a sentence or the row of a table begins, or words of it, and all its other figures.
ExpectedFigures = tuple[str, Sequence[float]]

#: Label and attribute -> training rows.
Groups = Mapping[tuple[str, str], int]

#: What stands on pages whatever the data are.
FIGURES_ON_EVERY_PAGE: list[ExpectedFigures] = [
    ("Bands", [90]),
    ("small figures are", [90]),
    ("One seed only", [3]),
    ("Information", [0, 1]),
]
FIGURES_ON_EVERY_PAGE += [
    ("A shortcut shows", [1]),
    ("Its gain is estimated from your answers", [90]),
    ("what is lost where an image is made small", [64]),
]


def _page(path: Path) -> str:
    text = path.read_text(encoding="utf-8").replace("\u00a0", " ")
    return re.sub(r"<(style|title|pre|svg)\b.*?</\1>", "", text, flags=re.DOTALL)


def _plain(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def read_page_text(path: Path) -> str:
    """The words of a page, without its marks."""
    return _plain(_page(path))


def list_page_tables(path: Path) -> list[tuple[str, list[list[str]]]]:
    """The tables of a page, cell by cell, with what they are called, or the head of their first column."""
    tables = []
    for name, body in re.findall(r'(?:aria-label="([^"]*)">)?<table.*?>(.*?)</table>', _page(path), re.DOTALL):
        rows = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL) for row in body.split("<tr")[1:]]
        plain = [[_plain(cell) for cell in row] for row in rows]
        tables.append((html.unescape(name) or plain[0][0], plain[1:] if "<thead>" in body else plain))
    return tables


def read_page_tables(path: Path) -> dict[str, list[list[str]]]:
    """The tables of a page by what they are called."""
    return dict(list_page_tables(path))


def read_page_lines(path: Path) -> list[str]:
    """The sentences of a page, and the rows of its tables with the table's name before them."""
    rows = [f"{name}: {' | '.join(row)}" for name, table in list_page_tables(path) for row in table]
    text = re.sub(r"<table.*?</table>", "", _page(path), flags=re.DOTALL)
    blocks = re.split(r"</?(?:p|div|h\d|li|ul|summary|figcaption|body|main)\b[^>]*>", text)
    return [one for block in blocks for one in re.split(r"(?<=[.;]) (?=[A-Z*])", _plain(block)) if one] + rows


def compute_interval(right: pd.Series) -> list[float]:
    """A share in per cent with the ends of Wilson's interval of 90 %."""
    ends = binomtest(int(right.sum()), len(right)).proportion_ci(0.9, "wilson")
    return [100 * float(end) for end in (right.mean(), *ends)]


def figure(right: pd.Series) -> str:
    """The same as tables show it."""
    share, low, high = compute_interval(right)
    return f"{share:.0f} {low:.0f}–{high:.0f}"


def check_figures(path: Path, known: Sequence[ExpectedFigures]) -> None:
    """Fail unless each line of a page that holds a figure is a known one with these figures, and all are there."""
    left = [*known]
    both = [*known, *FIGURES_ON_EVERY_PAGE]
    for line in dict.fromkeys(line for line in read_page_lines(path) if re.search(r"\d", line)):
        key = max((one for one, _ in both if one in line), key=lambda one: (line.startswith(one), len(one)), default="")
        told = re.findall(r"(?:(?<=[ (])[+-])?\d+(?:,\d{3})*(?:\.\d+)?", line.replace(key, "", 1))
        fitting = [one for one in both if one[0] == key and _says(told, one[1])]
        wanted = [numbers for one, numbers in both if one == key]
        assert fitting, f"{line!r} has the figures {told}, not {wanted or 'any that is known'}"
        left = [one for one in left if one not in fitting]
    assert not left, f"the page does not tell {left}"


def _says(told: Sequence[str], numbers: Sequence[float]) -> bool:
    """Whether these are the numbers, rounded as they are written."""
    if len(told) != len(numbers):
        return False
    ends = [0.5 * 10 ** -len(one.partition(".")[2]) + 1e-9 for one in told]
    return all(abs(float(one.replace(",", "")) - of) <= end for one, of, end in zip(told, numbers, ends, strict=True))


class Run:
    """A run folder as another program reads it."""

    def __init__(self, folder: Path) -> None:
        self.report = json.loads((folder / "report.json").read_text())
        table = pq.read_table(folder / "predictions.parquet")
        names = json.loads(table.schema.metadata[b"logit_correction"])
        frame = table.to_pandas()
        self.seed = self.report["seed"]
        self.estimate = names.get("estimate")
        label = frame["label"].to_numpy()
        logits = frame.filter(like="logit_").to_numpy()
        self.rows = pd.DataFrame({"label": np.take(names["label_names"], label), "right": logits.argmax(1) == label})
        if names["attribute_names"]:
            self.rows["attribute"] = np.take(names["attribute_names"], frame["attribute"])
            if own := self.report["data"]["correlation"]:
                self.rows["conflicts"] = [one not in own[y] for one, y in zip(frame["attribute"], label, strict=True)]
        elif self.estimate:
            of_label = self.estimate["table"]
            said = frame["estimated_attribute"]
            self.rows["seems"] = [one not in of_label[y] for one, y in zip(said, label, strict=True)]
        metrics = pd.read_csv(folder / "metrics.csv")
        last = metrics[metrics["stage"] == metrics["stage"].max()]
        self.epochs = int(metrics["epoch"].max())
        self.curve = last["valid_average"].groupby(last["epoch"]).mean().dropna()

    def of(self, *names: str) -> pd.Series[float]:
        return self.rows.groupby([*names])["right"].mean()

    def figures(self, counts: Groups) -> dict[str, float]:
        """The accuracies of the first table, in its order; ``counts`` are the training rows of each group."""
        right = self.rows["right"]
        found = {}
        for name, column in (("Bias-", "conflicts"), ("Estimated bias-", "seems")):
            if column in self.rows:
                found |= {f"{name}conflicting": right[self.rows[column]].mean()}
                found |= {f"{name}aligned": right[~self.rows[column]].mean()}
        if "attribute" in self.rows:
            group = self.of("label", "attribute")
            found |= {"Group-balanced": group.mean(), "Worst group": group.min(), "Average": right.mean()}
            weight = pd.Series(dict(counts)).reindex(group.index)
            found["Adjusted average"] = (group * weight).sum() / weight.sum()
        else:
            found |= {"Worst label": self.of("label").min(), "Average": right.mean()}
        return {name: 100 * float(value) for name, value in found.items()}

    def judged(self, key: str) -> pd.Series[bool]:
        """Whether the rows are right that an accuracy rests on."""
        if key == "Average":
            return self.rows["right"]
        column = "conflicts" if key.startswith("Bias") else "seems"
        names = ["label", "attribute"] if key == "Worst group" else ["label"]
        if key.endswith("conflicting"):
            return self.rows["right"][self.rows[column]]
        worst = self.rows.groupby(names)["right"].mean().idxmin()
        return self.rows.set_index(names)["right"].loc[worst]
