"""Whatever is wrong with the arguments or the input: one sentence, status 2, nothing written."""

from __future__ import annotations

import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch

from logit_correction.cli import main

#: All that would be chosen to fit the data is given, so that nothing is told of it.
GIVEN_ALL = ("--network", "MLP", "--batch_size", "64", "--epochs", "1", "--threads", "1")
DIGITS = ("--data", "Digits", "--method", "ERM", *GIVEN_ALL)
POINTS = ("--data", "my_parts.Points", "--method", "ERM", *GIVEN_ALL)
LC = (*DIGITS, "--method", "LC", "--out", "x")
ONLINE = (*LC, "--method.attributes", "Online")
GIVEN = (*LC, "--method.attributes", "Given")
TABLE = "[[0],[1],[2],[3],[4],[5],[6],[7],[8],[9,9]]"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tree(folder: Path) -> dict[str, bytes | None]:
    paths = sorted(folder.rglob("*"))
    return {str(path): path.read_bytes() if path.is_file() else None for path in paths}


# Words of the command line, and words that the message must have: the thing, and the fix.
REFUSED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "no data": (("--method", "LC", "--out", "x"), ("--data is missing", "logit-correction list")),
    "no method": (("--data", "Digits", "--out", "x"), ("--method is missing", "logit-correction list")),
    "nothing": ((), ("--data is missing",)),
    "no out": (DIGITS, ("--out is missing", "folder")),
    "out without value": ((*DIGITS, "--out"), ("--out needs a value",)),
    "data without value": (("--data", "--method", "ERM", "--out", "x"), ("--data needs a value",)),
    "misspelt data": (("--data", "Digit", *DIGITS[2:], "--out", "x"), ("Digit", "did you mean Digits?")),
    "misspelt method": ((*DIGITS, "--method", "LCC", "--out", "x"), ("LCC", "did you mean LC?")),
    "misspelt network": ((*DIGITS, "--network", "MPL", "--out", "x"), ("MPL", "did you mean MLP?")),
    "no such module": ((*DIGITS, "--method", "nowhere.Method", "--out", "x"), ("nowhere", "PYTHONPATH")),
    "no such class": ((*DIGITS, "--method", "my_parts.Missing", "--out", "x"), ("my_parts", "Missing")),
    "not a class": ((*DIGITS, "--method", "os.path.join", "--out", "x"), ("os.path.join", "class")),
    "not a method": ((*DIGITS, "--method", "my_parts.NotAMethod", "--out", "x"), ("not a method", "Algorithm")),
    "not a source": (("--data", "my_parts.NotAMethod", *DIGITS[2:], "--out", "x"), ("not a data source",)),
    "option of a network that is not named": (
        ("--data", "Digits", "--method", "ERM", "--network.hidden", "[8]", "--out", "x"),
        ("--network.hidden is of no effect", "give --network NAME"),
    ),
    "option of a prior that is not named": (
        (*LC, "--method.prior.momentum=0.5"),
        ("--method.prior.momentum is of no effect", "give --method.prior NAME"),
    ),
    "option of an encoder that is not named": ((*DIGITS, "--encoder.depth", "8", "--out", "x"), ("--encoder NAME",)),
    "unknown option": ((*DIGITS, "--nonsense", "3", "--out", "x"), ("--nonsense", "--help")),
    "abbreviated option": ((*DIGITS, "--epoch", "3", "--out", "x"), ("--epoch ", "did you mean --epochs?")),
    "unknown data option": (
        (*DIGITS, "--data.minority", "0.1", "--out", "x"),
        ("--data.minority ", "--data.minority_ratio?"),
    ),
    "unknown method option": ((*DIGITS, "--method.q", "0.1", "--out", "x"), ("--method.q",)),
    "stray word": ((*DIGITS, "extra", "--out", "x"), ("extra",)),
    "epochs 0": ((*DIGITS, "--epochs", "0", "--out", "x"), ("--epochs is 0", "at least 1")),
    "epochs a word": ((*DIGITS, "--epochs", "many", "--out", "x"), ("--epochs", "many", "whole number")),
    "epochs a fraction": ((*DIGITS, "--epochs", "1.5", "--out", "x"), ("--epochs", "1.5", "whole number")),
    "batch of -1": ((*DIGITS, "--batch_size", "-1", "--out", "x"), ("--batch_size is -1",)),
    "learning rate 0": ((*DIGITS, "--learning_rate", "0", "--out", "x"), ("--learning_rate", "positive")),
    "learning rate nan": ((*DIGITS, "--learning_rate", "nan", "--out", "x"), ("--learning_rate", "number")),
    "learning rate inf": ((*DIGITS, "--learning_rate", "inf", "--out", "x"), ("--learning_rate",)),
    "momentum 1": ((*DIGITS, "--sgd_momentum", "1", "--out", "x"), ("--sgd_momentum is 1.0", "[0, 1)")),
    "step factor 0": ((*DIGITS, "--step_factor", "0", "--out", "x"), ("--step_factor is 0.0", "positive")),
    "seed -1": ((*DIGITS, "--seed", "-1", "--out", "x"), ("--seed is -1", "negative")),
    "unknown rule": ((*DIGITS, "--selection", "test", "--out", "x"), ("--selection", "test", "valid_average")),
    "given twice": (
        (*DIGITS, "--data.features", "a", "--data.features", "b"),
        ("--data.features is given twice, as a and b", "--data.features '[a, b]'"),
    ),
    "unknown device": ((*DIGITS, "--device", "tpu", "--out", "x"), ("--device", "tpu", "auto, cpu, cuda")),
    "uneven share": (
        (*DIGITS, "--devices", "2", "--device", "cpu", "--batch_size", "15", "--out", "x"),
        ("--batch_size is 15", "2 processes"),
    ),
    "graphs of several processes": (
        (*DIGITS, "--compile", "reduce-overhead", "--devices", "2", "--device", "cpu", "--out", "x"),
        ("--compile reduce-overhead is for one process",),
    ),
    "ratio 0": ((*DIGITS, "--data.minority_ratio", "0", "--out", "x"), ("minority_ratio is 0", "(0, 1]")),
    "ratio in per cent": ((*DIGITS, "--data.minority_ratio", "5", "--out", "x"), ("5", "(0, 1]", "fraction")),
    "severity": ((*DIGITS, "--data.severity", "6", "--out", "x"), ("severity is 6", "1..5")),
    "correlation": ((*DIGITS, "--data.correlation", "one-to-two", "--out", "x"), ("one-to-two", "one-to-one")),
    "short table": ((*DIGITS, "--data.correlation", "[[0],[1]]", "--out", "x"), ("2 rows", "10 labels")),
    "repeated value": ((*DIGITS, "--data.correlation", TABLE, "--out", "x"), ("table", "9")),
    "no biased network": (
        (*DIGITS, "--biased_network", "MLP", "--out", "x"),
        ("ERM has no biased network", "--biased_network"),
    ),
    "width 0": ((*DIGITS, "--network.hidden", "[0]", "--out", "x"), ("hidden widths [0]", "positive")),
    "q 2": ((*ONLINE, "--method.attributes.q", "2"), ("q is 2",)),
    "q a word": ((*ONLINE, "--method.attributes.q", "high"), ("--method.attributes.q", "high", "number")),
    "misspelt estimator": ((*LC, "--method.attributes", "Onlin"), ("attribute estimator 'Onlin'", "mean Online?")),
    "misspelt prior": ((*ONLINE, "--method.prior", "Movin"), ("prior 'Movin'", "did you mean Moving?")),
    "misspelt mixing": ((*ONLINE, "--method.mixing", "Mixup"), ("mixing 'Mixup'", "IndependentMixUp")),
    "no estimator": ((*LC, "--method.attributes", "my_parts.NotAMethod"), ("attribute estimator", "derive from")),
    "misspelt option of an estimator": (
        (*ONLINE, "--method.attributes.pool", "2"),
        ("--method.attributes.pool ", "did you mean --method.attributes.pooling?"),
    ),
    "misspelt option of an inner estimator": (
        (*LC, "--method.attributes", "Clusters", "--method.attributes.attributes.qq", "1"),
        ("--method.attributes.attributes.qq", "did you mean --method.attributes.attributes.q?"),
    ),
    "option of another estimator": ((*ONLINE, "--method.attributes.view", "colour"), ("--method.attributes.view",)),
    "estimator without a name": ((*LC, "--method.attributes", "--epochs", "1"), ("--method.attributes needs a value",)),
    "estimator of ERM": ((*DIGITS, "--method.attributes", "Online", "--out", "x"), ("--method.attributes",)),
    "counted without settled estimates": ((*ONLINE, "--method.prior", "Counted"), ("Online", "give prior=Moving")),
    "moving with settled estimates": (
        (*LC, "--method.attributes", "CrossFitted", "--method.prior", "Moving"),
        ("prior=Moving", "CrossFitted", "give prior=Counted"),
    ),
    "groups that are not settled": (
        (*DIGITS, "--method", "GroupDRO", "--method.attributes", "Online", "--out", "x"),
        ("GroupDRO needs estimates that are settled",),
    ),
    "limit beside minority rows": (
        (
            *ONLINE,
            "--method.mixing",
            "GroupMixUp",
            "--method.mixing.rows",
            "minority-rows",
            "--method.mixing.limit",
            "0.2",
        ),
        ("limit and ramp_up_epochs concern rows=every-row",),
    ),
    "networks' option beside a view": (
        (
            *LC,
            "--method.attributes",
            "CrossFitted",
            "--method.attributes.view",
            "colour",
            "--method.attributes.gce_form",
            "weighted",
        ),
        ("gce_form concerns networks",),
    ),
    "biased network that nothing trains": (
        (*LC, "--method.attributes", "TrueAttributes", "--biased_network", "MLP"),
        ("TrueAttributes", "trains no biased network", "--biased_network"),
    ),
    "view that does not apply": (
        (*LC, "--method.attributes", "CrossFitted", "--method.attributes.view", "word"),
        ("view 'word' does not apply", "texts"),
    ),
    "misspelt view": (
        (*LC, "--method.attributes", "CrossFitted", "--method.attributes.view", "color"),
        ("view 'color' is unknown", "did you mean colour?"),
    ),
    "Given nothing": (GIVEN, ("Given needs a file", "--method.attributes.file")),
    "Given no file": ((*GIVEN, "--method.attributes.file", "no.csv"), ("no.csv", "does not exist")),
    "Given no column": ((*GIVEN, "--method.attributes.column", "scanner"), ("no feature column 'scanner'", "file")),
    "true attributes that are unknown": (
        (*POINTS, "--data.known", "false", "--method", "LC", "--method.attributes", "TrueAttributes", "--out", "x"),
        ("LC as chosen needs the attribute of every training row", "--method.attributes"),
    ),
    "unknown preset": (("--data", "Digits", "--preset", "papr", "--out", "x"), ("'papr'", "did you mean paper?")),
    "preset without a name": (("--data", "Digits", "--preset", "--out", "x"), ("--preset needs a value",)),
    "preset of another method": (
        (*DIGITS, "--preset", "paper", "--out", "x"),
        ("preset paper is for method LC, not ERM",),
    ),
    "flag with a value": ((*DIGITS, "--resume=false", "--out", "x"), ("--resume takes no value",)),
    "seeds a word": ((*DIGITS, "--seeds", "two", "--out", "x"), ("--seeds is 'two'", "whole number")),
    "NaN inputs": ((*POINTS, "--data.fault", "nan", "--out", "x"), ("row 7", "NaN")),
    "label 3 of 3": ((*POINTS, "--data.fault", "bad-label", "--out", "x"), ("row 7", "label 3", "0..2")),
    "one label": ((*POINTS, "--data.fault", "one-label", "--out", "x"), ("one label only",)),
    "missing label": ((*POINTS, "--data.fault", "missing-label", "--out", "x"), ("star", "no row")),
    "empty split": ((*POINTS, "--data.fault", "no-valid", "--out", "x"), ("valid split has no rows",)),
    "rule without attributes": (
        (*POINTS, "--data.known", "false", "--selection", "valid_worst_group", "--out", "x"),
        ("valid_worst_group", "unknown", "valid_worst_class"),
    ),
    "method without attributes": (
        (*POINTS, "--data.known", "false", "--method", "my_parts.Oracle", "--out", "x"),
        ("my_parts.Oracle", "attribute", "unknown"),
    ),
    "resume nothing": (("--resume", "--out", "x"), ("x holds no run",)),
    "resume nowhere": (("--resume",), ("--out is missing",)),
    "no such config": (("--config", "no.yaml", "--out", "x"), ("no.yaml", "No such file")),
    "config a folder": (("--config", ".", "--out", "x"), (".", "Is a directory")),
}


@pytest.mark.parametrize(("words", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_train_refuses(words: tuple[str, ...], expected: tuple[str, ...], command: Any, here: Path) -> None:
    message = command("train", *words).error()
    assert all(word in message for word in expected), message
    assert tree(here) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data: Digits\nmethod: ERM\nepochz: 3\n", ("epochz", "did you mean epochs?")),
        ("data: {name: Digits, severty: 3}\nmethod: ERM\n", ("data.severty", "data.severity")),
        ("data: Digits\nmethod: ERM\nepochs: many\n", ("--epochs", "many", "whole number")),
        ("data: Digits\nmethod: ERM\ngradient_clip: null\n", ("--gradient_clip", "no value")),
        ("data: {minority_ratio: 0.1}\nmethod: ERM\n", ("data", "name")),
        ("data: [Digits]\nmethod: ERM\n", ("data", "name")),
        ("data: Digits\nmethod: {name: LC, strength: [1]}\n", ("--method.strength", "number")),
        (
            "data: Digits\nmethod: {name: LC, attributes: {name: Online, qq: 1}}\n",
            ("--method.attributes.qq ", "did you mean --method.attributes.q?"),
        ),
        ("data: Digits\nmethod: {name: LC, attributes: {name: Onlin}}\n", ("Onlin", "did you mean Online?")),
        ("data: Digits\nmethod: {name: LC, attributes: {q: 1}}\n", ("--method.attributes.q: Auto has",)),
        ("data: Digits\npreset: papre\n", ("papre", "did you mean paper?")),
        ("data: Digits\npreset: paper\nmethod: ERM\n", ("preset paper is for method LC, not ERM",)),
        ("just words\n", ("options",)),
        ("data: [\n", ("not YAML",)),
        ("", ("options",)),
    ],
)
def test_train_refuses_a_config(text: str, expected: tuple[str, ...], command: Any, here: Path) -> None:
    (here / "my.yaml").write_text(text)
    message = command("train", "--config", "my.yaml", "--out", "x").error()
    assert all(word in message for word in expected), message
    assert not (here / "x").exists()


def test_train_refuses_folders_it_cannot_have(command: Any, here: Path, finished: dict[str, Path]) -> None:
    (here / "file").write_text("mine")
    (here / "full").mkdir()
    (here / "full" / "notes.txt").write_text("mine")
    before, run_before = tree(here), tree(finished["ERM"])
    for out, expected in {
        "file": ("file is a file", "give a folder"),
        "file/x": ("file/x cannot be written", "give another folder"),
        "/proc/x": ("/proc/x cannot be written",),
        "full": ("full is not empty",),
        "y" * 300: ("cannot be written", "name too long"),
        str(finished["ERM"]): ("already holds a finished run", "give another folder"),
    }.items():
        message = command("train", *DIGITS, "--out", out).error()
        assert all(word in message for word in expected), message
    assert tree(here) == before and tree(finished["ERM"]) == run_before


def test_train_refuses_an_unfinished_run_without_resume(command: Any, here: Path) -> None:
    (here / "run").mkdir()
    (here / "run" / "config.yaml").write_text("data: Digits\nmethod: ERM\n")
    message = command("train", *DIGITS, "--out", "run").error()
    assert "unfinished run" in message and "--resume" in message and "another folder" in message
    message = command("evaluate", "run").error()
    assert "not finished" in message and "train --resume --out run" in message


def test_train_refuses_a_full_disk(command: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type(shutil.disk_usage(here))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2**40, 2**40 - 2**20, 2**20))
    message = command("train", *DIGITS, "--out", "deep/x").error()
    assert "deep/x" in message and "1 MiB free" in message and "make room" in message
    assert tree(here) == {}


def test_train_refuses_missing_and_damaged_mnist(command: Any, here: Path) -> None:
    words = ("--data", "ColoredMNIST", "--data.root", "data", "--method", "ERM", "--out", "x")
    message = command("train", *words, "--data.download", "false").error()
    assert "data/MNIST/raw" in message and "LOGIT_CORRECTION_DATA" in message
    raw = here / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for kind in ("train", "t10k"):
        for part in ("images-idx3", "labels-idx1"):
            (raw / f"{kind}-{part}-ubyte").write_bytes(b"\0\0\x08\x01damaged")
    message = command("train", *words).error()  # never downloads over what is there
    assert "data/MNIST/raw" in message
    assert not (here / "x").exists()


@pytest.mark.parametrize("name", ["evaluate", "predict", "report"])
def test_commands_refuse_what_is_no_run(name: str, command: Any, here: Path) -> None:
    (here / "folder").mkdir()
    extra = [__file__] if name == "predict" else []
    for run in ("missing", "folder", __file__):
        message = command(name, run, *extra).error()
        assert run in message and "`train`" in message
    assert command(name).error().startswith("RUN")
    assert "--nonsense" in command(name, "folder", *extra, "--nonsense").error()


def damaged(run: Path, name: str, content: bytes | None, here: Path) -> Path:
    """A copy of a run in which one file is damaged or missing."""
    copy = shutil.copytree(run, here / f"{len(list(here.iterdir()))}")
    (copy / name).unlink()
    if content is not None:
        (copy / name).write_bytes(content)
    return copy


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("report.json", b'{"method": '),
        ("report.json", b"\xff\xfe"),
        ("config.yaml", None),
        ("config.yaml", b"data: ["),
        ("config.yaml", b"data: {name: Digits, gone: 1}\nmethod: ERM\n"),
        ("checkpoint.pt", None),
        ("checkpoint.pt", b"PK\x03\x04 damaged"),
        ("checkpoint.pt", b""),
    ],
)
def test_evaluate_refuses_a_damaged_run(
    name: str, content: bytes | None, command: Any, here: Path, finished: dict[str, Path]
) -> None:
    run = damaged(finished["ERM"], name, content, here)
    message = command("evaluate", run).error()
    assert str(run) in message and "train" in message


def test_evaluate_refuses_a_checkpoint_of_another_network(command: Any, here: Path, finished: dict[str, Path]) -> None:
    run = damaged(finished["ERM"], "checkpoint.pt", (finished["LC"] / "checkpoint.pt").read_bytes(), here)
    assert "checkpoint.pt does not fit" in command("evaluate", run).error()


def test_evaluate_never_runs_code_from_a_checkpoint(command: Any, here: Path, finished: dict[str, Path]) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (here / "owned",)

    content = BytesIO()
    torch.save({"format": 1, "algorithm": Evil()}, content)

    run = damaged(finished["ERM"], "checkpoint.pt", content.getvalue(), here)
    assert "damaged" in command("evaluate", run).error()
    assert not (here / "owned").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("nonsense",), ("there is no command 'nonsense'", "quickstart", "train", "list")),
        (("trian",), ("did you mean train?",)),
        (("list", "nonsense"), ("nonsense", "methods")),
        (("evaluate", "x", "--split", "dev"), ("--split", "dev", "valid")),
        (("quickstart", "--seed", "x"), ("--seed", "'x'", "whole number")),
        (("quickstart", "--seed", "-1"), ("--seed is -1",)),
        (("benchmark",), ("NAME|FILE is missing",)),
        (("benchmark", "nope"), ("'nope'", "smoke", ".yaml")),
        (("benchmark", "nope.yaml"), ("nope.yaml", "No such file")),
        (("benchmark", "smoke", "--jobs", "0"), ("--jobs is 0",)),
        (("benchmark", "smoke", "--seeds", "0"), ("--seeds is 0",)),
        (("benchmark", "smoke", "--seeds"), ("--seeds needs a value",)),
    ],
)
def test_other_commands_refuse(words: tuple[str, ...], expected: tuple[str, ...], command: Any, here: Path) -> None:
    message = command(*words).error()
    assert all(word in message for word in expected), message
    assert tree(here) == {}


def test_debug_shows_where_an_error_came_from(here: Path) -> None:
    from logit_correction import InputError

    with pytest.raises(InputError, match="folder is not a run folder"):
        main(["evaluate", "folder", "--debug"])


def test_an_error_that_nobody_foresaw_is_one_message_too(
    command: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the device\nis gone")

    monkeypatch.setattr("logit_correction.runs.train.train", fail)
    outcome = command("train", *DIGITS, "--out", "x")
    assert outcome.status == 1
    assert outcome.err == "error: RuntimeError: the device is gone (--debug shows where)\n"
