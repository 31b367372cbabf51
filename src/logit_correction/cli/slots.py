"""What a command line names: parts of a run and the components inside them, each with options of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from logit_correction.cli.words import values_of
from logit_correction.config import PARTS
from logit_correction.errors import InputError


@dataclass(frozen=True)
class Slot:
    """A part of a run, or a component inside one, that was named: what the command line offers options of.

    Attributes:
        path: What its options begin with, such as ``method.attributes``.
        kind: Its kind, a key of ``runs.parts.KINDS``.
        name: The name of its class, or a dotted path.
        options: What the config file or the preset says of it; empty where that names another class.
    """

    path: str
    kind: str
    name: str
    options: dict[str, Any]


def find_slots(arguments: list[str], base: dict[str, Any], wants_help: bool) -> list[Slot]:
    """Return what was named, each part followed by its components.

    Raises:
        InputError: If data or method are missing, or there is no such class.
    """
    slots: list[Slot] = []
    names = values_of(arguments, {part: f"--{part}" for part in PARTS})
    for part in PARTS:
        options = dict(base.get(part, {}))
        old = options.pop("name", None)
        name = names.get(part, old)
        if name is None and not wants_help and part in ("data", "method"):
            raise InputError(f"--{part} is missing: give a name; `logit-correction list` shows them")
        if name is not None:
            from logit_correction.runs.parts import known_name  # heavy, and a plain --help names nothing

            name = known_name(part, name)
            slots += _with_components(Slot(part, part, name, options if name == old else {}), arguments)
    return slots


def _with_components(slot: Slot, arguments: list[str]) -> list[Slot]:
    """Return a slot and those of its components, as the arguments, the config or the defaults name them."""
    from logit_correction.runs.parts import as_choice, components_of, default_of, find_class, known_name

    cls, slots = find_class(slot.kind, slot.name), [slot]
    for argument, kind in components_of(cls).items():
        path = f"{slot.path}.{argument}"
        given = values_of(arguments, {"name": f"--{path}"}).get("name")
        known = as_choice(slot.options.get(argument, default_of(cls, argument)), path)
        if given in (None, "null") and (known is None or given == "null"):
            continue
        name = known_name(kind, str(given or (known and known.name)))
        options = known.options if known is not None and known.name == name else {}
        slots += _with_components(Slot(path, kind, name, options), arguments)
    return slots


def _empty(slots: list[Slot]) -> list[str]:
    """Return the parts, and the components inside what was named, of which none was named."""
    if not slots:  # nothing heavy for a plain --help
        return list(PARTS)
    from logit_correction.runs.parts import components_of, find_class

    inside = [f"{slot.path}.{name}" for slot in slots for name in components_of(find_class(slot.kind, slot.name))]
    named = {slot.path for slot in slots}
    return [path for path in (*PARTS, *inside) if path not in named]


def refuse_options_of_nothing(arguments: list[str], slots: list[Slot]) -> None:
    """Refuse options of a part or a component that nobody named, which would be of no effect.

    Raises:
        InputError: Names the option, and what to name.
    """
    for path in _empty(slots):
        for argument in arguments:
            if argument.startswith(f"--{path}."):
                raise InputError(f"{argument.partition('=')[0]} is of no effect without a name: give --{path} NAME too")


def own_options(slot: Slot, slots: list[Slot], parsed: dict[str, Any]) -> dict[str, Any]:
    """Return the parsed options of a slot without those of the slots inside it; None for components left empty."""
    level: Any = parsed
    for name in slot.path.split("."):
        level = level[name]
    inside = {other.path.removeprefix(f"{slot.path}.") for other in slots}
    empty = {path.removeprefix(f"{slot.path}.") for path in _empty(slots) if path.startswith(f"{slot.path}.")}
    own = {name: value for name, value in level.items() if name != "name" and name not in inside}
    return {name: None if name in empty else value for name, value in own.items()}
