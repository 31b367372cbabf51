"""The base of all methods: weights by role, randomness by step."""

from __future__ import annotations

import copy
import pickle
from functools import partial

import pytest
import torch

from logit_correction.errors import InputError
from logit_correction.methods.erm import ERM
from logit_correction.methods.lc import LC
from logit_correction.networks.small import MLP
from logit_correction.seeds import StepRandomness
from logit_correction.types import DataInfo

INFO = DataInfo(num_labels=3, num_rows=9, input_shape=(4,))
CPU = torch.device("cpu")


def build_mlp() -> MLP:
    return MLP(INFO, hidden=(5,))


def draw_numbers(randomness: StepRandomness) -> list[float]:
    return torch.rand(3, generator=randomness.next(CPU)).tolist()


def test_step_randomness_differs_by_step_and_seed() -> None:
    randomness = StepRandomness(0)
    repeated = StepRandomness(0)
    other = StepRandomness(1)
    first = [draw_numbers(randomness) for _ in range(4)]
    assert first == [draw_numbers(repeated) for _ in range(4)]
    assert len({tuple(numbers) for numbers in first + [draw_numbers(other) for _ in range(4)]}) == 8


def test_methods_of_one_seed_start_with_the_same_network() -> None:
    erm = ERM(build_mlp, INFO, seed=4)
    lc = LC(build_mlp, INFO, seed=4, attributes="Online")
    other = ERM(build_mlp, INFO, seed=5)
    for key, value in erm.network.state_dict().items():
        assert torch.equal(value, lc.network.state_dict()[key])
        assert not torch.equal(value, other.network.state_dict()[key])
        assert not torch.equal(value, lc.attributes.network.state_dict()[key])


def test_method_can_be_pickled_and_copied(build, make_table, batches) -> None:
    table = make_table()
    method = build("LC", table, network=partial(MLP, table.info), stage=1)
    *first, last = batches(method, table)
    for batch in first:
        method(batch, 0.0)
    for other in (pickle.loads(pickle.dumps(method)), copy.deepcopy(method)):
        assert torch.equal(other(last, 0.5).loss, copy.deepcopy(method)(last, 0.5).loss)
    with pytest.raises(InputError, match="begin_stage needs what collect_outputs returned"):
        method.begin_stage(2, None)
