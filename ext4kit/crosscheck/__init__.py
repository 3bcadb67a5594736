"""A second opinion: names and inodes as ext4kit reads them against The Sleuth Kit's reading."""

from ext4kit.crosscheck.causes import Cause, Right
from ext4kit.crosscheck.check import Options, bytes_held, crosscheck, usual_limit
from ext4kit.crosscheck.deleted import DeletedName
from ext4kit.crosscheck.result import CrossCheck, Difference

__all__ = [
    "Cause",
    "CrossCheck",
    "DeletedName",
    "Difference",
    "Options",
    "Right",
    "bytes_held",
    "crosscheck",
    "usual_limit",
]
