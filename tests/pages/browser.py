"""A headless Chromium for tests of pages; tests that ask for it are skipped where it or Selenium is not installed."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def open_browser(downloads: Path, width: int = 1280) -> Iterator[Any]:
    """Yield a driver of a browser that saves downloads into a folder, and close it."""
    webdriver = pytest.importorskip("selenium.webdriver")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("Chromium and its driver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield opened
        # The console holds what the content security policy has blocked, and errors of the script.
        assert [entry for entry in opened.get_log("browser") if entry["level"] == "SEVERE"] == []
    finally:
        opened.quit()
