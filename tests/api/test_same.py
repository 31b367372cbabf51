"""The same values are the same model and figures: in another dtype, container or order of columns, by other names."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from logit_correction import ComponentConfig, LogitCorrectionClassifier, from_arrays, from_table, load, train

CommandRunner = Callable[..., Any]

ROWS = 120
TRAINING_OPTIONS: dict[str, Any] = {"device": "cpu", "threads": 1, "epochs": 3, "page": False}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work where the files are."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def draw_people() -> pd.DataFrame:
    """Numbers that every type holds exactly, and names; of the label in part."""
    draw = np.random.default_rng(0)
    label = np.arange(ROWS) % 2
    site = np.where(draw.random(ROWS) < 0.8, label, 1 - label)
    return pd.DataFrame(
        {
            "blood": (8 * (draw.normal(size=ROWS) + label)).round() / 8,
            "count": draw.integers(0, 9, ROWS),
            "site": np.where(site == 1, "north", "south"),
            "y": np.where(label == 1, "ill", "well"),
        }
    )


def draw_texts() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    words = [" ".join(draw.choice(["a", "film", "of", "the", "sea"], 5)) for _ in range(ROWS)]
    texts = [f"{text} {('good', 'bad')[row % 2]} {row}" for row, text in enumerate(words)]
    return pd.DataFrame({"t": texts, "y": ["p", "q"] * (ROWS // 2)})


def draw_pictures() -> tuple[np.ndarray, list[str]]:
    """Pictures (n, 3, 8, 8) that are brighter on one side, label by label as folders hold them."""
    values = np.random.default_rng(0).integers(0, 120, (ROWS, 3, 8, 8), dtype=np.uint8)
    values[: ROWS // 2, :, :, :4] += 60
    values[ROWS // 2 :, :, :, 4:] += 60
    return values, ["left"] * (ROWS // 2) + ["right"] * (ROWS // 2)


def collect_figures(run: Any, names: dict[str, str] | None = None) -> Any:
    """What a run says of its splits, with its labels by other names."""

    def rename_labels(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rename_labels(part) for key, part in value.items()}
        if isinstance(value, list):
            return [rename_labels(part) for part in value]
        return (names or {}).get(value, value) if isinstance(value, str) else value

    report = run.report.to_dict()
    data = {name: report["data"][name] for name in ("rows", "label_names", "input_shape")}
    return rename_labels({"data": data, "test": report["test"], "valid": report.get("validation")})


def flatten_figures(value: Any, place: str = "") -> dict[str, Any]:
    """Return all figures by their place."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inner = [flatten_figures(part, f"{place}.{name}") for name, part in parts]
    return (
        {name: figure for part in inner for name, figure in part.items()}
        if isinstance(value, dict | list)
        else {place: value}
    )


def check_same(runs: list[Any], rows: Any, names: dict[str, str] | None = None) -> None:
    """Fail unless all runs have the figures of the first, and answer the same rows alike."""
    first, *others = runs
    for other in others:
        assert flatten_figures(collect_figures(other)) == pytest.approx(
            flatten_figures(collect_figures(first, names)), abs=1e-6, nan_ok=True
        )
        np.testing.assert_allclose(other.predict_proba(rows), first.predict_proba(rows), atol=1e-6)


TYPES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "float32": lambda frame: frame.astype({"blood": "float32", "count": "float64"}),
    "small": lambda frame: frame.astype({"blood": "float16", "count": "int8"}),
    "nullable": lambda frame: frame.convert_dtypes(),
    "Arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "objects": lambda frame: frame.astype(object),
    "decimals": lambda frame: frame.assign(blood=[Decimal(str(value)) for value in frame["blood"]]),
    "texts": lambda frame: frame.astype({"blood": str, "count": str}),
    "category": lambda frame: frame.astype({"site": "category", "y": "category"}),
    "unsigned": lambda frame: frame.astype({"count": "uint64"}),
    "other order of columns": lambda frame: frame[["site", "y", "count", "blood"]],
}


#: LC, which searches, on three types; on the others by `pytest -m slow`.
FAST_TYPES_OF_LC = ("float32", "objects", "category")
TYPES_AND_METHODS = [(form, "ERM") for form in TYPES]
TYPES_AND_METHODS += [
    pytest.param(form, "LC", marks=[] if form in FAST_TYPES_OF_LC else pytest.mark.slow) for form in TYPES
]


@cache
def train_on_people(method: str) -> tuple[Any, LogitCorrectionClassifier]:
    """Return a run and a classifier of the usual types, with which the others are compared."""
    frame = draw_people()
    classifier = LogitCorrectionClassifier(method, epochs=3, random_state=0)
    run = train(from_table(frame, label="y"), method=method, **TRAINING_OPTIONS)
    return run, classifier.fit(frame.drop(columns="y"), frame["y"])


@pytest.mark.parametrize(("form", "method"), TYPES_AND_METHODS)
def test_table_of_other_types_or_column_order_gives_the_same_model(form: str, method: str, folder: Path) -> None:
    frame = draw_people()
    other_frame = TYPES[form](frame)
    run, classifier = train_on_people(method)
    other_run = train(from_table(other_frame, label="y", folder=folder), method=method, **TRAINING_OPTIONS)
    check_same([run, other_run], frame)
    np.testing.assert_allclose(run.predict_proba(other_frame), run.predict_proba(frame), atol=1e-6)
    inputs = frame.drop(columns="y")
    other_inputs = other_frame.drop(columns="y")
    other_classifier = LogitCorrectionClassifier(method, epochs=3, random_state=0).fit(other_inputs, frame["y"])
    expected = classifier.predict_proba(inputs)
    np.testing.assert_allclose(other_classifier.predict_proba(other_inputs), expected, atol=1e-6)
    reordered = other_inputs[inputs.columns]  # scikit-learn refuses columns in another order than in fit
    np.testing.assert_allclose(classifier.predict_proba(reordered), expected, atol=1e-6)


#: LC, which trains longer, on the same containers by `pytest -m slow`.
METHODS = ["ERM", pytest.param("LC", marks=pytest.mark.slow)]


@pytest.mark.parametrize("method", METHODS)
def test_table_in_any_container_gives_the_same_model(method: str, folder: Path) -> None:
    frame = draw_people()
    frame.to_csv("t.csv", index=False)
    frame.to_csv("s.csv", index=False, sep=";", decimal=",")
    frame.to_csv("u.csv.gz", index=False, sep="\t")
    frame.to_parquet("t.parquet")
    tables = [
        ComponentConfig("Table", {"file": name, "label": "y"}) for name in ("t.csv", "s.csv", "u.csv.gz", "t.parquet")
    ]
    tables += [
        from_table(rows, label="y", folder=folder) for rows in (frame, frame.to_dict("list"), frame.to_dict("records"))
    ]
    runs = [train(table, f"r{number}", method=method, **TRAINING_OPTIONS) for number, table in enumerate(tables)]
    runs.append(train(frame.drop(columns="y"), label=frame["y"].tolist(), method=method, **TRAINING_OPTIONS))
    check_same(runs, frame)
    for rows in (Path("t.csv"), Path("s.csv"), Path("u.csv.gz"), Path("t.parquet"), frame.to_dict("records")):
        np.testing.assert_allclose(runs[0].predict_proba(rows), runs[0].predict_proba(frame), atol=1e-6)


def test_numbers_in_frame_or_array_of_any_type_give_the_same_model(folder: Path) -> None:
    frame = draw_people()[["blood", "count"]]
    label = (draw_people()["y"] == "ill").astype(int).tolist()
    array = frame.to_numpy()
    arrays = [array, array.astype("float32"), array.astype("float16"), np.asfortranarray(array), array.tolist()]
    runs = [train(rows, label=label, method="ERM", **TRAINING_OPTIONS) for rows in [*arrays, frame]]
    check_same(runs[:-1], array)
    assert flatten_figures(collect_figures(runs[-1])) == pytest.approx(
        flatten_figures(collect_figures(runs[0])), abs=1e-6, nan_ok=True
    )
    np.testing.assert_allclose(runs[-1].predict_proba(frame), runs[0].predict_proba(array), atol=1e-6)
    classifiers = [
        LogitCorrectionClassifier("ERM", epochs=3, random_state=0).fit(rows, label) for rows in [*arrays, frame]
    ]
    for classifier in classifiers:
        np.testing.assert_allclose(classifier.predict_proba(array), classifiers[0].predict_proba(array), atol=1e-6)


LABELS: dict[str, Callable[[np.ndarray], Any]] = {
    "floats": lambda label: label.astype(float),
    "bytes": lambda label: label.astype(np.uint8),
    "texts": lambda label: label.astype(str),
    "objects": lambda label: label.astype(object),
    "category": pd.Categorical,
    "nullable": lambda label: pd.array(label, dtype="Int64"),
    "list": lambda label: label.tolist(),
}


@cache
def train_on_whole_numbers() -> Any:
    """Return a run whose labels are whole numbers, with which those of other types are compared."""
    frame = draw_people().drop(columns="y")
    return train(frame, label=np.arange(ROWS) % 2, method="ERM", **TRAINING_OPTIONS)


@pytest.mark.parametrize("form", ["whole numbers", *LABELS])
def test_labels_of_another_type_give_the_same_model(form: str) -> None:
    frame = draw_people().drop(columns="y")
    label = np.arange(ROWS) % 2
    other_label = LABELS[form](label) if form in LABELS else label
    run_by_labels = train(frame, label=other_label, method="ERM", **TRAINING_OPTIONS)
    run_by_column = train(frame.assign(y=other_label), label="y", method="ERM", **TRAINING_OPTIONS)
    check_same([train_on_whole_numbers(), run_by_labels, run_by_column], frame)


@pytest.mark.parametrize("method", METHODS)
def test_texts_in_any_container_give_the_same_model(method: str, folder: Path) -> None:
    frame = draw_texts()
    frame.to_csv("t.csv", index=False)
    frame.to_parquet("t.parquet")
    options = {"label": "y", "text": "t"}
    tables = [ComponentConfig("Table", {"file": name, **options}) for name in ("t.csv", "t.parquet")]
    tables += [
        from_table(rows, folder=folder, **options) for rows in (frame, frame.astype("string"), frame[["y", "t"]])
    ]
    runs = [train(table, method=method, **TRAINING_OPTIONS) for table in tables]
    texts = frame["t"].tolist()
    runs += [train(inputs, label=frame["y"], method=method, **TRAINING_OPTIONS) for inputs in (texts, np.array(texts))]
    check_same(runs, texts)
    classifiers = [LogitCorrectionClassifier(method, epochs=3, random_state=0).fit(inputs, frame["y"])
              for inputs in (texts, np.array(texts), np.array(texts, dtype=object), frame["t"])]  # fmt: skip
    for classifier in classifiers:
        np.testing.assert_allclose(classifier.predict_proba(texts), classifiers[0].predict_proba(texts), atol=1e-6)


def test_images_in_any_container_give_the_same_model(folder: Path) -> None:
    values, label = draw_pictures()
    for ending in ("png", "bmp", "tif"):
        for row, (pixels, name) in enumerate(zip(values, label, strict=True)):
            place = Path(ending, name, f"{row:03}.{ending}")
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.transpose(1, 2, 0)).save(place)
    pd.DataFrame({"f": [str(path) for path in sorted(Path("png").glob("*/*"))], "y": label}).to_csv(
        "t.csv", index=False
    )
    sources = [ComponentConfig("ImageFolder", {"root": ending}) for ending in ("png", "bmp", "tif")]
    sources.append(ComponentConfig("Table", {"file": "t.csv", "path": "f", "label": "y"}))
    sources += [
        from_arrays(images, label, folder=folder) for images in (values, values.transpose(0, 2, 3, 1), values / 255)
    ]
    runs = [train(source, method="ERM", network="ConvNet", **TRAINING_OPTIONS) for source in sources]
    check_same(runs, values)
    files = sorted(Path("bmp").glob("*/*"))
    np.testing.assert_allclose(runs[0].predict_proba(files), runs[0].predict_proba(values), atol=1e-6)


@pytest.mark.parametrize("method", ["ERM", "LC"])
@pytest.mark.parametrize("kind", ["table", "texts", "pictures"])
def test_renamed_labels_change_only_the_names(kind: str, method: str, folder: Path) -> None:
    if kind == "pictures":
        values, label = draw_pictures()
        frame = pd.DataFrame({"y": label})
        rows = values
        options = {}
    else:
        frame = draw_people() if kind == "table" else draw_texts()
        rows = frame
        options = {"label": "y"} | ({"text": "t"} if kind == "texts" else {})

    def train_on_labels(labels: pd.Series) -> Any:
        data = from_arrays(values, labels.tolist(), folder=folder) if kind == "pictures" else from_table(
            frame.assign(y=labels), folder=folder, **options
        )  # fmt: skip
        network = {"network": "ConvNet"} if kind == "pictures" else {}
        return train(data, method=method, **network, **TRAINING_OPTIONS)

    old = sorted(frame["y"].unique())
    first = train_on_labels(frame["y"])
    new_names = [["no é", "yes"]] if method == "LC" else [["Zz 1", "Zz 2"], ["0", "1"], ["no é", "yes"]]
    for new in new_names:
        names = dict(zip(old, new, strict=True))
        check_same([first, train_on_labels(frame["y"].map(names))], rows, names)


@pytest.mark.parametrize("method", ["ERM", "LC"])
@pytest.mark.parametrize("kind", ["table", "texts", "pictures", "array"])
def test_row_alone_gets_the_same_prediction_as_in_a_batch(kind: str, method: str, folder: Path) -> None:
    single_rows = range(0, ROWS, 15)
    if kind in ("pictures", "array"):
        values, label = draw_pictures()
        rows = values if kind == "pictures" else draw_people()[["blood", "count"]].to_numpy()
        data = from_arrays(rows, label, folder=folder)
        parts = [rows[row : row + 1] for row in single_rows]
        inputs: Any = rows
    else:
        frame = draw_people() if kind == "table" else draw_texts()
        label = frame["y"].tolist()
        inputs = frame.drop(columns="y")
        options = {"text": "t"} if kind == "texts" else {}
        data = from_table(frame, label="y", folder=folder, **options)
        parts = [inputs[row : row + 1] for row in single_rows]
    run = train(data, "r", method=method, **TRAINING_OPTIONS)
    expected = run.predict_proba(inputs)
    for predictor in (run, load("r")):
        single_probability = np.concatenate([predictor.predict_proba(part) for part in parts])
        np.testing.assert_allclose(single_probability, expected[single_rows], atol=1e-6)
    classifier_inputs = inputs["t"].tolist() if kind == "texts" else inputs
    classifier = LogitCorrectionClassifier(method, epochs=3, random_state=0).fit(classifier_inputs, label)
    single_probability = np.concatenate(
        [classifier.predict_proba(classifier_inputs[row : row + 1]) for row in single_rows]
    )
    np.testing.assert_allclose(single_probability, classifier.predict_proba(classifier_inputs)[single_rows], atol=1e-6)
