"""Every figure on the page of an audit is computed again from the files next to it and from the data."""

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
from .conftest import SHIFTED_FRAME, TRAINING_FRAME, fill_sheet

#: The name of tables of what bias-conflicting rows have in common.
COMMON = "What bias-conflicting rows have in common"

#: A number in the content of a row.
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class AuditFigures:
    """An audit as another program reads it: ``rows.csv``, and of ``audit.json`` what stands in no table."""

    def __init__(self, evaluated: Audit) -> None:
        self.page = evaluated.path / "report.html"
        self.content = json.loads((evaluated.path / "audit.json").read_text())
        rows = unescape_spreadsheet_texts(pd.read_csv(evaluated.path / "rows.csv", dtype=object))
        rows["content"] = pd.read_parquet(evaluated.path / "rows.parquet").get("content", pd.Series(dtype=object))
        rows = rows.assign(**{name: rows[name].astype(str).eq("True") for name in ("conflicting", "sure")})
        self.rows = rows.assign(row=rows["row"].astype(int), score=rows["score"].astype(float))
        self.train = self.rows[self.rows["split"] == "train"]
        self.held_out = self.rows[self.rows["network_label"].notna()]
        self.conflicting = self.train[self.train["conflicting"]]
        self.classifiers = [kind for kind in ("network", "fixed") if f"{kind}_label" in self.rows]

    def is_right(self, classifier: str) -> pd.Series[bool]:
        return self.held_out[f"{classifier}_label"] == self.held_out["label"]

    def expect_figures(self, shortcuts: int = 1) -> list[ExpectedFigures]:
        """The figures of every page; ``shortcuts`` were named."""
        content = self.content
        table = read_page_tables(self.page)
        new = content["new_rows"]
        evidence = content["evidence"]
        training = content["training"]
        figures: list[ExpectedFigures] = [(f"Made by logit_correction {content['environment']['version']}", [])]
        figures.append(("training rows, ", [len(self.train)]))
        figures.append((f"ERM: {content['network']['name']}, ", [training["epochs"], training["seed"]]))
        looks = [
            evidence_entry
            for evidence_entry in evidence["looks"]
            if evidence_entry["views"] == (evidence["leak"] or evidence["about"])
        ]
        if not new:
            figures += [figure for look in looks for figure in self._expect_sentence(look)]
        if content["cost"]:
            figures += self._expect_cost(shortcuts)
        if len(self.conflicting):
            figures += self._expect_conflicting()
        shown_evidence = sorted(evidence["looks"], key=lambda evidence_entry: -(evidence_entry["ratio"] or 0))[:12]
        for evidence_entry, row in zip(shown_evidence, table.get("What each view predicts", []), strict=True):
            share = [
                100 * (evidence_entry[key] or 0)
                for key in ("accuracy", "network_accuracy", "follows_view", "follows_label")
            ]
            conflict_figures = (
                [*share[2:], evidence_entry["rows"], 100 * evidence_entry["share"]] if evidence_entry["rows"] else []
            )
            numbers = [*share[:2], evidence_entry["ratio"], max(0, evidence_entry["information"]), *conflict_figures]
            figures.append((f"What each view predicts: {row[0]} |", numbers))
        return figures

    def _expect_sentence(self, view_evidence: dict[str, Any]) -> list[ExpectedFigures]:
        rows = self.held_out
        majority_share = rows["label"].value_counts(normalize=True).max()
        view_accuracy = (
            (rows["view_label"] == rows["label"]).mean()
            if rows["view_label"].notna().any()
            else view_evidence["accuracy"]
        )
        figures: list[ExpectedFigures] = [
            ("alone predict", [100 * view_accuracy, 100 * self.is_right("network").mean(), 100 * majority_share])
        ]
        if view_evidence["rows"] and "clearly point" in read_page_text(self.page):
            sure = rows[rows["sure"]]
            numbers = [
                view_evidence["rows"],
                *(round(view_evidence["rows"] * view_evidence[f"follows_{column}"]) for column in ("view", "label")),
            ]
            if len(sure):
                numbers = [
                    len(sure),
                    *((sure["network_label"] == sure[column]).sum() for column in ("view_label", "label")),
                ]
            figures.append(("On the ", numbers))
            valid = self.content["data"]["rows"]["valid"]
            if "you have about" in read_page_text(self.page):
                figures.append(("you have about", [30, len(sure) / len(rows) * valid]))
        return figures

    def _expect_cost(self, shortcuts: int) -> list[ExpectedFigures]:
        is_conflicting = self.held_out["conflicting"]
        numbers = dict[str, list[float]]()
        names = {
            "Data like": is_conflicting | True,
            f"{is_conflicting.sum():,} bias-conflicting": is_conflicting,
            f"{(~is_conflicting).sum():,} bias-aligned": ~is_conflicting,
        }
        share = 1 / self.rows["label"].nunique() ** shortcuts  # where look and label are independent so many rows agree
        for classifier in self.classifiers:
            all_rows, conflicting, agreeing = (
                compute_interval(self.is_right(classifier)[mask]) for mask in names.values()
            )
            for name, estimate in zip(names, (all_rows, conflicting, agreeing), strict=True):
                numbers.setdefault(name, []).extend(estimate)
            value = share * agreeing[0] + (1 - share) * conflicting[0]
            parts = (agreeing, share), (conflicting, 1 - share)
            distances = [
                math.hypot(*(part * (estimate[end] - estimate[0]) for estimate, part in parts)) for end in (1, 2)
            ]
            numbers.setdefault("Balanced", []).extend(
                [value, max(0, value - distances[0]), min(100, value + distances[1])]
            )
        if "A trial does not confirm it" in read_page_text(self.page):
            numbers["With LC"] = [numbers[name][place] for name in ("Balanced", "Data like") for place in (0, 3)]
        return [*numbers.items()]

    def _expect_conflicting(self) -> list[ExpectedFigures]:
        conflicting_rows = self.conflicting
        content = self.content
        table = read_page_tables(self.page)
        assert (conflicting_rows["label"] != conflicting_rows["attribute"]).all()
        figures: list[ExpectedFigures] = [("training rows are estimated", [len(conflicting_rows), len(self.train)])]
        sure = self.held_out["sure"].sum()
        if sure not in (0, len(conflicting_rows)) and not content["new_rows"]:
            figures.append(("held-out row", [sure]))
        sizes = conflicting_rows.groupby(["label", "attribute"]).size()
        pairs = table["Labels that look like another"]
        assert sorted(int(pair[2].replace(",", "")) for pair in pairs) == sorted(sizes.nlargest(8).tolist())
        figures += [("more pairs of labels", [len(sizes) - 8])] * (len(sizes) > 8)
        for label, attribute, *_ in pairs:
            cell = self.held_out[(self.held_out["label"] == label) & (self.held_out["attribute"] == attribute)]
            shares = [
                100 * (cell[f"{classifier}_label"] == label).mean()
                for classifier in self.classifiers
                if content["cost"] and len(cell)
            ]
            name = f"Labels that look like another: {label} | {attribute} |"
            figures.append((name, [sizes[label, attribute], *shares]))
        shown_rows = conflicting_rows.sort_values("score", ascending=False, kind="stable")[:60]
        figures.append(("rows by score", [len(shown_rows)]))
        for row in shown_rows.to_dict("records"):
            name = row.get("path") or (f"line {row['line']}" if "line" in row else f"row {row['row']}")
            row_content = row["content"] if isinstance(row["content"], str) else row.get("name") or ""
            predicted_labels = [
                row[f"{classifier}_label"] if isinstance(row[f"{classifier}_label"], str) else "–"
                for classifier in self.classifiers
            ]
            cells = [
                " ".join(f"{name} {row_content}".split()),
                row["label"],
                row["attribute"],
                f"{row['score']:.2f}",
                *predicted_labels,
            ]
            figures.append((f"Bias-conflicting rows: {' | '.join(cells)}", []))
        return figures


def expect_column_figures(frame: pd.DataFrame, names: Sequence[str], label: str) -> list[ExpectedFigures]:
    """The tables of columns of names: the commonest label of each name, and how many rows have it and another."""
    figures = list[ExpectedFigures]()
    for name in names:
        for value, label_counts in frame.groupby(name)[label].value_counts().groupby(level=0):
            figures.append(
                (
                    f"What predicts the label: {value} | {label_counts.index[0][1]} |",
                    [label_counts.iloc[0], label_counts.iloc[1:].sum()],
                )
            )
    return figures


def find_rows_that_meet(frame: pd.DataFrame, condition: str) -> pd.Series[bool]:
    """Which rows meet a condition such as ``site = north or south and age > 40``."""
    is_met = pd.Series(True, frame.index)
    for step in condition.split(" and "):
        column, sign, value = re.fullmatch(r"(.*) (=|≠|>|≤) (.*)", step).groups()  # type: ignore[union-attr]
        values = frame[column]
        if sign in "=≠":
            is_met &= values.astype(str).isin(value.split(" or ")) == (sign == "=")
        else:
            is_met &= (values > float(value)) == (sign == ">")
    return is_met


def expect_condition_figures(
    conflicts: Sequence[Any], frame: pd.DataFrame, label: str, conflicting: np.ndarray
) -> list[ExpectedFigures]:
    """The tables of what rows have in common that conflict (N,) bool, by the data of N training rows."""
    figures = list[ExpectedFigures]()
    for row in [row for contrast in conflicts for row in contrast["rows"]]:
        has_label = (frame[label] == row["label"]).to_numpy()
        is_met = find_rows_that_meet(frame, row["value"]).to_numpy()
        shares = [100 * is_met[has_label & (conflicting == side)].mean() for side in (True, False)]
        assert shares[0] > shares[1]
        figures.append((f"{COMMON}: {row['label']} | {row['looks_like']} | {row['value']} |", shares))
    return figures


def test_page_figures_of_a_table_with_lc_trained(formula_audit: Audit) -> None:
    figures = AuditFigures(formula_audit)
    assert "fixed" in figures.classifiers
    data = pd.read_csv(formula_audit.path.parent / "rows.csv").iloc[figures.train["row"]]
    common = expect_condition_figures(
        figures.content["conflicts"], data, "label", figures.train["conflicting"].to_numpy()
    )
    assert len(common) == 2
    check_figures(figures.page, figures.expect_figures() + expect_column_figures(data, ["scanner"], "label") + common)
    conflicting_data = data.set_index(figures.train["row"]).loc[figures.conflicting["row"]]
    expected_content = "scanner " + conflicting_data["scanner"] + ", age " + conflicting_data["age"].map("{:g}".format)
    assert figures.conflicting["content"].tolist() == expected_content.tolist()


def test_page_figures_of_two_named_shortcuts(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    label = np.arange(900) % 2
    marks = {name: np.where(draw.random(900) < 0.1, 1 - label, label) for name in ("site", "form")}
    frame = pd.DataFrame({"y": np.where(label, "yes", "no"), "size": label + draw.normal(size=900), **marks})
    views = ["column:site", "column:form"]
    data = from_table(frame, label="y", folder=tmp_path)
    figures = AuditFigures(audit(data, tmp_path / "out", shortcut=views, try_fix=False, epochs=3, threads=1))
    train = frame.iloc[figures.train["row"]]
    common = expect_condition_figures(figures.content["conflicts"], train, "y", figures.train["conflicting"].to_numpy())
    assert len(common) == 4
    check_figures(
        figures.page, figures.expect_figures(shortcuts=2) + expect_column_figures(train, [*marks], "y") + common
    )


def test_page_figures_of_photos(tmp_path: Path) -> None:
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
    photo_audit = audit(tmp_path / "photos", tmp_path / "out", shortcut="colour", **options)  # type: ignore[arg-type]
    figures = AuditFigures(photo_audit)
    counts = figures.train.groupby("label")["conflicting"].agg(["sum", "size"])
    image_figures = [("Bias-conflicting,", [row["sum"]]) for _, row in counts.iterrows()]
    image_figures += [("Bias-aligned,", [row["size"] - row["sum"]]) for _, row in counts.iterrows()]
    check_figures(figures.page, figures.expect_figures() + image_figures)
    rows_by_label = {row["label"]: row for row in photo_audit.summary["contrasts"][0]["rows"]}
    for label, label_rows in figures.conflicting.groupby("label"):
        assert [shown_row["looks_like"] for shown_row in rows_by_label[label]["conflict"]] == label_rows["attribute"][
            :6
        ].tolist()
    images = sum(len(row[kind]) for row in rows_by_label.values() for kind in ("agree", "conflict"))
    assert figures.page.read_text().count("<img ") == images


def expect_new_rows_figures(answered_audit: Audit, truth: np.ndarray) -> list[ExpectedFigures]:
    """The figures of what new rows say, whose true labels (N,) are whole numbers, once answers are taken in."""
    rows = pd.read_parquet(answered_audit.path / "new_rows.parquet")
    summary = answered_audit.summary["new_rows"]
    candidates = summary["candidates"]
    predictions = rows[[f"prediction_{number}" for number in range(len(candidates))]].to_numpy().T
    answered = np.flatnonzero(rows["label_number"] >= 0)
    assert (rows["label_number"].to_numpy()[answered] == truth[answered]).all()
    assert summary["answers"] == len(answered) and summary["rows"] == len(rows)
    weight = 1 / rows["inclusion_probability_1"].to_numpy()[answered]
    gains = list[float]()
    figures: list[ExpectedFigures] = [("Usual rows are", [summary["usual_rows"]])]
    for number, candidate in enumerate(candidates):
        name = candidate["name"].replace("`", "")
        differs = predictions[number] != predictions[0]
        shares = [100 * differs.mean(), 100 * candidate["differs_usual"]] if number else []
        ends = binomtest(int(differs.sum()), len(rows)).proportion_ci(0.9, "wilson")
        assert not number or np.allclose([candidate["differs_new_low"], candidate["differs_new_high"]], [*ends])
        # Nothing is gained where both agree; elsewhere the answers count, and four prior rows of -0.05.
        answer_weight = weight * differs[answered]
        better = (predictions[number][answered] == truth[answered]).astype(float) - (
            predictions[0][answered] == truth[answered]
        )
        worth = answer_weight.sum() ** 2 / max((answer_weight**2).sum(), 1e-12)
        mean = (answer_weight * better).sum() / max(answer_weight.sum(), 1e-12)
        gains.append(float(differs.mean() * (worth * mean - 4 * 0.05) / (worth + 4)) if number else 0.0)
        gain = [100 * value for value in (gains[-1], candidate["gain_low"], candidate["gain_high"])] if number else []
        assert not number or candidate["gain_low"] < gains[-1] < candidate["gain_high"]
        probability_best = [] if candidate["probability_best"] is None else [100 * candidate["probability_best"]]
        figures.append(
            (
                f"Candidates: {name}{'' if candidate['views'] else ' ' + candidate['does']} |",
                [*shares, 100 * candidate["like_training"], *gain, *probability_best],
            )
        )
    figures += expect_answer_figures(answered_audit, predictions, truth, answered)
    best = int(np.argmax(gains))
    best_candidate = candidates[best]
    increases = [candidate["differs_new"] - candidate["differs_usual"] for candidate in candidates]
    most_changed = 1 + int(np.argmax(increases[1:]))
    assert summary["chosen"] == best_candidate["name"]
    figures.append(
        (
            "disagree on",
            [
                100 * (predictions[most_changed] != predictions[0]).mean(),
                len(rows),
                100 * candidates[most_changed]["differs_usual"],
                100 * summary["likely"],
            ],
        )
    )
    if best:
        assert summary["average"] is not None or summary["gain"] <= gains[best]  # which is corrected for the choice
        ends = [100 * summary[f"gain{end}"] for end in ("", "_low", "_high")]
        figures += [
            ("points on the new rows", ends[:1]),
            ("labelled new rows", [len(answered), *ends[:1], 90, *ends[1:]]),
        ]
        if summary["more"]:
            figures.append(("To be sure takes about", [summary["more"]]))
        if summary["average"] is not None:
            members = sorted(
                (-candidate["weight"], 100 * candidate["probability_best"])
                for candidate in candidates
                if candidate["weight"]
            )
            figures.append(("Likely to be the best", [probability for _, probability in members]))
            ends = [
                100 * summary["average"][classifier][end]
                for classifier in ("erm_accuracy", "accuracy")
                for end in ("accuracy", "low", "high")
            ]
            figures += [("On all new rows", ends)]
            if summary["average"]["is_unsure"] and candidates[0]["weight"]:
                figures.append(("As long as that is unsure", [100 * candidates[0]["weight"]]))
        accuracies = [100 * candidate["like_training"] for candidate in candidates if candidate["weight"]]
        ends = sorted({min(accuracies), max(accuracies)})
        figures.append(("On the validation rows ERM", [100 * candidates[0]["like_training"], *ends]))
    return figures


def expect_answer_figures(
    answered_audit: Audit, predictions: np.ndarray, truth: np.ndarray, answered: np.ndarray
) -> list[ExpectedFigures]:
    """The figures of the table of answered rows: what these hold, and on how many ERM and the advice are right."""
    rows = pd.read_parquet(answered_audit.path / "new_rows.parquet")
    summary = answered_audit.summary["new_rows"]
    figures: list[ExpectedFigures] = []
    for position in answered:
        content = rows["content"][position]
        figures.append(
            (f"Your answers: row {rows['row'][position]} ", [float(value) for value in NUMBER.findall(content)])
        )
    candidate_names = [value["name"] for value in summary["candidates"]]
    compared = predictions[candidate_names.index(summary["chosen"])]
    if summary["average"] is not None:
        weight = np.array([value["weight"] for value in summary["candidates"]])
        with np.load(answered_audit.path / "new_rows.npz") as archive:
            compared = np.tensordot(weight, archive["logits"], axes=1).argmax(axis=1)
    elif summary["chosen"] == "ERM":
        return [*figures, ("20 rows", [])]
    differs = (compared != predictions[0])[answered]
    erm, advice = ((predicted == truth)[answered] for predicted in (predictions[0], compared))
    numbers = [len(answered), erm.sum(), advice.sum(), differs.sum(), erm[differs].sum(), advice[differs].sum()]
    return [*figures, ("rows on which they agree", [(~differs).sum()]), ("answers, ERM is right on", numbers)]


@pytest.mark.parametrize("single", [False, True])
def test_page_figures_of_new_rows_and_answers(single: bool, shifted_audit: Audit, tmp_path: Path) -> None:
    answered_audit = Audit(shutil.copytree(shifted_audit.path, tmp_path / "copy"))
    answered_audit.answer(fill_sheet(answered_audit), single=single)
    figures = AuditFigures(answered_audit)
    truth = np.where(SHIFTED_FRAME["outcome"] == "ill", 0, 1)
    column_figures = expect_column_figures(TRAINING_FRAME.iloc[figures.train["row"]], ["scanner"], "outcome")
    expected = figures.expect_figures() + expect_new_rows_figures(answered_audit, truth) + column_figures
    train = TRAINING_FRAME.iloc[figures.train["row"]]
    majority_scanner = train.groupby("outcome")["scanner"].agg(lambda scanner: scanner.mode()[0])
    conflicting = (train["scanner"] != train["outcome"].map(majority_scanner)).to_numpy()
    condition_figures = expect_condition_figures(figures.content["conflicts"], train, "outcome", conflicting)
    assert len(condition_figures) == 2
    for candidate in answered_audit.summary["new_rows"]["candidates"]:
        if candidate["name"] == "LC by the column scanner":
            assert expect_condition_figures(candidate["contrasts"], train, "outcome", conflicting) == condition_figures
        elif (
            candidate["weight"] or candidate["name"] == answered_audit.summary["new_rows"]["chosen"]
        ):  # estimates that no file holds
            rows = [row for contrast in candidate["contrasts"] for row in contrast["rows"]]
            expected += [
                (f"{COMMON}: {row['label']} | {row['looks_like']} | {row['value']} |", shares)
                for row in rows
                for shares in [[100 * row["share"], 100 * row["other_share"]]]
            ]
            numbers = [float(number) for row in rows for number in NUMBER.findall(row["value"])]
            expected += [(f"{candidate['name']} corrects where", numbers)] * bool(numbers)
    check_figures(figures.page, expected + condition_figures)
