"""Serves an image through the program, for the time of a context, and reads it over HTTP."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes
from xml.etree import ElementTree

from tests.environment import ROOT
from tests.mount.mounting import ENVIRONMENT, READY

SPACE = "{urn:ext4kit:}"
_SAID = re.compile(r"serving http://(\S+):(\d+)/ to the user (\S+) with the password (\S+)")


class Reply(NamedTuple):
    """An answer.

    Attributes:
        status: its status.
        headers: its headers, names in lower case.
        body: its body.
    """

    status: int
    headers: dict[str, str]
    body: bytes


class Resource(NamedTuple):
    """What PROPFIND says of a node.

    Attributes:
        path: its path, decoded.
        values: its properties by name.
        is_folder: whether it is a collection.
    """

    path: bytes
    values: dict[str, str]
    is_folder: bool

    @property
    def size(self) -> int | None:
        """Bytes, if it states any."""
        text = self.values.get("{DAV:}getcontentlength")
        return None if text is None else int(text)

    @property
    def modified(self) -> int:
        """Seconds since 1970."""
        return int(parsedate_to_datetime(self.values["{DAV:}getlastmodified"]).timestamp())


@dataclass
class Serving:
    """A server of the program.

    Attributes:
        process: the program.
        errors: file with what it wrote to standard error.
        host: its address.
        port: its port.
        user: who may read.
        password: the password.
        kept: the connection of each thread.
    """

    process: subprocess.Popen[bytes]
    errors: Path
    host: str
    port: int
    user: str
    password: str
    kept: threading.local = field(default_factory=threading.local)

    def request(
        self,
        method: str,
        path: bytes,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        is_known: bool = True,
    ) -> Reply:
        """The answer to a request.

        Args:
            method: the method.
            path: path, not encoded.
            headers: further headers.
            body: the body.
            is_known: send the password.
        """
        given = dict(headers or {})
        if is_known:
            given["Authorization"] = self.basic(self.user, self.password)
        connection = getattr(self.kept, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            self.kept.connection = connection
        try:
            connection.request(method, quote(path), body, given)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        except (OSError, http.client.HTTPException):
            connection.close()
            raise

    @staticmethod
    def basic(user: str, password: str) -> str:
        """The header of Basic."""
        return "Basic " + b64encode(f"{user}:{password}".encode()).decode()

    def get(self, path: bytes, headers: dict[str, str] | None = None) -> Reply:
        """The answer to GET."""
        return self.request("GET", path, headers)

    def digest(self, path: bytes) -> str:
        """SHA-256 of a file; an empty string if it cannot be read to its end."""
        with suppress(http.client.HTTPException):
            found = self.get(path)
            return hashlib.sha256(found.body).hexdigest() if found.status == 200 else ""
        return ""

    def listed(self, path: bytes, depth: str = "1", body: bytes | None = None) -> list[Resource]:
        """A node, and what is directly below it."""
        found = self.request("PROPFIND", path, {"Depth": depth}, body)
        assert found.status == 207, (path, found)
        return [_resource(each) for each in ElementTree.fromstring(found.body)]

    def below(self, path: bytes) -> Iterator[Resource]:
        """Everything below a directory."""
        waiting = [path]
        while waiting:
            for each in self.listed(waiting.pop())[1:]:
                yield each
                if each.is_folder:
                    waiting.append(each.path)

    def digests(self, path: bytes) -> dict[bytes, str]:
        """SHA-256 of every file below a directory that can be read to its end."""
        return {
            each.path.removeprefix(path.rstrip(b"/") + b"/"): digest
            for each in self.below(path)
            if not each.is_folder and "{DAV:}getcontenttype" not in each.values
            if (digest := self.digest(each.path))
        }

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(30)


def _resource(response: ElementTree.Element) -> Resource:
    found = response.find("{DAV:}propstat/{DAV:}prop")
    assert found is not None
    href = response.findtext("{DAV:}href") or ""
    values = {each.tag: each.text or "" for each in found}
    is_folder = found.find("{DAV:}resourcetype/{DAV:}collection") is not None
    return Resource(unquote_to_bytes(href), values, is_folder)


@contextmanager
def served(
    image: Path, *options: str | Path, program: Sequence[str] = ("-m", "ext4kit")
) -> Iterator[Serving]:
    """The views of an image over HTTP, for the time of the context.

    Args:
        image: the image.
        options: of the command.
        program: what Python runs.
    """
    errors = Path(tempfile.mkstemp(prefix="ext4kit-errors-")[1])
    ours, theirs = os.pipe()
    words = [sys.executable, *program, "serve", str(image)]
    words += ["--ready-fd", str(theirs), *map(str, options)]
    with errors.open("wb") as told:
        process = subprocess.Popen(words, stderr=told, pass_fds=[theirs], env=ENVIRONMENT, cwd=ROOT)
    os.close(theirs)
    try:
        readable = select.select([ours], [], [], READY)[0]
        said = _SAID.search(errors.read_text(errors="replace"))
        if not readable or not os.read(ours, 1) or said is None:
            raise AssertionError(errors.read_text(errors="replace"))
        yield Serving(process, errors, said[1], int(said[2]), said[3], said[4])
    finally:
        os.close(ours)
        if process.poll() is None:
            process.kill()
        process.wait()
        errors.unlink()
