"""Dates as people write them: 31.12.2024, 12/31/2024 2:30 PM or 2024/12/31, rewritten as 2024-12-31 14:30; and times.

Whether the day or the month comes first is found by a whole column, since 08/11/2024 alone may be either: one row with
28 in the first place proves the order. Where both orders fit all rows nothing is guessed, and the user is asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from logit_correction.formatting import format_option, format_row_count

#: What stands first in dates that a column holds; both orders fit all of its rows, or each fits some alone.
DateOrder = Literal["day", "month", "either", "both", ""]

#: The share of a column that decides on what it holds.
MOST = 0.9

#: A date whose year stands last; and one whose year stands first.
YEAR_LAST = re.compile(r"^(\d\d?)([./-])(\d\d?)\2(\d{4})(?!\d)")
YEAR_FIRST = re.compile(r"^(\d{4})([./-])(\d\d?)\2(\d\d?)(?!\d)")

#: The start of a text that may be a date.
DATE_START = re.compile(r"\d{1,4}[./-]\d")

#: What stands first in dates whose year stands last -> these dates with the year first.
ISO_FORMS = {"day": r"\4-\3-\1", "month": r"\4-\1-\3"}

#: A time of day of the twelve hours before or after noon.
HALF_DAY_TIME = re.compile(r"(\d\d?)(:\d\d(?::\d\d(?:\.\d+)?)?)\s*([AP])\.?M\.?", re.IGNORECASE)

#: A time of day without a date.
TIME = re.compile(r"(\d\d?):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")

#: A time of day with its zone, at the end of a text.
ZONE = re.compile(r":\d\d(?:\.\d+)?\s*(?:Z|[+-]\d\d:?\d*)$")

#: What to do about dates that could not be read, by what stands first in them.
DATE_REMEDIES: dict[DateOrder, str] = {
    "either": "both orders fit all rows, so give {dayfirst} true or false, or write 2024-12-31",
    "both": "some rows have the day first and some the month, so write all as 2024-12-31",
    "day": "the day stands first in some rows, so give {dayfirst} true, or write 2024-12-31",
    "month": "the month stands first in some rows, so give {dayfirst} false, or write 2024-12-31",
    "": "write 2024-12-31",
}

#: Dates that are closer together count as one when a date far from all others is sought.
DAYS_OF_YEAR = 366


def infer_date_order(texts: Sequence[str]) -> DateOrder:
    """Return what stands first in most of the texts, by those in which one part alone can be a month.

    >>> infer_date_order(["04/28/2024", "08/11/2024"]), infer_date_order(["2024-04-28"])
    ('month', '')
    >>> infer_date_order(["08/11/2024"])
    'either'
    """
    matches = [match for text in texts if (match := YEAR_LAST.match(text))]
    if not matches or len(matches) < MOST * len(texts):
        return ""
    day_first = sum(int(match[1]) > 12 for match in matches)
    month_first = sum(int(match[3]) > 12 for match in matches)
    if not day_first + month_first:
        return "either"
    if day_first >= MOST * (day_first + month_first):
        return "day"
    return "month" if month_first >= MOST * (day_first + month_first) else "both"


def have_zones(texts: Sequence[str]) -> bool | None:
    """Return whether texts name their time zone; None if some do and some do not.

    >>> have_zones(["2024-01-01 10:00Z"]), have_zones(["2024-01-01 10:00Z", "2024-01-01"])
    (True, None)
    """
    is_zoned = {ZONE.search(text) is not None for text in texts}
    return is_zoned.pop() if len(is_zoned) == 1 else None


def describe_date_remedy(written_order: DateOrder, order: DateOrder) -> str:
    """Return what to do about dates that could not be read.

    Args:
        written_order: What stands first in them.
        order: In what order they were read.
    """
    if written_order == order and order in ("day", "month"):
        return "write its time as 14:30"
    return DATE_REMEDIES[written_order].format(dayfirst=format_option("data.dayfirst"))


def describe_dates(texts: Sequence[str], days: NDArray[np.float64], order: DateOrder) -> dict[str, str]:
    """Return what users should know of a column of dates: key of ``features.NOTES`` -> an example; empty for none.

    Args:
        texts: The cells of the column as they were written, without gaps.
        days: (n,) its dates as days since 1970, NaN for gaps.
        order: In what order they were read.
    """
    written = [match[0] for text in texts if (match := YEAR_LAST.match(text)) and match[1] != match[3]]
    num_zoned = sum(ZONE.search(text) is not None for text in texts)
    example = format_days(parse_days(pd.Series(written[:1], dtype=object), order)[0]) if order and written else ""
    return {
        order: example and f" ({written[0]} is {example})",
        "zone": f" in {num_zoned:,} of {format_row_count(len(days))}" if 0 < num_zoned < len(texts) else "",
        "far": describe_outlying_date(days),
    }


def parse_days(values: pd.Series[Any], order: DateOrder = "") -> NDArray[np.float64]:
    """Return the days since 1970 of dates, or of texts such as 2024-12-31 14:30; NaN for others.

    Args:
        values: A column.
        order: What stands first in dates whose year stands last.

    >>> parse_days(pd.Series(["01/02/1970 12:00 PM", "31/01/1970", "1970/1/2"]), "month").tolist()
    [1.5, nan, 1.0]
    """
    if values.dtype.kind != "M":
        texts = _convert_to_texts(values)
        texts = texts[texts.str.match(DATE_START)].str.split().str.join(" ")
        texts = texts.str.replace(YEAR_FIRST, r"\1-\3-\4", regex=True)
        if order in ISO_FORMS:
            texts = texts.str.replace(YEAR_LAST, ISO_FORMS[order], regex=True)
        texts = texts.str.replace(HALF_DAY_TIME, _convert_to_24_hours, regex=True)
        texts = texts[texts.str.match(r"\d{4}-(?:\d\d|\d-)")]  # pandas would take "2024" for a date as well
        dates = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
        values = dates.reindex(range(len(values)))
    if values.dt.tz is not None:
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    seconds = values.to_numpy(dtype="datetime64[s]") - np.datetime64(0, "s")
    return np.asarray(seconds / np.timedelta64(1, "D"), dtype=np.float64)


def _convert_to_texts(values: pd.Series[Any]) -> pd.Series[str]:
    """Return the cells of a column as texts by their place; gaps are empty."""
    values = values.reset_index(drop=True)
    return values.astype(object).where(values.notna(), "").map(str).str.strip()


def parse_hours(values: pd.Series[Any]) -> NDArray[np.float64]:
    """Return the hours since midnight of times of day without a date, such as 14:30 or 2:30 PM; NaN for others.

    >>> parse_hours(pd.Series(["14:30", "2:30 PM", "1970-01-01 14:30"])).tolist()
    [14.5, 14.5, nan]
    """
    if values.dtype.kind in "iufbMm":
        return np.full(len(values), np.nan)
    texts = _convert_to_texts(values)
    texts = texts[texts.str.match(TIME)].str.replace(HALF_DAY_TIME, _convert_to_24_hours, regex=True)
    parts = texts[texts.str.fullmatch(TIME)].str.extract(TIME).astype(np.float64).reindex(range(len(values)))
    return np.asarray(parts[0] + parts[1] / 60 + parts[2].fillna(0) / 3600, dtype=np.float64)


def format_hours(hours: float) -> str:
    """Return hours since midnight as a time of day, such as 09:30; a dash for NaN."""
    if np.isnan(hours):
        return "–"
    minutes = int(hours * 60 + 1e-6)
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _convert_to_24_hours(time: re.Match[str]) -> str:
    """Return a match of ``HALF_DAY_TIME`` as a time of 24 hours; a time that does not exist as it is."""
    hour = int(time[1])
    if not 1 <= hour <= 12:
        return time[0]
    return f"{hour % 12 + (12 if time[3] in 'Pp' else 0):02}{time[2]}"


def format_days(days: float) -> str:
    """Return days since 1970 as a date, with the time of day unless it is midnight; a dash for NaN."""
    if np.isnan(days):
        return "–"
    text = str(np.datetime64(round(86400 * days), "s"))
    return text.removesuffix("T00:00:00").replace("T", " ")


def describe_outlying_date(days: NDArray[np.float64]) -> str:
    """Return the first or last date if the deviation without it is less than a tenth, else an empty text."""
    present = days[np.isfinite(days)]
    for end in (present.min(), present.max()) if len(present) else ():
        others = present[np.abs(present - end) > DAYS_OF_YEAR]
        if 2 * len(others) > len(present) and present.std() > 10 * max(float(others.std()), 1):
            return f" ({format_days(float(end))} in {format_row_count(len(present) - len(others))})"
    return ""
