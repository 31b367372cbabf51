"""Presets: named options of a run under all others, one YAML file each, and one line here. Imports nothing heavy."""

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


def with_preset(flat: dict[str, Any]) -> dict[str, Any]:
    """Return options with those of the preset that they name under them.

    Raises:
        InputError: If there is no such preset, or it is for another method.
    """
    if "preset" not in flat:
        return flat
    rest = {name: value for name, value in flat.items() if name != "preset"}
    base = load_preset(flat["preset"])
    for part in ("data", "method"):
        given = rest.get(part)
        name = given.get("name") if isinstance(given, dict) else given
        if part in base and name is not None and not _same_name(name, base[part]["name"]):
            raise InputError(
                f"preset {flat['preset']} is for {part} {base[part]['name']}, not {name}: leave one of them out"
            )
    return merge(base, rest)


def merge(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``change`` over it, mapping by mapping; a component of another name replaces the old one.

    >>> merge({"data": {"name": "Digits", "severity": 4}}, {"data": {"severity": 1}})
    {'data': {'name': 'Digits', 'severity': 1}}
    >>> merge({"data": {"name": "Digits", "severity": 4}}, {"data": "ColoredMNIST"})
    {'data': {'name': 'ColoredMNIST'}}
    >>> merge({"method": "StagedLC"}, {"method": {"attributes": {"splits": 1}}})
    {'method': {'name': 'StagedLC', 'attributes': {'splits': 1}}}
    """
    merged = dict(base)
    for key, value in change.items():
        old = merged.get(key)
        if isinstance(value, str) and isinstance(old, dict) and "name" in old:
            value = {"name": value}
        if isinstance(value, dict) and isinstance(old, str):
            old = {"name": old}
        if not (isinstance(value, dict) and isinstance(old, dict)):
            merged[key] = value
            continue
        another = "name" in value and "name" in old and not _same_name(value["name"], old["name"])
        merged[key] = value if another else merge(old, value)
    return merged


def _same_name(name: Any, other: Any) -> bool:
    """Return whether two names are the same but for capital letters."""
    return str(name).lower() == str(other).lower()
