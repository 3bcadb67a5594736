"""What is marked of each block is what its bytes say, one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from ext4kit.carving import BlockFeatures, feature_scanner
from ext4kit.filetypes.formats import FORMATS
from ext4kit.filetypes.signatures import (
    SIGNATURE_NAMES,
    SIGNATURES,
    match_signatures,
)
from ext4kit.scan import BlockBatch


def blocks_of(*contents: bytes, size: int = 4096) -> Any:
    """Blocks with these contents, zeros behind each."""
    rows = [np.frombuffer(content.ljust(size, b"\0"), np.uint8) for content in contents]
    return np.array(rows)


def marked(data: Any, first: int = 1000) -> BlockFeatures:
    """The marks of consecutive blocks."""
    found = feature_scanner(BlockBatch(np.arange(first, first + len(data)), data))
    assert found is not None
    return found


@pytest.mark.parametrize("size", [1024, 4096, 65536])
def test_tails_are_what_stripping_zeros_leaves(size: int) -> None:
    chance = random.Random(size)
    contents = [chance.randbytes(chance.randint(1, size)) for _ in range(300)]
    contents += [b"\1" + bytes(size - 1), b"x" * size, b"\0" * (size - 1) + b"\1"]
    marks = marked(blocks_of(*contents, size=size))
    tails = dict(zip(marks.block.tolist(), marks.tail.tolist(), strict=True))
    for number, content in enumerate(contents):
        whole = content.ljust(size, b"\0")
        assert tails.get(1000 + number, 0) == size - len(whole.rstrip(b"\0"))


def test_runs_leave_out_blocks_of_zeros() -> None:
    marks = marked(blocks_of(b"", b"a", b"b", b"", b"", b"c"))
    assert marks.start.tolist() == [1001, 1005]
    assert marks.length.tolist() == [2, 1]


def test_each_signature_is_known_by_its_kind() -> None:
    for start, name in SIGNATURES:
        kind = SIGNATURE_NAMES[match_signatures(blocks_of(start.magic + b"\x55" * 100))[0]]
        assert kind == name, start
    for name, parts in [(one.name, parts) for one in FORMATS for parts in one.inside]:
        made = bytearray(b"\x55" * 1000)
        for at, magic in parts:
            made[at : at + len(magic)] = magic
        assert SIGNATURE_NAMES[match_signatures(blocks_of(bytes(made)))[0]] == name


def test_text_is_told_from_other_data() -> None:
    chance = random.Random(1)
    text = "Grüße aus dem Protokoll\n".encode() * 150
    marks = marked(blocks_of(text, text[:30], chance.randbytes(4000), b"\x01\0\0\0" * 900, b"a\n"))
    assert marks.text.tolist() == [True, True, False, False, True]
    assert marks.dense.tolist() == [False, False, True, False, False]


def test_log_blocks_and_zeros_have_no_marks() -> None:
    data = blocks_of(b"x")
    assert feature_scanner(BlockBatch(np.arange(1), data, in_log=True)) is None
    assert feature_scanner(BlockBatch(np.arange(3), blocks_of(b"", b"", b""))) is None
    assert len(BlockFeatures.concat([]).block) == 0


def _random_block(chance: random.Random, size: int) -> bytes:
    kind = chance.choice(["text", "text", "binary", "binary", "sparse", "tail", "zeros", "magic"])
    if kind == "zeros":
        return b""
    if kind == "magic":
        return chance.choice(SIGNATURES)[0].magic.ljust(size, b"\x55")
    length = chance.randrange(1, size) if kind == "tail" else size
    if kind == "text":
        return (b"a line of the log\n" * size)[:size]
    return chance.randbytes(length) if kind != "sparse" else (b"\x01\x00" * size)[:size]


@pytest.mark.parametrize("seed", range(20))
def test_any_batches_of_the_same_blocks_give_the_same_features(seed: int) -> None:
    chance = random.Random(seed)
    data = blocks_of(*(_random_block(chance, 1024) for _ in range(200)), size=1024)
    blocks = np.cumsum([chance.choice([1, 1, 1, 1, 1, 5]) for _ in range(200)])
    whole = BlockFeatures.concat([feature_scanner(BlockBatch(blocks, data)) or marked(data)])
    for _ in range(10):
        cuts = sorted(chance.sample(range(1, 200), chance.randrange(1, 60)))
        parts = [
            feature_scanner(BlockBatch(blocks[first:end], data[first:end]))
            for first, end in zip([0, *cuts], [*cuts, 200], strict=True)
        ]
        found = BlockFeatures.concat([part for part in parts if part is not None])
        for name in ("start", "length", "block", "tail", "kind", "text", "dense"):
            assert getattr(found, name).tolist() == getattr(whole, name).tolist(), name
