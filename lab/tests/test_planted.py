"""Small sets with a planted shortcut: splits, shares, controls, and what the marks change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency

from logit_correction.data.table import DataTable
from logit_correction_lab.sources import cifar10_images
from logit_correction_lab.sources.planted import SETS, Planted

from .conftest import needs_mnist

#: Sets that need no files, the sets of photos, and those of MNIST.
PHOTOS = [name for name, chosen in SETS.items() if chosen.kind == "photos"]
MNIST = [name for name, chosen in SETS.items() if chosen.kind == "mnist"]
OWN = [name for name in SETS if name not in (*PHOTOS, *MNIST)]

#: Of sets that are drawn alike one; the slow tests take the others.
FIRST = ("digits", "scanner", "column", "signature", "wine", "corner", "photos")
ALL = [
    *(pytest.param(name, marks=[] if name in FIRST else pytest.mark.slow) for name in (*OWN, *PHOTOS)),
    *(pytest.param(name, marks=[pytest.mark.slow, *needs_mnist]) for name in MNIST),
]


PLANTED = [case for case in ALL if SETS[str(case.values[0])].mark is not None]


@pytest.fixture(scope="module")
def small_cifar(tmp_path_factory: pytest.TempPathFactory) -> cifar10_images.Cifar10:
    """120 training and 40 test images of each class, each of another mean brightness and with a texture."""
    draw = np.random.default_rng(0)
    label = np.concatenate([np.arange(10).repeat(120), np.arange(10).repeat(40)])
    values = draw.integers(90, 160, (len(label), 3, 32, 32)).astype(np.uint8)
    return cifar10_images.Cifar10(values, label, 1200, "CIFAR-10, drawn for a test")


@pytest.fixture(scope="module")
def tables() -> dict[str, DataTable]:
    """The sets that were built, which no test changes."""
    return {}


@pytest.fixture
def build(
    small_cifar: cifar10_images.Cifar10, tables: dict[str, DataTable], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., DataTable]:
    """Builds a set, photos from the small files; anew where a seed is given, else once for all tests."""
    monkeypatch.setattr("logit_correction_lab.sources.planted.read_cifar10", lambda root, download: small_cifar)

    def built(name: str, **options: Any) -> DataTable:
        if SETS[name].kind == "photos":
            options = {"rows": 400} | options
        if SETS[name].kind in ("texts", "people"):
            options = {"rows": 600} | options
        key = f"{name} {options}"
        if "seed" in options or key not in tables:
            tables[key] = Planted(set=name, **options).build().check()
        return tables[key]

    return built


@pytest.mark.parametrize("name", ALL)
def test_splits_share_no_row_and_hold_all_labels(name: str, build: Callable[..., DataTable]) -> None:
    table = build(name)
    rows = torch.cat(list(table.split.values()))
    assert len(rows.unique()) == len(rows) == len(table.label)
    for part in table.split.values():
        assert (torch.bincount(table.label[part], minlength=len(table.label_names)) > 0).all()
    train, valid = (len(table.split[part]) for part in ("train", "valid"))
    assert abs(valid / (train + valid) - 0.2) < 0.02


@pytest.mark.parametrize("name", PLANTED)
def test_the_test_split_is_balanced_over_label_and_mark(name: str, build: Callable[..., DataTable]) -> None:
    for control in (False, True):
        counts = build(name, control=control).count_groups("test")
        assert counts.shape[0] == counts.shape[1]
        assert counts.unique().numel() == 1 and int(counts[0, 0]) > 0


@pytest.mark.parametrize("name", PLANTED)
def test_training_and_validation_have_the_minority_ratio(name: str, build: Callable[..., DataTable]) -> None:
    table = build(name, minority_ratio=0.2)
    assert table.correlation is not None and table.correlation.kind == "one-to-one"
    for part in ("train", "valid"):
        counts = table.count_groups(part)
        assert (counts.sum(1) - counts.diagonal()).tolist() == [round(0.2 * int(n)) for n in counts.sum(1)]


@pytest.mark.parametrize("name", PLANTED)
def test_marks_of_a_control_are_independent_of_the_label(name: str, build: Callable[..., DataTable]) -> None:
    table = build(name, control=True)
    biased = build(name)
    counts = table.count_groups("train").numpy()
    assert chi2_contingency(counts).pvalue > 0.001
    assert chi2_contingency(biased.count_groups("train").numpy()).pvalue < 1e-20
    assert table.correlation is None and "at random" in str(table.metadata["planted"])
    assert torch.equal(table.label, biased.label)  # the same rows, otherwise marked
