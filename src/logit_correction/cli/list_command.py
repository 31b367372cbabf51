"""``logit-correction list``: what there is, a line each. Imports nothing heavy."""

from __future__ import annotations

from logit_correction.cli.arguments import Parser
from logit_correction.cli.show import lines_of

KINDS = ("methods", "estimators", "views", "presets", "data", "networks", "rules", "loggers", "formats", "benchmarks")


def main(arguments: list[str]) -> int:
    """Print the names."""
    parser = Parser("list", "What there is, a line each.")
    parser.add_argument("kind", nargs="?", choices=KINDS, help="only these")
    kind = parser.parse_args(arguments).kind
    for name in (kind,) if kind else KINDS:
        print(f"{name}:")
        print(lines_of(_entries(name)))
    return 0


def _entries(kind: str) -> list[tuple[str, str]]:
    from logit_correction.attributes import ESTIMATORS
    from logit_correction.data import SOURCES
    from logit_correction.exporting import FORMATS
    from logit_correction.methods import METHODS
    from logit_correction.networks import NETWORKS
    from logit_correction.presets import PRESETS
    from logit_correction.training import LOGGERS, RULES
    from logit_correction.views import VIEWS

    if kind == "benchmarks":
        from logit_correction.bench import shipped

        return list(shipped().items())
    if kind == "presets":
        return list(PRESETS.items())
    known = {
        "methods": METHODS,
        "estimators": ESTIMATORS,
        "views": VIEWS,
        "data": SOURCES,
        "networks": NETWORKS,
        "rules": RULES,
        "loggers": LOGGERS,
        "formats": FORMATS,
    }[kind]
    return [(name, line) for name, (_, line) in known.items()]
