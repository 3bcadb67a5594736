"""The transactions of a journal as a table and as records, with a description of their blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Literal, TypedDict

import numpy as np

from ext4kit import fields
from ext4kit.filesystem import FileSystem
from ext4kit.history.mounts import UNKNOWN, find_mounts
from ext4kit.journal import BlockHistory, Log, Transaction
from ext4kit.journal import block_types as types
from ext4kit.journal.block_types import BlockRole, Touched
from ext4kit.journal.transactions import TransactionState
from ext4kit.report.tables import fold_cells
from ext4kit.report.times import spaced_time

_HEADINGS = ("transaction", "committed", "mount", "state", "copies", "revokes", "descriptors")
_TIME = len("2026-03-01 12:00:00.000000000")
_WIDTHS = (11, _TIME, 5, 12, 7, 7, 11)
_RIGHT = (True, False, True, False, True, True, True)
_MOST_NUMBERS = 4  # numbers of each kind in the table; the records have all


def transaction_lines(fs: FileSystem, log: Log) -> Iterator[str]:
    """A heading, then a line for each transaction, oldest first; one line for an empty journal."""
    if not len(log.transactions):
        yield "no transactions"
        return
    yield _line(_HEADINGS, "touched")
    contents = types.classify_copies(fs, log)
    for each, mount in zip(log.transactions, _mounts(fs, log), strict=True):
        time = spaced_time(each.commit_time_ns)
        counts = (each.blocks, each.revokes, each.descriptors)
        in_mount = "-" if mount is None else str(mount)
        cells = (str(each.id), time, in_mount, str(each.state), *(f"{count:,}" for count in counts))
        rows = contents.of(each.order)
        pairs = zip(contents.kind[rows].tolist(), contents.number[rows].tolist(), strict=True)
        parts = [
            _kind_text(fs, BlockRole(kind), [number for _, number in group])
            for kind, group in groupby(pairs, key=itemgetter(0))
        ]
        parts += [f"{each.revokes:,} revoked"] if each.revokes else []
        yield _line(cells, ", ".join(parts))


def _mounts(fs: FileSystem, log: Log) -> list[int | None]:
    """The mount count at each transaction, None where it is unknown."""
    counts = find_mounts(BlockHistory(log), fs.superblock.block_size)
    return [None if count == UNKNOWN else count for count in counts.tolist()]


def _line(cells: tuple[str, ...], last: str) -> str:
    padded = [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, _WIDTHS, _RIGHT, strict=True)
    ]
    return fold_cells("  ".join([*padded, last]).rstrip(), [*padded, last])


def _kind_text(fs: FileSystem, kind: BlockRole, numbers: list[int]) -> str:
    """Blocks of one type: `block bitmap of group 0`, `inodes 1-32`, `directory of inode 12`."""
    distinct = [number for number in dict.fromkeys(numbers) if number >= 0]
    name, count = types.BLOCK_CONTENT_NAMES[kind], len(numbers)
    if kind is BlockRole.INODES:
        per_block = fs.superblock.block_size // fs.superblock.inode_size
        ranges: list[list[int]] = []
        for first in distinct:  # ascending, the first inode of each block
            if ranges and ranges[-1][1] + 1 == first:
                ranges[-1][1] += per_block
            else:
                ranges.append([first, first + per_block - 1])
        return f"{name} {_listed([f'{start}-{end}' for start, end in ranges])}"
    if kind in types.WITH_GROUP:
        return f"{name} of group {_listed(distinct)}"
    if kind in types.WITH_INODE and distinct:
        name = f"{name} of inode {_listed(distinct)}"
    return f"{name} ({count:,} blocks)" if count > max(len(distinct), 1) else name


def _listed(values: list[int] | list[str]) -> str:
    shown = ", ".join(map(str, values[:_MOST_NUMBERS]))
    rest = len(values) - _MOST_NUMBERS
    return f"{shown} and {rest:,} more" if rest > 0 else shown


class Owner(TypedDict, total=False):
    """Owner of a block: a group, an inode, or a number of inodes."""

    group: int
    inode: int
    first_inode: int
    last_inode: int


class TouchedRecord(Owner):
    """Blocks of one type in a transaction."""

    content: str
    blocks: list[int]


class TransactionFacts(fields.CommitTime):
    """A transaction of `journal replay`."""

    record: Literal["transaction"]
    transaction: fields.Transaction
    state: TransactionState
    log_block: fields.LogBlock
    commit_log_block: int | None
    copies: int
    revokes: int
    descriptors: int
    revoke_blocks: int
    committed: bool
    checksum_ok: bool | None
    to_replay: bool


class TransactionRecord(TransactionFacts):
    """A transaction of `journal list`."""

    mount: Annotated[int | None, "Mount count (s_mnt_count) at that time, if known."]
    touched: list[TouchedRecord]
    revoked: Annotated[list[int], "Blocks that the transaction revokes."]


def transaction_records(fs: FileSystem, log: Log) -> Iterator[TransactionRecord]:
    """The transactions as records, with all blocks of each."""
    contents = types.classify_copies(fs, log)
    by_order = np.argsort(log.revokes.order, kind="stable")
    orders = log.revokes.order[by_order]
    for each, mount in zip(log.transactions, _mounts(fs, log), strict=True):
        first, end = np.searchsorted(orders, [each.order, each.order + 1])
        yield {
            **transaction_record(each),
            "mount": mount,
            "touched": list(_touched(fs, contents, each.order)),
            "revoked": np.sort(log.revokes.block[by_order[first:end]]).tolist(),
        }


def transaction_record(transaction: Transaction) -> TransactionFacts:
    """A transaction as a record, without its blocks."""
    return {
        "record": "transaction",
        "transaction": transaction.id,
        "state": transaction.state,
        "log_block": transaction.start,
        "commit_log_block": transaction.commit_index,
        "commit_time_ns": transaction.commit_time_ns,
        "copies": transaction.blocks,
        "revokes": transaction.revokes,
        "descriptors": transaction.descriptors,
        "revoke_blocks": transaction.revoke_blocks,
        "committed": transaction.committed,
        "checksum_ok": transaction.checksum_ok,
        "to_replay": transaction.to_replay,
    }


def _touched(fs: FileSystem, contents: Touched, order: int) -> Iterator[TouchedRecord]:
    rows = contents.of(order)
    columns = (contents.kind[rows], contents.number[rows], contents.block[rows])
    every = zip(*(column.tolist() for column in columns), strict=True)
    for (kind, number), group in groupby(every, key=itemgetter(0, 1)):
        yield {
            "content": types.BLOCK_CONTENT_NAMES[BlockRole(kind)],
            **_number(fs, BlockRole(kind), number),
            "blocks": [block for _, _, block in group],
        }


def _number(fs: FileSystem, kind: BlockRole, number: int) -> Owner:
    if number < 0:
        return {}
    if kind is BlockRole.INODES:
        per_block = fs.superblock.block_size // fs.superblock.inode_size
        return {"first_inode": number, "last_inode": number + per_block - 1}
    if kind in types.WITH_GROUP:
        return {"group": number}
    return {"inode": number}
