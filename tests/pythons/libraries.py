"""The oldest libraries that pyproject.toml allows, for each Python."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

PRE_RELEASES = ("numpy", "click", "rich", "construct")  # whose next versions are tried
_EXTRAS = ("luks", "zstd")


def oldest_libraries(project: Path, minor: int) -> list[str]:
    """`name==version` of each library of the program, by its lower bound.

    Args:
        project: folder with pyproject.toml.
        minor: of the Python 3 that they are for; bounds differ where wheels begin later.
    """
    declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    extras = declared["optional-dependencies"]
    texts = [*declared["dependencies"], *(text for name in _EXTRAS for text in extras[name])]
    environment = {"python_version": f"3.{minor}", "python_full_version": f"3.{minor}.0"}
    lowest: dict[str, Version] = {}
    for one in map(Requirement, texts):
        if one.marker is None or one.marker.evaluate(environment):
            bounds = [Version(each.version) for each in one.specifier if each.operator == ">="]
            lowest[one.name] = max([*bounds, lowest.get(one.name, Version("0"))])
    return [f"{name}=={version}" for name, version in sorted(lowest.items())]
