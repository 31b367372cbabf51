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
class ExportCase:
    """A run and new rows, as its source takes them and as an exported network does."""

    run: Run
    rows: Any
    arrays: dict[str, np.ndarray]

    def answers(self, logits: Any) -> None:
        """Check logits of all rows, or of the first of them, against the run."""
        probability = torch.as_tensor(np.asarray(logits)).double().softmax(1).numpy()
        np.testing.assert_allclose(probability, self.run.predict_proba(self.rows)[: len(probability)], atol=1e-5)


def draw_people(rows: int, seed: int) -> pd.DataFrame:
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


def draw_reviews(rows: int, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    words = np.array(["a", "the", "film", "book", "is", "was", "long", "short", "very", "not", "unknown"])
    answer = draw.integers(0, 2, rows)
    texts = [" ".join([("bad", "good")[y], *draw.choice(words, draw.integers(2, 9))]) for y in answer]
    return pd.DataFrame({"verdict": np.array(["bad", "good"])[answer], "review": texts})


@pytest.fixture(scope="session")
def make_case(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Callable[[str], ExportCase]:
    """The case of a name."""
    folder = tmp_path_factory.mktemp("exported")

    def make_column_case() -> ExportCase:
        draw_people(80, 0).to_csv(folder / "people.csv", index=False)
        data = {"name": "Table", "file": str(folder / "people.csv"), "label": "answer", "features": "*"}
        run = train(data, folder / "columns", method="LC", network="MLP", **OPTIONS)
        rows = draw_people(ROWS, 1).drop(columns="answer")
        rows.loc[0, "city"] = "Paris"  # which training has not seen
        categories = {column["name"]: column.get("categories") for column in run.report.data.preparation["columns"]}
        numeric_rows = rows.assign(joined=(rows["joined"] - pd.Timestamp(0)) / pd.Timedelta(days=1))
        numeric_rows["city"] = [
            categories["city"].index(column) if column in categories["city"] else -1
            for column in rows["city"].fillna("")
        ]
        return ExportCase(run, rows, {"columns": numeric_rows[list(categories)].to_numpy(dtype=np.float64)})

    def make_text_case(tokens: bool) -> ExportCase:
        draw_reviews(60, 0).to_csv(folder / "reviews.csv", index=False)
        data = {"name": "Table", "file": str(folder / "reviews.csv"), "label": "verdict", "text": "review"}
        tiny_bert = request.getfixturevalue("tiny_bert") if tokens else ""
        data |= {"tokenizer": str(tiny_bert), "max_tokens": 12} if tokens else {}
        network = {"name": "TextClassifier", "model": str(tiny_bert)} if tokens else "MLP"
        run = train(data, method="ERM", network=network, **OPTIONS)
        texts = draw_reviews(ROWS, 1)["review"].tolist()
        if not tokens:
            from sklearn.feature_extraction import FeatureHasher

            word_weights = run.report.data.preparation["weights"]
            words = [[(word, word_weights.get(word, 1.0)) for word in text.lower().split()] for text in texts]
            hasher = FeatureHasher(n_features=4096, input_type="pair", dtype=np.float32)
            return ExportCase(run, texts, {"words": hasher.transform(words).toarray()})
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
        encoded = tokenizer(texts, padding="longest", truncation=True, max_length=12, return_tensors="np")
        return ExportCase(
            run, texts, {name: encoded[name].astype(np.int64) for name in ("input_ids", "attention_mask")}
        )

    def make_image_case(**parts: Any) -> ExportCase:
        draw = np.random.default_rng(0)
        label = np.arange(40) % 2
        images = draw.integers(0, 256, (ROWS, 3, 12, 12)).astype(np.uint8)
        values = images[:40] // (1 + label[:, None, None, None]).astype(np.uint8)
        return ExportCase(train(from_arrays(values, label), **parts, **OPTIONS), images, {"images": images})

    makers = {
        "images": lambda: make_image_case(method="DFA", network="MLP"),
        "encoder": lambda: make_image_case(
            method="ERM", network="Linear", encoder={"name": "ConvNet", "channels": [4, 8]}
        ),
        "columns": make_column_case,
        "words": lambda: make_text_case(False),
        "tokens": lambda: make_text_case(True),
    }
    return cache(lambda name: makers[name]())


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("tokens", "encoder", "images")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["images", "columns", "words", "tokens", "encoder"])
def test_onnx_runtime_gives_the_same_logits(kind: str, make_case: Any, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    case = make_case(kind)
    folder = export(case.run, "onnx", tmp_path / "out")
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    case.answers(session.run(["logits"], case.arrays)[0])
    case.answers(session.run(["logits"], {name: values[:1] for name, values in case.arrays.items()})[0])
    settings = json.loads((folder / "config.json").read_text())
    assert [model_input.name for model_input in session.get_inputs()] == [
        model_input["name"] for model_input in settings["input"]["inputs"]
    ]
    assert json.loads(session.get_modelmeta().custom_metadata_map["label_names"]) == settings["label_names"]
    assert (folder / "tokenizer" / "tokenizer.json").is_file() is (kind == "tokens")


@pytest.mark.parametrize("kind", ["columns", SLOW[0], SLOW[2]])
def test_exported_torch_program_gives_the_same_logits(kind: str, make_case: Any, tmp_path: Path) -> None:
    case = make_case(kind)
    names = {"label_names.json": ""}
    program = torch.export.load(export(case.run, "torch-export", tmp_path / "out") / "model.pt2", extra_files=names)
    for rows in (slice(None), slice(1)):
        case.answers(program.module()(*(torch.from_numpy(v[rows]) for v in case.arrays.values())).detach())
    assert json.loads(names["label_names.json"]) == case.run.label_names


def test_network_that_cannot_be_traced_is_named(tmp_path: Path) -> None:
    data = from_arrays(np.random.default_rng(0).normal(size=(40, 5)), np.arange(40) % 2)
    run = train(data, method="ERM", network="my_parts.Branching", **OPTIONS)
    with pytest.raises(InputError, match=r"this network cannot be traced .*: use the run itself"):
        export(run, "torch-export", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_format_of_ones_own_is_a_function_of_model_and_folder(
    make_case: Any, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    run = make_case("columns").run
    result = run_command("export", run, "--format", "my_parts.write_label_names", "--out", tmp_path / "out")
    assert (result.status, result.out) == (0, f"{tmp_path / 'out'}\n")
    assert (tmp_path / "out" / "labels.txt").read_text().split() == run.label_names
