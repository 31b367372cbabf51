"""The model card: figures, evidence and labels read; nothing of a user's text is taken for markup."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from logit_correction import export
from logit_correction.exporting.card import markdown, model_card

EVIL = ["<script>alert(1)</script>", "a | b\n# head", "[link](javascript:x)"]


def group(label: str, attribute: str | None, accuracy: float, count: int = 50) -> dict[str, Any]:
    return {"label": label, "attribute": attribute, "count": count, "correct": int(count * accuracy), "minority": False,
            "accuracy": accuracy if count else None, "low": accuracy / 2, "high": 1.0}  # fmt: skip


def settings(named: bool = True) -> dict[str, Any]:
    groups = [group(EVIL[0], EVIL[1] if named else None, 0.9), group(EVIL[1], EVIL[2] if named else None, 0.5)]
    groups.append(group("nothing", "at all" if named else None, 0.0, count=0))
    test = {"groups": groups, "average": 0.7, "worst_group": 0.5 if named else None, "group_balanced": None}
    estimated = [group(EVIL[0], "that of x", 0.8), group(EVIL[0], "that of y", 0.3) | {"minority": True}]
    test["estimated"] = None if named else {"source": EVIL[2], "groups": estimated}
    return {
        "library_name": "logit-correction",
        "library_version": "1.0",
        "label_names": EVIL,
        "input": {"kind": "images"},
        "run": {"data": {"name": "Table"}, "method": {"name": "ERM"}, "network": {"name": "mine.Net"}},
        "report": {
            "method": "LC",
            "data": {"name": "---\nlicense: mit\n---", "rows": {"train": 1200}},
            "evidence": {"verdict": "shortcut", "sentence": f"{EVIL[0]} tells the label.", "views": ["colour"]},
            "labels_read": {"train": ["label"], "test": ["label", "attribute"]},
            "selection": {"rule": "last", "epoch": 7},
            "test": test,
        },
    }


@pytest.mark.parametrize("named", [True, False])
def test_the_card_says_what_is_known_and_escapes_names(named: bool) -> None:
    card = model_card(settings(named), "me/mine")
    _, front, body = re.split(r"^---\n", card, maxsplit=2, flags=re.MULTILINE)
    facts = yaml.safe_load(front)
    assert facts["library_name"] == "logit-correction" and "license" not in facts and "# license:" in front
    assert facts["pipeline_tag"] == "image-classification" and "LC" in facts["tags"]
    (result,) = facts["model-index"][0]["results"]
    figures = {one["name"]: one["value"] for one in result["metrics"]}
    assert figures == ({"worst-group accuracy": 0.5} if named else {}) | {"average accuracy": 0.7}
    assert body.count("<") == 0 and "[link]" not in body and "\n# head" not in body
    assert "&lt;script&gt;" in body and r"a \| b \# head" in body
    rows = [line for line in body.splitlines() if line.startswith("|") and "50" in line]
    assert len(rows) == (2 if named else 4) and "nothing" not in body
    assert rows[0].startswith(r"| a \| b") and "| 50.0" in rows[0]  # the least accurate first
    assert ("conflicts" in body) is not named
    assert "tells the label" in body and "| test | label and attribute |" in body and "rule `last`" in body
    assert 'snapshot_download("me/mine")' in body and "trust_code=True" in body


def test_markdown_shows_a_text_as_it_is() -> None:
    assert markdown("a*b_c`d`\n\n- e ~f~ $g$ \\h") == r"a\*b\_c\`d\` - e \~f\~ \$g\$ \\h"


def test_the_hub_reads_the_card(case_of: Any, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    hub = pytest.importorskip("huggingface_hub")
    folder = export(case_of("columns").run, "hub", tmp_path / "out", repository="me/people")
    card = hub.ModelCard.load(folder / "README.md")
    assert card.data.library_name == "logit-correction" and card.data.license is None
    assert card.data.pipeline_tag == "tabular-classification"
    (result, *_) = card.data.eval_results
    assert result.dataset_name == "Table" and 0 <= result.metric_value <= 1
    assert card.text.lstrip().startswith("# people") and "a data frame with the columns of training" in card.text
