"""Every format gives the run's own logits, for any number of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from logit_correction import export, from_arrays, load, train
from logit_correction.errors import InputError
from logit_correction.exporting import FORMATS

pytest.importorskip("safetensors")

slow = pytest.mark.slow
KINDS = ["MLP", "columns", "words", pytest.param("ConvNet", marks=slow), pytest.param("tokens", marks=slow)]
KINDS += [pytest.param("ResNet18", marks=slow), pytest.param("encoder", marks=slow)]


def close(found: Any, expected: np.ndarray) -> None:
    assert np.asarray(found).shape == expected.shape
    assert np.abs(np.asarray(found) - expected).max() < 1e-5


def expected_of(case: Any) -> np.ndarray:
    """Logits of a case's rows, those behind an encoder too."""
    if case.run.config.encoder is None:
        return case.logits()
    store = case.run.encoded(case.run.source.as_store(torch.from_numpy(case.rows)))
    with torch.no_grad():
        return case.run.algorithm.predict(store.fetch(torch.arange(len(store)))).numpy()


@slow
@pytest.mark.parametrize("kind", ["MLP", "columns", "words", "ConvNet", "tokens", "ResNet18", "encoder"])
def test_onnx_runtime_gives_the_same_logits(kind: str, case_of: Any, tmp_path: Path) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    import onnx
    import onnxruntime

    case = case_of(kind)
    folder = export(case.run, "onnx", tmp_path / "out")
    onnx.checker.check_model(str(folder / "model.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    expected = expected_of(case)
    (found,) = session.run(["logits"], case.given)
    close(found, expected)
    (one,) = session.run(["logits"], {name: values[:1] for name, values in case.given.items()})
    close(one, expected[:1])
    settings = json.loads((folder / "config.json").read_text())
    assert [one.name for one in session.get_inputs()] == [one["name"] for one in settings["input"]["inputs"]]
    labels = session.get_modelmeta().custom_metadata_map["label_names"]
    assert json.loads(labels) == settings["label_names"] == [str(name) for name in case.run.label_names]
    assert (folder / "tokenizer" / "tokenizer.json").is_file() is (kind == "tokens")


@pytest.mark.parametrize("kind", ["MLP", "columns", "words", pytest.param("tokens", marks=slow)])
def test_torch_loads_the_program_without_this_package(kind: str, case_of: Any, tmp_path: Path) -> None:
    case = case_of(kind)
    folder = export(case.run, "torch-export", tmp_path / "out")
    names = {"label_names.json": ""}
    program = torch.export.load(folder / "model.pt2", extra_files=names).module()
    expected = expected_of(case)
    with torch.no_grad():
        close(program(*(torch.from_numpy(values) for values in case.given.values())), expected)
        close(program(*(torch.from_numpy(values[:1]) for values in case.given.values())), expected[:1])
    assert json.loads(names["label_names.json"]) == [str(name) for name in case.run.label_names]


@pytest.mark.parametrize("form", ["safetensors", "hub"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_loaded_again(
    kind: str, form: str, case_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(kind)
    folder = export(case.run, form, tmp_path / "out").rename(tmp_path / "moved")
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))
    loaded = load(folder)
    rows = case.rows[:50]
    np.testing.assert_allclose(loaded.predict_proba(rows), case.run.predict_proba(rows), atol=1e-6)
    assert loaded.predict(rows).tolist() == case.run.predict(rows).tolist()
    assert (folder / "README.md").is_file() is (form == "hub")
    text = "".join(path.read_text() for path in folder.glob("*.*") if path.suffix in (".json", ".md"))
    assert str(case.run.path.parent) not in text and "models" not in text  # no place of this machine


def test_floats_in_place_of_bytes(case_of: Any, tmp_path: Path) -> None:
    case = case_of("MLP")
    folder = export(case.run, "torch-export", tmp_path / "out", images="float32")
    found = torch.export.load(folder / "model.pt2").module()(torch.from_numpy(case.rows).float() / 255)
    close(found, case.logits())
    with pytest.raises(InputError, match="--images float32 is for runs on images"):
        export(case_of("columns").run, "torch-export", tmp_path / "columns", images="float32")
    with pytest.raises(InputError, match="--images is for onnx and torch-export"):
        export(case.run, "hub", tmp_path / "hub", images="float32")
    assert not (tmp_path / "columns").exists() and not (tmp_path / "hub").exists()


def test_new_rows_are_judged_and_splits_are_not(case_of: Any, tmp_path: Path) -> None:
    case = case_of("columns")
    loaded = load(export(case.run, "safetensors", tmp_path / "out"))
    answers = ["yes"] * 20
    assert loaded.evaluate(case.rows[:20], answers) == case.run.evaluate(case.rows[:20], answers)
    with pytest.raises(InputError, match="holds no rows of the run's data: give new rows with their labels"):
        loaded.evaluate("test")
    again = export(loaded, "hub", tmp_path / "again")
    assert (again / "model.safetensors").read_bytes() == (loaded.path / "model.safetensors").read_bytes()


def test_whoever_may_read_the_settings_may_read_the_weights(case_of: Any, tmp_path: Path) -> None:
    folder = export(case_of("MLP").run, "safetensors", tmp_path / "out")
    modes = [(folder / name).stat().st_mode & 0o777 for name in ("config.json", "model.safetensors")]
    assert modes[0] == modes[1]


def test_what_is_in_the_way_is_refused(case_of: Any, tmp_path: Path) -> None:
    run = case_of("MLP").run
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep")
    (tmp_path / "file").write_text("keep")
    for place, message in (("full", "is not empty: give a new or empty folder"), ("file", "is a file: give a folder")):
        with pytest.raises(InputError, match=message):
            export(run, "hub", tmp_path / place)
    with pytest.raises(InputError, match=r"format 'onx' is unknown \(did you mean onnx\?\): take one of onnx, torch"):
        export(run, "onx", tmp_path / "out")
    with pytest.raises(InputError, match="--repository is 'mine', but must be OWNER/NAME"):
        export(run, "hub", tmp_path / "out", repository="mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full"]


@pytest.mark.parametrize(("form", "package"), [("onnx", "onnxscript"), ("hub", "safetensors")])
def test_a_missing_package_is_named_before_any_work(
    form: str, package: str, case_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"--format {form} needs .*: `pip install 'logit-correction\[{form}\]'`"):
        export(case_of("MLP").run.path, form, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_folder_is_named(case_of: Any, tmp_path: Path) -> None:
    folder = export(case_of("MLP").run, "safetensors", tmp_path / "out")
    settings = json.loads((folder / "config.json").read_text())
    weights = (folder / "model.safetensors").read_bytes()

    def refused(message: str) -> None:
        with pytest.raises(InputError, match=message):
            load(folder)

    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    refused("model.safetensors is damaged")
    flipped = bytearray(weights)
    flipped[-2] ^= 0x10
    (folder / "model.safetensors").write_bytes(flipped)
    refused(r"model.safetensors is damaged \(its checksum is another\)")
    (folder / "model.safetensors").write_bytes(weights)
    for change, message in (
        ({"weights_sha256": None}, "config.json: weights_sha256 is missing: export the run again"),
        ({"export_format": 9}, "config.json is of another version"),
        ({"run": settings["run"] | {"network": {"name": "MLP", "hidden": [3]}}}, "does not fit .*config.json"),
        ({"run": settings["run"] | {"network": {"name": "os.system"}}}, "names code of its own, os.system"),
        ({"run": settings["run"] | {"data": {"name": "Arrays", "file": "./../x"}}}, "lies outside of the folder"),
        ({"report": {}}, "report cannot be read"),
    ):
        (folder / "config.json").write_text(json.dumps(settings | change))
        refused(message)


def test_a_network_that_cannot_be_traced_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "user_code"))
    data = from_arrays(np.random.default_rng(0).normal(size=(40, 5)), np.arange(40) % 2)
    run = train(data, tmp_path / "run", method="ERM", network="my_parts.Branching", epochs=1, threads=1, page=False)
    with pytest.raises(InputError, match=r"this network cannot be traced .*: take --format safetensors or hub"):
        export(run, "torch-export", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    folder = export(run, "safetensors", tmp_path / "out")
    with pytest.raises(InputError, match=r"names code of its own, my_parts\.Branching"):
        load(folder)
    rows = np.zeros((3, 5), np.float32)
    assert load(folder, trust_code=True).predict(rows).tolist() == run.predict(rows).tolist()


def test_every_format_has_a_class() -> None:
    from logit_correction.exporting.base import Format
    from logit_correction.registry import resolve

    for name, (_, line) in FORMATS.items():
        assert resolve("format", name, FORMATS, Format) and line and "\n" not in line
