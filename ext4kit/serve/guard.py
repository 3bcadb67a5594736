"""What stands before WsgiDAV: check of the Host header, headers for browsers, errors, the log."""

from __future__ import annotations

import errno
import ipaddress
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import unquote_to_bytes

from ext4kit.report.safe import printable, printable_text

Environment = dict[str, object]
Headers = list[tuple[str, str]]
StartResponse = Callable[[str, Headers], object]
Answer = Iterable[bytes]
Application = Callable[[Environment, Callable[..., object]], Answer]

_NO_SCRIPT = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
_ALWAYS = [
    ("Content-Security-Policy", _NO_SCRIPT),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
]
ALLOWED = "OPTIONS, HEAD, GET, PROPFIND"
_FORBIDDEN = (errno.EACCES, errno.EPERM, getattr(errno, "ENOKEY", errno.EACCES))


class Guard:
    """An application around another one.

    Args:
        inner: the other application.
        host: the name or address that the server listens at.
        log: called with a line for each request.
        page_of: returns status, type and body for an exception of the inner application; None
            if it does not know the exception.
        tell: called with an exception that is an error of the program.
    """

    def __init__(
        self,
        inner: Application,
        host: str,
        log: Callable[[str], object] | None,
        page_of: Callable[[Exception], tuple[str, str, bytes] | None],
        tell: Callable[[Exception], None],
    ) -> None:
        self._inner, self._host, self._page_of = inner, host, page_of
        self._write_line, self._tell = log, tell

    def __call__(self, environ: Environment, start_response: StartResponse) -> Iterator[bytes]:
        """Answer a request; an error after the first bytes closes the connection."""
        has_begun = False
        try:
            self._check_host(environ)
            for piece in self._pieces(environ, start_response):
                has_begun = True
                yield piece
        except Exception as error:
            if has_begun:
                self._log(environ, f"ended: {printable_text(str(error))}")
                raise
            yield self._refused(environ, start_response, error)

    def _pieces(self, environ: Environment, start_response: StartResponse) -> Iterator[bytes]:
        """The answer of the inner application, which begins with its first bytes."""
        told: list[tuple[str, Headers]] = []
        answer = self._inner(environ, lambda *given: told.append(given[:2]))
        try:
            pieces = filter(None, answer)
            first = next(pieces, b"")
            status, headers = told[-1]
            if not first and not _is_head(environ):  # WsgiDAV loses the text of some errors
                headers = [each for each in headers if each[0].lower() != "content-length"]
                headers.append(("Content-Length", "0"))
            self._begin(environ, start_response, status, headers)
            if first and not _is_head(environ):
                yield first
                yield from pieces
        finally:
            with suppress(AttributeError):
                answer.close()  # type: ignore[attr-defined]

    def _begin(
        self, environ: Environment, start_response: StartResponse, status: str, headers: Headers
    ) -> None:
        self._log(environ, status)
        start_response(status, headers + _ALWAYS)

    def _refused(
        self, environ: Environment, start_response: StartResponse, error: Exception
    ) -> bytes:
        """The answer for an error."""
        if (page := self._page_of(error)) is None:
            if not isinstance(error, OSError | WrongHostError):
                self._tell(error)
            page = _page(error)
        status, kind, body = page
        if status.startswith("304"):  # has no body
            body = b""
        headers = [("Content-Type", kind), ("Content-Length", str(len(body)))]
        if status.startswith("405"):
            headers.append(("Allow", ALLOWED))
        if "HTTP_TRANSFER_ENCODING" in environ:  # the rest of the request stays unread
            headers.append(("Connection", "close"))
        self._begin(environ, start_response, status, headers)
        return b"" if _is_head(environ) else body

    def _log(self, environ: Environment, outcome: str) -> None:
        if self._write_line is not None:
            with suppress(OSError):  # nobody reads it any longer
                self._write_line(_line(environ, outcome))

    def _check_host(self, environ: Environment) -> None:
        """Refuse a name by which nobody was told to ask: that of a page that was bound anew.

        Raises:
            WrongHostError: the Host header has another name.
        """
        name = str(environ.get("HTTP_HOST", "")).rsplit("@", 1)[-1].lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        if name in ("localhost", self._host.lower()):
            return
        try:
            ipaddress.ip_address(name)
        except ValueError:
            raise WrongHostError from None


class WrongHostError(Exception):
    """The Host header has a name that is not that of the server."""


def _page(error: Exception) -> tuple[str, str, bytes]:
    """Status, type and body for an exception."""
    text, found = "internal error", HTTPStatus.INTERNAL_SERVER_ERROR
    if isinstance(error, WrongHostError):
        found, text = HTTPStatus.MISDIRECTED_REQUEST, "use the address that the command printed"
    elif isinstance(error, OSError):
        found = HTTPStatus.FORBIDDEN if error.errno in _FORBIDDEN else found
        text = printable_text(error.strerror or str(error))
    status = f"{found.value} {found.phrase}"
    return status, "text/plain; charset=utf-8", f"{status}: {text}\n".encode("utf-8", "replace")


def _is_head(environ: Environment) -> bool:
    return environ.get("REQUEST_METHOD") == "HEAD"


def _line(environ: Environment, outcome: str) -> str:
    """A request as one line that cannot control a terminal."""
    path = printable(unquote_to_bytes(str(environ.get("REQUEST_URI", "")).encode("latin-1")))
    method = printable_text(str(environ.get("REQUEST_METHOD", "")))
    return f"{environ.get('REMOTE_ADDR', '')} {method} {path}: {outcome}"
