"""Names in the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import ext4kit

PACKAGE = Path(ext4kit.__file__).parent


def test_a_public_class_has_its_name_alone() -> None:
    """A reader who meets a name looks it up once."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(PACKAGE)))
    assert len(homes) > 300
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}
