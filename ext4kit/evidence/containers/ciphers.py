"""AES decryption of many sectors at once, in the modes of dm-crypt: XTS and CBC.

OpenSSL decrypts the blocks (through `cryptography`). NumPy computes tweaks and chains for all
sectors at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from ext4kit.arrays.types import UInt64s
from ext4kit.errors import UnsupportedError
from ext4kit.evidence.containers.extras import extra

with extra("LUKS", "cryptography", "luks"):
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

UNIT = 512  # bytes; sector numbers count in this unit for every sector size
_BLOCK = 16
_POLYNOMIAL = np.uint64(0x87)
_ONE, _TOP = np.uint64(1), np.uint64(63)

Decrypt = Callable[[memoryview, int], memoryview]
Vectors = Callable[[int, int], UInt64s]  # (number of the first sector, count)


def make_decrypt(cipher: str, key: bytes, sector: int) -> Decrypt:
    """A function that decrypts whole sectors: (bytes, first sector in units of 512) -> bytes.

    Args:
        cipher: dm-crypt specification: "aes-xts-plain64", "aes-cbc-essiv:sha256" ...
        key: key of the length that the cipher needs.
        sector: sector size in bytes.

    Raises:
        UnsupportedError: the cipher or its mode is not supported.
    """
    name, mode, vector = (*cipher.split("-", 2), "", "")[:3]
    known = name == "aes" and mode in ("xts", "cbc")
    if not known or vector not in ("plain", "plain64", "essiv:sha256"):
        raise UnsupportedError(f"LUKS with the cipher {cipher}")
    if len(key) not in ((32, 64) if mode == "xts" else (16, 24, 32)):
        raise UnsupportedError(f"LUKS with {cipher} and a key of {len(key)} bytes")
    if mode == "xts":
        half = len(key) // 2
        return _xts(key[:half], key[half:], _vectors(vector, key, sector), sector)
    return _cbc(key, _vectors(vector, key, sector), sector)


def _ecb(key: bytes, encrypt: bool) -> Callable[[bytes | memoryview], bytes]:
    """A function that runs AES in ECB mode; each call uses a separate context."""
    cipher = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305 -- the chains are ours

    def run(data: bytes | memoryview) -> bytes:
        context = cipher.encryptor() if encrypt else cipher.decryptor()
        return context.update(data) + context.finalize()

    return run


def _vectors(kind: str, key: bytes, sector: int) -> Vectors:
    """A function that gives the initial vectors of sectors, uint64 (count, 2)."""
    step = sector // UNIT
    wrap = np.uint64(0xFFFFFFFF if kind == "plain" else 0xFFFFFFFFFFFFFFFF)
    hide = _ecb(hashlib.sha256(key).digest(), encrypt=True) if kind.startswith("essiv") else None

    def make(first: int, count: int) -> UInt64s:
        numbers = np.zeros((count, 2), "<u8")
        numbers[:, 0] = np.uint64(first) + np.arange(count, dtype=np.uint64) * np.uint64(step)
        numbers[:, 0] &= wrap
        if hide is None:
            return numbers
        return np.frombuffer(hide(numbers.tobytes()), "<u8").reshape(-1, 2)

    return make


def _xts(key: bytes, tweak_key: bytes, vectors: Vectors, sector: int) -> Decrypt:
    """Decryption in XTS mode (IEEE 1619): a tweak masks each block before and after AES.

    The tweak doubles from block to block, in GF(2^128) with the least significant byte first.
    """
    decrypt, hide = _ecb(key, encrypt=False), _ecb(tweak_key, encrypt=True)
    blocks = sector // _BLOCK

    def run(data: memoryview, first: int) -> memoryview:
        count = len(data) // sector
        tweak = np.frombuffer(hide(vectors(first, count).tobytes()), "<u8").reshape(-1, 2)
        low, high = tweak[:, 0], tweak[:, 1]
        masks = np.empty((count, blocks, 2), "<u8")
        for block in range(blocks):
            masks[:, block, 0], masks[:, block, 1] = low, high
            carry = (high >> _TOP) * _POLYNOMIAL
            low, high = (low << _ONE) ^ carry, (high << _ONE) | (low >> _TOP)
        masked = np.frombuffer(data, "<u8") ^ masks.reshape(-1)
        plain = np.frombuffer(decrypt(masked.data.cast("B")), "<u8") ^ masks.reshape(-1)
        return memoryview(plain.tobytes())

    return run


def _cbc(key: bytes, vectors: Vectors, sector: int) -> Decrypt:
    decrypt = _ecb(key, encrypt=False)
    blocks = sector // _BLOCK

    def run(data: memoryview, first: int) -> memoryview:
        stored = np.frombuffer(data, "<u8").reshape(-1, blocks, 2)
        before = np.empty_like(stored)
        before[:, 1:] = stored[:, :-1]
        before[:, 0] = vectors(first, len(stored))
        plain = np.frombuffer(decrypt(data), "<u8").reshape(stored.shape) ^ before
        return memoryview(plain.tobytes())

    return run
