"""The comparison with The Sleuth Kit, as text and as records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal, TypedDict

from ext4kit import fields
from ext4kit.crosscheck import CrossCheck, Difference, LikelyRight
from ext4kit.crosscheck.causes import CAUSES
from ext4kit.crosscheck.result import DELETED_NAME, NAME, Field
from ext4kit.crosscheck.sides import TIMES
from ext4kit.fields import json_name
from ext4kit.report.safe import printable_text, shown
from ext4kit.report.tables import table_lines
from ext4kit.report.times import exact_time

_WHO = {
    LikelyRight.EXT4KIT: "ext4kit",
    LikelyRight.TSK: "The Sleuth Kit",
    LikelyRight.OPEN: "undecided",
}
_SHOWN = 5  # examples shown per field and cause


def crosscheck_lines(result: CrossCheck, every: bool) -> Iterator[str]:
    """All differences or the first few of each kind, their number, and the comparison's scope."""
    if result.hello is None:
        yield f"The Sleuth Kit cannot open the file system: {printable_text(result.refusal)}"
        return
    if result.total:
        for difference in result.differences(None if every else _SHOWN):
            yield _line(difference)
        counts = result.counts()
        found = {
            cause.code: cause for cause in CAUSES if cause.code in {code for _, code in counts}
        }
        rows = [
            (field.replace("_", " "), code, _WHO[found[code].right], f"{count:,}")
            for (field, code), count in counts.items()
        ]
        yield ""
        yield from table_lines(("differs in", "cause", "probably right", "count"), rows, right={3})
        yield ""
        yield from (f"{code}: {cause.text}" for code, cause in found.items())
        yield ""
    yield _scope_line(result, result.hello.version)
    for reason, count in result.left_out.items():
        yield f"not compared: {count:,} {reason}"
    if not result.total:
        yield "no differences" + (" in what was compared" if result.left_out else "")
        return
    plural = "s" * (result.total != 1)
    yield f"{result.total:,} difference{plural}, {result.open:,} of them undecided"


def _line(difference: Difference) -> str:
    detail = f"  [{printable_text(difference.detail)}]" if difference.detail else ""
    path, field = shown(difference.path), difference.field
    if field in (NAME, DELETED_NAME):
        missing = "The Sleuth Kit" if difference.tsk is None else "ext4kit"
        where = "tree" if field == NAME else "names of deleted files"
        text = f"not in {missing}'s {where} (inode {difference.inode})"
    else:
        values = (_value(field, value) for value in (difference.ext4kit, difference.tsk))
        text = "{}: ext4kit {}, The Sleuth Kit {}".format(field.replace("_", " "), *values)
    return f"{path}  {text}  ({difference.cause.code}){detail}"


def _value(field: str, value: int | str | None) -> str:
    if value is None:
        return "none"
    return exact_time(value) if field in TIMES and isinstance(value, int) else str(value)


def _scope_line(result: CrossCheck, version: str) -> str:
    read = f"{result.directories:,} directories, {result.entries:,} names, {result.fields:,} values"
    if result.deleted_names is not None:
        read += f", {result.deleted_names:,} names of deleted files"
    contents = f", {result.contents:,} contents ({result.content_bytes:,} bytes)"
    return f"compared with pytsk3 {version}: {read}{contents if result.contents else ''}"


class DifferenceRecord(fields.PathText):
    """One difference between the readings of ext4kit and The Sleuth Kit (`crosscheck`)."""

    record: Literal["difference"]
    field: Field
    inode: fields.Inode
    ext4kit: int | str | None
    tsk: int | str | None
    cause: Annotated[str, "Code of the reason."]
    likely_right: Annotated[LikelyRight, "Reader that is probably right."]
    detail: str | None


class CrossCheckRecord(TypedDict):
    """Scope and result of a comparison with `crosscheck`."""

    record: Literal["crosscheck"]
    agrees: bool
    differences: int
    undecided: int
    causes: dict[str, int]
    reasons: dict[str, str]
    journal_replayed: bool
    directories: int
    names: int
    values: int
    deleted_names: Annotated[
        int | None, "Names of deleted files in either reader; null: not compared."
    ]
    contents: int
    content_bytes: int
    left_out: dict[str, int]
    tsk_version: str | None
    tsk_refusal: str | None


def crosscheck_records(result: CrossCheck) -> Iterator[DifferenceRecord | CrossCheckRecord]:
    """A record for each difference, then one for the comparison."""
    for difference in result.differences():
        yield {
            "record": "difference",
            **json_name(difference.path),
            "field": difference.field,
            "inode": difference.inode,
            "ext4kit": difference.ext4kit,
            "tsk": difference.tsk,
            "cause": difference.cause.code,
            "likely_right": difference.cause.right,
            "detail": difference.detail or None,
        }
    causes: Counter[str] = Counter()
    for (_, code), count in result.counts().items():
        causes[code] += count
    hello = result.hello
    yield {
        "record": "crosscheck",
        "agrees": result.agrees,
        "differences": result.total,
        "undecided": result.open,
        "causes": dict(causes),
        "reasons": {each.code: each.text for each in CAUSES if each.code in causes},
        "journal_replayed": result.replayed,
        "directories": result.directories,
        "names": result.entries,
        "values": result.fields,
        "deleted_names": result.deleted_names,
        "contents": result.contents,
        "content_bytes": result.content_bytes,
        "left_out": dict(result.left_out),
        "tsk_version": None if hello is None else hello.version,
        "tsk_refusal": result.refusal or None,
    }
