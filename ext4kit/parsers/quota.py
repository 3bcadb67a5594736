"""Quota files of version 2, revision 1: usage by user, group or project.

Source: kernel fs/quota/quotaio_v2.h and quota_tree.h.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.errors import CorruptError
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.words import Int16ul, Int32ul, Int64ul, Struct
from ext4kit.units import widen

QUOTA_HEADER = Layout(
    "quota file header",
    Struct(
        "dqh_magic" / Int32ul,  # one of MAGICS
        "dqh_version" / Int32ul,  # 1
    ),
)
QUOTA_LEAF = Layout(
    "quota leaf",
    Struct(
        "dqdh_next_free" / Int32ul,
        "dqdh_prev_free" / Int32ul,
        "dqdh_entries" / Int16ul,  # in use
        "dqdh_pad1" / Int16ul,
        "dqdh_pad2" / Int32ul,
    ),
)
QUOTA_ENTRY = Layout(
    "quota entry",
    Struct(
        "dqb_id" / Int32ul,
        "dqb_pad" / Int32ul,
        "dqb_ihardlimit" / Int64ul,
        "dqb_isoftlimit" / Int64ul,
        "dqb_curinodes" / Int64ul,
        "dqb_bhardlimit" / Int64ul,
        "dqb_bsoftlimit" / Int64ul,
        "dqb_curspace" / Int64ul,  # bytes
        "dqb_btime" / Int64ul,
        "dqb_itime" / Int64ul,  # 1 marks an entry that would otherwise look unused
    ),
)
MAGICS = (0xD9C01F11, 0xD9C01927, 0xD9C03F14)  # users, groups, projects
BLOCK = 1024
_DEPTH = 4


def parse_quota(data: Buffer, kind: int) -> tuple[Int64s, Int64s, Int64s]:
    """(id, bytes, inodes) of every entry in use, int64.

    Args:
        data: the whole file.
        kind: index into `MAGICS`.

    Raises:
        CorruptError: the file is not a quota file of that kind.
    """
    if QUOTA_HEADER.parse(data).dqh_magic != MAGICS[kind]:
        raise CorruptError(QUOTA_HEADER.name, 0, "wrong magic number")
    whole = np.frombuffer(data, np.uint8)
    blocks = whole[: len(whole) // BLOCK * BLOCK].reshape(-1, BLOCK)
    level = np.array([1])
    for _ in range(_DEPTH):
        level = level[(level > 0) & (level < len(blocks))]
        level = np.unique(np.ascontiguousarray(blocks[level]).view("<u4")).astype(np.int64)
    level = level[(level > 0) & (level < len(blocks))]
    room = (BLOCK - QUOTA_LEAF.size) // QUOTA_ENTRY.size
    body = blocks[level, QUOTA_LEAF.size : QUOTA_LEAF.size + room * QUOTA_ENTRY.size]
    rows = np.ascontiguousarray(body).reshape(-1, QUOTA_ENTRY.size)
    entries = QUOTA_ENTRY.columns(rows[rows.any(axis=1)])
    usage, inodes = widen(entries["dqb_curspace"]), widen(entries["dqb_curinodes"])
    return widen(entries["dqb_id"]), usage, inodes
