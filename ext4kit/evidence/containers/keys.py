"""Keys of encrypted volumes: passphrases, and the keys derived from them within limits.

The header of a volume, which may be hostile, determines the cost of a derivation. Therefore the
cost is estimated first. An expensive derivation runs in a separate process, which an interrupt or
the time limit ends.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ext4kit.errors import AccessError, UnsupportedError
from ext4kit.evidence.limits import OpenLimits

if TYPE_CHECKING:
    from ext4kit.evidence.forked import Pipe
    from ext4kit.parsers.luks import Derivation

_TRIAL_ITERATIONS = {"pbkdf2": 20_000, "argon2i": 1, "argon2id": 1}
_TRIAL_MEMORY = 32 << 10  # KiB
_MOST_KEY = 1 << 16  # bytes


KeyProvider = Sequence[bytes] | Callable[[str], Sequence[bytes]]


class Keys:
    """The analyst's passphrases and key files, and the remaining limits for deriving keys.

    Args:
        phrases: passphrases and the contents of key files, tried in this order; or a function that
            returns those for the volume with a given UUID.
        limits: limits of all derivations together.

    Attributes:
        phrases: the passphrases and key files to try for the present volume.
    """

    def __init__(self, phrases: KeyProvider = (), limits: OpenLimits | None = None) -> None:
        self._provider = phrases if callable(phrases) else None
        self.phrases = () if callable(phrases) else tuple(phrases)
        self._limits = limits or OpenLimits()
        self._left = self._limits.key_seconds

    @property
    def are_given(self) -> bool:
        """Whether there are passphrases, or a function that may return some."""
        return bool(self.phrases) or self._provider is not None

    def ask(self, uuid: str) -> None:
        """Get the passphrases for a volume."""
        if self._provider is not None:
            self.phrases = tuple(self._provider(uuid))

    def derive(self, how: Derivation, phrase: bytes, length: int) -> bytes:
        """Derive a key of `length` bytes within the limits.

        Raises:
            AccessError: the derivation needs more time or memory than the limits allow.
            UnsupportedError: the function or its hash is not supported.
        """
        if how.memory << 10 > self._limits.key_memory:
            raise AccessError(
                f"{_words(how)} needs {how.memory >> 10:,} MiB of memory, more than the limit of"
                f" {self._limits.key_memory >> 20:,} MiB; --kdf-memory MIB allows more"
            )
        start = time.monotonic()
        try:
            trial = _trial(how)
            key = derive_key(trial, phrase, length)
            needs = (time.monotonic() - start) * _cost(how) / _cost(trial)
            if needs > self._left:
                raise self._too_long(how, f"takes about {needs:,.0f} s here")
            return key if trial == how else self._apart(how, phrase, length)
        finally:
            self._left -= time.monotonic() - start

    def _apart(self, how: Derivation, phrase: bytes, length: int) -> bytes:
        """Derive a key in a separate process, or in this one if the system cannot fork."""
        from ext4kit.evidence.forked import Forked, can_fork

        if not can_fork():
            return derive_key(how, phrase, length)
        process = Forked(_send_key, how, phrase, length)
        try:
            if not process.pipe.waits(max(self._left, 0.0)):
                raise self._too_long(how, "has not ended")
            return process.pipe.receive(_MOST_KEY)
        except EOFError as error:
            text = f"{_words(how)} failed: {how.memory >> 10:,} MiB of memory were not to be had"
            raise AccessError(text) from error
        finally:
            process.end()

    def _too_long(self, how: Derivation, text: str) -> AccessError:
        limit = self._limits.key_seconds
        left = f", of which {max(self._left, 0):,.0f} s are left" if self._left < limit else ""
        return AccessError(
            f"{_words(how)} {text}; the limit is {limit:,.0f} s{left}:"
            " --kdf-limit SECONDS allows more"
        )


def _send_key(pipe: Pipe, how: Derivation, phrase: bytes, length: int) -> None:
    pipe.send(derive_key(how, phrase, length))


def derive_key(how: Derivation, phrase: bytes, length: int) -> bytes:
    """Derive a key of `length` bytes without limits.

    Raises:
        UnsupportedError: the function or its hash is not supported.
    """
    if how.kind == "pbkdf2":
        name = hash_name(how.hash)
        return hashlib.pbkdf2_hmac(name, phrase, how.salt, how.iterations, length)
    from cryptography.hazmat.primitives.kdf import argon2

    kind: type[argon2.Argon2id | argon2.Argon2i]
    kind = argon2.Argon2id if how.kind == "argon2id" else argon2.Argon2i
    made = kind(
        salt=how.salt,
        length=length,
        iterations=how.iterations,
        lanes=how.lanes,
        memory_cost=how.memory,
    )
    return bytes(made.derive(phrase))


def hash_name(name: str) -> str:
    """Python's name of a hash of fixed length.

    Raises:
        UnsupportedError: Python has no such hash.
    """
    try:
        if hashlib.new(name).digest_size:
            return name
    except ValueError:
        pass
    raise UnsupportedError(f"LUKS with the hash {name}")


def _trial(how: Derivation) -> Derivation:
    """The derivation with its cost reduced, to measure the speed."""
    if how.kind not in _TRIAL_ITERATIONS:
        raise UnsupportedError(f"LUKS with keys derived by {how.kind}")
    iterations = min(how.iterations, _TRIAL_ITERATIONS[how.kind])
    return replace(how, iterations=iterations, memory=min(how.memory, _TRIAL_MEMORY))


def _cost(how: Derivation) -> int:
    return how.iterations * max(how.memory, 1)


def _words(how: Derivation) -> str:
    if how.kind == "pbkdf2":
        return f"deriving its key (PBKDF2, {how.iterations:,} iterations)"
    return f"deriving its key (Argon2, {how.iterations:,} passes over {how.memory >> 10:,} MiB)"
