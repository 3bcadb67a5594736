"""Names of wiping programs are told from names that users and other programs give."""

from __future__ import annotations

import pytest

from ext4kit.history.wipers import BLEACHBIT, SHRED, SRM, Wiper, find_chain

LONG_NAME = b"Wgjykt0CdO.e-" * 17 + b"abcde"  # 226 characters, as BleachBit draws them


def names(*given: bytes, directory: int = 2) -> list[tuple[int, bytes]]:
    return [(directory, name) for name in given]


def zeros(first: int, last: int = 1) -> list[bytes]:
    return [b"0" * length for length in range(first, last - 1, -1)]


@pytest.mark.parametrize(
    ("given", "wiper", "start"),
    [
        ([b"secret-plan.txt", *zeros(15)], SHRED, 1),
        ([b"x", b"0"], SHRED, 1),
        ([b"yz", b"00", b"1"], SHRED, 1),  # another file was called 0
        ([b"a.txt", b"00003", b"0001", b"002", b"00", b"4"], SHRED, 1),
        ([b"0000", b"0001", b"000", b"00", b"0"], SHRED, 1),
        ([b"00", b"01", b"0"], SHRED, 1),
        ([b"draft", b"final", *zeros(5)], SHRED, 2),
        (zeros(7), SHRED, 0),
        ([b"secret-plan.txt", LONG_NAME, b"D"], BLEACHBIT, 1),
        ([b"secret-plan.txt", LONG_NAME], BLEACHBIT, 1),
        ([b"secret-plan.txt", b"ureguttcjio.ayx"], SRM, 1),
        ([b".Hidden_File.TXT", b".gstoaiplicw.nkt"], SRM, 1),
        ([b"L" * 226, *zeros(226)], SHRED, 1),
        ([b"secret-plan.txt", b"0" * 9, b"0" * 4], SHRED, 1),  # several in one transaction
    ],
)
def test_the_chain_starts_after_the_true_name(given: list[bytes], wiper: Wiper, start: int) -> None:
    chain = find_chain(names(*given))
    assert chain is not None
    assert (chain.wiper, chain.start, chain.follows) == (wiper, start, start > 0)
    assert chain.steps == len(given) - start


@pytest.mark.parametrize(
    "given",
    [
        [b"notes.txt", b"notes.txt~"],
        [b"notes.txt", b"4913"],
        [b"syslog", b"syslog.1"],
        [b"tmp.i", b"tmp.ia"],
        [b"secret-plan.txt", b"ureguttcji.oayx"],  # the dot moved
    ],
)
def test_names_of_other_programs_are_no_chain(given: list[bytes]) -> None:
    assert find_chain(names(*given)) is None


def test_a_name_of_another_length_is_not_the_last_one_of_the_user() -> None:
    """It was renamed in the transaction in which the program began."""
    chain = find_chain(names(b"renamed-before", *zeros(4)))
    assert chain is not None and (chain.start, chain.follows) == (1, False)


def test_a_chain_stays_in_one_directory() -> None:
    chain = find_chain([*names(b"a.txt", directory=5), *names(*zeros(5))])
    assert chain is not None and (chain.start, chain.follows) == (1, False)


@pytest.mark.parametrize(
    ("given", "cut_from", "left", "is_seen", "shows"),
    [
        ([b"a.txt", *zeros(5)], 5000, 0, True, True),
        ([b"a.txt", *zeros(5)], 5000, 25, True, True),  # what wipe leaves
        ([b"a.txt", *zeros(5)], None, 5000, True, False),  # renamed by a user
        (zeros(5), None, 0, False, True),  # the journal has nothing from before
        (zeros(5), None, 5000, False, False),
        (zeros(3), None, 0, False, False),
        ([b"tmp.i", b"0001"], 4608, 1092, True, False),  # updates of dpkg
        ([b"tmp.i", b"0001"], 4608, 0, True, False),
        ([b"t", b"u"], 5000, 0, True, False),
        ([b"x", b"0"], 5000, 0, True, True),
        ([b"x", b"0"], None, 0, True, False),
        ([b"ab.c", b"xy.z"], 32769, 0, True, True),
        ([b"ab.c", b"xy.z"], 32768, 0, True, False),
    ],
)  # fmt: skip
def test_a_chain_counts_only_with_a_content_that_was_cut(
    given: list[bytes], cut_from: int | None, left: int, is_seen: bool, shows: bool
) -> None:
    chain = find_chain(names(*given))
    assert chain is not None
    assert chain.shows_wiping(cut_from, left, is_seen) == shows


def test_an_empty_file_counts_if_it_was_written_after_its_creation() -> None:
    chain = find_chain(names(b"e.txt", *zeros(5)))
    assert chain is not None
    assert chain.shows_wiping(None, 0, True, is_written=True)
    assert not chain.shows_wiping(None, 0, True, is_written=False)
