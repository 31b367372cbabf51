"""What the commands print."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any


def print_json(content: dict[str, Any]) -> None:
    """Print strict JSON."""
    json.dump(content, sys.stdout, indent=1, allow_nan=False, ensure_ascii=False)
    print()


def lines_of(names: Sequence[tuple[str, str]]) -> str:
    """Return names and their descriptions, a line each."""
    width = max((len(name) for name, _ in names), default=0) + 2
    return "\n".join(f"  {name:<{width}}{text}" for name, text in names)
