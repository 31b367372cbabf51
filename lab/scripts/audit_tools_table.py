"""Hits and false alarms of other tools and of ``logit-correction audit``, side by side.

    python lab/scripts/audit_tools_table.py --tools DIR --out lab/results/audit
    python lab/scripts/audit_tools_table.py --out lab/results/audit    # after more of audit.py: the tools as they are

``DIR`` has what ``audit_tools.py`` wrote, the output folder what ``audit.py`` wrote, as far as they are there. Writes
``tools.json``, with all scores and a row for each set and tool, and ``tools.md``.

A hit is a flag on a property that the planted mark changes, whatever else is flagged (``PROPERTIES``, drawn widely).
Any flag on a control, where the marks are at random, is a false alarm.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from logit_correction.files import replacing
from logit_correction_lab.sources.reviews import SIGNATURES, TOPICS

COLOUR = {"Mean Red Relative Intensity", "Mean Green Relative Intensity", "Mean Blue Relative Intensity", "grayscale"}
BRIGHTNESS = {"Brightness", "RMS Contrast", "dark", "light", "low_information"}
DETAIL = {"blurry", "RMS Contrast", "low_information"}

#: Set of images -> properties that its mark changes, or might.
PROPERTIES = {
    "cast": COLOUR | BRIGHTNESS,
    "corner": BRIGHTNESS,
    "frame": BRIGHTNESS,
    "blur": DETAIL,
    "noise": DETAIL,
    "jpeg": DETAIL,
    "texture": DETAIL,
    "light": BRIGHTNESS,
    "digits": COLOUR | BRIGHTNESS,
    "mnist": COLOUR | BRIGHTNESS,
}
#: Set of a table -> its planted column.
COLUMNS = {"column": "form_version", "scanner": "scanner_kv"}
#: Set of texts -> words that the first two marks bring along.
WORDS = {
    "signature": {word for line in SIGNATURES[:2] for word in re.findall(r"\w+", line.lower())},
    "topic": {word for topic in list(TOPICS)[:2] for word in (topic, *TOPICS[topic])},
}
#: Properties of texts that tell the label itself, a sentiment.
OF_THE_LABEL = {"Sentiment", "Subjectivity"}

IMBALANCED = "photos-four-fifths"
SETS = (*PROPERTIES, *WORDS, *COLUMNS)
TOOLS = {"cleanlab": "cleanlab", "deepchecks": "Deepchecks", "giskard": "Giskard"}
OURS = "logit-correction audit"

INTRODUCTION = """# Hits and false alarms beside other tools

The training rows of the planted sets and their controls, inputs and labels alone, data seed 0. Each tool is used as its
documentation says and flags by its own default condition. Each is made for more than this:

- **cleanlab** finds mislabelled rows, outliers and duplicates. Its check of spurious correlations is for images and
  looks at seven properties of a whole image: dark, light, blurry, low information, grey, odd size, odd aspect ratio.
  Colour, place and direction are none of them. It has no such check of texts or tables.
- **Deepchecks** runs suites of checks on data and models. The check that is meant here scores how well one property
  predicts the label: brightness, contrast, size and intensities of the colours of an image; length, sentiment and the
  like of a text; each column of a table.
- **Giskard** scans a model for weaknesses. Its detector of spurious correlations names columns, values and words that
  go with the model's predictions. Version 2 scans texts and tables; its extension for images was not tried.

"hit": a flag on a property that the planted mark changes. "another": flags, but none of these. "false alarm": a flag on
a control. "–", or a verdict of the audit such as "cannot tell": nothing flagged. Empty: the tool has no such check, or
has not been run on the set.
"""

NOTES = """## Notes

- cleanlab compares the accuracy of a property with a baseline. In 2.9.0 that is the *number* (index) of the most
  frequent label divided by the rows, not its count (`_get_baseline` in `spurious_correlation.py`): about 0. The score
  is therefore one minus the accuracy, and where one label has more than 70 % of the rows a property that tells nothing
  falls below 0.3, as above the size, which is the same in all images. By the formula with the count it would score 1.
  In the planted sets of images labels are about equally frequent, so that with the count none is flagged either (the
  lowest, `dark` of mnist, 0.33, becomes 0.37).
- Deepchecks' check of tables draws its folds anew in every run, so that a score near the threshold of 0.8 is flagged in
  some runs only, as in scanner. Single runs disagreed, so it was run 50 times, and what counts is most of them; where
  that is a bare majority, take it for a draw.
- Deepchecks flags `Sentiment` in reviews that are labelled by sentiment, planted or not. By the rule that is a false
  alarm on a control, but a reader would dismiss it at once. It does not count as a hit.
- Deepchecks' properties of texts need a language model that is downloaded at first use. There was no network, so it was
  given the seven default properties that need none; language, words per sentence, reading ease and lexical density are
  missing. `ImagePropertyOutliers` reads no labels, and `IdentifierLabelCorrelation` wants an index or a date, which
  these sets have not: neither was run. torchvision's compiled operators did not load and were declared by hand; no
  check here uses them.
- Giskard flags honest strong columns of breast cancer (`worst radius` and others) with and without `scanner_kv`: it
  reports association, and which of them is an accident is for a person to say. It needs a model; a logistic regression
  on columns or TF-IDF was taken. Its detector of data leakage, which was run too, tests whether the output for a row
  depends on the rows beside it; it reported nothing.
- The versions that pip chose first did not work together: Deepchecks 0.19.1 with scikit-learn 1.9 ("'max_error' is not
  a valid scoring value"), Giskard 2.19.2 with pandas 3 ("'str' object has no attribute 'decode'", on texts).
"""


def tells(name: str, flag: str) -> bool:
    """Return whether a flag of a tool, on the set ``name``, is one on what is planted there."""
    if name in PROPERTIES:
        return flag in PROPERTIES[name]
    if name in COLUMNS:
        return re.search(rf"\b{COLUMNS[name]}\b", flag) is not None
    word = re.search(r'contains "(.+)"', flag)
    return flag not in OF_THE_LABEL if word is None else word[1] in WORDS[name]


def judged(name: str, control: bool, found: dict[str, Any]) -> dict[str, Any]:
    """Return what a finding is: ``hit``, ``another``, ``false alarm``, ``nothing``, ``error`` or ``no check``."""
    if "error" in found:
        return {"outcome": "no check" if found["error"].startswith("no such check") else "error"}
    flags = list(found["flagged"])
    planted = [] if control else [flag for flag in flags if tells(name, flag)]
    outcome = "false alarm" if control and flags else "hit" if planted else "another" if flags else "nothing"
    return {"outcome": outcome, "planted": planted, "others": [flag for flag in flags if flag not in planted]}


def ours(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict of an audit in the same words."""
    shortcut, named = entry["verdict"] == "shortcut", bool(entry.get("named"))
    if entry["control"]:
        outcome = "false alarm" if shortcut else "nothing"
    else:
        outcome = "nothing" if not shortcut else "hit" if named else "another"
    views = entry["views"] if shortcut else []
    return {"outcome": outcome, "planted": views if outcome == "hit" else [],
            "others": [] if outcome == "hit" else views, "verdict": entry["verdict"]}  # fmt: skip


def cell(row: dict[str, Any] | None) -> str:
    """Return a row as a cell of the table."""
    if row is None or row["outcome"] == "no check":
        return ""
    often = row.get("runs that flag", {})
    runs = [f"{name} in {count} of {row['runs']} runs" for name, count in often.items() if count < row["runs"]]
    if row["outcome"] == "error":
        return str(row["error"])
    if row["outcome"] == "nothing":
        told = row.get("verdict", "–")
        return f"{told} ({', '.join(runs)})" if runs else told
    strongest = (row["planted"] or row["others"])[0].replace("`", "").replace("|", "\\|")
    score = row.get("flagged", {}).get((row["planted"] or row["others"])[0])
    more = len(row["planted"]) + len(row["others"]) - 1
    shown = f"{strongest} {score:.2f}" if score is not None else strongest
    return (
        f"{row['outcome']}: {shown}" + (f" and {more} more" if more else "") + (f" ({', '.join(runs)})" if runs else "")
    )


def tally(rows: list[dict[str, Any]], tool: str) -> str:
    """Return how many sets a tool has looked at, its hits and its false alarms."""
    looked = [row for row in rows if row["tool"] == tool and row["outcome"] not in ("no check", "error")]
    planted = [row for row in looked if not row["control"]]
    controls = [row for row in looked if row["control"]]
    hits = sum(row["outcome"] == "hit" for row in planted)
    alarms = sum(row["outcome"] == "false alarm" for row in controls)
    return f"| {tool} | {hits} of {len(planted)} | {alarms} of {len(controls)} |"


def page(rows: list[dict[str, Any]], tools: dict[str, Any]) -> str:
    """Return the page."""
    names = [*TOOLS.values(), OURS]
    place = {(row["set"], row["control"], row["tool"]): row for row in rows}
    lines = [INTRODUCTION, f"| set | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|"]
    for control in (False, True):
        for name in SETS:
            cells = [cell(place.get((name, control, tool))) for tool in names]
            lines.append(f"| {name}{', control' if control else ''} | {' | '.join(cells)} |")
    lines += ["", "| | hits, of sets looked at | false alarms, of their controls |", "|---|---|---|"]
    lines += [tally(rows, tool) for tool in names]
    lines += ["", "## Labels of unequal size", ""]
    lines += [
        "Photos in which nothing is planted; four fifths of the rows bear the first label. The audit "
        "was not run on them.",
        "",
    ]
    for tool, about in tools.items():
        found = about["sets"].get(IMBALANCED, {"error": "not run"})
        if "error" not in found:
            flags = ", ".join(f"{flag} {score:.2f}" for flag, score in found["flagged"].items()) or "nothing"
            lines.append(f"- {tool} flags {len(found['flagged'])} of {len(found['scores'])} properties: {flags}.")
    lines += ["", NOTES, "## Versions", ""]
    for tool, about in tools.items():
        packages = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
        lines.append(f"- {tool}, {about['date']}: `{about['command']}`; {packages}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Judge what is there and write both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    tools = measured(options.tools, options.out)
    file = options.out / "audit.json"
    rows = rows_of(tools, json.loads(file.read_text())["sets"] if file.is_file() else [])
    with replacing(options.out / "tools.json") as temporary:
        temporary.write_text(json.dumps({"rows": rows, "tools": tools}, indent=1) + "\n")
    with replacing(options.out / "tools.md") as temporary:
        temporary.write_text(page(rows, tools))


def measured(folder: Path | None, out: Path) -> dict[str, Any]:
    """Return what the tools found, by their titles: of ``folder``, else of the page that is there."""
    if folder is None:
        return json.loads((out / "tools.json").read_text())["tools"]
    files = {title: folder / f"{tool}.json" for tool, title in TOOLS.items()}
    return {title: json.loads(file.read_text()) for title, file in files.items() if file.is_file()}


def rows_of(tools: dict[str, Any], audits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each set and tool, and for each set that has been audited with data seed 0."""
    rows = []
    for title, about in tools.items():
        for name in SETS:
            for control in (False, True):
                found = about["sets"].get(f"{name}{'-control' if control else ''}")
                if found is not None:
                    row = {"set": name, "control": control, "tool": title} | judged(name, control, found)
                    kept = ("error", "flagged", "runs", "runs that flag")
                    rows.append(row | {key: found[key] for key in kept if key in found})
    return rows + [
        {"set": audit["set"], "control": audit["control"], "tool": OURS} | ours(audit)
        for audit in audits
        if audit["seed"] == 0
    ]


if __name__ == "__main__":
    main()
