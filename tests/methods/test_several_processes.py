"""Two processes with half of each batch come to the state and the gradients of one with all of it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ..forked import Forked

WORKER = """
import sys
import torch, torch.distributed as dist
from logit_correction.attributes.auto import Auto
from logit_correction.attributes.cross_fitted import CrossFitted
from logit_correction.attributes.online import Online
from logit_correction.methods import METHODS
from logit_correction.methods.prior import Moving
from logit_correction.networks.small import MLP
from logit_correction.registry import resolve
from logit_correction.types import Batch, DataInfo, TrainingRows
from logit_correction.views.base import ViewInputs

folder, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if size > 1:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size)
generator = torch.Generator().manual_seed(0)
inputs = torch.randn((32, 6), generator=generator)
label, attribute = torch.randint(2, (2, 32), generator=generator)
info = DataInfo(num_labels=2, num_rows=32, input_shape=(6,))
view = ViewInputs(32, lambda rows: inputs[rows])
CASES = [
    ("GroupDRO", {"adjustment": 1.0}),
    ("GroupDRO", {"attributes": CrossFitted(view="inputs", head="hidden layer", splits=1, epochs=2)}),
    ("LfF", {}),
    ("DFA", {"swap_from_epoch": 100.0}),  # each process permutes its own rows
    ("Reweighting", {"attributes": "Online"}),
    ("LC", {"attributes": "Online", "prior": Moving("cell", momentum=0.5), "mixing": "NoMixing"}),
    ("LC", {"attributes": Online(epochs=1.0), "prior": Moving(averaging="batch"), "mixing": "NoMixing"}),
    ("LC", {"attributes": "TrueAttributes", "mixing": "NoMixing"}),
    ("LC", {"attributes": CrossFitted(view="inputs", head="hidden layer", splits=1, epochs=2), "mixing": "NoMixing"}),
    ("LC", {"attributes": Auto(shortcut=["inputs"]), "mixing": "NoMixing"}),
]
found = {}
for number, (name, options) in enumerate(CASES):
    torch.manual_seed(rank)  # nothing may be drawn from it
    algorithm = resolve("method", name, METHODS)(lambda: MLP(info, hidden=(4,)), info, **options)
    algorithm.setup(TrainingRows(label, attribute if algorithm.needs_attributes else None, view))
    algorithm.begin_stage(0, None)
    for step in range(6):
        rows = torch.randperm(32, generator=torch.Generator().manual_seed(step))[:16].chunk(size)[rank]
        batch = Batch(inputs[rows], label[rows], rows, attribute[rows] if algorithm.needs_attributes else None)
        algorithm.zero_grad()
        algorithm(batch, step / 2).loss.backward()
        with torch.no_grad():
            for parameter in algorithm.parameters():
                if parameter.grad is not None:
                    if size > 1:
                        dist.all_reduce(parameter.grad)
                    parameter -= 0.5 * parameter.grad / size
    state = algorithm.state_dict().items()
    found[f"{name} {number}"] = {key: value for key, value in state if isinstance(value, torch.Tensor)}
torch.save(found, f"{folder}/state_{size}_{rank}.pt")
if size > 1:
    dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Forked(WORKER, str(tmp_path), str(rank), str(size), environment=environment))
            for rank, size in ((0, 1), (0, 2), (1, 2))
        ]
        assert [worker.wait(timeout=180) for worker in workers] == [0, 0, 0], [worker.told for worker in workers]
    alone, left, right = (
        torch.load(tmp_path / f"state_{name}.pt", weights_only=True) for name in ("1_0", "2_0", "2_1")
    )
    for name, state in alone.items():
        for key, value in state.items():
            assert isinstance(value, Tensor) and torch.equal(left[name][key], right[name][key]), (name, key)
            torch.testing.assert_close(left[name][key], value, rtol=1e-4, atol=1e-5, msg=f"{name} {key}")


STAGED = """
import sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from logit_correction import LC, Batch, CrossFitted, DataInfo, TrainingRows

folder, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
torch.manual_seed(0)
label = torch.randint(2, (64,))
inputs = torch.stack([label + torch.randn(64), 4.0 * label], dim=1)
info = DataInfo(num_labels=2, num_rows=64, input_shape=(2,))
method = LC(lambda: torch.nn.Linear(2, 2), info, attributes=CrossFitted(splits=1), mixing="NoMixing")
method.setup(TrainingRows(label))
outputs = None
for number in range(method.num_stages):
    method.begin_stage(number, outputs)
    module = DistributedDataParallel(method, broadcast_buffers=False, find_unused_parameters=True)
    optimizer = torch.optim.SGD(method.parameter_groups(), lr=0.1)
    for rows in torch.arange(64).split(16):
        rows = rows.chunk(2)[rank]
        loss = module(Batch(inputs[rows], label[rows], rows), 0.0).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    method.end_epoch()
    with torch.no_grad():
        outputs = method.eval().collect(Batch(inputs, label, torch.arange(64)))
        method.train()
state = method.state_dict().items()
torch.save({key: value for key, value in state if isinstance(value, torch.Tensor)}, f"{folder}/{rank}.pt")
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_a_loop_of_ones_own_with_ddp_trains_a_method_in_stages(tmp_path: Path) -> None:
    # As docs/your-own-loop.md says it.
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    with ExitStack() as stack:
        workers = [stack.enter_context(Forked(STAGED, str(tmp_path), rank, environment=environment)) for rank in "01"]
        assert [worker.wait(timeout=180) for worker in workers] == [0, 0], [worker.told for worker in workers]
    left, right = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in "01")
    assert left.keys() == right.keys() and all(torch.equal(value, right[key]) for key, value in left.items())
