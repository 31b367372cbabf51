"""``report.json``: any content is read, or refused by name."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from logit_correction.errors import InputError
from logit_correction.evaluation.report import GroupReport, GroupRow, Predictions, Report, get_metrics
from logit_correction.finding import Finding
from logit_correction.finding_text import finding_to_dict


@pytest.fixture
def content() -> dict[str, Any]:
    rows = Predictions(
        index=range(4), label=[0, 0, 1, 1], logits=[[1.0, 0.0]] * 3 + [[0.0, 1.0]], label_names=["cat", "dog"],
        attribute=[0, 1, 0, 0], attribute_names=["sofa", "lawn"],
    )  # fmt: skip
    return {
        "method": "LC",
        "data": {
            "name": "Table", "rows": {"train": 9}, "label_names": ["cat", "dog"], "attribute_names": ["sofa", "lawn"],
            "counts": {"train": [[4, 1], [1, 3]]}, "input_shape": [3],
        },
        "seed": 0,
        "test": GroupReport.from_predictions(rows).to_dict(),
        "evidence": finding_to_dict(Finding("shortcut", ("colour",), user_named=True)) | {"new": 1},
        "group_prior": {"estimated": [[0.5, 0.5], [0, 0]], "label_names": ["a", "b"], "attribute_names": ["c", "d"]},
        "warnings": ["look"],
    }  # fmt: skip


def replace_entry(content: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    content = copy.deepcopy(content)
    inside: Any = content
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = value
    return content


def write_and_read_report(content: dict[str, Any], folder: Path) -> Report:
    (folder / "report.json").write_text(json.dumps(content, allow_nan=False))
    return Report.read(folder)


def test_report_is_read_as_written(content: dict[str, Any], tmp_path: Path) -> None:
    report = write_and_read_report(content, tmp_path)
    report_dict = report.to_dict()
    assert write_and_read_report(report_dict, tmp_path).to_dict() == report_dict
    assert report.test.to_dict() == content["test"] and report.evidence == content["evidence"]
    assert report.test.groups["accuracy"].isna().tolist() == [False, False, False, True]
    assert list(report.test.groups) == list(get_metrics(GroupRow))


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        (("method",), None, "method is None, but must be str"),
        (("data",), {"name": "Table"}, "DataSummary.*missing .*'rows'"),
        (("test", "groups"), "x", "test.groups is 'x', but must be list"),
        (("test", "groups", 0, "count"), "x", ".*'x'.*column 'count'"),
    ],
)
def test_wrong_entry_is_named(content: dict[str, Any], place: Any, value: Any, expected: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"report\.json cannot be read \({expected}.*\): put a copy"):
        write_and_read_report(replace_entry(content, place, value), tmp_path)
