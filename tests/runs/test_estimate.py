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
def site_estimates(sites: tuple[pd.DataFrame, np.ndarray]) -> AttributeEstimates:
    return estimate_attributes(*sites, shortcut=["column:site"], threads=1)


def test_estimates_hold_all_rows_in_their_order(sites: tuple, site_estimates: AttributeEstimates) -> None:
    frame, label = sites
    assert (
        site_estimates.label_names == ("ill", "well")
        and site_estimates.verdict == "shortcut"
        and site_estimates.corrects
    )
    assert [site_estimates.label_names[y] for y in site_estimates.label] == label.tolist()
    assert (np.where(site_estimates.attribute == 0, "north", "south") == frame["site"]).all()
    assert (
        site_estimates.posterior is not None
        and (site_estimates.posterior.argmax(1) == site_estimates.attribute).mean() > 0.95
    )
    assert site_estimates.counts.to_numpy().sum() == 600 and site_estimates.rows.tolist() == list(range(600))
    assert site_estimates.sentence == "You named this shortcut"


def test_named_column_separates_rare_labels() -> None:
    """One in four of the north is ill, and one in fifty of the south: neither site says of a row that it is ill."""
    rng = np.random.default_rng(2)
    north = rng.random(3000) < 0.4
    ill = rng.random(3000) < np.where(north, 0.25, 0.02)
    frame = pd.DataFrame({"blood": rng.normal(size=3000) + ill, "site": np.where(north, "north", "south")})
    estimates = estimate_attributes(frame, np.where(ill, "ill", "well"), shortcut=["column:site"], threads=1)
    assert ((estimates.attribute == estimates.label_names.index("ill")) == north).all()


def test_loss_offsets_and_sample_weights_agree(site_estimates: AttributeEstimates) -> None:
    label = torch.from_numpy(site_estimates.label)
    attribute = torch.from_numpy(site_estimates.attribute)
    prior = count_prior(label, attribute, 2, 2, smoothing=0.3)
    torch.testing.assert_close(site_estimates.prior(), prior)
    logits = torch.randn(600, 2, generator=torch.Generator().manual_seed(0))
    by_offset = cross_entropy(logits + torch.from_numpy(site_estimates.log_prior_of_rows()), label)
    torch.testing.assert_close(site_estimates.loss()(logits, label, attribute), by_offset)
    torch.testing.assert_close(by_offset, cross_entropy(logits + prior.log().T[attribute], label))
    weight = site_estimates.sample_weight()
    group = site_estimates.label * 2 + site_estimates.attribute
    assert weight.mean() == pytest.approx(1)
    assert [weight[group == g].sum() for g in range(4)] == pytest.approx([150] * 4)


def test_estimates_without_attributes_correct_nothing(site_estimates: AttributeEstimates) -> None:
    site_estimates = replace(site_estimates, attribute=np.full_like(site_estimates.attribute, -1))
    assert (
        not site_estimates.corrects
        and (site_estimates.sample_weight() == 1).all()
        and not site_estimates.log_prior_of_rows().any()
    )
    logits = torch.randn(600, 2)
    y = torch.from_numpy(site_estimates.label)
    torch.testing.assert_close(
        site_estimates.loss()(logits, y, torch.from_numpy(site_estimates.attribute)), cross_entropy(logits, y)
    )


def test_estimates_equal_those_of_a_training_of_lc(tmp_path: Path) -> None:
    options: dict[str, Any] = {"shortcut": "column:form_version", "epochs": 2, "seed": 3, "threads": 1}
    estimates = estimate_attributes(PLANTED, **options)
    run = train(PLANTED, page=False, **options)
    assert estimates.verdict == "shortcut" and estimates.evidence == run.report.evidence
    method = run.model.algorithm
    assert isinstance(method, LC)
    assert method.attributes.row_attribute.tolist() == estimates.attribute.tolist()
    torch.testing.assert_close(method.group_prior.table, estimates.prior())
    estimates.to_frame().to_csv(tmp_path / "rows.csv", index=False)
    estimates_from_file = estimate_attributes(
        PLANTED, estimator={"name": "Given", "file": str(tmp_path / "rows.csv")}, threads=1
    )
    names = np.asarray(estimates_from_file.attribute_names)[estimates_from_file.attribute].tolist()
    assert names == np.asarray(estimates.attribute_names)[estimates.attribute].tolist()


def test_estimates_predict_attributes_of_new_rows(sites: tuple, site_estimates: AttributeEstimates) -> None:
    frame, label = sites
    assert (site_estimates.predict_attributes(frame, label) == site_estimates.attribute).all()
    later = pd.DataFrame({"blood": [0.1, 0.2, 0.3], "site": ["south", "north", "south"], "age": 0.0})
    later["label"] = ["ill", "ill", "well"]
    expected = [site_estimates.attribute[(frame["site"] == site).argmax()] for site in later["site"]]
    assert site_estimates.predict_attributes(later, "label").tolist() == expected
    assert site_estimates.predict_attributes(later.iloc[:0], []).tolist() == []


@pytest.mark.parametrize("table", [False, True])
def test_message_on_rows_with_errors_names_no_command_option(table: bool) -> None:
    values = np.array([[0.0], [np.inf], [1.0], [2.0]])
    rows = pd.DataFrame(values, columns=["a"]) if table else values
    with pytest.raises(InputError, match=r"row 1: .*; fix it, or leave it out"):
        estimate_attributes(rows, [0, 1, 0, 1])
