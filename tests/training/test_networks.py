"""What the loop does to networks: order of memory, compilation, the random numbers of their layers, weight decay."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from logit_correction.config import TrainingConfig
from logit_correction.methods.dfa import DFA
from logit_correction.methods.erm import ERM
from logit_correction.networks.convnet import ConvNet
from logit_correction.networks.mlp import MLP
from logit_correction.networks.resnet20 import ResNet20
from logit_correction.training.networks import LayerRandomness, prepare
from logit_correction.training.optim import clip_gradients, make_optimizer
from logit_correction.types import DataInfo

INFO = DataInfo(num_labels=3, num_rows=48, input_shape=(3, 8, 8))
CPU = torch.device("cpu")


def dropping(info: DataInfo) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, info.num_labels))


def state_of(fit: Any) -> dict[str, Any]:
    return {
        name: value.clone() for name, value in fit.algorithm.state_dict().items() if isinstance(value, torch.Tensor)
    }


def test_dropout_comes_from_the_seed_and_a_resumed_run_draws_the_same(trainer: Any, make_table: Any) -> None:
    table = make_table()
    make = {"network": lambda: dropping(table.info)}
    whole = trainer.fit(table, place="whole", **make)
    torch.manual_seed(1)
    whole.run()
    torch.manual_seed(2)  # what others have drawn does not matter
    trainer.run_until(trainer.fit(table, place="stopped", **make), 4)
    resumed = trainer.fit(table, place="stopped", **make)
    torch.manual_seed(3)
    resumed.run(resume=True)
    for name, value in state_of(whole).items():
        assert torch.equal(value, state_of(resumed)[name])
    other = trainer.fit(table, place="other", seed=2, **make)
    other.algorithm.load_state_dict(trainer.fit(table, place="whole", **make).algorithm.state_dict())
    other.run()
    assert any(not torch.equal(value, state_of(other)[name]) for name, value in state_of(whole).items())


def test_training_leaves_the_global_random_state(trainer: Any, make_table: Any) -> None:
    fit = trainer.fit(make_table(), network=lambda: dropping(INFO))
    before = torch.get_rng_state()
    fit.run()
    assert torch.equal(torch.get_rng_state(), before)


def test_each_step_and_each_process_has_other_numbers() -> None:
    drawn = set()
    with torch.random.fork_rng(devices=[]):
        for seed, rank, step in ((0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, 10**9)):
            LayerRandomness(seed, rank, CPU).seed(step)
            drawn.add(float(torch.rand(())))
    assert len(drawn) == 5


@pytest.mark.parametrize("kind", [ConvNet, ResNet20])
def test_channels_last_changes_the_memory_and_not_the_result(kind: Any) -> None:
    plain, moved = (ERM(lambda: kind(INFO), INFO) for _ in range(2))
    prepare(plain, TrainingConfig(channels_last=False), CPU)
    prepare(moved, TrainingConfig(), CPU)
    weights = [p for p in moved.parameters() if p.dim() == 4 and p.shape[2] > 1]
    assert weights and all(p.is_contiguous(memory_format=torch.channels_last) for p in weights)
    assert all(p.is_contiguous() for p in plain.parameters())
    inputs = torch.rand(5, 3, 8, 8)
    torch.testing.assert_close(moved.predict(inputs), plain.predict(inputs), rtol=1e-4, atol=1e-5)


def test_the_features_of_every_network_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[nn.Module] = []
    monkeypatch.setattr(nn.Module, "compile", lambda module, **_: compiled.append(module))
    method = DFA(lambda: MLP(INFO), INFO)
    prepare(method, TrainingConfig(), CPU)
    assert not compiled
    prepare(method, TrainingConfig(compile=True), CPU)
    network: Any = method.network
    assert compiled[:2] == [network.intrinsic, network.biased]
    bare = ERM(lambda: dropping(INFO), INFO)
    prepare(bare, TrainingConfig(compile=True), CPU)
    assert compiled[-1] is bare.network
    bare.network.features = 12  # type: ignore[assignment]
    prepare(bare, TrainingConfig(compile=True), CPU)
    assert compiled[-1] is bare.network


def test_cuda_graphs_are_of_features_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    modes: dict[nn.Module, Any] = {}
    monkeypatch.setattr(nn.Module, "compile", lambda module, mode=None: modes.update({module: mode}))
    halves, bare = ERM(lambda: MLP(INFO), INFO), ERM(lambda: dropping(INFO), INFO)
    network: Any = halves.network
    prepare(halves, TrainingConfig(compile=True), CPU)
    assert modes == {network.features: None}
    for method in (halves, bare):
        prepare(method, TrainingConfig(compile="reduce-overhead"), CPU)
    assert modes == {network.features: "reduce-overhead", bare.network: None}


def test_features_that_are_kept_are_a_copy() -> None:
    """What a replayed graph gave lies where the next pass writes."""
    from logit_correction.attributes.online import Online

    estimator = Online(head_start_epochs=1)
    estimator.keep_features()
    made: list[torch.Tensor] = []
    network = MLP(INFO)
    network.features.register_forward_hook(lambda module, given, output: made.append(output))
    estimator.attach(lambda build, role: network, lambda: network, INFO, 0)
    kept = estimator._run(torch.rand(2, 3, 8, 8))[1]
    assert kept is not None and torch.equal(kept, made[0]) and kept.data_ptr() != made[0].data_ptr()


def test_compilation_keeps_the_names_of_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    in_place = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", lambda module, **_: in_place(module, backend="eager"))
    method, plain = (ERM(lambda: ConvNet(INFO), INFO) for _ in range(2))
    prepare(method, TrainingConfig(compile=True, channels_last=False), CPU)
    assert list(method.state_dict()) == list(plain.state_dict())
    inputs = torch.rand(5, 3, 8, 8)
    torch.testing.assert_close(method.predict(inputs), plain.predict(inputs))


class TestWeightDecay:
    def groups(self) -> tuple[ERM, list[dict[str, Any]]]:
        method = ERM(lambda: ConvNet(INFO, norm="batch"), INFO)
        return method, method.parameter_groups()

    def test_takes_all_weights_unless_told_otherwise(self) -> None:
        _, groups = self.groups()
        optimizer = make_optimizer(groups, TrainingConfig(weight_decay=0.1), 0.1)
        assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1]

    @pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
    def test_can_leave_out_biases_and_normalisation(self, optimizer: Any) -> None:
        method, groups = self.groups()
        config = TrainingConfig(weight_decay=0.1, decay_norm_and_bias=False, optimizer=optimizer)
        made = make_optimizer(groups, config, 0.1)
        assert [group["weight_decay"] for group in made.param_groups] == [0.1, 0.0]
        assert {group["lr"] for group in made.param_groups} == {0.1}
        decayed = {id(p) for p in made.param_groups[0]["params"]}
        for name, p in method.named_parameters():
            layer = method.get_submodule(name.rpartition(".")[0])
            is_weight = name.endswith("weight") and isinstance(layer, nn.Conv2d | nn.Linear)
            assert (id(p) in decayed) == is_weight
        before = {name: p.detach().clone() for name, p in method.named_parameters()}
        for p in method.parameters():
            p.grad = torch.zeros_like(p)
        made.step()
        moved = {name for name, p in method.named_parameters() if not torch.equal(p, before[name])}
        assert moved == {name for name, p in method.named_parameters() if id(p) in decayed}

    def test_splits_nothing_without_a_decay(self) -> None:
        _, groups = self.groups()
        assert len(make_optimizer(groups, TrainingConfig(decay_norm_and_bias=False), 0.1).param_groups) == 1


def test_gradients_are_clipped_by_network_however_its_groups_are_split() -> None:
    def weights() -> list[nn.Parameter]:
        parameters = [nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2))]
        for number, p in enumerate(parameters):
            p.grad = torch.full_like(p, float(number + 1))
        return parameters

    split, whole = weights(), weights()
    clip_gradients([{"params": [p], "name": name} for p, name in zip(split, "aab", strict=True)], 0.5)
    clip_gradients([{"params": whole[:2], "name": "a"}, {"params": whole[2:], "name": "b"}], 0.5)
    for one, other in zip(split, whole, strict=True):
        assert one.grad is not None and other.grad is not None
        torch.testing.assert_close(one.grad, other.grad)
    norm = torch.cat([p.grad.flatten() for p in split[:2] if p.grad is not None]).norm()
    assert float(norm) == pytest.approx(0.5, rel=1e-4)
