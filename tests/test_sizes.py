"""Files and functions stay small enough to be read at once."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
FILES = sorted(SOURCE.rglob("*.py"))

MOST_LINES, MOST_LINES_OF_A_FUNCTION = 250, 40


def test_no_file_is_long() -> None:
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in FILES}
    assert FILES and {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_function_is_long_without_its_signature_and_docstring() -> None:
    long = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                body = node.body[ast.get_docstring(node) is not None :]
                lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                if lines > MOST_LINES_OF_A_FUNCTION:
                    long[f"{path.relative_to(SOURCE)}: {node.name}"] = lines
    assert long == {}
