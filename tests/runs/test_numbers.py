"""No number of any option is too large for the program to say so."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from logit_correction.cli import main
from logit_correction.config import TrainingConfig
from logit_correction.errors import InputError
from logit_correction.runs.options import checked_options
from logit_correction.runs.parts import GIVEN, KINDS, check_training, find_class

FACTORIES: dict[str, tuple[Any, set[str]]] = {"training": (TrainingConfig, set())} | {
    f"{kind} {name}": (find_class(kind, name), GIVEN[kind])
    for kind, (_, known, _) in KINDS.items()
    if kind not in ("biased_network", "encoder")
    for name in known
}


def numbers_of(factory: Any, given: set[str]) -> dict[str, str]:
    """Options that take numbers, with their types as they are written."""
    parameters = inspect.signature(factory).parameters.items()
    written = {name: str(p.annotation) for name, p in parameters if name not in given}
    return {name: text for name, text in written.items() if "int" in text or "float" in text}


@pytest.mark.parametrize(("factory", "given"), FACTORIES.values(), ids=FACTORIES.keys())
def test_no_option_takes_what_is_no_finite_number(factory: Any, given: set[str]) -> None:
    needed = {
        name: "x"
        for name, p in inspect.signature(factory).parameters.items()
        if p.default is p.empty and name not in given and p.kind is p.POSITIONAL_OR_KEYWORD
    }
    for name, annotation in numbers_of(factory, given).items():
        for value in (10**23, -(10**23), float("inf"), float("nan")):
            if isinstance(value, int) and "float" in annotation and "int" not in annotation:
                continue
            for form in [value, [value]] if "list" in annotation else [value]:
                with pytest.raises(InputError, match=f"--{name}"):
                    checked_options(factory, needed | {name: form}, skip=set(given))


@pytest.mark.parametrize("name", ["threads", "workers", "devices", "nodes"])
def test_no_machine_has_a_million_processors(name: str) -> None:
    with pytest.raises(InputError, match=f"--{name} is 1000000, but must be at most 4096"):
        check_training(TrainingConfig(batch_size=10**6, device="cpu", **{name: 10**6}))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--threads", "99999999999999999999999"), "--threads"),
        (("--seed", str(2**63)), "--seed"),
        (("--data.seed", "-1"), "--data.seed"),
        (("--seeds", "99999999999999999999999"), "--seeds"),
        (("--network.hidden", "[99999999999999999999999]", "--network", "MLP"), "--network.hidden"),
        (("--method.strength", "1e400"), "--method.strength"),
        (("--method.attributes.splits", "1e9", "--method.attributes", "CrossFitted"), "--method.attributes.splits"),
    ],
)
def test_the_command_names_the_option(words: tuple[str, ...], expected: str, tmp_path: Any, capfd: Any) -> None:
    assert main(["train", "--data", "Digits", "--method", "LC", *words, "--out", str(tmp_path / "x")]) == 2
    shown = capfd.readouterr().err
    assert shown.startswith("error: ") and shown.count("\n") == 1 and expected in shown
    assert not (tmp_path / "x").exists()


def test_a_network_larger_than_memory_is_told(tmp_path: Any, capfd: Any) -> None:
    words = ("--method", "ERM", "--network", "MLP", "--network.hidden", "[2000000000, 2000000000]")
    assert main(["train", "--data", "Digits", *words, "--out", str(tmp_path / "x")]) == 1
    assert capfd.readouterr().err == "error: there is not enough memory: take a smaller network, batch or image size\n"
    assert not (tmp_path / "x").exists()
