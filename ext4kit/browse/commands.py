"""What the browser does, as commands of the program that do the same."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ext4kit.browse.filters import FileFilter
from ext4kit.filesystem.view import FileState, Node
from ext4kit.report.safe import printable_text
from ext4kit.selection import is_glob
from ext4kit.views.together import JoinedNode, own_node

if TYPE_CHECKING:
    from ext4kit.recovery import DeletedFile


def file_of(node: Node) -> DeletedFile | None:
    """The record of a deleted file; None for others."""
    if node.file_state is FileState.LIVE:
        return None
    from ext4kit.views.records import record_of  # loads the recovery

    return record_of(node)


@dataclass(frozen=True)
class ShellCommands:
    """Commands for one image.

    Attributes:
        image: the image as it was given.
        options: those that select the file system in it.
    """

    image: str
    options: Sequence[str] = ()

    def words(self, command: str, *words: str | bytes) -> list[str]:
        """A command as words, from the name of the program on."""
        return ["ext4kit", command, self.image, *self.options, *map(_word, words)]

    def line(self, command: str, *words: str | bytes) -> str:
        """A command as a line for a shell."""
        return shell_line(self.words(command, *words))

    def view(self, root: str, path: bytes, node: Node, transaction: int | None) -> list[str]:
        """The options and the target that name a node for `cat`, `stat` and `ls`."""
        target = _word(path or b"/")
        if transaction is not None:
            return [target, "--as-of", str(transaction)]
        if root == "unattached":
            return [f"<{node.number}>"] if node.number else ["/", "--view", "unattached"]
        if root == "unallocated":
            return [target, "--view", "unallocated"]
        if root == "carved":
            return [target, "--view", "deleted"]
        return [target, "--view", "all"] if file_of(node) or _is_renamed(node) else [target]

    def show(self, root: str, path: bytes, node: Node, transaction: int | None) -> list[str]:
        """Commands that show what the panes show of a node."""
        words = self.view(root, path, node, transaction)
        if node.kind == "directory":
            return [self.line("ls", *words)]
        found = [self.line("cat", *words)] if node.kind in ("file", "symlink") else []
        found.append(self.line("stat", *words))
        file = file_of(node)
        if file is not None and file.number is not None:
            found.append(self.line("explain", f"<{file.number}>"))
        if node.kind == "file" and root == "/" and transaction is None and not _is_renamed(node):
            found.append(self.line("versions", own_node(node).path))
        return found

    def recover(
        self, files: Iterable[DeletedFile], out: str, folders: Iterable[bytes | None] = ()
    ) -> list[str]:
        """The command that recovers deleted files.

        Args:
            files: the files.
            out: the folder.
            folders: the directories that have them all, None among them if they do not.
        """
        each, above = list(files), list(folders)
        tops = [path for path in above if path is not None]
        have_all = len(tops) == len(above) > 0 and all(file.path is not None for file in each)
        if have_all and not any(map(is_glob, tops)):
            return self.words("recover", *sorted(tops), "-o", out)
        numbers = sorted({file.number for file in each if file.number is not None})
        words: list[str | bytes] = []
        paths = [file.path for file in each if file.path is not None]
        if len(paths) == len(each) and not any(is_glob(path) for path in paths):
            words += paths
        for number in numbers:
            words += ["--inode", str(number)]
        return self.words("recover", *words, "-o", out)

    def extract(
        self, targets: Iterable[bytes], out: str, transaction: int | None = None
    ) -> list[str]:
        """The command that copies live files, or those of an earlier time."""
        when = [] if transaction is None else ["--as-of", str(transaction)]
        return self.words("extract", *targets, "-o", out, *when)

    def moment(self, transaction: int | None) -> str:
        """The command that lists the tree at a moment."""
        if transaction is None:
            return self.line("ls", "/", "-r", "--view", "all")
        return self.line("ls", "/", "-r", "--as-of", str(transaction))

    def deleted(self, wanted: FileFilter, known: Sequence[str]) -> str:
        """The command that lists the deleted files that a filter lets through."""
        lists = [word for name in known for word in ("--known", name)]
        return self.line("deleted", *wanted.options_of_deleted, *lists)

    def changes(self, path: bytes, wanted: FileFilter) -> str:
        """The command that lists the events of a file and of all below it."""
        times = (word for name, value in wanted.values if name in ("since", "until")
                 for word in (f"--{name}", value))  # fmt: skip
        return self.line("timeline", path or b"/", "--no-hints", *times)

    def filtered(self, wanted: FileFilter, known: Sequence[str]) -> str:
        """The command with the conditions of a filter: `deleted` lists, `extract` copies."""
        if wanted.is_of_deleted:
            return self.deleted(wanted, known)
        words = [word for word in wanted.options if not word.endswith("-known")]
        return self.line("extract", "/", *words, "-o", "OUT")


def _is_renamed(node: Node) -> bool:
    """Whether the path is of the joined tree alone."""
    return isinstance(node, JoinedNode) and own_node(node).path != node.path


def _word(word: str | bytes) -> str:
    return word if isinstance(word, str) else os.fsdecode(word)


def shell_line(words: Iterable[str]) -> str:
    """Words as a line for a shell.

    A word with characters that could control the terminal, or that are no text, is written as
    `$'...'`, which bash, zsh, ksh and busybox know.
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if printable_text(word) == word and "\ufffd" not in word:
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, os.fsencode(word))) + "'"


def _escaped(byte: int) -> str:
    letter = chr(byte)
    if letter in "\\'":
        return f"\\{letter}"
    return letter if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"
