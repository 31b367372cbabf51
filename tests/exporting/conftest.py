"""Small finished runs of every kind of inputs, and 1,000 new rows for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from logit_correction import from_arrays, train
from logit_correction.runs.run import Run

ROWS = 1000


@dataclass
class Case:
    """A run and new rows, as its source takes them and as an exported network does."""

    run: Run
    rows: Any
    given: dict[str, np.ndarray]

    def logits(self) -> np.ndarray:
        """What the run's method says of the rows, read by the run's source."""
        source, rows = self.run.source, self.rows
        store = source.as_store(torch.from_numpy(rows)) if isinstance(rows, np.ndarray) else source.read_values(rows)
        with torch.no_grad():
            return self.run.algorithm.predict(store.fetch(torch.arange(len(store)))).numpy()


def people(rows: int, seed: int) -> pd.DataFrame:
    """A large number, a small one, a date, and two columns of names; some values are missing."""
    draw = np.random.default_rng(seed)
    answer = draw.integers(0, 2, rows)
    frame = pd.DataFrame(
        {
            "answer": np.array(["no", "yes"])[answer],
            "time": 1.7e9 + 1000 * draw.normal(size=rows) + 500 * answer,
            "form": np.array(["old", "new", "other"])[draw.integers(0, 3, rows)],
            "age": 40 + 10 * draw.normal(size=rows),
            "city": np.array(["Rome", "Oslo"])[draw.integers(0, 2, rows)],
            "joined": np.datetime64("2024-01-01") + draw.integers(0, 500, rows),
        }
    )
    frame.loc[draw.random(rows) < 0.2, "age"] = np.nan
    frame.loc[draw.random(rows) < 0.2, "city"] = None
    return frame


def reviews(rows: int, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    words = np.array(["a", "the", "film", "book", "is", "was", "long", "short", "very", "not", "unknown"])
    answer = draw.integers(0, 2, rows)
    texts = [" ".join([("bad", "good")[y], *draw.choice(words, draw.integers(2, 9))]) for y in answer]
    return pd.DataFrame({"verdict": np.array(["bad", "good"])[answer], "review": texts})


CaseOf = Callable[[str], Case]


@pytest.fixture(scope="session")
def case_of(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> CaseOf:
    """The case of a name: a network on images, or ``columns``, ``tokens``, ``words``, ``encoder``."""
    folder = tmp_path_factory.mktemp("exported")
    draw = np.random.default_rng(0)

    def images(side: int, count: int) -> np.ndarray:
        return draw.integers(0, 256, (count, 3, side, side)).astype(np.uint8)

    def finished(name: str, data: Any, **parts: Any) -> Run:
        parts = {"method": "ERM", **parts}
        return train(data, folder / name, epochs=1, batch_size=8, threads=1, device="cpu", page=False, **parts)

    @cache
    def case(name: str) -> Case:
        if name == "columns":
            people(80, 0).to_csv(folder / "people.csv", index=False)
            data = {"name": "Table", "file": str(folder / "people.csv"), "label": "answer", "features": "*"}
            run, rows = finished(name, data, network="MLP"), people(ROWS, 1).drop(columns="answer")
            rows.loc[0, "city"] = "Paris"  # which training has not seen
            learnt = run.report["data"]["preparation"]["columns"]
            codes = {one["name"]: {v: k for k, v in enumerate(one.get("categories", []))} for one in learnt}
            coded = rows.assign(joined=(rows["joined"] - pd.Timestamp(0)) / pd.Timedelta(days=1))
            for name in ("form", "city"):
                coded[name] = rows[name].fillna("").map(lambda value, known=codes[name]: known.get(value, -1))
            return Case(run, rows, {"columns": coded[list(codes)].to_numpy(dtype=np.float64)})
        if name in ("tokens", "words"):
            reviews(60, 0).to_csv(folder / f"{name}.csv", index=False)
            data = {"name": "Table", "file": str(folder / f"{name}.csv"), "label": "verdict", "text": "review"}
            data |= {"tokenizer": str(tiny_bert), "max_tokens": 12} if name == "tokens" else {"num_words": 64}
            network = {"name": "TextClassifier", "model": str(tiny_bert)} if name == "tokens" else "MLP"
            run, texts = finished(name, data, network=network), reviews(ROWS, 1)["review"].tolist()
            if name == "tokens":
                from transformers import AutoTokenizer

                encoded = AutoTokenizer.from_pretrained(tiny_bert)(
                    texts, padding="longest", truncation=True, max_length=12, return_tensors="np"
                )
                return Case(run, texts, {k: encoded[k].astype(np.int64) for k in ("input_ids", "attention_mask")})
            from sklearn.feature_extraction.text import HashingVectorizer

            words = HashingVectorizer(n_features=64, dtype=np.float32).transform(texts).toarray()
            return Case(run, texts, {"words": words})
        side = {"MLP": 12, "ConvNet": 16, "ResNet18": 32, "encoder": 12}[name]
        values, label = images(side, 40), np.arange(40) % 2
        values[label == 1, 0] //= 2
        parts: dict[str, Any] = {"network": name}
        if name == "ResNet18":  # the stem for small images takes sixteen times as long
            parts = {"network": {"name": "ResNet18", "stem": "imagenet"}}
        if name == "encoder":
            parts = {"network": "Linear", "encoder": {"name": "ConvNet", "channels": [4, 8]}}
        rows = images(side, ROWS)
        return Case(finished(name, from_arrays(values, label), **parts), rows, {"images": rows})

    return case
