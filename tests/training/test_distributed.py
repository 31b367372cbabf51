"""Two processes train what one does, through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

import logit_correction

#: A data source whose last batch of 16 has 15 rows, which do not part evenly; methods that keep each process's state.
MODULE = """
import os
from dataclasses import replace
import torch
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataSource, DataTable
from logit_correction.methods.erm import ERM
from logit_correction.methods.group_dro import GroupDRO
from logit_correction.methods.lc import LC
from logit_correction.methods.lff import LfF
from logit_correction.methods.staged_lc import StagedLC


class Source(DataSource):
    def build(self) -> DataTable:
        label = torch.arange(128) % 2
        attribute = torch.where(torch.arange(128) % 10 < 9, label, 1 - label)
        values = torch.randn((128, 6), generator=torch.Generator().manual_seed(0))
        values[:, 0] += label
        values[:, 1] += 3 * attribute
        rows = {"train": torch.arange(95), "valid": torch.arange(95, 112), "test": torch.arange(112, 128)}
        return DataTable(ArrayStore(values), label, attribute, rows, ["a", "b"], ["x", "y"])


class Watched:
    def end_epoch(self):
        torch.save(self.state_dict(), f"{os.environ['WATCH']}/rank{os.environ.get('LOCAL_RANK', '0')}.pt")
        return super().end_epoch()


class Exact(Watched):
    def setup(self, rows):
        super().setup(rows)
        self.double()  # so that the order of sums does not matter

    def forward(self, batch, epoch):
        return super().forward(replace(batch, inputs=batch.inputs.double()), epoch)

    def diagnose(self, batch):
        return super().diagnose(replace(batch, inputs=batch.inputs.double()))

    def predict(self, inputs):
        return super().predict(inputs.to(next(self.parameters()).dtype))


class ExactERM(Exact, ERM):
    pass


class ExactLC(Exact, LC):
    pass


class ExactGroupDRO(Exact, GroupDRO):
    pass


class ExactLfF(Exact, LfF):
    pass


class WatchedERM(Watched, ERM):
    pass


class WatchedLC(Watched, LC):
    pass


class WatchedStagedLC(Watched, StagedLC):
    pass


def normalised(info):
    return torch.nn.Sequential(torch.nn.BatchNorm1d(6), torch.nn.Linear(6, info.num_labels))
"""


def train(folder: Path, method: str, devices: int, *options: str) -> list[dict[str, Tensor]]:
    """Run ``logit-correction train`` and return the state that each process ended with."""
    out = folder / f"{method}-{devices}"
    out.mkdir()
    (folder / "own_module.py").write_text(MODULE)
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("LOCAL_RANK", "RANK", "WORLD_SIZE", "MASTER_PORT")},
        "PYTHONPATH": os.pathsep.join([str(Path(logit_correction.__file__).parents[1]), str(folder)]),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "WATCH": str(out),
    }
    command = [sys.executable, "-m", "logit_correction", "train"]
    command += ["--data", "own_module.Source", "--method", f"own_module.{method}", "--out", str(out / "run")]
    command += ["--device", "cpu", "--devices", str(devices), "--batch_size", "16", "--epochs", "3"]
    network = [] if "--network" in options else ["--network", "MLP", "--network.hidden", "[8]"]
    command += ["--learning_rate", "1e-2", *network, *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    states = [torch.load(out / f"rank{rank}.pt", weights_only=True) for rank in range(devices)]
    kept = torch.load(out / "run" / "checkpoint.pt", weights_only=True)["algorithm"]
    assert_same(states[0], kept)
    return states


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    tensors = [name for name, value in first.items() if isinstance(value, Tensor)]
    assert tensors and not [name for name in tensors if not torch.equal(first[name], second[name])]


SETTLED = ("--method.attributes", "TrueAttributes")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("ExactERM", ()),
        ("ExactLC", (*SETTLED, "--method.mixing", "NoMixing")),
        ("ExactLC", ("--method.attributes", "Online", "--method.mixing", "NoMixing")),
        ("ExactGroupDRO", ()),
        ("ExactLfF", ()),
    ],
    ids=["ERM", "LC", "LC with Online", "GroupDRO", "LfF"],
)
def test_two_processes_train_the_weights_of_one(method: str, options: tuple[str, ...], tmp_path: Path) -> None:
    (alone,), (left, right) = (train(tmp_path, method, number, *options) for number in (1, 2))
    assert_same(left, right)
    for name, value in alone.items():
        if isinstance(value, Tensor):
            torch.testing.assert_close(left[name], value, rtol=1e-9, atol=1e-12, msg=name)
    reports = [json.loads((tmp_path / f"{method}-{n}" / "run" / "report.json").read_text()) for n in (1, 2)]
    one, two = ([(group["count"], group["correct"]) for group in report["test"]["groups"]] for report in reports)
    assert one == two


@pytest.mark.slow
def test_in_single_precision_they_differ_by_rounding(tmp_path: Path) -> None:
    (alone,), (left, right) = train(tmp_path, "WatchedERM", 1), train(tmp_path, "WatchedERM", 2)
    assert_same(left, right)
    for name, value in alone.items():
        if isinstance(value, Tensor):
            torch.testing.assert_close(left[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_in_single_precision_they_have_equal_priors_and_counts(tmp_path: Path) -> None:
    online = ("--method.attributes", "Online", "--method.mixing", "NoMixing")
    (alone,), (left, right) = (train(tmp_path, "WatchedLC", number, *online) for number in (1, 2))
    assert_same(left, right)
    priors = [name for name, value in alone.items() if "prior" in name and isinstance(value, Tensor)]
    assert any(float(alone[name].double().sum()) == pytest.approx(1, abs=1e-5) for name in priors)
    for name in priors:
        torch.testing.assert_close(left[name], alone[name], rtol=0, atol=1e-6, msg=name)
    counts = []
    for number in (1, 2):
        report = json.loads((tmp_path / f"WatchedLC-{number}" / "run" / "report.json").read_text())
        counts.append([group["count"] for group in report["test"]["groups"]])
    assert counts[0] == counts[1]


@pytest.mark.slow
def test_both_processes_end_with_the_same_networks_and_prior(tmp_path: Path) -> None:
    # From the head start over side by side to the frozen biased network, so that parts have no gradient at times.
    online = ("--method.attributes", "Online", "--method.attributes.head_start_epochs", "1")
    left, right = train(tmp_path, "WatchedLC", 2, *online, "--method.attributes.epochs", "2", "--gradient_clip", "1")
    assert {name.split(".")[0] for name in left} >= {"network", "attributes", "group_prior"}
    assert bool(left["group_prior.visited"].any())
    assert_same(left, right)


@pytest.mark.slow
def test_both_processes_have_the_same_settled_estimates(tmp_path: Path) -> None:
    heads = ("--method.attributes", "CrossFitted", "--method.attributes.view", "inputs")
    left, right = train(tmp_path, "WatchedLC", 2, *heads, "--method.attributes.splits", "1")
    assert len(left["attributes.row_attribute"].unique()) == 2
    assert_same(left, right)


@pytest.mark.slow
def test_a_stage_begins_alike_in_both_processes_though_their_running_statistics_differ(tmp_path: Path) -> None:
    normalised = ("--network", "own_module.normalised", "--method.attributes.splits", "1")
    left, right = train(tmp_path, "WatchedStagedLC", 2, *normalised)
    different = [name for name, value in left.items() if isinstance(value, Tensor) and not value.equal(right[name])]
    assert different and all(name.rpartition(".")[2] in ("running_mean", "running_var") for name in different)
