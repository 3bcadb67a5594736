"""Record types of deleted files, and the manifest record."""

from __future__ import annotations

import base64
from typing import Annotated, NotRequired, TypedDict

from ext4kit import fields
from ext4kit.fields import json_name
from ext4kit.history.places import Ground
from ext4kit.output import Written
from ext4kit.output.restoring import NOTHING, RestoredFacts
from ext4kit.output.writing import grade_as_written
from ext4kit.reasons import READ_ERROR, Reason, coded, texts
from ext4kit.recovery.evidence_places import EvidencePlaces
from ext4kit.recovery.model import (
    DeletedFile,
    DeletionGround,
    Grade,
    Sources,
    TransactionTime,
)
from ext4kit.recovery.xattrs import FileXattrs


class FileMoment(TypedDict):
    """A transaction that shows a file, or its deletion."""

    transaction: int
    time: int | None


class LostPart(TypedDict):
    """Bytes of a file that were reused or lost."""

    offset: int
    length: int
    owner: str


Between = Annotated[
    tuple[FileMoment | None, FileMoment | None],
    "The last transaction that shows the file present, and the first that shows it deleted.",
]
Trust = Annotated[Grade, "How far the file can be trusted."]
Mime = Annotated[str, "Type by content."]
Freed = Annotated[int, "Time at which the inode was freed, nanoseconds since 1970 UTC."]
DeletedAt = Annotated[int, "Time of the deletion, nanoseconds since 1970 UTC; null if unknown."]
DeletedGround = Annotated[
    DeletionGround,
    "Source of deleted_at. freed: the deletion time in the freed inode. The other sources give an "
    "upper bound. commit: the first transaction that shows the file deleted; unlinked: ctime of "
    "the inode without links (an orphan); reused: creation of the next file with the same inode "
    "number; overwritten: creation of the file system that overwrote the one of the file.",
]


class FormerPaths(TypedDict, total=False):
    """The earlier paths of a file, if it had any."""

    former_paths: Annotated[list[fields.PathText], "Former paths of the file, oldest first."]


class WipingRecord(TypedDict):
    """How a wiping program changed a file before it was deleted."""

    tool: Annotated[str, "The programs that leave these marks."]
    names: Annotated[
        list[fields.NameText], "Names that the program gave the file, as far as they are known."
    ]
    true_name: Annotated[bool, "True if `path` and `name` are those from before these names."]
    size: Annotated[int | None, "Bytes of the file before the wiping; null if unknown."]
    time: Annotated[
        int | None, "Commit time of the first mark, nanoseconds since 1970 UTC; null if unknown."
    ]
    certain: Annotated[bool, "False if only the growth to whole blocks shows it."]


class WipingFact(TypedDict, total=False):
    """The wiping of a file, if there was one."""

    wiped: WipingRecord


class FileIdentity(fields.PathOrNone, FormerPaths, WipingFact):
    """Fields that identify a deleted file."""

    name: str | None
    name_bytes: NotRequired[fields.Exact]
    path_ground: Annotated[
        Ground | None,
        "Evidence for the path. journal: the journal shows the path at the time of the deletion; "
        "proven: no directory on the path can have been moved since; present place: the present "
        "path of the directory, or the last one found for a deleted directory; a move of a "
        "directory is not excluded. Null without a path, and for a lost file system.",
    ]
    inode: fields.Inode | None
    generation: fields.Generation | None
    type: fields.FileType
    size: Annotated[int | None, "Bytes."]


class FileFacts(fields.KnownFact, fields.InodeFacts):
    """Fields that follow the identity of a deleted file."""

    dtime: Freed | None
    deleted_at: DeletedAt | None
    deleted_at_ground: DeletedGround | None
    deleted_between: Between
    grade: Trust
    superseded: Annotated[bool, "True for an earlier version of a file that changed afterwards."]
    blocks: Annotated[int, "Blocks of content."]
    blocks_reused: Annotated[int, "Number of blocks with a later owner."]
    lost: Annotated[list[LostPart], "Ranges of the file that are lost."]
    extents: Annotated[
        list[tuple[int, int, int]],
        "Extents of the file as [first block in the file, first block on disk, number of blocks].",
    ]
    first_block: Annotated[int | None, "First block of content that was found without a block map."]
    fragment: Annotated[bool, "True if the content is probably only part of a file."]
    mime: Annotated[
        str | None,
        "MIME type of content that was found without a block map; `export` gives it for all files.",
    ]
    encoding: str | None
    sources: Annotated[Sources, ("required", ()), "Sources of inode, map and name."]
    xattrs: list[fields.Xattr]
    link_target: str | None
    link_target_bytes: NotRequired[fields.Exact]
    device: fields.Device | None
    problems: fields.Reasons
    reasons: fields.CodedReasons


class RecoveredFile(FileIdentity, FileFacts, RestoredFacts):
    """A record of the manifest of `recover`."""

    output: fields.Output | None
    hard_links: Annotated[
        list[str], "Further names of the output that were restored as hard links."
    ]
    sha256: fields.Sha256 | None
    evidence: Annotated[
        EvidencePlaces | None, "Where in the image the facts were read; null if nowhere."
    ]


def manifest_record(
    file: DeletedFile, written: Written | None, failure: Reason | None = None
) -> RecoveredFile:
    """The manifest record of a file as JSON values, times in integer ns."""
    return {
        "output": written.path if written else None,
        "hard_links": list(written.further) if written else [],
        **file_identity(file),
        "sha256": written.sha256 if written else None,
        **file_facts(file, written, failure),
        **(written.outcome.record() if written else NOTHING),
        "evidence": file.evidence(),
    }


def file_identity(file: DeletedFile) -> FileIdentity:
    """Identity fields of a record."""
    former = [json_name(path) for path in file.former_paths]
    earlier: FormerPaths = {"former_paths": former} if former else {}
    wiping = _wiping_fact(file)
    return {
        **json_name(file.path),
        **json_name(file.name, "name"),
        **earlier,
        **wiping,
        "path_ground": file.path_ground,
        "inode": file.number,
        "generation": file.generation,
        "type": file.kind,
        "size": file.size,
    }


def _wiping_fact(file: DeletedFile) -> WipingFact:
    wiping = file.wiping
    if wiping is None:
        return {}
    return {
        "wiped": {
            "tool": wiping.tools,
            "names": [json_name(name, "name") for name in wiping.names],
            "true_name": wiping.true_name is not None or not wiping.names,
            "size": wiping.size,
            "time": wiping.started,
            "certain": wiping.is_certain,
        }
    }


def file_facts(
    file: DeletedFile, written: Written | None, failure: Reason | None = None
) -> FileFacts:
    """The other fields of a record.

    Args:
        file: the deleted file.
        written: the file that recovery wrote, if any.
        failure: why it could not be written, if so.
    """
    inode, device = file.inode, file.device
    against, format, attributes = list(file.reasons), file.file_type, file.xattrs()
    if attributes is not None and attributes.missing is not None:
        against.append(attributes.missing)
    if failure is not None:
        against.append(failure)
    for offset, length, why in written.lost if written else ():
        against.append(READ_ERROR.filled(length=length, offset=offset, why=why))
    before, after = file.deleted_between
    deleted_at, ground = file.deletion or (None, None)
    asked: fields.KnownFact = {} if file.known is None else {"known": file.known or None}
    more: Sources = {"xattrs": attributes.source} if attributes and attributes.source else {}
    return {
        "mode": inode.mode if inode else None,
        "uid": inode.uid if inode else None,
        "gid": inode.gid if inode else None,
        "atime": inode.atime if inode else None,
        "mtime": inode.mtime if inode else None,
        "ctime": inode.ctime if inode else None,
        "crtime": inode.crtime if inode else None,
        "dtime": file.dtime,
        "deleted_at": deleted_at,
        "deleted_at_ground": ground,
        "deleted_between": (moment_record(before), moment_record(after)),
        "grade": final_grade(file, written),
        "superseded": file.superseded,
        "blocks": file.blocks,
        "blocks_reused": file.blocks_reused,
        "lost": [
            {"offset": piece.offset, "length": piece.length, "owner": piece.owner}
            for piece in file.lost
        ],
        "extents": file.extents,
        "first_block": file.first_block,
        "fragment": file.fragment,
        "mime": format.mime if format else None,
        "encoding": format.encoding or None if format else None,
        "sources": file.sources | more,
        "xattrs": _xattr_records(attributes),
        **json_name(file.link_target, "link_target"),
        "device": device,
        "problems": texts(against),
        "reasons": coded(against),
        **asked,
    }


def ground_of(file: DeletedFile | None) -> str | None:
    """Basis of the path of a deleted file, as in records."""
    return file.path_ground.value if file and file.path_ground else None


def _xattr_records(attributes: FileXattrs | None) -> list[fields.Xattr]:
    return [
        {**json_name(name, "name"), "value_base64": base64.b64encode(value).decode("ascii")}
        for name, value in (attributes.values if attributes else {}).items()
    ]


def moment_record(moment: TransactionTime | None) -> FileMoment | None:
    """A transaction as in records."""
    return None if moment is None else {"transaction": moment.transaction, "time": moment.time}


def final_grade(file: DeletedFile, written: Written | None) -> Grade:
    """The grade, at most partial if parts of the content were unreadable."""
    return grade_as_written(file.grade, written)
