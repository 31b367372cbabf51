"""The pages as a reader sees them: what is told, that nothing is loaded, and that no name of a user runs."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from logit_correction.errors import InputError
from logit_correction.finding_text import advise_user, finding_to_dict
from logit_correction.formatting import NBSP
from logit_correction.pages.page import render_report_page, write_report_page

from .conftest import found, look

Make = Callable[..., Path]

NASTY = "<script>alert('x')</script>"
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails where tags do not nest, or where something is loaded or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open = list[str]()
        self.feed(text)
        self.close()
        self.text = " ".join(self.text.split()).replace(NBSP, " ")
        assert self.open == [] and "http://" not in text and "https://" not in text and "@import" not in text
        assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "link", "iframe", "object", "embed", "base", "form", "foreignobject", "audio"}
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            if name in ("src", "href", "xlink:href", "srcset", "data", "action", "poster"):
                assert (value or "").startswith(("#", "data:image/png;base64,")), (tag, name, value)
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += " " if "style" in self.open else f" {data}"


def test_a_comparison_has_every_section_and_loads_nothing(colored: Make, tmp_path: Path) -> None:
    folders = [colored(tmp_path / name, name) for name in ("ERM", "LC")]
    out = tmp_path / "report.html"
    write_report_page(folders, out)
    text = out.read_text(encoding="utf-8")
    page = Page(text)
    sections = ("Runs side by side", "Accuracy per group", "All 100 groups", "Validation accuracy", "Make it again")
    figures = ("Bias-conflicting accuracy: ERM ", "recall 91 %, precision 59 %", "train: - attribute")
    for wanted in (*sections, *figures, "logit-correction report", "logit-correction train --config", "--seeds 3"):
        assert wanted in page.text, wanted
    assert sum(tag == "img" for tag, _ in page.tags) == 12
    assert sum(tag == "svg" for tag, _ in page.tags) == 1  # the curve


def test_a_page_of_one_run_compares_nothing_and_names_no_place(birds: Make, tmp_path: Path) -> None:
    text = render_report_page([birds(tmp_path / "mine", "LC")], tmp_path / "mine" / "report.html")
    assert "Runs side by side" not in text and "<h2>Accuracy</h2>" in text
    assert str(tmp_path) not in text and "logit-correction report mine --out report.html" in text
    # The verdict comes before everything else.
    assert text.index('class="verdict"') < min(text.index("<table"), text.index("<svg"))
    assert 'name="viewport" content="width=device-width' in text and "default-src 'none'" in text
    assert "@media print" in text and "print-color-adjust: exact" in text  # dots and bands are printed
    assert "prefers-color-scheme: dark" in text


def changed(run: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    change(report)
    (run / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return run


@pytest.mark.parametrize(
    ("name", "title"), [("Arrays", "LC on mine"), ("Digits", "LC on Digits"), ("my.Rows", "LC on my.Rows")]
)
def test_data_of_a_persons_own_are_called_by_their_place(birds: Make, tmp_path: Path, name: str, title: str) -> None:
    def of_source(report: dict[str, Any]) -> None:
        report["data"] |= {"name": name, "facts": {"source": "mine"}}

    assert f"<h1>{title}</h1>" in render_report_page([changed(birds(tmp_path / "run", "LC"), of_source)])


def test_the_best_is_marked_where_there_is_one_and_attributes_are_named(birds: Make, tmp_path: Path) -> None:
    def same(report: dict[str, Any]) -> None:
        report["test"]["worst_group"] = 0.0  # of both

    folders = [changed(birds(tmp_path / name, name), same) for name in ("ERM", "LC")]
    cells = re.findall(r'class="num( best)?" data-name="(.*?)"', render_report_page(folders))
    assert ("", "Worst group") in cells and (" best", "Worst group") not in cells
    assert sum(found == (" best", "Bias-conflicting") for found in cells) == 1
    unnamed = [birds(tmp_path / f"{name}-", name, attribute_names=None, estimated=True) for name in ("ERM", "LC")]
    page = render_report_page(unnamed)
    assert 'class="num best"' not in page and "estimated by heads on border; no label of it was read" in page
    assert page.index("Accuracy per estimated group") < page.index("Accuracy per label")
    assert "Estimated bias-conflicting" in page.split("<h2>Runs side by side</h2>")[1].split("</thead>")[0]


def test_what_is_no_better_than_one_label_or_costs_more_than_it_brings_is_the_headline(
    birds: Make, tmp_path: Path
) -> None:
    always = "Always saying landbird is right in 77.8 % of the test rows, LC in "
    folders = [birds(tmp_path / "LC", "LC", skill=(0.02, 0.9)), birds(tmp_path / "ERM", "ERM", skill=(0.99, 0.9))]
    page = Page(render_report_page(folders)).text
    assert always in page and page.index(always) < page.index("Bias-conflicting accuracy:")
    assert "Always" not in Page(render_report_page(folders[1:])).text
    assert "all test rows LC loses" in page  # and conflicting rows do not gain
    worse = {"ERM": (0.99, 0.8), "JTT": (0.9, 0.8), "LC": (0.9, 0.9)}
    named = {name: birds(tmp_path / f"{name}+", name, skill=skill) for name, skill in worse.items()}
    for name, told in (("JTT", True), ("LC", False)):
        assert ("all test rows JTT loses" in Page(render_report_page([named["ERM"], named[name]])).text) == told


# Is there a shortcut?


SHORTCUT = found("shortcut", ["colour"], look("border", 0.5), look("inputs", 1.0, 3), look("colour", 0.99))
NONE = found("none found", [], look("colour", 0.7), user_named=False)
NOBODY = {"count": 0, "recall": None, "precision": None, "examples": []}


def test_a_shortcut_is_named_with_its_figures_and_what_to_say_against_it(birds: Make, tmp_path: Path) -> None:
    runs = [
        birds(
            tmp_path / "LC0",
            "LC",
            evidence=finding_to_dict(SHORTCUT),
            attributes="by colour",
            estimated_minority=NOBODY,
        )
    ]
    runs += [birds(tmp_path / "ERM", "ERM"), birds(tmp_path / "LC1", "LC", seed=1, evidence=finding_to_dict(NONE))]
    page = render_report_page(runs).replace(NBSP, " ")
    assert ", seed 1): none found." in page and ", seed 0): colour." in page
    assert "<code>--legitimate colour</code>" in page and "by colour" in page
    order = [
        page.index(f'scope="row"{mark}>{view}<small>') for mark, view in ((' class="chosen"', "colour"), ("", "border"))
    ]
    order.append(page.index(">inputs<small>"))
    assert order == sorted(order)  # by their ratio, what sees everything last
    assert "74 / 20<small>of 76 rows (10 %)</small>" in page


def test_views_are_named_as_a_reader_types_them() -> None:
    assert advise_user(found("shortcut", ["colour"])) == ""  # the shortcut that a person named needs none
    told = advise_user(found("shortcut", ["places:1,1", "column:my scanner"], look("places:1,1", 1.0)))
    assert "add `--legitimate places:1,1 --legitimate 'column:my scanner'`" in told


# Whatever stands in a run folder


def test_user_text_is_shown_and_never_run(birds: Make, tmp_path: Path) -> None:
    examples = [
        {"index": i, "label": NASTY, "estimated_attribute": NASTY, "attribute": NASTY[i:], "picture": image}
        for i, image in enumerate(["javascript:alert(1)", "https://evil/x.png"])
    ]
    folder = birds(
        tmp_path / "run <b> & 'q'",
        "LC",
        label_names=(NASTY, "bird"),
        attribute_names=(NASTY, 'x" onload="alert(1)'),
        warnings=[NASTY],
        method_options={NASTY: NASTY},
        environment={"version": NASTY},
        estimated_minority={"count": 2, "recall": None, "precision": None, "examples": examples},
        selection={"rule": NASTY, "split": "valid", "labels_read": [NASTY]},
        labels_read={"train": [NASTY], NASTY: ["label"]},
        evidence=finding_to_dict(found("shortcut", [NASTY], look(NASTY, 0.9))),
        attributes=NASTY,
        diagnostics_labels_read={NASTY: ["attribute"]},
    )  # fmt: skip
    text = render_report_page([folder], tmp_path / "<out>.html")
    page = Page(text)
    assert "<script" not in text and "javascript:" not in text
    assert page.text.count(NASTY) > 10
    assert not any(tag == "img" for tag, _ in page.tags)


def test_a_page_is_read_by_keyboard_and_by_ear_and_is_small(colored: Make, birds: Make, tmp_path: Path) -> None:
    """What a program can see of WCAG without a browser."""
    folders = [colored(tmp_path / name, name) for name in ("ERM", "LC")] + [
        birds(tmp_path / "b", "LC", evidence=finding_to_dict(SHORTCUT))
    ]
    text = render_report_page(folders)
    page = Page(text)
    assert len(text.encode()) < 1_000_000
    assert ("html", {"lang": "en"}) in page.tags and sum(tag == "title" for tag, _ in page.tags) == 1
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all("scope" in one for tag, one in page.tags if tag == "th")
    assert all(one.get("alt") for tag, one in page.tags if tag == "img")
    scrolled = [one for tag, one in page.tags if one.get("class") == "scroll"]
    assert scrolled and all(one["tabindex"] == "0" and one["aria-label"] for one in scrolled)


def test_a_place_that_cannot_be_written_is_named(birds: Make, tmp_path: Path) -> None:
    folder = birds(tmp_path / "run", "LC")
    with pytest.raises(InputError, match=r"missing/page\.html cannot be written"):
        write_report_page([folder], tmp_path / "missing" / "page.html")
