"""A read-only WebDAV server with WsgiDAV and cheroot, until it is interrupted."""

from __future__ import annotations

import ipaddress
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread
from typing import Any

from ext4kit.errors import RequestError
from ext4kit.evidence.containers.extras import extra
from ext4kit.mount.operations import Operations
from ext4kit.signals import take_signals

LOOPBACK = "127.0.0.1"
USER = "ext4kit"
_THREADS = 16
_TIMEOUT = 120  # seconds that a client may pause in reading
_GRACE = 1  # seconds for answers that are under way when the server ends
_MOMENT = 0.5  # seconds; on Windows nothing interrupts a longer wait
_PATIENCE = 1.5  # seconds for the end
_MOST_HEADERS = 1 << 16  # bytes
_MOST_BODY = 1 << 20  # bytes; no request needs more, and what is refused is read first
_PIECE = 1 << 18  # bytes
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # none that is taken for another one
_LENGTH = 20  # 100 bits


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How a tree is served.

    Attributes:
        host: name or address to listen at.
        port: port; 0 for a free one.
        password: what a client must know.
        is_ready: called once with the address.
        log: called with a line for each request.
    """

    host: str
    port: int
    password: str
    is_ready: Callable[[str], None] = lambda _: None
    log: Callable[[str], object] | None = None


def load_dav() -> None:
    """Load the libraries.

    Raises:
        UnsupportedError: they are not installed.
    """
    for package in ("cheroot", "wsgidav"):
        with extra("a WebDAV server", package, "serve"):
            __import__(package)


def new_password() -> str:
    """A random password."""
    return "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def serve(operations: Operations, options: ServeOptions) -> None:
    """Serve a tree until an interrupt.

    Raises:
        RequestError: the address cannot be listened at.
        KeyboardInterrupt: an interrupt came.
    """
    server = _server(operations, options)
    try:
        server.prepare()
    except OSError as error:
        what = str(error).rpartition("] ")[2].rstrip(")")
        text = f"{options.host}:{options.port}: cannot listen there: {what}"
        raise RequestError(f"{text}; choose another --port or --host") from error
    thread = Thread(target=server.serve, name="serve", daemon=True)
    try:
        take_signals()
        thread.start()
        options.is_ready(_address(options.host, server.bind_addr[1]))
        while thread.is_alive():
            thread.join(_MOMENT)
    finally:
        _stop(server)


def _stop(server: Any) -> None:
    """End a server, without waiting for clients that do not read."""
    ending = Thread(target=server.stop, name="end of serve", daemon=True)
    ending.start()
    ending.join(_PATIENCE)


def _server(operations: Operations, options: ServeOptions) -> Any:
    load_dav()
    from cheroot.wsgi import Server

    server = Server(
        (options.host, options.port),
        _application(operations, options),
        numthreads=_THREADS,
        server_name="ext4kit",
        timeout=_TIMEOUT,
        shutdown_timeout=_GRACE,
    )
    server.max_request_header_size, server.max_request_body_size = _MOST_HEADERS, _MOST_BODY
    server.error_log = lambda *_, **__: None  # type: ignore[method-assign]  # `Guard` logs
    return server


def _application(operations: Operations, options: ServeOptions) -> Any:
    """WsgiDAV with the tree, behind the guard."""
    from wsgidav.request_resolver import RequestResolver
    from wsgidav.wsgidav_app import WsgiDAVApp

    from ext4kit.serve.access import NAME, PASSWORD, Authenticator, OneUser
    from ext4kit.serve.guard import Guard
    from ext4kit.serve.resources import ServedTree, page_of_error

    logger = logging.getLogger("wsgidav")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    inner = WsgiDAVApp(
        {
            NAME: USER,
            PASSWORD: options.password,
            "provider_mapping": {"/": ServedTree(operations)},
            "middleware_stack": [Authenticator, RequestResolver],
            "http_authenticator": {
                "domain_controller": OneUser,
                "accept_basic": is_loopback(options.host),
            },
            "hotfixes": {"re_encode_path_info": False},  # paths are bytes
            "lock_storage": False,
            "property_manager": False,
            "logging": {"enable": False},
            "verbose": 0,
            "block_size": _PIECE,
        }
    )
    return Guard(inner, options.host, options.log, page_of_error, operations.tell)


def _address(host: str, port: int) -> str:
    host = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
