"""How samples are mixed: who with whom, how much, and the prior that goes with it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from logit_correction.attributes.given import TrueAttributes
from logit_correction.correlation import Correlation
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.functional import (
    draw_weight,
    group_mixup,
    independent_partner,
    mix,
    mixup_partner,
    partner_prior,
)
from logit_correction.methods.lc import LC
from logit_correction.methods.mixing import GroupMixUp, IndependentMixUp, Mixable
from logit_correction.methods.prior import Counted
from logit_correction.prior import GroupPrior
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch, DataInfo, TrainingRows

CPU = torch.device("cpu")


@pytest.fixture
def table(make_table) -> DataTable:
    return make_table()


class Recorder(nn.Module):
    """Keeps what it is shown."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.head = nn.Linear(size, 2)
        self.shown: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.shown.append(inputs.detach())
        return self.head(inputs)


def told(size: int, label: Tensor, attribute: Tensor, limit: float) -> LC:
    """LC that knows the attributes, on rows that are unit vectors: a mixed input tells who was mixed and how."""
    info = DataInfo(num_labels=2, num_rows=size, input_shape=(size,))
    mixing = IndependentMixUp(limit)
    algorithm = LC(lambda: Recorder(size), info, attributes=TrueAttributes(), mixing=mixing)
    algorithm.setup(TrainingRows(label, attribute))
    algorithm.begin_stage(0, None)
    return algorithm


def test_partners_are_drawn_whatever_their_label() -> None:
    size, steps = 60, 150
    label = (torch.arange(size) >= 45).long()  # 45 rows of label 0
    algorithm = told(size, label, label, limit=0.3)
    batch = Batch(torch.eye(size), label, torch.arange(size))
    for _ in range(steps):
        algorithm(batch, 0.0)
    mixed = torch.stack(algorithm.network.shown)  # (steps, size, size)
    own = mixed.diagonal(dim1=1, dim2=2)
    assert float(own.min()) >= 0.7 - 1e-6
    partner = (mixed - torch.diag_embed(own)).argmax(dim=2)
    share = 1 - own
    apart = share > 1e-4  # a row may meet itself
    assert float(share[apart].max()) > 0.29 and float(share[apart].mean()) == pytest.approx(0.15, abs=0.01)
    torch.testing.assert_close(mixed.sum(dim=2), torch.ones(steps, size))
    for y in (0, 1):
        mine = (label == y).expand(steps, size) & apart
        # Among the other 59 rows, 15 have label 1 (14, if the row itself is one of them).
        rate = label[partner[mine]].double().mean()
        assert float(rate) == pytest.approx((15 - y) / 59, abs=0.03)
    visits = torch.bincount(partner[apart], minlength=size).double()
    assert float(((visits / visits.mean() - 1) ** 2).sum() * visits.mean()) < 110  # chi-square, 59 degrees, 0.01 %


def test_the_label_and_the_correction_are_those_of_the_greater_part() -> None:
    size = 20
    label = torch.arange(size) % 2
    attribute = torch.randint(2, (size,), generator=torch.Generator().manual_seed(0))
    algorithm = told(size, label, attribute, limit=0.4)
    step = algorithm(Batch(torch.eye(size), label, torch.arange(size)), 0.0)
    correction = algorithm.group_prior.table.log()[:, attribute].T
    logits = algorithm.network.head(algorithm.network.shown[-1]) + correction
    torch.testing.assert_close(step.loss, cross_entropy(logits, label))


def test_with_an_independent_partner_the_label_and_the_prior_are_the_rows_own(table, build, batches) -> None:
    algorithm = build("LC", table, attributes="TrueAttributes", mixing={"name": "IndependentMixUp", "limit": 0.4})
    batch = next(batches(algorithm, table))
    partner, own = independent_partner(16, 0.4, StepRandomness(0).next(CPU))
    logits = algorithm.network(mix(batch.inputs, partner, own))
    correction = algorithm.group_prior.table.log()[:, batch.attribute].T
    torch.testing.assert_close(algorithm(batch, 9.0).loss, cross_entropy(logits + correction, batch.label))


def test_the_product_prior_is_that_of_the_row_times_that_of_its_partner(table, build, batches) -> None:
    for form in ("every-row", "minority-rows"):
        limit = {"limit": 0.1} if form == "every-row" else {}
        mixing = {"name": "GroupMixUp", "rows": form, "prior": "product", **limit}
        counted = {"name": "Counted", "smoothing": 1.0}
        algorithm = build("LC", table, attributes="TrueAttributes", prior=counted, mixing=mixing)
        batch = next(batches(algorithm, table))
        generator = StepRandomness(0).next(CPU)
        low, high = (0.8, 0.9) if form == "every-row" else (0.5, 1.0)  # t = 0.1 after the ramp-up
        weight = draw_weight(low, high, generator)
        partner = mixup_partner(batch.label, batch.label != batch.attribute, 3, generator, form)
        logits = algorithm.network(mix(batch.inputs, partner, weight))
        prior = algorithm.group_prior.table
        drawn = partner_prior(prior, ~torch.eye(3, dtype=torch.bool), 16, form)
        losses = []
        for i in range(16):
            a_j, a_i = int(batch.attribute[i]), int(batch.attribute[partner[i]])
            correction = prior[:, a_j].log() + drawn[:, a_j, a_i].log().clamp_min(-30)
            correction = (correction - correction.max()).clamp_min(-30)
            losses.append(cross_entropy(logits[i] + correction, batch.label[i]))
        torch.testing.assert_close(algorithm(batch, 9.0).loss, torch.stack(losses).mean())


def test_the_product_prior_is_that_of_the_rows_as_they_are_drawn() -> None:
    # Groups of 45, 5, 2 and 48 rows: with rows of small groups drawn oftener, partners are other rows, too.
    group = torch.arange(4).repeat_interleave(torch.tensor([45, 5, 2, 48]))
    label, attribute = group // 2, group % 2
    info = DataInfo(num_labels=2, num_rows=100, input_shape=(3,), num_attributes=2)
    options: dict[str, Any] = {"prior": Counted(smoothing=0.0), "mixing": GroupMixUp(prior="product")}
    algorithm = LC(lambda: nn.Linear(3, 2), info, attributes=TrueAttributes(), oversampling=0.5, **options)
    algorithm.setup(TrainingRows(label, attribute))
    plan = algorithm.begin_stage(0, None).sample_weight
    assert plan is not None
    generator, wanted, told = torch.Generator().manual_seed(0), torch.zeros(2, 2), torch.zeros(2, 2)
    for _ in range(1000):
        rows = torch.multinomial(plan, 16, replacement=True, generator=generator)
        batch = Batch(torch.zeros(16, 3), label[rows], rows)
        _, log_prior = algorithm.mixed(batch, attribute[rows], 9.0)
        weight = algorithm.row_weight[rows].unsqueeze(1)
        wanted.index_add_(0, attribute[rows], weight * one_hot(label[rows], 2))
        told.index_add_(0, attribute[rows], weight * log_prior.softmax(dim=1))
    # Of what a mixed row shows, the prior says how often each label goes with it.
    torch.testing.assert_close(told / wanted.sum(), wanted / wanted.sum(), atol=0.01, rtol=0)


@pytest.mark.parametrize("estimator", ["cell", "algorithm-1"])
def test_the_product_prior_needs_a_joint_probability(estimator: str, table, build) -> None:
    options = {"attributes": "Online", "prior": {"name": "Moving", "estimator": estimator}}
    with pytest.raises(InputError, match=f"prior=product needs a joint probability.*{estimator}: give estimator=joint"):
        build("LC", table, **options, mixing={"name": "GroupMixUp", "prior": "product"})


def test_mixing_features_mixes_what_the_head_is_given(table, build, batches) -> None:
    mixing = {"name": "GroupMixUp", "limit": 0.4}
    options = {"attributes": "Online", "prior": {"name": "Moving", "estimator": "cell", "floor": 1e-3}}
    algorithm, twin = (build("LC", table, **options, mixing={**mixing, "place": "features"}) for _ in range(2))
    batch = next(batches(algorithm, table))
    step = algorithm(batch, 3.0)

    probability = twin.attributes.network(batch.inputs).softmax(1)
    attribute = probability.argmax(1)
    twin.group_prior.update(batch.label, probability)
    generator = StepRandomness(0).next(CPU)
    ramp = 2 * 0.4 * 0.5  # after the ramp-up
    weight = draw_weight(1 - 2 * ramp, 1 - ramp, generator, "cpu")
    features, prior = group_mixup(
        twin.network.features(batch.inputs),
        twin.group_prior.for_attribute(attribute),
        batch.label,
        batch.label != attribute,
        weight=weight,
        form="every-row",
        generator=generator,
    )
    expected = cross_entropy(twin.network.head(features) + (prior + 1e-3).log(), batch.label)
    torch.testing.assert_close(step.logs["loss_robust"], expected.detach())
    on_inputs = build("LC", table, **options, mixing=mixing)(batch, 3.0)
    assert not torch.allclose(on_inputs.logs["loss_robust"], expected)


def test_independent_partners_may_be_mixed_by_their_features(table, build, batches) -> None:
    mixing = {"name": "IndependentMixUp", "limit": 1.0, "place": "features"}
    algorithm = build("LC", table, attributes="TrueAttributes", mixing=mixing)
    batch = next(batches(algorithm, table))
    partner, own = independent_partner(16, 1.0, StepRandomness(0).next(CPU))
    logits = algorithm.network.head(mix(algorithm.network.features(batch.inputs), partner, own))
    correction = algorithm.group_prior.table.log()[:, batch.attribute].T
    torch.testing.assert_close(algorithm(batch, 9.0).loss, cross_entropy(logits + correction, batch.label))


def test_no_mixing_before_the_ramp_up_has_begun_to_rise(table, build, batches) -> None:
    mixed, plain = (
        build("LC", table, attributes="Online", mixing=mixing)
        for mixing in ({"name": "GroupMixUp", "ramp_up_epochs": 1e6}, "NoMixing")
    )
    batch = next(batches(mixed, table))
    # t(0) = 0.5 exp(-5): a row keeps at least 1 - exp(-5) of itself.
    gap = (mixed(batch, 0.0).logs["loss_robust"] - plain(batch, 0.0).logs["loss_robust"]).abs()
    assert 0 < float(gap) < 0.02


def test_the_head_start_does_not_ramp_up_the_mixing(table, build, batches, collected) -> None:
    # The ramp-up counts from the method's own stage on, in which samples are mixed.
    started = build("LC", table, attributes={"name": "Online", "head_start_epochs": 3}, mixing="GroupMixUp", stage=1)
    plain = build("LC", table, attributes="Online", mixing="GroupMixUp")
    batch = next(batches(started, table))
    torch.testing.assert_close(started(batch, 0.0).logs["loss_robust"], plain(batch, 0.0).logs["loss_robust"])


def test_rows_of_unknown_attribute_are_mixed_and_not_corrected(table, build, batches) -> None:
    # With a partner of unknown attribute convex takes the prior in between, product the row's own.
    for rows in ("every-row", "minority-rows"):
        for prior in ("convex", "product"):
            mixing = {"name": "GroupMixUp", "rows": rows, "prior": prior}
            algorithm = build("LC", table, attributes="TrueAttributes", mixing=mixing)
            algorithm.attributes.row_attribute[::3] = -1
            assert bool(algorithm(next(batches(algorithm, table)), 5.0).loss.isfinite())


@pytest.mark.parametrize("rows", ["every-row", "minority-rows"])
@pytest.mark.parametrize("attribute", [[-1, -1, -1, -1], [-1, -1, 1, 1], [0, 0, 1, 1]])
def test_the_product_prior_of_a_row_without_attribute_is_uniform(rows: Any, attribute: list[int]) -> None:
    prior = GroupPrior(2, 2, averaging="fixed", floor=0.0)
    prior.set_table(torch.tensor([[0.5, 0.1], [0.15, 0.25]]))
    label, value = torch.tensor([0, 0, 1, 1]), torch.tensor(attribute)
    batch = Batch(torch.randn(4, 3), label, torch.arange(4))
    given = Mixable(batch, value, prior, Correlation.one_to_one(2), 5.0, torch.Generator().manual_seed(0))
    _, log_prior = GroupMixUp(rows, prior="product")(nn.Linear(3, 2), given)
    uniform = (log_prior == 0).all(1)
    assert torch.equal(uniform, value < 0)


@pytest.mark.parametrize("name", ["IndependentMixUp", "GroupMixUp"])
def test_features_can_only_be_mixed_where_there_are_any(name: str, table, made) -> None:
    def lc(mixing: Any) -> LC:
        return LC(lambda: nn.Linear(12, 3), table.info, **made(LC, {"attributes": "Online", "mixing": mixing}))

    with pytest.raises(InputError, match="`features` and `head`"):
        lc({"name": name, "place": "features"})
    lc({"name": name})


@pytest.mark.parametrize(
    ("cls", "options", "words"),
    [
        (IndependentMixUp, {"limit": 1.1}, r"limit is 1\.1"),
        (IndependentMixUp, {"limit": -0.1}, r"limit is -0\.1"),
        (GroupMixUp, {"limit": 0.6}, r"limit is 0\.6"),
        (GroupMixUp, {"ramp_up_epochs": -1.0}, r"ramp_up_epochs is -1\.0"),
        (GroupMixUp, {"rows": "minority-rows", "limit": 0.4}, "limit and ramp_up_epochs concern rows=every-row"),
        (GroupMixUp, {"rows": "minority-rows", "ramp_up_epochs": 50}, "concern rows=every-row"),
    ],
)
def test_impossible_options_are_refused(cls: type, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        cls(**options)
