"""Weights in parts, here of one process; `test_distributed.py` has two."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.distributed import HashStore, destroy_process_group, init_process_group

from logit_correction import ERM, MLP, DataInfo
from logit_correction.config import TrainingConfig
from logit_correction.errors import InputError, TrainingError
from logit_correction.networks.resnet import ResNet18
from logit_correction.training import sharding
from logit_correction.training.checkpoint import check_finite
from logit_correction.types import Batch

INFO = DataInfo(num_labels=2, num_rows=4, input_shape=(3, 8, 8))
BATCH = Batch(torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 1, 0]), torch.arange(4))


@pytest.fixture
def mesh() -> Iterator[object]:
    from torch.distributed.device_mesh import init_device_mesh

    init_process_group("gloo", rank=0, world_size=1, store=HashStore())
    yield init_device_mesh("cpu", (1, 1), mesh_dim_names=("data_parallel", "tensor_parallel"))
    destroy_process_group()


def small() -> ERM:
    return ERM(lambda: MLP(INFO, hidden=[64, 200]), INFO)


class Late(ERM):
    """Trains what it has built last."""

    def parameter_groups(self) -> list[dict[str, object]]:
        return [{"params": list(self.built[-1].parameters()), "name": "network"}]


def test_blocks_are_gathered_by_themselves_and_the_rest_with_the_method(mesh: object) -> None:
    from torch.distributed.fsdp import FSDPModule

    method = sharding.shard(ERM(lambda: ResNet18(INFO), INFO), mesh)
    units = {name.rpartition(".features.")[2] for name, part in method.named_modules() if isinstance(part, FSDPModule)}
    blocks = {f"1.layer{layer}.{block}" for layer in range(1, 5) for block in range(2)}
    assert units >= blocks and "network.head" not in units and "" in units


def test_a_step_and_all_that_is_kept_are_those_of_whole_weights(mesh: object) -> None:
    method, plain = small(), small()
    sharding.shard(method, mesh)
    optimizers = [torch.optim.Adam(one.parameters(), lr=0.01, fused=True) for one in (method, plain)]
    for one, optimizer in zip((method, plain), optimizers, strict=True):
        for _ in range(2):
            optimizer.zero_grad()
            one(BATCH, 0.0).loss.backward()
            optimizer.step()
    kept = sharding.whole(method, {"state": method.state_dict(), "optimizer": optimizers[0].state_dict()}, True)
    for name, weight in plain.named_parameters():
        assert type(kept["state"][name]) is Tensor
        torch.testing.assert_close(kept["state"][name], weight.detach())
    sharding.load_optimizer(optimizers[1], kept["optimizer"])  # a plain one takes it
    fresh = small()
    sharding.shard(fresh, mesh)
    fresh.load_state_dict(kept["state"])
    logits = [sharding.gathered(one, one.predict)(BATCH.inputs) for one in (method, plain, fresh)]
    torch.testing.assert_close(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])


def test_weights_that_two_rules_hold_stay_one_and_other_processes_keep_none(mesh: object) -> None:
    method = small()
    sharding.shard(method, mesh)
    weight, other = method.network.head.weight, torch.ones(2)
    kept = sharding.whole(method, {"a": [weight], "b": {"c": weight}, "d": other, "e": 3}, True)
    assert kept["a"][0] is kept["b"]["c"] and kept["d"] is other and kept["e"] == 3
    assert sharding.whole(method, {"a": weight, "d": other}, False) == {"a": None, "d": other}


def test_a_weight_that_is_not_finite_is_seen(mesh: object) -> None:
    method = small()
    sharding.shard(method, mesh)
    check_finite(method.parameters(), 1)
    with torch.no_grad():
        method.network.head.bias.to_local().fill_(torch.inf)
    with pytest.raises(TrainingError, match="not finite after step 1"):
        check_finite(method.parameters(), 1)


def test_a_method_that_builds_networks_between_its_stages_is_refused(mesh: object) -> None:
    method = sharding.shard(Late(lambda: MLP(INFO), INFO), mesh)
    assert sharding.shard(method, mesh) is method
    assert isinstance(method, Late)
    method.build(lambda: MLP(INFO), "late network")
    with pytest.raises(InputError, match="--strategy fsdp: Late builds networks between its stages"):
        sharding.shard(method, mesh)


def test_torch_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sharding.check_strategy(TrainingConfig(strategy="fsdp"))
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    sharding.check_strategy(TrainingConfig())
    with pytest.raises(InputError, match=r"--strategy fsdp needs torch 2\.13, and 2\.9\.1\+cpu is installed"):
        sharding.check_strategy(TrainingConfig(strategy="fsdp"))
