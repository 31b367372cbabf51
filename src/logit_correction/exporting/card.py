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

#: What stands for a repository that nobody has named.
PLACE = "OWNER/NAME"

#: Most groups that the card lists, the least accurate first.
MOST_GROUPS = 50

#: Kind of input -> task, and what ``load(...).predict`` takes.
_KINDS = {
    "images": ("image-classification", "a list of image files, or an array of bytes `(n, channels, height, width)`"),
    "columns": ("tabular-classification", "a data frame with the columns of training"),
    "numbers": ("tabular-classification", "an array of numbers, a row each"),
    "words": ("text-classification", "a list of texts"),
    "tokens": ("text-classification", "a list of texts"),
}
_METRICS = {
    "worst_group": "worst-group accuracy",
    "group_balanced": "group-balanced accuracy",
    "average": "average accuracy",
}


def model_card(settings: Mapping[str, Any], repository: str) -> str:
    """Return the text of the model card: YAML in front, then Markdown. All text of users is escaped.

    Args:
        settings: Content of ``config.json``.
        repository: OWNER/NAME.
    """
    report, labels = settings["report"], [markdown(name) for name in settings["label_names"]]
    test, data, evidence = report["test"], report["data"], report.get("evidence")
    task, rows = _KINDS[settings["input"]["kind"]]
    figures = {name: test[key] for key, name in _METRICS.items() if test.get(key) is not None}
    dataset = " ".join(str(data["name"]).split())  # a line of its own could end the front matter
    name = repository.rpartition("/")[2] if repository != PLACE else f"{report['method']} on {dataset}"
    front: dict[str, Any] = {
        "library_name": settings["library_name"],
        "pipeline_tag": task,
        "tags": ["logit-correction", "group-robustness", "spurious-correlation", str(report["method"])],
        "metrics": ["accuracy"],
    }
    if figures:
        kind = re.sub(r"[^a-z0-9_.-]+", "-", dataset.lower()).strip("-") or "data"
        result = {
            "task": {"type": task},
            "dataset": {"name": dataset, "type": kind, "split": "test"},
            "metrics": [{"type": "accuracy", "name": one, "value": round(value, 4)} for one, value in figures.items()],
        }
        front["model-index"] = [{"name": name, "results": [result]}]
    named, estimated = names_attributes(test), test.get("estimated")
    tables = [_table(test["groups"], "attribute" if named else None)]
    if not named:
        tables.insert(0, "The test rows name no attribute, so accuracy is by label.")
    if figures:
        tables.append(f"Test split: {', '.join(f'{one} {format_percent(v, 1)}' for one, v in figures.items())}.")
    if estimated and not named:
        tables.append(
            f"By estimated groups ({markdown(estimated.get('source'))}): where the estimated attribute agrees with the "
            "label, and where it conflicts with it."
        )
        tables.append(_table(sides(estimated["groups"]), "estimated attribute"))
    read = [
        f"| {markdown(split)} | {markdown(format_list(list(what)) or 'nothing')} |"
        for split, what in (report.get("labels_read") or {}).items()
    ]
    shown = ", ".join(labels[:20]) + (f" and {len(labels) - 20} more" if len(labels) > 20 else "")
    parts = [
        f"# {markdown(name)}",
        f"A classifier of {len(labels)} labels ({shown}), trained by {markdown(report['method'])} on "
        f"{(data.get('rows') or {}).get('train', 0):,} rows of {markdown(dataset)} with logit-correction "
        f"{markdown(settings['library_version'])}.",
        "## How well it does",
        *tables,
        "## Is there a shortcut?",
        f"{markdown(answer(evidence))}. {markdown(evidence['sentence'])}"
        if evidence
        else "This training did not look.",
        "## Which labels were read",
        "\n".join(["| split | read |", "|---|---|", *read]),
        f"The epoch was chosen by {markdown(describe_selection(report['selection']))}, never on the test split."
        if report.get("selection")
        else "",
        "## Intended use",
        "To do: say what the model is for, and what not. The figures are of one test split; judge the model on rows of "
        "your own before you rely on it: `logit-correction evaluate FOLDER --on ROWS`.",
        "## How to load it",
        "```bash\npip install 'logit-correction[hub]'\n```\n\n```python\n"
        "from huggingface_hub import snapshot_download\nfrom logit_correction import load\n\n"
        f'model = load(snapshot_download("{repository}"))\nmodel.predict(rows)  # names of labels\n```',
        f"`rows` are {rows}; their preparation is part of the folder. Weights are read without pickle.",
    ]
    if _names_code(settings["run"]):
        parts.append(
            "`config.json` names classes of its maker's own, which have to be installed; "
            "`load(folder, trust_code=True)` imports them. They may do anything that you may."
        )
    licence = "# license: choose one, https://huggingface.co/docs/hub/repositories-licenses\n"
    start = f"---\n{licence}{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---\n\n"
    return start + "\n\n".join(filter(None, parts)) + "\n"


def markdown(text: Any) -> str:
    r"""Return a text so that Markdown and HTML show it as it is, on one line and in a table too.

    >>> markdown("a|b <img src=x> [c](d)\n# e")
    'a\\|b &lt;img src=x&gt; \\[c\\]\\(d\\) \\# e'
    """
    line = html.escape(" ".join(str(text).split()), quote=False)
    return re.sub(r"([\\`*_\[\]()#|~$!{}])", r"\\\1", line)


def _table(groups: Sequence[Mapping[str, Any]], attribute: str | None) -> str:
    """Return groups as a Markdown table, the least accurate first."""
    ordered = sorted((one for one in groups if one["count"]), key=lambda one: (one["accuracy"], str(one["label"])))
    names = ["label", *([attribute] if attribute else []), "rows", "accuracy", "95 % interval"]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for one in ordered[:MOST_GROUPS]:
        cells = [markdown(one["label"]), *([markdown(one["attribute"])] if attribute else []), f"{one['count']:,}"]
        interval = f"{format_percent(one['low'], 1, '')} to {format_percent(one['high'], 1, '')}"
        lines.append("| " + " | ".join([*cells, format_percent(one["accuracy"], 1), interval]) + " |")
    left = len(ordered) - MOST_GROUPS
    return "\n".join(lines) + (f"\n\nThe {left:,} most accurate groups are left out." if left > 0 else "")


def _names_code(value: Any) -> bool:
    """Return whether a config names a class by a dotted path."""
    if not isinstance(value, Mapping):
        return False
    name = value.get("name")
    return (isinstance(name, str) and "." in name) or any(_names_code(part) for part in value.values())
