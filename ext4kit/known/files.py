"""Which contents of a file system are in lists of known files."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from ext4kit.errors import AccessError, CorruptError
from ext4kit.fields import HashName
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Content
from ext4kit.known.digests import Digester
from ext4kit.known.lists import KnownList
from ext4kit.known.table import WIDTHS


@dataclass(frozen=True, slots=True)
class KnownMatch:
    """A content that is in a list.

    Attributes:
        source: file name of the list.
        algorithm: of the digest that was found.
        digest: in hex.
    """

    source: str
    algorithm: HashName
    digest: str


class KnownFiles:
    """Compares the contents of a file system with lists; each content is hashed once.

    A content of a size that no list has is not read. Only the algorithms of the lists are computed.
    Bytes that cannot be read make a content unknown.

    Args:
        lists: the lists; an earlier one counts first.
        blocks: the blocks of the file system.
    """

    def __init__(self, lists: Sequence[KnownList], blocks: BlockReader) -> None:
        self.lists = lists
        names = {name for one in lists for name in one.algorithms}
        self._digester = Digester(tuple(name for name in WIDTHS if name in names), blocks)
        self._matches: dict[Hashable, KnownMatch | None] = {}

    def match(self, identity: Hashable, opened: Callable[[], object]) -> KnownMatch | None:
        """The first list that has a content.

        Args:
            identity: tells it apart from all other contents of the file system.
            opened: gives the `Content`; None for what has none.

        Raises:
            RequestError: a list cannot be read.
        """
        if identity not in self._matches:
            self._matches[identity] = self._found(opened)
        return self._matches[identity]

    def may_have_size(self, size: int) -> bool:
        """Whether a file of this size can be in a list."""
        return any(one.may_have_size(size) for one in self.lists)

    def condition(self, wanted: bool) -> Callable[[Hashable, Callable[[], object]], bool]:
        """A condition of a selection: whether a content is known, or that it is not."""
        return lambda identity, opened: (self.match(identity, opened) is not None) is wanted

    def _found(self, opened: Callable[[], object]) -> KnownMatch | None:
        try:
            content = opened()
            if not isinstance(content, Content) or not self.may_have_size(content.size):
                return None
            digests = self._digester.of(content)
        except (AccessError, CorruptError):
            return None
        for one in self.lists:
            for name in one.algorithms if one.may_have_size(content.size) else ():
                digest = digests.get(name)
                if digest is not None and one.has(name, bytes.fromhex(digest)):
                    return KnownMatch(one.name, name, digest)
        return None
