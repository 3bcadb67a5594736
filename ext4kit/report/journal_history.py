"""The versions of a block or an inode as lines and as records."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

from ext4kit import fields
from ext4kit.fields import Nothing, WhichText, json_name
from ext4kit.journal.versions import FieldChange, VersionDiff
from ext4kit.report.inode_facts import flag_names
from ext4kit.report.listing import mode_text
from ext4kit.report.safe import shown
from ext4kit.report.times import exact_time, time_text
from ext4kit.times import iso
from ext4kit.units import NANOSECONDS

MOST_LINES = 100  # lines of changes per version in text; JSON has all changes
MOST_BYTES = 16  # bytes shown of a byte range in text
_TIMES = {"atime", "mtime", "ctime", "crtime"}
_SECONDS = {"dtime", "mount_time", "write_time", "check_time", "mkfs_time"}


def history_lines(history: Iterator[VersionDiff]) -> Iterator[str]:
    """Each version that differs, with its changes; copies without a change are only counted."""
    unchanged: list[str] = []  # the line for the copies since the last change, if any
    for each in history:
        last = each.version.transaction
        if not each.is_first and not each.is_changed and last is not None:
            unchanged = [f"    (unchanged up to transaction {last})"]
            continue
        yield from [*unchanged, _heading(each)]
        unchanged = []
        for change in each.changes[:MOST_LINES]:
            yield f"    {_change_text(change, each)}"
        if len(each.changes) > MOST_LINES:
            yield f"    ... and {len(each.changes) - MOST_LINES:,} more (--json has them)"
        if not each.is_changed and not each.is_first:
            yield "    no change"
    yield from unchanged


def _heading(each: VersionDiff) -> str:
    version = each.version
    if version.transaction is None:
        return f"on disk now, byte {version.offset:,}: {each.kind}"
    when = "at an unknown time"
    if version.commit_time_ns is not None:
        when = time_text(version.commit_time_ns)
    state = "" if version.is_committed else " (not committed)"
    place = f"log block {version.log_block:,}, byte {version.offset:,}"
    return f"transaction {version.transaction}{state}  {when}  {place}: {each.kind}"


def _change_text(change: FieldChange, each: VersionDiff) -> str:
    of_inode = change.inode is not None or each.kind.startswith("inode ")
    name = _name_text(change.what, change.which)
    name = name if change.inode is None else f"inode {change.inode} {name}"
    before, after = (
        None if value is None else _value_text(change.what, value, of_inode)
        for value in (change.before, change.after)
    )
    if each.is_first:
        return f"{name}: {after}"
    if before is None:
        return f"{name}: added, {after}"
    if after is None:
        return f"{name}: removed, was {before}"
    return f"{name}: {before} -> {after}"


def _name_text(what: str, which: object) -> str:
    if which is None:
        return what.replace("_", " ")
    if isinstance(which, bytes):
        return f"{what} {shown(which)}"
    if isinstance(which, tuple):
        return f"{what} {which[0]}" + (f" to {which[1]}" if which[1] != which[0] else "")
    if what == "hash":
        return f"hash {which:#010x}"
    place = {"extent": "file block", "index": "file block", "pointer": ""}.get(what, "group")
    return " ".join(filter(None, (what.replace("_", " "), place, str(which))))


def _value_text(what: str, value: Any, of_inode: bool) -> str:
    if what == "mode":
        return f"{value:06o} ({mode_text(value)})"
    if what == "flags" and of_inode:
        return f"0x{value:x} ({' '.join(flag_names(value)) or 'none'})"
    if what in _TIMES:
        return exact_time(value)
    if what in _SECONDS:
        return exact_time(value * NANOSECONDS) if value else "none"
    if what == "extent":
        length, block, unwritten = value
        last = f" to {block + length - 1}" if length > 1 else ""
        return f"block {block}{last}" + (" unwritten" if unwritten else "")
    if what == "entry":
        return f"inode {value[0]} ({value[1]})"
    return _plain_text(what, value)


def _plain_text(what: str, value: object) -> str:
    if what in ("block", "inode"):
        return "in use" if value else "free"
    if what in ("index", "hash", "pointer"):
        return f"block {value}"
    if isinstance(value, bytes):
        if what == "target":
            return shown(value)
        text = value[:MOST_BYTES].hex(" ")
        return text + (f" ... ({len(value):,} bytes)" if len(value) > MOST_BYTES else "")
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    return str(value)


ChangeValue = Annotated[
    int | str | bool | list[object] | None,
    "A number, a text or a structure; bytes in base64.",
]


class ChangeRecord(TypedDict):
    """One difference from the previous version."""

    what: str
    which: int | str | list[object] | None
    which_bytes: NotRequired[fields.Exact]
    inode: NotRequired[int]
    before: ChangeValue
    after: ChangeValue
    before_iso: NotRequired[Annotated[str | None, "Of a time in nanoseconds: in ISO 8601."]]
    after_iso: NotRequired[Annotated[str | None, "Of a time in nanoseconds: in ISO 8601."]]


class ChangedTime(TypedDict):
    """Text for the values of a changed time."""

    before_iso: str | None
    after_iso: str | None


class NumberedWhich(TypedDict):
    """Number of the changed item, where it has no name."""

    which: int | str | list[object] | None


class BlockTarget(TypedDict):
    """A block whose versions are listed."""

    block: int


class InodeNumber(TypedDict):
    """The number of an inode."""

    inode: int


class InodeTarget(InodeNumber):
    """An inode whose versions are listed."""

    path: NotRequired[fields.Path]
    path_bytes: NotRequired[fields.Exact]


class VersionRecord(fields.CommitTime):
    """A version of a block or an inode (`journal history`)."""

    record: Literal["version"]
    block: NotRequired[int]
    inode: NotRequired[Annotated[int, "Inode number."]]
    path: NotRequired[fields.Path]
    path_bytes: NotRequired[fields.Exact]
    kind: fields.Kind
    source: Literal["log", "disk"]
    transaction: fields.Transaction | None
    committed: bool | None
    log_block: fields.LogBlock | None
    offset: Annotated[int, "Bytes."]
    sha256: fields.Sha256
    changed: bool | None
    changes: list[ChangeRecord]


def history_records(
    history: Iterator[VersionDiff], target: BlockTarget | InodeTarget
) -> Iterator[VersionRecord]:
    """A record for each version of the target, including copies without a change."""
    for each in history:
        version = each.version
        yield {
            "record": "version",
            **target,
            "kind": each.kind,
            "source": "disk" if version.transaction is None else "log",
            "transaction": version.transaction,
            "committed": version.is_committed,
            "commit_time_ns": version.commit_time_ns,
            "log_block": version.log_block,
            "offset": version.offset,
            "sha256": hashlib.sha256(version.data).hexdigest(),
            "changed": None if each.is_first else each.is_changed,
            "changes": list(map(_change_record, each.changes)),
        }


def _change_record(change: FieldChange) -> ChangeRecord:
    which = change.which
    name: WhichText | NumberedWhich
    if isinstance(which, bytes):
        name = json_name(which, "which")
    else:
        name = {"which": list(which) if isinstance(which, tuple) else which}
    owner: InodeNumber | Nothing = {} if change.inode is None else {"inode": change.inode}
    times: ChangedTime | Nothing = {}
    if change.what in _TIMES:
        times = {"before_iso": _iso_of(change.before), "after_iso": _iso_of(change.after)}
    return {
        "what": change.what,
        **name,
        **owner,
        "before": _plain(change.before),
        "after": _plain(change.after),
        **times,
    }


def _iso_of(value: object) -> str | None:
    return iso(value) if isinstance(value, int) else None


def _plain(value: object) -> ChangeValue:
    """A value for JSON; bytes as base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return cast("ChangeValue", value)
