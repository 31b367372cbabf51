"""Packages that only an extra installs."""

from __future__ import annotations

import importlib.metadata
import sys
from types import ModuleType

import pytest

from logit_correction.extras import version_only


def test_a_package_whose_version_is_asked_for_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hypothesis", raising=False)
    with version_only("hypothesis"):
        import hypothesis

        assert hypothesis.__version__ == importlib.metadata.version("hypothesis") and not hasattr(hypothesis, "given")
    assert "hypothesis" not in sys.modules


def test_what_is_imported_already_or_not_installed_stays_as_it_is() -> None:
    with version_only("pytest"):
        assert sys.modules["pytest"] is pytest
    assert sys.modules["pytest"] is pytest
    with version_only("no_such_package"):
        assert "no_such_package" not in sys.modules


def test_what_somebody_else_puts_in_its_place_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hypothesis", raising=False)
    other = ModuleType("hypothesis")
    with version_only("hypothesis"):
        sys.modules["hypothesis"] = other
    assert sys.modules.pop("hypothesis") is other
