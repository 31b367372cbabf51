"""Messages name an option as their reader types it: the argument in Python, the flag on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from logit_correction import train
from logit_correction.errors import InputError
from logit_correction.runs.options import complete_config


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A table with free texts, a number and a label."""
    file = tmp_path / "notes.csv"
    texts = [f"note number {row} of a patient" for row in range(300)]
    pd.DataFrame({"note": texts, "age": range(300), "ill": ["yes", "no"] * 150}).to_csv(file, index=False)
    return file


@pytest.mark.parametrize(
    ("options", "argument", "flag"),
    [
        ({"features": ["note"]}, "give it as `text`", "give it as --data.text"),
        ({"features": ["age"], "numbers": ["note"]}, "`numbers='note'` is", "--data.numbers note is"),
        ({"features": ["age"], "valid_fraction": 2}, "`valid_fraction` is 2", "--data.valid_fraction is 2"),
        (
            {"features": ["age"], "decimals": ","},
            "option `decimals` (did you mean `decimal`?)",
            "(did you mean --data.decimal?)",
        ),
    ],
)
def test_message_names_a_data_option_as_argument_or_flag(
    options: dict[str, Any], argument: str, flag: str, notes: Path, run_command: Any, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        train({"name": "Table", "file": notes, "label": "ill", **options}, out=tmp_path / "run", method="ERM")
    assert argument in str(caught.value) and "--" not in str(caught.value)
    words = [
        f"--data.{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in options.items()
    ]
    result = run_command(
        "train", "--data", notes, "--data.label=ill", *words, "--method", "ERM", "--out", tmp_path / "run"
    )
    assert result.status == 2 and flag in result.err and "`" not in result.err


def test_message_names_training_and_command_options_as_argument_or_flag(run_command: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`epochs` is 0, but must be at least 1"):
        complete_config({"data": "Digits", "epochs": 0})
    assert (
        "--epochs is 0, but must be at least 1"
        in run_command("train", "--data", "Digits", "--epochs", "0", "--out", "x").err
    )
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"`out='.*file'` is a file: give a folder"):
        train("Digits", out=tmp_path / "file")
    result = run_command("train", "--data", "Digits", "--out", tmp_path / "file")
    assert f"--out {tmp_path / 'file'} is a file: give a folder" in result.err
    result = run_command("audit", "--data", "Digits", "--new-rows", tmp_path / "none", "--out", tmp_path / "audit")
    assert f"--new-rows {tmp_path / 'none'} does not exist" in result.err


def test_python_messages_name_arguments_after_a_command_has_run(run_command: Any) -> None:
    run_command("list", "nothing")
    with pytest.raises(InputError, match="`epochs` is 0"):
        complete_config({"data": "Digits", "epochs": 0})
