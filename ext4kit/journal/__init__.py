"""The jbd2 log: its reading, its replay as an overlay, and the history of blocks and inodes."""

from ext4kit.journal.block_history import BlockHistory, CopiesAsOf
from ext4kit.journal.log import Log
from ext4kit.journal.logged_inodes import InodeVersions, inode_version_batches, inode_versions
from ext4kit.journal.replay import ReplayedBlocks, ReplayPlan, plan_replay, replay
from ext4kit.journal.shared_log import SharedLog
from ext4kit.journal.transactions import Transaction, Transactions, TransactionState

__all__ = [
    "CopiesAsOf",
    "BlockHistory",
    "InodeVersions",
    "Log",
    "SharedLog",
    "ReplayPlan",
    "ReplayedBlocks",
    "TransactionState",
    "Transaction",
    "Transactions",
    "inode_version_batches",
    "inode_versions",
    "plan_replay",
    "replay",
]
