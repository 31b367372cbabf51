"""``train``: the run folder, and every way to say what to run."""

from __future__ import annotations

import csv
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from logit_correction.cli.train_command import parse
from logit_correction.config import TrainingConfig
from logit_correction.correlation import Correlation
from logit_correction.evaluation import GroupReport, Predictions
from logit_correction.runs.parts import complete

#: LC with both networks side by side, so that a single epoch will do.
LC = ("--method", "LC", "--method.attributes", "Online")

POINTS = ("--data", "my_parts.Points", "--threads", "1", "--batch_size", "32")


def strict(text: str) -> dict[str, Any]:
    """Read JSON as the standard has it: no NaN, no Infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    content: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return content


@pytest.mark.parametrize("method", ["ERM", "LC"])
def test_the_run_folder_is_complete_and_holds_nothing_else(
    method: str, finished: dict[str, Path], run_files: set[str]
) -> None:
    assert {path.name for path in finished[method].iterdir()} == run_files


@pytest.mark.parametrize("method", ["ERM", "LC"])
def test_report_has_the_form_that_is_promised(method: str, finished: dict[str, Path]) -> None:
    report = strict((finished[method] / "report.json").read_text())
    assert report["method"] == method
    assert report["data"]["name"] == "Digits" and report["network"]["name"] == "MLP"
    assert report["seed"] == 0 and report["epochs"] == 4
    selection = report["selection"]
    assert (selection["rule"], selection["split"], selection["labels_read"]) == ("last", None, [])
    assert report["labels_read"] == {"train": ["label"], "valid": ["label"], "test": ["label", "attribute"]}
    assert {"version", "torch", "device"} <= set(report["environment"])
    assert report["environment"]["device"] == "cpu"
    assert report["seconds"]["train"] > 0
    test = report["test"]
    assert len(test["groups"]) == 100 and sum(group["count"] for group in test["groups"]) == 4000
    for figure in ("average", "group_balanced", "worst_group"):
        assert isinstance(test[figure], float) and 0 <= test[figure] <= 1
    for group in test["groups"]:
        assert isinstance(group["label"], str) and isinstance(group["attribute"], str)
        assert group["accuracy"] == pytest.approx(group["correct"] / group["count"])
        assert 0 <= group["low"] <= group["accuracy"] + 1e-9 and group["accuracy"] <= group["high"] + 1e-9 <= 1 + 1e-9


def test_report_agrees_with_a_count_by_hand(finished: dict[str, Path]) -> None:
    run = finished["LC"]
    test = strict((run / "report.json").read_text())["test"]
    rows = pd.read_parquet(run / "predictions.parquet")
    right = rows["prediction"] == rows["label"]
    groups = right.groupby([rows["label"], rows["attribute"]]).mean()
    assert test["average"] == pytest.approx(right.mean())
    assert test["group_balanced"] == pytest.approx(groups.mean())
    assert test["worst_group"] == pytest.approx(groups.min())
    conflicting = rows["label"] != rows["attribute"]
    assert test["minority"] == pytest.approx(right[conflicting].mean())
    assert test["majority"] == pytest.approx(right[~conflicting].mean())


@pytest.mark.parametrize("method", ["ERM", "LC"])
def test_the_figures_can_be_made_again_without_a_model(method: str, finished: dict[str, Path]) -> None:
    run = finished[method]
    report = strict((run / "report.json").read_text())
    rows = Predictions.load(run / "predictions.parquet")
    correlation = Correlation.from_table(report["data"]["correlation"])
    assert rows.split == "test" and list(rows.label_names) == report["data"]["label_names"]
    train_counts = torch.tensor(report["data"]["counts"]["train"])
    figures = GroupReport.from_predictions(rows, correlation, train_counts).to_dict()
    assert figures == report["test"] and (figures["estimated"] is None) is (method == "ERM")


def test_report_says_what_the_data_are(finished: dict[str, Path]) -> None:
    data = strict((finished["LC"] / "report.json").read_text())["data"]
    assert data["rows"] == {"train": 1197, "valid": 200, "test": 4000}
    for split, rows in data["rows"].items():
        assert np.shape(data["counts"][split]) == (10, 10) and np.sum(data["counts"][split]) == rows
    assert data["options"]["minority_ratio"] == 0.05
    assert data["correlation"] == [[label] for label in range(10)]


def test_report_shows_the_estimated_prior_beside_the_true_one(finished: dict[str, Path]) -> None:
    report = strict((finished["LC"] / "report.json").read_text())
    prior = report["group_prior"]
    counts = np.array(report["data"]["counts"]["train"])
    np.testing.assert_allclose(prior["true"], counts / counts.sum())
    assert np.shape(prior["estimated"]) == (10, 10)
    found = report["estimated_minority"]
    assert 0 < found["count"] <= 1197 and 0 < len(found["examples"]) <= 24
    assert all(example["picture"].startswith("data:image/png;base64,") for example in found["examples"])
    erm = strict((finished["ERM"] / "report.json").read_text())
    assert erm["group_prior"] is None and erm["estimated_minority"] is None


def test_metrics_have_losses_by_step_and_validation_figures_by_epoch(finished: dict[str, Path]) -> None:
    metrics = pd.read_csv(finished["LC"] / "metrics.csv")
    assert {"step", "stage", "epoch", "learning_rate", "loss", "loss_biased"} <= set(metrics.columns)
    validated = metrics[metrics["valid_average"].notna()]
    assert validated["epoch"].tolist() == [1, 2, 3, 4]
    assert validated["step"].tolist() == [10, 20, 30, 40]
    assert validated["loss"].isna().all() and validated["valid_average"].between(0, 1).all()
    losses = metrics[metrics["loss"].notna()]
    assert losses["step"].tolist() == list(range(5, 45, 5))
    assert "valid_group_balanced" not in metrics.columns  # no rule reads the attributes, so nobody does


def test_config_is_complete_and_runs_again(command: Any, finished: dict[str, Path], tmp_path: Path) -> None:
    run = finished["LC"]
    stored = yaml.safe_load((run / "config.yaml").read_text())
    assert stored["data"]["minority_ratio"] == 0.05 and stored["network"] == {
        "name": "MLP",
        "hidden": [100, 100, 100],
    }
    assert (
        stored["epochs"] == 4
        and stored["learning_rate"] == TrainingConfig().learning_rate
        and stored["method"]["mixing"]["name"] == "IndependentMixUp"
    )
    assert command("train", "--config", run / "config.yaml", "--out", tmp_path / "again").status == 0
    for name in ("config.yaml", "metrics.csv", "predictions.parquet"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes()
    first, second = (strict((where / "report.json").read_text()) for where in (run, tmp_path / "again"))
    for report in (first, second):
        report.pop("seconds")
    # What was chosen the first time is given the second time.
    assert first["data"]["facts"].pop("chosen to fit the data") == "network MLP, for images of 8 x 8 pixels"
    assert first == second


def test_train_shows_the_groups_before_and_the_figures_after(command: Any, tmp_path: Path) -> None:
    outcome = command("train", *POINTS, "--method", "ERM", "--epochs", "2", "--out", tmp_path / "run")
    assert outcome.status == 0
    assert "ERM on my_parts.Points: 90 train, 20 valid, 40 test rows" in outcome.err
    counts = json.loads((tmp_path / "run" / "report.json").read_text())["data"]["counts"]["train"]
    for name, numbers in zip(["circle", "square", "star"], counts, strict=True):
        assert re.search(rf"^{name} +{' +'.join(map(str, numbers))} *$", outcome.err, re.MULTILINE)
    assert ": step 6 of 6" in outcome.err and "valid average" in outcome.err
    assert "Accuracy on the test split" in outcome.out
    assert f"page: {tmp_path / 'run' / 'report.html'}" in outcome.out


def test_selection_by_validation_groups(command: Any, tmp_path: Path) -> None:
    rules = ("--selection", "valid_group_balanced", "--also_select", "[last, valid_worst_class]")
    run = tmp_path / "run"
    assert command("train", *POINTS, "--method", "ERM", "--epochs", "5", *rules, "--out", run).status == 0
    report = strict((run / "report.json").read_text())
    assert report["selection"]["rule"] == "valid_group_balanced"
    assert report["selection"]["split"] == "valid"
    assert report["selection"]["labels_read"] == ["label", "attribute"]
    assert report["labels_read"]["valid"] == ["label", "attribute"]
    assert report["labels_read"]["train"] == ["label"]
    metrics = pd.read_csv(run / "metrics.csv").dropna(subset="valid_group_balanced")
    best = metrics.loc[metrics["valid_group_balanced"][::-1].idxmax(), "epoch"]  # the latest of equal ones
    assert report["selection"]["epoch"] == best
    others = {block["rule"]: block for block in report["other_selections"]}
    assert others["last"]["epoch"] == 5 and others["last"]["labels_read"] == []
    worst = metrics.loc[metrics["valid_worst_class"][::-1].idxmax(), "epoch"]
    assert others["valid_worst_class"]["epoch"] == worst
    assert others["valid_worst_class"]["labels_read"] == ["label"]


def test_method_that_reads_attributes_says_so(command: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("--method", "my_parts.Oracle", "--network", "my_parts.Narrow", "--network.width", "5")
    assert command("train", *POINTS, *words, "--epochs", "1", "--out", run).status == 0
    report = strict((run / "report.json").read_text())
    assert report["labels_read"]["train"] == ["label", "attribute"]
    assert report["method"] == "my_parts.Oracle" and report["network"]["options"] == {"width": 5}
    assert report["network"]["parameters"] == 12 * 5 + 5 + 5 * 3 + 3


def test_unknown_attributes_leave_group_figures_out(command: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("--data.known", "false", *LC, "--epochs", "1", "--out", run)
    outcome = command("train", *POINTS, *words)
    assert outcome.status == 0 and "attributes unknown; rows per label: circle 30" in outcome.err
    report = strict((run / "report.json").read_text())
    assert report["test"]["group_balanced"] is None and report["test"]["worst_group"] is None
    assert [group["attribute"] for group in report["test"]["groups"]] == [None] * 3
    assert report["labels_read"]["test"] == ["label"]
    shown = command("evaluate", run, "--trust-code")
    assert shown.status == 0 and "unknown" in shown.out and "group-balanced" not in shown.out


def test_a_config_with_the_command_line_over_it(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(
        "data: {name: my_parts.Points, seed: 3}\nmethod: {name: LC, attributes: {name: Online, q: 0.3}}\n"
        "epochs: 2\nthreads: 1\nbatch_size: 64\n"
        "network: {name: MLP, hidden: [7]}\n"
    )
    own = ("--method.strength=0.5", "--method.attributes.temperature", "2")
    given = ["--epochs=1", "--data.seed", "4", *own, f"--out={tmp_path / 'run'}"]
    assert command("train", "--config", path, *given).status == 0
    stored = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert stored["data"]["name"] == "my_parts.Points" and stored["data"]["seed"] == 4
    assert stored["method"]["name"] == "LC" and stored["method"]["strength"] == 0.5
    online = stored["method"]["attributes"]
    assert (online["name"], online["q"], online["temperature"]) == ("Online", 0.3, 2.0)
    assert stored["network"]["hidden"] == [7]
    assert (stored["epochs"], stored["batch_size"]) == (1, 64)


def test_another_method_leaves_the_options_of_the_first_behind(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(
        "data: my_parts.Points\nmethod: {name: LC, strength: 0.3, attributes: Online}\nepochs: 1\nthreads: 1\n"
    )
    assert command("train", "--config", path, "--method", "ERM", "--out", tmp_path / "run").status == 0
    stored = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert stored["method"] == {"name": "ERM"}


def chosen(*words: object) -> dict[str, Any]:
    """The complete options that a command line stands for, as ``config.yaml`` would hold them."""
    return complete(parse([*map(str, words), "--out", "run"])[0]).to_dict()


def test_a_component_is_named_and_its_options_are_set(tmp_path: Path) -> None:
    start = ("--data", "Digits", "--method", "LC")
    method = chosen(*start, "--method.attributes", "Online", "--method.attributes.q", "0.5")["method"]
    assert method["attributes"]["name"] == "Online" and method["attributes"]["q"] == 0.5
    assert method["prior"] is None and method["mixing"]["name"] == "IndependentMixUp"
    equals = chosen(*start, "--method.attributes=Online", "--method.attributes.q=0.5")["method"]
    by_name = chosen(*start, "--method.attributes.name", "Online", "--method.attributes.q", "0.5")["method"]
    assert equals == method == by_name
    deep = ("--method.attributes.attributes", "CrossFitted", "--method.attributes.attributes.view", "[colour, border]")
    nested = chosen(*start, "--method.attributes", "Clusters", *deep, "--method.prior", "Counted")["method"]
    assert nested["attributes"]["attributes"]["view"] == ["colour", "border"]
    assert nested["attributes"]["weights"] is None and nested["prior"] == {"name": "Counted", "smoothing": 0.3}
    default = chosen(*start, "--method.mixing.limit", "0.1")["method"]
    assert default["mixing"]["limit"] == 0.1 and default["attributes"]["name"] == "Auto"
    own = chosen(*start, "--method.attributes", "my_parts.Greatest", "--method.attributes.first", "0")["method"]
    assert own["attributes"] == {"name": "my_parts.Greatest", "first": 0, "unsure": 0.0}


def test_components_of_a_config_with_the_command_line_over_them(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    online = "{name: Online, q: 0.3, temperature: 2}"
    path.write_text(
        f"data: Digits\nmethod: {{name: LC, attributes: {online}, prior: {{name: Moving, momentum: 0.9}}}}\n"
    )
    start = ("--config", path)
    kept = chosen(*start, "--method.attributes.q", "0.5", "--method.prior.floor", "0.01")["method"]
    assert (kept["attributes"]["q"], kept["attributes"]["temperature"]) == (0.5, 2)
    assert (kept["prior"]["momentum"], kept["prior"]["floor"]) == (0.9, 0.01)
    assert chosen(*start, "--method.attributes", "Online")["method"]["attributes"]["q"] == 0.3
    # Another estimator leaves the options of the first behind, and `null` takes a prior back.
    other = chosen(*start, "--method.attributes", "TrueAttributes", "--method.prior", "null")["method"]
    assert other["attributes"] == {"name": "TrueAttributes"} and other["prior"] is None


def test_presets_lie_under_a_config_and_the_command_line(tmp_path: Path) -> None:
    paper = chosen("--data", "Digits", "--preset", "paper")
    assert "preset" not in paper and paper["method"]["name"] == "LC"
    assert paper["method"]["attributes"]["name"] == "Online" and paper["method"]["prior"]["estimator"] == "cell"
    assert paper["method"]["mixing"]["limit"] == 0.5
    changed = ("--method.attributes.q", "0.8", "--method.prior.momentum=0.9", "--method.mixing", "NoMixing")
    own = chosen("--data", "Digits", "--preset=paper", "--method", "LC", *changed, "--epochs", "3")
    assert own["epochs"] == 3 and own["method"]["mixing"] == {"name": "NoMixing"}
    assert own["method"]["attributes"] == {**paper["method"]["attributes"], "q": 0.8}
    assert own["method"]["prior"] == {**paper["method"]["prior"], "momentum": 0.9}
    path = tmp_path / "my.yaml"
    path.write_text("data: Digits\npreset: paper\nmethod: {prior: {momentum: 0.9}}\nepochs: 7\n")
    of_file = chosen("--config", path, "--method.attributes.q", "0.8")
    assert of_file["method"] == {**own["method"], "mixing": paper["method"]["mixing"]} and of_file["epochs"] == 7
    staged = chosen("--data", "Digits", "--preset", "staged")["method"]
    plain = chosen("--data", "Digits", "--method", "StagedLC")["method"]
    assert staged == {**plain, "name": "LC"}


def test_a_preset_trains(command: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert command("train", *POINTS, "--preset", "paper", "--epochs", "1", "--out", run).status == 0
    report = strict((run / "report.json").read_text())
    assert report["method"] == "LC" and report["attributes"] == "a biased network beside the robust one"
    assert report["method_options"]["prior"]["name"] == "Moving" and report["evidence"] is None
    stored = yaml.safe_load((run / "config.yaml").read_text())
    assert stored["method"]["mixing"]["name"] == "GroupMixUp" and "preset" not in stored
    assert command("train", "--config", run / "config.yaml", "--out", tmp_path / "again").status == 0
    assert (tmp_path / "again" / "metrics.csv").read_bytes() == (run / "metrics.csv").read_bytes()


def test_attributes_from_a_file(command: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    file = tmp_path / "attributes.csv"
    # Row 0..89 are the training rows; each tenth has another colour, and row 5 is left out.
    rows = [i for i in range(90) if i != 5]
    colours = ["red", "green", "blue"]
    told = [colours[(i % 3 + (i % 10 == 0)) % 3] for i in rows]
    pd.DataFrame({"row": rows, "attribute": told}).to_csv(file, index=False)
    given = ("--method", "LC", "--method.attributes", "Given", "--method.attributes.file", file)
    outcome = command("train", *POINTS, *given, "--epochs", "2", "--out", run)
    assert outcome.status == 0, outcome.err
    report = strict((run / "report.json").read_text())
    assert report["labels_read"]["train"] == ["label"] and report["attributes"] == "the file attributes.csv"
    assert any("1 of 90 training rows have no attribute" in warning for warning in report["warnings"])
    prior = report["group_prior"]
    assert prior["attribute_names"] == ["blue", "green", "red"] and np.shape(prior["estimated"]) == (3, 3)
    file.unlink()  # a finished run needs it no more
    judged = command("evaluate", run, "--json", "--trust-code")
    assert judged.status == 0 and strict(judged.out) == report["test"]


def test_options_have_the_types_that_a_class_asks_for(command: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("--data.root", tmp_path, "--data.kind", "RIGHT", "--data.shape", "[3, 4]", "--method", "ERM")
    start = ("train", "--data", "my_parts.Typed", *words, "--epochs", "1", "--threads", "1")
    assert command(*start, "--out", run).status == 0
    stored = yaml.safe_load((run / "config.yaml").read_text())["data"]
    assert stored == {"name": "my_parts.Typed", "root": str(tmp_path), "kind": "RIGHT", "shape": [3, 4]}
    assert strict((run / "report.json").read_text())["data"]["options"]["kind"] == "RIGHT"
    assert command("evaluate", run, "--trust-code").status == 0
    assert command("train", "--resume", "--out", run).status == 0
    assert command("train", "--config", run / "config.yaml", "--out", tmp_path / "again").status == 0
    assert "data.kind" in command(*start, "--data.kind", "LEFT", "--resume", "--out", run).error()
    assert "--data.kind" in command(*start, "--data.kind", "UP", "--out", tmp_path / "x").error()


def test_a_biased_network_of_its_own(command: Any, tmp_path: Path) -> None:
    words = ("--biased_network", "my_parts.Narrow", "--biased_network.width", "2", "--epochs", "1")
    assert command("train", *POINTS, *LC, *words, "--out", tmp_path / "run").status == 0
    stored = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert stored["biased_network"] == {"name": "my_parts.Narrow", "width": 2}
    assert command("evaluate", tmp_path / "run", "--trust-code").status == 0


def test_tensorboard_events_lie_in_the_run_folder(command: Any, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    words = ("--method", "ERM", "--epochs", "1", "--logger", "tensorboard", "--out", tmp_path / "run")
    assert command("train", *POINTS, *words).status == 0
    assert list((tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))


def test_a_loss_that_is_not_finite_stops_the_run(command: Any, tmp_path: Path) -> None:
    words = ("--method", "ERM", "--learning_rate", "1e30", "--epochs", "3", "--out", tmp_path / "run")
    outcome = command("train", *POINTS, *words)
    assert outcome.status == 1 and outcome.out == ""
    message = outcome.err.splitlines()[-1]
    assert message.startswith("error: the loss became nan at step ") and "--learning_rate" in message
    assert outcome.err.count("error: ") == 1 and "Traceback" not in outcome.err
    assert not (tmp_path / "run" / "report.json").exists()


class _Page(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.text += "".join(value or "" for name, value in attrs if name in ("alt", "title"))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_names_of_the_user_cannot_break_what_is_shown(command: Any, tmp_path: Path, finished: dict[str, Path]) -> None:
    from my_parts import HOSTILE_LABELS, HOSTILE_VALUES

    run = tmp_path / "<b>run</b> [red]"
    words = ("--data.hostile", "true", "--data.images", "true", *LC, "--epochs", "4")
    outcome = command("train", *POINTS, *words, "--out", run)
    assert outcome.status == 0, outcome.err
    assert all(name in outcome.err for name in HOSTILE_LABELS)
    harmless = _Page((finished["LC"] / "report.html").read_text())
    page = _Page((run / "report.html").read_text())
    assert "script" not in page.tags and page.tags <= harmless.tags
    assert not any(name.startswith("on") for name in page.attributes)
    for name in [*HOSTILE_LABELS, *HOSTILE_VALUES]:
        assert name in page.text, name
    shown = command("evaluate", run, "--trust-code")
    assert shown.status == 0 and all(name in shown.out for name in HOSTILE_LABELS)
    files = [path for path in run.glob("*.json")]
    assert command("predict", run, *files).error()  # no image, but no crash either
    rows = list(csv.reader((run / "metrics.csv").open()))
    assert all(len(row) == len(rows[0]) for row in rows)


def test_no_figure_is_nan_where_the_page_reads_it(finished: dict[str, Path]) -> None:
    report = strict((finished["LC"] / "report.json").read_text())
    values = [value for row in report["group_prior"]["estimated"] for value in row]
    assert all(math.isfinite(value) for value in values)


def test_names_and_options_are_taken_as_people_write_them(command: Any, tmp_path: Path) -> None:
    words = [
        "--data",
        "digits",
        "--method",
        "lc",
        "--network=mlp",
        "--method.attributes",
        "online",
        "--batch-size",
        "8",
    ]
    chosen = parse([*words, "--learning-rate=0.01", "--out", "run"]).config
    assert (chosen.data.name, chosen.method.name, chosen.network.name) == ("Digits", "LC", "MLP")
    assert chosen.method.options["attributes"]["name"] == "Online"
    assert (chosen.training.batch_size, chosen.training.learning_rate) == (8, 0.01)
    for habit, ours in (("--lr", "--learning_rate"), ("--num_workers", "--workers"), ("--gpus", "--devices")):
        wrong = command("train", "--data", "Digits", "--method", "ERM", habit, "1", "--out", str(tmp_path / "run"))
        assert f"did you mean {ours}?" in wrong.error()


def test_a_plus_appends_to_a_list(tmp_path: Path) -> None:
    start = ("--data", "Digits", "--method", "LC")
    assert chosen(*start, "--also_select+", "last", "--also-select+=valid_worst_class")["also_select"] == [
        "valid_average",
        "last",
        "valid_worst_class",
    ]
    own = chosen(*start, "--method.attributes.views+", "colour", "--method.attributes.views+", "border")
    assert own["method"]["attributes"]["views"] == ["colour", "border"]


def test_the_config_is_printed_as_a_file_that_gives_the_same_run(command: Any, tmp_path: Path) -> None:
    words = ["--data", "Digits", "--data.severity", "3", "--method", "LC", "--epochs", "2"]
    printed = command("train", *words, "--print_config")
    assert printed.status == 0
    (tmp_path / "config.yaml").write_text(printed.out)
    again = parse(["--config", str(tmp_path / "config.yaml"), "--out", "run"]).config
    assert complete(again).to_dict() == complete(parse([*words, "--out", "run"]).config).to_dict()
