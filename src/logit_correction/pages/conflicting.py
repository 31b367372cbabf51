"""The rows that a run takes for bias-conflicting, as plain values for the template."""

from __future__ import annotations

from typing import Any

import numpy as np

from logit_correction.pages.evidence import found_shortcut, views_of
from logit_correction.pages.folder import Series
from logit_correction.pages.images import checked_uri, image_width

#: So many examples are shown.
_MOST_EXAMPLES = 24


def conflicting_rows(series: Series) -> dict[str, Any] | None:
    """Return what the page shows of the rows that a run takes for bias-conflicting; None where nobody looked."""
    report = series.runs[0].report
    found, evidence = report.get("estimated_minority"), report.get("evidence")
    if not found:
        return None
    examples = []
    for example in (found.get("examples") or [])[:_MOST_EXAMPLES]:
        uri = checked_uri(example.get("picture"))
        examples.append({"name": None, **example, "picture": uri, "small": uri is not None and image_width(uri) < 100})
    data = report["data"]
    total = (data.get("rows") or {}).get("train") or int(np.sum(data.get("counts", {}).get("train") or 0)) or None
    values = data.get("attribute_names") or ()
    known = bool(values) and all(example["estimated_attribute"] in values for example in examples)
    known = known and any(example.get("attribute") is not None for example in examples)
    like_labels = {f"that of {name}" for name in data.get("label_names") or ()}
    texts = any(example.get("name") and not example["picture"] for example in examples)
    return {
        "name": series.name,
        **found,
        "examples": examples,
        "total": total,
        "known": known,
        "like_label": all(example["estimated_attribute"] in like_labels for example in examples),
        "abstained": found_shortcut(evidence) is False,
        "unsure": evidence is not None and evidence.get("verdict") == "cannot tell",
        "source": report.get("attributes"),
        "views": views_of(evidence) if evidence and found_shortcut(evidence) else None,
        "attributed": bool(values),
        "texts": texts,
    }
