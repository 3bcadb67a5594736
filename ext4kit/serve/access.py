"""Who may read: one user with the password of the run, by Digest, and on this computer by Basic."""

from __future__ import annotations

import hmac
from urllib.parse import unquote_to_bytes, urlsplit

from wsgidav.dc.base_dc import BaseDomainController
from wsgidav.http_authenticator import HTTPAuthenticator

from ext4kit.serve.guard import Answer, Environment, StartResponse

NAME = "ext4kit.user"  # key in the configuration
PASSWORD = "ext4kit.password"  # key in the configuration


class OneUser(BaseDomainController):  # type: ignore[misc]  # no types
    """The user of a run."""

    def get_domain_realm(self, path_info: str, environ: Environment | None) -> str:  # noqa: ARG002
        """The text that a client shows beside the question for the password."""
        return str(self.config[NAME])

    def require_authentication(self, realm: str, environ: Environment | None) -> bool:  # noqa: ARG002
        """Always."""
        return True

    def supports_http_digest_auth(self) -> bool:
        """True."""
        return True

    def basic_auth_user(
        self, _realm: str, user_name: str, password: str, _environ: Environment
    ) -> bool:
        """Whether a name and a password are right."""
        given, wanted = f"{user_name}:{password}", f"{self.config[NAME]}:{self.config[PASSWORD]}"
        return hmac.compare_digest(given.encode(), wanted.encode())

    def digest_auth_user(self, realm: str, user_name: str, _environ: Environment) -> object:
        """The first hash of Digest; False for another user."""
        if user_name.rpartition("\\")[2] != self.config[NAME]:  # Windows may put a domain before it
            return False
        return self._compute_http_digest_a1(realm, user_name, self.config[PASSWORD])


class Authenticator(HTTPAuthenticator):  # type: ignore[misc]  # no types
    """Asks for the password; paths in headers are compared as bytes, and nonsense is refused."""

    def __call__(self, environ: Environment, start_response: StartResponse) -> Answer:
        """Answer, or let the request pass."""
        try:
            answer: Answer = super().__call__(environ, start_response)
        except (ValueError, TypeError):  # the header cannot be parsed
            environ = {**environ}
            environ.pop("HTTP_AUTHORIZATION")
            answer = super().__call__(environ, start_response)
        return answer

    def send_basic_auth_response(
        self, environ: Environment, start_response: StartResponse
    ) -> Answer:
        """Ask for Digest: Basic is accepted, but never asked for."""
        answer: Answer = self.send_digest_auth_response(environ, start_response)
        return answer

    def _is_digest_uri_valid(self, req_uri: str | None, environ: Environment) -> bool:
        """Whether the path that was signed is the one that is asked for."""
        if not req_uri:
            return False
        parts = urlsplit(req_uri)
        signed = unquote_to_bytes(parts.path.encode("latin-1")).decode("latin-1")
        asked = str(environ["PATH_INFO"])
        if parts.query != environ.get("QUERY_STRING", ""):
            return False
        return asked == "*" or self._canonical_path(signed) == self._canonical_path(asked)
