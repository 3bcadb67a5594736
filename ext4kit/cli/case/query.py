"""`ext4kit case query`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

import click

from ext4kit.cases.database import Answer, CaseDatabase
from ext4kit.cases.folder import CaseFolder
from ext4kit.cases.lines import CaseAnswerRecord
from ext4kit.cases.queries import QUERIES, Parameter, Query, Value, find_query
from ext4kit.cli.case.common import case_option
from ext4kit.cli.options import CONTEXT, json_option
from ext4kit.cli.telling import tell_line
from ext4kit.errors import RequestError
from ext4kit.report.records import write_lines, write_records
from ext4kit.report.safe import printable_text
from ext4kit.report.tables import table_lines
from ext4kit.report.times import time_text
from ext4kit.times import parse_moment
from ext4kit.zones import UTC

_EXAMPLE = """\b
Examples:
  ext4kit case query
  ext4kit case query shared_files
  ext4kit case query activity since=2026-03-01T22:00 until=2026-03-02T06:00
  ext4kit case query files_by_name 'name=*.php' --limit 0
  ext4kit case query files_by_owner uid=33 --json
"""
_TIMES = frozenset(["time", "atime", "mtime", "ctime", "crtime", "dtime"])  # columns of times
_BYTES = "_bytes"  # ends the names of columns with the bytes of a name


@click.command("query", context_settings=CONTEXT, epilog=_EXAMPLE)
@click.argument("name", required=False)
@click.argument("given", metavar="[PARAMETER=VALUE]...", nargs=-1)
@case_option
@click.option("--limit", type=click.IntRange(0), default=100, show_default=True, metavar="N",
              help="List so many rows; 0 for all.")  # fmt: skip
@json_option
def command(
    name: str | None, given: tuple[str, ...], case: CaseFolder, limit: int, json: bool
) -> None:
    """Ask the database of the case; without NAME, list the questions and their parameters.

    Times are given as for other commands, in UTC: 2026-03-01T18:00, @1772388000, or 2h for two
    hours ago. Any program for SQLite opens case.sqlite; docs/case-database.md describes its tables
    and views.
    """
    if name is None:
        write_lines(chain.from_iterable(map(_described, QUERIES)))
        return
    query = find_query(name)
    values = _values(query, given)
    if not case.database.exists():
        raise RequestError("nothing was exported yet; `ext4kit case run` does it")
    with CaseDatabase(case.database) as database:
        if query.needs_refresh:
            database.refresh()
        answer = database.query(name, values, limit + 1 if limit else None)
        if json:
            write_records(_record(name, answer.columns, row) for row in _limited(answer, limit))
        else:
            write_lines(_table(answer, limit))


def _described(query: Query) -> list[str]:
    lines = [f"{query.name}", f"    {query.help}"]
    for each in query.parameters:
        needed = "" if each.is_required else " (optional)"
        lines.append(f"    {each.name}=  {each.help}{needed}")
    return lines


def _values(query: Query, given: Sequence[str]) -> dict[str, Value]:
    """The values of the parameters.

    Raises:
        RequestError: one is not NAME=VALUE, or no value of its kind.
    """
    kinds = {each.name: each for each in query.parameters}
    found: dict[str, Value] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals:
            raise RequestError(f"{one!r} is not PARAMETER=VALUE")
        found[name] = _value(kinds[name], text) if name in kinds else text
    return found


def _value(parameter: Parameter, text: str) -> Value:
    try:
        if parameter.kind == "integer":
            return int(text)
        if parameter.kind == "time":
            return parse_moment(text, time.time_ns(), UTC)
    except ValueError as error:
        what = "a number" if parameter.kind == "integer" else "a time such as 2026-03-01T18:00"
        raise RequestError(f"{parameter.name}: {text!r} is not {what}") from error
    return text


def _limited(answer: Answer, limit: int) -> list[tuple[object, ...]]:
    rows = list(islice(answer.rows, limit + 1 if limit else None))
    if limit and len(rows) > limit:
        tell_line(f"note: the first {limit:,} rows; --limit 0 lists all")
        del rows[limit:]
    return rows


def _record(name: str, columns: Sequence[str], row: Sequence[Any]) -> CaseAnswerRecord:
    values = (value.hex() if isinstance(value, bytes) else value for value in row)
    return {"record": "case answer", "query": name, "row": dict(zip(columns, values, strict=True))}


def _table(answer: Answer, limit: int) -> list[str]:
    shown = [at for at, name in enumerate(answer.columns) if not name.endswith(_BYTES)]
    columns = [answer.columns[at] for at in shown]
    rows = _limited(answer, limit)
    cells = [[_cell(answer.columns[at], row[at]) for at in shown] for row in rows]
    return [*table_lines(columns, cells), f"{len(rows):,} rows"]


def _cell(column: str, value: object) -> str:
    if value is None:
        return "-"
    if column in _TIMES and isinstance(value, int):
        return time_text(value)
    return printable_text(str(value))
