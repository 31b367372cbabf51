"""What the program says of itself, and how little it loads to say it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from typing import Any

import pytest

from logit_correction import __version__
from logit_correction.cli import COMMANDS
from logit_correction.config import TrainingConfig
from logit_correction.data import SOURCES
from logit_correction.methods import METHODS
from logit_correction.networks import NETWORKS


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"], *([name, "--help"] for name in COMMANDS)])
def test_help_of_everything(words: list[str], command: Any) -> None:
    outcome = command(*words)
    assert outcome.status == 0 and outcome.err == ""
    assert outcome.out.startswith("usage: logit-correction")


def test_the_program_names_its_commands_and_its_exit_statuses(command: Any) -> None:
    shown = command("--help").out
    for name, line in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", shown, re.MULTILINE)
    assert "0 done, 1 the work failed, 2 the arguments or the input are wrong" in shown


def test_without_arguments_the_program_shows_its_help_and_fails(command: Any) -> None:
    outcome = command()
    assert outcome.status == 2 and outcome.out == command("--help").out


def test_version(command: Any) -> None:
    assert command("--version").out == f"{__version__}\n"


def test_train_help_explains_every_option_of_training(command: Any) -> None:
    shown = " ".join(command("train", "--help").out.split())
    for option in fields(TrainingConfig):
        explained = re.search(rf"Args:.*?\n {{8}}{option.name}: (.+?)\.\s", TrainingConfig.__doc__ or "", re.DOTALL)
        assert explained is not None, option.name
        assert f"--{option.name} " in shown
        assert " ".join(explained[1].split()) in shown
    for name in ("--data", "--method", "--network", "--biased_network", "--config", "--resume", "--out"):
        assert f" {name}" in shown


def test_train_help_shows_the_options_of_what_is_named(command: Any) -> None:
    shown = command("train", "--data", "ColoredMNIST", "--method", "LC", "--help").out
    for option in ("--data.minority_ratio", "--data.severity", "--method.strength", "--method.attributes NAME"):
        assert option in shown
    for option in ("--method.attributes.legitimate", "--method.mixing.limit", "--method.prior NAME"):  # the defaults'
        assert option in shown
    named = ("--method.attributes", "Clusters", "--method.prior", "Moving", "--method.mixing", "NoMixing")
    shown = command("train", "--method", "LC", *named, "--help").out
    for option in ("--method.attributes.attributes.q ", "--method.attributes.weights", "--method.prior.momentum"):
        assert option in shown
    assert "--method.mixing.limit" not in shown and "--method.attributes.legitimate" not in shown
    assert "--network.hidden" not in shown
    own = command("train", "--network", "my_parts.Narrow", "--help").out
    assert "--network.width WIDTH" in own and "Width of the hidden layer" in own


def test_list_has_a_line_for_everything(command: Any) -> None:
    everything = command("list").out
    for kind, known in (("methods", METHODS), ("data", SOURCES), ("networks", NETWORKS)):
        shown = command("list", kind).out
        assert shown in everything and shown.startswith(f"{kind}:\n")
        for name, (_, line) in known.items():
            assert re.search(rf"^  {name} +{re.escape(line)}$", shown, re.MULTILINE)
        assert len(shown.splitlines()) == len(known) + 1
    assert re.search(r"^  smoke +\S", command("list", "benchmarks").out, re.MULTILINE)
    assert re.search(r"^  smoke +\S", command("benchmark", "list").out, re.MULTILINE)


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["list"], ["list", "methods"], ["nonsense"]])
def test_what_only_speaks_does_not_load_torch(words: list[str]) -> None:
    program = (
        "import sys\n"
        "from logit_correction.cli import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'torch', 'numpy', 'pandas', 'matplotlib', 'sklearn', 'lightning_fabric'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_module_is_the_program(python: list[str], command: Any) -> None:
    done = subprocess.run([*python, "list", "methods"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout == command("list", "methods").out
    failed = subprocess.run([*python, "train"], capture_output=True, text=True, timeout=60)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == "error: --data is missing: give a name; `logit-correction list` shows them\n"


def test_a_reader_that_goes_away_is_no_error(python: list[str]) -> None:
    program = subprocess.Popen([*python, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout is not None and program.stderr is not None
    program.stdout.close()
    assert program.stderr.read() == b""
    assert program.wait(timeout=60) == 1
