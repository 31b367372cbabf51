"""Between two steps of an epoch the loop reads no value: a GPU never stands still.

The steps' own part is tested of every method and option in ``tests/methods/test_contract.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from logit_correction.data.augment import CropFlip

from ..conftest import benchmark_script
from ..waiting import Read

inside_steps = benchmark_script("gpu_steps").inside_steps

PAPER = {
    "attributes": {"name": "Online"},
    "prior": {"name": "Moving", "estimator": "cell"},
    "mixing": {"name": "GroupMixUp"},
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "JTT": ("JTT", {"up_weight": 2}),
    "LC, preset paper": ("LC", PAPER),
    "LC, given attributes": ("LC", {"attributes": {"name": "TrueAttributes"}}),
}


def reads(trainer: Any, table: Any, method: Any, options: dict[str, Any]) -> tuple[list[str], int]:
    """Train and return what the loop read inside its steps, and how often it was looked at."""
    fit = trainer.fit(table, method, options=options, batch_size=8, log_every=10**6, gradient_clip=1.0)
    read, switched = Read(), [False]

    def switch(on: bool) -> None:
        if on and not switched[-1]:
            read.__enter__()
        elif switched[-1] and not on:
            read.__exit__(None, None, None)
        switched.append(on)

    with inside_steps(switch):
        fit.run()
    assert fit.progress.total_steps >= 18
    return read.operations, sum(switched)


@pytest.fixture
def table(make_table: Any) -> Any:
    """48 rows that are augmented in batches."""
    return replace(make_table(images=True), augment=CropFlip(padding=1))


@pytest.mark.parametrize("case", CASES)
def test_the_loop_reads_no_value_inside_an_epoch(trainer: Any, table: Any, case: str) -> None:
    method, options = CASES[case]
    read, looked = reads(trainer, table, method, options)
    assert read == [] and looked >= 12  # all of an epoch's six steps but the first and the last
