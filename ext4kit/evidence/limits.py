"""What opening evidence may cost: whoever made it may have asked for more than there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpenLimits:
    """Limits of opening; the error of evidence that needs more names the option that allows it.

    Attributes:
        key_seconds: for deriving keys, all passphrases and key slots of the evidence together.
        key_memory: bytes for the derivation of one key.
        unpacked: bytes of a decompressed image in the folder of temporary files, where zeros take
            none; None for half of what is free there.
        ask: whether to go on, asked with the facts when `unpacked` is None and reached; the answer
            is no without it.
    """

    key_seconds: float = 300
    key_memory: int = 4 << 30  # as much as cryptsetup ever asks for
    unpacked: int | None = None
    ask: Callable[[str], bool] | None = None
