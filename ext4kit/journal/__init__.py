"""The jbd2 log: reading, replay as an overlay, history of blocks and inodes."""

from ext4kit.journal.history import (
    AsOfBlocks,
    History,
    InodeVersions,
    inode_version_pieces,
    inode_versions,
)
from ext4kit.journal.log import Log, Transaction
from ext4kit.journal.replay import Replay, ReplayedBlocks, plan_replay, replay

__all__ = [
    "AsOfBlocks",
    "History",
    "InodeVersions",
    "Log",
    "Replay",
    "ReplayedBlocks",
    "Transaction",
    "inode_version_pieces",
    "inode_versions",
    "plan_replay",
    "replay",
]
