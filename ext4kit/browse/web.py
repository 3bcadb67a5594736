"""The program in a browser, through textual-serve, on the loopback alone."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from ext4kit.errors import RequestError
from ext4kit.evidence.containers.extras import extra

HOST = "127.0.0.1"
_COOKIE = "ext4kit-browse"
_Handler = Callable[[Any], Awaitable[Any]]


def serve(command: str, port: int) -> None:
    """Serve a command until Ctrl-C.

    Whoever has the address that is printed, with its key, may use it; other users of this computer
    and pages of other sites may not.

    Args:
        command: the command line of the program.
        port: of the loopback.

    Raises:
        UnsupportedError: textual-serve is not installed.
        RequestError: the port is in use.
    """
    with extra("browse --web", "textual-serve", "browse"):
        from textual_serve.server import Server
    from aiohttp import web

    key = secrets.token_urlsafe(24)

    class _Guarded(Server):
        """The server, for those who have the key."""

        async def _make_app(self) -> web.Application:
            app = await super()._make_app()
            app.middlewares.append(_guard(key, port))
            return app

        def initialize_logging(self) -> None:
            """No line for each request: it would have the key."""

        async def on_startup(self, app: web.Application) -> None:
            print(f"http://{HOST}:{port}/?key={key}", flush=True)

    try:
        _Guarded(command, HOST, port, title="ext4kit browse").serve()
    except OSError as error:
        raise RequestError(f"port {port}: {error.strerror}; choose another with --port") from error


def _guard(key: str, port: int) -> Any:
    """Refuse a request without the key, from another site, or by another name of this computer."""
    from aiohttp import web

    hosts = {f"{HOST}:{port}", f"localhost:{port}"}

    @web.middleware
    async def check(request: Any, handler: _Handler) -> Any:
        origin = request.headers.get("Origin")
        is_own = origin is None or origin.partition("://")[2] in hosts
        if request.host not in hosts or not is_own:
            raise web.HTTPForbidden(text="only from this computer")
        given = request.query.get("key") or request.cookies.get(_COOKIE, "")
        if not secrets.compare_digest(given.encode(), key.encode()):
            raise web.HTTPForbidden(text="open the address that was printed, with its key")
        response = await handler(request)
        if request.path == "/":
            response.set_cookie(_COOKIE, key, httponly=True, samesite="Strict")
        return response

    return check
