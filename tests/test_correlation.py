"""The four kinds of spurious correlation."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logit_correction import correlation as module
from logit_correction.correlation import Correlation
from logit_correction.errors import InputError

KINDS = {
    "one-to-one": [[0], [1], [2]],
    "many-to-one": [[0], [0], [1]],
    "one-to-many": [[0, 1], [2], [3]],
    "many-to-many": [[0, 1], [1], [2]],
}


def random_probabilities(rows: int, labels: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, labels, generator=generator, dtype=torch.float64).softmax(dim=1)


@pytest.mark.parametrize("kind", KINDS)
def test_kind_follows_from_the_table(kind: str) -> None:
    correlation = Correlation.from_table(KINDS[kind])
    assert correlation.kind == kind
    assert correlation.needs_within == kind.endswith("many")
    assert correlation.to_table() == KINDS[kind]
    assert (correlation.num_labels, correlation.num_attributes) == tuple(correlation.weights.shape)


@pytest.mark.parametrize("kind", KINDS)
def test_posterior_equals_the_paper_s_sums(kind: str) -> None:
    table = KINDS[kind]
    correlation = Correlation.from_table(table)
    probs = random_probabilities(6, 3)
    expected = torch.zeros(6, correlation.num_attributes, dtype=torch.float64)
    for i in range(6):
        for y, row in enumerate(table):
            for a in row:
                expected[i, a] += probs[i, y] / len(row)
    actual = correlation.posterior(probs)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(actual.sum(dim=1), torch.ones(6, dtype=torch.float64))


def test_a_permuted_one_to_one_table_permutes_the_probabilities() -> None:
    correlation = Correlation.from_table([[2], [0], [1]])
    probs = random_probabilities(5, 3)
    assert correlation.kind == "one-to-one" and correlation != Correlation.one_to_one(3)
    torch.testing.assert_close(correlation.posterior(probs), probs[:, [1, 2, 0]])


def test_attribute_values_that_go_with_no_label_are_possible() -> None:
    correlation = Correlation.from_table([[0], [2]], num_attributes=4)
    probs = random_probabilities(3, 2)
    assert correlation.kind == "one-to-one"
    assert torch.equal(correlation.posterior(probs)[:, [1, 3]], torch.zeros(3, 2, dtype=torch.float64))


def test_within_weights_share_out_a_label_row_by_row() -> None:
    correlation = Correlation([[0.75, 0.25, 0.0], [0.0, 0.0, 1.0]])
    probs = torch.tensor([[0.9, 0.1], [0.9, 0.1]], dtype=torch.float64)
    within = torch.zeros(2, 2, 3, dtype=torch.float64)
    within[:, 1, 2] = 1.0
    within[0, 0, :2] = torch.tensor([0.8, 0.2])
    within[1, 0, :2] = torch.tensor([0.1, 0.9])
    expected = torch.tensor([[0.72, 0.18, 0.1], [0.09, 0.81, 0.1]], dtype=torch.float64)
    torch.testing.assert_close(correlation.posterior(probs, within), expected)
    # Constant weights can only ever choose the more frequent of a label's values.
    assert correlation.posterior(probs, within).argmax(dim=1).tolist() == [0, 1]
    assert correlation.posterior(probs).argmax(dim=1).tolist() == [0, 0]


def test_within_weights_equal_to_the_table_change_nothing() -> None:
    correlation = Correlation.from_table(KINDS["many-to-many"])
    probs = random_probabilities(4, 3)
    within = correlation.weights.expand(4, -1, -1)
    torch.testing.assert_close(correlation.posterior(probs, within), correlation.posterior(probs))


@pytest.mark.parametrize("kind", KINDS)
def test_minority_rows_are_those_outside_the_table(kind: str) -> None:
    table = KINDS[kind]
    correlation = Correlation.from_table(table)
    label = torch.arange(3).repeat_interleave(correlation.num_attributes)
    attribute = torch.arange(correlation.num_attributes).repeat(3)
    expected = [a not in table[y] for y, a in zip(label.tolist(), attribute.tolist(), strict=True)]
    assert correlation.is_minority(label, attribute).tolist() == expected
    assert not correlation.is_minority(label, torch.full_like(attribute, -1)).any()


@pytest.mark.parametrize("kind", KINDS)
def test_posterior_keeps_single_precision_and_passes_gradients(kind: str) -> None:
    correlation = Correlation.from_table(KINDS[kind]).to("cpu")
    logits = torch.zeros(2, 3, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        posterior = correlation.posterior(logits.float().softmax(dim=1))
    assert posterior.dtype == torch.float32
    posterior[:, 0].sum().backward()
    assert logits.grad is not None and logits.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_copies_and_the_printed_form_are_equal(kind: str) -> None:
    correlation = Correlation.from_table(KINDS[kind], num_attributes=5)
    correlation.to("cpu")
    copies = (pickle.loads(pickle.dumps(correlation)), copy.deepcopy(correlation), eval(repr(correlation)))
    for other in copies:
        assert other == correlation and hash(other) == hash(correlation)
    assert correlation != Correlation.from_table(KINDS[kind], num_attributes=6)
    assert correlation != "one-to-one"


def test_the_printed_form_shows_unequal_weights() -> None:
    correlation = Correlation([[0.75, 0.25], [0.0, 1.0]])
    assert repr(correlation) == "Correlation([[0.75, 0.25], [0.0, 1.0]])"
    assert eval(repr(correlation)) == correlation


def test_it_cannot_be_changed_from_outside() -> None:
    given_weights = torch.eye(2)
    correlation = Correlation(given_weights)
    given_weights.zero_()
    correlation.weights.zero_()
    assert correlation == Correlation.one_to_one(2)
    with pytest.raises(AttributeError):
        correlation.weights = given_weights


@settings(deadline=None, max_examples=20)
@given(rows=st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=5))
def test_any_table_survives_the_round_trip(rows: list[set[int]]) -> None:
    table = [sorted(row) for row in rows]
    correlation = Correlation.from_table(dict(enumerate(table)), num_attributes=6)
    assert correlation.to_table() == table
    torch.testing.assert_close(correlation.weights.sum(dim=1), torch.ones(len(table), dtype=torch.float64))
    assert eval(repr(correlation)) == correlation


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.5], "shape"),
        (torch.zeros(0, 0), "shape"),
        ([[1.0, 0.0], [0.5, 0.4]], "Row 1 .* sums to 0.9"),
        ([[1.5, -0.5]], "finite and 0 or more"),
        ([[float("nan"), 1.0]], "finite and 0 or more"),
    ],
)
def test_wrong_weights_are_refused(weights: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Correlation(weights)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("table", "num_attributes", "message"),
    [
        ([], None, "at least one label"),
        ([[0], []], None, "Row 1 .* one or more distinct"),
        ([[0, 0]], None, "Row 0 .* one or more distinct"),
        ([[0], [-1]], None, "Row 1 .* must list attribute values"),
        ([[0], 1], None, "Row 1 .* must list attribute values"),
        (["01"], None, "Row 0 .* must list attribute values"),
        ([[0], [2]], 2, "names attribute value 2, but there are only 2"),
        ({0: [0], 2: [1]}, None, "every label from 0 upwards"),
    ],
)
def test_wrong_tables_are_refused(table: object, num_attributes: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Correlation.from_table(table, num_attributes)  # type: ignore[arg-type]


def test_wrong_shapes_are_refused() -> None:
    correlation = Correlation.one_to_one(3)
    with pytest.raises(ValueError, match="class_probs needs the shape"):
        correlation.posterior(torch.zeros(4, 2))
    with pytest.raises(ValueError, match="within needs the shape"):
        correlation.posterior(torch.zeros(4, 3), torch.zeros(3, 3))


def test_the_minority_groups_are_those_whose_rows_conflict() -> None:
    correlation = Correlation.from_table([[0, 1], [2], [2]])
    table = correlation.minority_groups()
    assert table.tolist() == [[False, False, True], [True, True, False], [True, True, False]]
    for label in range(3):
        for attribute in range(3):
            pair = torch.tensor([label]), torch.tensor([attribute])
            assert bool(correlation.is_minority(*pair)) is bool(table[label, attribute])


def test_a_value_that_no_memory_holds_is_refused() -> None:
    with pytest.raises(InputError, match="names attribute value 5000000000, but there may be 100,000"):
        Correlation.from_table([[0], [5_000_000_000]])


def test_large_tables_give_the_posterior_of_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    correlation, probabilities = Correlation.from_table([[0, 1], [1], [2]]), random_probabilities(8, 3).float()
    small = correlation.posterior(probabilities)
    monkeypatch.setattr(module, "LARGE", 0)
    with torch.autocast("cpu", torch.bfloat16):  # rounds nothing
        torch.testing.assert_close(correlation.posterior(probabilities), small)
