"""Which modules pytest does not look into for examples, those of packages that are not installed, encoders, searches.

What a test trains must not depend on the extras that are installed, so none that is not asked for is taken.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

os.environ["LOGIT_CORRECTION_ENCODERS"] = "none"

FOLDER = Path(__file__).parent / "src/logit_correction/integrations"

collect_ignore = []
if find_spec("lightning") is None and find_spec("pytorch_lightning") is None:
    collect_ignore += [f"{FOLDER}/lightning.py"]


@contextmanager
def _searching(steps_on_images: int, steps: int) -> Iterator[None]:
    from logit_correction.shortcuts import auto

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto, "STEPS_ON_IMAGES", steps_on_images)
        patch.setattr(auto, "STEPS", steps)
        yield


@pytest.fixture(autouse=True, scope="session")
def whole_search() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Searches train networks for a few steps, since plain shortcuts show as well; in this context, for all steps."""
    from logit_correction.shortcuts import auto

    whole = partial(_searching, auto.STEPS_ON_IMAGES, auto.STEPS)
    with _searching(60, 100):
        yield whole
