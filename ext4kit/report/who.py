"""What blocks are, whose they are and whose they were, as sentences, tables and records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NotRequired, TypedDict

from ext4kit import fields
from ext4kit.fields import json_name
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.geometry import first_block
from ext4kit.filesystem.inodes import BAD_BLOCKS
from ext4kit.journal import SharedLog
from ext4kit.journal.block_types import BLOCK_CONTENT_NAMES, BlockRole
from ext4kit.owners.answers import BlockAnswer, BlockCopy, EarlierUse, LogBlock, PresentUse
from ext4kit.owners.earlier import Knowledge
from ext4kit.recovery.model import DeletedFile, TransactionTime
from ext4kit.report.answers import reach_text
from ext4kit.report.phrases import command_text
from ext4kit.report.safe import shown
from ext4kit.report.tables import table_lines, wrapped
from ext4kit.report.times import time_text

_MOST_PATHS = 3
KNOWLEDGE = {
    Knowledge.JOURNAL: "journal",
    Knowledge.FAST_COMMIT: "fast commit",
    Knowledge.INODE_TABLE: "inode table",
    Knowledge.UNTAGGED: "old copy of the inode",
    Knowledge.REBUILT: "rebuilt map",
}


@dataclass(frozen=True, slots=True)
class BlockTexts:
    """Words for the blocks of one file system.

    Attributes:
        shared: the file system and its log.
        image: as it was named.
        start: byte at which the volume starts in its frame.
        frame: in what bytes count: "the image" ...
    """

    shared: SharedLog
    image: str
    start: int
    frame: str

    @property
    def _fs(self) -> FileSystem:
        return self.shared.fs

    def lines(self, answer: BlockAnswer, byte: int | None = None) -> Iterator[str]:
        """All that is known of one block.

        Args:
            answer: of the block.
            byte: of the block that was asked for.
        """
        size = self._fs.superblock.block_size
        place = f"byte {self.start + answer.block * size:,} of {self.frame}"
        yield f"block {answer.block:,}, {place}: {_state(answer)}"
        yield from wrapped(
            sentence for use in answer.present for sentence in self._now(answer, use)
        )
        if byte is not None:
            yield from wrapped([_byte_text(answer, byte, size)])
        if answer.earlier:
            yield from ["", "had the block before:"]
            yield from _earlier_table(answer.earlier)
        if answer.contents:
            yield from ["", "carved contents with the block:"]
            rows = [_content_row(file) for file in answer.contents]
            yield from table_lines(("first block", "bytes", "type", "name"), rows, (0, 1))
        if answer.copies:
            yield from ["", f"in the journal: {_count(len(answer.copies), 'copy', 'copies')}"]
            heads = ("transaction", "committed", "log block", f"byte of {self.frame}")
            yield from table_lines(heads, map(self._copy_row, answer.copies), (0, 2, 3))
        yield ""
        if not answer.earlier and not answer.contents:
            yield from wrapped([f"No earlier owner is known. {reach_text(self.shared)}"])
        yield from wrapped(self._next(answer))

    def table(self, answers: Sequence[BlockAnswer]) -> Iterator[str]:
        """One line for each run of blocks of which the same is known."""
        rows = []
        for run in runs_of_same(answers):
            first, last = run[0], run[-1]
            blocks = f"{first.block:,}" + (f" to {last.block:,}" if len(run) > 1 else "")
            use, end = first.present[0], last.present[0]
            inside = "-" if use.file_block < 0 else f"{use.file_block:,}"
            inside += f" to {end.file_block:,}" if end.file_block > use.file_block >= 0 else ""
            before = [owner_text(each.paths, each.inode) for each in reversed(first.earlier)]
            before += [f"carved content from block {each.first_block}" for each in first.contents]
            before = list(dict.fromkeys(before))
            text = ", ".join(before[:2]) + (f" and {len(before) - 2} more" if before[2:] else "")
            owner = owner_text(use.paths, use.inode) if use.inode else "-"
            rows.append((blocks, _role_text(first), owner, inside, text or "-"))
        heads = ("blocks", "now", "owner", "file blocks", "before")
        yield from table_lines(heads, rows)
        yield ""
        yield from wrapped(
            [f"{command_text('who', self.image, answers[0].block)} tells all of one block."]
        )

    def _now(self, answer: BlockAnswer, use: PresentUse) -> Iterator[str]:
        """What a block is now, as sentences."""
        if text := self._by_place(answer, use):
            yield text
        elif use.inode == BAD_BLOCKS:
            yield "The list of bad blocks (inode 1) names it."
        elif use.inode:
            yield from _owner_sentences(use, self._fs.superblock.block_size)
        elif use.role is BlockRole.UNKNOWN and answer.block < self._fs.superblock.first_data_block:
            yield "It lies before the first group: the boot block."
        elif use.role is BlockRole.UNKNOWN and answer.is_allocated:
            yield "It is marked as allocated, and no inode maps it."

    def _by_place(self, answer: BlockAnswer, use: PresentUse) -> str:
        """What a block is by its location, "" where that says nothing."""
        superblock, role, block = self._fs.superblock, use.role, answer.block
        group = (block - superblock.first_data_block) // superblock.blocks_per_group
        if role is BlockRole.JOURNAL and use.number >= 0:
            return f"It is log block {use.number:,} of the journal: {_log_text(answer.log)}."
        copy = " a copy of" if block > first_block(superblock, 0) else ""
        last = use.number + superblock.block_size // superblock.inode_size - 1
        texts = {
            BlockRole.INODES: f"It has the inodes {use.number:,} to {last:,} of the inode tables.",
            BlockRole.BLOCK_BITMAP: f"It is the block bitmap of group {use.number:,}.",
            BlockRole.INODE_BITMAP: f"It is the inode bitmap of group {use.number:,}.",
            BlockRole.SUPERBLOCK: f"It is{copy} the superblock, in group {group:,}.",
            BlockRole.DESCRIPTORS: "It holds group descriptors, or is reserved for them, in group"
            f" {group:,}.",
            BlockRole.MMP: "It is the block of the protection against two mounts.",
        }
        return texts.get(role, "")

    def _copy_row(self, copy: BlockCopy) -> tuple[str, ...]:
        when = time_text(copy.transaction.time) if copy.is_committed else "not committed"
        offset = "-" if copy.offset is None else f"{self.start + copy.offset:,}"
        return str(copy.transaction.transaction), when, f"{copy.log_block:,}", offset

    def _next(self, answer: BlockAnswer) -> Iterator[str]:
        """What to type next."""
        image, use = self.image, answer.present[0]
        if use.inode and use.role is not BlockRole.JOURNAL:
            target = f"<{use.inode}>" if not use.paths else use.paths[0].decode("utf-8", "replace")
            is_data = use.role is BlockRole.FILE_DATA
            command = command_text("cat" if is_data else "stat", image, target)
            yield f"{command} shows the {'content' if is_data else 'inode'}."
        files = [each.file for each in answer.earlier if each.file is not None]
        for file in files[-1:]:
            target = (
                f"<{file.number}>" if file.path is None else file.path.decode("utf-8", "replace")
            )
            words = ("--versions",) if file.superseded else ()
            command = command_text("explain", image, target, *words)
            yield f"{command} shows the evidence for the file that had it last."
        home = answer.block if answer.log is None else answer.log.home
        if answer.copies or (answer.log is not None and home is not None):
            command = command_text("journal", "history", image, "--block", home)
            yield f"{command} shows what changed in it."
        if answer.log is not None and home is not None:
            yield f"{command_text('who', image, home)} tells of the block that it is a copy of."
        if not answer.is_allocated and not files:
            command = command_text("blocks", image, "--unallocated", "-o", "OUT")
            yield f"{command} writes all unallocated blocks, with a map."


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _state(answer: BlockAnswer) -> str:
    allocated = {True: "allocated", False: "unallocated", None: "of unknown state"}
    text = allocated[answer.is_allocated]
    if answer.role is BlockRole.UNKNOWN:
        return text
    return _role_text(answer) + ("" if answer.role is BlockRole.OUTSIDE else f", {text}")


def _role_text(answer: BlockAnswer) -> str:
    if answer.role is BlockRole.UNKNOWN:
        return "no owner" if answer.is_allocated else "unallocated"
    return BLOCK_CONTENT_NAMES[answer.role]


def owner_text(paths: Sequence[bytes], inode: int) -> str:
    """The last path of an owner, or its inode number."""
    return shown(paths[-1]) if paths else f"inode {inode}"


def transaction_text(found: TransactionTime) -> str:
    """A transaction and the time of its commit."""
    when = "" if found.time is None else f" (committed {time_text(found.time)})"
    return f"transaction {found.transaction}{when}"


def _log_text(found: LogBlock | None) -> str:
    if found is None:
        return "not readable"
    text = found.kind if found.home is None else f"copy of block {found.home:,}"
    return text if found.transaction is None else f"{text}, {transaction_text(found.transaction)}"


def _owner_sentences(use: PresentUse, size: int) -> Iterator[str]:
    """The owner of a block, its slack, and since when it has it."""
    names = [shown(path) for path in use.paths[:_MOST_PATHS]]
    more = len(use.paths) - len(names)
    names += [f"{more:,} more names"] if more else []
    who = " = ".join(names) or "a file without a name"
    part = "a block" if use.file_block < 0 else f"block {use.file_block:,}"
    what = {BlockRole.MAP_NODE: "the extent tree or the indirect blocks", BlockRole.XATTR: "the"
            " extended attributes"}.get(use.role, "the content")  # fmt: skip
    yield f"It is {part} of {what} of {who} (inode {use.inode}, {use.size:,} bytes)."
    start = use.file_block * size
    if use.role is BlockRole.FILE_DATA and use.used == 0 and start < use.size:
        yield "It was allocated and never written for this file: what it holds is older."
    elif use.role is BlockRole.FILE_DATA and use.used == 0:
        yield "It lies beyond the end of the file: all of it is slack."
    elif use.used < size:
        yield (
            f"It holds bytes {start:,} to {start + use.used - 1:,} of the file; from byte"
            f" {use.used:,} of the block on it is slack."
        )
    if use.since is not None:
        yield f"The first recorded state with the block is of {transaction_text(use.since)}."


def _byte_text(answer: BlockAnswer, byte: int, size: int) -> str:
    use = answer.present[0]
    text = f"The byte asked for is byte {byte:,} of the block"
    if use.role is not BlockRole.FILE_DATA:
        return f"{text}."
    if byte >= use.used:
        return f"{text}: no content of the file."
    return f"{text}, byte {use.file_block * size + byte:,} of the file."


def _earlier_table(uses: Sequence[EarlierUse]) -> list[str]:
    heads = ("inode", "generation", "was", "file block", "transactions", "committed", "gone by",
             "known from", "content", "path")  # fmt: skip
    return table_lines(heads, map(_earlier_row, uses), (0, 1, 3))


def _earlier_row(use: EarlierUse) -> tuple[str, ...]:
    first, last = use.first, use.last
    tids = "-" if first is None else str(first.transaction)
    when = "-" if first is None else time_text(first.time)
    if first is not None and last is not None and last != first:
        tids += f" to {last.transaction}"
        when += f" to {time_text(last.time)}"
    ended = "-" if use.ended is None else str(use.ended.transaction)
    return (
        str(use.inode),
        str(use.generation),
        BLOCK_CONTENT_NAMES[use.role],
        "-" if use.file_block < 0 else f"{use.file_block:,}",
        tids,
        when,
        ended,
        KNOWLEDGE[use.knowledge],
        _content_text(use),
        ", ".join(map(shown, use.paths)) or "-",
    )


def _content_text(use: EarlierUse) -> str:
    """Whether the block still holds the content, with the grade of the file."""
    if use.file is None:
        return "-"
    what = "earlier version" if use.file.superseded else use.file.kind
    return f"{'reused' if use.is_reused else 'here'} ({what} {use.file.grade})"


def _content_row(file: DeletedFile) -> tuple[str, ...]:
    kind, name = file.file_type, file.path or file.name
    return (
        f"{file.first_block:,}",
        "-" if file.size is None else f"{file.size:,}",
        "unknown" if kind is None else kind.mime,
        "-" if name is None else shown(name),
    )


def runs_of_same(answers: Sequence[BlockAnswer]) -> Iterator[list[BlockAnswer]]:
    """Consecutive blocks of which the same is known."""
    run: list[BlockAnswer] = []
    for answer in answers:
        if run and _key(answer, len(run)) != _key(run[0], 0):
            yield run
            run = []
        run.append(answer)
    if run:
        yield run


def _key(answer: BlockAnswer, steps: int) -> tuple[object, ...]:
    """What the blocks of a run have in common; `steps` is the place in the run."""
    use = answer.present[0]
    inside = use.file_block - steps if use.file_block >= 0 else -1
    earlier = [(each.inode, each.generation, each.paths) for each in answer.earlier]
    contents = [each.first_block for each in answer.contents]
    owner = use.role, use.inode, inside, answer.is_allocated
    return (answer.block - steps, *owner, earlier, contents)


class UseRecord(TypedDict):
    """What a block is now."""

    role: fields.Kind
    inode: Annotated[int | None, "Inode number of the owner."]
    paths: Annotated[list[str], "Full paths of the owner."]
    file_block: Annotated[int | None, "Block in the file of the owner."]
    used: Annotated[int, "Bytes of the block that are content; the rest is slack."]
    number: Annotated[
        int | None, "Group of a bitmap, first inode of an inode table block, log block."
    ]
    since: Annotated[int | None, "First transaction that shows the owner with the block."]


class EarlierRecord(TypedDict):
    """Who had a block before."""

    role: fields.Kind
    inode: fields.Inode
    generation: fields.Generation
    file_block: int | None
    paths: Annotated[list[str], "Full paths while it had the block, the oldest first."]
    first_transaction: Annotated[int | None, "The first that shows the use."]
    first_time_ns: fields.Moment | None
    last_transaction: Annotated[int | None, "The last that shows the use."]
    last_time_ns: fields.Moment | None
    ended_transaction: Annotated[int | None, "The first that shows the inode without the block."]
    ended_time_ns: fields.Moment | None
    known_from: Annotated[str, "What the knowledge rests on."]
    grade: Annotated[str | None, "Of the deleted file or earlier version with this block."]
    superseded: Annotated[bool | None, "Whether that is an earlier version."]
    reused: Annotated[bool, "Whether recovery found a later owner of the block."]


class CarvedRecord(TypedDict):
    """A carved content with the block."""

    first_block: int | None
    size: fields.Size | None
    mime: str | None


class BlockCopyRecord(TypedDict):
    """A copy of a block in the journal."""

    transaction: fields.Transaction
    commit_time_ns: fields.Moment | None
    committed: bool
    log_block: fields.LogBlock
    offset: Annotated[int | None, "Byte in the image; null if the log is on another device."]


class LogBlockRecord(TypedDict):
    """What a block of the journal holds."""

    kind: fields.Kind
    transaction: fields.Transaction | None
    home: Annotated[int | None, "Block that it is a copy of."]


class BlockRecord(TypedDict):
    """What a block is, whose it is and whose it was (`who`)."""

    record: Literal["block"]
    block: int
    offset: Annotated[int, "Byte of its start, in the image or the volume that `frame` names."]
    frame: Annotated[str, "In what offsets count."]
    byte: NotRequired[Annotated[int, "With --byte: the byte asked for, in the block."]]
    allocated: Annotated[bool | None, "As its bitmap has it; null where it is not known."]
    present: list[UseRecord]
    earlier: Annotated[list[EarlierRecord], "The oldest first."]
    contents: list[CarvedRecord]
    copies: Annotated[list[BlockCopyRecord], "In the journal, the oldest first."]
    log: LogBlockRecord | None


def block_record(texts: BlockTexts, answer: BlockAnswer, byte: int | None) -> BlockRecord:
    """The record of an answer; arguments as for `BlockTexts.lines`."""
    size = texts.shared.fs.superblock.block_size
    log = answer.log
    record: BlockRecord = {
        "record": "block",
        "block": answer.block,
        "offset": texts.start + answer.block * size,
        "frame": texts.frame,
        "allocated": answer.is_allocated,
        "present": list(map(use_record, answer.present)),
        "earlier": list(map(earlier_record, answer.earlier)),
        "contents": list(map(_carved_record, answer.contents)),
        "copies": [_copy_record(texts.start, copy) for copy in answer.copies],
        "log": None if log is None else log_record(log),
    }
    return record if byte is None else {**record, "byte": byte}


def log_record(log: LogBlock) -> LogBlockRecord:
    """What a block of the journal holds, as a record."""
    return {"kind": log.kind, "transaction": _tid(log.transaction), "home": log.home}


def _paths(paths: Sequence[bytes]) -> list[str]:
    return [json_name(path)["path"] for path in paths]


def _tid(found: TransactionTime | None) -> int | None:
    return None if found is None else found.transaction


def _time(found: TransactionTime | None) -> int | None:
    return None if found is None else found.time


def _known(number: int) -> int | None:
    return None if number < 0 else number


def use_record(use: PresentUse) -> UseRecord:
    """What a block is now, as a record."""
    return {
        "role": BLOCK_CONTENT_NAMES[use.role],
        "inode": use.inode or None,
        "paths": _paths(use.paths),
        "file_block": _known(use.file_block),
        "used": use.used,
        "number": _known(use.number),
        "since": _tid(use.since),
    }


def earlier_record(use: EarlierUse) -> EarlierRecord:
    """Who had a block before, as a record."""
    return {
        "role": BLOCK_CONTENT_NAMES[use.role],
        "inode": use.inode,
        "generation": use.generation,
        "file_block": _known(use.file_block),
        "paths": _paths(use.paths),
        "first_transaction": _tid(use.first),
        "first_time_ns": _time(use.first),
        "last_transaction": _tid(use.last),
        "last_time_ns": _time(use.last),
        "ended_transaction": _tid(use.ended),
        "ended_time_ns": _time(use.ended),
        "known_from": KNOWLEDGE[use.knowledge],
        "grade": None if use.file is None else str(use.file.grade),
        "superseded": None if use.file is None else use.file.superseded,
        "reused": use.is_reused,
    }


def _carved_record(file: DeletedFile) -> CarvedRecord:
    kind = file.file_type
    return {
        "first_block": file.first_block,
        "size": file.size,
        "mime": None if kind is None else kind.mime,
    }


def _copy_record(start: int, copy: BlockCopy) -> BlockCopyRecord:
    return {
        "transaction": copy.transaction.transaction,
        "commit_time_ns": copy.transaction.time,
        "committed": copy.is_committed,
        "log_block": copy.log_block,
        "offset": None if copy.offset is None else start + copy.offset,
    }
