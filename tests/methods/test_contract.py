"""The contract of every method; a new entry of METHODS is tested without a change here."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.attributes.xrm import XRM
from logit_correction.data.table import DataTable
from logit_correction.methods import METHODS
from logit_correction.methods.base import Algorithm
from logit_correction.networks.small import MLP
from logit_correction.registry import import_component
from logit_correction.runs.assemble import build_training_rows
from logit_correction.seeds import StepRandomness
from logit_correction.training.config import TrainingConfig
from logit_correction.training.display import Display
from logit_correction.training.fit import Trainer
from logit_correction.types import Batch, Correlation, Step, TrainingRows

from ..conftest import build_arguments, build_biased_table, copy_tensors, find_differing_tensors, save_and_load
from ..device_transfers import DeviceTransferRecorder

SOURCES: dict[str, dict[str, Any]] = {
    "images": {"images": True},
    "features": {"correlation": Correlation.one_to_one(4)},
    "fewer attributes than labels": {"correlation": Correlation.from_table([[0], [0], [1]])},
    "several attributes for a label": {"correlation": Correlation.from_table([[0, 1], [2], [3, 4]])},
}
IMAGES, FEATURES, FEWER, SEVERAL = SOURCES

#: Attribute estimators under some of their options.
SIDE_BY_SIDE = {"name": "Online", "input_dropout": 0.5, "q_ramp_up_epochs": 1.0, "schedule": "none"}
ONCE_AHEAD = {"name": "Online", "head_start_epochs": 1, "epochs": 1}
HALVES = {"name": "CrossFitted", "splits": 1, "input_dropout": 0.5}
HEADS = {"name": "Auto", "shortcut": ["border"]}
GIVEN = {"name": "Given", "column": "hint"}
PAPER = {
    "attributes": {"name": "Online", "multiply_by_q": True, "loss_weight": 2.0, "weight_decay": 0.0},
    "prior": {"name": "Moving", "estimator": "cell", "momentum": 0.5, "floor": 1e-4},
    "mixing": "GroupMixUp",
}
# Without mixing and with a larger floor than the published one: else 18 epochs teach too little.
PUBLISHED = {"name": "Moving", "estimator": "published", "normalize_columns": True, "floor": 0.1}

#: Other options than the defaults under which the contract must hold too, each on one source.
FURTHER_CASES: list[tuple[str, dict[str, Any], str]] = [
    ("LC", PAPER, IMAGES),
    ("LC", {"attributes": "Online", "prior": PUBLISHED, "mixing": "NoMixing"}, IMAGES),
    ("LC", {"attributes": "Clusters"}, SEVERAL),
    ("LC", {"attributes": GIVEN, "prior": {"name": "Counted", "smoothing": 1.0}, "oversampling": 0.5}, FEATURES),
    ("Reweighting", {"attributes": SIDE_BY_SIDE}, IMAGES),
    ("GroupDRO", {"attributes": ONCE_AHEAD, "adjustment": 1.0}, IMAGES),
    ("LC", {"attributes": "XRM"}, IMAGES),
    ("PostHoc", {"attributes": GIVEN}, FEATURES),
    ("LastLayer", {"attributes": "TrueAttributes"}, IMAGES),
]

#: And a sweep, for the slow tests.
SWEEP_CASES: list[tuple[str, dict[str, Any], str]] = [
    ("LC", {"attributes": SIDE_BY_SIDE, "prior": {"name": "Moving", "averaging": "dataset"}}, IMAGES),
    ("LC", {"attributes": {"name": "Online", "correlation": "known"}, "mixing": "NoMixing"}, FEWER),
    ("LC", {"attributes": ONCE_AHEAD, "mixing": {"name": "GroupMixUp", "rows": "minority-rows"}}, IMAGES),
    (
        "LC",
        {
            "attributes": {"name": "Online", "epochs": 2.5},
            "prior": {"name": "Moving", "estimator": "algorithm-1", "averaging": "batch"},
            "mixing": {"name": "GroupMixUp", "place": "features"},
        },
        IMAGES,
    ),
    ("LC", {"attributes": {**HALVES, "correlation": "known"}}, FEWER),
    ("LC", {"attributes": "Online", "prior": {**PUBLISHED, "averaging": "moving-rows"}, "mixing": "NoMixing"}, IMAGES),
    ("LC", {"attributes": HEADS, "strength": 0.5}, IMAGES),
    ("LC", {"attributes": {"name": "Clusters", "attributes": {**ONCE_AHEAD, "temperature": 0.5}}}, SEVERAL),
    ("Reweighting", {"attributes": "TrueAttributes"}, SEVERAL),
    ("GroupDRO", {"attributes": GIVEN}, FEATURES),
    ("DFA", {"swap_from_epoch": 0.0}, IMAGES),
    ("GroupDRO", {"attributes": "EIIL"}, FEATURES),
    ("Reweighting", {"attributes": "MST", "balance": "conditional"}, FEATURES),
    ("LastLayer", {"attributes": GIVEN}, FEATURES),
]


def format_options(value: Any) -> str:
    """Options in a few words, for the name of a case."""
    if isinstance(value, dict):
        return ",".join(format_options(part) for part in value.values())
    return str(value)


def make_cases(name: str, options: dict[str, Any], source: str, marks: Any = ()) -> list[Any]:
    """A method under its options in every stage; ``build`` takes the stage among the options."""
    cls = import_component("method", name, METHODS)
    info = build_biased_table(**SOURCES[source]).info
    stages = cls(lambda: MLP(info, hidden=(8,)), info, **build_arguments(cls, options)).num_stages
    case_name = f"{name} {format_options(options)} {source}"
    return [
        pytest.param(name, {**options, "stage": k}, source, id=f"{case_name} {k}", marks=marks) for k in range(stages)
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    # LC stands for those that search as it does: StagedLC is LC, and the others stand below with other estimators.
    covered_by_lc = ("StagedLC", "Reweighting", "PostHoc")
    cases = [case for name in METHODS if name not in covered_by_lc for case in make_cases(name, {}, FEATURES)]
    cases += [case for case_options in FURTHER_CASES for case in make_cases(*case_options)]
    cases += [case for case_options in SWEEP_CASES for case in make_cases(*case_options, marks=pytest.mark.slow)]
    if "tmp_path" in metafunc.fixturenames:  # trains all stages, where the first one is
        cases = [case for case in cases if not case.values[1]["stage"]]
    metafunc.parametrize(("name", "options", "source"), cases)


#: An epoch after the head start of any method.
LATE = 50.0


@pytest.fixture
def table(make_table, source: str) -> DataTable:
    """Small data, with a column that holds the attribute of most rows."""
    table = make_table(**SOURCES[source])
    hint = [f"value {int(value)}" if row % 7 else "" for row, value in enumerate(table.attribute)]
    return replace(table, columns={"hint": np.array(hint)})


@pytest.fixture
def algorithm(build, name: str, options: dict[str, Any], table: DataTable) -> Algorithm:
    return build(name, table, **options)


def get_trained_parameters(algorithm: Algorithm) -> list[torch.nn.Parameter]:
    return [parameter for group in algorithm.parameter_groups() for parameter in group["params"]]


def fetch_all_inputs(table: DataTable, split: str = "train") -> Tensor:
    return table.inputs.fetch(table.split[split])


def test_step_has_a_finite_scalar_loss_and_detached_logs(algorithm: Algorithm, table: DataTable, batches) -> None:
    for epoch in (0.0, 0.7, LATE):
        step = algorithm(next(batches(algorithm, table)), epoch)
        assert isinstance(step, Step) and step.loss.shape == () and step.loss.requires_grad
        assert bool(torch.isfinite(step.loss))
        for value in step.logs.values():
            assert value.shape == () and not value.requires_grad and bool(torch.isfinite(value))


def test_every_trained_parameter_gets_a_gradient(
    algorithm: Algorithm, options: dict[str, Any], table: DataTable, batches
) -> None:
    parameters = get_trained_parameters(algorithm)
    assert len({id(parameter) for parameter in parameters}) == len(parameters) > 0
    if options["stage"] + 1 == algorithm.num_stages and hasattr(algorithm.network, "head"):  # DFA has two
        assert {id(p) for p in algorithm.network.head.parameters()} <= {id(p) for p in parameters}
    for epoch in (0.0, LATE):  # a network may start later than another, or be left alone after a while
        algorithm(next(batches(algorithm, table)), epoch).loss.backward()
    for group in algorithm.parameter_groups():
        assert isinstance(group["name"], str)
        gradients = [parameter.grad for parameter in group["params"]]
        assert all(gradient is not None and bool(torch.isfinite(gradient).all()) for gradient in gradients)
        assert any(bool(gradient.any()) for gradient in gradients)


def test_method_loaded_from_its_state_predicts_and_steps_the_same(
    build, name: str, options: dict[str, Any], table: DataTable, batches, take_steps
) -> None:
    def compute_next_step(method: Algorithm) -> tuple[Step, list[Tensor]]:
        method.zero_grad()
        step = method(next(batches(method, table, 5)), LATE)
        step.loss.backward()
        return step, [p.grad for p in get_trained_parameters(method) if p.grad is not None]

    # The second one is new: what a stage has found must be in the state too.
    first = build(name, table, **options)
    second = build(name, table, **{**options, "stage": 0})
    take_steps(first, table, epochs=2)
    second.stage = first.stage
    second.load_state_dict(save_and_load(first.state_dict()))
    assert torch.equal(first.predict(fetch_all_inputs(table)), second.predict(fetch_all_inputs(table)))
    step, gradient = compute_next_step(first)
    step_again, gradient_again = compute_next_step(second)
    assert torch.equal(step.loss, step_again.loss)
    assert step.logs.keys() == step_again.logs.keys()
    assert all(torch.equal(step.logs[key], step_again.logs[key]) for key in step.logs)
    assert len(gradient) == len(gradient_again) > 0 and all(map(torch.equal, gradient, gradient_again))
    assert find_differing_tensors(copy_tensors(first.state_dict()), copy_tensors(second.state_dict())) == []


def test_training_depends_on_the_seed_only(
    build, name: str, options: dict[str, Any], table: DataTable, take_steps
) -> None:
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(results))
        algorithm = build(name, table, seed=seed, **options)
        take_steps(algorithm, table)
        results.append(copy_tensors(algorithm.state_dict()))
    assert find_differing_tensors(results[0], results[1]) == []
    weight_names = [key for key in results[0] if key.endswith(".weight") and bool(results[0][key].any())]
    assert weight_names and not any(torch.equal(results[0][key], results[2][key]) for key in weight_names)


def test_step_transfers_no_value_between_host_and_device(
    algorithm: Algorithm, table: DataTable, batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The meta device has no values, so reading one fails; and no generators, so one of the CPU serves.
    monkeypatch.setattr(StepRandomness, "next", lambda self, device: torch.Generator())
    algorithm.to("meta")
    batch = next(batches(algorithm, table))
    moved = Batch(batch.inputs.to("meta"), batch.label.to("meta"), batch.index.to("meta"))
    algorithm(moved, 0.0).loss.backward()  # tables are placed on the device once
    with DeviceTransferRecorder("meta") as recorder:
        for epoch in (0.0, 0.7, LATE):
            algorithm(moved, epoch).loss.backward()
    assert recorder.operations == []
    assert all(parameter.grad is not None for parameter in get_trained_parameters(algorithm))


def test_training_lowers_the_loss_and_fits_the_rows(
    algorithm: Algorithm, table: DataTable, batches, take_steps
) -> None:
    rows = table.split["train"]
    batch = next(batches(algorithm, table))
    inputs = fetch_all_inputs(table)
    label = table.label[rows]
    before = cross_entropy(algorithm.predict(inputs), label)
    loss_before = copy.deepcopy(algorithm)(batch, LATE).loss
    head = getattr(algorithm.network, "head", None)  # DFA has two
    only_head = head is not None and {id(p) for p in get_trained_parameters(algorithm)} == {
        id(p) for p in head.parameters()
    }
    take_steps(algorithm, table, epochs=18)
    logits = algorithm.eval().predict(inputs)
    # A last layer alone has features of weights as they were drawn; XRM's twins give rows other labels.
    weak = only_head or (algorithm.in_pretraining and isinstance(algorithm.attributes, XRM))
    assert algorithm.train()(batch, LATE).loss < (1.0 if weak else 0.8) * loss_before
    if not weak:
        assert cross_entropy(logits, label) < 0.5 * before
        assert (logits.argmax(1) == label).double().mean() > 0.8


def train_algorithm(
    cls: type[Algorithm], options: dict[str, Any], table: DataTable, folder: Path, watch: Callable[[object], None]
) -> Trainer:
    """Train a method; ``watch`` is called with all attributes that reach it."""

    class Watched(cls):  # type: ignore[misc, valid-type]
        def setup(self, rows: TrainingRows) -> None:
            watch(rows.attribute)
            super().setup(rows)

    algorithm = Watched(lambda: MLP(table.info, hidden=(8,)), table.info, seed=3, **options)
    algorithm.setup(build_training_rows(table, algorithm, 2, None))
    config = TrainingConfig(epochs=2, batch_size=20, learning_rate=1e-2, seed=3)
    fit = Trainer(algorithm, table, config, torch.device("cpu"), Display(), folder / "resume.pt")
    fit.run()
    return fit


def test_attributes_do_not_reach_a_method_that_does_not_need_them(
    name: str, options: dict[str, Any], table: DataTable, tmp_path: Path
) -> None:
    cls: type[Algorithm] = import_component("method", name, METHODS)
    options = {key: value for key, value in options.items() if key != "stage"}
    if cls(lambda: MLP(table.info), table.info, **build_arguments(cls, options)).needs_attributes:
        pytest.skip("the method declares that it needs attributes")
    attributes_received: list[object] = []
    rows = table.split["train"]
    other = table.attribute.clone()
    other[rows] = table.attribute[rows][torch.randperm(48, generator=torch.Generator().manual_seed(0))]
    other[rows[::3]] = -1
    assert not torch.equal(other, table.attribute)
    fits = [
        train_algorithm(
            cls,
            build_arguments(cls, options),
            replace(table, attribute=attribute),
            tmp_path,
            attributes_received.append,
        )
        for attribute in (table.attribute, other)
    ]
    assert find_differing_tensors(*(copy_tensors(fit.algorithm.state_dict()) for fit in fits)) == []
    assert fits[0].record.rows == fits[1].record.rows
    assert attributes_received == [None, None]
