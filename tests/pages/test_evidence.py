"""The section of the page that answers whether there is a shortcut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logit_correction.pages.evidence import advice, answer, sentence_of
from logit_correction.pages.html import render_page

Make = Callable[..., Path]

NASTY = "<script>alert('x')</script>"


def signs(view: str, ratio: float | None, breadth: int = 0, rows: int = 76) -> dict[str, Any]:
    return {
        "view": view, "sentence": f"what {view} looks at", "breadth": breadth, "accuracy": 0.93,
        "network_accuracy": 0.94, "ratio": ratio, "ratio_low": ratio, "ratio_high": ratio, "rows": rows,
        "follows_view": 0.74 if rows else None, "follows_label": 0.2 if rows else None,
        "follows_low": 0.6, "follows_high": 0.8, "confidence": 0.9, "information": 0.71,
    }  # fmt: skip


def evidence(
    verdict: str, views: list[str], *more: dict[str, Any], sentence: str = "colour is right"
) -> dict[str, Any]:
    return {
        "verdict": verdict, "view": ", ".join(views) or None, "views": views, "sentence": sentence, "signs": list(more)
    }  # fmt: skip


PAIRS = [{"label": f"digit {i}", "looks_like": NASTY, "rows": 9 - i} for i in range(7)]
SHORTCUT = evidence("shortcut", ["colour"], signs("border", 0.5), signs("inputs", 1.0, 3), signs("colour", 0.99))
NONE = evidence("none found", [], signs("colour", 0.7), sentence="no narrow view predicts the label")


def test_a_shortcut_is_named_with_its_figures_and_what_to_say_against_it(birds: Make, tmp_path: Path) -> None:
    minority = {"count": 76, "recall": None, "precision": None, "examples": []}
    source = "heads on colour, cross-fitted"
    page = render_page(
        [birds(tmp_path / "run", "LC", evidence=SHORTCUT, attributes=source, estimated_minority=minority)]
    ).replace("\u00a0", " ")
    assert "<strong>Yes, colour.</strong> colour is right." in page
    assert "Corrected by colour; if colour is no accident, say so: <code>--legitimate colour</code>." in page
    order = [page.index(f"what {view} looks at") for view in ("colour", "border", "inputs")]
    assert order == sorted(order)  # by their ratio, what sees everything last
    assert "what inputs looks at: no evidence, for comparison only" in page
    assert "74 / 20<small>of 76 rows</small>" in page
    assert "Rows that LC takes for bias-conflicting" in page
    assert "The attributes come from heads on colour, cross-fitted.</p>" in page
    assert "biased network" not in page[page.index("Is there a shortcut?") :]


@pytest.mark.parametrize(
    ("verdict", "why"),
    [("none found", "no shortcut was found"), ("cannot tell", "whether there is a shortcut cannot be told")],
)
def test_who_found_none_says_so_and_that_is_no_fault(birds: Make, tmp_path: Path, verdict: str, why: str) -> None:
    minority = {"count": 0, "recall": None, "precision": None, "examples": []}
    prior = {
        "estimated": [[0.5, 0.5], [0.5, 0.5]],
        "true": None,
        "label_names": ["a", "b"],
        "attribute_names": ["a", "b"],
    }
    found = NONE | {"verdict": verdict}
    page = render_page([birds(tmp_path / "run", "LC", evidence=found, estimated_minority=minority, group_prior=prior)])
    assert f"<strong>{verdict.capitalize()}.</strong> No narrow view predicts the label." in page
    assert "Nothing was corrected; if you know a shortcut, name it: <code>--shortcut VIEW</code>" in page
    assert f"None: {why}, so no attribute was estimated, and LC trained as ERM does." in page
    assert "Group prior that LC estimated" not in page
    assert "biased network" not in page[page.index("Is there a shortcut?") :]


def test_a_run_that_did_not_look_has_no_such_section(birds: Make, tmp_path: Path) -> None:
    runs = [birds(tmp_path / "ERM", "ERM"), birds(tmp_path / "LC", "LC", evidence=None)]
    assert "Is there a shortcut?" not in render_page(runs)


def test_each_run_that_looked_has_a_block(birds: Make, tmp_path: Path) -> None:
    page = render_page(
        [
            birds(tmp_path / "ERM", "ERM"),
            birds(tmp_path / "LC0", "LC", seed=0, evidence=SHORTCUT),
            birds(tmp_path / "LC1", "LC", seed=1, evidence=NONE),
        ]
    )
    assert page.count("Is there a shortcut?") == 1
    assert "<strong>LC, seed 0: Yes, colour.</strong>" in page
    assert "<strong>LC, seed 1: None found.</strong>" in page


def test_many_views_are_counted_and_what_is_not_known_is_a_dash(birds: Make, tmp_path: Path) -> None:
    many = [signs(f"column:{i}", 0.5 + 0.01 * i) for i in range(14)]
    found = evidence("none found", [], *many[1:], signs("empty", 0.9, rows=0))
    page = render_page([birds(tmp_path / "run", "LC", evidence=found)])
    assert "and 2 more" in page and "column:13" in page and "column:1<" not in page
    assert "no such row" in page
    unknown = {"view": "column:x"}
    assert "column:x" in render_page([birds(tmp_path / "bare", "LC", evidence=evidence("cannot tell", [], unknown))])


def test_names_of_the_user_are_shown_and_never_run(birds: Make, tmp_path: Path) -> None:
    found = evidence("shortcut", [NASTY], signs(NASTY, 0.9), sentence=NASTY)
    options = {"attributes": {"name": "Auto", "legitimate": [NASTY]}}
    minority = {"count": 1, "recall": None, "precision": None, "examples": []}
    page = render_page(
        [
            birds(
                tmp_path / "run", "LC", evidence=found, method_options=options, attributes=NASTY,
                estimated_minority=minority,
            )
        ]
    )  # fmt: skip
    assert "<script" not in page and page.count("&lt;script") > 6


def test_the_shortcut_that_a_person_named_needs_no_advice() -> None:
    said = evidence("shortcut", ["colour"], sentence="a person said so")
    assert answer(said) == "shortcut: colour" and advice(said) is None and sentence_of(said) == "A person said so"


def test_several_views_are_all_named() -> None:
    told = advice(evidence("shortcut", ["places:1,1", "column:my scanner"], signs("places:1,1", 1.0)))
    assert told is not None
    assert told.option == "--legitimate places:1,1 --legitimate 'column:my scanner'"
    assert told.say == "if places:1,1 and column:my scanner are no accident, say so"


def test_the_commonest_pairs_are_listed_and_whether_they_may_be_mislabelled(birds: Make, tmp_path: Path) -> None:
    apart = {"told_apart": 0.86, "told_apart_low": 0.8, "told_apart_high": 0.92}
    found = SHORTCUT | {"conflicts": PAIRS} | apart
    page = render_page([birds(tmp_path / "run", "LC", evidence=found)]).replace("\u00a0", " ")
    assert "9 of digit 0 look like &lt;script&gt;" in page and NASTY not in page
    assert "5 of digit 4 look like" in page and "digit 5" not in page and "7 more." in page
    assert "in 86 % of all pairs (80 to 92 %; wrong labels: 50 %)" in page
