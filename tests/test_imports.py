"""No two modules of the package import each other, not even for their types."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter

from tests.environment import ROOT

FOLDER = ROOT / "ext4kit"


def test_imports_have_no_circle() -> None:
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in FOLDER.rglob("*.py")
    }
    graph: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                whole = {f"{node.module}.{each.name}" for each in node.names}
                graph[name] |= (whole & files.keys()) or ({node.module or ""} & files.keys())
            elif isinstance(node, ast.Import):
                graph[name] |= {each.name for each in node.names} & files.keys()
    assert sum(map(len, graph.values())) > 1000
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None
