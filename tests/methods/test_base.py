"""The base of all methods: weights by role, randomness by step."""

from __future__ import annotations

import copy

import pytest
import torch

from logit_correction.methods.erm import ERM
from logit_correction.methods.lc import LC
from logit_correction.networks.small import MLP
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch, DataInfo, Stage

INFO = DataInfo(num_labels=3, num_rows=9, input_shape=(4,))
CPU = torch.device("cpu")


def mlp() -> MLP:
    return MLP(INFO, hidden=(5,))


def draw(randomness: StepRandomness) -> list[float]:
    return torch.rand(3, generator=randomness.next(CPU)).tolist()


def test_every_step_has_random_numbers_of_its_own() -> None:
    randomness, again, other = StepRandomness(0), StepRandomness(0), StepRandomness(1)
    first = [draw(randomness) for _ in range(4)]
    assert first == [draw(again) for _ in range(4)]
    assert len({tuple(one) for one in first + [draw(other) for _ in range(4)]}) == 8


def test_randomness_goes_on_from_its_state_without_a_replay() -> None:
    randomness, resumed = StepRandomness(0), StepRandomness(0)
    for _ in range(5):
        draw(randomness)
    resumed.load_state_dict(copy.deepcopy(randomness.state_dict()))
    assert draw(resumed) == draw(randomness)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_draws_of_following_steps_look_independent(seed: int) -> None:
    randomness = StepRandomness(seed)
    drawn = torch.stack([torch.rand(2, generator=randomness.next(CPU), dtype=torch.float64) for _ in range(4000)])
    for column in drawn.T:
        shares = torch.histc(column, 20, 0, 1) / 200
        assert float(((shares - 1) ** 2).sum() * 200) < 44  # chi-square with 19 degrees of freedom, 0.1 %
        for lag in (1, 2, 3):
            together = torch.stack([column[:-lag], column[lag:]])
            assert abs(float(torch.corrcoef(together)[0, 1])) < 0.06
    assert abs(float(torch.corrcoef(drawn.T)[0, 1])) < 0.06


def test_how_much_one_step_draws_does_not_change_the_next() -> None:
    little, much = StepRandomness(0), StepRandomness(0)
    torch.rand(1, generator=little.next(CPU))
    torch.rand(1000, generator=much.next(CPU))
    assert draw(little) == draw(much)


def test_all_methods_of_one_seed_start_with_the_same_predicting_network() -> None:
    erm, lc, other = ERM(mlp, INFO, seed=4), LC(mlp, INFO, seed=4, attributes="Online"), ERM(mlp, INFO, seed=5)
    for key, value in erm.network.state_dict().items():
        assert torch.equal(value, lc.network.state_dict()[key])
        assert not torch.equal(value, other.network.state_dict()[key])
        assert not torch.equal(value, lc.attributes.network.state_dict()[key])


def test_building_leaves_the_global_random_state_alone() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    LC(mlp, INFO)
    LC(mlp, INFO, attributes="CrossFitted")
    assert torch.equal(torch.get_rng_state(), before)


def test_a_finished_network_is_refused() -> None:
    with pytest.raises(TypeError, match="lambda"):
        ERM(mlp(), INFO)


def test_what_a_method_does_unless_it_says_otherwise() -> None:
    algorithm = ERM(mlp, INFO)
    assert algorithm.needs_attributes is False and algorithm.num_stages == 1
    assert algorithm.begin_stage(0, None) == Stage() and algorithm.end_epoch() == []
    batch = Batch(torch.ones(2, 4), torch.tensor([0, 1]), torch.tensor([0, 1]))
    assert algorithm.diagnose(batch) == {} and algorithm.group_prior is None
    assert torch.equal(algorithm.collect(batch), algorithm.predict(batch.inputs))
    assert not algorithm.in_pretraining and algorithm.attributes is None
    (group,) = algorithm.parameter_groups()
    assert group["name"] == "network" and len(group["params"]) == len(list(algorithm.parameters()))
