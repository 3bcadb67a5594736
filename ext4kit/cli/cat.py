"""`ext4kit cat`."""

from __future__ import annotations

import sys

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.session import Session, opened
from ext4kit.errors import RequestError
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.filesystem import LIVE
from ext4kit.grades import Grade
from ext4kit.output.stream import DescriptorWriter
from ext4kit.problems import Severity
from ext4kit.report.phrases import command_text
from ext4kit.report.safe import shown

_EXAMPLE = """\b
Examples:
  ext4kit cat disk.img /var/log/auth.log | less
  ext4kit cat disk.img '<131>' > inode-131
  ext4kit cat disk.img /etc/passwd --as-of 4711
  ext4kit cat disk.img /etc/passwd --version 2
  ext4kit cat disk.img /home/anna/notes.txt --view deleted
"""


@click.command("cat", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(json=False, as_of=True, lost=True, view=True)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--version", type=click.IntRange(1), metavar="N",
              help="The Nth version of each TARGET, as `versions` lists them.")  # fmt: skip
def command(options: CommonOptions, targets: tuple[str, ...], version: int | None) -> None:
    """Write the bytes of each TARGET to standard output: a path, or an inode number as '<12>'.

    Holes are written as zeros, or stay holes if standard output is a file. A target with more
    than 16 GiB of holes can only be written to a file. Unreadable bytes are written as zeros and
    reported on standard error; the exit code is then 1. With --as-of, it is also 1 if a part of the
    content is lost or may be newer; nothing is written of a file that was overwritten.
    """
    with opened(options) as session:
        if version is not None:
            for target in map(session.target, targets):
                _write_version(session, target, version)
            return
        if options.view != LIVE:
            for target in map(session.target, targets):
                _write_node(session, target)
            return
        session.vouch_for_contents()
        for target in map(session.target, targets):
            _write(session, target)


def _write_version(session: Session, target: bytes, number: int) -> None:
    """Write an earlier version; all that speaks against its content is told."""
    from ext4kit.cli.versions import numbered, versions_of
    from ext4kit.recovery.search_sources import WITH_INODES

    version = numbered(versions_of(session, target, WITH_INODES), number)
    where = f"version {number} of {shown(target)}"
    if version.content is None:
        session.fs.problems.add(where, "no content of it is left")
        return
    _write_content(session, version.content, where)
    if version.grade is Grade.PARTIAL:
        for text in version.file.problems if version.file else ():
            session.fs.problems.add(where, text)


def _write_node(session: Session, target: bytes) -> None:
    """Write a file of another view; all that speaks against its content is told."""
    node, where = session.view.lookup(target), shown(target)
    if node.kind not in ("file", "symlink"):
        raise RequestError(f"{where} is a {node.kind}; it has no bytes to print")
    content = node.content()
    if content is None:
        session.fs.problems.add(where, "no content of it is left")
    else:
        _write_content(session, content, where)
    if node.grade is None or not Grade(node.grade).is_whole:
        for reason in node.reasons:
            session.fs.problems.add(where, reason.text)


def _write(session: Session, target: bytes) -> None:
    fs = session.fs
    session.check_used(target)
    inode = fs.inode(fs.lookup(target))
    where = f"inode {inode.number}"
    if fs.is_free(inode):
        image = session.options.image
        command = command_text("recover", image, "--inode", inode.number, "-o", "OUT")
        text = f"the inode is free: {command} recovers what is left of its last file"
        fs.problems.add(where, f"{text}, and --as-of reads an earlier state")
        return
    if inode.is_directory or inode.device or inode.kind in ("fifo", "socket"):
        raise RequestError(f"{where} is a {inode.kind}; it has no bytes to print")
    if inode.is_encrypted:
        what = "encrypted without a known key: the output is ciphertext"
        fs.problems.add(where, what, Severity.WARNING)
    graded = fs.graded_content(inode)
    if graded is None:
        _write_content(session, fs.content(inode), where)
        if doubt := fs.content_uncertainty(inode):
            fs.problems.add(where, doubt.text)
        return
    if graded.grade is not Grade.OVERWRITTEN:
        _write_content(session, graded.content, where)
    for reason in graded.reasons:
        is_whole = graded.grade.is_whole
        fs.problems.add(where, reason.text, Severity.WARNING if is_whole else Severity.ERROR)


def _write_content(session: Session, content: Content, where: str) -> None:
    sys.stdout.flush()
    stream = DescriptorWriter(sys.stdout.fileno())
    if refusal := stream.refuse_reason(content):
        session.fs.problems.add(where, refusal)
        return
    for lost in stream.write_content(content):
        last = lost.offset + lost.length - 1
        what = f"bytes {lost.offset:,} to {last:,} unreadable, written as zeros: {lost.lost}"
        session.fs.problems.add(where, what)
    stream.close()
