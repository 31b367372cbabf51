"""``predict RUN -``: rows from standard input, answered as they come; and groups that are watched."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from logit_correction import train
from logit_correction.runs import stream as streams
from logit_correction.runs.run import Run
from logit_correction.runs.stream import StreamStopped, chunks_of_stream


def people(rows: int, seed: int, conflict: float = 0.1) -> pd.DataFrame:
    """A form's version that goes with the answer but for some rows, an age that tells it a little."""
    draw = np.random.default_rng(seed)
    answer = draw.integers(0, 2, rows)
    version = np.where(draw.random(rows) < conflict, 1 - answer, answer)
    age = 30 + 10 * answer + draw.normal(0, 8, rows)
    forms, answers = np.array(["old", "new"]), np.array(["no", "yes"])
    return pd.DataFrame({"answer": answers[answer], "form": forms[version], "age": age})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """LC on people, corrected by the version of the form."""
    folder = tmp_path_factory.mktemp("people")
    people(600, 0).to_csv(folder / "people.csv", index=False)
    data = {"name": "Table", "file": str(folder / "people.csv"), "label": "answer", "features": "*"}
    method = {"name": "LC", "attributes": {"name": "Auto", "shortcut": ["column:form"]}}
    network = {"name": "MLP", "hidden": [16]}
    options = {"epochs": 3, "batch_size": 64, "threads": 1, "device": "cpu", "page": False}
    return train(data, folder / "run", method=method, network=network, **options)


@pytest.fixture
def piped(command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Call ``predict`` with words, and with bytes as standard input."""

    def call(content: bytes, *words: object) -> Any:
        (tmp_path / "input").write_bytes(content)
        keep = os.dup(0)
        try:
            with (tmp_path / "input").open("rb") as file:
                os.dup2(file.fileno(), 0)
            return command("predict", *words)
        finally:
            os.dup2(keep, 0)
            os.close(keep)

    return call


def answers(outcome: Any) -> pd.DataFrame:
    assert (outcome.status, outcome.err) == (0, "")
    return pd.read_csv(io.StringIO(outcome.out))


def test_rows_of_a_csv_and_json_lines_are_answered_as_those_of_a_file(
    run: Run, piped: Any, command: Any, tmp_path: Path
) -> None:
    frame = people(1200, 1).drop(columns="answer")
    frame.to_csv(tmp_path / "new.csv", index=False)
    of_file = command("predict", run, tmp_path / "new.csv").out
    of_csv = piped((tmp_path / "new.csv").read_bytes(), run, "-")
    assert (of_csv.status, of_csv.out) == (0, of_file)
    semicolons = frame.to_csv(index=False, sep=";", lineterminator="\r\n").encode("utf-8-sig")
    assert piped(semicolons, run, "-").out == of_file
    of_lines = answers(piped(frame.to_json(orient="records", lines=True).encode() + b"\n\n", run, "-"))
    assert of_lines["line"].tolist() == list(range(1, 1201))
    np.testing.assert_allclose(of_lines.iloc[:, 2:], pd.read_csv(io.StringIO(of_file)).iloc[:, 2:], atol=1e-5)
    assert piped(b"", run, "-").out == ""


@pytest.mark.parametrize(
    ("content", "answered", "message"),
    [
        (b"form,age\nold,3\nnew,4\nold,old\nnew,5\n", 2, "row 4 of the stream: column 'age' holds 'old', which is no"),
        (b"form,age\nold,3\nold\n", 1, "row 3 of the stream: column 'age' is empty"),
        (b"form,age\nold,3,4\n", 0, "row 2 of the stream: it has 3 cells, but there are 2 columns"),
        (b"form\nold\n", 0, "row 2 of the stream: the table of new rows has no column 'age'"),
        (b"form,age\nold,3\n\xff\xfe,3\n", 1, "row 3 of the stream: it is not UTF-8"),
        (b'form,age\nold,3\n"old,3\n', 1, "row 3 of the stream: it is no row of a CSV"),
        (b'{"form": "old", "age": 3}\n{"form": "old", "age": \n', 1, "row 2 of the stream: it is no JSON"),
        (b'{"form": "old", "age": 3}\n7\n', 1, "row 2 of the stream: it is no JSON object or list"),
        (b'{"form": "old", "age": 3}\n{"form": "old", "age": null}\n', 1, "row 2 of the stream: column 'age' is empty"),
    ],
)
def test_a_bad_row_is_named_and_those_before_it_are_answered(
    content: bytes, answered: int, message: str, run: Run, piped: Any
) -> None:
    outcome = piped(content, run, "-")
    assert outcome.status == 2 and message in outcome.err and "the rows before it were answered" in outcome.err
    assert len(outcome.out.splitlines()) == (1 + answered if answered else 0)


def test_memory_is_bounded_whatever_comes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_CHARACTERS", 1000)
    with pytest.raises(StreamStopped, match="a row of the stream is longer than 1,000 characters"):
        list(chunks_of_stream(run, io.BytesIO(b"form,age\n" + b"x" * 5000)))
    read = 0

    class Endless(io.RawIOBase):
        """Rows without an end."""

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            nonlocal read
            row = b"old,3.5\n" if read else b"form,age\n"
            read += 1
            buffer[: len(row)] = row
            return len(row)

    chunks = chunks_of_stream(run, io.BufferedReader(Endless(), 64))
    sizes = [len(next(chunks).names) for _ in range(3)]
    assert all(0 < size <= streams.MOST_ROWS for size in sizes)
    assert read < 20 * streams.MOST_ROWS
