"""Options are checked, and completed with their defaults, before anything is built."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
import torch

from logit_correction import Choice, InputError, RunConfig, TrainingConfig
from logit_correction.runs.assemble import build_fabric, complete, find_class
from logit_correction.runs.options import checked_options, plain


def run_config(**options: Any) -> RunConfig:
    return RunConfig(Choice("Digits"), Choice("ERM"), training=TrainingConfig(**options))


def test_complete_fills_in_every_default() -> None:
    whole = complete(RunConfig(Choice("Digits", {"severity": 2}), Choice("LC", {"q": 0.5})))
    assert whole.data.options["severity"] == 2 and set(whole.data.options) >= {"minority_ratio", "seed"}
    assert whole.method.options["q"] == 0.5 and "momentum" in whole.method.options
    assert not {"network", "info", "seed", "biased_network"} & set(whole.method.options)
    assert complete(whole) == whole
    assert complete(RunConfig.from_dict(whole.to_dict())) == whole


def test_config_of_a_file_is_the_config(tmp_path: Any) -> None:
    whole = complete(
        RunConfig(Choice("Digits"), Choice("LC"), Choice("MLP", {"hidden": [4]}), Choice("MLP", {"hidden": [3]}))
    )
    (tmp_path / "config.yaml").write_text(whole.to_yaml())
    assert RunConfig.read(tmp_path / "config.yaml") == whole


@pytest.mark.parametrize(
    ("flat", "expected"),
    [
        ({"method": "LC"}, "data is missing"),
        ({"data": "Digits"}, "method is missing"),
        ({"data": "Digits", "method": "LC", "epoch": 3}, "'epoch' (did you mean epochs?)"),
        ({"data": "Digits", "method": {"q": 0.5}}, "method must be a name"),
        ({"data": 5, "method": "LC"}, "data must be a name"),
    ],
)
def test_config_from_a_mapping_refuses(flat: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=re.escape(expected)):
        RunConfig.from_dict(flat)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"epochs": "many"}, "--epochs is 'many', but must be a whole number"),
        ({"epochs": None}, "--epochs has no value"),
        ({"learning_rate": float("nan")}, "--learning_rate"),
        ({"weight_decay": -1.0}, "--weight_decay is -1.0, but must not be negative"),
        ({"gradient_clip": float("inf")}, "--gradient_clip"),
        ({"selection": "best"}, "--selection is 'best', but must be one of last, valid_average"),
        ({"also_select": "last"}, "--also_select is 'last', but must be a list"),
        ({"also_select": ["best"]}, "--also_select is 'best', but must be one of last"),
        ({"devices": 3, "batch_size": 10}, "--batch_size is 10, but must be divisible by the 3 processes"),
        ({"tensorboard": "maybe"}, "--tensorboard is 'maybe', but must be true or false"),
    ],
)
def test_training_options_are_checked(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=re.escape(expected)):
        complete(run_config(**options))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="--device cuda: torch sees no CUDA device"):
        complete(run_config(device="cuda"))


@pytest.mark.parametrize(
    ("part", "options", "expected"),
    [
        ("data", {"severty": 3}, "Digits has no option 'severty' (did you mean severity?)"),
        ("data", {"minority_ratio": "half"}, "--data.minority_ratio is 'half', but must be a number"),
        ("data", {"correlation": 5}, "--data.correlation is '5', but must be a list of lists"),
        ("method", {"q": None}, "--method.q has no value"),
        ("method", {"prior": "best"}, "--method.prior is 'best', but must be one of "),
        ("method", {"seed": 1}, "LC has no option 'seed'"),
        ("network", {"hidden": 10}, "--network.hidden is '10', but must be a list"),
    ],
)
def test_options_of_parts_are_checked(part: str, options: dict[str, Any], expected: str) -> None:
    choices = {"data": Choice("Digits"), "method": Choice("LC"), "network": Choice("MLP")}
    choices[part] = Choice(choices[part].name, options)
    with pytest.raises(InputError, match=re.escape(expected)):
        complete(RunConfig(**choices))


def test_an_option_may_be_null_where_its_type_says_so() -> None:
    class Part:
        def __init__(self, length: float | None = 2.0, width: int = 3, anything=None) -> None:  # type: ignore[no-untyped-def]
            """Take options."""

    assert checked_options(Part, {"length": None}) == {"length": None, "width": 3, "anything": None}
    assert checked_options(Part, {"anything": None})["anything"] is None
    with pytest.raises(InputError, match=r"--part\.width has no value"):
        checked_options(Part, {"width": None}, "part.")


def test_what_a_file_cannot_hold_is_refused() -> None:
    assert plain({"a": (1, 2.5, None, True, "x")}, "a") == {"a": [1, 2.5, None, True, "x"]}
    with pytest.raises(InputError, match=r"option part is of type object, which config\.yaml"):
        plain([object()], "part")


@pytest.mark.parametrize(
    ("part", "name", "expected"),
    [
        ("data", "my_parts.Narrow", "not a data source: its class must derive from logit_correction.data.table"),
        ("method", "my_parts.Points", "not a method"),
        ("network", "my_parts.Points", "not a network: its class must derive from torch.nn"),
        ("method", "my_parts", "method 'my_parts' is unknown"),
        ("method", "my_parts.", "my_parts."),
        ("method", ".LC", ".LC"),
        ("method", "", "is unknown"),
    ],
)
def test_classes_are_checked(part: str, name: str, expected: str) -> None:
    with pytest.raises(InputError, match=re.escape(expected)):
        find_class(part, name)


def test_a_broken_module_of_the_user_is_not_hidden(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needs_more.py").write_text("import surely_not_installed\n")
    (tmp_path / "is_broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match="surely_not_installed"):
        find_class("method", "needs_more.Method")
    with pytest.raises(ZeroDivisionError):
        find_class("method", "is_broken.Method")


def test_fabric_takes_the_threads() -> None:
    before = torch.get_num_threads()
    try:
        fabric = build_fabric(dataclasses.replace(TrainingConfig(), threads=1, device="cpu"))
        assert torch.get_num_threads() == 1 and fabric.world_size == 1
    finally:
        torch.set_num_threads(before)
