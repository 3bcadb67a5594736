"""The only package that writes: files below one directory, their manifest, and nothing else."""

from ext4kit.output.interrupts import interrupts_wait, take_uninterrupted
from ext4kit.output.manifest import MANIFEST, Manifest, interruption
from ext4kit.output.rooted import (
    OutputDirectory,
    UnwritableError,
    Written,
    hash_zeros,
    output_limit,
)

__all__ = [
    "MANIFEST",
    "Manifest",
    "OutputDirectory",
    "UnwritableError",
    "Written",
    "hash_zeros",
    "interruption",
    "interrupts_wait",
    "output_limit",
    "take_uninterrupted",
]
