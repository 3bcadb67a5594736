"""Compares the names and inodes that ext4kit reads with those that The Sleuth Kit reads."""

from ext4kit.crosscheck.causes import Cause, LikelyRight
from ext4kit.crosscheck.check import CrossCheckOptions, bytes_held, crosscheck, usual_limit
from ext4kit.crosscheck.deleted import DeletedName
from ext4kit.crosscheck.result import CrossCheck, Difference

__all__ = [
    "Cause",
    "CrossCheck",
    "DeletedName",
    "Difference",
    "CrossCheckOptions",
    "LikelyRight",
    "bytes_held",
    "crosscheck",
    "usual_limit",
]
