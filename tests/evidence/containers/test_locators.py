"""Locators: one line that says where a file system is, for another process too."""

from __future__ import annotations

import json
import pickle
import shutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.errors import AccessError, RequestError, UnsupportedError
from ext4kit.evidence.locator import Locator
from ext4kit.evidence.raw import RawFile
from ext4kit.units import Moment
from tests.conftest import Cli
from tests.evidence.containers.conftest import PHRASE
from tests.partition_tables import write_table

MIB = 1 << 20
START = 2048 * 512
LOCATORS = [
    Locator("disk.img"),
    Locator("/a b/ü?&=%+#.img", volume="gpt@1048576/luks@0/lvm2:vg:root+x@0"),
    Locator("C:\\images\\disk 1.E01", form="ewf", superblock=32768, state="raw"),
    Locator("-\udcff\n.img", offset=1048576, journal="j&k=l.img", state="transaction:17"),
    Locator("", volume="3", state="time:-5"),
    Locator("x", state="lost:2"),
]


@pytest.mark.parametrize("locator", LOCATORS)
def test_a_locator_is_one_line_and_a_record(locator: Locator) -> None:
    line = str(locator)
    assert "\n" not in line and line.isascii()
    assert Locator.parse(line) == locator
    assert Locator.from_facts(json.loads(json.dumps(locator.as_facts()))) == locator
    assert pickle.loads(pickle.dumps(locator)) == locator
    assert hash(locator) == hash(Locator.parse(line))


def test_the_line_says_what_is_not_as_usual() -> None:
    assert str(Locator("a/disk.img", volume="gpt@1048576", state="transaction:9")) == (
        "a/disk.img?volume=gpt@1048576&state=transaction:9"
    )


@pytest.mark.parametrize(
    "line", ["x?state=then", "x?state=lost:", "x?state=lost:one", "x?offset=y", "x?key=secret",
             "x?path=y"],
)  # fmt: skip
def test_what_is_no_locator_is_refused(line: str) -> None:
    with pytest.raises(RequestError, match="is no"):
        Locator.parse(line)


def test_states_are_what_the_options_ask_for() -> None:
    states = [Locator("x", state=state) for state in ("now", "transaction:4", "time:9", "lost:3")]
    assert [one.as_of for one in states] == [None, 4, Moment(9), None]
    assert [one.lost for one in states] == [0, 0, 0, 3]


def _listing(locator: Locator, phrase: bytes | None) -> list[tuple[bytes, int]]:
    with library.open(locator, [phrase] if phrase else ()) as image:
        return [(entry.path, entry.number) for entry in image.filesystem().walk()]


@pytest.fixture
def disk(sample: Path, luks1: Path, tmp_path: Path) -> Path:
    """A disk whose first partition is encrypted, so that its key changes the second's number."""
    image, size = tmp_path / "disk.img", luks1.stat().st_size
    content = sample.read_bytes()
    with image.open("xb") as file:
        file.truncate(START + size + MIB + len(content) + MIB)
    second = (START + size) // 512
    write_table(image, f"label: dos\nstart=2048, size={size // 512}\n"
                       f"start={second}, size={len(content) // 512}\n")  # fmt: skip
    with image.open("r+b") as file:
        file.seek(START)
        file.write(luks1.read_bytes())
        file.seek(second * 512)
        file.write(content)
    return image


def test_another_process_opens_a_pickled_locator(disk: Path) -> None:
    phrase = PHRASE.encode()
    with library.open(disk, [phrase]) as image:
        assert [volume.facts.kind for volume in image.volumes] == ["crypto_LUKS", "ext4", "ext4"]
        locators = [image.locator_of(volume) for volume in image.volumes[1:]]
        here = [_listing(locator, phrase) for locator in locators]
    assert len(here[0]) > 3
    assert PHRASE not in "".join(map(str, locators))
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        for locator, listing in zip(locators, here, strict=True):
            assert process.submit(_listing, locator, phrase).result() == listing


def test_a_place_is_the_same_whether_other_volumes_are_unlocked(disk: Path) -> None:
    with library.open(disk, [PHRASE.encode()]) as image:
        inner, second = (image.locator_of(volume) for volume in image.volumes[1:])
        assert image.located(second) is image.volumes[2]
    with library.open(second) as image:
        assert image.located(second) is image.volumes[1]  # one number less
        with pytest.raises(
            RequestError, match=r"no volume at mbr@1048576/luks@0 .* only with its key"
        ):
            image.filesystem(inner)


def test_keys_come_from_a_function_that_gets_the_uuid(disk: Path) -> None:
    asked = []

    def give(uuid: str) -> list[bytes]:
        asked.append(uuid)
        return [PHRASE.encode()]

    with library.open(disk, give) as image:
        assert asked == [image.volumes[0].facts.uuid] and asked[0]
        assert image.volumes[1].facts.parent == 1
    with pytest.raises(AccessError, match="opens its encrypted volume"):
        library.open(disk, lambda uuid: [])


def test_the_bytes_of_a_disk_are_opened(disk: Path) -> None:
    with library.open(RawFile(disk)) as image:
        assert image.evidence.format == "source"
        assert [volume.facts.kind for volume in image.volumes] == ["crypto_LUKS", "ext4"]
        assert len(list(image.filesystem().walk())) > 3


def test_an_encrypted_volume_at_an_offset_is_unlocked(disk: Path) -> None:
    locator = Locator(str(disk), offset=START)
    with library.open(locator, [PHRASE.encode()]) as image:
        assert [volume.facts.kind for volume in image.volumes] == ["crypto_LUKS", "ext4"]
        assert len(list(image.filesystem().walk())) > 3


def test_the_state_is_part_of_the_address(sample: Path) -> None:
    with library.open(Locator(str(sample), state="raw")) as image:
        assert image.filesystem().superblock.kind == "ext4"
        with pytest.raises(RequestError, match="transaction 99999: the journal records"):
            image.filesystem(Locator(str(sample), state="transaction:99999"))
        with pytest.raises(RequestError, match="no traces of an earlier file system"):
            image.filesystem(Locator(str(sample), state="lost:1"))


def test_nothing_ext_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.img"
    path.write_bytes(bytes(MIB))
    with library.open(path) as image, pytest.raises(UnsupportedError, match="not ext2"):
        image.filesystem()


def test_a_locator_stands_for_the_image(
    ext4kit: Cli, disk: Path, password: Path, tmp_path: Path
) -> None:
    keys = ("--password-file", password)
    done = ext4kit("extract", disk, "/keep", "--volume", "2", *keys, "-o", tmp_path / "out")
    locator = json.loads((tmp_path / "out" / "case.json").read_text())["locator"]
    assert (done.returncode, PHRASE in locator) == (0, False)
    expected = ext4kit("ls", "-r", "-i", disk, "--volume", "2", *keys).stdout
    assert expected and ext4kit("ls", "-r", "-i", locator, *keys).stdout == expected
    place = Locator.parse(locator).volume
    assert ext4kit("ls", "-r", "-i", disk, "--volume", place, *keys).stdout == expected
    locked = ext4kit("ls", locator)
    assert locked.returncode == 2 and "only with its key" in locked.stderr
    several = ext4kit("report", locator, disk, "--quick", *keys)
    assert several.returncode == 2 and "give no further image" in several.stderr


def test_a_file_whose_name_has_a_question_mark_is_that_file(
    ext4kit: Cli, sample: Path, tmp_path: Path
) -> None:
    odd = tmp_path / "disk?volume=9"
    shutil.copy(sample, odd)
    assert ext4kit("ls", odd).returncode == 0
    assert "cannot be opened" in ext4kit("ls", tmp_path / "none?such").stderr


def test_a_state_is_read_by_the_commands_that_have_an_option_for_it(
    ext4kit: Cli, sample: Path, tmp_path: Path
) -> None:
    listed = ext4kit("ls", "-r", sample, "--as-of", "5").stdout
    assert listed and ext4kit("ls", "-r", f"{sample}?state=transaction:5").stdout == listed
    for words in (("report",), ("deleted",), ("verify",), ("timeline",), ("info",), ("crosscheck",),
                  ("recover", "-o", tmp_path / "out"), ("journal", "audit")):  # fmt: skip
        done = ext4kit(*words, f"{sample}?state=transaction:5")
        assert done.returncode == 2 and "does not read this state" in done.stderr, words
    for words in (("report",), ("timeline",), ("verify",), ("crosscheck",), ("journal", "list")):
        done = ext4kit(*words, f"{sample}?state=lost:1")
        assert done.returncode == 2 and "does not read this state" in done.stderr, words
    for words in (("deleted",), ("ls",), ("info",)):
        assert "no traces" in ext4kit(*words, f"{sample}?state=lost:1").stderr, words
    further = ext4kit("report", sample, f"{sample}?state=transaction:5", "--quick")
    assert further.returncode == 2 and "does not read this state" in further.stderr
