"""Every format gives the run's own logits, for any number of rows; a network that it cannot hold is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from logit_correction import InputError, export, from_arrays, train
from logit_correction.runs.run import Run

ROWS = 300
OPTIONS: dict[str, Any] = {"epochs": 1, "batch_size": 8, "threads": 1, "device": "cpu", "page": False}


@dataclass
class Case:
    """A run and new rows, as its source takes them and as an exported network does."""

    run: Run
    rows: Any
    given: dict[str, np.ndarray]

    def answers(self, logits: Any) -> None:
        """Check logits of all rows, or of the first of them, against the run."""
        found = torch.as_tensor(np.asarray(logits)).double().softmax(1).numpy()
        np.testing.assert_allclose(found, self.run.predict_proba(self.rows)[: len(found)], atol=1e-5)


def people(rows: int, seed: int) -> pd.DataFrame:
    """A large number, a date, and columns with gaps: of numbers and of names."""
    draw = np.random.default_rng(seed)
    answer = draw.integers(0, 2, rows)
    frame = pd.DataFrame({"answer": np.array(["no", "yes"])[answer], "time": 1.7e9 + 1000 * draw.normal(size=rows)})
    frame["age"] = 40 + 10 * draw.normal(size=rows)
    frame["city"] = np.array(["Rome", "Oslo"])[draw.integers(0, 2, rows)]
    frame["joined"] = np.datetime64("2024-01-01T00") + draw.integers(0, 12000, rows)
    frame.loc[draw.random(rows) < 0.2, "age"] = np.nan
    frame.loc[draw.random(rows) < 0.2, "city"] = None
    return frame


def reviews(rows: int, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    words = np.array(["a", "the", "film", "book", "is", "was", "long", "short", "very", "not", "unknown"])
    answer = draw.integers(0, 2, rows)
    texts = [" ".join([("bad", "good")[y], *draw.choice(words, draw.integers(2, 9))]) for y in answer]
    return pd.DataFrame({"verdict": np.array(["bad", "good"])[answer], "review": texts})


@pytest.fixture(scope="session")
def case_of(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Callable[[str], Case]:
    """The case of a name."""
    folder = tmp_path_factory.mktemp("exported")

    def of_columns() -> Case:
        people(80, 0).to_csv(folder / "people.csv", index=False)
        data = {"name": "Table", "file": str(folder / "people.csv"), "label": "answer", "features": "*"}
        run = train(data, folder / "columns", method="LC", network="MLP", **OPTIONS)
        rows = people(ROWS, 1).drop(columns="answer")
        rows.loc[0, "city"] = "Paris"  # which training has not seen
        known = {one["name"]: one.get("categories") for one in run.report.data.preparation["columns"]}
        coded = rows.assign(joined=(rows["joined"] - pd.Timestamp(0)) / pd.Timedelta(days=1))
        coded["city"] = [known["city"].index(one) if one in known["city"] else -1 for one in rows["city"].fillna("")]
        return Case(run, rows, {"columns": coded[list(known)].to_numpy(dtype=np.float64)})

    def of_texts(tokens: bool) -> Case:
        reviews(60, 0).to_csv(folder / "reviews.csv", index=False)
        data = {"name": "Table", "file": str(folder / "reviews.csv"), "label": "verdict", "text": "review"}
        tiny_bert = request.getfixturevalue("tiny_bert") if tokens else ""
        data |= {"tokenizer": str(tiny_bert), "max_tokens": 12} if tokens else {}
        network = {"name": "TextClassifier", "model": str(tiny_bert)} if tokens else "MLP"
        run = train(data, method="ERM", network=network, **OPTIONS)
        texts = reviews(ROWS, 1)["review"].tolist()
        if not tokens:
            from sklearn.feature_extraction import FeatureHasher

            weight_of = run.report.data.preparation["weights"]
            words = [[(word, weight_of.get(word, 1.0)) for word in text.lower().split()] for text in texts]
            hasher = FeatureHasher(n_features=4096, input_type="pair", dtype=np.float32)
            return Case(run, texts, {"words": hasher.transform(words).toarray()})
        from transformers import AutoTokenizer

        read = AutoTokenizer.from_pretrained(tiny_bert)
        encoded = read(texts, padding="longest", truncation=True, max_length=12, return_tensors="np")
        return Case(run, texts, {name: encoded[name].astype(np.int64) for name in ("input_ids", "attention_mask")})

    def of_images(**parts: Any) -> Case:
        draw = np.random.default_rng(0)
        label = np.arange(40) % 2
        images = draw.integers(0, 256, (ROWS, 3, 12, 12)).astype(np.uint8)
        values = images[:40] // (1 + label[:, None, None, None]).astype(np.uint8)
        return Case(train(from_arrays(values, label), **parts, **OPTIONS), images, {"images": images})

    make = {
        "images": lambda: of_images(method="DFA", network="MLP"),
        "encoder": lambda: of_images(method="ERM", network="Linear", encoder={"name": "ConvNet", "channels": [4, 8]}),
        "columns": of_columns,
        "words": lambda: of_texts(False),
        "tokens": lambda: of_texts(True),
    }
    return cache(lambda name: make[name]())


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("tokens", "encoder", "images")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["images", "columns", "words", "tokens", "encoder"])
def test_onnx_runtime_gives_the_same_logits(kind: str, case_of: Any, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    case = case_of(kind)
    folder = export(case.run, "onnx", tmp_path / "out")
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    case.answers(session.run(["logits"], case.given)[0])
    case.answers(session.run(["logits"], {name: values[:1] for name, values in case.given.items()})[0])
    settings = json.loads((folder / "config.json").read_text())
    assert [one.name for one in session.get_inputs()] == [one["name"] for one in settings["input"]["inputs"]]
    assert json.loads(session.get_modelmeta().custom_metadata_map["label_names"]) == settings["label_names"]
    assert (folder / "tokenizer" / "tokenizer.json").is_file() is (kind == "tokens")


@pytest.mark.parametrize("kind", ["columns", SLOW[0], SLOW[2]])
def test_torch_runs_the_program_without_this_package(kind: str, case_of: Any, tmp_path: Path) -> None:
    case = case_of(kind)
    names = {"label_names.json": ""}
    program = torch.export.load(export(case.run, "torch-export", tmp_path / "out") / "model.pt2", extra_files=names)
    for rows in (slice(None), slice(1)):
        case.answers(program.module()(*(torch.from_numpy(v[rows]) for v in case.given.values())).detach())
    assert json.loads(names["label_names.json"]) == case.run.label_names


def test_a_network_that_cannot_be_traced_is_named(tmp_path: Path) -> None:
    data = from_arrays(np.random.default_rng(0).normal(size=(40, 5)), np.arange(40) % 2)
    run = train(data, method="ERM", network="my_parts.Branching", **OPTIONS)
    with pytest.raises(InputError, match=r"this network cannot be traced .*: use the run itself"):
        export(run, "torch-export", tmp_path / "out")
    assert not (tmp_path / "out").exists()
