"""Options: one tree, complete and frozen, whether from a mapping, a file, Python or words."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logit_correction import ComponentConfig, InputError, RunConfig, TrainingConfig
from logit_correction.runs.assemble import choose_default_network, fill_defaults_from_data
from logit_correction.runs.options import RUN_ARGUMENTS, complete_config, find_component_class, get_component_kinds
from logit_correction.types import DataInfo


def complete_method(options: dict[str, Any], name: str = "LC") -> dict[str, Any]:
    """The options of a method, with all its defaults, as ``config.yaml`` holds them."""
    method: dict[str, Any] = complete_config({"data": "Digits", "method": {"name": name, **options}}).to_dict()[
        "method"
    ]
    return method


def test_complete_config_fills_in_every_default_and_is_frozen(tmp_path: Path) -> None:
    method = {"name": "LC", "strength": 0.5, "attributes": {"name": "Online", "q": 0.3}, "prior": "Moving"}
    config = complete_config({"data": {"name": "Digits", "severity": 2}, "method": method, "network": "mlp"})
    assert config.data.options["severity"] == 2 and set(config.data.options) >= {"minority_ratio", "seed"}
    options = config.to_dict()["method"]
    assert options["strength"] == 0.5 and options["attributes"]["q"] == 0.3 and config.network.name == "MLP"
    assert options["attributes"]["head_start_epochs"] == 0 and options["attributes"]["epochs"] is None
    assert options["prior"]["estimator"] == "joint" and options["prior"]["floor"] == 5e-5
    assert options["mixing"] == {"name": "IndependentMixUp", "limit": 0.3, "place": "inputs"}
    assert not {"network", "info", "seed", "biased_network"} & set(options)
    assert complete_config(config) == config and complete_config(config).method is config.method
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    assert complete_config(RunConfig.read(tmp_path / "config.yaml")) == config
    for part in (config, config.training, config.method):
        with pytest.raises(dataclasses.FrozenInstanceError):
            part.name = "x"  # type: ignore[misc, union-attr]


def test_complete_config_accepts_common_spellings() -> None:
    expected = complete_method({"attributes": {"name": "CrossFitted", "splits": 1}})
    method = ComponentConfig("LC", {"attributes": ComponentConfig("CrossFitted", {"splits": 1})})
    assert complete_config({"data": "Digits", "method": method}).to_dict()["method"] == expected
    numbers = {"minority_ratio": np.float64(0.1), "seed": np.int64(3), "severity": "2"}
    data = complete_config({"data": {"name": "digits", **numbers}, "method": "erm"}).data
    assert data.name == "Digits" and [data.options[name] for name in numbers] == [0.1, 3, 2]
    flat = {"data": "Digits", "method": "ERM"}
    for words, views in (("colour", ["colour"]), ("[colour, border]", ["colour", "border"])):
        assert complete_config({**flat, "leave_out": words}).training.leave_out == views


def test_options_without_a_component_name_go_to_the_default_component() -> None:
    assert complete_method({"mixing": {"limit": 0.1}})["mixing"] == {
        "name": "IndependentMixUp",
        "limit": 0.1,
        "place": "inputs",
    }
    assert complete_method({"attributes": "TrueAttributes", "prior": None})["prior"] is None
    assert complete_config({"data": "Digits", "method": {"attributes": "TrueAttributes"}}).method.name == "LC"


@pytest.mark.parametrize(
    ("flat", "expected"),
    [
        ({"network": {"hidden": [5]}}, "`network` has options, but no name: give `network` too"),
        ({"method": None, "preset": "stagd"}, "'stagd' does not exist (did you mean staged?)"),
        ({"preset": "paper", "method": "StagedLC"}, "preset paper is for method LC, not StagedLC"),
        ({"gradient_clip": None}, "`gradient_clip`"),
        ({"learning_rate": float("nan")}, "`learning_rate`"),
        ({"leave_out": 3}, "`leave_out` is 3, but must be list[str]"),
        ({"devices": 3, "batch_size": 10}, "`batch_size` is 10, but must be divisible by the 3 processes"),
        ({"method": {"name": "LC", "strength": None}}, "`strength` is None, but must be float"),
        ({"method": {"name": "LC", "prior": {"momentum": 0.7}}}, "`prior` has options, but no name: give `prior` too"),
        ({"method": {"name": "LC", "attributes": {"name": "Online", "schedule": "x"}}}, "must be one of same, none"),
        ({"encoder": {"name": "FromRun"}}, "`encoder.run` is missing"),
        (
            {"method": {"name": "LC", "attributes": {"name": "Clusters", "attributes": {"name": "Online", "q": "h"}}}},
            "`attributes.attributes.q` is 'h', but must be float",
        ),
        ({"shortcut": "colour"}, "`shortcut` is for methods that look for a shortcut"),
        ({"data": {"name": "Table", "file": "x.csv", "label": False}}, "as other values: quote it, such as 'no'"),
        (
            {"data": {"name": "Table", "file": "x.csv", "label": "y", "features": ["x", 15]}},
            "as other values: quote it, such as 'no'",
        ),
        ({"network": {"name": "MLP", "hidden": 10}}, "`network.hidden` is 10, but must be"),
        ({"method": "my_parts.Points"}, "'my_parts.Points' is not a method: give a class that derives from"),
    ],
)
def test_wrong_option_is_named(flat: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=re.escape(expected)):
        complete_config({"data": "Digits", "method": "ERM", "network": "MLP"} | flat)


PARTS_OF_A_KIND = [
    (kind, name) for kind in ("method", "attributes", "prior", "mixing") for name in get_component_kinds()[kind][1]
]


@pytest.mark.parametrize(("kind", "name"), PARTS_OF_A_KIND)
def test_options_refuse_infinite_and_huge_numbers(kind: str, name: str) -> None:
    parameters = {option: p for option, p in inspect.signature(find_component_class(kind, name)).parameters.items()}
    parameters = {
        option: p
        for option, p in parameters.items()
        if option not in RUN_ARGUMENTS.get(kind, ()) and p.kind is not p.VAR_KEYWORD
    }
    needed = {option: "x" for option, p in parameters.items() if p.default is p.empty}
    for option, parameter in parameters.items():
        text = str(parameter.annotation)
        for value in [10**23] * ("int" in text) or [math.inf] * ("float" in text):
            part = {"name": name, **needed, option: [value] if "list" in text else value}
            with pytest.raises(InputError, match=rf"`({kind}\.)?{option}`"):
                complete_config({"data": "Digits", "method": part if kind == "method" else {"name": "LC", kind: part}})


def test_given_options_override_the_preset() -> None:
    method = {"attributes": {"q": 0.8}, "mixing": "NoMixing"}
    flat = {"data": "Digits", "preset": "paper", "method": method, "epochs": 3}
    completed = complete_config(flat).to_dict()
    options = completed["method"]
    assert options["name"] == "LC" and completed["epochs"] == 3 and options["mixing"] == {"name": "NoMixing"}
    assert options["attributes"]["name"] == "Online" and options["attributes"]["q"] == 0.8
    assert (options["prior"]["estimator"], options["prior"]["momentum"]) == ("published", 0.5)
    assert "preset" not in completed  # what it stood for is written out
    other = complete_config({**flat, "method": {"name": "LC", "attributes": "TrueAttributes", "prior": None}}).to_dict()
    assert other["method"]["attributes"] == {"name": "TrueAttributes"} and other["method"]["prior"] is None


def test_staged_lc_equals_its_preset() -> None:
    staged = complete_config({"data": "Digits", "preset": "staged"}).to_dict()["method"]
    assert complete_method({}, "StagedLC") == staged | {"name": "StagedLC"}
    assert complete_method({"attributes": {"splits": 1}}, "stagedlc")["attributes"]["name"] == "CrossFitted"
    assert complete_method({"attributes": "Online"}, "StagedLC")["attributes"]["name"] == "Online"


@pytest.mark.parametrize(
    ("shape", "kind", "name", "decay"),
    [
        ((12,), {}, "MLP", 1e-3),
        ((3, 8, 8), {}, "MLP", 0),
        ((3, 28, 28), {}, "ConvNet", 0),
        ((3, 63, 200), {}, "ConvNet", 0),
        ((3, 64, 64), {}, "ResNet18", 0),
        ((128,), {"tokens": True}, "TextClassifier", 0),
        ((4096,), {"words": True}, "Linear", 0),
    ],
)
def test_network_and_weight_decay_fit_the_data(
    shape: tuple[int, ...], kind: dict[str, bool], name: str, decay: float
) -> None:
    info = DataInfo(num_labels=2, num_rows=9, input_shape=shape, **kind)
    assert choose_default_network(info)[0] == name and choose_default_network(info, is_encoded=True)[0] == "Linear"
    config = RunConfig(ComponentConfig("Digits"), ComponentConfig("ERM"), ComponentConfig("Linear"))
    assert fill_defaults_from_data(config, info)[0].training.weight_decay == decay


@settings(max_examples=30)
@given(st.integers(2, 2_000_000), st.integers(1, 8))
def test_default_epochs_and_batch_size_give_enough_steps(rows: int, processes: int) -> None:
    config = RunConfig(ComponentConfig("Digits"), ComponentConfig("ERM"), ComponentConfig("Linear"))
    config = dataclasses.replace(config, training=TrainingConfig(devices=processes))
    training = fill_defaults_from_data(config, DataInfo(num_labels=2, num_rows=rows, input_shape=(4,)))[0].training
    assert training.batch_size and training.epochs
    steps = math.ceil(rows / training.batch_size)
    assert training.batch_size % processes == 0 and 15 <= training.epochs <= 100
    assert training.epochs * steps >= min(1500, 100 * steps)


def test_shortcut_that_a_person_names_over_a_config_is_decided_by_the_person() -> None:
    attributes = {"name": "Auto", "shortcut": ["column:site"], "decided_by": "answers"}
    written = {"data": "Digits", "method": {"name": "LC", "attributes": attributes}}
    assert complete_config(written).method.options["attributes"]["decided_by"] == "answers"
    renamed = complete_config({**written, "shortcut": "column:ward"}).method.options["attributes"]
    assert (renamed["shortcut"], renamed["decided_by"]) == (["column:ward"], "person")
