"""Every method, estimator and view has a card, and what a card says of options, stages and labels is so."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from logit_correction.attributes import ESTIMATORS
from logit_correction.attributes.base import AttributeEstimator
from logit_correction.methods import METHODS
from logit_correction.methods.base import Algorithm
from logit_correction.registry import resolve_any
from logit_correction.runs.parts import KINDS
from logit_correction.types import DataInfo
from logit_correction.views import VIEWS

DOCS = Path(__file__).parents[1] / "docs"
#: Arguments that are no options of the part itself.
NOT_OPTIONS = {"network", "info", "seed", "biased_network"}
READS_ATTRIBUTES = "**attributes of training rows**"


def cards(page: str) -> dict[str, dict[str, str]]:
    """Return heading -> row name -> text of the page's cards."""
    found = {}
    for heading, body in re.findall(r"^##+ (\w+)\n(.*?)(?=^##|\Z)", (DOCS / "cards" / page).read_text(), re.M | re.S):
        rows = dict(re.findall(r"^\| (\w[\w ]*) \| (.*) \|$", body, re.M))
        if rows:
            found[heading] = rows
    return found


METHOD_CARDS, ESTIMATOR_CARDS, VIEW_CARDS = cards("methods.md"), cards("estimators.md"), cards("views.md")
CARDS = {**METHOD_CARDS, **ESTIMATOR_CARDS}


def part(name: str) -> tuple[type[Any], bool]:
    """Return the class of a method or an estimator, and whether it is a method."""
    kind = "method" if name in METHODS else "attributes"
    return resolve_any(kind, name, KINDS[kind][1]), kind == "method"


def method(name: str) -> Algorithm:
    info = DataInfo(num_labels=2, num_rows=8, input_shape=(3, 8, 8))
    made: Algorithm = part(name)[0](HalvedNetwork, info)
    return made


class HalvedNetwork(torch.nn.Module):
    """A network with the two halves that DFA asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Flatten()
        self.head = torch.nn.Linear(192, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.features(inputs))
        return logits


def test_each_part_has_a_card_and_each_card_a_part() -> None:
    assert (set(METHOD_CARDS), set(ESTIMATOR_CARDS), set(VIEW_CARDS)) == (set(METHODS), set(ESTIMATORS), set(VIEWS))


@pytest.mark.parametrize("name", CARDS)
def test_options_of_a_card_are_those_of_the_class(name: str) -> None:
    options = [f"`{one}`" for one in inspect.signature(part(name)[0]).parameters if one not in NOT_OPTIONS]
    assert CARDS[name]["Options"] == (", ".join(options) or "none")


@pytest.mark.parametrize("name", METHOD_CARDS)
def test_stages_of_a_method_and_the_labels_that_it_reads(name: str) -> None:
    made = method(name)
    assert METHOD_CARDS[name]["Stages"] == str(made.num_stages)
    assert (READS_ATTRIBUTES in METHOD_CARDS[name]["Reads"]) == made.needs_attributes


@pytest.mark.parametrize("name", ESTIMATOR_CARDS)
def test_labels_that_an_estimator_reads(name: str) -> None:
    estimator: type[AttributeEstimator] = part(name)[0]
    assert (READS_ATTRIBUTES in ESTIMATOR_CARDS[name]["Reads"]) == estimator.needs_attributes


@pytest.mark.parametrize("name", VIEW_CARDS)
def test_a_view_looks_at_what_the_program_says(name: str) -> None:
    assert VIEW_CARDS[name]["Looks at"] == VIEWS[name][1]
    breadth = re.match(r"\d", VIEW_CARDS[name]["Breadth"])
    assert breadth is not None and int(breadth[0]) == resolve_any("view", name, VIEWS).breadth


@pytest.mark.parametrize("name", CARDS)
def test_figures_of_a_card_stand_in_the_results(name: str) -> None:
    results = (DOCS / "results.md").read_text() + (DOCS / "speed.md").read_text()
    rows = CARDS[name]["Figures"] + " " + CARDS[name]["Costs"]
    # Names of anchors and dotted paths hold no figures.
    figures = re.findall(r"(?<![\w.-])\d*\.\d+(?![\w.])", re.sub(r"\]\([^)]*\)", "]", rows))
    assert [figure for figure in figures if figure not in results] == []


@pytest.mark.parametrize("name", CARDS)
def test_a_card_has_all_its_rows_and_names_a_source(name: str) -> None:
    needed = {"In one line", "Assumes", "Reads", "Costs", "Fails when", "Options", "Figures", "Source"}
    assert needed <= set(CARDS[name]) and "api.md#" in CARDS[name]["Source"]
