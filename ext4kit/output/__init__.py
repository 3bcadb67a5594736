"""The only package that writes: files below one directory, their manifest, and nothing else."""

from ext4kit.output.interrupts import interrupts_wait, take_uninterrupted
from ext4kit.output.manifest import MANIFEST, Manifest, interruption
from ext4kit.output.pouring import hash_zeros
from ext4kit.output.rooted import OutputDirectory, output_limit
from ext4kit.output.written import UnwritableError, Written

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
