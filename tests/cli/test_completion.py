"""``--print_completion``: what a shell offers after it has read the script."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from logit_correction.attributes import ESTIMATORS
from logit_correction.cli import COMMANDS, main
from logit_correction.cli.completion import SHELLS
from logit_correction.data import SOURCES

pytest.importorskip("shtab")


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "script.sh"
    with pytest.MonkeyPatch.context() as patch, path.open("w") as file:
        patch.setattr(sys, "stdout", file)
        assert main(["--print_completion", "bash"]) == 0
    return path


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ([""], set(COMMANDS)),
        (["qui"], {"quickstart"}),
        (["train", "--learning"], {"--learning_rate"}),
        (["train", "--data", ""], set(SOURCES)),
        (["train", "--method.attributes", ""], set(ESTIMATORS)),
        (["train", "--method.attributes.gce_form", ""], {"paper", "weighted"}),
        (["train", "--method.attributes.attributes.q_ramp_up_"], {"--method.attributes.attributes.q_ramp_up_epochs"}),
        (["train", "--data.minority_r"], {"--data.minority_ratio"}),
        (["train", "--device", ""], {"auto", "cpu", "cuda"}),
        (["train", "--compile", "t"], {"true"}),
        (["list", "netw"], {"networks"}),
        (["evaluate", "--spl"], {"--split"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",  # a set has no order to name a test by
)
def test_bash_completes(words: list[str], offered: set[str], bash_script: Path) -> None:
    line = ["logit-correction", *words]
    program = (
        f"source {shlex.quote(str(bash_script))}; COMP_WORDS=({shlex.join(line)}); COMP_CWORD={len(words)}; "
        '"$(complete -p logit-correction | grep -o "_shtab[^ ]*")"; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=60, cwd=bash_script.parent)
    assert set(done.stdout.split()) - {bash_script.name} == offered, done.stderr


def test_no_hidden_word_is_in_the_script(bash_script: Path) -> None:
    text = bash_script.read_text()
    assert "--describe" not in text and "--help" in text


@pytest.mark.parametrize("shell", SHELLS[1:])
def test_other_shells_have_scripts(shell: str, command: Any) -> None:
    done = command("--print_completion", shell)
    assert done.status == 0 and "logit-correction" in done.out and "--method.attributes" in done.out


def test_another_shell_and_a_missing_package_are_told(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "'fisch', but must be one of bash, zsh, tcsh" in command("--print_completion", "fisch").error()
    assert "must be one of bash" in command("--print_completion").error()
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "pip install 'logit-correction[completion]'" in command("--print_completion", "bash").error()
