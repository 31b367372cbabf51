from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from logit_correction.errors import InputError
from logit_correction.pages.comparison import compare, describe
from logit_correction.pages.folder import RunFolder

Make = Callable[..., Path]


def test_runs_that_differ_by_their_seed_alone_are_one_series(colored: Make, tmp_path: Path) -> None:
    runs = [RunFolder.read(colored(tmp_path / f"{m}{s}", m, seed=s)) for m in ("LC", "ERM") for s in (0, 1, 2)]
    (comparison,) = compare(runs)
    assert [(one.name, len(one.runs)) for one in comparison.series] == [
        ("ERM", 3),
        ("LC", 3),
    ]  # ERM comes first
    series = comparison.series[1]
    minority = [run.test["minority"] for run in runs[:3]]
    assert series.figure("minority") == pytest.approx(np.mean(minority))
    assert series.spread("minority") == (min(minority), max(minority))
    accuracies = np.array([run.groups["accuracy"] for run in runs[:3]])
    np.testing.assert_allclose(series.groups["accuracy"], accuracies.mean(0))
    np.testing.assert_allclose(series.groups["low"], accuracies.min(0))


def test_runs_of_one_method_are_named_by_their_differences(colored: Make, tmp_path: Path) -> None:
    options = [{"q": 0.7, "momentum": 0.9}, {"q": 0.8, "momentum": 0.9}]
    runs = [colored(tmp_path / f"{i}", "LC", method_options=options[i]) for i in (0, 1)]
    runs += [colored(tmp_path / "erm", "ERM")]
    (comparison,) = compare([RunFolder.read(run) for run in runs])
    assert [one.name for one in comparison.series] == ["ERM", "LC (q 0.7)", "LC (q 0.8)"]
    assert len({one.color for one in comparison.series}) == 3


def test_of_a_part_that_differs_the_name_is_told_and_what_runs_with_that_part_do_not_share(
    colored: Make, tmp_path: Path
) -> None:
    auto = {"name": "Auto", "shortcut": None, "views": None}
    parts = [auto, {"name": "Online", "q": 0.7, "pooling": 0}, {"name": "Online", "q": 0.8, "pooling": 0}, None]
    runs = [colored(tmp_path / f"{i}", "LC", method_options={"attributes": part}) for i, part in enumerate(parts)]
    (comparison,) = compare([RunFolder.read(run) for run in runs])
    assert [one.name for one in comparison.series] == [
        "LC (attributes Auto)",
        "LC (attributes Online with q 0.7)",
        "LC (attributes Online with q 0.8)",
        "LC (attributes –)",
    ]


def test_a_part_that_all_runs_have_is_not_named(colored: Make, tmp_path: Path) -> None:
    options = [{"attributes": {"name": "Online", "q": q, "epochs": None}, "epochs": 3} for q in (0.7, 0.8)]
    runs = [colored(tmp_path / f"{i}", "LC", method_options=one) for i, one in enumerate(options)]
    (comparison,) = compare([RunFolder.read(run) for run in runs])
    assert [one.name for one in comparison.series] == ["LC (attributes q 0.7)", "LC (attributes q 0.8)"]


def test_the_rule_of_the_checkpoint_names_a_run_only_where_nothing_else_does(colored: Make, tmp_path: Path) -> None:
    rules = ["valid_worst_group", "last"]
    made = [
        (rules[number], {"q": q}, tmp_path / f"{name}{number}")
        for name, qs in (("alike", (0.7, 0.7)), ("apart", (0.7, 0.8)))
        for number, q in enumerate(qs)
    ]
    runs = [
        RunFolder.read(colored(path, "LC", selection={"rule": rule, "labels_read": []}, method_options=options))
        for rule, options, path in made
    ]
    names = [[one.name for one in compare(pair)[0].series] for pair in (runs[:2], runs[2:])]
    assert names == [["LC (selection valid worst group)", "LC (selection last)"], ["LC (q 0.7)", "LC (q 0.8)"]]


def test_a_training_option_tells_runs_apart_but_the_device_does_not(colored: Make, tmp_path: Path) -> None:
    training = [{"learning_rate": 0.001, "device": "cpu"}, {"learning_rate": 0.001, "device": "cuda"}]
    training += [{"learning_rate": 0.01, "device": "cpu"}]
    runs = [RunFolder.read(colored(tmp_path / f"{i}", "LC", training=entry)) for i, entry in enumerate(training)]
    (comparison,) = compare(runs)
    assert [(one.name, len(one.runs)) for one in comparison.series] == [
        ("LC (learning rate 0.001)", 2),
        ("LC (learning rate 0.01)", 1),
    ]


def test_other_tasks_are_kept_apart(colored: Make, birds: Make, tmp_path: Path) -> None:
    folders = [colored(tmp_path / f"{r}", "LC", ratio=r) for r in (0.005, 0.05)] + [birds(tmp_path / "b", "ERM")]
    comparisons = compare([RunFolder.read(folder) for folder in folders])
    titles = [comparison.title for comparison in comparisons]
    assert titles[0].startswith("ColoredMNIST, minority ratio 0.005")
    assert titles[1].startswith("ColoredMNIST, minority ratio 0.05")
    assert titles[2].startswith("Waterbirds")
    assert describe(comparisons) == "LC and ERM on ColoredMNIST and Waterbirds"


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "{}", "null", "3", '"x"', "[" * 100_000, '{"method": NaN}'),
        *('{"method": "LC", "test": {"groups": 3}}', '{"test": {"groups": []}, "data": {}}'),
    ],
    ids=range(10),
)
def test_a_damaged_report_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(InputError, match=r"report\.json cannot be read"):
        RunFolder.read(tmp_path)


def test_a_folder_without_a_finished_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing is not a run folder"):
        RunFolder.read(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file is not a run folder"):
        RunFolder.read(tmp_path / "file")


def test_damaged_metrics_are_named_and_missing_ones_are_empty(birds: Make, tmp_path: Path) -> None:
    folder = birds(tmp_path / "run", "LC")
    (folder / "metrics.csv").write_text("a,b\n1,2,3\n4,5,6,7\n")
    with pytest.raises(InputError, match=r"metrics\.csv cannot be read"):
        RunFolder.read(folder)
    (folder / "metrics.csv").unlink()
    assert RunFolder.read(folder).metrics.empty
