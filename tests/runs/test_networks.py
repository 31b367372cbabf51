"""Networks by name, by dotted path and as functions; separate biased networks; whether they fit the data."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from logit_correction import ComponentConfig, InputError, RunConfig, TrainingConfig, load, train
from logit_correction.bench.digits import Digits
from logit_correction.runs.assemble import build_algorithm
from logit_correction.runs.options import complete

SHORT = TrainingConfig(epochs=1, batch_size=512, threads=1, log_every=10)


def config(network: ComponentConfig, method: ComponentConfig | None = None, **more: Any) -> RunConfig:
    return RunConfig(ComponentConfig("Digits"), method or ComponentConfig("ERM"), network, training=SHORT, **more)


def test_a_function_of_the_user_makes_networks(tmp_path: Path) -> None:
    chosen = config(ComponentConfig("my_parts.narrow_network", {"width": 5}))
    assert complete(config(ComponentConfig("my_parts.narrow_network"))).network.options == {"width": 4, "scale": None}
    run = train(chosen, tmp_path / "run", page=False)
    assert json.loads((run / "report.json").read_text())["network"]["options"] == {"width": 5, "scale": None}
    model = load(run)
    layers: Any = model.algorithm.network
    assert layers[1].out_features == 5 and model.predict(torch.zeros(2, 3, 8, 8)).shape == (2,)


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (
            ComponentConfig("my_parts.narrow_network", {"width": "wide"}),
            "--network.width is 'wide', but must be a whole number",
        ),
        (ComponentConfig("my_parts.narrow_network", {"depth": 2}), "narrow_network has scale, width"),
        (ComponentConfig("my_parts.USER_LABELS"), "cannot be imported"),
        (ComponentConfig("my_parts.HOSTILE_LABELS"), "is not a class"),
        (ComponentConfig("torch.nn.Linear"), "takes no argument `info`"),
        (ComponentConfig("math.floor"), "takes no argument `info`"),
    ],
)
def test_what_makes_no_network_is_refused(network: ComponentConfig, expected: str) -> None:
    with pytest.raises(InputError, match=re.escape(expected)):
        complete(config(network))


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ("my_parts.no_network", "made a str, but must make a torch.nn.Module"),
        ("my_parts.too_few_logits", r"gives logits of shape \(2, 3\), but must give \(2, 10\)"),
        ("my_parts.wrong_inputs", r"does not take inputs of shape \(3, 8, 8\)"),
        ("TextClassifier", r"takes tokens of texts, but the inputs are numbers of shape \(3, 8, 8\)"),
    ],
)
def test_a_network_that_does_not_fit_is_refused_before_training(network: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=expected):
        train(config(ComponentConfig(network)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


SETTLED = {"name": "Online", "head_start_epochs": 1, "epochs": 1}


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("LfF", {}),
        ("LC", {"attributes": "Online"}),
        ("StagedLC", {}),
        ("Reweighting", {"attributes": "CrossFitted"}),
        ("GroupDRO", {"attributes": SETTLED}),
    ],
)
def test_the_biased_network_can_be_another_one(method: str, options: dict[str, Any]) -> None:
    own = ComponentConfig(method, options)
    chosen = config(
        ComponentConfig("ResNet20", {"depth": 8}), own, biased_network=ComponentConfig("ConvNet", {"channels": [4]})
    )
    algorithm = build_algorithm(complete(chosen), Digits().build().info)
    kinds = {type(module).__name__ for name, module in algorithm.named_modules() if name == "network"}
    others = [type(network).__name__ for network in algorithm.built if network is not algorithm.network]
    assert kinds == {"ResNet20"} and set(others) == {"ConvNet"}


#: Estimators that train no network of the kind that --biased_network names.
WITHOUT_NETWORK: list[Any] = [
    "TrueAttributes",
    {"name": "Given", "column": "hint"},
    {"name": "CrossFitted", "view": "inputs"},
    {"name": "Auto", "shortcut": ["inputs"]},
    "my_parts.Greatest",
]


@pytest.mark.parametrize("method", ["LC", "StagedLC", "Reweighting", "GroupDRO"])
@pytest.mark.parametrize("estimator", WITHOUT_NETWORK, ids=str)
def test_a_biased_network_that_nothing_trains_is_refused(method: str, estimator: Any) -> None:
    chosen = config(
        ComponentConfig("MLP"),
        ComponentConfig(method, {"attributes": estimator}),
        biased_network=ComponentConfig("MLP"),
    )
    with pytest.raises(InputError, match="trains no biased network: leave --biased_network out"):
        build_algorithm(complete(chosen), Digits().build().info)


@pytest.mark.parametrize("method", ["ERM", "JTT", "DFA"])
def test_a_biased_network_of_a_method_without_one_is_refused(method: str) -> None:
    with pytest.raises(InputError, match=f"method {method} has no biased network: leave --biased_network out"):
        build_algorithm(
            complete(config(ComponentConfig("MLP"), ComponentConfig(method), biased_network=ComponentConfig("MLP"))),
            Digits().build().info,
        )


@pytest.mark.parametrize("method", ["LC", "StagedLC"])
def test_a_small_biased_network_serves_a_large_one(method: str, tmp_path: Path) -> None:
    options = {"attributes": SETTLED if method == "LC" else {"name": "CrossFitted", "epochs": 1}}
    chosen = RunConfig(
        ComponentConfig("Digits"),
        ComponentConfig(method, options),
        ComponentConfig("ResNet20", {"depth": 8, "width": 4}),
        ComponentConfig("ConvNet", {"channels": [4, 8], "convolutions": 1}),
        TrainingConfig(epochs=1, batch_size=512, threads=1),
    )
    run = train(chosen, tmp_path / "run", page=False)
    assert load(run).config.biased_network == ComponentConfig(
        "ConvNet", {"channels": [4, 8], "convolutions": 1, "hidden": 100, "norm": "batch", "dropout": 0.0}
    )
    assert load(run).predict(torch.zeros(2, 3, 8, 8)).shape == (2,)


def test_the_stem_that_auto_stood_for_is_reported(tmp_path: Path) -> None:
    run = train(config(ComponentConfig("my_parts.stemmed")), tmp_path / "run", page=False)
    assert json.loads((run / "report.json").read_text())["network"]["facts"] == {"stem": "cifar"}


class TestFromRun:
    def test_goes_on_from_the_weights(self, digits_run: Path) -> None:
        chosen = complete(config(ComponentConfig("FromRun", {"run": str(digits_run)})))
        network: Any = build_algorithm(chosen, Digits().build().info).network
        old: Any = load(digits_run).algorithm.network
        images = torch.rand(3, 3, 8, 8)
        assert network.training and torch.equal(network(images), old(images))

    def test_gets_a_new_head_for_other_labels(self, digits_run: Path) -> None:
        info = dataclasses.replace(Digits().build().info, num_labels=4, label_names=tuple("abcd"))
        chosen = complete(config(ComponentConfig("FromRun", {"run": str(digits_run)})))
        network: Any = build_algorithm(chosen, info).network
        old: Any = load(digits_run).algorithm.network
        images = torch.rand(3, 3, 8, 8)
        assert network(images).shape == (3, 4)
        assert torch.equal(network.features(images), old.features(images))

    def test_refuses_other_inputs(self, digits_run: Path) -> None:
        info = dataclasses.replace(Digits().build().info, input_shape=(3, 9, 9))
        chosen = complete(config(ComponentConfig("FromRun", {"run": str(digits_run)})))
        with pytest.raises(InputError, match=r"takes inputs of shape \(3, 8, 8\), but"):
            build_algorithm(chosen, info)

    def test_refuses_what_is_no_run(self, tmp_path: Path) -> None:
        chosen = complete(config(ComponentConfig("FromRun", {"run": str(tmp_path)})))
        with pytest.raises(InputError, match="is not a run folder"):
            build_algorithm(chosen, Digits().build().info)
