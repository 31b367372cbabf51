"""Whatever stands in ``report.json``, a run is shown and loaded or refused by name."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from logit_correction.errors import InputError
from logit_correction.pages.html import render_page
from logit_correction.pages.report_file import REPORT, fault_of, read_report_file

Make = Callable[..., Path]

#: What a damaged or forged file may hold in the place of something else.
WRONG = (None, [1, 2], {}, [], "x", "", -1, 3.5, 1e308, 10**30, True, {"a": {"b": 1}}, [[None]], "<script>")


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a report; of lists the first two."""
    if place:
        yield place
    parts = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for name, part in parts:
        yield from places(part, (*place, name))


def changed(report: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    report = copy.deepcopy(report)
    inside: Any = report
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = value
    return report


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        (("method",), None, "method is missing, not a text"),
        (("data",), [1, 2], r"data is \[1, 2\], not a mapping"),
        (("test", "groups"), "x", "test.groups is 'x', not a list"),
        (("test", "groups", 1), 3, r"test.groups\[1\] is 3, not a mapping"),
        (("test", "groups", 0, "count"), -1, r"test.groups\[0\].count is -1, not a count"),
        (("test", "average"), 1.5, "test.average is 1.5, not a share"),
        (("test", "average"), True, "test.average is True, not a share"),
        (("seed",), 10**30, "seed is 1000"),
        (("data", "counts", "train", 0), [1], "data.counts.train has rows of different lengths"),
        (("group_prior", "estimated", 0, 0), "x", r"group_prior.estimated\[0\]\[0\] is 'x', not a number"),
        (("warnings",), [{}], r"warnings\[0\] is {}, not a text"),
    ],
)
def test_what_is_wrong_is_named(place: Any, value: Any, expected: str, colored: Make, tmp_path: Path) -> None:
    file = colored(tmp_path / "run", "LC") / "report.json"
    file.write_text(json.dumps(changed(read_report_file(file), place, value)))
    with pytest.raises(InputError, match=rf"report\.json cannot be read \({expected}.*\): put a copy"):
        read_report_file(file)


def test_what_only_loading_needs_is_named(colored: Make, tmp_path: Path) -> None:
    file = colored(tmp_path / "run", "LC") / "report.json"
    with pytest.raises(InputError, match=r"\(data\.rows\.train is missing\)"):
        read_report_file(file, ["data.name", "data.rows.train"])


def test_every_wrong_value_is_either_harmless_or_found(colored: Make, tmp_path: Path) -> None:
    report = read_report_file(colored(tmp_path / "run", "LC") / "report.json")
    every = list(places(report))
    found = [place for place in every if any(fault_of(changed(report, place, value), REPORT) for value in WRONG)]
    assert len(found) > 0.5 * len(every)  # the others are options and facts, which are shown as they are


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_page_is_made_or_the_report_refused(seed: int, colored: Make, tmp_path: Path) -> None:
    run, draw = colored(tmp_path / "run", "LC"), random.Random(seed)
    report = read_report_file(run / "report.json")
    every = list(places(report))
    for _ in range(12):
        (run / "report.json").write_text(json.dumps(changed(report, draw.choice(every), draw.choice(WRONG))))
        try:
            assert "<script>" not in render_page([run])
        except InputError as error:
            assert "report.json cannot be read" in str(error)


@pytest.mark.parametrize("text", ["", "step\n1\n", "step,epoch\n1,x\n", "step,epoch\n-1,0\n", "step,epoch\n1,1e300\n"])
def test_figures_over_time_that_are_none_are_refused(text: str, colored: Make, tmp_path: Path) -> None:
    run = colored(tmp_path / "run", "LC")
    (run / "metrics.csv").write_text(text)
    with pytest.raises(InputError, match=r"metrics\.csv cannot be read .*: put a copy"):
        render_page([run])
