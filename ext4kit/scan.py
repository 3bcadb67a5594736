"""One pass over blocks for several scanners; results are identified by scanner name."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar, cast

from ext4kit.arrays.types import Bytes2D, Int64s
from ext4kit.units import Progress

WORKERS = 2
AHEAD = 2 * WORKERS  # batches in progress at any time
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class BlockBatch:
    """A batch of blocks.

    Attributes:
        blocks: int64 (n,), ascending: file system blocks, or journal blocks.
        data: uint8 (n, block size); read only.
        in_log: whether these are journal blocks; `blocks` are then positions in the journal.
    """

    blocks: Int64s
    data: Bytes2D
    in_log: bool = False

    def __len__(self) -> int:
        return len(self.blocks)


class BlockSource(Protocol):
    """Blocks to scan."""

    @property
    def bytes(self) -> int:
        """Number of bytes to read."""
        ...

    def batches(self) -> Iterator[BlockBatch]:
        """All blocks in order, in batches."""
        ...


@dataclass(frozen=True, slots=True)
class Scanner(Generic[T_co]):
    """A function that examines each batch.

    Attributes:
        name: name, unique in a scan.
        look: returns the result for a batch, which must not refer to the data of the batch.
    """

    name: str
    look: Callable[[BlockBatch], T_co]

    def __call__(self, batch: BlockBatch) -> T_co:
        """Examine a batch and return the result."""
        return self.look(batch)


@dataclass(frozen=True, slots=True)
class KeptScan:
    """Where an earlier scan is.

    Attributes:
        path: file or folder.
        version: of this program; a scan that another one made is not taken.
    """

    path: Path
    version: str


class Scanned:
    """The results of all scanners.

    Args:
        parts: results by scanner name, in the order of the batches.
    """

    def __init__(self, parts: dict[str, list[object]]) -> None:
        self._parts = parts

    def of(self, scanner: Scanner[T]) -> list[T]:
        """The results of a scanner; none if it was not part of the scan."""
        return cast("list[T]", self._parts.get(scanner.name, []))


def scan(
    source: BlockSource, scanners: Sequence[Scanner[object]], progress: Progress | None = None
) -> Scanned:
    """Read blocks once for all scanners; several batches are processed at once.

    Args:
        source: the blocks; they are not read if there are no scanners.
        scanners: scanners with different names.
        progress: called with (bytes done, total bytes).
    """
    parts: dict[str, list[object]] = {scanner.name: [] for scanner in scanners}
    assert len(parts) == len(scanners)
    waiting: deque[tuple[int, Future[list[object]]]] = deque()
    done = 0

    def take() -> None:
        nonlocal done
        size, future = waiting.popleft()
        for found, result in zip(parts.values(), future.result(), strict=True):
            found.append(result)
        done += size
        if progress is not None:
            progress(done, source.bytes)

    with ThreadPoolExecutor(WORKERS) as pool:
        for batch in source.batches() if scanners else ():
            future = pool.submit(lambda one: [scanner(one) for scanner in scanners], batch)
            waiting.append((batch.data.nbytes, future))
            while len(waiting) > AHEAD:
                take()
        while waiting:
            take()
    return Scanned(parts)
