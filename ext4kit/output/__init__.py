"""What is written: files below one folder, their manifest, nothing else and nowhere else."""

from ext4kit.output.apart import apart, can_be_apart
from ext4kit.output.interrupts import interrupts_wait
from ext4kit.output.manifest import MANIFEST, Manifest
from ext4kit.output.rooted import RootedOutput, UnwritableError, Written, output_limit

__all__ = [
    "MANIFEST",
    "Manifest",
    "RootedOutput",
    "UnwritableError",
    "Written",
    "apart",
    "can_be_apart",
    "interrupts_wait",
    "output_limit",
]
