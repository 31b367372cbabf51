"""The attribute of each row alone, as other people's training code takes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn.functional import cross_entropy

from logit_correction import LC, AttributeEstimates, InputError, estimate_attributes, train
from logit_correction.functional import count_prior

PLANTED = {"name": "Planted", "set": "column", "rows": 600}


@pytest.fixture(scope="module")
def found(sites: tuple[pd.DataFrame, np.ndarray]) -> AttributeEstimates:
    return estimate_attributes(*sites, shortcut=["column:site"], threads=1)


def test_all_rows_given_are_told_of_in_their_order(sites: tuple, found: AttributeEstimates) -> None:
    frame, label = sites
    assert found.label_names == ("ill", "well") and found.verdict == "shortcut" and found.corrects
    assert [found.label_names[y] for y in found.label] == label.tolist()
    assert (np.where(found.attribute == 0, "north", "south") == frame["site"]).all()
    assert found.posterior is not None and (found.posterior.argmax(1) == found.attribute).mean() > 0.95
    assert found.counts.to_numpy().sum() == 600 and found.rows.tolist() == list(range(600))
    assert found.sentence == "You named this shortcut"


def test_a_named_column_divides_rare_labels_too() -> None:
    """One in four of the north is ill, and one in fifty of the south: neither site says of a row that it is ill."""
    rng = np.random.default_rng(2)
    north = rng.random(3000) < 0.4
    ill = rng.random(3000) < np.where(north, 0.25, 0.02)
    frame = pd.DataFrame({"blood": rng.normal(size=3000) + ill, "site": np.where(north, "north", "south")})
    found = estimate_attributes(frame, np.where(ill, "ill", "well"), shortcut=["column:site"], threads=1)
    assert ((found.attribute == found.label_names.index("ill")) == north).all()


def test_loss_offsets_and_weights_say_the_same(found: AttributeEstimates) -> None:
    label = torch.from_numpy(found.label)
    attribute = torch.from_numpy(found.attribute)
    prior = count_prior(label, attribute, 2, 2, smoothing=0.3)
    torch.testing.assert_close(found.prior(), prior)
    logits = torch.randn(600, 2, generator=torch.Generator().manual_seed(0))
    by_offset = cross_entropy(logits + torch.from_numpy(found.log_prior_of_rows()), label)
    torch.testing.assert_close(found.loss()(logits, label, attribute), by_offset)
    torch.testing.assert_close(by_offset, cross_entropy(logits + prior.log().T[attribute], label))
    weight = found.sample_weight()
    group = found.label * 2 + found.attribute
    assert weight.mean() == pytest.approx(1)
    assert [weight[group == g].sum() for g in range(4)] == pytest.approx([150] * 4)


def test_where_no_attribute_is_known_nothing_is_corrected(found: AttributeEstimates) -> None:
    found = replace(found, attribute=np.full_like(found.attribute, -1))
    assert not found.corrects and (found.sample_weight() == 1).all() and not found.log_prior_of_rows().any()
    logits = torch.randn(600, 2)
    y = torch.from_numpy(found.label)
    torch.testing.assert_close(found.loss()(logits, y, torch.from_numpy(found.attribute)), cross_entropy(logits, y))


def test_they_are_what_lc_trains_on(tmp_path: Path) -> None:
    options: dict[str, Any] = {"shortcut": "column:form_version", "epochs": 2, "seed": 3, "threads": 1}
    found = estimate_attributes(PLANTED, **options)
    run = train(PLANTED, page=False, **options)
    assert found.verdict == "shortcut" and found.evidence == run.report.evidence
    method = run.model.algorithm
    assert isinstance(method, LC)
    assert method.attributes.row_attribute.tolist() == found.attribute.tolist()
    torch.testing.assert_close(method.group_prior.table, found.prior())
    found.to_frame().to_csv(tmp_path / "rows.csv", index=False)
    given = estimate_attributes(PLANTED, estimator={"name": "Given", "file": str(tmp_path / "rows.csv")}, threads=1)
    names = np.asarray(given.attribute_names)[given.attribute].tolist()
    assert names == np.asarray(found.attribute_names)[found.attribute].tolist()


def test_further_rows_are_told_of_too(sites: tuple, found: AttributeEstimates) -> None:
    frame, label = sites
    assert (found.predict_attributes(frame, label) == found.attribute).all()
    later = pd.DataFrame({"blood": [0.1, 0.2, 0.3], "site": ["south", "north", "south"], "age": 0.0})
    later["label"] = ["ill", "ill", "well"]
    expected = [found.attribute[(frame["site"] == site).argmax()] for site in later["site"]]
    assert found.predict_attributes(later, "label").tolist() == expected
    assert found.predict_attributes(later.iloc[:0], []).tolist() == []


@pytest.mark.parametrize("table", [False, True])
def test_bad_rows_of_python_are_told_without_an_option_of_the_command(table: bool) -> None:
    values = np.array([[0.0], [np.inf], [1.0], [2.0]])
    rows = pd.DataFrame(values, columns=["a"]) if table else values
    with pytest.raises(InputError, match=r"row 1: .*; fix it, or leave it out"):
        estimate_attributes(rows, [0, 1, 0, 1])
