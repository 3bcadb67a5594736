"""`ext4kit cat`."""

from __future__ import annotations

import os
import sys

import click

from ext4kit.cli.session import CONTEXT, CommonOptions, Session, opened, shared
from ext4kit.errors import RequestError
from ext4kit.output.stream import DescriptorWriter
from ext4kit.problems import Severity

_EXAMPLE = """\b
Examples:
  ext4kit cat disk.img /var/log/auth.log | less
  ext4kit cat disk.img '<131>' > inode-131
  ext4kit cat disk.img /etc/passwd --as-of 4711
"""


@click.command("cat", context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(json=False, as_of=True, lost=True)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
def command(options: CommonOptions, targets: tuple[str, ...]) -> None:
    """The bytes of each TARGET to standard output: a path, or a number as '<12>'.

    Holes come as zeros (up to 16 GiB of them; a file with more is not printed), or stay holes
    when standard output is a file. What cannot be read
    comes as zeros, is told on standard error, and makes the exit code 1. So does, with
    --as-of, content that is not certain to be that of the time: most file data is not journaled.
    """
    with opened(options) as session:
        for target in map(os.fsencode, targets):
            _write(session, target)


def _write(session: Session, target: bytes) -> None:
    fs = session.fs
    inode = fs.inode(fs.lookup(target))
    where = f"inode {inode.number}"
    if inode.is_directory or inode.device or inode.kind in ("fifo", "socket"):
        raise RequestError(f"{where} is a {inode.kind}; it has no bytes to print")
    if inode.is_encrypted:
        what = "is encrypted and no key is known: this is ciphertext"
        fs.problems.add(where, what, Severity.WARNING)
    sys.stdout.flush()
    stream = DescriptorWriter(sys.stdout.fileno())
    content = fs.content(inode)
    if refusal := stream.refuse_reason(content):
        fs.problems.add(where, refusal)
        return
    for lost in stream.write_content(content):
        last = lost.offset + lost.length - 1
        what = f"bytes {lost.offset:,} to {last:,} are lost, zeros stand for them: {lost.reason}"
        fs.problems.add(where, what)
    stream.close()
    if doubt := fs.content_uncertainty(inode):
        fs.problems.add(where, doubt.text)
