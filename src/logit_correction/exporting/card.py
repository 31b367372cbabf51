"""The model card: what the model is, how well it does group by group, and which labels were read for that."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from logit_correction.errors import format_list, format_percent
from logit_correction.pages.estimated import names_attributes, sides
from logit_correction.sentences import answer

#: What stands for a repository that nobody has named.
PLACE = "OWNER/NAME"

#: Most groups that the card lists, the least accurate first.
MOST_GROUPS = 50

_TASKS = {
    "images": "image-classification",
    "columns": "tabular-classification",
    "numbers": "tabular-classification",
    "words": "text-classification",
    "tokens": "text-classification",
}
_ROWS = {
    "images": "a list of image files, or an array of bytes `(n, channels, height, width)`",
    "columns": "a data frame with the columns of training",
    "numbers": "an array of numbers, a row each",
    "words": "a list of texts",
    "tokens": "a list of texts",
}
_METRICS = {
    "worst_group": "worst-group accuracy",
    "group_balanced": "group-balanced accuracy",
    "average": "average accuracy",
}
_LICENCE = "# license: choose one, https://huggingface.co/docs/hub/repositories-licenses\n"


def model_card(settings: Mapping[str, Any], repository: str) -> str:
    """Return the text of the model card: YAML in front, then Markdown. All text of users is escaped.

    Args:
        settings: Content of ``config.json``.
        repository: OWNER/NAME.
    """
    report = settings["report"]
    parts = [
        f"---\n{_LICENCE}{_front_matter(settings, repository)}---\n",
        f"# {markdown(repository.rpartition('/')[2] if repository != PLACE else report['data']['name'])}",
        _what(settings),
        "## How well it does",
        _accuracy(report),
        "## Is there a shortcut?",
        _evidence(report),
        "## Which labels were read",
        _labels_read(report),
        "## Intended use",
        _use(settings),
        "## How to load it",
        _load(settings, repository),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def markdown(text: Any) -> str:
    r"""Return a text so that Markdown and HTML show it as it is, on one line and in a table too.

    >>> markdown("a|b <img src=x> [c](d)\n# e")
    'a\\|b &lt;img src=x&gt; \\[c\\]\\(d\\) \\# e'
    """
    line = html.escape(" ".join(str(text).split()), quote=False)
    return re.sub(r"([\\`*_\[\]()#|~$!{}])", r"\\\1", line)


def _front_matter(settings: Mapping[str, Any], repository: str) -> str:
    report = settings["report"]
    task = _TASKS[settings["input"]["kind"]]
    figures = [(name, report["test"].get(key)) for key, name in _METRICS.items()]
    metrics = [{"type": "accuracy", "name": name, "value": round(v, 4)} for name, v in figures if v is not None]
    data = " ".join(str(report["data"]["name"]).split())  # a line of its own could end the front matter
    dataset = {"name": data, "type": re.sub(r"[^a-z0-9_.-]+", "-", data.lower()).strip("-") or "data", "split": "test"}
    result = {"task": {"type": task}, "dataset": dataset, "metrics": metrics}
    content: dict[str, Any] = {
        "library_name": settings["library_name"],
        "pipeline_tag": task,
        "tags": ["logit-correction", "group-robustness", "spurious-correlation", str(report["method"])],
        "metrics": ["accuracy"],
    }
    if metrics:
        name = repository.rpartition("/")[2] if repository != PLACE else f"{report['method']} on {data}"
        content["model-index"] = [{"name": name, "results": [result]}]
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def _what(settings: Mapping[str, Any]) -> str:
    report, labels = settings["report"], [markdown(name) for name in settings["label_names"]]
    shown = format_list(labels) if len(labels) <= 20 else f"{', '.join(labels[:20])} and {len(labels) - 20} more"
    trained = (report["data"].get("rows") or {}).get("train")
    size = f" on {trained:,} training rows" if trained else ""
    return (
        f"A classifier of {len(labels)} labels, {shown}, trained by {markdown(report['method'])}{size} of "
        f"{markdown(report['data']['name'])} with [logit-correction](https://pypi.org/project/logit-correction/) "
        f"{markdown(settings['library_version'])}."
    )


def _accuracy(report: Mapping[str, Any]) -> str:
    """Return the table of groups, named or estimated, and the figures over them."""
    test = report["test"]
    named = names_attributes(test)
    parts = []
    if not named:
        parts.append("The test rows name no attribute, so accuracy is by label.")
    parts.append(_table(test["groups"], "attribute" if named else None))
    figures = [f"{name} {format_percent(test[key], 1)}" for key, name in _METRICS.items() if test.get(key) is not None]
    parts.append(f"On the test split: {', '.join(figures)}." if figures else "")
    estimated = test.get("estimated")
    if estimated and not named:
        parts.append(
            f"By estimated groups ({markdown(estimated.get('source'))}; nobody named these attributes): where the "
            "estimated attribute agrees with the label, and where it conflicts with it."
        )
        parts.append(_table(sides(estimated["groups"]), "estimated attribute"))
    return "\n\n".join(part for part in parts if part)


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


def _evidence(report: Mapping[str, Any]) -> str:
    evidence = report.get("evidence")
    if not evidence:
        return "Nobody looked for one in this training."
    return f"{markdown(answer(evidence))}. {markdown(evidence['sentence'])}"


def _labels_read(report: Mapping[str, Any]) -> str:
    read = report.get("labels_read") or {}
    lines = ["| split | read |", "|---|---|"]
    lines += [
        f"| {markdown(split)} | {markdown(format_list(list(what)) or 'nothing')} |" for split, what in read.items()
    ]
    selection = report.get("selection") or {}
    rule = f"Epoch {selection.get('epoch')} was kept, by the rule `{selection.get('rule')}`." if selection else ""
    return "\n".join(lines) + (f"\n\n{rule} No checkpoint was selected on the test split." if rule else "")


def _use(settings: Mapping[str, Any]) -> str:
    return (
        "To classify rows of the kind that it was trained on, by these labels. The figures are of one test split: "
        "where rows are drawn otherwise, group by group accuracy tells more than the average, and groups that the test "
        "has few rows of have wide intervals. What the model leans on beside what is named here is not known. Judge "
        "it on rows of your own before you rely on it: `logit-correction evaluate FOLDER --on ROWS`.\n\n"
        "To do: say for what the model is meant, and for what it is not."
    )


def _load(settings: Mapping[str, Any], repository: str) -> str:
    rows = _ROWS[settings["input"]["kind"]]
    trust = ""
    if _names_code(settings["run"]):
        trust = (
            "\n\n`config.json` names classes of its maker's own, which have to be installed; "
            "`load(folder, trust_code=True)` imports them. They may do anything that you may."
        )
    return (
        "```bash\npip install 'logit-correction[hub]'\n```\n\n```python\n"
        "from huggingface_hub import snapshot_download\nfrom logit_correction import load\n\n"
        f'model = load(snapshot_download("{repository}"))\n'
        "model.predict(rows)  # names of labels\nmodel.predict_proba(rows)\n```\n\n"
        f"`rows` are {rows}. The preparation of the inputs is part of the folder. Weights are read from a safetensors "
        f"file, without pickle.{trust}"
    )


def _names_code(value: Any) -> bool:
    """Return whether a config names a class by a dotted path."""
    if not isinstance(value, Mapping):
        return False
    name = value.get("name")
    return (isinstance(name, str) and "." in name) or any(_names_code(part) for part in value.values())
