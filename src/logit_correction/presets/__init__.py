"""Presets: named options of a run, one YAML file each, and one line here. Imports nothing heavy."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml

from logit_correction.errors import InputError, did_you_mean

#: Name -> one line.
PRESETS: dict[str, str] = {
    "paper": "the training of the paper: two networks side by side, a moving prior, Group MixUp",
    "staged": "cross-fitted biased networks first, then logit correction; what StagedLC is",
}


def load_preset(name: str) -> dict[str, Any]:
    """Return the options of a preset, such as ``{"method": {"name": "LC", ...}}``.

    Raises:
        InputError: If there is none of this name.

    >>> load_preset("staged")["method"]["attributes"]["name"]
    'CrossFitted'
    """
    if name not in PRESETS:
        hint = did_you_mean(str(name), PRESETS)
        raise InputError(f"there is no preset {name!r}{hint}: take one of {', '.join(PRESETS)}")
    text = files("logit_correction.presets").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    options: dict[str, Any] = yaml.safe_load(text)
    return options
