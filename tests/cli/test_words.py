"""What a command line says, and how little is loaded to read it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from logit_correction import RunConfig, TrainingConfig
from logit_correction.cli.arguments import parse_arguments
from logit_correction.cli.commands import train_command
from logit_correction.errors import InputError
from logit_correction.runs.options import complete_config

DIGITS = ("--data", "Digits", "--method", "LC")


def config_of(*words: object) -> dict[str, Any]:
    """The config that ``train`` takes from a command line."""
    config: RunConfig = parse_arguments("train", train_command, [*map(str, words), "--out", "x"])["config"]
    return config.to_dict()


def test_names_and_options_are_taken_as_people_write_them() -> None:
    plain = config_of(*DIGITS, "--method.attributes.name", "Auto", "--method.attributes.shortcut", "[colour]")
    short = ("--data=digits", "--method=lc", "--method.attributes=auto", "--method.attributes.shortcut", "[colour]")
    assert config_of(*short) == plain
    found = config_of(*DIGITS, "--batch-size", "8", "--learning-rate=0.01", "--epochs", "null")
    assert (found["batch_size"], found["learning_rate"], found["epochs"]) == (8, 0.01, None)
    assert config_of(*DIGITS, "--epochs", "1", "--epochs", "2")["epochs"] == 2
    assert config_of(*DIGITS, "--finetune", "--epochs", "2")["finetune"] is True
    assert config_of(*DIGITS, "--logger", "csv", "--logger", "tensorboard")["logger"] == ["csv", "tensorboard"]
    views = ("--shortcut", "colour", "--shortcut", "places", "--legitimate", "border")
    attributes = config_of(*DIGITS, *views)["method"]["attributes"]
    assert (attributes["shortcut"], attributes["legitimate"]) == (["colour", "places"], ["border"])
    table = ("--data", "Table", "--data.file", "t.csv", "--data.label", "y", "--method", "ERM")
    data = config_of(*table, "--data.numbers", "a", "--data.numbers", "[b, c]")["data"]
    assert (data["label"], data["numbers"]) == ("y", ["a", "b", "c"])
    with pytest.raises(InputError, match=r"`label` is \['y', 'z'\], but must be str"):
        config_of(*table, "--data.label", "z")


def test_the_command_line_wins_over_a_file_and_this_over_a_preset(tmp_path: Path) -> None:
    content = {"data": "Digits", "preset": "paper", "epochs": 7, "method": {"attributes": {"q": 0.6}}}
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(content))
    found = config_of("--config", tmp_path / "my.yaml", "--epochs", "3", "--method.prior.momentum", "0.25")
    assert found["epochs"] == 3 and found["method"]["attributes"]["q"] == 0.6
    assert found["method"]["prior"]["momentum"] == 0.25 and found["method"]["prior"]["estimator"] == "published"
    other = config_of("--config", tmp_path / "my.yaml", "--method.attributes", "CrossFitted")["method"]["attributes"]
    assert other["name"] == "CrossFitted" and "q" not in other  # the options of the first stay behind
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(found))
    assert config_of("--config", tmp_path / "again.yaml") == found == complete_config(found).to_dict()


def test_a_class_of_the_users_own_and_its_options() -> None:
    words = ("--network", "my_parts.Narrow", "--network.width", "3", "--biased_network", "mlp")
    found = config_of("--data", "my_parts.Points", "--method", "LC", *words)
    assert found["network"] == {"name": "my_parts.Narrow", "width": 3} and found["biased_network"]["name"] == "MLP"


def test_the_help_shows_the_options_of_what_is_named(run_command: Any) -> None:
    short, whole = (run_command("train", words).out for words in ("--help", "--help-all"))
    assert [one.name for one in fields(TrainingConfig) if f"--{one.name} " not in whole] == []
    shown = re.findall(r"^  --(\S+)", short, flags=re.MULTILINE)
    assert {"data", "method", "shortcut", "legitimate", "epochs", "seed", "out", "resume"} <= {*shown}
    assert len(shown) <= 15 and f"{len(re.findall('^  --', whole, flags=re.MULTILINE)) - len(shown)} more" in short
    audit = run_command("audit", "--help").out
    assert all(f"--{name} " in audit for name in ("new-rows", "fail-on", "try-fix", "when-unsure"))  # as pages write it
    assert "type:" not in whole and "default: null" not in whole
    parts = ("--method.attributes", "Clusters", "--method.prior", "Moving", "--method.mixing", "NoMixing")
    shown = run_command("train", "--method", "LC", *parts, "--help").out
    for option in ("--method.attributes.attributes.q ", "--method.prior.momentum"):
        assert option in shown
    assert "--data NAME" in shown and "--method.mixing.limit" not in shown and "--network.hidden" not in shown


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["list"], ["nonsense"]])
def test_what_only_speaks_does_not_load_torch(words: list[str]) -> None:
    program = (
        "import sys\nfrom logit_correction.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'numpy', 'pandas', 'matplotlib', 'sklearn', 'lightning_fabric'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_training_does_not_load_the_compiler_of_torch(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom logit_correction.cli import main\nstatus = main(sys.argv[1:])\n"
        "heavy = {'torch._dynamo', 'lightning_fabric', 'torchvision', 'sympy', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else status)\n"
    )
    words = ["train", "--data", "Digits", "--epochs", "2", "--out", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
