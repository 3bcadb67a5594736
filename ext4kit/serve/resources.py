"""The nodes of a tree as the resources of WsgiDAV; nothing can be written."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from wsgidav.dav_error import (
    HTTP_BAD_REQUEST,
    HTTP_FORBIDDEN,
    DAVError,
    PRECONDITION_CODE_PropfindFiniteDepth,
    get_http_status_string,
)
from wsgidav.dav_provider import DAVCollection, DAVNonCollection, DAVProvider
from wsgidav.util import parse_xml_body

from ext4kit.mount.operations import Operations
from ext4kit.serve.guard import Answer, Environment
from ext4kit.serve.multistatus import multistatus, wanted_of
from ext4kit.serve.nodes import ServedContent, ServedNode, node_at
from ext4kit.serve.page import page_of

_KEPT = 64  # pieces
Resource = Any  # a resource of WsgiDAV, which has no types
Start = Callable[..., object]


class _ServedResource:
    """What files and folders have in common.

    Args:
        node: the node.
        environ: the request.
    """

    environ: Environment

    def __init__(self, node: ServedNode, environ: Environment) -> None:
        super().__init__(node.path.decode("latin-1"), environ)  # type: ignore[call-arg]  # DAV's
        self.node = node

    def get_href(self) -> str:
        return self.node.href

    def get_ref_url(self) -> str:
        return self.node.href

    def get_display_name(self) -> str:
        return self.node.name

    def get_etag(self) -> str | None:
        return self.node.etag

    def get_last_modified(self) -> int | None:
        seconds = self.node.modified
        return None if seconds is None or seconds < 0 else seconds  # not on Windows

    def support_etag(self) -> bool:
        return self.node.etag is not None


class ServedFile(_ServedResource, DAVNonCollection):  # type: ignore[misc]  # no types
    """A file, or a symlink as a file with its target.

    Args:
        node: the node.
        environ: the request.
    """

    def get_content_length(self) -> int | None:
        """Bytes."""
        return self.node.size

    def get_content_type(self) -> str:
        """Media type."""
        return self.node.type

    def support_ranges(self) -> bool:
        """True."""
        return True

    def get_content(self) -> ServedContent:
        """The content as a stream."""
        return self.node.opened()

    def finalize_headers(self, _environ: Environment, headers: list[tuple[str, str]]) -> None:
        """Make a browser save the file instead of showing it beside other evidence."""
        headers.append(("Content-Disposition", "attachment"))


class ServedFolder(_ServedResource, DAVCollection):  # type: ignore[misc]  # no types
    """A directory.

    Args:
        node: the node.
        environ: the request.
    """

    def get_member_names(self) -> list[str]:
        """Nothing: `ServedTree` lists directories."""
        return []


class ServedTree(DAVProvider):  # type: ignore[misc]  # no types
    """The whole tree.

    Args:
        operations: the calls that answer.
    """

    def __init__(self, operations: Operations) -> None:
        super().__init__()
        self._operations = operations

    def is_readonly(self) -> bool:
        """True."""
        return True

    def get_resource_inst(self, path: str, environ: Environment) -> Resource:
        """The resource at a path; None if there is none."""
        node = node_at(self._operations, path.encode("latin-1"))
        return None if node is None else _resource(node, environ)

    def custom_request_handler(self, environ: Environment, start: Start, handler: Any) -> Answer:
        """Give properties, and show a directory to a browser; WsgiDAV does the rest."""
        method = environ["REQUEST_METHOD"]
        node = node_at(self._operations, str(environ["PATH_INFO"]).encode("latin-1"))
        if node is not None and method == "PROPFIND":
            return _properties(node, environ, start)
        if node is not None and node.is_folder and method in ("GET", "HEAD"):
            return _sent(start, "200 OK", "text/html", page_of(node))
        answer: Answer = handler(environ, start)
        return answer


def _asked(environ: Environment) -> Any:
    """The XML of a request, None without; one with a document type is refused, whatever reads XML.

    Raises:
        DAVError: it is no XML, or has a document type, whose entities could grow without bound.
    """
    length = str(environ.get("CONTENT_LENGTH") or "0")
    stream: Any = environ["wsgi.input"]
    body: bytes = stream.read(int(length)) if length.isdecimal() else b""
    if b"<!DOCTYPE" in body.replace(b"\0", b""):  # also in UTF-16
        raise DAVError(HTTP_BAD_REQUEST)
    return parse_xml_body({**environ, "wsgi.input": io.BytesIO(body)}, allow_empty=True)


def _properties(node: ServedNode, environ: Environment, start: Start) -> Answer:
    """The answer to PROPFIND; a request that states no depth is for one directory.

    Raises:
        DAVError: the request is for a whole tree, or makes no sense.
    """
    depth = str(environ.get("HTTP_DEPTH", "1"))
    if depth not in ("0", "1") and node.is_folder:
        condition = PRECONDITION_CODE_PropfindFiniteDepth
        raise DAVError(HTTP_FORBIDDEN, err_condition=condition)
    wanted = wanted_of(_asked(environ))
    nodes: Iterable[ServedNode] = [node]
    if depth == "1" and node.is_folder:
        nodes = chain(nodes, node.members())
    return _sent(start, "207 Multi-Status", "application/xml", multistatus(nodes, wanted))


def _sent(start: Start, status: str, kind: str, pieces: Iterator[bytes]) -> Answer:
    """An answer in pieces; a small one has a length, so that the connection is kept."""
    first, headers = list(islice(pieces, _KEPT)), [("Content-Type", f"{kind}; charset=utf-8")]
    if len(first) < _KEPT:
        headers.append(("Content-Length", str(sum(map(len, first)))))
    start(status, headers)
    return chain(first, pieces)


def _resource(node: ServedNode, environ: Environment) -> Resource:
    return (ServedFolder if node.is_folder else ServedFile)(node, environ)


def page_of_error(error: Exception) -> tuple[str, str, bytes] | None:
    """Status, type and body for an error of WsgiDAV; None for any other."""
    if not isinstance(error, DAVError):
        return None
    status = get_http_status_string(error)
    if error.err_condition is not None:
        kind, body = error.get_response_page()
        return status, kind, body
    return status, "text/plain; charset=utf-8", f"{status}\n".encode()
