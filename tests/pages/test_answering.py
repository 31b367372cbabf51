"""The form of an audit's page in a real browser: what is saved is the sheet with its answers, and nothing else."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from logit_correction.pages.answering import OpenSheet, RowToLabel, build_answering_form
from logit_correction.pages.page import render_template
from logit_correction.pages.plots import encode_picture
from logit_correction.spreadsheets import format_spreadsheet_rows, unescape_spreadsheet_texts, write_spreadsheet_csv
from tests.pages.browser import open_browser

ATTACK = """</script><img src=x onerror="document.title='attacked'"><b>"'"""
LABELS = ["cat", "=1+1", f"dog {ATTACK}"]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    yield from open_browser(tmp_path)


def make_sheet(count: int) -> pd.DataFrame:
    content = [f'text {number}, "quoted"\nin two lines; =1+{number} {ATTACK}' for number in range(count)]
    return pd.DataFrame({"row": np.arange(count) * 7, "content": content, "answer": ""})


def render_sheet(sheet: pd.DataFrame, label_names: Sequence[str], **extra: Any) -> str:
    heading, *lines = format_spreadsheet_rows(sheet)
    rows = [
        RowToLabel(f"line {row}", cells, text=content, **extra)
        for row, content, cells in zip(sheet["row"], sheet["content"], lines, strict=True)
    ]
    form = build_answering_form(OpenSheet(heading, rows), label_names)
    return render_template("sheet.html.j2", title="Rows to label", answering=form)


def press(browser: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    for key in keys:
        ActionChains(browser).send_keys(key).perform()


def find_part(browser: Any, name: str) -> Any:
    from selenium.webdriver.common.by import By

    return browser.find_element(By.CSS_SELECTOR, f"[data-part={name}]")


def read_saved(folder: Path) -> str:
    file = folder / "sheet.csv"
    deadline = time.monotonic() + 20
    while not file.is_file() and time.monotonic() < deadline:
        time.sleep(0.05)
    return file.read_text(encoding="utf-8")


def open_page(browser: Any, folder: Path, page: str) -> None:
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    browser.get(file.as_uri())


def test_form_saves_the_sheet_filled_in_by_keys(browser: Any, tmp_path: Path) -> None:
    """Byte for byte as the program would write it, with texts that try to run as script or formula."""
    sheet = make_sheet(6)
    open_page(browser, tmp_path, render_sheet(sheet, LABELS))
    press(browser, "1", "2", "3", "0", "1", "u", "2", "s")
    expected = sheet.assign(answer=["cat", "=1+1", LABELS[2], "", "=1+1", ""])
    write_spreadsheet_csv(expected, tmp_path / "expected.csv")
    assert read_saved(tmp_path) == (tmp_path / "expected.csv").read_text(encoding="utf-8")
    read_back = unescape_spreadsheet_texts(pd.read_csv(tmp_path / "sheet.csv", keep_default_na=False))
    pd.testing.assert_frame_equal(read_back, expected)
    assert browser.title == "Rows to label"


def test_form_keeps_answers_of_its_sheet_after_reload(browser: Any, tmp_path: Path) -> None:
    open_page(browser, tmp_path, render_sheet(make_sheet(4), LABELS))
    press(browser, "1", "0")
    browser.refresh()
    assert find_part(browser, "count").text == "2 of 4"
    open_page(browser, tmp_path, render_sheet(make_sheet(5), LABELS))
    assert find_part(browser, "count").text == "0 of 5"


def test_form_loses_no_answers_that_another_tab_gave(browser: Any, tmp_path: Path) -> None:
    """Another tab has stored an answer to the last row and none of this tab's, which it was opened before."""
    open_page(browser, tmp_path, render_sheet(make_sheet(4), LABELS))
    press(browser, "1")
    browser.execute_script(
        "const key = JSON.parse(document.getElementById('answering-sheet').textContent).key;"
        "const answers = { 3: { number: 1, time: Date.now() } };"
        "localStorage.setItem(key, JSON.stringify({ ...JSON.parse(localStorage.getItem(key)), answers }));"
        "dispatchEvent(new StorageEvent('storage', { key }));"
    )
    assert find_part(browser, "count").text == "2 of 4"
    press(browser, "u", "2", "1")
    browser.refresh()
    assert find_part(browser, "count").text == "3 of 4"
    find_part(browser, "save").click()
    write_spreadsheet_csv(make_sheet(4).assign(answer=["=1+1", "cat", "", "=1+1"]), tmp_path / "expected.csv")
    assert read_saved(tmp_path) == (tmp_path / "expected.csv").read_text(encoding="utf-8")


def test_form_moves_by_arrow_keys_and_changes_answers(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    sheet = make_sheet(3)
    open_page(browser, tmp_path, render_sheet(sheet, LABELS))
    press(browser, "1", Keys.ARROW_LEFT, "2", "1", "1")
    assert find_part(browser, "finished").is_displayed()
    find_part(browser, "save").click()
    write_spreadsheet_csv(sheet.assign(answer=["=1+1", "cat", "cat"]), tmp_path / "expected.csv")
    assert read_saved(tmp_path) == (tmp_path / "expected.csv").read_text(encoding="utf-8")


def test_form_brings_the_row_that_a_key_answers_into_view(browser: Any, tmp_path: Path) -> None:
    page = render_sheet(make_sheet(3), LABELS).replace("<section", '<p style="height: 3000px"></p><section', 1)
    open_page(browser, tmp_path, page)
    press(browser, "1")
    top, bottom = browser.execute_script(
        "const place = document.querySelector('[data-part=one]').getBoundingClientRect();"
        "return [place.top, place.bottom - window.innerHeight]"
    )
    assert top >= 0 and bottom <= 1
    press(browser, "s")
    assert find_part(browser, "saved").is_displayed()
    press(browser, "2")
    assert not find_part(browser, "saved").is_displayed()  # what was saved lacks this answer


def test_form_on_paper_lists_pictures_side_by_side(browser: Any, tmp_path: Path) -> None:
    picture = encode_picture(np.zeros((3, 96, 96), np.uint8), 480)
    open_page(browser, tmp_path, render_sheet(make_sheet(4), LABELS, image=picture))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    tops = browser.execute_script(
        "return [...document.querySelectorAll('#rows-to-label img')].map((image) => image.getBoundingClientRect().top)"
    )
    assert len(tops) == 4 and len(set(tops)) == 1


def test_form_filters_many_labels_by_typing(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    names = [f"species {number}" for number in range(120)]
    open_page(browser, tmp_path, render_sheet(make_sheet(2), names))
    find_part(browser, "filter").send_keys("species 117", Keys.ENTER)
    find_part(browser, "save").click()
    assert read_saved(tmp_path).count("species 117") == 1


def test_form_works_by_clicks_on_a_narrow_screen(tmp_path: Path) -> None:
    for browser in open_browser(tmp_path, width=500):
        from selenium.webdriver.common.by import By

        open_page(browser, tmp_path, render_sheet(make_sheet(2), LABELS))
        find_part(browser, "labels").find_elements(By.TAG_NAME, "button")[0].click()
        find_part(browser, "grid").click()
        browser.find_elements(By.CSS_SELECTOR, "#rows-to-label li")[1].click()
        find_part(browser, "labels").find_elements(By.TAG_NAME, "button")[1].click()
        find_part(browser, "save").click()
        assert "\n7," in read_saved(tmp_path)
        width = browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
        assert width <= 0


def test_form_controls_have_names_and_announce_changes(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By

    picture = encode_picture(np.zeros((3, 20, 30), np.uint8), 480)
    open_page(browser, tmp_path, render_sheet(make_sheet(2), LABELS, image=picture))
    controls = browser.find_elements(By.CSS_SELECTOR, "#answering button, #answering input, #answering progress")
    visible_controls = [control for control in controls if control.is_displayed()]
    assert len(visible_controls) > 8 and all(control.accessible_name for control in visible_controls)
    press(browser, "1")
    status = find_part(browser, "status")
    assert status.get_attribute("aria-live") == "polite"
    assert "line 0: cat" in status.get_attribute("textContent")
    assert "Row 2 of 2" in status.get_attribute("textContent")


def test_form_without_script_lists_all_rows(tmp_path: Path) -> None:
    page = render_sheet(make_sheet(3), LABELS)
    assert page.count("<li>") == 3 and '<section id="answering" hidden>' in page
    assert ATTACK not in page
