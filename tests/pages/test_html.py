from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from logit_correction.errors import InputError
from logit_correction.pages import html
from logit_correction.pages import plots as style
from logit_correction.pages.html import render_page, write_page

Make = Callable[..., Path]

NASTY = "<script>alert('x')</script>"
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def check_self_contained(text: str) -> Page:
    page = Page(text)
    names = {tag for tag, _ in page.tags}
    assert not names & {
        "script",
        "link",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "foreignobject",
        "audio",
    }
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("src", "href", "xlink:href", "srcset", "data", "action", "poster"):
                assert value is not None
                assert value.startswith(("#", "data:image/png;base64,")), (tag, name, value)
    css = "".join(re.findall(r"<style>(.*?)</style>", text, re.DOTALL)) + "".join(
        value for _, attributes in page.tags if (value := attributes.get("style"))
    )
    assert "@import" not in css
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", css))
    assert "http://" not in text
    assert "https://" not in text
    return page


def test_a_comparison_has_every_section_and_loads_nothing(colored: Make, tmp_path: Path) -> None:
    folders = [colored(tmp_path / name, name) for name in ("ERM", "LC")]
    out = tmp_path / "report.html"
    write_page(folders, out)
    text = out.read_text(encoding="utf-8")
    page = check_self_contained(text)
    for wanted in (
        "ERM and LC on ColoredMNIST",
        "On groups where the shortcut misleads, ERM is right in",
        "Runs side by side",
        "Accuracy per group",
        "All 100 groups in numbers",
        "Training loss",
        "Validation accuracy",
        "Group prior that LC estimated",
        "Estimated",
        "True",
        "Rows that LC takes for bias-conflicting",
        "it finds 91 % of the true ones, and 59 % of those that it takes are right",
        "What was run",
        "Which labels were read",
        "The attributes of the train split are read for the diagnostics on this page, never by a method.",
        "Environment",
        "logit-correction report",
        "logit-correction train --config",
    ):
        assert wanted in page.text.replace("\u00a0", " "), wanted
    assert sum(tag == "img" for tag, _ in page.tags) == 12
    assert sum(tag == "svg" for tag, _ in page.tags) == 6  # two heat maps, two curves, two priors


def test_every_class_that_the_page_styles_is_there() -> None:
    folder = Path(style.__file__).parent
    templates = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.j2"))
    known = set(re.findall(r"[\w-]+", " ".join(re.findall(r"class=(.*)", templates))))
    css = (folder / "page.css").read_text(encoding="utf-8")
    rows = {"seed", "other"}  # a row's kind is its class
    assert set(re.findall(r"\.([a-z][\w-]*)", css)) - known - rows == set()


def test_groups_without_rows_are_drawn_and_not_listed(colored: Make, tmp_path: Path) -> None:
    folder = colored(tmp_path / "lc", "LC")
    report = json.loads((folder / "report.json").read_text())
    report["data"]["counts"] = {}
    for group in report["test"]["groups"][::2]:
        group |= {"count": 0, "accuracy": None}
    (folder / "report.json").write_text(json.dumps(report))
    page = Page(render_page([folder]))
    assert "All 49 groups that have rows in numbers" in page.text
    assert "– has no test rows." in page.text


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ((1, 1), "are 95 % intervals (Wilson)."),
        ((2, 2), "reach from the worst to the best run."),
        ((2, 1), "reach from the worst to the best run; of one run they are 95 % intervals (Wilson)."),
    ],
)
def test_what_the_ends_of_a_figure_are_is_told(
    colored: Make, birds: Make, tmp_path: Path, seeds: tuple[int, int], said: str
) -> None:
    for make, what in ((birds, "Lines"), (colored, "The small figures")):
        runs = [
            make(tmp_path / f"{what}-{name}-{seed}", name, seed=seed)
            for name, count in zip(("ERM", "LC"), seeds, strict=True)
            for seed in range(count)
        ]
        assert f"{what} {said}" in Page(render_page(runs)).text


def test_the_best_is_marked_where_there_is_one(colored: Make, tmp_path: Path) -> None:
    folders = [colored(tmp_path / name, name) for name in ("ERM", "LC")]
    for folder in folders:
        report = json.loads((folder / "report.json").read_text())
        report["test"]["worst_group"] = 0.0  # of both
        (folder / "report.json").write_text(json.dumps(report))
    cells = re.findall(r'class="num( best)?" data-name="(.*?)"', render_page(folders))
    assert ("", "Worst group") in cells and (" best", "Worst group") not in cells
    assert sum(found == (" best", "Minority") for found in cells) == 1


def test_no_two_parts_of_a_page_have_the_same_id(colored: Make, tmp_path: Path) -> None:
    folders = [colored(tmp_path / f"{q}", "LC", method_options={"q": q}) for q in (0.7, 0.8)]
    page = Page(render_page(folders))
    found = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert found and len(found) == len(set(found))


def test_the_verdict_comes_before_everything_else(colored: Make, tmp_path: Path) -> None:
    text = render_page([colored(tmp_path / "lc", "LC")])
    assert text.index('class="verdict"') < text.index("<table")
    assert text.index('class="verdict"') < text.index("<svg")
    assert 'name="viewport" content="width=device-width' in text
    assert "default-src 'none'" in text
    assert "@media print" in text
    assert "prefers-color-scheme: dark" in text


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
        group_prior={
            "estimator": NASTY, "averaging": NASTY, "estimated": [[0.4, 0.1], [0.1, 0.4]], "true": None,
            "label_names": [NASTY, "b"], "attribute_names": [NASTY, "w"],
        },
        estimated_minority={"count": 2, "recall": None, "precision": None, "examples": examples},
        selection={"rule": NASTY, "split": "valid", "labels_read": [NASTY]},
        labels_read={"train": [NASTY], NASTY: ["label"]},
        diagnostics_labels_read={NASTY: ["attribute"]},
    )  # fmt: skip
    text = render_page([folder], tmp_path / "<out>.html")
    page = check_self_contained(text)
    assert "<script" not in text
    assert "javascript:" not in text
    assert page.text.count(NASTY) > 10
    assert not any(tag == "img" for tag, _ in page.tags)


@pytest.mark.parametrize("methods", [["LC"], ["ERM"], ["ERM", "LC", "JTT"]])
@pytest.mark.parametrize("known", [True, False])
def test_pages_without_attributes_and_with_one_or_many_runs(
    birds: Make, tmp_path: Path, methods: list[str], known: bool
) -> None:
    names = ("land", "water") if known else None
    page = check_self_contained(
        render_page([birds(tmp_path / method, method, attribute_names=names) for method in methods])
    )
    assert ("Accuracy per group" in page.text) == known
    assert ("Accuracy per label" in page.text) == (not known)
    assert ("The test data names no attributes" in page.text) == (not known)
    assert ("Minority" in page.text) == known


@pytest.mark.slow
def test_several_tasks_and_seeds_share_a_page(colored: Make, tmp_path: Path) -> None:
    folders = [
        colored(tmp_path / f"{method}{ratio}{seed}", method, seed=seed, ratio=ratio)
        for ratio in (0.005, 0.05)
        for method in ("ERM", "LC")
        for seed in (0, 1)
    ]
    text = render_page(folders)
    page = check_self_contained(text)
    targets = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    anchors = [attributes.get("id") for _, attributes in page.tags]
    assert targets == ["#task-1", "#task-2"]
    assert {"task-1", "task-2"} <= set(anchors)
    assert page.text.count("mean of 2 runs") == 4


def test_a_folder_named_twice_counts_once(birds: Make, tmp_path: Path) -> None:
    folder = birds(tmp_path / "run", "LC")
    assert render_page([folder, folder / ".." / "run"]) == render_page([folder])


@pytest.mark.slow
def test_the_page_is_the_same_each_time(colored: Make, tmp_path: Path) -> None:
    folders = [colored(tmp_path / name, name) for name in ("ERM", "LC")]
    assert render_page(folders) == render_page(folders)


@pytest.mark.parametrize("where", ["a section", "a figure"])
def test_a_failing_render_leaves_the_old_page(
    birds: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    folder, out = birds(tmp_path / "run", "LC"), tmp_path / "pages" / "report.html"
    out.parent.mkdir()
    out.write_text("the old page")

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken")

    if where == "a section":
        monkeypatch.setattr(html.sections, "part", broken)
    else:
        monkeypatch.setitem(html.template("page.html.j2").environment.filters, "svg", broken)
    with pytest.raises(RuntimeError, match="broken"):
        write_page([folder], out)
    assert out.read_text() == "the old page"
    assert list(out.parent.iterdir()) == [out]


def test_a_place_that_cannot_be_written_is_named(birds: Make, tmp_path: Path) -> None:
    folder = birds(tmp_path / "run", "LC")
    with pytest.raises(InputError, match=r"missing/page\.html cannot be written"):
        write_page([folder], tmp_path / "missing" / "page.html")
    with pytest.raises(InputError, match="cannot be written"):
        write_page([folder], tmp_path)  # a folder
    with pytest.raises(InputError, match="name at least one run folder"):
        write_page([], tmp_path / "page.html")
