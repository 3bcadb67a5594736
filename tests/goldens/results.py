"""Results without what depends on the run, as digests to keep, and how two of them differ."""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ext4kit.reasons import CATALOGUE
from tests.goldens.collect import Output, Record

KEPT = Path(__file__).with_name("kept")
CODES = Path(__file__).with_name("codes.txt")
OF_THE_RUN = {  # by kind of record: what depends on the run, or on where the image lies
    "evidence": {"path", "files"},
    "extraction": {"output"},
    "recovery": {"output"},
    "report": {"command", "made_ns", "made_iso", "version"},
}
LEFT_OUT = "case"  # a record of the run alone: who, where, when, with which libraries
KEY = (
    "code", "kind", "folder", "inode", "generation", "first_block", "transaction", "block", "group",
    "log_block", "directory", "where", "index",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What came of a command.

    Attributes:
        code: the exit code.
        order: digest of the keys of the records, as they came.
        digests: per key, the digest of the record.
        records: per key, the record; empty where a golden was read.
    """

    code: int
    order: str
    digests: Mapping[str, str]
    records: Mapping[str, Record] = field(default_factory=dict, compare=False)


Results = dict[str, Result]  # by command


def results_of(outputs: Iterable[Output]) -> Results:
    """Results of what was collected."""
    return {command: _result(code, records) for command, code, records in outputs}


def _result(code: int, raw: list[Record]) -> Result:
    records: dict[str, Record] = {}
    seen: Counter[str] = Counter()
    for one in raw:
        kind = one["record"]
        if kind == LEFT_OUT:
            continue
        parts = [kind, *(one[name] for name in KEY if one.get(name) is not None)]
        key = " ".join(map(str, parts)).encode("unicode_escape").decode()
        seen[key] += 1
        key += f" #{seen[key]}" if seen[key] > 1 else ""
        left = one.keys() - OF_THE_RUN.get(kind, set())
        records[key] = {name: coded(one[name]) for name in one if name in left}
    digests = {key: _digest(record) for key, record in records.items()}
    return Result(code, _digest(list(records)), digests, records)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def coded(value: Any) -> Any:
    """A value of a record with the codes of its texts, as `codes.txt` has them."""
    if isinstance(value, dict):
        return {name: coded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [coded(part) for part in value]
    return _code(value) if isinstance(value, str) else value


@cache
def _code(text: str) -> str:
    for code, pattern in _codes() if " " in text else ():
        if match := pattern.fullmatch(text):
            values = sorted(match.groupdict().items())
            return " ".join([code, *(f"{name}={_code(value)}" for name, value in values)])
    return text


@cache
def _codes() -> list[tuple[str, re.Pattern[str]]]:
    lines = CODES.read_text(encoding="utf-8").splitlines()
    rows = [re.split("  +", line, maxsplit=1) for line in lines if line and line[0] != "#"]
    rows += [[reason.code, reason.text] for reason in CATALOGUE]
    values = re.compile(r"\\\{(\w+)\\\}")
    return [
        (code, re.compile(values.sub(r"(?P<\1>.+)", re.escape(text)), re.DOTALL))
        for code, text in rows
    ]


def to_text(results: Results) -> str:
    """A golden: a line a command, then a line a record with the letters of its commands."""
    letters = dict(zip(results, string.ascii_letters, strict=False))
    lines = [f"{letters[name]} {one.code} {one.order} {name}" for name, one in results.items()]
    rows: dict[tuple[str, str], str] = {}
    for name, one in results.items():
        for row in one.digests.items():
            rows[row] = rows.get(row, "") + letters[name]
    return "\n".join([*lines, "", *(f"{row[1]} {of} {row[0]}" for row, of in rows.items()), ""])


def from_text(text: str) -> Results:
    """The results that a golden holds."""
    commands, records = (part.splitlines() for part in text.split("\n\n", 1))
    digests: dict[str, dict[str, str]] = {line[0]: {} for line in commands}
    for line in records:
        digest, letters, key = line.split(" ", 2)
        for letter in letters:
            digests[letter][key] = digest
    split = [line.split(" ", 3) for line in commands]
    return {name: Result(int(code), order, digests[at]) for at, code, order, name in split}


def differences(before: Results, after: Results) -> Iterator[str]:
    """What differs, a line each: command, key, and the new record or the fields that changed."""
    for name in dict.fromkeys([*before, *after]):
        if name in before and name in after:
            yield from (f"{name}: {line}" for line in _changes(before[name], after[name]))
        else:
            yield f"{name}: {'not run any more' if name in before else 'not run before'}"


def _changes(old: Result, new: Result) -> Iterator[str]:
    if old.code != new.code:
        yield f"exit code {old.code} -> {new.code}"
    for key in old.digests:
        if key not in new.digests:
            yield f"{key}: missing {json.dumps(old.records.get(key))}"
    for key, record in new.records.items():
        if key not in old.digests:
            yield f"{key}: new {json.dumps(record)}"
        elif old.digests[key] != new.digests[key]:
            yield f"{key}: changed {_change(old.records.get(key), record)}"
    if old.order != new.order and old.digests.keys() == new.digests.keys():
        yield "the same records in another order"


def _change(old: Record | None, new: Record) -> str:
    """The fields that differ; the whole new record where the old one was not kept."""
    if old is None:
        return json.dumps(new)
    texts = [{name: json.dumps(value) for name, value in one.items()} for one in (old, new)]
    pairs = {name: [text.get(name, "absent") for text in texts] for name in [*old, *new]}
    changed = ((name, pair) for name, pair in pairs.items() if pair[0] != pair[1])
    return "; ".join(f"{name}: {' -> '.join(pair)}" for name, pair in changed)
