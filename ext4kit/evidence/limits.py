"""Limits of opening evidence, because hostile evidence can require unlimited time or memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpenLimits:
    """Limits of opening; an error about a limit names the option that raises it.

    Attributes:
        key_seconds: seconds for deriving keys, for all passphrases and key slots together.
        key_memory: bytes for the derivation of one key.
        unpacked: bytes that a decompressed image may take in the folder of temporary files, not
            counting zeros; None for half of the free space.
        ask: called with the facts when the default limit of `unpacked` is reached; returns whether
            to continue. Without it, opening stops.
    """

    key_seconds: float = 300
    key_memory: int = 4 << 30  # the most that cryptsetup ever uses
    unpacked: int | None = None
    ask: Callable[[str], bool] | None = None
