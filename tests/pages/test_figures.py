"""Every figure that the page of runs says, computed anew from the files of their folders, and no other figure there."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from logit_correction import train
from logit_correction.data.digits import Digits
from logit_correction.finding_text import finding_to_dict
from logit_correction.pages.page import write_report_page

from ..page_reading import (
    ExpectedFigures,
    Groups,
    Run,
    check_figures,
    compute_interval,
    list_page_tables,
    read_page_lines,
)
from .conftest import found, look

#: Accuracies that a headline goes by, the first that is there.
JUDGED_BY = ("Bias-conflicting", "Worst group", "Estimated bias-conflicting", "Worst label")


def ahead(series: Mapping[str, Sequence[Run]], figures: Mapping[str, list[dict[str, float]]], key: str) -> bool:
    """Whether the two series differ in an accuracy by more than chance."""
    by_seed = [
        {run.seed: row[key] for run, row in zip(series[name], rows, strict=True)} for name, rows in figures.items()
    ]
    if min(map(len, by_seed)) > 1:
        paired = pd.DataFrame(by_seed).dropna(axis=1)
        return ttest_rel(*paired.to_numpy()).pvalue < 0.1
    ends = [compute_interval(runs[0].judged(key)) for runs in series.values()]
    (less, _, high), (more, low, _) = sorted(ends)
    return more - less > math.hypot(more - low, high - less)


def known_of(series: Mapping[str, Sequence[Run]], counts: Groups | None = None) -> list[ExpectedFigures]:
    """All figures of a comparison of runs, ERM first, or of runs of one method; see ``check_figures``."""
    several = any(len(runs) > 1 for runs in series.values())
    every = [run for runs in series.values() for run in runs]
    figures = {name: [run.figures(counts or {}) for run in runs] for name, runs in series.items()}
    mean = {name: pd.DataFrame(runs).mean() for name, runs in figures.items()}
    key = next(name for name in JUDGED_BY if all(name in one for one in mean.values()))
    known: list[ExpectedFigures] = [(f"{key} accuracy", [one[key] for one in mean.values()])]
    rest = [name for name in next(iter(mean.values())).index if all(name in one for one in mean.values())]
    known += [(f"{name} accuracy:", [one[name] for one in mean.values()]) for name in rest if name not in JUDGED_BY]
    if len(series) > 1:
        (_, first), (name, second) = mean.items()
        gain = {one: second.round(1)[one] - first.round(1)[one] for one in (key, "Average")}
        told = {one: f"{name} {'gains' if gain[one] > 0 else 'loses'}" for one in gain}
        if key != "Worst label" and ahead(series, figures, key):
            known.append((told[key], [abs(gain[key])]))
        helps = key != "Worst label" and gain[key] > 0 and ahead(series, figures, key)
        if gain["Average"] < 0 and ahead(series, figures, "Average") and not helps:
            known.append((f"On all test rows {told['Average']}", [-gain["Average"]]))
    most = 100 * every[0].rows["label"].value_counts(normalize=True)
    if below := [one["Average"] for one in mean.values() if one["Average"] < most.max() + 1e-9]:
        known.append((f"Always saying {most.idxmax()} is right", [most.max(), *below]))
    if several:
        known += [(f"Run: {name} mean of", [len(runs), *mean[name]]) for name, runs in series.items() if len(runs) > 1]
    for name, runs in series.items():
        rule = {run.seed: run.report["selection"]["rule"].replace("_", " ") for run in runs}
        cells = [f"Run: {name} seed {run.seed}, {run.epochs} epochs, {rule[run.seed]}" for run in runs]
        known += [(cell, list(one.values())) for cell, one in zip(cells, figures[name], strict=True)]
    gaps = [
        ("Bias-conflicting", "Bias-aligned"),
        ("Worst group", "Average"),
        ("Estimated bias-conflicting", "Estimated bias-aligned"),
    ]
    gap = next((pair for pair in gaps if all(end in one for one in mean.values() for end in pair)), ())
    known += [("%", sorted(one[end] for end in gap)) for one in mean.values() if gap]
    return known + _groups(series, counts or {})


def _groups(series: Mapping[str, Sequence[Run]], counts: Groups) -> list[ExpectedFigures]:
    """The tables of groups: rows of the test, and of training where that is known, and accuracies with their ends."""
    known = list[ExpectedFigures]()
    first = next(iter(series.values()))[0].rows
    for names in (("label", "attribute"), ("label", "seems"), ("label",)):
        if names[-1] not in first or (len(names) == 1 and "attribute" in first):
            continue
        for number in first.groupby([*names]).indices.values():  # the rows of a group
            own = first.iloc[number]
            label = own["label"].iloc[0]
            other = own[names[-1]].iloc[0]
            told = [len(own), counts.get((label, other))]
            for runs in series.values():
                each = [compute_interval(run.rows["right"].iloc[number]) for run in runs]
                share = [one[0] for one in each]
                told += each[0] if len(each) == 1 else [np.mean(share), min(share), max(share)]
            seems = "conflicts" if other else "agrees"
            attribute = {"seems": seems, "label": ""}.get(names[-1], other)
            starred = ("conflicts" in own and own["conflicts"].any()) or attribute == "conflicts"
            cell = " ".join(filter(None, (label, attribute, "*" if starred else "")))
            name = f"Accuracy per {'group' if attribute else 'label'}: {cell} |"
            known.append((name, [one for one in told if one is not None]))
    return known


def test_seeds_of_two_methods_on_named_groups(tmp_path: Path) -> None:
    table = Digits(minority_ratio=0.1).build()
    draw = np.random.default_rng(0)
    rows = table.split["train"].numpy()
    label, true = (np.asarray(one[rows]) for one in (table.label, table.attribute))
    said = np.where(draw.random(len(rows)) < 0.05, draw.integers(0, 10, len(rows)), true)
    names = np.asarray(table.attribute_names)
    pd.DataFrame({"row": rows, "attribute": names[said]}).to_csv(tmp_path / "said.csv", index=False)
    by = {"name": "LC", "attributes": {"name": "Given", "file": str(tmp_path / "said.csv")}}
    series: dict[str, list[Run]] = {"ERM": [], "LC": []}
    for name, method in (("ERM", "ERM"), ("LC", by)):
        for seed in (0, 1):
            data = {"name": "Digits", "minority_ratio": 0.1}
            out = tmp_path / f"{name}-{seed}"
            train(data, out, method=method, epochs=3, seed=seed, threads=1)
            series[name].append(Run(out))
    folders = {name: [tmp_path / f"{name}-{seed}" for seed in (0, 1)] for name in series}
    counts = {(str(y), names[a]): int(((label == y) & (true == a)).sum()) for y in range(10) for a in range(10)}
    flagged = said != label
    truth = true != label
    caught = (flagged & truth).sum()
    of_lc: list[ExpectedFigures] = [
        ("training rows", [flagged.sum(), len(rows), 100 * caught / truth.sum(), 100 * caught / flagged.sum()])
    ]
    of_lc += [(f"{y} estimated", []) for y in range(10)]
    of_lc += [("Here the", [12, 100]), ("All", [100])]
    for shown in (["ERM", "LC"], ["LC"]):
        page = tmp_path / f"{len(shown)}.html"
        own = {name: series[name] for name in shown}
        write_report_page([folder for name in shown for folder in folders[name]], page)
        check_figures(page, known_of(own, counts) + of_lc)
        (_, least), (_, every) = [one for one in list_page_tables(page) if one[0] == "Accuracy per group"]
        mean = {row[0]: sum(float(cell.split()[0]) for cell in row[2:]) for row in every}
        others = [mean[row[0]] for row in every if row not in least]
        assert len(least) == 12 and max(mean[row[0]] for row in least) <= min(others) + len(shown)  # they are rounded
        for name, points in zip(shown, re.findall(r'<polyline points="(.*?) ?"', page.read_text()), strict=True):
            drawn = [float(point.split(",")[1]) for point in points.split()]
            assert drawn == pytest.approx([116 - 108 * value for value in series[name][0].curve], abs=0.06)
    single = folders["LC"][0] / "report.html"
    check_figures(single, known_of({"LC": series["LC"][:1]}, counts) + of_lc)
    text = single.read_text()
    for right, wrong in (("training rows", "training rows, 3 of them"), ("recall ", "recall 1"), ("</h1>", " 7</h1>")):
        assert right in text
        single.write_text(text.replace(right, wrong, 1))
        with pytest.raises(AssertionError, match="has the figures"):
            check_figures(single, known_of({"LC": series["LC"][:1]}, counts) + of_lc)


def test_rows_of_a_table_named_or_not(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    label = np.arange(900) % 3 == 0
    site = np.where(draw.random(900) < 0.9, label, ~label)
    frame = pd.DataFrame(
        {"blood": (draw.normal(size=900) + 1.5 * label).round(3), "site": np.where(site, "north", "south")}
    )
    frame["age"] = draw.normal(50, 9, 900).round(1)
    frame.loc[draw.random(900) < 0.2, "age"] = np.nan
    frame["outcome"] = np.where(label, "ill", "well")
    frame["part"] = np.repeat(["train", "valid", "test"], [500, 150, 250])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    own = {"name": "Table", "file": str(tmp_path / "rows.csv"), "label": "outcome", "split": "part"}
    learnt = frame[frame["part"] == "train"]
    gaps: list[ExpectedFigures] = [("columns with missing values", [frame["age"].isna().sum(), 900])]

    def trained(name: str, method: str, epochs: int, **more: Any) -> Run:
        train(
            own | more,
            tmp_path / name,
            method=method,
            epochs=epochs,
            threads=1,
            **{"shortcut": "column:site"} if method == "LC" else {},
        )
        return Run(tmp_path / name)

    erm = trained("ERM", "ERM", 5)
    lc = trained("LC", "LC", 5)
    conflicts = (frame["site"] == "north") != (frame["outcome"] == "ill")
    assert (lc.rows["seems"].to_numpy() == conflicts[frame["part"] == "test"]).all()  # a named column tells it exactly
    check_figures(tmp_path / "ERM" / "report.html", known_of({"ERM": [erm]}) + gaps)
    flagged = learnt[conflicts[learnt.index]]
    of_lc: list[ExpectedFigures] = [("training rows", [len(flagged), len(learnt)])]
    shown = zip(flagged["blood"], flagged["age"], flagged["site"], strict=True)
    of_lc += [(f"blood {blood:g}, site {place}", [] if np.isnan(age) else [age]) for blood, age, place in shown]
    assert len(flagged) > 24
    page = tmp_path / "LC" / "report.html"
    told = [one for one in of_lc if any(one[0] in line for line in read_page_lines(page))]
    assert len(told) == 25  # so many examples are shown
    check_figures(page, known_of({"LC": [lc]}) + told + gaps)
    write_report_page([tmp_path / "ERM", tmp_path / "LC"], tmp_path / "both.html")
    erm.rows["seems"] = lc.rows["seems"]
    check_figures(tmp_path / "both.html", known_of({"ERM": [erm], "LC": [lc]}) + told + gaps)
    named = trained("named", "ERM", 5, attribute="site", features=["blood", "age"])
    pairs = learnt.groupby(["outcome", "site"]).size().to_dict()
    check_figures(tmp_path / "named" / "report.html", known_of({"ERM": [named]}, pairs) + gaps)


def test_what_a_search_found(birds: Callable[..., Path], tmp_path: Path) -> None:
    looks = [replace(look("border", 0.5), rows=1234, share=0.25), look("colour", 0.99)]
    evidence = finding_to_dict(found("cannot tell", ["colour"], *looks, majority_share=0.52))
    seen = {"estimated_minority": {"count": 7, "recall": None, "precision": None, "examples": []}}
    run = birds(tmp_path / "LC", "LC", evidence=evidence, attribute_names=None, estimated=True, **seen)
    known = [*known_of({"LC": [Run(run)]}), ("training rows", [7, 9])]
    for one in evidence["looks"]:
        share = [100 * one[name] for name in ("accuracy", "network_accuracy", "follows_view", "follows_label", "share")]
        told = [*share[:2], one["ratio"], one["information"], *share[2:4], one["rows"], share[4]]
        known.append((f"What each view predicts: {one['views'][0]} ", told))
    own = next(one for one in evidence["looks"] if one["views"] == ["colour"])
    known.append(("Colour alone", [100 * own["accuracy"], 100 * own["network_accuracy"], 52]))
    known.append(
        (
            "where it clearly points",
            [own["rows"], *(round(own["rows"] * own[f"follows_{one}"]) for one in ("view", "label"))],
        )
    )
    write_report_page([run], tmp_path / "page.html")
    check_figures(tmp_path / "page.html", known)
