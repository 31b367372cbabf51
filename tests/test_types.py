"""What a method is told of its data before training."""

from __future__ import annotations

import pickle

import torch

from logit_correction.types import DataInfo, Stage, TrainingRows


def test_what_is_left_out_is_filled_in() -> None:
    info = DataInfo(num_labels=3, num_rows=10, input_shape=(4,))
    assert info.num_attributes == 3 and info.correlation is None
    assert info.label_names == ("0", "1", "2") and info.attribute_names == ("0", "1", "2")


def test_what_is_given_stays() -> None:
    info = DataInfo(2, 10, (4,), num_attributes=3, label_names=("no", "yes"))
    assert info.label_names == ("no", "yes") and info.attribute_names == ("0", "1", "2")


def test_of_training_rows_only_the_labels_must_be_told() -> None:
    rows = TrainingRows(torch.tensor([0, 1]))
    assert rows.attribute is None and rows.view_inputs is None and rows.names is None and rows.numbers is None
    assert rows.epochs == 0  # a loop of one's own need not tell
    rows.report("nobody listens")


def test_a_stage_asks_for_nothing_by_default() -> None:
    assert Stage() == Stage(epochs=None, sample_weight=None, learning_rate=None)


def test_a_stage_of_few_rows_takes_smaller_batches_that_all_processes_share() -> None:
    assert Stage().batch_size(1024) == 1024
    few = Stage(most_rows=256)
    assert [few.batch_size(64, 3), few.batch_size(1024), few.batch_size(1026, 3)] == [64, 256, 255]
    assert Stage(most_rows=2).batch_size(8, 4) == 4


def test_rows_without_images_can_be_pickled() -> None:
    rows = TrainingRows(torch.tensor([0, 1]))
    again = pickle.loads(pickle.dumps(rows))
    assert again.label.tolist() == [0, 1] and again.report("anything") is None
