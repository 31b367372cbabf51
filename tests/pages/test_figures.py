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
    RunFigures,
    check_figures,
    compute_interval,
    list_page_tables,
    read_page_lines,
)
from .conftest import build_finding, build_view_evidence

#: Accuracies that a headline goes by, the first that is there.
HEADLINE_METRICS = ("Bias-conflicting", "Worst group", "Estimated bias-conflicting", "Worst label")


def differ_significantly(
    series: Mapping[str, Sequence[RunFigures]], figures: Mapping[str, list[dict[str, float]]], key: str
) -> bool:
    """Whether the two series differ in an accuracy by more than chance."""
    by_seed = [
        {run.seed: row[key] for run, row in zip(series[name], rows, strict=True)} for name, rows in figures.items()
    ]
    if min(map(len, by_seed)) > 1:
        paired = pd.DataFrame(by_seed).dropna(axis=1)
        return ttest_rel(*paired.to_numpy()).pvalue < 0.1
    ends = [compute_interval(runs[0].select_rows(key)) for runs in series.values()]
    (less, _, high), (more, low, _) = sorted(ends)
    return more - less > math.hypot(more - low, high - less)


def expect_comparison_figures(
    series: Mapping[str, Sequence[RunFigures]], counts: Groups | None = None
) -> list[ExpectedFigures]:
    """All figures of a comparison of runs, ERM first, or of runs of one method; see ``check_figures``."""
    several = any(len(runs) > 1 for runs in series.values())
    all_runs = [run for runs in series.values() for run in runs]
    figures = {name: [run.compute_metrics(counts or {}) for run in runs] for name, runs in series.items()}
    mean = {name: pd.DataFrame(runs).mean() for name, runs in figures.items()}
    key = next(name for name in HEADLINE_METRICS if all(name in metrics for metrics in mean.values()))
    expected: list[ExpectedFigures] = [(f"{key} accuracy", [metrics[key] for metrics in mean.values()])]
    other_metrics = [
        name for name in next(iter(mean.values())).index if all(name in metrics for metrics in mean.values())
    ]
    expected += [
        (f"{name} accuracy:", [metrics[name] for metrics in mean.values()])
        for name in other_metrics
        if name not in HEADLINE_METRICS
    ]
    if len(series) > 1:
        (_, first), (name, second) = mean.items()
        gain = {metric: second.round(1)[metric] - first.round(1)[metric] for metric in (key, "Average")}
        change_text = {metric: f"{name} {'gains' if gain[metric] > 0 else 'loses'}" for metric in gain}
        if key != "Worst label" and differ_significantly(series, figures, key):
            expected.append((change_text[key], [abs(gain[key])]))
        helps = key != "Worst label" and gain[key] > 0 and differ_significantly(series, figures, key)
        if gain["Average"] < 0 and differ_significantly(series, figures, "Average") and not helps:
            expected.append((f"On all test rows {change_text['Average']}", [-gain["Average"]]))
    label_share = 100 * all_runs[0].rows["label"].value_counts(normalize=True)
    if averages_below := [
        metrics["Average"] for metrics in mean.values() if metrics["Average"] < label_share.max() + 1e-9
    ]:
        expected.append((f"Always saying {label_share.idxmax()} is right", [label_share.max(), *averages_below]))
    if several:
        expected += [
            (f"Run: {name} mean of", [len(runs), *mean[name]]) for name, runs in series.items() if len(runs) > 1
        ]
    for name, runs in series.items():
        rule = {run.seed: run.report["selection"]["rule"].replace("_", " ") for run in runs}
        cells = [f"Run: {name} seed {run.seed}, {run.epochs} epochs, {rule[run.seed]}" for run in runs]
        expected += [(cell, list(metrics.values())) for cell, metrics in zip(cells, figures[name], strict=True)]
    gaps = [
        ("Bias-conflicting", "Bias-aligned"),
        ("Worst group", "Average"),
        ("Estimated bias-conflicting", "Estimated bias-aligned"),
    ]
    compared_metrics = next(
        (pair for pair in gaps if all(end in metrics for metrics in mean.values() for end in pair)), ()
    )
    expected += [
        ("%", sorted(metrics[end] for end in compared_metrics)) for metrics in mean.values() if compared_metrics
    ]
    return expected + _expect_group_figures(series, counts or {})


def _expect_group_figures(series: Mapping[str, Sequence[RunFigures]], counts: Groups) -> list[ExpectedFigures]:
    """The tables of groups: rows of the test, and of training where that is known, and accuracies with their ends."""
    expected = list[ExpectedFigures]()
    first = next(iter(series.values()))[0].rows
    for names in (("label", "attribute"), ("label", "seems"), ("label",)):
        if names[-1] not in first or (len(names) == 1 and "attribute" in first):
            continue
        for row_numbers in first.groupby([*names]).indices.values():  # the rows of a group
            group_rows = first.iloc[row_numbers]
            label = group_rows["label"].iloc[0]
            group_value = group_rows[names[-1]].iloc[0]
            numbers = [len(group_rows), counts.get((label, group_value))]
            for runs in series.values():
                intervals = [compute_interval(run.rows["right"].iloc[row_numbers]) for run in runs]
                share = [value[0] for value in intervals]
                numbers += intervals[0] if len(intervals) == 1 else [np.mean(share), min(share), max(share)]
            estimated_side = "conflicts" if group_value else "agrees"
            attribute = {"seems": estimated_side, "label": ""}.get(names[-1], group_value)
            is_conflicting = ("conflicts" in group_rows and group_rows["conflicts"].any()) or attribute == "conflicts"
            cell = " ".join(filter(None, (label, attribute, "*" if is_conflicting else "")))
            name = f"Accuracy per {'group' if attribute else 'label'}: {cell} |"
            expected.append((name, [value for value in numbers if value is not None]))
    return expected


def test_page_figures_of_two_methods_with_known_groups(tmp_path: Path) -> None:
    table = Digits(minority_ratio=0.1).build()
    draw = np.random.default_rng(0)
    rows = table.split["train"].numpy()
    label, true = (np.asarray(array[rows]) for array in (table.label, table.attribute))
    given_attribute = np.where(draw.random(len(rows)) < 0.05, draw.integers(0, 10, len(rows)), true)
    names = np.asarray(table.attribute_names)
    pd.DataFrame({"row": rows, "attribute": names[given_attribute]}).to_csv(tmp_path / "said.csv", index=False)
    method_with_file = {"name": "LC", "attributes": {"name": "Given", "file": str(tmp_path / "said.csv")}}
    series: dict[str, list[RunFigures]] = {"ERM": [], "LC": []}
    for name, method in (("ERM", "ERM"), ("LC", method_with_file)):
        for seed in (0, 1):
            data = {"name": "Digits", "minority_ratio": 0.1}
            out = tmp_path / f"{name}-{seed}"
            train(data, out, method=method, epochs=3, seed=seed, threads=1)
            series[name].append(RunFigures(out))
    folders = {name: [tmp_path / f"{name}-{seed}" for seed in (0, 1)] for name in series}
    counts = {(str(y), names[a]): int(((label == y) & (true == a)).sum()) for y in range(10) for a in range(10)}
    flagged = given_attribute != label
    truth = true != label
    caught = (flagged & truth).sum()
    figures_of_lc: list[ExpectedFigures] = [
        ("training rows", [flagged.sum(), len(rows), 100 * caught / truth.sum(), 100 * caught / flagged.sum()])
    ]
    figures_of_lc += [(f"{y} estimated", []) for y in range(10)]
    figures_of_lc += [("Here the", [12, 100]), ("All", [100])]
    for shown_names in (["ERM", "LC"], ["LC"]):
        page = tmp_path / f"{len(shown_names)}.html"
        shown_series = {name: series[name] for name in shown_names}
        write_report_page([folder for name in shown_names for folder in folders[name]], page)
        check_figures(page, expect_comparison_figures(shown_series, counts) + figures_of_lc)
        (_, worst_groups), (_, all_groups) = [
            array for array in list_page_tables(page) if array[0] == "Accuracy per group"
        ]
        mean = {row[0]: sum(float(cell.split()[0]) for cell in row[2:]) for row in all_groups}
        others = [mean[row[0]] for row in all_groups if row not in worst_groups]
        assert len(worst_groups) == 12 and max(mean[row[0]] for row in worst_groups) <= min(others) + len(
            shown_names
        )  # they are rounded
        for name, points in zip(shown_names, re.findall(r'<polyline points="(.*?) ?"', page.read_text()), strict=True):
            drawn_points = [float(point.split(",")[1]) for point in points.split()]
            assert drawn_points == pytest.approx([116 - 108 * value for value in series[name][0].curve], abs=0.06)
    single = folders["LC"][0] / "report.html"
    check_figures(single, expect_comparison_figures({"LC": series["LC"][:1]}, counts) + figures_of_lc)
    text = single.read_text()
    for original, replacement in (
        ("training rows", "training rows, 3 of them"),
        ("recall ", "recall 1"),
        ("</h1>", " 7</h1>"),
    ):
        assert original in text
        single.write_text(text.replace(original, replacement, 1))
        with pytest.raises(AssertionError, match="has the figures"):
            check_figures(single, expect_comparison_figures({"LC": series["LC"][:1]}, counts) + figures_of_lc)


def test_page_figures_of_a_table_with_and_without_attributes(tmp_path: Path) -> None:
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
    data_options = {"name": "Table", "file": str(tmp_path / "rows.csv"), "label": "outcome", "split": "part"}
    training_frame = frame[frame["part"] == "train"]
    gap_figures: list[ExpectedFigures] = [("columns with missing values", [frame["age"].isna().sum(), 900])]

    def train_and_read(name: str, method: str, epochs: int, **more: Any) -> RunFigures:
        train(
            data_options | more,
            tmp_path / name,
            method=method,
            epochs=epochs,
            threads=1,
            **{"shortcut": "column:site"} if method == "LC" else {},
        )
        return RunFigures(tmp_path / name)

    erm = train_and_read("ERM", "ERM", 5)
    lc = train_and_read("LC", "LC", 5)
    conflicts = (frame["site"] == "north") != (frame["outcome"] == "ill")
    assert (lc.rows["seems"].to_numpy() == conflicts[frame["part"] == "test"]).all()  # a named column tells it exactly
    check_figures(tmp_path / "ERM" / "report.html", expect_comparison_figures({"ERM": [erm]}) + gap_figures)
    flagged = training_frame[conflicts[training_frame.index]]
    figures_of_lc: list[ExpectedFigures] = [("training rows", [len(flagged), len(training_frame)])]
    example_values = zip(flagged["blood"], flagged["age"], flagged["site"], strict=True)
    figures_of_lc += [
        (f"blood {blood:g}, site {place}", [] if np.isnan(age) else [age]) for blood, age, place in example_values
    ]
    assert len(flagged) > 24
    page = tmp_path / "LC" / "report.html"
    shown_examples = [figure for figure in figures_of_lc if any(figure[0] in line for line in read_page_lines(page))]
    assert len(shown_examples) == 25  # so many examples are shown
    check_figures(page, expect_comparison_figures({"LC": [lc]}) + shown_examples + gap_figures)
    write_report_page([tmp_path / "ERM", tmp_path / "LC"], tmp_path / "both.html")
    erm.rows["seems"] = lc.rows["seems"]
    check_figures(
        tmp_path / "both.html", expect_comparison_figures({"ERM": [erm], "LC": [lc]}) + shown_examples + gap_figures
    )
    run_with_attributes = train_and_read("named", "ERM", 5, attribute="site", features=["blood", "age"])
    pairs = training_frame.groupby(["outcome", "site"]).size().to_dict()
    check_figures(
        tmp_path / "named" / "report.html",
        expect_comparison_figures({"ERM": [run_with_attributes]}, pairs) + gap_figures,
    )


def test_page_figures_of_a_search(make_birds_run: Callable[..., Path], tmp_path: Path) -> None:
    view_evidence = [
        replace(build_view_evidence("border", 0.5), rows=1234, share=0.25),
        build_view_evidence("colour", 0.99),
    ]
    evidence = finding_to_dict(build_finding("cannot tell", ["colour"], *view_evidence, majority_share=0.52))
    minority = {"estimated_minority": {"count": 7, "recall": None, "precision": None, "examples": []}}
    run = make_birds_run(tmp_path / "LC", "LC", evidence=evidence, attribute_names=None, estimated=True, **minority)
    expected = [*expect_comparison_figures({"LC": [RunFigures(run)]}), ("training rows", [7, 9])]
    for evidence_entry in evidence["looks"]:
        share = [
            100 * evidence_entry[name]
            for name in ("accuracy", "network_accuracy", "follows_view", "follows_label", "share")
        ]
        numbers = [
            *share[:2],
            evidence_entry["ratio"],
            evidence_entry["information"],
            *share[2:4],
            evidence_entry["rows"],
            share[4],
        ]
        expected.append((f"What each view predicts: {evidence_entry['views'][0]} ", numbers))
    colour_evidence = next(
        evidence_entry for evidence_entry in evidence["looks"] if evidence_entry["views"] == ["colour"]
    )
    expected.append(
        ("Colour alone", [100 * colour_evidence["accuracy"], 100 * colour_evidence["network_accuracy"], 52])
    )
    expected.append(
        (
            "where it clearly points",
            [
                colour_evidence["rows"],
                *(
                    round(colour_evidence["rows"] * colour_evidence[f"follows_{evidence_entry}"])
                    for evidence_entry in ("view", "label")
                ),
            ],
        )
    )
    write_report_page([run], tmp_path / "page.html")
    check_figures(tmp_path / "page.html", expected)
