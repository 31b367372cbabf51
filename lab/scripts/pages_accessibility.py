"""Checks pages against WCAG 2.1 AA with axe-core, in Chromium: light, dark, and as wide as a phone.

    npm pack axe-core && tar xf axe-core-*.tgz
    pip install playwright
    python lab/scripts/pages_accessibility.py package/axe.min.js run/report.html audit/report.html

Prints a line for each violation, and ends with 1 if there is one. Parts that are folded away are unfolded first.
"""

from __future__ import annotations

import argparse
from pathlib import Path

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
LOOKS = ((1280, "light"), (1280, "dark"), (390, "light"))


def main() -> int:
    """Check the pages of the command line."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("axe", type=Path)
    parser.add_argument("pages", type=Path, nargs="+")
    parser.add_argument("--browser", default="/usr/bin/chromium")
    given = parser.parse_args()
    count = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=given.browser, args=["--no-sandbox"])
        for page in given.pages:
            for width, scheme in LOOKS:
                size = {"width": width, "height": 900}
                tab = browser.new_page(viewport=size, color_scheme=scheme, bypass_csp=True)
                tab.goto(page.resolve().as_uri())
                tab.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
                tab.evaluate(given.axe.read_text(encoding="utf-8"))
                found = tab.evaluate("tags => axe.run({runOnly: {type: 'tag', values: tags}})", TAGS)
                for one in found["violations"]:
                    print(f"{page}, {width} {scheme}: {one['id']}, {one['help']}: {one['nodes'][0]['html'][:120]}")
                count += len(found["violations"])
                tab.close()
        browser.close()
    print(f"{len(given.pages)} pages, {count} violations")
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main())
