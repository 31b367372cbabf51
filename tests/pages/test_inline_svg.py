from __future__ import annotations

from logit_correction.pages.html import inline_svg


def test_a_figure_takes_the_colours_of_the_page() -> None:
    start, shown = '<svg role="img" aria-label="a &gt; b"', '<text style="fill: #1d2430">x</text></svg>'
    assert inline_svg(f'{start} xmlns="urn:x" width="90pt" height="9pt" viewBox="0 0 90 9">{shown}') == (
        '<svg role="img" aria-label="a &gt; b" viewBox="0 0 90 9" style="--width: 90">'
        '<text style="fill: var(--ink)">x</text></svg>'
    )
