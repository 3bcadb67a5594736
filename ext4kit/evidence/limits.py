"""What opening evidence may cost: whoever made it may have asked for more than there is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpenLimits:
    """Limits of opening; the error of evidence that needs more names the option that allows it.

    Attributes:
        key_seconds: for deriving keys, all passphrases and key slots of the evidence together.
        key_memory: bytes for the derivation of one key.
    """

    key_seconds: float = 300
    key_memory: int = 4 << 30  # as much as cryptsetup ever asks for
