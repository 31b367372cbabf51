"""A wrong command or input: status 2, the thing named, no traceback, nothing written or lost."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RunGetter = Callable[[str], Path]
CommandRunner = Callable[..., Any]

ONE = "--threads 1 --epochs 1"
DIGITS = f"train --data Digits --method ERM {ONE} --out x"
LC = f"train --data Digits --method LC {ONE} --out x"
TABLE = f"train --method ERM {ONE} --data.label y --out x --data"
PATIENTS = f"{ONE} --data patients.csv --data.label outcome"
PHOTOS = f"train --method ERM {ONE} --data photos --data.size 8 --out x"

#: Name -> the command, and what its message must name. RUN, TABLE_RUN and AUDIT stand for copies of folders.
WRONG_COMMANDS: dict[str, tuple[str, str]] = {
    "command": ("trian --data Digits", "trian"),
    "nothing to train": ("train --out x", "--data"),
    "no out": ("train --data Digits --method ERM", "--out"),
    "option of the data": (f"{DIGITS} --data.minority 0.1", "minority"),
    "option of an estimator": (f"{LC} --method.attributes Online --method.attributes.pool 2", "pool"),
    "option that an audit chooses": ("audit --data Digits --method ERM --out x", "There is no option --method"),
    "seeds 0": (f"{DIGITS} --seeds 0", "--seeds"),
    "stray word": (f"{DIGITS} stray", "stray"),
    "data without its option": ("audit photos --out x", "write --data before it"),
    "name that no file can have": (f"train --method ERM {ONE} --out x --data {'n' * 300}", "too long"),
    "data": (f"train --data Digit --method ERM {ONE} --out x", "Digit"),
    "method": (f"train --data Digits --method LCC {ONE} --out x", "LCC"),
    "view": (f"{LC} --shortcut color", "color"),
    "view of other inputs": (f"{LC} --shortcut word", "does not apply"),
    "legitimate view": (
        f"{TABLE.replace('ERM', 'LC')} table.csv --data.features * --legitimate column:z",
        "no member 'z'",
    ),
    "column as a view": (f"{TABLE.replace('ERM', 'LC')} table.csv --data.features * --shortcut a", "column:a"),
    "rule": (f"{DIGITS} --selection test", "selection"),
    "epochs a word": (f"{DIGITS} --epochs many", "many"),
    "epochs 0": (f"{DIGITS} --epochs 0", "epochs"),
    "ratio in per cent": (f"{DIGITS} --data.minority_ratio 5", "minority_ratio"),
    "estimator of ERM": (f"{DIGITS} --method.attributes Online", "attributes"),
    "no such module": (f"{DIGITS} --method nowhere.Method", "nowhere"),
    "no such config": ("train --config no.yaml --out x", "no.yaml"),
    "no fix": ("train --config hollow/fix.yaml --out x", "an audit writes it where it finds a shortcut"),
    "config with an unknown option": ("train --config bad.yaml --out x", "epochz"),
    "config that cannot be parsed": ("train --config broken.yaml --out x", "broken.yaml"),
    "no label column": (f"train --method ERM {ONE} --data table.csv --data.label z --data.features * --out x", "z"),
    "row without a label": (f"{TABLE} unlabelled.csv --data.features *", "unlabelled.csv"),
    "mistyped split": (f"{TABLE} split.csv --data.features a --data.split part", "tset"),
    "one label": (f"{TABLE} same.csv --data.features [a]", "same.csv"),
    "labels that differ by case": (f"{TABLE} case.csv --data.features [a]", "'No' (1) and 'no' (20)"),
    "mistyped folder": (f"train --method ERM {ONE} --data fotos --out x", "did you mean photos?"),
    "JSON": (f"{TABLE} rows.json --data.features [a]", "rows.json is not a CSV or Parquet file"),
    "empty folder": (f"train --method ERM {ONE} --data hollow --out x", "hollow"),
    "broken image": (PHOTOS, "2.png"),
    "given attributes of no file": (f"{LC} --method.attributes Given --method.attributes.file no.csv", "no.csv"),
    "out is a file": (DIGITS.replace("--out x", "--out table.csv"), "table.csv"),
    "out is full": (DIGITS.replace("--out x", "--out photos"), "photos"),
    "out holds a run": (DIGITS.replace("--out x", "--out RUN"), "RUN"),
    "resume nothing": ("train --resume --out hollow", "hollow"),
    "split": ("evaluate RUN --split dev", "dev"),
    "a last seed too large": (f"train {ONE} --data Digits --method ERM --seed {2**63 - 1} --seeds 3 --out x", "seed"),
    "no run": ("evaluate hollow", "hollow"),
    "evaluate an unknown label": ("evaluate TABLE_RUN --on strangers.csv", "healthy"),
    "evaluate many unknown labels": (
        "evaluate TABLE_RUN --on healthy.csv",
        "and 9 more: the label 'healthy' is not in",
    ),
    "evaluate without a column": ("evaluate TABLE_RUN --on narrow.csv", "blood"),
    "predict nothing": ("predict RUN", "inputs"),
    "predict no file": ("predict RUN no.png --out answers.csv", "no.png"),
    "predict without a column": ("predict TABLE_RUN narrow.csv --out answers.csv", "blood"),
    "predict over the input": ("predict TABLE_RUN later.csv --out later.csv", "later.csv"),
    "report of no run": ("report RUN hollow --out page.html", "hollow"),
    "export format": ("export RUN --format hub --out model", "hub"),
    "export into a full folder": ("export RUN --format torch-export --out photos", "photos"),
    "audit over an audit": (f"audit --data Digits {ONE} --out AUDIT", "AUDIT"),
    "answers and data": (f"audit --data Digits {ONE} --answers table.csv --out x", "leave out other options"),
    "ask without new rows": (f"audit --data Digits {ONE} --ask 5 --out x", "give them by --new-rows"),
    "new rows without a column": (f"audit {PATIENTS} --new-rows narrow.csv --out x", "blood"),
    "new rows of an unknown label": (f"audit {PATIENTS} --new-rows strangers.csv --out x", "'healthy' of line 3"),
    "new rows and a method": (f"train {PATIENTS} --method ERM --new-rows later.csv --out x", "leave --method out"),
    "answers before an audit": (
        f"train {PATIENTS} --answers later.csv --out x",
        "later.csv is not a file in the folder",
    ),
    "answers and new rows": ("audit --answers table.csv --new-rows later.csv --out AUDIT", "--new-rows is for a new"),
    "new rows nowhere": (f"train {PATIENTS} --new-rows nowhere.csv --out x", "nowhere.csv does not exist"),
    "an option of the data where a run has them": ("evaluate RUN --data.attribute site", "did you mean --attribute?"),
    "audit without a place": (f"audit {PATIENTS}", "--out is missing: folder to write"),
    "leave out colour of a table": (f"train {PATIENTS} --method ERM --leave_out colour --out x", "--leave_out colour"),
    "list": ("list nonsense", "nonsense"),
}


def flip_bit(content: bytes) -> bytes:
    """Return the content with one bit turned, in the middle of the largest tensor of a checkpoint."""
    middle = len(content) // 2
    if content[:2] == b"PK":  # between tensors there is padding, in which nothing is told
        with zipfile.ZipFile(io.BytesIO(content)) as parts:
            largest = max(parts.infolist(), key=lambda part: part.file_size)
        middle = content.index(largest.filename.encode()) + len(largest.filename) + largest.file_size
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


#: What is done to a copy of a run -> the command that must name the file.
DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes | None], str]] = {
    "no config": ("config.yaml", lambda content: None, "evaluate RUN"),
    "half a report": ("report.json", lambda content: content[:200], "evaluate RUN"),
    "report of another kind": ("report.json", lambda content: b"[]", "report RUN --out page.html"),
    "report without figures": (
        "report.json",
        lambda content: json.dumps({**json.loads(content), "test": None}).encode(),
        "report RUN --out page.html",
    ),
    "report without names": (
        "report.json",
        lambda content: json.dumps({**json.loads(content), "data": {}}).encode(),
        "predict RUN later.csv --out answers.csv",
    ),
    "no checkpoint": ("checkpoint.pt", lambda content: None, "evaluate RUN"),
    "half a checkpoint": ("checkpoint.pt", lambda content: content[: len(content) // 2], "evaluate RUN"),
    "one bit of the checkpoint": ("checkpoint.pt", flip_bit, "predict RUN later.csv --out a.csv"),
}


def read_tree(folder: Path) -> dict[str, bytes | None]:
    """Return all files below a folder except locks."""
    paths = [path for path in sorted(folder.rglob("*")) if path.name != ".lock"]
    return {str(path): path.read_bytes() if path.is_file() else None for path in paths}


@pytest.fixture
def input_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of input with something wrong in it, which is the working folder too."""
    rows = [f"{number}.5,{('no', 'yes')[number % 2]}" for number in range(40)]
    files = {
        "table.csv": ["a,y", *rows],
        "unlabelled.csv": ["a,y", *rows[:7], "7.5,", *rows[8:]],
        "split.csv": ["a,y,part", *[f"{row},train" for row in rows], *[f"9{row},test" for row in rows], "8.1,no,tset"],
        "case.csv": ["a,y", *rows, "8.1,No"],
        "rows.json": ['[{"a": 1, "y": "no"}]'],
        "same.csv": ["a,y", *[f"{number}.5,no" for number in range(40)]],
        "strangers.csv": ["age,blood,sex,scanner,outcome", "50,1.0,f,old,ill", "51,1.1,m,new,healthy"],
        "healthy.csv": ["age,blood,sex,scanner,outcome", *["51,1.1,m,new,healthy"] * 12],
        "narrow.csv": ["age,sex,scanner,outcome", "50,f,old,ill", "51,m,new,well"],
        "later.csv": ["age,blood,sex,scanner,outcome", "50,1.0,f,old,ill", "51,1.1,m,new,well"],
        "patients.csv": ["age,blood,sex,scanner,outcome",
                         *[f"{40 + i},{i % 7},f,{('old', 'new')[i // 2 % 2]},{'well' if i % 2 else 'ill'}"
                           for i in range(40)]],
        "bad.yaml": ["data: Digits", "method: ERM", "epochz: 3"],
        "broken.yaml": ["data: ["],
    }  # fmt: skip
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    (tmp_path / "hollow").mkdir()
    for label in "ab":
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(5):
            (tmp_path / "photos" / label / f"{number}.png").write_bytes(PIXEL)
    (tmp_path / "photos" / "a" / "2.png").write_bytes(PIXEL[:30])
    monkeypatch.chdir(tmp_path)
    return tmp_path


#: A grey image of 1 x 1.
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c636800000082008177cd72b60000000049454e44ae426082"
)


def assert_refused(run_command: CommandRunner, words: list[str], message_part: str, folder: Path) -> None:
    before = read_tree(folder)
    result = run_command(*words)
    assert result.status == 2, result
    assert message_part in result.err, result.err
    assert "Traceback" not in result.err and result.out == "" and len(result.err) < 2000
    assert read_tree(folder) == before


@pytest.mark.parametrize("case", WRONG_COMMANDS)
def test_wrong_command_or_input_is_refused_by_name(
    case: str, run_command: CommandRunner, get_run: RunGetter, input_folder: Path
) -> None:
    words, message_part = WRONG_COMMANDS[case]
    for place, name in (("TABLE_RUN", "patients-lc"), ("RUN", "photos-erm"), ("AUDIT", "audit-patients")):
        if place in words.split():
            shutil.copytree(get_run(name), input_folder / place)
    assert_refused(run_command, words.split(), message_part, input_folder)


@pytest.mark.parametrize("case", DAMAGES)
def test_damaged_run_is_named(case: str, run_command: CommandRunner, get_run: RunGetter, input_folder: Path) -> None:
    name, damage, words = DAMAGES[case]
    folder = shutil.copytree(get_run("patients-lc"), input_folder / "RUN")
    content = damage((folder / name).read_bytes())
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    assert_refused(run_command, words.split(), "RUN", input_folder)


def test_run_in_use_by_another_process_is_refused(
    run_command: CommandRunner, get_run: RunGetter, input_folder: Path
) -> None:
    from filelock import FileLock

    (input_folder / "x").mkdir()
    with FileLock(input_folder / "x" / ".lock"):
        result = run_command(*DIGITS.split())
    assert result.status == 2 and "x" in result.err and "Traceback" not in result.err
    assert [path.name for path in (input_folder / "x").iterdir() if path.name != ".lock"] == []


def test_code_in_a_checkpoint_is_never_run(run_command: CommandRunner, get_run: RunGetter, input_folder: Path) -> None:
    import torch

    folder = shutil.copytree(get_run("patients-lc"), input_folder / "RUN")
    torch.save({"format": 1, "algorithm": FileWriterOnUnpickle(input_folder / "owned")}, folder / "checkpoint.pt")
    assert_refused(run_command, ["evaluate", "RUN"], "RUN", input_folder)
    assert not (input_folder / "owned").exists()


class FileWriterOnUnpickle:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)
