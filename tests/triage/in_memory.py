"""Contents that a test gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InMemory:
    """A content that is given."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]
