"""Options are checked, and completed with their defaults, before anything is built."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any

import pytest
import torch

from logit_correction import ComponentConfig, InputError, RunConfig, TrainingConfig
from logit_correction.presets import PRESETS, load_preset
from logit_correction.runs import options, parts
from logit_correction.runs.assemble import build_algorithm, build_fabric, build_source, check_attributes
from logit_correction.runs.defaults import fitted
from logit_correction.runs.options import checked_options, plain
from logit_correction.runs.parts import complete, find_class
from logit_correction.runs.train import training_rows


def run_config(**options: Any) -> RunConfig:
    return RunConfig(ComponentConfig("Digits"), ComponentConfig("ERM"), training=TrainingConfig(**options))


def test_complete_fills_in_every_default() -> None:
    own = {"strength": 0.5, "attributes": {"name": "Online", "q": 0.3}, "prior": "Moving"}
    whole = complete(RunConfig(ComponentConfig("Digits", {"severity": 2}), ComponentConfig("LC", own)))
    assert whole.data.options["severity"] == 2 and set(whole.data.options) >= {"minority_ratio", "seed"}
    options = whole.method.options
    assert options["strength"] == 0.5 and options["attributes"]["q"] == 0.3
    assert options["attributes"]["head_start_epochs"] == 0 and options["attributes"]["epochs"] is None
    assert options["prior"] == {
        "name": "Moving",
        "estimator": "joint",
        "averaging": "moving",
        "momentum": None,
        "floor": 5e-5,
    }
    assert options["mixing"] == {"name": "IndependentMixUp", "limit": 0.3, "place": "inputs"}
    assert not {"network", "info", "seed", "biased_network"} & set(whole.method.options)
    assert complete(whole) == whole
    assert complete(RunConfig.from_dict(whole.to_dict())) == whole


def test_config_of_a_file_is_the_config(tmp_path: Any) -> None:
    whole = complete(
        RunConfig(
            ComponentConfig("Digits"),
            ComponentConfig("LC"),
            ComponentConfig("MLP", {"hidden": [4]}),
            ComponentConfig("MLP", {"hidden": [3]}),
        )
    )
    (tmp_path / "config.yaml").write_text(whole.to_yaml())
    assert RunConfig.read(tmp_path / "config.yaml") == whole


@pytest.mark.parametrize(
    ("flat", "expected"),
    [
        ({"method": "LC"}, "data is missing"),
        ({"data": "Digits"}, "method is missing"),
        ({"data": "Digits", "method": "LC", "epoch": 3}, "'epoch' (did you mean epochs?)"),
        ({"data": "Digits", "method": {"strength": 0.5}}, "method must be a name"),
        ({"data": "Digits", "preset": "stagd"}, "there is no preset 'stagd' (did you mean staged?)"),
        ({"data": "Digits", "preset": "paper", "method": "StagedLC"}, "preset paper is for method LC, not StagedLC"),
        ({"data": "Digits", "preset": None}, "there is no preset None: take one of paper, staged"),
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
        ({"epochs": 0}, "--epochs is 0, but must be at least 1"),
        ({"batch_size": 0}, "--batch_size is 0, but must be at least 1"),
        ({"gradient_clip": None}, "--gradient_clip has no value"),
        ({"learning_rate": float("nan")}, "--learning_rate"),
        ({"weight_decay": -1.0}, "--weight_decay is -1.0, but must not be negative"),
        ({"gradient_clip": float("inf")}, "--gradient_clip"),
        ({"selection": "best"}, "--selection: selection rule 'best' is unknown: take one of last, valid_average"),
        ({"also_select": "last"}, "--also_select is 'last', but must be a list"),
        ({"also_select": ["best"]}, "--also_select: selection rule 'best' is unknown: take one of last"),
        ({"devices": 3, "batch_size": 10}, "--batch_size is 10, but must be divisible by the 3 processes"),
        ({"deterministic": "maybe"}, "--deterministic is 'maybe', but must be true or false"),
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
        (
            "data",
            {"severty": 3},
            "there is no option --data.severty (did you mean --data.severity?): Digits has correlation",
        ),
        ("data", {"minority_ratio": "half"}, "--data.minority_ratio is 'half', but must be a number"),
        ("data", {"correlation": 5}, "--data.correlation is '5', but must be a list of lists"),
        ("method", {"strength": None}, "--method.strength has no value"),
        ("method", {"strength": "much"}, "--method.strength is 'much', but must be a number"),
        ("method", {"seed": 1}, "there is no option --method.seed: LC has attributes"),
        ("method", {"q": 0.7}, "there is no option --method.q: LC has attributes, mixing, oversampling, prior"),
        ("method", {"prior": "best"}, "prior 'best' is unknown: take one of Counted, Moving, or"),
        ("method", {"mixing": "GroupMixUpp"}, "mixing 'GroupMixUpp' is unknown (did you mean GroupMixUp?)"),
        ("method", {"attributes": "Onlin"}, "attribute estimator 'Onlin' is unknown (did you mean Online?)"),
        ("method", {"attributes": "my_parts.Points"}, "'my_parts.Points' is not a attribute estimator"),
        ("method", {"attributes": 5}, "--method.attributes must be a name, or a mapping with a name"),
        ("method", {"attributes": {"q": 0.7}}, "there is no option --method.attributes.q: Auto has"),
        ("method", {"prior": {"momentum": 0.7}}, "--method.prior.momentum is of no effect without a name"),
        (
            "method",
            {"attributes": {"name": "Online", "qq": 1}},
            "there is no option --method.attributes.qq (did you mean --method.attributes.q?): Online has",
        ),
        (
            "method",
            {"attributes": {"name": "Online", "q": "high"}},
            "--method.attributes.q is 'high', but must be a number",
        ),
        (
            "method",
            {"attributes": {"name": "Online", "gce_form": "papers"}},
            "--method.attributes.gce_form is 'papers', but must be one of paper, weighted",
        ),
        ("method", {"attributes": {"name": "Online", "q": None}}, "--method.attributes.q has no value"),
        (
            "method",
            {"attributes": {"name": "Clusters", "attributes": {"name": "Online", "q": "high"}}},
            "--method.attributes.attributes.q is 'high', but must be a number",
        ),
        ("network", {"hidden": 10}, "--network.hidden is '10', but must be a list"),
    ],
)
def test_options_of_parts_are_checked(part: str, options: dict[str, Any], expected: str) -> None:
    choices = {"data": ComponentConfig("Digits"), "method": ComponentConfig("LC"), "network": ComponentConfig("MLP")}
    choices[part] = ComponentConfig(choices[part].name, options)
    with pytest.raises(InputError, match=re.escape(expected)):
        complete(RunConfig(**choices))


def test_what_is_checked_is_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = complete(
        RunConfig(ComponentConfig("Digits"), ComponentConfig("LC", {"attributes": "Online"}), ComponentConfig("MLP"))
    )
    seen: list[object] = []
    real = options.checked_options
    monkeypatch.setattr(
        parts, "checked_options", lambda cls, *rest, **more: seen.append(cls) or real(cls, *rest, **more)
    )
    info = build_source(whole).build().info
    build_algorithm(complete(whole), info)
    assert seen == [TrainingConfig]  # its numbers are plain and may have been replaced
    build_algorithm(complete(RunConfig.from_dict(whole.to_dict())), info)
    assert len(seen) == 1 + 6  # training, data, network, the method, and its estimator and mixing


def test_options_of_a_component_without_a_name_are_those_of_the_default() -> None:
    own = complete(
        RunConfig(ComponentConfig("Digits"), ComponentConfig("LC", {"mixing": {"limit": 0.1}}))
    ).method.options
    assert own["mixing"] == {"name": "IndependentMixUp", "limit": 0.1, "place": "inputs"}


def test_an_option_may_be_null_where_its_type_says_so() -> None:
    class Part:
        def __init__(self, length: float | None = 2.0, width: int = 3, anything=None) -> None:  # type: ignore[no-untyped-def]
            """Take options."""

    assert checked_options(Part, {"length": None}) == {"length": None, "width": 3, "anything": None}
    assert checked_options(Part, {"anything": None})["anything"] is None
    with pytest.raises(InputError, match=r"--part\.width has no value"):
        checked_options(Part, {"width": None}, "part.")


def test_a_preset_lies_under_what_is_given() -> None:
    flat = {
        "data": "Digits",
        "preset": "paper",
        "method": {"attributes": {"q": 0.8}, "mixing": "NoMixing"},
        "epochs": 3,
    }
    whole = complete(RunConfig.from_dict(flat))
    assert whole.method.name == "LC" and whole.training.epochs == 3
    options = whole.method.options
    assert options["attributes"]["name"] == "Online" and options["attributes"]["q"] == 0.8
    assert (options["prior"]["estimator"], options["prior"]["momentum"]) == ("cell", 0.5)
    assert options["mixing"] == {"name": "NoMixing"}
    assert "preset" not in whole.to_dict()  # what it stood for is written out
    other = complete(
        RunConfig.from_dict({**flat, "method": {"name": "LC", "attributes": "TrueAttributes", "prior": None}})
    )
    assert other.method.options["attributes"] == {"name": "TrueAttributes"} and other.method.options["prior"] is None


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_complete_and_sound(name: str) -> None:
    whole = complete(RunConfig.from_dict({"data": "Digits", "preset": name}))
    given = load_preset(name)["method"]
    assert whole.method.name == given.pop("name")
    for option, value in given.items():
        stored = whole.method.options[option]
        assert {k: stored[k] for k in value} == value if isinstance(value, dict) else stored == value
    info = build_source(whole).build().info
    build_algorithm(fitted(whole, info)[0], info)


def test_components_of_the_users_own_are_made_with_their_options() -> None:
    method = ComponentConfig("LC", {"attributes": {"name": "my_parts.Greatest", "first": 0}})
    whole = complete(RunConfig(ComponentConfig("my_parts.Points"), method, ComponentConfig("MLP")))
    assert whole.method.options["attributes"] == {"name": "my_parts.Greatest", "first": 0, "unsure": 0.0}
    table = build_source(whole).build()
    algorithm = build_algorithm(whole, table.info)
    algorithm.setup(training_rows(table, algorithm, 1, None))
    algorithm.begin_stage(0, None)
    found = table.inputs.fetch(table.split["train"])[:, :3].argmax(1)
    assert algorithm.attributes is not None and torch.equal(algorithm.attributes.row_attribute, found)
    view = ComponentConfig("LC", {"attributes": {"name": "CrossFitted", "view": "my_parts.Tail", "epochs": 1}})
    build_algorithm(complete(RunConfig(ComponentConfig("my_parts.Points"), view, ComponentConfig("MLP"))), table.info)


def test_attributes_that_are_not_there_are_asked_for() -> None:
    data, method = (
        ComponentConfig("my_parts.Points", {"known": False}),
        ComponentConfig("LC", {"attributes": "TrueAttributes"}),
    )
    config = RunConfig(data, method, ComponentConfig("MLP"))
    table = build_source(config).build()
    with pytest.raises(InputError, match=r"method LC as chosen needs the attribute.*or take .*--method\.attributes"):
        check_attributes(config, build_algorithm(config, table.info), table)


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


def test_steps_on_a_processor_do_not_look_for_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # as importing Fabric leaves it
    build_fabric(TrainingConfig(epochs=1, device="cpu"))
    assert "PYTORCH_NVML_BASED_CUDA_CHECK" not in os.environ


def test_fabric_takes_the_threads() -> None:
    before = torch.get_num_threads()
    try:
        fabric = build_fabric(dataclasses.replace(TrainingConfig(), threads=1, device="cpu"))
        assert torch.get_num_threads() == 1 and fabric.world_size == 1
    finally:
        torch.set_num_threads(before)
