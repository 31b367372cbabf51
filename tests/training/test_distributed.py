"""Two processes train what one does, through the command line."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import logit_correction
from logit_correction.cli import main

from ..conftest import copy_tensors, find_differing_tensors, load_trained_tensors
from ..forked_programs import start_two_processes

#: A data source whose last batch of 16 has 15 rows, which do not part evenly; methods that keep each process's state.
MODULE = """
import os
import signal
import time
from dataclasses import replace
import torch
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.data.source import DataSource
from logit_correction.methods.erm import ERM
from logit_correction.methods.group_dro import GroupDRO
from logit_correction.methods.lc import LC


class Source(DataSource):
    def build(self) -> DataTable:
        time.sleep(0.3 * int(os.environ.get("LOCAL_RANK", "0")))  # no process writes before the others have looked
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

    def predict(self, inputs):
        return super().predict(inputs.to(next(self.parameters()).dtype))


class ExactERM(Exact, ERM):
    pass


class ExactLC(Exact, LC):
    pass


class ExactGroupDRO(Exact, GroupDRO):
    pass


class StoppedLC(ExactLC):
    asked = False

    def end_epoch(self):
        if not StoppedLC.asked:
            StoppedLC.asked = True
            os.kill(os.getpid(), signal.SIGTERM)
        return super().end_epoch()


class WatchedLC(Watched, LC):
    pass


class FlippedLC(WatchedLC):
    def end_epoch(self):
        done = super().end_epoch()
        if self.in_pretraining:
            folder = os.environ["WATCH"]
            torch.save(self.attributes.target, f"{folder}/target{os.environ['LOCAL_RANK']}.pt")
        return done


def normalised(info):
    return torch.nn.Sequential(torch.nn.BatchNorm1d(6), torch.nn.Linear(6, info.num_labels))
"""


#: Name -> method and options. The first ones are compared with what one process trains.
STATIC_ATTRIBUTES = ("--method.attributes", "TrueAttributes")
COMPARED: dict[str, tuple[str, ...]] = {
    "ERM": ("ExactERM",),
    "LC": ("ExactLC", *STATIC_ATTRIBUTES, "--method.mixing", "NoMixing"),
    "GroupDRO": ("ExactGroupDRO",),
}
CASES = COMPARED | {
    "stages": (
        *("WatchedLC", "--method.attributes", "CrossFitted", "--method.attributes.splits", "1"),
        *("--network", "own_module.normalised"),
    ),
    "stopped": ("StoppedLC", *COMPARED["LC"][1:]),
    "flipped": ("FlippedLC", "--method.attributes", "XRM", "--method.attributes.epochs", "3"),
}

#: Trains one case after another.
PROGRAM = """
import json, os, sys
from logit_correction.cli import main
for out, words in json.loads(sys.argv[1]):
    os.environ["WATCH"] = out
    code = main(words)
    if code == 130:  # a case that asks to stop
        code = main([*words, "--resume"])
    assert code == 0, words
"""


def build_train_command(out: Path, devices: int, method: str, *options: str) -> list[str]:
    """The command line that trains a method of the module above into ``out/run``."""
    network = [] if "--network" in options else ["--network", "MLP", "--network.hidden", "[8]"]
    parts = ["train", "--data", "own_module.Source", "--method", f"own_module.{method}", "--out", str(out / "run")]
    sizes = ["--devices", str(devices), "--batch_size", "16", "--epochs", "3", "--learning_rate", "1e-2"]
    # What each process ended with is compared with the checkpoint, so the last epoch is taken.
    return [*parts, "--device", "cpu", "--selection", "last", *sizes, *network, *options]


def build_environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a process that finds the module above in ``folder``."""
    path = os.pathsep.join([str(Path(logit_correction.__file__).parents[1]), str(folder)])
    outer = {k: v for k, v in os.environ.items() if k not in ("LOCAL_RANK", "RANK", "WORLD_SIZE", "MASTER_PORT")}
    return {**outer, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **more}


def load_states(out: Path, devices: int) -> list[dict[str, Tensor]]:
    """The state that each process ended with; that of the first one is in the run folder."""
    states = [copy_tensors(torch.load(out / f"rank{rank}.pt", weights_only=True)) for rank in range(devices)]
    assert find_differing_tensors(states[0], load_trained_tensors(out / "run")) == []
    return states


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the module above."""
    place = tmp_path_factory.mktemp("distributed")
    (place / "own_module.py").write_text(MODULE)
    return place


@pytest.fixture(scope="module")
def trained_by_two_processes(folder: Path) -> Path:
    """The folder of what two processes, started as a launcher such as torchrun starts them, have trained."""
    commands = [(folder / name, build_train_command(folder / name, 2, *case)) for name, case in CASES.items()]
    for out, _ in commands:
        out.mkdir()
    with ExitStack() as stack:
        processes = start_two_processes(
            stack, PROGRAM, json.dumps(commands, default=str), environment=build_environment(folder)
        )
        for process in processes:
            assert process.wait() == 0, "\n".join(other_process.told for other_process in processes)
        assert not any("warn" in process.output.lower() for process in processes)
    return folder


def train_in_one_process(folder: Path, name: str, *case: str) -> tuple[dict[str, Tensor], Path]:
    """Train a case in this process and return its state and its run folder."""
    out = folder / f"{name} alone"
    out.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("WATCH", str(out))
        assert main(build_train_command(out, 1, *case)) == 0
    return load_states(out, 1)[0], out / "run"


@pytest.mark.slow
@pytest.mark.parametrize("name", list(COMPARED))
def test_two_processes_train_the_weights_of_one_process(name: str, trained_by_two_processes: Path) -> None:
    first_state, second_state = load_states(trained_by_two_processes / name, 2)
    assert find_differing_tensors(first_state, second_state) == []
    expected, run = train_in_one_process(trained_by_two_processes, name, *COMPARED[name])
    for key, value in expected.items():
        torch.testing.assert_close(first_state[key], value, rtol=1e-9, atol=1e-12, msg=key)
    reports = [
        json.loads((place / "report.json").read_text()) for place in (run, trained_by_two_processes / name / "run")
    ]
    counts = [[(group["count"], group["correct"]) for group in report["test"]["groups"]] for report in reports]
    assert counts[0] == counts[1]


@pytest.mark.slow
def test_labels_that_twins_flip_are_those_of_both_processes(folder: Path, trained_by_two_processes: Path) -> None:
    first, second = (torch.load(folder / "flipped" / f"target{rank}.pt", weights_only=True) for rank in range(2))
    assert torch.equal(first, second)


@pytest.mark.slow
def test_processes_begin_a_stage_with_equal_weights_despite_other_running_statistics(
    trained_by_two_processes: Path,
) -> None:
    different = find_differing_tensors(*load_states(trained_by_two_processes / "stages", 2))
    assert different and all(name.rpartition(".")[2] in ("running_mean", "running_var") for name in different)


@pytest.mark.slow
def test_resumed_run_of_two_processes_equals_an_uninterrupted_one(trained_by_two_processes: Path) -> None:
    assert (trained_by_two_processes / "stopped" / "run" / "metrics.csv").is_file()
    assert (
        find_differing_tensors(
            load_states(trained_by_two_processes / "stopped", 2)[0], load_states(trained_by_two_processes / "LC", 2)[0]
        )
        == []
    )


GRADIENTS = """
import sys, torch, torch.distributed as dist
from logit_correction.distributed import average_gradients_in_place
folder, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
shared, first, untrained, frozen = (torch.nn.Parameter(torch.zeros(2)) for _ in range(4))
frozen.requires_grad_(False)
shared.grad = torch.tensor([1.0, 4.0]) * (rank + 1)
first.grad = None if rank else torch.tensor([3.0, 0.0])
average_gradients_in_place([shared, first, untrained, frozen])
assert shared.grad.tolist() == [1.5, 6.0] and first.grad.tolist() == [1.5, 0.0]
assert untrained.grad is None and frozen.grad is None
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_gradients_are_averaged_and_untrained_parameters_have_none(run_two_processes: Any, tmp_path: Path) -> None:
    run_two_processes(GRADIENTS, tmp_path)
