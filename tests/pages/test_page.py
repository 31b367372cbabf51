"""The pages as a reader sees them: their content, that nothing is loaded, and that user text is escaped."""

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

from .conftest import build_finding, build_view_evidence

RunWriter = Callable[..., Path]

NASTY = "<script>alert('x')</script>"
VOID = {"meta", "img", "br"}


class ParsedPage(HTMLParser):
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


def test_comparison_page_has_every_section_and_loads_nothing(make_colored_run: RunWriter, tmp_path: Path) -> None:
    folders = [make_colored_run(tmp_path / name, name) for name in ("ERM", "LC")]
    out = tmp_path / "report.html"
    write_report_page(folders, out)
    text = out.read_text(encoding="utf-8")
    page = ParsedPage(text)
    sections = ("Runs side by side", "Accuracy per group", "All 100 groups", "Validation accuracy", "Make it again")
    figures = ("Bias-conflicting accuracy: ERM ", "recall 91 %, precision 59 %", "train: - attribute")
    for text_part in (*sections, *figures, "logit-correction report", "logit-correction train --config", "--seeds 3"):
        assert text_part in page.text, text_part
    assert sum(tag == "img" for tag, _ in page.tags) == 12
    assert sum(tag == "svg" for tag, _ in page.tags) == 1  # the curve


def test_page_of_one_run_has_no_comparison_and_no_absolute_paths(make_birds_run: RunWriter, tmp_path: Path) -> None:
    text = render_report_page([make_birds_run(tmp_path / "mine", "LC")], tmp_path / "mine" / "report.html")
    assert "Runs side by side" not in text and "<h2>Accuracy</h2>" in text
    assert str(tmp_path) not in text and "logit-correction report mine --out report.html" in text
    # The verdict comes before everything else.
    assert text.index('class="verdict"') < min(text.index("<table"), text.index("<svg"))
    assert 'name="viewport" content="width=device-width' in text and "default-src 'none'" in text
    assert "@media print" in text and "print-color-adjust: exact" in text  # dots and bands are printed
    assert "prefers-color-scheme: dark" in text


def change_report(run: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    change(report)
    (run / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return run


@pytest.mark.parametrize(
    ("name", "title"), [("Arrays", "LC on mine"), ("Digits", "LC on Digits"), ("my.Rows", "LC on my.Rows")]
)
def test_page_title_names_the_source_of_own_data(
    make_birds_run: RunWriter, tmp_path: Path, name: str, title: str
) -> None:
    def set_source(report: dict[str, Any]) -> None:
        report["data"] |= {"name": name, "facts": {"source": "mine"}}

    assert f"<h1>{title}</h1>" in render_report_page(
        [change_report(make_birds_run(tmp_path / "run", "LC"), set_source)]
    )


def test_page_marks_the_best_only_with_known_attributes(make_birds_run: RunWriter, tmp_path: Path) -> None:
    def set_equal_worst_group(report: dict[str, Any]) -> None:
        report["test"]["worst_group"] = 0.0  # of both

    folders = [change_report(make_birds_run(tmp_path / name, name), set_equal_worst_group) for name in ("ERM", "LC")]
    cells = re.findall(r'class="num( best)?" data-name="(.*?)"', render_report_page(folders))
    assert ("", "Worst group") in cells and (" best", "Worst group") not in cells
    assert sum(cell == (" best", "Bias-conflicting") for cell in cells) == 1
    runs_without_attributes = [
        make_birds_run(tmp_path / f"{name}-", name, attribute_names=None, estimated=True) for name in ("ERM", "LC")
    ]
    page = render_report_page(runs_without_attributes)
    assert 'class="num best"' not in page and "estimated by heads on border; no label of it was read" in page
    assert page.index("Accuracy per estimated group") < page.index("Accuracy per label")
    assert "Estimated bias-conflicting" in page.split("<h2>Runs side by side</h2>")[1].split("</thead>")[0]


def test_page_headline_names_results_below_the_majority_class_or_a_net_loss(
    make_birds_run: RunWriter, tmp_path: Path
) -> None:
    majority_sentence = "Always saying landbird is right in 77.8 % of the test rows, LC in "
    folders = [
        make_birds_run(tmp_path / "LC", "LC", skill=(0.02, 0.9)),
        make_birds_run(tmp_path / "ERM", "ERM", skill=(0.99, 0.9)),
    ]
    page = ParsedPage(render_report_page(folders)).text
    assert majority_sentence in page and page.index(majority_sentence) < page.index("Bias-conflicting accuracy:")
    # Groups leave out rows without an attribute, so they do not tell the most frequent label of all rows.
    partly_unknown = change_report(folders[0], lambda report: report["test"].update(count=report["test"]["count"] + 1))
    assert "Always" not in ParsedPage(render_report_page([partly_unknown])).text
    assert "Always" not in ParsedPage(render_report_page(folders[1:])).text
    assert "all test rows LC loses" in page  # and conflicting rows do not gain
    worse = {"ERM": (0.99, 0.8), "JTT": (0.9, 0.8), "LC": (0.9, 0.9)}
    runs = {name: make_birds_run(tmp_path / f"{name}+", name, skill=skill) for name, skill in worse.items()}
    for name, has_loss in (("JTT", True), ("LC", False)):
        assert ("all test rows JTT loses" in ParsedPage(render_report_page([runs["ERM"], runs[name]])).text) == has_loss


# Is there a shortcut?


SHORTCUT = build_finding(
    "shortcut",
    ["colour"],
    build_view_evidence("border", 0.5),
    build_view_evidence("inputs", 1.0, 3),
    build_view_evidence("colour", 0.99),
)
NONE = build_finding("none found", [], build_view_evidence("colour", 0.7), user_named=False)
NOBODY = {"count": 0, "recall": None, "precision": None, "examples": []}


def test_page_names_the_shortcut_its_figures_and_the_option_against_it(
    make_birds_run: RunWriter, tmp_path: Path
) -> None:
    runs = [
        make_birds_run(
            tmp_path / "LC0",
            "LC",
            evidence=finding_to_dict(SHORTCUT),
            attributes="by colour",
            estimated_minority=NOBODY,
        )
    ]
    runs += [
        make_birds_run(tmp_path / "ERM", "ERM"),
        make_birds_run(tmp_path / "LC1", "LC", seed=1, evidence=finding_to_dict(NONE)),
    ]
    page = render_report_page(runs).replace(NBSP, " ")
    assert ", seed 1): none found." in page and ", seed 0): cannot tell, corrected by colour." in page
    assert "<code>--legitimate colour</code>" in page and "by colour" in page
    order = [
        page.index(f'scope="row"{mark}>{view}<small>') for mark, view in ((' class="chosen"', "colour"), ("", "border"))
    ]
    order.append(page.index(">inputs<small>"))
    assert order == sorted(order)  # by their ratio, what sees everything last
    assert "74 / 20<small>of 76 rows (10 %)</small>" in page


def test_advice_names_views_as_command_options() -> None:
    assert advise_user(build_finding("shortcut", ["colour"])) == ""  # the shortcut that a person named needs none
    advice = advise_user(
        build_finding("shortcut", ["places:1,1", "column:my scanner"], build_view_evidence("places:1,1", 1.0))
    )
    assert "add `--legitimate places:1,1 --legitimate 'column:my scanner'`" in advice


# Untrusted content of a run folder


def test_user_text_is_shown_escaped(make_birds_run: RunWriter, tmp_path: Path) -> None:
    examples = [
        {"index": i, "label": NASTY, "estimated_attribute": NASTY, "attribute": NASTY[i:], "picture": image}
        for i, image in enumerate(["javascript:alert(1)", "https://evil/x.png"])
    ]
    folder = make_birds_run(
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
        evidence=finding_to_dict(build_finding("shortcut", [NASTY], build_view_evidence(NASTY, 0.9))),
        attributes=NASTY,
        diagnostics_labels_read={NASTY: ["attribute"]},
    )  # fmt: skip
    text = render_report_page([folder], tmp_path / "<out>.html")
    page = ParsedPage(text)
    assert "<script" not in text and "javascript:" not in text
    assert page.text.count(NASTY) > 10
    assert not any(tag == "img" for tag, _ in page.tags)


def test_page_is_accessible_and_small(make_colored_run: RunWriter, make_birds_run: RunWriter, tmp_path: Path) -> None:
    """What a program can see of WCAG without a browser."""
    folders = [make_colored_run(tmp_path / name, name) for name in ("ERM", "LC")] + [
        make_birds_run(tmp_path / "b", "LC", evidence=finding_to_dict(SHORTCUT))
    ]
    text = render_report_page(folders)
    page = ParsedPage(text)
    assert len(text.encode()) < 1_000_000
    assert ("html", {"lang": "en"}) in page.tags and sum(tag == "title" for tag, _ in page.tags) == 1
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all("scope" in attributes for tag, attributes in page.tags if tag == "th")
    assert all(attributes.get("alt") for tag, attributes in page.tags if tag == "img")
    scrolled = [attributes for tag, attributes in page.tags if attributes.get("class") == "scroll"]
    assert scrolled and all(attributes["tabindex"] == "0" and attributes["aria-label"] for attributes in scrolled)


def test_page_path_that_cannot_be_written_is_named(make_birds_run: RunWriter, tmp_path: Path) -> None:
    folder = make_birds_run(tmp_path / "run", "LC")
    with pytest.raises(InputError, match=r"missing/page\.html cannot be written"):
        write_report_page([folder], tmp_path / "missing" / "page.html")
