from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from logit_correction.errors import NBSP
from logit_correction.pages.comparison import compare
from logit_correction.pages.conclusion import Conclusion, conclude
from logit_correction.pages.folder import RunFolder

Make = Callable[..., Path]


def judged(folders: Sequence[Path]) -> Conclusion:
    (comparison,) = compare([RunFolder.read(folder) for folder in folders])
    found = conclude(comparison)
    details = tuple(text.replace(NBSP, " ") for text in found.details)
    return Conclusion(found.headline.replace(NBSP, " "), details)


def share(folder: Path, key: str) -> float:
    return float(RunFolder.read(folder).test[key])


def test_lc_wins(colored: Make, tmp_path: Path) -> None:
    erm, lc = colored(tmp_path / "erm", "ERM"), colored(tmp_path / "lc", "LC")
    before, after = (f"{100 * share(run, 'minority'):.0f}" for run in (erm, lc))
    found = judged([lc, erm])  # the order of the folders does not matter
    assert found.headline == (
        f"On groups where the shortcut misleads, ERM is right in {before} % of the cases "
        f"and LC in {after} %: LC gains {int(after) - int(before)} points."
    )
    helped = [f"{100 * share(run, 'majority'):.0f}" for run in (erm, lc)]
    assert f"Where the shortcut helps: ERM {helped[0]} % and LC {helped[1]} %." in found.details
    assert any("another seed" in text for text in found.details)


def test_lc_loses(birds: Make, tmp_path: Path) -> None:
    found = judged([birds(tmp_path / "erm", "ERM", skill=(0.9, 0.8)), birds(tmp_path / "lc", "LC", skill=(0.9, 0.6))])
    assert "LC does not help here, it loses " in found.headline
    assert "gains" not in found.headline


def test_lc_makes_no_difference(birds: Make, tmp_path: Path) -> None:
    found = judged([birds(tmp_path / "erm", "ERM", skill=(0.9, 0.7)), birds(tmp_path / "lc", "LC", skill=(0.9, 0.7))])
    assert found.headline.endswith("LC makes no difference beyond chance.")


def test_figures_that_are_the_same_need_no_decimal(birds: Make, tmp_path: Path) -> None:
    erm, lc = (birds(tmp_path / name, name, skill=(1.0, 1.0)) for name in ("ERM", "LC"))
    assert share(erm, "minority") == share(lc, "minority")
    assert re.search(r"ERM is right in \d+ % of the cases and LC in \d+ %:", judged([erm, lc]).headline)


def test_close_figures_are_told_with_a_decimal_and_agree_with_their_distance(birds: Make, tmp_path: Path) -> None:
    erm, lc = birds(tmp_path / "e", "ERM", skill=(0.9, 0.975)), birds(tmp_path / "l", "LC", skill=(0.9, 0.99))
    before, after = (round(100 * share(run, "minority"), 1) for run in (erm, lc))
    assert 0 < after - before < 2
    assert judged([erm, lc]).headline == (
        f"On groups where the shortcut misleads, ERM is right in {before} % of the cases "
        f"and LC in {after} %: LC gains {after - before:.1f} points."
    )


def test_the_best_of_several_methods_is_measured_against_erm(birds: Make, tmp_path: Path) -> None:
    skills = {"ERM": (0.98, 0.3), "JTT": (0.9, 0.5), "LC": (0.95, 0.8)}
    found = judged([birds(tmp_path / name, name, skill=skill) for name, skill in skills.items()])
    assert "LC gains most, " in found.headline
    assert "points over ERM." in found.headline


def test_without_erm_the_best_two_are_compared(birds: Make, tmp_path: Path) -> None:
    folders = [
        birds(tmp_path / "jtt", "JTT", skill=(0.9, 0.5)),
        birds(tmp_path / "lc", "LC", skill=(0.95, 0.8)),
    ]
    assert "LC is ahead of JTT by " in judged(folders).headline
    same = [birds(tmp_path / f"same{m}", m, skill=(0.9, 0.5)) for m in ("JTT", "LC")]
    assert judged(same).headline.endswith("the difference between the best two is no more than chance.")


def test_several_seeds_decide_by_their_ranges(birds: Make, tmp_path: Path) -> None:
    def runs(name: str, method: str, shares: Sequence[float]) -> list[Path]:
        return [birds(tmp_path / f"{name}{i}", method, skill=(0.9, value), seed=i) for i, value in enumerate(shares)]

    erm = runs("erm", "ERM", [0.3, 0.7])
    found = judged([*erm, *runs("lc", "LC", [0.6, 0.8])])
    assert found.headline.endswith("LC makes no difference beyond chance.")
    assert "Figures are means over seeds: ERM 2 runs and LC 2 runs." in found.details
    assert " gains " in judged([*erm, *runs("better", "LC", [0.85, 0.9])]).headline


def test_a_single_run_is_measured_by_its_gap(birds: Make, tmp_path: Path) -> None:
    found = judged([birds(tmp_path / "lc", "LC", skill=(0.95, 0.7))])
    assert found.headline.startswith("On groups where the shortcut misleads, LC is right in 69 % of the cases")
    assert "against 95 % where it helps: a gap of 26 points." in found.headline
    assert any("No ordinary classifier (ERM)" in text for text in found.details)
    alone = judged([birds(tmp_path / "erm", "ERM", skill=(0.98, 0.3))])
    assert not any("No ordinary classifier" in text for text in alone.details)


def test_without_a_correlation_the_worst_group_is_judged(birds: Make, tmp_path: Path) -> None:
    skills = {"ERM": (0.98, 0.3), "LC": (0.95, 0.8)}
    found = judged([birds(tmp_path / m, m, skill=skill, correlated=False) for m, skill in skills.items()])
    assert found.headline.startswith("On its worst group, ERM is right in ")
    assert " gains " in found.headline


@pytest.mark.parametrize("methods", [["LC"], ["ERM", "LC"]])
def test_without_attributes_the_verdict_says_that_it_cannot_tell(
    birds: Make, tmp_path: Path, methods: list[str]
) -> None:
    found = judged([birds(tmp_path / method, method, attribute_names=None) for method in methods])
    assert found.headline.startswith("The test data names no attributes, so it cannot show whether")
    assert "On its worst label, " in found.headline
    assert "gains" not in found.headline
