"""Which runs belong together, and what a comparison concludes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from logit_correction.errors import InputError, InputWarning
from logit_correction.evaluation.predictions import Predictions
from logit_correction.formatting import NBSP
from logit_correction.pages.compare import RunFolder, group_runs_by_task, share_attribute_estimates
from logit_correction.pages.page import render_report_page

RunWriter = Callable[..., Path]


def read_verdict(folders: Sequence[Path]) -> tuple[str, list[str]]:
    page = " ".join(render_report_page(folders).replace(NBSP, " ").split())
    headline, details = re.findall(r'<p class="verdict">(.*?)</p> <p>(.*?)</p>', page)[0]
    return headline, details.replace(". ", ".\n").splitlines()


def list_series_names(folders: Sequence[Path]) -> list[str]:
    ((_, series),) = group_runs_by_task([RunFolder.read(folder) for folder in folders])
    assert len({run_series.color for run_series in series}) == len(series)
    return [run_series.name for run_series in series]


def test_runs_that_differ_only_by_seed_are_one_series(make_birds_run: RunWriter, tmp_path: Path) -> None:
    runs = [RunFolder.read(make_birds_run(tmp_path / f"{m}{s}", m, seed=s)) for m in ("LC", "ERM") for s in (0, 1, 2)]
    ((_, (erm, series)),) = group_runs_by_task(runs)
    assert [(run_series.name, len(run_series.runs)) for run_series in (erm, series)] == [("ERM", 3), ("LC", 3)]
    assert series.compute_mean("minority") == pytest.approx(np.mean([run.report.test.minority for run in runs[:3]]))
    accuracies = np.array([run.get_groups()["accuracy"] for run in runs[:3]])
    np.testing.assert_allclose(series.get_groups()["accuracy"], accuracies.mean(0))
    np.testing.assert_allclose(series.get_groups()["low"], accuracies.min(0))


def test_series_of_one_method_are_named_by_their_differences(make_birds_run: RunWriter, tmp_path: Path) -> None:
    online = {"name": "Online", "q": 0.7, "pooling": 0}
    auto = {"name": "Auto", "views": None}
    options = [
        {"attributes": changed_options, "strength": 1} for changed_options in (auto, online, online | {"q": 0.8}, None)
    ]
    runs = [
        make_birds_run(tmp_path / f"{i}", "LC", method_options=changed_options)
        for i, changed_options in enumerate(options)
    ]
    first = ("attributes Online", "attributes q 0.7", "attributes pooling 0")
    other = ("attributes Online", "attributes q 0.8", "attributes pooling 0")
    assert list_series_names(runs) == [
        "LC (attributes Auto)",
        f"LC ({', '.join(first)})",
        f"LC ({', '.join(other)})",
        "LC",
    ]
    assert list_series_names(runs[1:3]) == ["LC (attributes q 0.7)", "LC (attributes q 0.8)"]
    rates = [{"learning_rate": rate, "device": device} for rate, device in ((1, "cpu"), (1, "cuda"), (2, "cpu"))]
    runs = [
        make_birds_run(tmp_path / f"rate {i}", "LC", training=changed_options)
        for i, changed_options in enumerate(rates)
    ]
    assert list_series_names(runs) == ["LC (learning rate 1)", "LC (learning rate 2)"]


def test_runs_of_different_tasks_are_separate_groups(
    make_colored_run: RunWriter, make_birds_run: RunWriter, tmp_path: Path
) -> None:
    folders = [make_colored_run(tmp_path / f"{r}", "ERM", ratio=r) for r in (0.005, 0.05)] + [
        make_birds_run(tmp_path / "b", "ERM")
    ]
    for name in ("one", "other"):  # two folders are two data sets, not two seeds; a page shows no absolute path
        folders.append(make_birds_run(tmp_path / name, "ERM"))
        report = json.loads((folders[-1] / "report.json").read_text())
        report["data"] |= {"name": "ImageFolder", "options": {"root": f"/data/{name}"}}
        (folders[-1] / "report.json").write_text(json.dumps(report))
    titles = [title for title, _ in group_runs_by_task([RunFolder.read(folder) for folder in folders])]
    assert titles[:2] == ["ColoredMNIST, minority ratio 0.005", "ColoredMNIST, minority ratio 0.05"]
    assert titles[2:] == ["Waterbirds", "ImageFolder, root one", "ImageFolder, root other"]


@pytest.mark.parametrize(
    ("skills", "expected"),
    [
        ({"ERM": (0.9, 0.8), "LC": (0.9, 0.6)}, "LC loses "),
        ({"ERM": (0.9, 0.7), "LC": (0.9, 0.7)}, "LC and ERM do not differ by more than chance."),
        ({"ERM": (0.98, 0.3), "JTT": (0.9, 0.5), "LC": (0.95, 0.8)}, " points against ERM."),
        ({"JTT": (0.9, 0.5), "LC": (0.95, 0.8)}, " points against JTT."),
        ({"LC": (0.95, 0.7)}, "Bias-conflicting accuracy: 69.3 %."),
    ],
)
def test_verdict_names_the_better_method(
    make_birds_run: RunWriter, tmp_path: Path, skills: dict[str, tuple[float, float]], expected: str
) -> None:
    runs = [make_birds_run(tmp_path / name, name, skill=skill, estimated=True) for name, skill in skills.items()]
    headline, details = read_verdict(runs)
    assert expected in headline
    assert not any("estimated" in text for text in details)  # attributes are named, so no estimate is told
    assert ("Train the same with <code>--method ERM</code>" in render_report_page(runs)) == (len(skills) == 1)


def test_verdict_over_several_seeds_uses_the_interval_of_the_difference(
    make_birds_run: RunWriter, tmp_path: Path
) -> None:
    def write_runs(name: str, method: str, shares: Sequence[float]) -> list[Path]:
        return [
            make_birds_run(tmp_path / f"{name}{i}", method, skill=(0.9, value), seed=i)
            for i, value in enumerate(shares)
        ]

    erm = write_runs("erm", "ERM", [0.4, 0.5, 0.7])
    headline, _ = read_verdict([*erm, *write_runs("lc", "LC", [0.6, 0.8])])
    assert headline.endswith("do not differ by more than chance.")
    better = write_runs("better", "LC", [0.85, 0.9])
    assert " gains " in read_verdict([*erm, *better])[0] and " gains " in read_verdict([erm[0], *better])[0]
    # Two seeds of each side do not meet once in three times by chance alone; their spread is hardly known.
    similar = write_runs("apart", "LC", [0.52, 0.75])
    assert read_verdict([*erm[:2], *similar])[0].endswith("do not differ by more than chance.")
    others = [make_birds_run(tmp_path / f"other{i}", "LC", skill=(0.9, 0.9 + i / 1000), seed=i) for i in (7, 8, 9)]
    assert " gains " in read_verdict([*erm, *others])[0]  # other seeds than those of ERM cannot be paired


def test_verdict_uses_worst_group_or_label_without_correlation_or_attributes(
    make_birds_run: RunWriter, tmp_path: Path
) -> None:
    skills = {"ERM": (0.98, 0.3), "LC": (0.95, 0.8)}
    headline, _ = read_verdict(
        [make_birds_run(tmp_path / m, m, skill=skill, correlated=False) for m, skill in skills.items()]
    )
    assert "Worst group accuracy: ERM " in headline and " gains " in headline
    folders = [make_birds_run(tmp_path / f"{method} none", method, attribute_names=None) for method in skills]
    headline, _ = read_verdict(folders)
    assert "Worst label accuracy: ERM " in headline and "gains" not in headline
    assert "they cannot show whether a shortcut misleads" in render_report_page(folders)


def test_attribute_estimate_of_one_run_is_shared_by_the_others(make_birds_run: RunWriter, tmp_path: Path) -> None:
    skills = {"ERM": (0.99, 0.8), "LC": (0.8, 0.9)}  # by plain accuracy ERM is the better one
    options = {"attribute_names": None, "estimated": True}
    folders = [make_birds_run(tmp_path / name, name, skill=skill, **options) for name, skill in skills.items()]
    ground = np.repeat([0, 1, 0, 1], [2255, 2255, 642, 642])
    shares = []
    for folder, run in zip(
        folders, share_attribute_estimates([RunFolder.read(folder) for folder in folders]), strict=True
    ):
        rows = Predictions.load(folder / "predictions.parquet")
        shares.append(float((rows.prediction == rows.label)[ground != rows.label].mean()))
        assert run.report.test.get_metric("estimated_minority") == pytest.approx(shares[-1])
    before, after = (f"{100 * share:.1f}" for share in shares)
    assert f"ERM {before} % and LC {after} %. LC gains " in read_verdict(folders)[0]
    (folders[0] / "predictions.parquet").unlink()  # without them it is shown by label
    assert "Worst label" in read_verdict(folders)[0]


def test_runs_of_data_that_have_changed_are_compared_apart(make_birds_run: RunWriter, tmp_path: Path) -> None:
    options = {"attribute_names": None}
    folders = [make_birds_run(tmp_path / name, name, estimated=name == "LC", **options) for name in ("LC", "ERM")]
    for number, folder in enumerate(folders):
        report = json.loads((folder / "report.json").read_text())
        report["data"]["fingerprint"] = str(number)
        (folder / "report.json").write_text(json.dumps(report))
    runs = [RunFolder.read(folder) for folder in folders]
    with pytest.warns(InputWarning, match="have changed between these runs, which are compared apart"):
        tasks = group_runs_by_task(runs)
    assert [len(series) for _, series in tasks] == [1, 1]
    assert share_attribute_estimates(runs)[1].report.test.estimated is None  # which was made of other rows


def test_damaged_metrics_are_named_and_missing_metrics_are_empty(make_birds_run: RunWriter, tmp_path: Path) -> None:
    folder = make_birds_run(tmp_path / "run", "LC")
    (folder / "metrics.csv").write_text("a,b\n1,2,3\n4,5,6,7\n")
    with pytest.raises(InputError, match=r"metrics\.csv cannot be read"):
        RunFolder.read(folder)
    (folder / "metrics.csv").unlink()
    assert RunFolder.read(folder).metrics.empty
