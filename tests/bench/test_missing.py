"""Grids whose data are not at hand: what is said, what is trained all the same, and what is written."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from logit_correction import InputError
from logit_correction.bench import DataMissing, ProcessExecutor, ccifar10, cifar10_images, read, run, shipped
from logit_correction.bench.missing import missing_data
from logit_correction.bench.work import Job, Outcome
from logit_correction.runs.assemble import build_source

BIRDS = {"data": {"name": "Waterbirds", "size": 16}}


class Remembering:
    """An executor that trains nothing and remembers what it was to train."""

    slots = 1

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def warm(self, number: int) -> None:
        pass

    def run(self, job: Job) -> Outcome:
        self.jobs.append(job)
        return Outcome("failed", "as told")

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, and no network."""

    def offline(*_: Any, **__: Any) -> None:
        raise RuntimeError("no network")

    monkeypatch.setenv("LOGIT_CORRECTION_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("torchvision.datasets.CIFAR10.download", offline)
    monkeypatch.setattr("torchvision.datasets.MNIST.download", offline)
    return tmp_path / "data"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table2", "ablation-bffhq", "ablation-q-waterbirds", "table1-ccifar10"])
def test_a_shipped_table_without_data_says_so_and_shows_the_figures_of_the_paper(
    name: str, no_data: Path, command: Any, tmp_path: Path
) -> None:
    outcome = command(name, "--out", tmp_path / "out")
    assert outcome.status == 2
    *lines, error = outcome.err.splitlines()
    assert error == f"error: {name}: no run can be trained, since all data are missing; see above"
    sources = {"table2": ("Waterbirds", "CelebA", "CivilComments", "bFFHQ"), "table1-ccifar10": ("0.5, 1, 2, 5",)}
    columns = sources.get(name, (next(iter(read(name).columns)),))
    said = [line for line in lines if "left out" in line]
    assert [line.split(" left out: ")[0].split(" ", 1)[1].rsplit(" ", 1)[0] for line in said] == list(columns)
    assert all(str(no_data) in line for line in said)
    text = (tmp_path / "out" / "table.md").read_text()
    assert "No run is finished." in text and text.strip() == outcome.out.strip()
    for row, cells in read(name).paper.items():
        for figure in cells.values():
            assert f"{figure[0] if isinstance(figure, list) else figure:.2f}" in text, row
    assert "tabular" in (tmp_path / "out" / "table.tex").read_text()
    assert not list((tmp_path / "out").rglob("config.yaml"))


def test_columns_whose_data_are_there_are_trained(
    no_data: Path, layouts: ModuleType, write_grid: Any, tmp_path: Path
) -> None:
    common = {"epochs": 2, "device": "cpu", "threads": 1}
    columns = {"birds": BIRDS, "faces": {"data": {"name": "BiasedFFHQ", "size": 16}}}
    benchmark = read(str(write_grid(columns=columns, common=common, paper={}, seeds=1)))
    layouts.bffhq(no_data)
    executor, said = Remembering(), Said()
    failed = run(benchmark, tmp_path / "out", executor, said)
    assert len(executor.jobs) == len(benchmark.rows) == len(failed)
    assert all(job.config.data.name == "BiasedFFHQ" for job in executor.jobs)
    birds = [line for line in said.lines if line.startswith("column birds is left out: Waterbirds is not complete")]
    assert len(birds) == 1 and "metadata.csv" in birds[0] and "--data.root" in birds[0]


class Said:
    """Remembers the lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def begin(self, board: Any) -> None:
        pass

    def say(self, line: str) -> None:
        self.lines.append(line)

    def end(self) -> None:
        pass


@pytest.mark.slow
def test_finished_runs_count_where_the_data_have_gone(
    no_data: Path, layouts: ModuleType, write_grid: Any, tmp_path: Path
) -> None:
    common = {"epochs": 1, "device": "cpu", "threads": 1, "network": {"name": "MLP", "hidden": [8]}}
    rows = {"plain": {"method": {"name": "ERM"}}}
    grid = read(str(write_grid(rows=rows, columns={"birds": BIRDS}, common=common, paper={}, seeds=1)))
    birds = layouts.waterbirds(no_data)
    assert run(grid, tmp_path / "out", ProcessExecutor(1), Said()) == []
    assert json.loads(next((tmp_path / "out").rglob("report.json")).read_text())["method"] == "ERM"
    (birds / "metadata.csv").unlink()
    assert run(grid, tmp_path / "out", Remembering(), Said()) == []
    two = read(str(tmp_path / "mine.yaml"), seeds=2)
    assert run(two, tmp_path / "out", Remembering(), Said()) == []
    with pytest.raises(DataMissing):
        run(two, tmp_path / "elsewhere", Remembering(), Said())


def test_a_wrong_option_of_a_source_is_no_missing_data(no_data: Path, write_grid: Any, tmp_path: Path) -> None:
    grid = read(str(write_grid(columns={"birds": {"data": {"name": "Waterbirds", "size": 1}}}, common={}, paper={})))
    with pytest.raises(InputError, match="size is 1") as caught:
        run(grid, tmp_path / "out", Remembering(), Said())
    assert not isinstance(caught.value, DataMissing)


def test_data_are_looked_for_once_whatever_the_seed(no_data: Path, tmp_path: Path, monkeypatch: Any) -> None:
    looked: list[bool] = []

    def look(self: ccifar10.CorruptedCIFAR10) -> None:
        looked.append(True)

    monkeypatch.setattr(ccifar10.CorruptedCIFAR10, "ensure_files", look)
    cells = list(read("table1-ccifar10").cells(tmp_path))
    assert missing_data(cells, {cell.folder: cell.config() for cell in cells}) == {}
    assert len(looked) == 4


@pytest.mark.parametrize("place", ["cifar-10-batches-py", "cifar10/train/cat", "train/truck"])
def test_cifar_is_found_by_a_look(place: str, no_data: Path) -> None:
    with pytest.raises(InputError, match="cannot be downloaded"):
        cifar10_images.ensure_cifar10(no_data, download=True)
    (no_data / place).mkdir(parents=True)
    cifar10_images.ensure_cifar10(no_data, download=False)


def test_published_folders_are_found_by_a_look(no_data: Path, tmp_path: Path) -> None:
    source = ccifar10.CorruptedCIFAR10(published=str(tmp_path / "mine"), minority_ratio=0.02)
    with pytest.raises(InputError, match="2pct/align does not exist"):
        source.ensure_files()
    for part in ("2pct/align", "2pct/conflict", "2pct/valid", "test"):
        (tmp_path / "mine" / part).mkdir(parents=True)
    source.ensure_files()


@pytest.mark.slow
def test_every_shipped_benchmark_can_be_asked_for_its_data(tmp_path: Path) -> None:
    for name in shipped():
        cell = next(read(name).cells(tmp_path))
        assert callable(build_source(cell.config()).ensure_files)


@pytest.mark.slow
def test_column_metrics_are_in_the_tables(write_grid: Any, command: Any, tmp_path: Path) -> None:
    path = write_grid(
        columns={"5": {}, "9": {"data": {"minority_ratio": 0.09}}}, metric="average", column_metrics={9: "minority"},
        seeds=1, paper={}, rows={"plain": {"method": {"name": "ERM"}}},
    )  # fmt: skip
    outcome = command(path, "--out", tmp_path / "out")
    assert outcome.status == 0 and "Average test accuracy (9: minority) in %" in outcome.out
    figures = {}
    for report in (tmp_path / "out").rglob("report.json"):
        options = yaml.safe_load((report.parent / "config.yaml").read_text())["data"]
        figures[options["minority_ratio"]] = json.loads(report.read_text())["test"]
    shown = next(line for line in outcome.out.splitlines() if line.startswith("| plain")).split("|")[3:5]
    assert float(shown[1]) == round(100 * figures[0.09]["minority"], 1)
    assert float(shown[0]) == round(100 * next(v for k, v in figures.items() if k != 0.09)["average"], 1)
