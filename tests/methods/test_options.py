"""No option is ignored: another value of any option of a method or component changes what is trained.

Where an option does not apply it is refused, which the tests of each class show. Here every one is walked in a setting
in which it applies; a new option without such a case fails.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric

from logit_correction import ComponentConfig, RunConfig, TrainingConfig, load, train
from logit_correction.correlation import Correlation
from logit_correction.data.table import DataTable
from logit_correction.methods import METHODS
from logit_correction.networks.small import MLP, Linear
from logit_correction.registry import resolve
from logit_correction.runs.assemble import GIVEN, KINDS
from logit_correction.runs.train import training_rows
from logit_correction.training.display import Display
from logit_correction.training.fit import Fit

Options = dict[str, Any]

ONLINE = {"name": "Online"}
AHEAD = {"name": "Online", "head_start_epochs": 1}
HALVES = {"name": "CrossFitted", "splits": 1}
HIDDEN = {"name": "CrossFitted", "view": "inputs", "head": "hidden layer", "epochs": 2}
LINEAR = {"name": "CrossFitted", "view": "colour"}
TRUE = {"name": "TrueAttributes"}
CELLS = {"attributes": ONLINE, "prior": {"name": "Moving"}}
KNOWN, IMAGES, PLAIN, SEVERAL = "fewer attributes than labels", "images", "features", "several values"


def _lc(part: str, context: Options, *changes: Options, data: str = PLAIN) -> list[tuple[str, Options, Options, str]]:
    """Cases of a component of LC: under ``part`` it has the options of ``context``, and then a change of one."""
    outer = {} if part == "attributes" else {"attributes": TRUE}
    return [("LC", {**outer, part: context}, {**outer, part: {**context, **change}}, data) for change in changes]


#: (method, options, the same with one changed, data).
CASES: list[tuple[str, Options, Options, str]] = [
    ("LC", {"attributes": TRUE}, {"attributes": ONLINE}, PLAIN),
    ("LC", {"attributes": TRUE}, {"attributes": TRUE, "mixing": "NoMixing"}, PLAIN),
    ("LC", {"attributes": TRUE}, {"attributes": TRUE, "strength": 0.5}, PLAIN),
    ("LC", {"attributes": TRUE}, {"attributes": TRUE, "oversampling": 0.5}, PLAIN),
    ("StagedLC", {}, {"attributes": TRUE}, PLAIN),
    ("StagedLC", {}, {"prior": {"name": "Counted", "smoothing": 5.0}}, PLAIN),
    ("StagedLC", {}, {"mixing": "NoMixing"}, PLAIN),
    ("StagedLC", {}, {"strength": 0.5}, PLAIN),
    ("StagedLC", {}, {"oversampling": 0.5}, PLAIN),
    ("Reweighting", {"attributes": TRUE}, {"attributes": ONLINE}, PLAIN),
    ("Reweighting", {"attributes": TRUE}, {"attributes": TRUE, "prior": {"name": "Counted", "smoothing": 5.0}}, PLAIN),
    ("GroupDRO", {}, {"attributes": HALVES}, PLAIN),
    ("GroupDRO", {}, {"step_size": 0.5}, PLAIN),
    ("GroupDRO", {}, {"adjustment": 2.0}, PLAIN),
    ("GroupDRO", {}, {"balanced": False}, PLAIN),
    *[
        ("LfF", {}, {name: value}, PLAIN)
        for name, value in {
            "q": 0.2,
            "momentum": 0.1,
            "biased_learning_rate_scale": 0.1,
            "biased_input_dropout": 0.5,
        }.items()
    ],
    ("JTT", {}, {"identification_epochs": 2}, PLAIN),
    ("JTT", {}, {"up_weight": 3}, PLAIN),
    ("JTT", {}, {"identification_learning_rate": 1e-4}, PLAIN),
    ("JTT", {}, {"identification_schedule": "cosine"}, PLAIN),
    *[
        ("DFA", {"swap_from_epoch": 1.0}, {"swap_from_epoch": 1.0, name: value}, PLAIN)
        for name, value in {
            "q": 0.2,
            "momentum": 0.1,
            "lambda_dis": 1.0,
            "lambda_swap_b": 1.0,
            "lambda_swap": 5.0,
            "swap_from_epoch": 0.0,
        }.items()
    ],
    *_lc("attributes", {"name": "Auto"}, {"shortcut": ["column:hint"]}, {"rows": 120}, {"views": ["inputs"]}),
    *_lc("attributes", {"name": "Auto"}, {"legitimate": ["column:hint"]}, {"epochs": 1}),
    *_lc(
        "attributes",
        ONLINE,
        {"q": 0.2},
        {"gce_form": "weighted"},
        {"q_ramp_up_epochs": 3.0},
        {"head_start_epochs": 1},
        {"epochs": 1},
        {"input_dropout": 0.5},
        {"temperature": 0.2},
        {"learning_rate_scale": 0.1},
        {"schedule": "none"},
    ),
    *_lc("attributes", ONLINE, {"pooling": 2}, data=IMAGES),
    *_lc("attributes", ONLINE, {"correlation": "known"}, data=KNOWN),
    *_lc(
        "attributes",
        HALVES,
        {"splits": 2},
        {"rounds": 1},
        {"odds": 5.0},
        {"epochs": 1},
        {"learning_rate": 1e-4},
        {"q": 0.1},
        {"gce_form": "weighted"},
        {"q_ramp_up": 0.0},
        {"input_dropout": 0.5},
        {"view": "inputs"},
    ),
    *_lc("attributes", {**HALVES, "rounds": 1}, {"relabel_odds": 1.0}),
    *_lc("attributes", {"name": "CrossFitted", "view": "inputs"}, {"head": "hidden layer"}),
    *_lc("attributes", HALVES, {"correlation": "known"}, data=KNOWN),
    *_lc("attributes", {"name": "Given", "column": "hint"}, {"column": "other"}),
    *_lc(
        "attributes", {"name": "Clusters", "attributes": AHEAD}, {"weights": "size"}, {"momentum": 0.01}, data=SEVERAL
    ),
    *_lc("attributes", {"name": "Clusters", "attributes": HIDDEN}, {"attributes": LINEAR | {"view": "inputs"}}),
    *_lc("prior", {"name": "Counted"}, {"smoothing": 5.0}),
    *[
        ("LC", CELLS, {**CELLS, "prior": {"name": "Moving", **change}}, PLAIN)
        for change in ({"averaging": "batch"}, {"momentum": 0.1}, {"floor": 0.2}, {"estimator": "cell"})
    ],
    *_lc("mixing", {"name": "GroupMixUp"}, {"rows": "minority-rows"}, {"prior": "product"}, {"limit": 0.2}),
    *_lc("mixing", {"name": "GroupMixUp"}, {"ramp_up_epochs": 0.0}, {"place": "features"}),
    *_lc("mixing", {"name": "IndependentMixUp"}, {"limit": 0.1}, {"place": "features"}),
]

#: Not walked here, and where it is.
ELSEWHERE = {
    ("Given", "file"): "tests/attributes/test_given.py",
    ("Auto", "run"): "tests/attributes/test_auto.py",
    ("Auto", "predictions"): "tests/auditing/test_audit.py",
}

SOURCES: dict[str, Options] = {
    PLAIN: {},
    IMAGES: {"images": True},
    KNOWN: {"correlation": Correlation.from_table([[0], [0], [1]])},
    SEVERAL: {"correlation": Correlation.from_table([[0, 1], [2], [3, 4]])},
}


def _changed(options: Options, other: Options) -> Options:
    return {key: value for key, value in other.items() if key not in options or options[key] != value}


def walked() -> set[tuple[str, str]]:
    """The options that the cases change, by the class that has them."""
    found = set()
    for method, options, other, _ in CASES:
        for key, value in _changed(options, other).items():
            found.add((method, key))
            inner, changed = options.get(key), value
            while isinstance(inner, dict) and isinstance(changed, dict) and inner["name"] == changed["name"]:
                name, differing = inner["name"], _changed(inner, changed)
                found |= {(name, option) for option in differing}
                inner, changed = inner.get("attributes"), changed.get("attributes")
    return found


def test_every_option_is_walked() -> None:
    wanted = set()
    for kind in ("method", "attributes", "prior", "mixing"):
        for name in KINDS[kind][1]:
            names = inspect.signature(resolve(kind, name, KINDS[kind][1])).parameters
            wanted |= {(name, option) for option in names if option not in GIVEN[kind]}
    assert wanted - walked() - set(ELSEWHERE) == set()


def fingerprint(method: str, options: Options, table: DataTable, made: Callable[..., Options], folder: Path) -> str:
    """What was trained, and what is told of it."""
    folder.mkdir()
    cls = resolve("method", method, METHODS)
    arguments = {"biased_network": lambda: Linear(table.info), **made(cls, options)}
    arguments = {key: value for key, value in arguments.items() if key in inspect.signature(cls).parameters}
    algorithm = cls(lambda: MLP(table.info, hidden=(8,)), table.info, seed=3, **arguments)
    algorithm.setup(training_rows(table, algorithm, 3, None))
    config = TrainingConfig(epochs=3, batch_size=32, learning_rate=1e-2, seed=3)
    Fit(algorithm, table, config, Fabric(accelerator="cpu"), folder / "resume.pt", Display()).run()
    evidence = None if algorithm.attributes is None else algorithm.attributes.evidence
    weights = {k: v.tolist() for k, v in algorithm.state_dict().items() if isinstance(v, torch.Tensor)}
    return json.dumps([weights, evidence])


@pytest.mark.parametrize(
    ("method", "options", "other", "data"),
    [pytest.param(*case, id=f"{case[0]} {_changed(case[1], case[2])} {case[3]}") for case in CASES],
)
def test_another_value_changes_what_is_trained(
    method: str, options: Options, other: Options, data: str, make_table, made, tmp_path: Path
) -> None:
    table = make_table(train=160, **SOURCES[data])
    names = np.array([f"value {int(value)}" for value in table.attribute])
    columns = {"hint": names, "other": np.roll(names, 1)}
    table = replace(table, columns=columns)
    one, changed = (
        fingerprint(method, chosen, table, made, tmp_path / str(i)) for i, chosen in enumerate((options, other))
    )
    assert one != changed


def test_another_biased_network_changes_what_is_trained(tmp_path: Path) -> None:
    def weights(biased: str | None) -> torch.Tensor:
        folder = tmp_path / str(biased)
        config = RunConfig(
            ComponentConfig("Planted", {"set": "column", "rows": 200}),
            ComponentConfig("LC", {"attributes": "Online"}),
            ComponentConfig("MLP", {"hidden": [8]}),
            biased_network=None if biased is None else ComponentConfig(biased),
            training=TrainingConfig(epochs=2, batch_size=32, device="cpu"),
        )
        train(config, folder, page=False)
        return torch.cat([value.flatten() for value in load(folder).algorithm.network.state_dict().values()])

    assert not torch.equal(weights(None), weights("Linear"))
