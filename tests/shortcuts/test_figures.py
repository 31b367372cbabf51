"""Every figure that a page of an audit says, computed anew from the files beside the page and from the data."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.stats import binomtest

from logit_correction import Audit, audit, from_table
from logit_correction.spreadsheets import unescape_spreadsheet_texts

from ..page_reading import ExpectedFigures, check_figures, compute_interval, read_page_tables, read_page_text
from .conftest import CHANGED, OLD, filled

#: The name of tables of what bias-conflicting rows have in common.
COMMON = "What bias-conflicting rows have in common"

#: A number in the content of a row.
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Read:
    """An audit as another program reads it: ``rows.csv``, and of ``audit.json`` what stands in no table."""

    def __init__(self, found: Audit) -> None:
        self.page = found.path / "report.html"
        self.told = json.loads((found.path / "audit.json").read_text())
        rows = unescape_spreadsheet_texts(pd.read_csv(found.path / "rows.csv", dtype=object))
        rows["content"] = pd.read_parquet(found.path / "rows.parquet").get("content", pd.Series(dtype=object))
        rows = rows.assign(**{name: rows[name].astype(str).eq("True") for name in ("conflicting", "sure")})
        self.rows = rows.assign(row=rows["row"].astype(int), score=rows["score"].astype(float))
        self.train = self.rows[self.rows["split"] == "train"]
        self.judged = self.rows[self.rows["network_label"].notna()]
        self.conflicting = self.train[self.train["conflicting"]]
        self.who = [one for one in ("network", "fixed") if f"{one}_label" in self.rows]

    def right(self, who: str) -> pd.Series[bool]:
        return self.judged[f"{who}_label"] == self.judged["label"]

    def known(self, shortcuts: int = 1) -> list[ExpectedFigures]:
        """The figures of every page; ``shortcuts`` were named."""
        told = self.told
        table = read_page_tables(self.page)
        new = told["new_rows"]
        evidence = told["evidence"]
        training = told["training"]
        found: list[ExpectedFigures] = [(f"Made by logit_correction {told['environment']['version']}", [])]
        found.append(("training rows, ", [len(self.train)]))
        found.append((f"ERM: {told['network']['name']}, ", [training["epochs"], training["seed"]]))
        looks = [one for one in evidence["looks"] if one["views"] == (evidence["leak"] or evidence["about"])]
        if not new:
            found += [known for look in looks for known in self._sentence(look)]
        if told["cost"]:
            found += self._price(shortcuts)
        if len(self.conflicting):
            found += self._conflicting()
        shown = sorted(evidence["looks"], key=lambda one: -(one["ratio"] or 0))[:12]
        for one, row in zip(shown, table.get("What each view predicts", []), strict=True):
            share = [100 * (one[key] or 0) for key in ("accuracy", "network_accuracy", "follows_view", "follows_label")]
            told_of = [*share[2:], one["rows"], 100 * one["share"]] if one["rows"] else []
            numbers = [*share[:2], one["ratio"], max(0, one["information"]), *told_of]
            found.append((f"What each view predicts: {row[0]} |", numbers))
        return found

    def _sentence(self, look: dict[str, Any]) -> list[ExpectedFigures]:
        rows = self.judged
        most = rows["label"].value_counts(normalize=True).max()
        alone = (rows["view_label"] == rows["label"]).mean() if rows["view_label"].notna().any() else look["accuracy"]
        found: list[ExpectedFigures] = [
            ("alone predict", [100 * alone, 100 * self.right("network").mean(), 100 * most])
        ]
        if look["rows"] and "clearly point" in read_page_text(self.page):
            sure = rows[rows["sure"]]
            told = [look["rows"], *(round(look["rows"] * look[f"follows_{one}"]) for one in ("view", "label"))]
            if len(sure):
                told = [len(sure), *((sure["network_label"] == sure[one]).sum() for one in ("view_label", "label"))]
            found.append(("On the ", told))
            valid = self.told["data"]["rows"]["valid"]
            if "you have about" in read_page_text(self.page):
                found.append(("you have about", [30, len(sure) / len(rows) * valid]))
        return found

    def _price(self, shortcuts: int) -> list[ExpectedFigures]:
        few = self.judged["conflicting"]
        numbers = dict[str, list[float]]()
        names = {
            "Data like": few | True,
            f"{few.sum():,} bias-conflicting": few,
            f"{(~few).sum():,} bias-aligned": ~few,
        }
        share = 1 / self.rows["label"].nunique() ** shortcuts  # where look and label are independent so many rows agree
        for who in self.who:
            all_rows, conflicting, agreeing = (compute_interval(self.right(who)[own]) for own in names.values())
            for name, one in zip(names, (all_rows, conflicting, agreeing), strict=True):
                numbers.setdefault(name, []).extend(one)
            value = share * agreeing[0] + (1 - share) * conflicting[0]
            parts = (agreeing, share), (conflicting, 1 - share)
            off = [math.hypot(*(part * (one[end] - one[0]) for one, part in parts)) for end in (1, 2)]
            numbers.setdefault("Balanced", []).extend([value, max(0, value - off[0]), min(100, value + off[1])])
        if "A trial does not confirm it" in read_page_text(self.page):
            numbers["With LC"] = [numbers[name][place] for name in ("Balanced", "Data like") for place in (0, 3)]
        return [*numbers.items()]

    def _conflicting(self) -> list[ExpectedFigures]:
        own = self.conflicting
        told = self.told
        table = read_page_tables(self.page)
        assert (own["label"] != own["attribute"]).all()
        found: list[ExpectedFigures] = [("training rows are estimated", [len(own), len(self.train)])]
        sure = self.judged["sure"].sum()
        if sure not in (0, len(own)) and not told["new_rows"]:
            found.append(("held-out row", [sure]))
        sizes = own.groupby(["label", "attribute"]).size()
        pairs = table["Labels that look like another"]
        assert sorted(int(one[2].replace(",", "")) for one in pairs) == sorted(sizes.nlargest(8).tolist())
        found += [("more pairs of labels", [len(sizes) - 8])] * (len(sizes) > 8)
        for label, attribute, *_ in pairs:
            cell = self.judged[(self.judged["label"] == label) & (self.judged["attribute"] == attribute)]
            shares = [100 * (cell[f"{who}_label"] == label).mean() for who in self.who if told["cost"] and len(cell)]
            name = f"Labels that look like another: {label} | {attribute} |"
            found.append((name, [sizes[label, attribute], *shares]))
        shown = own.sort_values("score", ascending=False, kind="stable")[:60]
        found.append(("rows by score", [len(shown)]))
        for row in shown.to_dict("records"):
            name = row.get("path") or (f"line {row['line']}" if "line" in row else f"row {row['row']}")
            held = row["content"] if isinstance(row["content"], str) else row.get("name") or ""
            said = [row[f"{who}_label"] if isinstance(row[f"{who}_label"], str) else "–" for who in self.who]
            cells = [" ".join(f"{name} {held}".split()), row["label"], row["attribute"], f"{row['score']:.2f}", *said]
            found.append((f"Bias-conflicting rows: {' | '.join(cells)}", []))
        return found


def of_columns(frame: pd.DataFrame, names: Sequence[str], label: str) -> list[ExpectedFigures]:
    """The tables of columns of names: the commonest label of each name, and how many rows have it and another."""
    known = list[ExpectedFigures]()
    for name in names:
        for value, own in frame.groupby(name)[label].value_counts().groupby(level=0):
            known.append((f"What predicts the label: {value} | {own.index[0][1]} |", [own.iloc[0], own.iloc[1:].sum()]))
    return known


def meets(frame: pd.DataFrame, condition: str) -> pd.Series[bool]:
    """Which rows meet a condition such as ``site = north and age > 40``."""
    is_met = pd.Series(True, frame.index)
    for step in condition.split(" and "):
        column, sign, value = re.fullmatch(r"(.*) (=|≠|>|≤) (.*)", step).groups()  # type: ignore[union-attr]
        values = frame[column]
        if sign in "=≠":
            is_met &= values.astype(str).eq(value) == (sign == "=")
        else:
            is_met &= (values > float(value)) == (sign == ">")
    return is_met


def of_conditions(
    conflicts: Sequence[Any], frame: pd.DataFrame, label: str, conflicting: np.ndarray
) -> list[ExpectedFigures]:
    """The tables of what rows have in common that conflict (N,) bool, by the data of N training rows."""
    known = list[ExpectedFigures]()
    for row in [row for contrast in conflicts for row in contrast["rows"]]:
        of_label = (frame[label] == row["label"]).to_numpy()
        is_met = meets(frame, row["value"]).to_numpy()
        shares = [100 * is_met[of_label & (conflicting == side)].mean() for side in (True, False)]
        assert shares[0] > shares[1]
        known.append((f"{COMMON}: {row['label']} | {row['looks_like']} | {row['value']} |", shares))
    return known


def test_a_table_with_lc_tried(named: Audit) -> None:
    read = Read(named)
    assert "fixed" in read.who
    data = pd.read_csv(named.path.parent / "rows.csv").iloc[read.train["row"]]
    common = of_conditions(read.told["conflicts"], data, "label", read.train["conflicting"].to_numpy())
    assert len(common) == 2
    check_figures(read.page, read.known() + of_columns(data, ["scanner"], "label") + common)
    held = data.set_index(read.train["row"]).loc[read.conflicting["row"]]
    wanted = "scanner " + held["scanner"] + ", age " + held["age"].map("{:g}".format)
    assert read.conflicting["content"].tolist() == wanted.tolist()


def test_two_named_shortcuts(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    label = np.arange(900) % 2
    marks = {name: np.where(draw.random(900) < 0.1, 1 - label, label) for name in ("site", "form")}
    frame = pd.DataFrame({"y": np.where(label, "yes", "no"), "size": label + draw.normal(size=900), **marks})
    views = ["column:site", "column:form"]
    data = from_table(frame, label="y", folder=tmp_path)
    read = Read(audit(data, tmp_path / "out", shortcut=views, try_fix=False, epochs=3, threads=1))
    train = frame.iloc[read.train["row"]]
    common = of_conditions(read.told["conflicts"], train, "y", read.train["conflicting"].to_numpy())
    assert len(common) == 4
    check_figures(read.page, read.known(shortcuts=2) + of_columns(train, [*marks], "y") + common)


def test_photos(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for number in range(300):
        upright = number % 2 == 1
        red = upright == (draw.random() < 0.88)
        pixels = draw.normal(90, 30, (10, 10, 3))
        pixels[(slice(None), slice(4, 6)) if upright else slice(4, 6)] += 60
        pixels[..., 0 if red else 2] += 40
        file = tmp_path / "photos" / ("bar" if upright else "line") / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file)
    options = {"size": 10, "epochs": 2, "threads": 1, "try_fix": False}
    found = audit(tmp_path / "photos", tmp_path / "out", shortcut="colour", **options)  # type: ignore[arg-type]
    read = Read(found)
    counts = read.train.groupby("label")["conflicting"].agg(["sum", "size"])
    known = [("Bias-conflicting,", [row["sum"]]) for _, row in counts.iterrows()]
    known += [("Bias-aligned,", [row["size"] - row["sum"]]) for _, row in counts.iterrows()]
    check_figures(read.page, read.known() + known)
    shown = {row["label"]: row for row in found.summary["contrasts"][0]["rows"]}
    for label, own in read.conflicting.groupby("label"):
        assert [one["looks_like"] for one in shown[label]["conflict"]] == own["attribute"][:6].tolist()
    images = sum(len(row[kind]) for row in shown.values() for kind in ("agree", "conflict"))
    assert read.page.read_text().count("<img ") == images


def known_of_new_rows(found: Audit, truth: np.ndarray) -> list[ExpectedFigures]:
    """The figures of what new rows say, whose true labels (N,) are whole numbers, once answers are taken in."""
    rows = pd.read_parquet(found.path / "new_rows.parquet")
    told = found.summary["new_rows"]
    tried = told["candidates"]
    says = rows[[f"says_{number}" for number in range(len(tried))]].to_numpy().T
    answered = np.flatnonzero(rows["label_number"] >= 0)
    assert (rows["label_number"].to_numpy()[answered] == truth[answered]).all()
    assert told["answers"] == len(answered) and told["rows"] == len(rows)
    weight = 1 / rows["chance_1"].to_numpy()[answered]
    gains = list[float]()
    known: list[ExpectedFigures] = [("In-distribution rows are", [told["usual_rows"]])]
    for number, one in enumerate(tried):
        name = one["name"].replace("`", "")
        differs = says[number] != says[0]
        shares = [100 * differs.mean(), 100 * one["differs_usual"]] if number else []
        ends = binomtest(int(differs.sum()), len(rows)).proportion_ci(0.9, "wilson")
        assert not number or np.allclose([one["differs_new_low"], one["differs_new_high"]], [*ends])
        # Where both say the same nothing is gained; where they differ, what the answers say, and four rows of -0.05.
        own = weight * differs[answered]
        better = (says[number][answered] == truth[answered]).astype(float) - (says[0][answered] == truth[answered])
        worth = own.sum() ** 2 / max((own**2).sum(), 1e-12)
        mean = (own * better).sum() / max(own.sum(), 1e-12)
        gains.append(float(differs.mean() * (worth * mean - 4 * 0.05) / (worth + 4)) if number else 0.0)
        gain = [100 * value for value in (gains[-1], one["gain_low"], one["gain_high"])] if number else []
        assert not number or one["gain_low"] < gains[-1] < one["gain_high"]
        likely = [] if one["probability_best"] is None else [100 * one["probability_best"]]
        known.append(
            (
                f"Candidates: {name}{'' if one['views'] else ' ' + one['does']} |",
                [*shares, 100 * one["like_training"], *gain, *likely],
            )
        )
    known += known_of_answers(found, says, truth, answered)
    best = int(np.argmax(gains))
    chosen = tried[best]
    usual = tried[best]["differs_usual"]
    assert told["chosen"] == chosen["name"]
    known.append(("disagree on", [100 * (says[best] != says[0]).mean(), len(rows), 100 * usual, 100 * told["likely"]]))
    if best:
        assert told["average"] is not None or told["gain"] <= gains[best]  # which is corrected for the choice
        ends = [100 * told[f"gain{end}"] for end in ("", "_low", "_high")]
        known += [
            ("points on the new rows", ends[:1]),
            ("labelled new rows", [len(answered), *ends[:1], 90, *ends[1:]]),
        ]
        if told["more"]:
            known.append(("To be sure takes about", [told["more"]]))
        if told["average"] is not None:
            members = sorted((-one["weight"], 100 * one["probability_best"]) for one in tried if one["weight"])
            known.append(("Likely to be the best", [probability for _, probability in members]))
            ends = [
                100 * told["average"][who][end]
                for who in ("erm_accuracy", "accuracy")
                for end in ("accuracy", "low", "high")
            ]
            known += [("On all new rows", ends)]
        known.append(
            ("On the validation rows accuracy", [100 * tried[number]["like_training"] for number in (0, best)])
        )
    return known


def known_of_answers(found: Audit, says: np.ndarray, truth: np.ndarray, answered: np.ndarray) -> list[ExpectedFigures]:
    """The figures of the table of answered rows: what these hold, and on how many ERM and the advice are right."""
    rows = pd.read_parquet(found.path / "new_rows.parquet")
    told = found.summary["new_rows"]
    known: list[ExpectedFigures] = []
    for position in answered:
        content = rows["content"][position]
        known.append((f"Your answers: row {rows['row'][position]} ", [float(one) for one in NUMBER.findall(content)]))
    names = [one["name"] for one in told["candidates"]]
    compared = says[names.index(told["chosen"])]
    if told["average"] is not None:
        weight = np.array([one["weight"] for one in told["candidates"]])
        with np.load(found.path / "new_rows.npz") as archive:
            compared = np.tensordot(weight, archive["logits"], axes=1).argmax(axis=1)
    elif told["chosen"] == "ERM":
        return [*known, ("20 rows", [])]
    differs = (compared != says[0])[answered]
    erm, other = ((who == truth)[answered] for who in (says[0], compared))
    numbers = [erm[differs].sum(), len(answered), other[differs].sum(), erm[~differs].sum(), (~differs).sum()]
    return [*known, ("rows on which they agree", [(~differs).sum()]), ("disagree, ERM is right on", numbers)]


@pytest.mark.parametrize("single", [False, True])
def test_new_rows_and_answers(single: bool, changed: Audit, tmp_path: Path) -> None:
    found = Audit(shutil.copytree(changed.path, tmp_path / "copy"))
    found.answer(filled(found), single=single)
    read = Read(found)
    truth = np.where(CHANGED["outcome"] == "ill", 0, 1)
    of_data = of_columns(OLD.iloc[read.train["row"]], ["scanner"], "outcome")
    known = read.known() + known_of_new_rows(found, truth) + of_data
    train = OLD.iloc[read.train["row"]]
    usual = train.groupby("outcome")["scanner"].agg(lambda scanner: scanner.mode()[0])
    conflicting = (train["scanner"] != train["outcome"].map(usual)).to_numpy()
    exact = of_conditions(read.told["conflicts"], train, "outcome", conflicting)
    assert len(exact) == 2
    for one in found.summary["new_rows"]["candidates"]:
        if one["name"] == "LC by the column scanner":
            assert of_conditions(one["contrasts"], train, "outcome", conflicting) == exact
        elif one["weight"] or one["name"] == found.summary["new_rows"]["chosen"]:  # estimates that no file holds
            rows = [row for contrast in one["contrasts"] for row in contrast["rows"]]
            known += [
                (f"{COMMON}: {row['label']} | {row['looks_like']} | {row['value']} |", shares)
                for row in rows
                for shares in [[100 * row["share"], 100 * row["other_share"]]]
            ]
            numbers = [float(number) for row in rows for number in NUMBER.findall(row["value"])]
            known += [(f"{one['name']} corrects where", numbers)] * bool(numbers)
    check_figures(read.page, known + exact)
