"""The sentences, tables and figures of a page, and the figures that another program computes from a run folder."""

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

#: Figures that stand on pages of any data.
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


def _read_html(path: Path) -> str:
    text = path.read_text(encoding="utf-8").replace("\u00a0", " ")
    return re.sub(r"<(style|title|pre|svg)\b.*?</\1>", "", text, flags=re.DOTALL)


def _strip_tags(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def read_page_text(path: Path) -> str:
    """The words of a page, without its marks."""
    return _strip_tags(_read_html(path))


def list_page_tables(path: Path) -> list[tuple[str, list[list[str]]]]:
    """The tables of a page, cell by cell, with what they are called, or the head of their first column."""
    tables = []
    for name, body in re.findall(r'(?:aria-label="([^"]*)">)?<table.*?>(.*?)</table>', _read_html(path), re.DOTALL):
        rows = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL) for row in body.split("<tr")[1:]]
        plain = [[_strip_tags(cell) for cell in row] for row in rows]
        tables.append((html.unescape(name) or plain[0][0], plain[1:] if "<thead>" in body else plain))
    return tables


def read_page_tables(path: Path) -> dict[str, list[list[str]]]:
    """The tables of a page by what they are called."""
    return dict(list_page_tables(path))


def read_page_lines(path: Path) -> list[str]:
    """The sentences of a page, and the rows of its tables with the table's name before them."""
    rows = [f"{name}: {' | '.join(row)}" for name, table in list_page_tables(path) for row in table]
    text = re.sub(r"<table.*?</table>", "", _read_html(path), flags=re.DOTALL)
    blocks = re.split(r"</?(?:p|div|h\d|li|ul|summary|figcaption|body|main)\b[^>]*>", text)
    sentences = [sentence for block in blocks for sentence in re.split(r"(?<=[.;]) (?=[A-Z*])", _strip_tags(block))]
    return [sentence for sentence in sentences if sentence] + rows


def compute_interval(right: pd.Series) -> list[float]:
    """A share in per cent with the ends of Wilson's interval of 90 %."""
    ends = binomtest(int(right.sum()), len(right)).proportion_ci(0.9, "wilson")
    return [100 * float(end) for end in (right.mean(), *ends)]


def check_figures(path: Path, expected: Sequence[ExpectedFigures]) -> None:
    """Fail unless each line of a page that holds a figure is an expected one with these figures, and all are there."""
    missing = [*expected]
    possible = [*expected, *FIGURES_ON_EVERY_PAGE]
    for line in dict.fromkeys(line for line in read_page_lines(path) if re.search(r"\d", line)):
        keys = [key for key, _ in possible if key in line]
        key = max(keys, key=lambda key: (line.startswith(key), len(key)), default="")
        figures = re.findall(r"(?:(?<=[ (])[+-])?\d+(?:,\d{3})*(?:\.\d+)?", line.replace(key, "", 1))
        candidates = [entry for entry in possible if entry[0] == key]
        matching = [entry for entry in candidates if _are_rounded(figures, entry[1])]
        wanted = [numbers for _, numbers in candidates] or "any that is expected"
        assert matching, f"{line!r} has the figures {figures}, not {wanted}"
        missing = [entry for entry in missing if entry not in matching]
    assert not missing, f"the page lacks {missing}"


def _are_rounded(figures: Sequence[str], numbers: Sequence[float]) -> bool:
    """Whether these are the numbers, rounded to the decimals that are written."""
    if len(figures) != len(numbers):
        return False
    for figure, number in zip(figures, numbers, strict=True):
        tolerance = 0.5 * 10 ** -len(figure.partition(".")[2]) + 1e-9
        if abs(float(figure.replace(",", "")) - number) > tolerance:
            return False
    return True


class RunFigures:
    """The figures of a run folder, computed from its files as another program would."""

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
            if majority := self.report["data"]["correlation"]:
                pairs = zip(label, frame["attribute"], strict=True)
                self.rows["conflicts"] = [attribute not in majority[y] for y, attribute in pairs]
        elif self.estimate:
            pairs = zip(label, frame["estimated_attribute"], strict=True)
            self.rows["seems"] = [attribute not in self.estimate["table"][y] for y, attribute in pairs]
        metrics = pd.read_csv(folder / "metrics.csv")
        last_stage = metrics[metrics["stage"] == metrics["stage"].max()]
        self.epochs = int(metrics["epoch"].max())
        self.curve = last_stage["valid_average"].groupby(last_stage["epoch"]).mean().dropna()

    def compute_accuracy_by(self, *names: str) -> pd.Series[float]:
        """Return the accuracy of each group of rows that share these columns."""
        return self.rows.groupby([*names])["right"].mean()

    def compute_metrics(self, counts: Groups) -> dict[str, float]:
        """The accuracies of the first table, in its order; ``counts`` are the training rows of each group."""
        right = self.rows["right"]
        metrics = {}
        for prefix, column in (("Bias-", "conflicts"), ("Estimated bias-", "seems")):
            if column in self.rows:
                metrics[f"{prefix}conflicting"] = right[self.rows[column]].mean()
                metrics[f"{prefix}aligned"] = right[~self.rows[column]].mean()
        if "attribute" in self.rows:
            group = self.compute_accuracy_by("label", "attribute")
            weight = pd.Series(dict(counts)).reindex(group.index)
            metrics["Group-balanced"] = group.mean()
            metrics["Worst group"] = group.min()
            metrics["Average"] = right.mean()
            metrics["Adjusted average"] = (group * weight).sum() / weight.sum()
        else:
            metrics["Worst label"] = self.compute_accuracy_by("label").min()
            metrics["Average"] = right.mean()
        return {name: 100 * float(value) for name, value in metrics.items()}

    def select_rows(self, metric: str) -> pd.Series[bool]:
        """Whether the rows are right on which a metric is computed."""
        if metric == "Average":
            return self.rows["right"]
        if metric.endswith("conflicting"):
            return self.rows["right"][self.rows["conflicts" if metric.startswith("Bias") else "seems"]]
        names = ["label", "attribute"] if metric == "Worst group" else ["label"]
        worst = self.compute_accuracy_by(*names).idxmin()
        return self.rows.set_index(names)["right"].loc[worst]
