"""`ext4kit serve`."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.session import first_line
from ext4kit.cli.telling import tell_line
from ext4kit.cli.trees import operations_of, ready_option, tell_ready
from ext4kit.errors import RequestError
from ext4kit.serve.server import (
    LOOPBACK,
    USER,
    ServeOptions,
    is_loopback,
    load_dav,
    new_password,
    serve,
)

_EXAMPLE = """\b
Examples:
  ext4kit serve disk.img
  ext4kit serve disk.img --port 8080 --web-password-file secret.txt -v
  curl --digest -u ext4kit:PASSWORD http://127.0.0.1:8080/live/etc/passwd
  gio mount dav://ext4kit@127.0.0.1:8080/
"""
_OPEN = (
    "warning: other computers can connect; plain HTTP is not encrypted, so that everyone on the "
    "way can read what is sent"
)
_WAYS = """\
  Linux:   gio mount dav://{user}@{place}/
  Linux:   mount -t davfs -o ro {address} DIR
  macOS:   Finder, Go, Connect to Server: {address}
  Windows: net use * {address} /user:{user} {password}"""


@click.command("serve", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(json=False)
@click.option("--host", default=LOOPBACK, show_default=True, metavar="ADDRESS",
              help="Address to listen at; at any other, other computers can connect.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N",
              help="Listen at this port; by default, at a free one.")  # fmt: skip
@click.option("--web-password-file", type=click.Path(path_type=Path), metavar="FILE",
              help="Read the password for clients from the first line of FILE; by default, it is "
              "a random one.")  # fmt: skip
@ready_option
@click.option("-v", "--verbose", is_flag=True, help="Write a line for each request to stderr.")
def command(
    options: CommonOptions,
    host: str,
    port: int,
    web_password_file: Path | None,
    ready_fd: int | None,
    verbose: bool,
) -> None:
    """Serve the trees of IMAGE read-only over WebDAV, until Ctrl-C.

    For systems without FUSE, and for the file managers of Windows and macOS. The trees are those
    of `ext4kit mount`: live/, deleted/, as-of/, versions/, unattached/, unallocated/, slack/,
    metadata/; with several file systems and without --volume, each is in a folder volume-N. The
    address, the user and the password are printed on stderr. A browser shows the same trees.

    Nothing can be written. What is lost or damaged is an error when it is read: status 500, or a
    connection that is closed before the end of the file. A symlink is a file that holds its
    target. Of deleted files and earlier states the properties grade, reasons, sources and deleted
    (namespace urn:ext4kit:) tell more; sha256 of any file is computed when it is asked for by name.
    The whole tree cannot be listed in one request. Owners and modes are not shown.

    The server needs WsgiDAV and cheroot: pip install 'ext4kit[serve]'.
    """
    load_dav()
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a client that goes away ends nothing
    password = new_password() if web_password_file is None else _password_of(web_password_file)
    shown = password if web_password_file is None else None
    with operations_of(options) as operations:
        ready = partial(_tell_ready, options, ready_fd, shown, is_loopback(host))
        log = tell_line if verbose else None
        serve(operations, ServeOptions(host, port, password, ready, log))


def _password_of(path: Path) -> str:
    """The password in a file.

    Raises:
        RequestError: it cannot be read, is empty, or not UTF-8.
    """
    try:
        found = first_line(path).decode("utf-8").rstrip("\r")
    except UnicodeDecodeError as error:
        raise RequestError(f"{path}: the password is not UTF-8") from error
    if not found:
        raise RequestError(f"{path}: the first line has no password")
    return found


def _tell_ready(
    options: CommonOptions, ready_fd: int | None, password: str | None, is_safe: bool, address: str
) -> None:
    """Tell the address, how to connect, and the password, unless it is the user's own."""
    place = address.removeprefix("http://").rstrip("/")
    known = "of --web-password-file" if password is None else password
    tell_line(f"note: serving {address} to the user {USER} with the password {known}")
    if not options.quiet:
        values = {"place": place, "address": address, "user": USER, "password": password or "*"}
        click.echo(_WAYS.format_map(values), err=True)
        if not is_safe:
            tell_line(_OPEN)
    tell_ready(ready_fd)
