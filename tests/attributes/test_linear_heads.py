"""Logistic heads in folds, that a search looks through views by."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict

from logit_correction.attributes.kept_heads import Head
from logit_correction.attributes.linear_heads import held_out_family, held_out_logistic


@pytest.mark.parametrize("labels", [2, 3])
def test_rows_are_predicted_as_scikit_learn_does_it_and_heads_are_kept(labels: int) -> None:
    generator = torch.Generator().manual_seed(labels)
    label = torch.arange(120) % labels
    features = torch.randn(120, 4, generator=generator)
    features[:, 0] += label
    fold = torch.randperm(120, generator=generator) % 3
    kept: list[Head] = []
    found = held_out_logistic(features, label, fold, labels, kept=kept)
    head = LogisticRegression(C=1.0, max_iter=300, tol=1e-3)
    splits = PredefinedSplit(fold.numpy())
    expected = cross_val_predict(head, features.numpy(), label.numpy(), cv=splits, method="predict_proba")
    torch.testing.assert_close(found.double(), torch.from_numpy(expected).double(), atol=1e-5, rtol=1e-4)
    rows = fold == 1
    torch.testing.assert_close(kept[1](features[rows]), found[rows], atol=1e-5, rtol=1e-4)


def test_of_a_label_with_one_row_the_others_know_nothing() -> None:
    label = torch.tensor([0, 0, 0, 0, 0, 1])
    features, fold = torch.randn(6, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 0, 1, 1, 0, 1])
    found = held_out_logistic(features, label, fold, 2)
    assert found[fold == 1].tolist() == [[1.0, 0.0]] * 3  # the only row of label 1 is held out itself
    family = held_out_family([features, features.roll(1, 0)], label, fold, 2)
    assert family[fold == 1].tolist() == [[1.0, 0.0]] * 3 and bool(family.isfinite().all())
