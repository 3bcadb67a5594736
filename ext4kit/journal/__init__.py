"""The jbd2 log: reading, replay as an overlay, history of blocks and inodes."""

from ext4kit.journal.history import (
    AsOfBlocks,
    History,
    InodeVersions,
    inode_version_pieces,
    inode_versions,
)
from ext4kit.journal.log import Log
from ext4kit.journal.replay import Replay, ReplayedBlocks, plan_replay, replay
from ext4kit.journal.transactions import State, Transaction, Transactions

__all__ = [
    "AsOfBlocks",
    "History",
    "InodeVersions",
    "Log",
    "Replay",
    "ReplayedBlocks",
    "State",
    "Transaction",
    "Transactions",
    "inode_version_pieces",
    "inode_versions",
    "plan_replay",
    "replay",
]
