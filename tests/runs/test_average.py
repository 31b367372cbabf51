"""Runs of an average: what it predicts, that it resumes, loads and exports, and what it learns of labelled new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from logit_correction import InputError, RunConfig, export, from_table, load, train
from logit_correction.errors import TrainingInterrupted
from logit_correction.methods.average import Average, AveragedNetwork, write_average_into_head
from logit_correction.networks.small import MLP, Linear
from logit_correction.runs.options import build_config
from logit_correction.runs.row_inputs import read_row_archive, write_row_archive
from logit_correction.types import DataInfo

INFO = DataInfo(num_labels=3, num_rows=10, input_shape=(5,))


def build_people_frame(rows: int, seed: int) -> pd.DataFrame:
    """Make a table whose column `form` is a shortcut to the outcome."""
    generator = np.random.default_rng(seed)
    is_ill = generator.integers(2, size=rows)
    dose = generator.normal(is_ill, 1)
    form = np.where(generator.random(rows) < 0.95, is_ill, 1 - is_ill)
    return pd.DataFrame({"outcome": np.where(is_ill, "ill", "well"), "dose": dose, "form": [f"f{v}" for v in form]})


MEMBERS: list[dict[str, Any]] = [
    {"name": "ERM without form", "weight": 0.6, "method": {"name": "ERM"}, "leave_out": ["column:form"]},
    {"name": "LC by Online", "weight": 0.3, "method": {"name": "LC", "attributes": "Online"}},
    {"name": "ERM", "weight": 0.1, "method": {"name": "ERM"}},
]


def build_options(network: str, **options: Any) -> dict[str, Any]:
    """Return the options of a run of an average."""
    method = {"name": "Average", "members": MEMBERS, **options}
    return {"method": method, "network": network, "epochs": 2, "threads": 1, "page": False}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return from_table(build_people_frame(240, 0), label="outcome", folder=tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="module", params=["Linear", "MLP"])
def averaged_run(request: pytest.FixtureRequest, table: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(table, tmp_path_factory.mktemp("runs") / request.param, **build_options(request.param)).path


def average_separate_runs(table: Any, network: str, rows: pd.DataFrame) -> np.ndarray:
    """Return the averaged centred log-probabilities of the members, each trained as a run of its own."""
    total = np.zeros((len(rows), 2))
    for member in MEMBERS:
        options = {"network": network, "epochs": 2, "threads": 1, "page": False}
        run = train(table, method=member["method"], leave_out=member.get("leave_out"), **options)
        logits = np.log(run.predict_proba(rows))
        total += member["weight"] * (logits - logits.mean(axis=1, keepdims=True))
    return total


def test_names_of_members_are_texts_also_where_yaml_would_read_a_mapping(table: Any, tmp_path: Path) -> None:
    name = "LC by 5 words: prize, lunch ..."
    members = [{**MEMBERS[2], "name": name, "weight": 1.0}]
    config = build_config(table, method={"name": "Average", "members": members})
    (tmp_path / "fix.yaml").write_text(config.to_yaml())
    assert RunConfig.read(tmp_path / "fix.yaml").method.options["members"] == members


def test_average_predicts_the_mean_of_its_members_logits(averaged_run: Path, table: Any) -> None:
    rows = build_people_frame(50, 1).drop(columns="outcome")
    expected = average_separate_runs(table, averaged_run.name, rows)
    log_probability = np.log(load(averaged_run).predict_proba(rows))
    np.testing.assert_allclose(log_probability - log_probability.mean(axis=1, keepdims=True), expected, atol=2e-5)


def test_average_of_heads_on_the_same_features_is_one_head(averaged_run: Path) -> None:
    network = load(averaged_run).model.algorithm.network
    assert isinstance(network, Linear if averaged_run.name == "Linear" else AveragedNetwork)
    assert not list(averaged_run.glob("*resume*"))


def test_average_run_is_loaded_and_evaluated(averaged_run: Path) -> None:
    run = load(averaged_run)
    assert run.report.method == "Average"
    assert run.report.display_name == "Average of ERM without form and 2 others"
    assert run.evaluate("test")["average"] == run.report.test.average
    assert RunConfig.read(averaged_run / "config.yaml").method.options["members"] == MEMBERS
    rows = build_people_frame(20, 2)
    assert run.evaluate(rows, label="outcome")["count"] == 20


@pytest.mark.parametrize("export_format", ["torch-export", pytest.param("onnx", marks=pytest.mark.slow)])
def test_average_run_is_exported(export_format: str, averaged_run: Path, tmp_path: Path) -> None:
    if export_format == "onnx":
        pytest.importorskip("onnxscript")
    folder = export(load(averaged_run), export_format, tmp_path / "out")
    assert (folder / {"onnx": "model.onnx", "torch-export": "model.pt2"}[export_format]).is_file()


@pytest.mark.parametrize("network", ["Linear", "MLP"])
def test_average_interrupted_within_a_member_resumes_to_the_same_weights(
    network: str, table: Any, tmp_path: Path
) -> None:
    uninterrupted = train(table, tmp_path / "whole", **build_options(network))
    stops = [0]

    def stop(trainer: Any) -> dict[str, float]:
        stops[0] += 1
        if stops[0] in (2, 4):
            raise TrainingInterrupted
        return {}

    for _ in range(2):
        with pytest.raises(TrainingInterrupted):
            train(table, tmp_path / "stopped", after_epoch=stop, resume=True, **build_options(network))
    resumed = train(table, tmp_path / "stopped", after_epoch=stop, resume=True, **build_options(network))
    for name, value in uninterrupted.model.algorithm.state_dict().items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, resumed.model.algorithm.state_dict()[name]), name


# -- labelled new rows


def build_labelled_frame(path: Path, rows: int) -> pd.DataFrame:
    """Write labelled rows of a kind that was never trained on: rows with a high dose, all with the label well."""
    generator = np.random.default_rng(5)
    dose = np.where(np.arange(rows) % 2, generator.normal(6, 0.3, rows), generator.normal(0, 1, rows))
    frame = pd.DataFrame({"dose": dose, "form": "f0"})
    frame["outcome"] = np.where(
        dose > 4, "well", np.where(generator.random(rows) < 1 / (1 + np.exp(dose)), "well", "ill")
    )
    return frame


@pytest.mark.parametrize("network", ["Linear", "MLP"])
def test_labelled_new_rows_train_a_correction(network: str, table: Any, tmp_path: Path) -> None:
    frame = build_labelled_frame(tmp_path, 40)
    before = train(table, tmp_path / "before", **build_options(network))
    source = before.model.source
    (_, store, _) = next(before.model.read(source.new_rows(frame.drop(columns="outcome"))))
    inputs = store.fetch(torch.arange(40))
    label = np.array([before.label_names.index(name) for name in frame["outcome"]])
    write_row_archive(tmp_path / "answers.npz", inputs, label=label, weight=np.ones(40))
    after = train(table, tmp_path / "after", **build_options(network, answers=str(tmp_path / "answers.npz")))
    new = build_labelled_frame(tmp_path, 40).drop(columns="outcome")
    new = new[new["dose"] > 4]
    assert (after.predict(new) == "well").mean() > (before.predict(new) == "well").mean()
    assert after.predict_proba(new)[:, after.label_names.index("well")].mean() > 0.5


AXES = {"label": 0, "logits": 1}
VALUES = {"label": np.array([0, 1, 1]), "logits": np.arange(12.0).reshape(2, 3, 2)}
TOKENS = {"ids": torch.arange(6).reshape(3, 2), "mask": torch.ones(3, 2)}


@pytest.mark.parametrize("inputs", [None, torch.ones(3, 4), TOKENS])
def test_row_archive_is_read_as_written(inputs: Any, tmp_path: Path) -> None:
    write_row_archive(tmp_path / "rows.npz", inputs, **VALUES)
    inputs_read, arrays = read_row_archive(tmp_path / "rows.npz", AXES, "again")
    assert_equal_inputs(inputs_read, inputs)
    for name, values in VALUES.items():
        np.testing.assert_array_equal(arrays[name], values)


@pytest.mark.parametrize("name", ["inputs", "inputs:"])  # in the answers and in the new rows of older audits
def test_row_archives_of_older_versions_are_read(name: str, tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "rows.npz", **VALUES, **{name: np.ones((3, 4), dtype=np.float32)})
    inputs_read, _ = read_row_archive(tmp_path / "rows.npz", AXES, "again")
    assert_equal_inputs(inputs_read, torch.ones(3, 4))


def assert_equal_inputs(actual: Any, expected: Any) -> None:
    """Fail unless two inputs hold the same tensors."""
    assert type(actual) is type(expected)
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys() and all(torch.equal(actual[name], expected[name]) for name in expected)
    elif expected is not None:
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 no archive"])
def test_unreadable_labelled_rows_are_named(content: bytes | None, table: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"rows\.npz.*answer the sheet of the audit again"):
        train(table, tmp_path / "run", **build_options("Linear", answers=str(path)))


def test_arrays_of_different_lengths_are_refused(tmp_path: Path) -> None:
    write_row_archive(tmp_path / "rows.npz", torch.ones(4, 2), **VALUES)
    with pytest.raises(InputError, match="different numbers of rows"):
        read_row_archive(tmp_path / "rows.npz", AXES, "again")


# -- the network


@pytest.mark.parametrize("size", [5, 700])
def test_average_written_into_a_head_is_exact(size: int) -> None:
    info = DataInfo(num_labels=3, num_rows=10, input_shape=(size,))
    average = AveragedNetwork([Linear(info), Linear(info)], [0.7, 0.3]).eval()
    assert average.correction is not None
    nn.init.normal_(average.correction.weight)
    head = nn.Linear(size, 3)
    write_average_into_head(average, head)
    inputs = torch.randn(20, size)
    torch.testing.assert_close(head(inputs), average(inputs), atol=1e-4, rtol=1e-4)


def test_correction_is_added_to_the_centred_average() -> None:
    members = [MLP(INFO, [4]), MLP(INFO, [4])]
    average = AveragedNetwork(members, [0.75, 0.25])
    inputs = torch.randn(6, 5)
    logits = [member(inputs) - member(inputs).mean(dim=1, keepdim=True) for member in members]
    expected = 0.75 * logits[0] + 0.25 * logits[1]
    torch.testing.assert_close(average(inputs), expected)
    torch.testing.assert_close(average.average_logits(inputs), expected)
    assert average.correction is not None
    nn.init.ones_(average.correction.bias)
    torch.testing.assert_close(average(inputs), expected + 1)


def test_networks_without_a_linear_head_are_averaged_without_a_correction() -> None:
    average = AveragedNetwork([nn.Sequential(nn.Linear(5, 3)), nn.Sequential(nn.Linear(5, 3))], [0.5, 0.5])
    assert average.correction is None
    assert average(torch.randn(4, 5)).shape == (4, 3)


@pytest.mark.parametrize(
    "members",
    [
        None,
        [],
        [{"weight": 0.5, "method": "ERM"}],
        [{"weight": 1.5, "method": "ERM"}, {"weight": -0.5, "method": "ERM"}],
        [{"weight": 1.0}],
        [{"method": "ERM"}],
        ["ERM"],
        [{"weight": 0.04, "method": "ERM"}] * 25,
    ],
)
def test_members_with_wrong_weights_are_refused(members: Any) -> None:
    with pytest.raises(InputError, match="members"):
        Average(lambda: Linear(INFO), INFO, members=members)
