"""Logit correction in the Trainer of Hugging Face's transformers: a small BERT on reviews with a shortcut.

    python examples/transformers_trainer.py

Use it if the Trainer trains your model. In training the closing line of a review nearly always predicts its sentiment,
in the test it does not. Nothing is downloaded: the words are those of the reviews, and the BERT has random weights.
"""

from __future__ import annotations

import argparse
import re
import tempfile

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

from logit_correction import estimate_attributes
from logit_correction.functional import group_balanced_accuracy, group_membership, worst_group_accuracy
from logit_correction.integrations.transformers import LogitCorrectionMixin, add_attributes
from logit_correction_lab.sources.planted import Planted

LENGTH = 96
SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}


class CorrectedTrainer(LogitCorrectionMixin, Trainer):
    """The trainer with the corrected loss."""


def split_words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())[: LENGTH - 2]


def encode_texts(texts: list[str], label: np.ndarray, numbers: dict[str, int]) -> list[dict[str, object]]:
    rows = []
    for text, y in zip(texts, label.tolist(), strict=True):
        tokens = [2, *(numbers.get(word, 1) for word in split_words(text)), 3]  # [CLS] ... [SEP]
        padding = [0] * (LENGTH - len(tokens))
        rows.append({"input_ids": tokens + padding, "attention_mask": [1] * len(tokens) + padding, "labels": y})
    return rows


def main(epochs: int = 15, seed: int = 0) -> dict[str, float]:
    table = Planted("signature").build()
    texts = np.array(table.texts, dtype=object)
    label = table.label.numpy()
    train, test = (table.split[name].numpy() for name in ("train", "test"))
    vocabulary = sorted({word for text in texts[train] for word in split_words(text)})
    numbers = {word: 4 + number for number, word in enumerate(vocabulary)}

    options = {"epochs": epochs, "batch_size": 32, "seed": seed, "threads": 1}
    estimates = estimate_attributes(texts[train].tolist(), label[train], **options)
    print(estimates.sentence)
    rows = add_attributes(encode_texts(texts[train].tolist(), label[train], numbers), estimates)  # a column `attribute`

    set_seed(seed)
    config = BertConfig(vocab_size=4 + len(numbers), max_position_embeddings=LENGTH, num_labels=2, **SIZES)
    model = BertForSequenceClassification(config)
    model.classifier.reset_parameters()  # drawn as wide as in our own loop, for a fair comparison
    with tempfile.TemporaryDirectory() as folder:
        recipe = {"num_train_epochs": epochs, "per_device_train_batch_size": 32, "learning_rate": 2e-3, "seed": seed}
        recipe |= {"lr_scheduler_type": "cosine", "max_grad_norm": 0.0}  # as in our own loop, too
        quiet = {"report_to": [], "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True}
        arguments = TrainingArguments(folder, use_cpu=True, remove_unused_columns=False, **recipe, **quiet)
        trainer = CorrectedTrainer(model, arguments, train_dataset=rows, correction=estimates.loss())
        trainer.train()
        logits = trainer.predict(encode_texts(texts[test].tolist(), label[test], numbers)).predictions

    prediction = torch.from_numpy(logits).argmax(1)
    truth = table.label[test]
    groups = group_membership(truth, table.attribute[test], 2, 2)
    figures = {"group_balanced": group_balanced_accuracy, "worst_group": worst_group_accuracy}
    return {name: float(figure(prediction, truth, groups)) for name, figure in figures.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
