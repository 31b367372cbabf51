"""The corrected loss in the Trainer of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from logit_correction import AttributeEstimates, InputError, LogitCorrectedLoss
from logit_correction.integrations.transformers import LogitCorrectionMixin, add_attributes

LABEL = np.arange(24) % 2
ATTRIBUTE = np.where(np.arange(24) < 20, LABEL, 1 - LABEL)
ESTIMATES = AttributeEstimates(LABEL, ATTRIBUTE, ("0", "1"), ("a", "b"), None, np.arange(24), None)
ROWS = [{"input_ids": [2, 4 + int(y), 6 + int(a), 3], "labels": int(y)} for y, a in zip(LABEL, ATTRIBUTE, strict=True)]


def test_trainer_uses_the_corrected_loss_in_training_only(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    tiny_bert = request.getfixturevalue("tiny_bert")

    class CorrectedTrainer(LogitCorrectionMixin, transformers.Trainer):  # type: ignore[misc]
        """As a user writes it."""

    model = transformers.BertForSequenceClassification.from_pretrained(tiny_bert, num_labels=2)
    quiet = {
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
        "remove_unused_columns": False,
    }
    arguments = transformers.TrainingArguments(
        str(tmp_path), gradient_accumulation_steps=2, num_train_epochs=1, **quiet
    )
    rows = add_attributes(ROWS, ESTIMATES)
    trainer = CorrectedTrainer(model, arguments, train_dataset=rows, correction=ESTIMATES.loss())
    batch = next(iter(trainer.get_train_dataloader()))
    assert set(batch) == {"input_ids", "labels", "attribute"}  # the column was kept
    for module in model.train().modules():
        module.eval() if isinstance(module, torch.nn.Dropout) else None
    expected = LogitCorrectedLoss(ESTIMATES.prior())(
        model(batch["input_ids"]).logits, batch["labels"], batch["attribute"]
    )
    torch.testing.assert_close(trainer.compute_loss(model, batch), expected)
    trainer.train()
    prediction = trainer.predict(ROWS)  # rows of the test have no attribute
    expected_test_loss = torch.nn.functional.cross_entropy(
        torch.from_numpy(prediction.predictions), torch.from_numpy(LABEL)
    )
    assert prediction.metrics["test_loss"] == pytest.approx(float(expected_test_loss), rel=1e-4)


def test_add_attributes_adds_a_column() -> None:
    rows = add_attributes(ROWS, ESTIMATES)
    assert [rows[i]["attribute"] for i in range(24)] == ATTRIBUTE.tolist() and "attribute" not in ROWS[0]

    class Columns(list):  # type: ignore[type-arg]
        def add_column(self, name: str, values: list[int]) -> list[Any]:
            return [{**row, name: value} for row, value in zip(self, values, strict=True)]

    added = add_attributes(Columns(ROWS), ESTIMATES, column="guess")
    assert [row["guess"] for row in added] == ATTRIBUTE.tolist()
    with pytest.raises(InputError, match="23 rows"):
        add_attributes(ROWS[:23], ESTIMATES)
