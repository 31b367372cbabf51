"""The model card: what the model is, how well it does group by group, and which labels were read for that."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from logit_correction.errors import format_list, format_percent
from logit_correction.pages.compare import names_attributes, sides
from logit_correction.sentences import answer, describe_selection

#: Kind of input -> task, and what ``load(...).predict`` takes.
_KINDS = {
    "images": ("image-classification", "a list of image files, or an array of bytes `(n, channels, height, width)`"),
    "columns": ("tabular-classification", "a data frame with the columns of training"),
    "numbers": ("tabular-classification", "an array of numbers, a row each"),
    "words": ("text-classification", "a list of texts"),
    "tokens": ("text-classification", "a list of texts"),
}

_HOW = """\
## Intended use

To do: say what the model is for, and what not. The figures are of one test split; judge the model on rows of your own
before you rely on it: `logit-correction evaluate FOLDER --on ROWS`.

## How to load it

```python
from huggingface_hub import snapshot_download
from logit_correction import load

model = load(snapshot_download("OWNER/NAME"))
model.predict(rows)  # names of labels
```

`rows` are ROWS; their preparation is part of the folder. Weights are read without pickle. If `config.json` names
custom classes, install them and call `load(folder, trust_code=True)`: they may do anything that you may."""


def model_card(report: Mapping[str, Any], kind: str) -> str:
    """Return the text of the model card, YAML in front, then Markdown; all text of users is escaped.

    Args:
        report: Content of ``report.json``.
        kind: What a row is, such as ``images``.
    """
    test, data, evidence = report["test"], report["data"], report["evidence"]
    labels, (task, rows) = ", ".join(map(markdown, data["label_names"])), _KINDS[kind]
    tags = ["logit-correction", "group-robustness", "spurious-correlation", str(report["method"])]
    front = {"library_name": "logit-correction", "pipeline_tag": task, "tags": tags, "metrics": ["accuracy"]}
    name = f"{report['method']} on {data['name']}"
    shown = {key: test[key] for key in ("worst_group", "group_balanced", "average") if test[key] is not None}
    named, estimated = names_attributes(test), test["estimated"]
    parts = [
        f"# {markdown(name)}",
        f"A classifier of the labels {labels}, trained by {markdown(report['method'])} on "
        f"{data['rows']['train']:,} rows of {markdown(data['name'])} with logit-correction "
        f"{markdown(report['environment']['version'])}.",
        "## How well it does",
        "" if named else "The test rows name no attribute, so accuracy is by label.",
        _table(test["groups"], "attribute" if named else ""),
        ", ".join(f"{key.replace('_', '-')} accuracy {format_percent(value, 1)}" for key, value in shown.items()),
    ]
    if estimated and not named:
        parts.append(
            f"By estimated groups ({markdown(estimated['source'])}): where the estimated attribute agrees with the "
            "label, and where it conflicts with it."
        )
        parts.append(_table(sides(estimated["groups"]), "estimated attribute"))
    if evidence:
        parts += ["## Is there a shortcut?", f"{markdown(answer(evidence))}. {markdown(evidence['sentence'])}"]
    read = [
        f"| {markdown(split)} | {markdown(format_list(list(what)) or 'nothing')} |"
        for split, what in report["labels_read"].items()
    ]
    parts += ["## Which labels were read", "\n".join(["| split | read |", "|---|---|", *read])]
    if report["selection"]:
        parts.append(f"The epoch was chosen by {markdown(describe_selection(report['selection']))}.")
    licence = "# license: choose one, https://huggingface.co/docs/hub/repositories-licenses\n"
    start = f"---\n{licence}{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---"
    return "\n\n".join(filter(None, [start, *parts, _HOW.replace("ROWS;", f"{rows};")])) + "\n"


def markdown(text: Any) -> str:
    r"""Return a text so that Markdown and HTML show it as it is, on one line and in a table too.

    >>> markdown("a|b <img src=x> [c](d)\n# e")
    'a\\|b &lt;img src=x&gt; \\[c\\]\\(d\\) \\# e'
    """
    line = html.escape(" ".join(str(text).split()), quote=False)
    return re.sub(r"([\\`*_\[\]()#|~$!{}])", r"\\\1", line)


def _table(groups: Sequence[Mapping[str, Any]], attribute: str) -> str:
    """Return groups as a Markdown table, the least accurate first."""
    names = ["label", *filter(None, [attribute]), "rows", "accuracy", "90 % interval"]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for one in sorted((one for one in groups if one["count"]), key=lambda one: (one["accuracy"], str(one["label"]))):
        cells = [markdown(one["label"]), *([markdown(one["attribute"])] if attribute else []), f"{one['count']:,}"]
        interval = f"{format_percent(one['low'], 1, '')} to {format_percent(one['high'], 1, '')}"
        lines.append("| " + " | ".join([*cells, format_percent(one["accuracy"], 1), interval]) + " |")
    return "\n".join(lines)
