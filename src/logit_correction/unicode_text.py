"""Text of users' files in one form, so that two names that look alike are equal, and names that can be printed."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Literal

#: Characters that are not displayed, for ``str.translate``: soft hyphen, spaces of zero width, marks of direction.
INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\ufe0e\ufe0f\ufeff"))


def escape_undecodable(name: str | Path) -> str:
    r"""Return a file's name with each byte that is not UTF-8 as an escape sequence, so that it can be written.

    >>> escape_undecodable("caf\udce9.png")
    'caf\\udce9.png'
    """
    return str(name).encode("utf-8", "backslashreplace").decode()


def normalize_text(text: str, form: Literal["NFC", "NFKC"] = "NFC") -> str:
    r"""Return a text in a normal form of Unicode, without invisible characters.

    Names of labels, columns and files that look alike become equal. Half of a surrogate pair, which a cut emoji
    leaves, is escaped, since no file can hold it.

    Args:
        text: Any text.
        form: Unicode's normal form. "NFC" joins letters and their accents. "NFKC" also replaces letters of another
            width or style by plain ones, for comparing words.

    >>> normalize_text("cafe\u0301\u200b"), normalize_text("\ufeff\uff21", "NFKC"), normalize_text("good \ud83d")
    ('café', 'A', 'good \\ud83d')
    """
    if text.isascii():
        return text
    return unicodedata.normalize(form, escape_undecodable(text)).translate(INVISIBLE)
