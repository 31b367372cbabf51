"""YAML files of options, read without running code, without expanding bombs, and with words as they were written."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from logit_correction.errors import InputError
from logit_correction.formatting import format_option, format_reason
from logit_correction.paths import reject_special_file

#: Limit on a file's characters, and on its values once all aliases are expanded.
MAX_YAML_SIZE = 2**20


class UnquotedWord(str):
    """A word of a YAML file that YAML takes for another value than its text, such as no, on, 017 or 1.50.

    Attributes:
        value: What YAML takes it for.
    """

    value: Any


def read_yaml_file(
    path: Path, content: str = "options such as `method: LC`, one a line", as_written: bool = False
) -> dict[str, Any]:
    """Read a YAML file of a mapping.

    Args:
        path: The file.
        content: What it must hold, for messages.
        as_written: Whether words that YAML takes for other values stay ``UnquotedWord``: so a column can be
            called ``no``.

    Raises:
        InputError: It does not exist, cannot be read, is too large, or holds no mapping.
    """
    import yaml

    try:
        text = reject_special_file(path).read_text(encoding="utf-8")
        loader_class = _make_yaml_loader_class() if as_written else yaml.SafeLoader
        root = yaml.compose(text, loader_class) if len(text) <= MAX_YAML_SIZE else None
        if len(text) > MAX_YAML_SIZE or (root and _count_expanded_values(root, {}) > MAX_YAML_SIZE):
            raise ValueError("it is too large, or its aliases make it so")
        values = loader_class("").construct_document(root) if root else None
    except FileNotFoundError as error:
        audit = f"; an audit writes it where it finds a shortcut, or where you name one by {format_option('shortcut')}"
        raise InputError(f"{path} does not exist{audit if path.name == 'fix.yaml' else ''}") from error
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"{path} cannot be read as YAML ({format_reason(error)}): give {content}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: it must hold {content}")
    return values


@cache
def _make_yaml_loader_class() -> Any:
    """Return a safe loader of YAML that makes ``UnquotedWord`` of words."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    def construct_word(loader: Any, node: Any) -> Any:
        """Return an ``UnquotedWord`` where the value of a node is another than its text."""
        value = yaml.SafeLoader.yaml_constructors[node.tag](loader, node)
        is_its_text = node.value.lower() == str(value).lower() and not node.tag.endswith("timestamp")
        if node.style is not None or is_its_text:
            return value
        word = UnquotedWord(node.value)
        word.value = value
        return word

    for kind in ("bool", "int", "float", "timestamp"):
        Loader.add_constructor(f"tag:yaml.org,2002:{kind}", construct_word)
    return Loader


def _count_expanded_values(node: Any, known_counts: dict[int, float]) -> float:
    """Return the number of values in a node with all aliases expanded; infinity if it contains itself.

    Raises:
        ValueError: It gives a name twice, of which YAML would drop the first.
    """
    if id(node) not in known_counts:
        known_counts[id(node)] = math.inf
        names = [name.value for name, _ in node.value if name.id == "scalar"] if node.id == "mapping" else []
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"{twice} stands there twice")
        parts = chain.from_iterable(node.value) if node.id == "mapping" else node.value
        counts = (_count_expanded_values(part, known_counts) for part in parts if not isinstance(part, str))
        known_counts[id(node)] = 1 + sum(counts)
    return known_counts[id(node)]
