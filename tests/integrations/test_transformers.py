"""The corrected loss in the Trainer of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from logit_correction import AttributeEstimates, InputError, LogitCorrectedLoss
from logit_correction.integrations.transformers import LogitCorrectionMixin, WithAttribute, add_attributes

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

LABEL = np.arange(24) % 2
ATTRIBUTE = np.where(np.arange(24) < 20, LABEL, 1 - LABEL)
ESTIMATES = AttributeEstimates(LABEL, ATTRIBUTE, ("0", "1"), ("a", "b"), None, np.arange(24), None)
ROWS = [{"input_ids": [2, 4 + int(y), 6 + int(a), 3], "labels": int(y)} for y, a in zip(LABEL, ATTRIBUTE, strict=True)]


class CorrectedTrainer(LogitCorrectionMixin, transformers.Trainer):  # type: ignore[misc]
    """As a user writes it."""


def made(tiny_bert: Path, folder: Path, train: Any, **options: Any) -> Any:
    model = transformers.BertForSequenceClassification.from_pretrained(tiny_bert, num_labels=2)
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "logging_steps": 1}
    arguments = transformers.TrainingArguments(str(folder), per_device_train_batch_size=8, **{**quiet, **options})
    return CorrectedTrainer(model, arguments, train_dataset=train, correction=ESTIMATES.loss())


def test_the_loss_is_the_corrected_one_in_training_alone(tiny_bert: Path, tmp_path: Path) -> None:
    rows = add_attributes(ROWS, ESTIMATES)
    trainer = made(tiny_bert, tmp_path, rows)
    batch = next(iter(trainer.get_train_dataloader()))
    assert set(batch) == {"input_ids", "labels", "attribute"}  # the column was kept
    trainer.model.eval()  # without dropout
    with torch.no_grad():
        logits = trainer.model(batch["input_ids"]).logits
    plain, outputs = trainer.compute_loss(trainer.model, batch, return_outputs=True)
    torch.testing.assert_close(plain, torch.nn.functional.cross_entropy(logits, batch["labels"]))
    torch.testing.assert_close(outputs["logits"], logits)
    trainer.model.train()
    for module in trainer.model.modules():
        module.eval() if isinstance(module, torch.nn.Dropout) else None
    found = trainer.compute_loss(trainer.model, batch)
    expected = LogitCorrectedLoss(ESTIMATES.prior())(logits, batch["labels"], batch["attribute"])
    torch.testing.assert_close(found, expected)
    assert float(found.detach()) != pytest.approx(float(plain))


def test_training_and_evaluation_run_through(tiny_bert: Path, tmp_path: Path) -> None:
    rows = add_attributes(ROWS, ESTIMATES)
    trainer = made(tiny_bert, tmp_path, rows, num_train_epochs=1, gradient_accumulation_steps=2, learning_rate=1e-3)
    before = trainer.model.classifier.weight.detach().clone()
    trainer.train()
    assert not torch.equal(before, trainer.model.classifier.weight)
    found = trainer.predict(ROWS)  # rows of the test have no attribute
    logits = torch.from_numpy(found.predictions)
    assert logits.shape == (24, 2)
    plain = torch.nn.functional.cross_entropy(logits, torch.from_numpy(LABEL))
    assert found.metrics["test_loss"] == pytest.approx(float(plain), rel=1e-4)


def test_rows_without_an_attribute_are_refused(tiny_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="The rows have no 'attribute'"):
        made(tiny_bert, tmp_path, ROWS).train()
    with pytest.raises(InputError, match="label_smoothing_factor"):
        made(tiny_bert, tmp_path, ROWS, label_smoothing_factor=0.1)


def test_attributes_beside_the_rows() -> None:
    rows = add_attributes(ROWS, ESTIMATES)
    assert isinstance(rows, WithAttribute) and len(rows) == 24
    assert [row["attribute"] for row in rows] == ATTRIBUTE.tolist() and "attribute" not in ROWS[0]

    class Columns(list):  # type: ignore[type-arg]
        def add_column(self, name: str, values: list[int]) -> list[Any]:
            return [{**row, name: value} for row, value in zip(self, values, strict=True)]

    added = add_attributes(Columns(ROWS), ESTIMATES, column="guess")
    assert [row["guess"] for row in added] == ATTRIBUTE.tolist()
    with pytest.raises(InputError, match="23 rows"):
        add_attributes(ROWS[:23], ESTIMATES)
