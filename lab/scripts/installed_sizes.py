"""Says how many megabytes the package and each of its extras take once they are installed.

    pip install 'logit-correction[test,docs,texts,photos]'
    python lab/scripts/installed_sizes.py

Counts the files of all distributions that an extra asks for, directly or not, and that the package alone does not. An
extra of which something is not installed is named, not counted.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement

PACKAGE = "logit-correction"


def needed(name: str, extras: frozenset[str], seen: dict[str, Distribution], asked: set[tuple[str, str]]) -> None:
    """Add to ``seen`` the distribution and all that it needs with these extras.

    Raises:
        PackageNotFoundError: If one is not installed.
    """
    seen[name] = distribution(name)
    for text in seen[name].requires or []:
        requirement = Requirement(text)
        for extra in extras or {""}:
            marker = requirement.marker
            below = re.sub(r"[-_.]+", "-", requirement.name).lower()
            if (marker is None or marker.evaluate({"extra": extra})) and (below, extra) not in asked:
                asked.add((below, extra))
                needed(below, frozenset(requirement.extras), seen, asked)


def closure(extra: str = "") -> dict[str, Distribution]:
    """Return all that the package needs with an extra, the package among it."""
    seen: dict[str, Distribution] = {}
    needed(PACKAGE, frozenset({extra}), seen, set())
    return seen


def megabytes(found: Distribution) -> float:
    """Return the size of a distribution's files on the disk."""
    paths = (found.locate_file(file) for file in found.files or [])
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6  # type: ignore[attr-defined]


def main() -> None:
    base = closure()
    sizes = sorted(((megabytes(one), name) for name, one in base.items() if name != PACKAGE), reverse=True)
    largest = ", ".join(f"{name} {size:.0f}" for size, name in sizes[:4])
    print(f"Python {sys.version.split()[0]}, torch {base['torch'].version}")
    print(f"{'package':12}{sum(size for size, _ in sizes):7.0f} MB in {len(sizes)} distributions ({largest})")
    for extra in sorted(distribution(PACKAGE).metadata.get_all("Provides-Extra") or []):
        try:
            more = {name: one for name, one in closure(extra).items() if name not in base}
        except PackageNotFoundError as error:
            print(f"{extra:12}    not counted: {error.name} is not installed")
            continue
        print(f"{extra:12}{sum(map(megabytes, more.values())):7.0f} MB in {len(more)} more distributions")


if __name__ == "__main__":
    main()
