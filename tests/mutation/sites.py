"""Where cosmic-ray's operators apply, and one for declarations, without what is not worth it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import get_operator, operator_names

Position = tuple[int, int]
OWN = "own/"  # before the names of operators that are not cosmic-ray's
_INTEGER = re.compile(r"(Int\d+)([us])([lb])")
_UNUSED = re.compile(r'"\w*(pad|reserved|unused)\w*" /')
_NOT_USED = ("NoOp", "Variable")  # the one changes nothing, the others want to be told names


class FieldType(Operator):  # type: ignore[misc]
    """Reads an integer of a declaration in the other byte order, or with the other sign."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Position, Position]]:
        """Each such name once for each change of it."""
        for _ in self._others(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The name with another type's."""
        node.value = self._others(node)[index]
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """What cosmic-ray shows of an operator."""
        return (Example('"a" / Int16ul', '"a" / Int16ub'),)

    def _others(self, node: Any) -> list[str]:
        found = _INTEGER.fullmatch(node.value) if node.type == "name" else None
        field = node.search_ancestor("term")  # "name" / Int16ul, or "name" / Array(2, Int16ul)
        if found is None or field is None or _UNUSED.search(field.get_code()):
            return []
        size, sign, order = found.groups()
        signed = f"{size}{'s' if sign == 'u' else 'u'}{order}"
        return [signed] if size == "Int8" else [f"{size}{sign}{'bl'['lb'.index(order)]}", signed]


@dataclass(frozen=True, slots=True, order=True)
class Variant:
    """One way to change one site.

    Attributes:
        path: of the source, below the repository.
        start: line and column of the site.
        occurrence: which of the places of the operator in the file it is.
    """

    path: str
    start: Position
    operator: str
    occurrence: int

    def mutate(self, source: str) -> str:
        """The source with this change."""
        mutated: str | None = mutate_code(source, _operator(self.operator), self.occurrence)
        assert mutated is not None
        return mutated


def sites(root: Path, path: str) -> list[list[Variant]]:
    """The variants of each site of a file, in order of the sites."""
    source = (root / path).read_text()
    nodes = [node for node in ast_nodes(parso.parse(source)) if node.type != "string"]  # type: ignore[no-untyped-call, unused-ignore]
    left_out = list(_left_out(ast.parse(source)))
    found: dict[Position, list[Variant]] = {}
    for name in _operators():
        operator = _operator(name)
        places = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, start in enumerate(places):
            if not any(begin <= start < end for begin, end in left_out):
                found.setdefault(start, []).append(Variant(path, start, name, occurrence))
    return [found[start] for start in sorted(found)]


def statement_lines(source: str, line: int) -> tuple[range, bool]:
    """The lines of the statement at a line, a compound one's head alone; whether in a function."""
    lines, inside = range(line, line + 1), False
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or 0):
            continue
        body = getattr(node, "body", None)
        first = body[0].lineno if body else (node.end_lineno or node.lineno) + 1
        if isinstance(node, ast.FunctionDef) and line >= first:
            inside = True
        if line < first:
            lines = range(node.lineno, first)
    return lines, inside


@cache
def _operators() -> tuple[str, ...]:
    known = [name for name in operator_names() if not name.split("/")[1].startswith(_NOT_USED)]
    return (*known, f"{OWN}FieldType")


def _operator(name: str) -> Any:
    return FieldType() if name == f"{OWN}FieldType" else get_operator(name)()


def _left_out(tree: ast.Module) -> Iterator[tuple[Position, Position]]:
    """What is never evaluated or breaks every import: no test is the better for either."""
    for node in ast.walk(tree):
        for part in _parts_left_out(node):
            yield (
                (part.lineno, part.col_offset - isinstance(node, ast.ClassDef)),  # with the @
                (part.end_lineno or part.lineno, part.end_col_offset or 0),
            )
        if isinstance(node, ast.BinOp) and _is_field(node):
            start = (node.left.end_lineno or 0, node.left.end_col_offset or 0)
            yield start, (node.right.lineno, node.right.col_offset)


def _is_field(node: ast.BinOp) -> bool:
    """Whether this is `"name" / Type` of a declaration."""
    return isinstance(node.op, ast.Div) and isinstance(node.left, ast.Constant | ast.JoinedStr)


def _parts_left_out(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Annotations, blocks for type checkers, and the decorators of dataclasses."""
    if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation:
        yield node.annotation
    elif isinstance(node, ast.FunctionDef) and node.returns:
        yield node.returns
    elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        yield node.test
        yield from node.body
    elif isinstance(node, ast.ClassDef):
        yield from (one for one in node.decorator_list if "dataclass" in ast.unparse(one))
