"""A second opinion: the live tree as ext4kit reads it against The Sleuth Kit's reading."""

from ext4kit.crosscheck.causes import Cause, Right
from ext4kit.crosscheck.check import Options, bytes_held, crosscheck, usual_limit
from ext4kit.crosscheck.result import CrossCheck, Difference

__all__ = [
    "Cause",
    "CrossCheck",
    "Difference",
    "Options",
    "Right",
    "bytes_held",
    "crosscheck",
    "usual_limit",
]
