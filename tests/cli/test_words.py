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

from ..forked_programs import ForkedProgram

DIGITS = ("--data", "Digits", "--method", "LC")


def parse_train_config(*words: object) -> dict[str, Any]:
    """The config that ``train`` takes from a command line."""
    config: RunConfig = parse_arguments("train", train_command, [*map(str, words), "--out", "x"])["config"]
    return config.to_dict()


def test_names_and_options_are_accepted_in_common_spellings() -> None:
    plain = parse_train_config(*DIGITS, "--method.attributes.name", "Auto", "--method.attributes.shortcut", "[colour]")
    short = ("--data=digits", "--method=lc", "--method.attributes=auto", "--method.attributes.shortcut", "[colour]")
    assert parse_train_config(*short) == plain
    config = parse_train_config(*DIGITS, "--batch-size", "8", "--learning-rate=0.01", "--epochs", "null")
    assert (config["batch_size"], config["learning_rate"], config["epochs"]) == (8, 0.01, None)
    assert parse_train_config(*DIGITS, "--epochs", "1", "--epochs", "2")["epochs"] == 2
    assert parse_train_config(*DIGITS, "--finetune", "--epochs", "2")["finetune"] is True
    assert parse_train_config(*DIGITS, "--logger", "csv", "--logger", "tensorboard")["logger"] == ["csv", "tensorboard"]
    views = ("--shortcut", "colour", "--shortcut", "places", "--legitimate", "border")
    attributes = parse_train_config(*DIGITS, *views)["method"]["attributes"]
    assert (attributes["shortcut"], attributes["legitimate"]) == (["colour", "places"], ["border"])
    table = ("--data", "Table", "--data.file", "t.csv", "--data.label", "y", "--method", "ERM")
    data = parse_train_config(*table, "--data.numbers", "a", "--data.numbers", "[b, c]")["data"]
    assert (data["label"], data["numbers"]) == ("y", ["a", "b", "c"])
    with pytest.raises(InputError, match=r"`label` is \['y', 'z'\], but must be str"):
        parse_train_config(*table, "--data.label", "z")


def test_command_line_overrides_file_and_file_overrides_preset(tmp_path: Path) -> None:
    content = {"data": "Digits", "preset": "paper", "epochs": 7, "method": {"attributes": {"q": 0.6}}}
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(content))
    config = parse_train_config("--config", tmp_path / "my.yaml", "--epochs", "3", "--method.prior.momentum", "0.25")
    assert config["epochs"] == 3 and config["method"]["attributes"]["q"] == 0.6
    assert config["method"]["prior"]["momentum"] == 0.25 and config["method"]["prior"]["estimator"] == "published"
    other = parse_train_config("--config", tmp_path / "my.yaml", "--method.attributes", "CrossFitted")["method"][
        "attributes"
    ]
    assert other["name"] == "CrossFitted" and "q" not in other  # the options of the first stay behind
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(config))
    assert parse_train_config("--config", tmp_path / "again.yaml") == config == complete_config(config).to_dict()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report", "run", "--fail_on", "x"], "There is no option --fail_on;"),
        (["report", "run", "--fail-on", "x"], "There is no option --fail-on;"),
        (["train", "--print-confg", "--out", "r"], "There is no option --print-confg (did you mean --print-config?)"),
        (["evaluate", "run", "--data.attribute", "x"], "There is no option --data.attribute (did you mean --attribute"),
        (["evaluate", "run", "--shortcut", "colour"], "There is no option --shortcut;"),
        (["audit", "--fail_on"], "--fail-on needs a value"),
        (["train", "--log-every"], "--log_every needs a value"),
    ],
)
def test_unknown_option_is_quoted_as_typed_and_others_as_documented(
    words: list[str], message: str, run_command: Any
) -> None:
    result = run_command(*words)
    assert result.status == 2 and message in result.err, result.err


def test_user_class_takes_options_from_the_command_line() -> None:
    words = ("--network", "my_parts.Narrow", "--network.width", "3", "--biased_network", "mlp")
    config = parse_train_config("--data", "my_parts.Points", "--method", "LC", *words)
    assert config["network"] == {"name": "my_parts.Narrow", "width": 3} and config["biased_network"]["name"] == "MLP"


def test_help_lists_the_options_of_the_named_components(run_command: Any) -> None:
    short, full = (run_command("train", words).out for words in ("--help", "--help-all"))
    assert [field.name for field in fields(TrainingConfig) if f"--{field.name} " not in full] == []
    option_names = re.findall(r"^  --(\S+)", short, flags=re.MULTILINE)
    assert {"data", "method", "shortcut", "legitimate", "epochs", "seed", "out", "resume"} <= {*option_names}
    assert (
        len(option_names) <= 15
        and f"{len(re.findall('^  --', full, flags=re.MULTILINE)) - len(option_names)} more" in short
    )
    audit = run_command("audit", "--help").out
    assert all(f"--{name} " in audit for name in ("new-rows", "fail-on", "try-fix", "when-unsure"))  # as pages write it
    assert "type:" not in full and "default: null" not in full
    parts = ("--method.attributes", "Clusters", "--method.prior", "Moving", "--method.mixing", "NoMixing")
    option_names = run_command("train", "--method", "LC", *parts, "--help").out
    for option in ("--method.attributes.attributes.q ", "--method.prior.momentum"):
        assert option in option_names
    assert (
        "--data NAME" in option_names
        and "--method.mixing.limit" not in option_names
        and "--network.hidden" not in option_names
    )


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["list"], ["nonsense"]])
def test_commands_that_only_print_do_not_import_torch(words: list[str]) -> None:
    program = (
        "import sys\nfrom logit_correction.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'numpy', 'pandas', 'matplotlib', 'sklearn', 'lightning_fabric'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)\n"
    )
    process = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


def test_training_does_not_import_the_compiler_of_torch(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom logit_correction.cli import main\nstatus = main(sys.argv[1:])\n"
        "heavy = {'torch._dynamo', 'lightning_fabric', 'torchvision', 'sympy', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else status)\n"
    )
    words = ["train", "--data", "Digits", "--shortcut", "colour", "--epochs", "2", "--out", str(tmp_path / "run")]
    with ForkedProgram(program, *words) as process:
        assert process.wait() == 0, process.output
