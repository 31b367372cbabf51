"""Audit folders of others run no code, build nothing huge and follow no paths; options given with answers must fit."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from logit_correction import Audit, DataInfo, InputError, RunConfig, load, train
from logit_correction.checksums import write_checksums
from logit_correction.cli import main
from logit_correction.networks.pretrained import TextClassifier
from logit_correction.registry import forbid_untrusted_names
from logit_correction.shortcuts.audit_files import SEALED

from .conftest import fill_sheet


@pytest.fixture
def copy_foreign_audit(shifted_audit: Audit, tmp_path: Path) -> Callable[..., Path]:
    """A copy of an audit whose candidates were changed and whose checksums were computed again."""

    def copy(**change: Any) -> Path:
        folder = shutil.copytree(shifted_audit.path, tmp_path / "foreign")
        content = json.loads((folder / "audit.json").read_text())
        for candidate in content["new_rows"]["candidates"]:
            candidate["config"] |= change
        (folder / "audit.json").write_text(json.dumps(content))
        write_checksums(folder, SEALED)
        fill_sheet(shifted_audit).to_csv(folder / "answered.csv", index=False)
        return Path(folder)

    return copy


@pytest.fixture(scope="module")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(
        "Digits", tmp_path_factory.mktemp("digits") / "run", method="ERM", epochs=1, threads=1, page=False
    ).path


def train_with_answers(folder: Path, out: Path, *words: str) -> int:
    options = ("--config", str(folder / "config.yaml"), "--answers", str(folder / "answered.csv"))
    return main(["train", *options, "--out", str(out), *words])


FOREIGN_CLASS = "foreign_module.TheirNetwork"


@pytest.mark.parametrize(
    "change",
    [
        {"network": {"name": FOREIGN_CLASS}},
        {"method": {"name": FOREIGN_CLASS}},
        {"data": {"name": FOREIGN_CLASS}},
        {"encoder": {"name": FOREIGN_CLASS}},
        {"selection": FOREIGN_CLASS},
    ],
)
def test_code_named_in_a_foreign_audit_is_not_imported(
    change: dict[str, Any],
    copy_foreign_audit: Callable[..., Path],
    foreign_import_marker: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = copy_foreign_audit(**change)
    assert train_with_answers(folder, tmp_path / "out") == 2
    error_message = capfd.readouterr().err.splitlines()[-1]
    assert FOREIGN_CLASS in error_message and "--trust-code" in error_message
    assert not (tmp_path / "out" / "config.yaml").exists()
    foreign_audit = Audit(folder)
    assert not foreign_audit.trust_code
    with pytest.raises(InputError, match="trust_code=True"):
        foreign_audit.fix(tmp_path / "fixed")
    assert not foreign_import_marker.exists()


def test_run_named_in_a_foreign_audit_is_not_read(
    copy_foreign_audit: Callable[..., Path], digits_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = copy_foreign_audit(encoder={"name": "FromRun", "run": str(digits_run)})
    assert train_with_answers(folder, tmp_path / "out") == 2
    error_message = capfd.readouterr().err.splitlines()[-1]
    assert f"names {digits_run}, which is outside of it" in error_message and "--trust-code" in error_message


def test_trust_code_imports_code_named_in_an_audit(
    copy_foreign_audit: Callable[..., Path], foreign_import_marker: Path, tmp_path: Path
) -> None:
    folder = copy_foreign_audit(network={"name": FOREIGN_CLASS})
    assert train_with_answers(folder, tmp_path / "out", "--trust-code") == 0 and foreign_import_marker.exists()
    assert Audit(folder, trust_code=True).fix(tmp_path / "fixed").report.network.name == FOREIGN_CLASS


def test_own_audit_is_trusted_until_its_files_change(shifted_audit: Audit, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(shifted_audit.path, tmp_path / "copy"))
    Audit(folder, trust_code=True).answer(fill_sheet(shifted_audit))
    assert Audit(folder).trust_code
    Audit(folder).ask(40)
    assert Audit(folder).trust_code
    with (folder / "fix.yaml").open("a") as file:
        file.write("# more\n")
    assert not Audit(folder).trust_code


def test_huge_networks_are_not_built(
    copy_foreign_audit: Callable[..., Path], digits_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    huge = {"name": "MLP", "hidden": [10**9, 10**9]}
    assert train_with_answers(copy_foreign_audit(network=huge), tmp_path / "out") == 2
    assert "too many" in capfd.readouterr().err
    for hidden in ([10**9], [2**62]):
        run = Path(shutil.copytree(digits_run, tmp_path / f"run-{hidden[0]}"))
        config = yaml.safe_load((run / "config.yaml").read_text())
        config["network"] = {"name": "MLP", "hidden": hidden}
        (run / "config.yaml").write_text(yaml.safe_dump(config))
        with pytest.raises(InputError, match=r"too many|must be"):
            load(run)


@pytest.mark.parametrize("shape", [[3, 10**12, 8], [-5], [3, 2**70, 8]])
def test_run_with_impossible_input_shape_is_refused(shape: list[int], digits_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(digits_run, tmp_path / "run"))
    report = json.loads((run / "report.json").read_text())
    report["data"]["input_shape"] = shape
    (run / "report.json").write_text(json.dumps(report))
    (run / ".checksums").unlink()
    with pytest.raises(InputError):
        load(run)


def test_paths_in_a_foreign_audit_are_not_read(shifted_audit: Audit, tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    Image.fromarray(np.full((9, 9, 3), 200, np.uint8)).save(secret)
    folder = Path(shutil.copytree(shifted_audit.path, tmp_path / "foreign"))
    pd.read_parquet(folder / "new_rows.parquet").assign(path=str(secret)).to_parquet(folder / "new_rows.parquet")
    (folder / "pictures.json").write_text('{"0": "https://example.com/seen.png", "1": "data:image/svg+xml,<svg/>"}')
    write_checksums(folder, SEALED)
    assert main(["audit", "--ask", "40", "--out", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    assert str(secret.name) in page and "data:image" not in page and "example.com" not in page


def test_damaged_foreign_audit_gives_one_message(
    shifted_audit: Audit, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = json.loads((shifted_audit.path / "audit.json").read_text())
    table = pd.read_parquet(shifted_audit.path / "new_rows.parquet")
    changes: list[tuple[dict[str, Any], pd.DataFrame]] = [
        (content | {"contrasts": [{}]}, table),
        (content | {"training": {}}, table),
        *((content, table.drop(columns=name)) for name in ("row", "round", "prediction_0", "inclusion_probability_1")),
        *(
            (content, table.assign(**{name: "x"}))
            for name in ("label_number", "round", "prediction_1", "inclusion_probability_1")
        ),
        *((content, table.assign(round=value)) for value in (np.nan, 10**9)),
    ]
    fill_sheet(shifted_audit).to_csv(tmp_path / "filled.csv", index=False)
    for number, (audit_json, rows) in enumerate(changes):
        folder = Path(shutil.copytree(shifted_audit.path, tmp_path / str(number)))
        (folder / "audit.json").write_text(json.dumps(audit_json))
        rows.to_parquet(folder / "new_rows.parquet")
        write_checksums(folder, SEALED)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        for words in (("--answers", str(tmp_path / "filled.csv")), ("--ask", "30")):
            status = main(["audit", *words, "--out", str(folder)])
            error_message = capfd.readouterr().err
            assert status == 2 and error_message.count("\n") == 1 and str(folder) in error_message, (
                number,
                words,
                error_message,
            )
            assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_model_named_in_an_untrusted_folder_is_not_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    requests: list[Any] = []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *words, **more: requests.append(words) or [])
    info = DataInfo(num_labels=2, num_rows=9, input_shape=(8,), tokens=True)
    folder = tmp_path / "model"
    folder.mkdir()
    for model in ("nobody/there", str(folder)):
        with forbid_untrusted_names(tmp_path), pytest.raises(InputError, match=r"offline|`trust_code=True`"):
            TextClassifier(info, model=model)
    assert not requests and constants.HF_HUB_OFFLINE is False


# -- options that conflict with answers


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--epochs", "7"), "--epochs is 7"),
        (("--seed", "3"), "--seed is 3"),
        (("--network", "Linear"), "--network is Linear"),
        (("--network.hidden", "[7]"), "--network.hidden is"),
        (("--data.label", "age"), "--data.label is age"),
        (("--data", "other.csv", "--data.label", "outcome"), "--data.file is"),
        (("--learning_rate", "0.5"), "--learning_rate is 0.5"),
        (("--shortcut", "column:age"), "--shortcut"),
        (("--method", "ERM"), "leave --method out"),
        (("--method.attributes", "Online"), "leave --method.attributes out"),
        (("--preset", "paper"), "leave --preset out"),
        (("--new-rows", "other.csv"), "leave --new-rows out"),
    ],
)
def test_options_that_differ_from_the_audit_are_refused_by_name(
    words: tuple[str, ...], message: str, shifted_audit: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    folder = Path(shutil.copytree(shifted_audit.path, tmp_path / "copy"))
    fill_sheet(shifted_audit).to_csv(folder / "answered.csv", index=False)
    pd.DataFrame({"x": [1.0], "outcome": ["ill"]}).to_csv("other.csv", index=False)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert train_with_answers(folder, tmp_path / "out", *words) == 2
    assert message in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before and not (tmp_path / "out").exists()


def test_options_equal_to_the_audit_are_accepted_with_answers(shifted_audit: Audit, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(shifted_audit.path, tmp_path / "copy"))
    fill_sheet(shifted_audit).to_csv(folder / "answered.csv", index=False)
    data = yaml.safe_load((folder / "config.yaml").read_text())["data"]["file"]
    words = ["train", "--data", data, "--data.label", "outcome", "--epochs", "5", "--threads", "1", "--method", "LC"]
    assert main([*words, "--answers", str(folder / "answered.csv"), "--out", str(tmp_path / "out")]) == 0
    assert RunConfig.read(tmp_path / "out" / "config.yaml").training.epochs == 5
