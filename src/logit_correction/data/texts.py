"""Texts as inputs: tokens for a language model, or hashed words for a small network.

Words are hashed to 4,096 places, so no vocabulary is kept. Words that most texts have, such as those of a disclaimer,
are weighted down to nothing: otherwise boilerplate of varying wording would outweigh the few words that matter.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from logit_correction.data.cache import compute_digest
from logit_correction.data.cells import check_required_columns, convert_to_text, convert_to_texts
from logit_correction.data.reader import PreparedInputs, Reader
from logit_correction.data.rows import RowErrors, Rows
from logit_correction.data.stores import InputStore
from logit_correction.errors import InputError, check_range
from logit_correction.formatting import format_option, format_reason
from logit_correction.networks.pretrained import load_from_transformers
from logit_correction.registry import import_optional
from logit_correction.views.texts import MAX_VOCABULARY_TEXTS, split_words

#: What a language model takes of a text.
TOKENS = ("input_ids", "attention_mask")

#: Places that words are hashed to.
NUM_HASHED_FEATURES = 4096

#: Distinct words of one text that count, the heaviest ones.
MAX_WORDS = 512

#: Characters of a text by which messages and pages name its row.
NAME_CHARACTERS = 160


class TokenStore(InputStore):
    """Tokens of texts, held in memory.

    Attributes:
        tokens: (M, 2, T) whole numbers: ``input_ids`` and ``attention_mask`` of each text.
    """

    holds_tokens = True

    def __init__(self, tokens: Tensor) -> None:
        self.tokens = tokens

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.tokens.shape[2:])

    @property
    def row_bytes(self) -> int:
        return 4 * 768 * self.input_shape[0]  # the first activations, at the width of BERT

    def fetch(self, row_indices: Tensor) -> dict[str, Tensor]:
        return dict(zip(TOKENS, self.tokens.index_select(0, row_indices).long().unbind(1), strict=True))


@dataclass
class WordStore(InputStore):
    """Bags of hashed words: for each text the places of its words among F, and their weights.

    A batch is written out as (B, F) when it is fetched; in memory a text takes as much as its words.

    Attributes:
        place_of_word: (M, W) whole numbers in 0..``num_features`` - 1.
        weight: (M, W) floats; 0 where a text has no further word.
        num_features: F.
    """

    place_of_word: Tensor
    weight: Tensor
    num_features: int

    holds_words = True

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.num_features,)

    def fetch(self, row_indices: Tensor) -> Tensor:
        weight = self.weight.index_select(0, row_indices)
        vectors = torch.zeros(len(row_indices), self.num_features, device=weight.device)
        return vectors.scatter_add_(1, self.place_of_word.index_select(0, row_indices).long(), weight)


class TextReader(Reader):
    """Reads texts: as the tokens of a language model, or as counted words."""

    def __init__(self, column: str | None = None, tokenizer: str | None = None, max_tokens: int = 128) -> None:
        """Choose the form of the inputs.

        Args:
            column: Of tables, the column of the texts.
            tokenizer: Name or folder of a tokenizer of the package transformers; None counts words.
            max_tokens: Tokens of a text that are read.
        """
        check_range(format_option("data.max_tokens"), max_tokens, 1)
        self.column = column
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.vocabulary: str | None = None  # a digest of what the tokenizer does
        self.weights: dict[str, float] | None = None

    def validate(self, rows: Rows) -> tuple[list[str], list[str], list[str]]:
        """Return the texts, and their beginnings as names; empty ones are noted."""
        cells: Sequence[str | None]
        if rows.frame is not None and self.column:
            check_required_columns(rows.frame, rows.place, [self.column])
            cells = convert_to_texts(rows.frame[self.column])
        elif rows.texts:
            cells = list(map(convert_to_text, rows.texts))
        else:
            raise InputError("this model takes texts: give a list of texts, or a table with the columns of training")
        fault = f"column {self.column!r} is empty" if self.column else "has no text"
        rows.errors.add_where([text is None for text in cells], fault)
        texts = [text or "" for text in cells]
        sample = texts[:: max(1, len(texts) // MAX_VOCABULARY_TEXTS)]
        short = sum(len(split_words(text)) < 2 for text in sample)
        notes = []
        if 2 * short > len(sample):
            remedy = f"give another column by {format_option('data.text')}"
            remedy += f", or a column of categories by {format_option('data.features')}"
            notes.append(f"{short:,} of {len(sample):,} texts have fewer than 2 words: {remedy}")
        return texts, [shorten_text(text, NAME_CHARACTERS) for text in texts], notes

    def fit(self, parsed_rows: list[str], train_rows: Tensor, errors: RowErrors) -> None:
        """Compute the weights of the words of the training rows, or a digest of the tokenizer."""
        if self.tokenizer is None:
            self.weights = compute_word_weights([parsed_rows[row] for row in train_rows.tolist()])
        else:
            self.vocabulary = digest_vocabulary(load_tokenizer(self.tokenizer))

    def build_inputs(self, parsed_rows: list[str], errors: RowErrors) -> PreparedInputs:
        """Count the words of texts, or split them into tokens."""
        store: InputStore
        preparation: dict[str, Any]
        if self.tokenizer is None:
            store = hash_words(parsed_rows, self.weights)
            form = f"counted words, hashed to {NUM_HASHED_FEATURES:,} places"
            preparation = {"weights": self.weights}
        else:
            tokenizer = load_tokenizer(self.tokenizer)
            if self.vocabulary not in (None, digest_vocabulary(tokenizer)):
                remedy = "put its old files back, or train again"
                raise InputError(f"the tokenizer {self.tokenizer} is another than when the run was trained: {remedy}")
            store = tokenize(parsed_rows, tokenizer, self.max_tokens)
            form = f"tokens of {Path(self.tokenizer).name}, at most {self.max_tokens}"
            preparation = {"vocabulary": self.vocabulary}
        return PreparedInputs(store, {"texts": parsed_rows}, {"texts": form}, preparation)

    def load_state(self, preparation: Mapping[str, Any]) -> None:
        super().load_state(preparation)
        if self.tokenizer is None:  # without weights it was saved when words were counted otherwise
            self.weights = dict(preparation["weights"])
        else:
            self.vocabulary = preparation.get("vocabulary")


def digest_vocabulary(tokenizer: Any) -> str:
    """Return a digest of what a tokenizer does."""
    vocabulary = json.dumps(tokenizer.get_vocab(), sort_keys=True)
    return compute_digest([vocabulary, *tokenizer("It's A. ßé?")["input_ids"]])


class LengthNormalization(nn.Module):
    """Counted words (B, F) as vectors of the length that all texts have, however many words were taken out."""

    LENGTH = 16.0  # at length 1 a small network takes many epochs to notice its inputs at all

    def forward(self, inputs: Tensor) -> Tensor:
        return self.LENGTH * normalize(inputs)


def shorten_text(text: str, max_length: int) -> str:
    """Return the beginning of a text in one line, to name its row.

    Args:
        text: The text.
        max_length: Characters, without the dots that stand for the rest.
    """
    line = " ".join(text.split())
    return line if len(line) <= max_length else line[:max_length].rstrip() + " …"


def compute_word_weights(texts: Sequence[str]) -> dict[str, float]:
    """Return the weights of words that more than a third of the texts have; all others weigh 1.

    The weight is the square of the inverse document frequency, at most 1: boilerplate weighs nothing, even where its
    words vary. Without the limit rare words would outweigh common ones, by which ordinary texts differ.
    """
    sample = texts[:: max(1, len(texts) // MAX_VOCABULARY_TEXTS)]
    counts = Counter(word for text in sample for word in set(split_words(text)))
    weights = {word: math.log((len(sample) + 1) / count) for word, count in counts.items()}
    return {word: weights[word] ** 2 for word in sorted(weights) if weights[word] < 1}


def hash_words(
    texts: Sequence[str], weights: Mapping[str, float] | None = None, num_features: int = NUM_HASHED_FEATURES
) -> WordStore:
    """Count the words of texts, times their weights, each at a place that its hash gives.

    Beyond ``MAX_WORDS`` places of a text the lightest are left out. Then its vector has length 16.

    Args:
        texts: M texts.
        weights: Weights of words; others weigh 1.
        num_features: Places that words are hashed to.
    """
    from sklearn.feature_extraction import FeatureHasher

    get_weight = (weights or {}).get
    words = (((word, n * get_weight(word, 1.0)) for word, n in Counter(split_words(text)).items()) for text in texts)
    counts = FeatureHasher(num_features, input_type="pair", dtype=np.float32).transform(words)
    width = int(min(MAX_WORDS, np.diff(counts.indptr).max(initial=1)))
    place = np.zeros((len(texts), width), np.int32)
    weight = np.zeros((len(texts), width), np.float32)
    for row in range(len(texts)):
        part = slice(counts.indptr[row], counts.indptr[row + 1])
        heaviest = np.argsort(-np.abs(counts.data[part]), kind="stable")[:width]
        place[row, : len(heaviest)] = counts.indices[part][heaviest]
        weight[row, : len(heaviest)] = counts.data[part][heaviest]
    return WordStore(torch.from_numpy(place), LengthNormalization()(torch.from_numpy(weight)), num_features)


def tokenize(texts: Sequence[str], tokenizer: Any, max_tokens: int) -> TokenStore:
    """Split texts into tokens, padded to the longest text.

    Args:
        texts: M texts.
        tokenizer: One of the package transformers.
        max_tokens: Tokens of a text that are kept.
    """
    options = {"padding": "longest", "truncation": True, "max_length": max_tokens, "return_tensors": "np"}
    encoded = tokenizer(list(texts), **options)
    return TokenStore(torch.from_numpy(np.stack([encoded[name] for name in TOKENS], axis=1, dtype=np.int32)))


def load_tokenizer(tokenizer: str) -> Any:
    """Load a tokenizer of the package transformers by its name or folder; ``InputError`` if that cannot be."""
    import_optional("transformers", f"the tokenizer {tokenizer!r}", "texts", ", or take hashed words")
    try:
        return load_from_transformers("AutoTokenizer", tokenizer)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"the tokenizer {tokenizer!r} cannot be loaded ({format_reason(error)}): give a name on the Hugging Face "
            "hub, with a connection, or a folder that holds one"
        ) from error
