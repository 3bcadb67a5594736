"""Tables for every inode number, on systems with and without huge pages."""

from __future__ import annotations

import errno
import mmap

import pytest

from ext4kit.filesystem.sparse import sparse_flags


class WithoutHugePages(mmap.mmap):
    """Memory of a kernel that was built without huge pages."""

    def madvise(self, option: int, start: int = 0, length: int = 0) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")


@pytest.mark.parametrize("kind", [mmap.mmap, WithoutHugePages])
def test_a_table_is_all_false_and_can_be_written(
    kind: type[mmap.mmap], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmap.mmap", kind)
    flags = sparse_flags(1 << 21)
    assert len(flags) == 1 << 21
    assert not flags.any()
    flags[[5, 1 << 20]] = True
    assert flags.nonzero()[0].tolist() == [5, 1 << 20]
