"""Which runs belong together, and what a comparison concludes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from logit_correction.errors import NBSP, InputError
from logit_correction.evaluation import Predictions
from logit_correction.pages.compare import RunFolder, compare, sides, with_estimates

Make = Callable[..., Path]


def judged(folders: Sequence[Path]) -> tuple[str, list[str]]:
    (comparison,) = compare([RunFolder.read(folder) for folder in folders])
    headline, details = comparison.conclusion()
    return headline.replace(NBSP, " "), [text.replace(NBSP, " ") for text in details]


def share(folder: Path, key: str) -> float:
    return float(RunFolder.read(folder).test[key])


def test_runs_that_differ_by_their_seed_alone_are_one_series(colored: Make, tmp_path: Path) -> None:
    runs = [RunFolder.read(colored(tmp_path / f"{m}{s}", m, seed=s)) for m in ("LC", "ERM") for s in (0, 1, 2)]
    (comparison,) = compare(runs)
    assert [(one.name, len(one.runs)) for one in comparison.series] == [("ERM", 3), ("LC", 3)]  # ERM comes first
    series = comparison.series[1]
    assert series.figure("minority") == pytest.approx(np.mean([run.test["minority"] for run in runs[:3]]))
    accuracies = np.array([run.groups()["accuracy"] for run in runs[:3]])
    np.testing.assert_allclose(series.groups()["accuracy"], accuracies.mean(0))
    np.testing.assert_allclose(series.groups()["low"], accuracies.min(0))


AUTO, ONLINE = {"name": "Auto", "views": None}, {"name": "Online", "q": 0.7, "pooling": 0}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([{"q": 0.7, "momentum": 0.9}, {"q": 0.8, "momentum": 0.9}], ["LC (q 0.7)", "LC (q 0.8)"]),
        # Of a part that differs its name, and what runs with that part do not share.
        (
            [{"attributes": one} for one in (AUTO, ONLINE, ONLINE | {"q": 0.8}, None)],
            ["Auto", "Online with q 0.7", "Online with q 0.8", "–"],
        ),
        ([{"attributes": ONLINE}, {"attributes": ONLINE | {"q": 0.8}}], ["q 0.7", "q 0.8"]),
    ],
)
def test_runs_of_one_method_are_named_by_their_differences(
    colored: Make, tmp_path: Path, options: list[dict[str, object]], names: list[str]
) -> None:
    runs = [colored(tmp_path / f"{i}", "LC", method_options=one) for i, one in enumerate(options)]
    (comparison,) = compare([RunFolder.read(run) for run in runs])
    assert [one.name for one in comparison.series] == [n if "(" in n else f"LC (attributes {n})" for n in names]
    assert len({one.color for one in comparison.series}) == len(names)


def test_the_rule_and_the_training_name_a_run_and_the_device_does_not(colored: Make, tmp_path: Path) -> None:
    def names(*changes: dict[str, object]) -> list[str]:
        made = [colored(tmp_path / f"{len(list(tmp_path.iterdir()))}", "LC", **one) for one in changes]
        return [one.name for one in compare([RunFolder.read(run) for run in made])[0].series]

    rules = [{"selection": {"rule": rule, "labels_read": []}} for rule in ("valid_worst_group", "last")]
    assert names(*rules) == ["LC (selection valid worst group)", "LC (selection last)"]
    assert names(rules[0] | {"method_options": {"q": 0.7}}, rules[1] | {"method_options": {"q": 0.8}}) == [
        "LC (q 0.7)",
        "LC (q 0.8)",
    ]
    rates = [
        {"training": {"learning_rate": rate, "device": device}}
        for rate, device in ((1, "cpu"), (1, "cuda"), (2, "cpu"))
    ]
    assert names(*rates) == ["LC (learning rate 1)", "LC (learning rate 2)"]


def test_other_tasks_are_kept_apart(colored: Make, birds: Make, tmp_path: Path) -> None:
    folders = [colored(tmp_path / f"{r}", "LC", ratio=r) for r in (0.005, 0.05)] + [birds(tmp_path / "b", "ERM")]
    comparisons = compare([RunFolder.read(folder) for folder in folders])
    assert [one.title for one in comparisons] == [
        "ColoredMNIST, minority ratio 0.005, severity 4",
        "ColoredMNIST, minority ratio 0.05, severity 4",
        "Waterbirds, minority ratio –, severity –",
    ]


def told(runs: Sequence[Path], key: str) -> str:
    return " and ".join(f"{RunFolder.read(run).report['method']} {100 * share(run, key):.1f} %" for run in runs)


def test_lc_wins(colored: Make, tmp_path: Path) -> None:
    erm, lc = colored(tmp_path / "erm", "ERM"), colored(tmp_path / "lc", "LC")
    headline, details = judged([lc, erm])  # the order of the folders does not matter
    gain = 100 * (round(share(lc, "minority"), 3) - round(share(erm, "minority"), 3))
    assert headline == (
        f"On groups where the shortcut misleads: {told([erm, lc], 'minority')}. LC gains {gain:.1f} points against ERM."
    )
    assert f"Where the shortcut helps: {told([erm, lc], 'majority')}." in details
    assert any("One seed only" in text for text in details)


@pytest.mark.parametrize(
    ("skills", "said"),
    [
        ({"ERM": (0.9, 0.8), "LC": (0.9, 0.6)}, "LC loses "),
        ({"ERM": (0.9, 0.7), "LC": (0.9, 0.7)}, "The difference of LC and ERM is no more than chance."),
        ({"ERM": (0.98, 0.3), "JTT": (0.9, 0.5), "LC": (0.95, 0.8)}, " points against ERM."),
        ({"JTT": (0.9, 0.5), "LC": (0.95, 0.8)}, " points against JTT."),
        ({"ERM": (1.0, 1.0), "LC": (1.0, 1.0)}, "ERM 100.0 % and LC 100.0 %. The difference"),
        ({"LC": (0.95, 0.7)}, "On groups where the shortcut misleads: LC "),
    ],
)
def test_who_is_ahead(birds: Make, tmp_path: Path, skills: dict[str, tuple[float, float]], said: str) -> None:
    headline, details = judged([birds(tmp_path / name, name, skill=skill) for name, skill in skills.items()])
    assert said in headline
    assert ("No ERM was trained beside it to compare with." in details) == (len(skills) == 1)


def test_several_seeds_decide_by_their_ranges_and_tell_the_measured_spread(birds: Make, tmp_path: Path) -> None:
    def runs(name: str, method: str, shares: Sequence[float]) -> list[Path]:
        return [birds(tmp_path / f"{name}{i}", method, skill=(0.9, value), seed=i) for i, value in enumerate(shares)]

    erm = runs("erm", "ERM", [0.4, 0.5, 0.7])
    headline, details = judged([*erm, *runs("lc", "LC", [0.6, 0.8])])
    assert headline.endswith("is no more than chance.")
    values = [100 * share(run, "minority") for run in erm]
    spread = f"ERM 3 runs, {min(values):.1f} to {max(values):.1f} %; LC 2 runs, "
    assert any(text.startswith(f"Figures are means over seeds: {spread}") for text in details)
    assert " gains " in judged([*erm, *runs("better", "LC", [0.85, 0.9])])[0]


def test_without_a_correlation_the_worst_group_is_judged(birds: Make, tmp_path: Path) -> None:
    skills = {"ERM": (0.98, 0.3), "LC": (0.95, 0.8)}
    headline, _ = judged([birds(tmp_path / m, m, skill=skill, correlated=False) for m, skill in skills.items()])
    assert headline.startswith("On its worst group: ERM ") and " gains " in headline


def test_without_attributes_the_verdict_says_that_it_cannot_tell(birds: Make, tmp_path: Path) -> None:
    headline, _ = judged([birds(tmp_path / method, method, attribute_names=None) for method in ("ERM", "LC")])
    assert headline.startswith("The test data names no attributes, so it cannot show if")
    assert "On its worst label: " in headline and "gains" not in headline


# Test rows whose attributes nobody named: judged by the estimate of one run


@pytest.fixture
def unnamed(birds: Make, tmp_path: Path) -> list[Path]:
    """ERM, the better one by plain accuracy, and LC, the better one where the ground misleads."""
    skills = {"ERM": (0.99, 0.8), "LC": (0.8, 0.9)}
    given = {"attribute_names": None, "estimated": True}
    return [birds(tmp_path / name, name, skill=skill, **given) for name, skill in skills.items()]


def conflicting(folder: Path) -> float:
    rows = Predictions.load(folder / "predictions.parquet")
    ground = np.repeat([0, 1, 0, 1], [2255, 2255, 642, 642])
    return float((rows.prediction == rows.label)[ground != rows.label].mean())


def test_the_estimate_of_one_run_serves_the_others(unnamed: list[Path]) -> None:
    erm, lc = with_estimates([RunFolder.read(folder) for folder in unnamed])
    assert erm.test["estimated_minority"] == pytest.approx(conflicting(unnamed[0]))
    assert lc.test["estimated_minority"] == pytest.approx(conflicting(unnamed[1]))
    before, after = (f"{100 * conflicting(folder):.1f}" for folder in unnamed)
    headline, details = judged(unnamed)
    shares = f"ERM {before} % and LC {after} %"
    assert headline.startswith(f"Where the estimated attribute conflicts with the label: {shares}. LC gains ")
    assert details[0].startswith(
        "The test data names no attributes: these 2,897 rows were found by heads on border in the run of LC. Nobody"
    )
    assert any("attribute agrees: LC " in text for text in judged(unnamed[1:])[1])
    (unnamed[0] / "predictions.parquet").unlink()  # without them it is shown by label
    assert "worst label" in judged(unnamed)[0]


def test_the_two_sides_of_a_label_are_the_sums_of_its_groups() -> None:
    counts = [("a", False, 4, 3), ("a", True, 2, 1), ("a", True, 2, 0), ("b", False, 0, 0)]
    groups = [dict(zip(("label", "minority", "count", "correct"), one, strict=True)) for one in counts]
    found = {(side["label"], side["attribute"]): (side["count"], side["accuracy"]) for side in sides(groups)}
    assert found[("a", "agrees")] == (4, 0.75) and found[("a", "conflicts")] == (4, 0.25)
    assert found[("b", "agrees")] == (0, None)


def test_damaged_metrics_are_named_and_missing_ones_are_empty(birds: Make, tmp_path: Path) -> None:
    folder = birds(tmp_path / "run", "LC")
    (folder / "metrics.csv").write_text("a,b\n1,2,3\n4,5,6,7\n")
    with pytest.raises(InputError, match=r"metrics\.csv cannot be read"):
        RunFolder.read(folder)
    (folder / "metrics.csv").unlink()
    assert RunFolder.read(folder).metrics.empty
