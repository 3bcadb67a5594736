"""LUKS headers made to hurt their reader: each odd value is one line, each cost has a limit."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ext4kit.errors import AccessError
from ext4kit.evidence import open_evidence
from ext4kit.evidence.limits import OpenLimits
from tests.cli.conftest import ROOT
from tests.conftest import Cli
from tests.evidence.containers.conftest import PHRASE, Tool

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs cryptsetup")
FOREVER = (1 << 31) - 1
REMOVED = "(removed)"  # of a value
SECONDS = 5.0
BINARY, CHECKSUM = 4096, 0x1C0  # bytes of the binary header; offset of its checksum in it
Facts = dict[str, Any]


class Header:
    """A LUKS2 volume whose JSON can be changed; both copies stay valid."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        self.size = int.from_bytes(self.data[8:16], "big")
        self.facts: Facts = json.loads(self.data[BINARY : self.size].split(b"\0")[0])

    def write(self, path: Path, facts: object) -> Path:
        """The volume with other facts."""
        data = bytearray(self.data)
        text = json.dumps(facts).encode().ljust(self.size - BINARY, b"\0")
        assert len(text) == self.size - BINARY
        for start in (0, self.size):
            head = data[start : start + self.size]
            head[BINARY:] = text
            head[CHECKSUM : CHECKSUM + 64] = bytes(64)
            head[CHECKSUM : CHECKSUM + 32] = hashlib.sha256(head).digest()
            data[start : start + self.size] = head
        path.write_bytes(data)
        return path

    def changed(self, path: Path, place: str, value: object) -> Path:
        """The volume with one other value, `REMOVED` for none."""
        facts = copy.deepcopy(self.facts)
        *folders, name = place.split(".")
        inner = facts
        for folder in folders:
            inner = inner[folder]
        if value == REMOVED:
            del inner[name]
        else:
            inner[name] = value
        return self.write(path, facts)


def _formatted(tool: Tool, folder: Path, *derivation: str) -> Header:
    disk, key = folder / "disk", folder / "key"
    key.write_text(PHRASE)
    with disk.open("xb") as file:
        file.truncate(20 << 20)
    tool("cryptsetup", "luksFormat", "-q", "--type", "luks2", "--key-file", key, *derivation, disk)
    return Header(disk)


@pytest.fixture(scope="module")
def pbkdf2(tool: Tool, tmp_path_factory: pytest.TempPathFactory) -> Header:
    """A volume of cryptsetup's with a key of PBKDF2."""
    words = ("--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000")
    return _formatted(tool, tmp_path_factory.mktemp("pbkdf2"), *words)


@pytest.fixture(scope="module")
def argon2(tool: Tool, tmp_path_factory: pytest.TempPathFactory) -> Header:
    """One with a key of Argon2."""
    words = ("--pbkdf-force-iterations", "4", "--pbkdf-memory", "4096", "--pbkdf-parallel", "1")
    return _formatted(tool, tmp_path_factory.mktemp("argon2"), *words)


@pytest.fixture(scope="module")
def luks1_header(tool: Tool, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A LUKS1 volume of cryptsetup's."""
    folder = tmp_path_factory.mktemp("luks1-header")
    disk, key = folder / "disk", folder / "key"
    key.write_text(PHRASE)
    with disk.open("xb") as file:
        file.truncate(4 << 20)
    words = ("--type", "luks1", "--pbkdf-force-iterations", "1000")
    tool("cryptsetup", "luksFormat", "-q", "--key-file", key, *words, disk)
    return disk.read_bytes()


def _opened(path: Path, limits: OpenLimits | None = None) -> str:
    """What opening it with the right phrase says: "open", or the error."""
    try:
        with open_evidence(path, [PHRASE.encode()], limits) as evidence:
            assert [volume.parent for volume in evidence.volumes] == [0, 1]
            return "open"
    except AccessError as error:
        return str(error)


def test_the_right_phrase_opens_both(pbkdf2: Header, argon2: Header, tmp_path: Path) -> None:
    for name, header in (("pbkdf2", pbkdf2), ("argon2", argon2)):
        assert _opened(header.write(tmp_path / name, header.facts)) == "open"


SLOT = "keyslots.0"
ODD: list[tuple[str, object]] = [
    ("keyslots", REMOVED),
    ("keyslots", []),
    ("keyslots", None),
    (SLOT, 7),
    (f"{SLOT}.type", "reencrypt"),
    (f"{SLOT}.key_size", 0),
    (f"{SLOT}.key_size", -64),
    (f"{SLOT}.key_size", 1 << 40),
    (f"{SLOT}.key_size", 63.5),
    (f"{SLOT}.key_size", True),
    (f"{SLOT}.key_size", 48),
    (f"{SLOT}.af", REMOVED),
    (f"{SLOT}.af", "luks1"),
    (f"{SLOT}.af.stripes", 0),
    (f"{SLOT}.af.stripes", 1 << 30),
    (f"{SLOT}.af.stripes", "many"),
    (f"{SLOT}.af.hash", "shake_128"),
    (f"{SLOT}.af.hash", "no such hash"),
    (f"{SLOT}.af.hash", None),
    (f"{SLOT}.area.offset", "-4096"),
    (f"{SLOT}.area.offset", str(1 << 61)),
    (f"{SLOT}.area.offset", "9" * 5000),
    (f"{SLOT}.area.encryption", "aes-ecb"),
    (f"{SLOT}.area.encryption", "-"),
    (f"{SLOT}.area.key_size", 0),
    (f"{SLOT}.area.key_size", 33),
    (f"{SLOT}.kdf", []),
    (f"{SLOT}.kdf.type", "scrypt"),
    (f"{SLOT}.kdf.type", None),
    (f"{SLOT}.kdf.salt", ""),
    (f"{SLOT}.kdf.salt", "***"),
    (f"{SLOT}.kdf.salt", 5),
    (f"{SLOT}.kdf.salt", "\u00e9"),
    ("segments", {}),
    ("segments", 3),
    ("segments.0.type", "linear"),
    ("segments.0.integrity", {}),
    ("segments.0.sector_size", 513),
    ("segments.0.sector_size", 1 << 20),
    ("segments.0.size", "-1"),
    ("segments.0.offset", "1e9"),
    ("segments.0.iv_tweak", "18446744073709551616"),
    ("segments.0.encryption", "serpent-xts-plain64"),
    ("digests", {}),
    ("digests.0.segments", []),
    ("digests.0.segments", 1),
    ("digests.0.keyslots", ["31"]),
    ("digests.0.keyslots", [["0"]]),
    ("digests.0.keyslots", []),
    ("digests.0.digest", ""),
    ("digests.0.digest", base64.b64encode(bytes(1 << 16)).decode()[:8000]),
    ("digests.0.iterations", 0),
    ("digests.0.iterations", float("inf")),
    ("digests.0.iterations", FOREVER),
    ("digests.0.hash", 12),
]
OF_PBKDF2 = [
    (f"{SLOT}.kdf.iterations", 0),
    (f"{SLOT}.kdf.iterations", -1),
    (f"{SLOT}.kdf.iterations", FOREVER),
    (f"{SLOT}.kdf.iterations", 1 << 64),
    (f"{SLOT}.kdf.hash", "shake_256"),
    (f"{SLOT}.kdf.hash", REMOVED),
]
OF_ARGON2 = [
    (f"{SLOT}.kdf.salt", base64.b64encode(b"short").decode()),
    (f"{SLOT}.kdf.cpus", 0),
    (f"{SLOT}.kdf.cpus", 1 << 24),
    (f"{SLOT}.kdf.cpus", None),
    (f"{SLOT}.kdf.memory", 7),
    (f"{SLOT}.kdf.memory", FOREVER),
    (f"{SLOT}.kdf.memory", 1 << 33),
    (f"{SLOT}.kdf.time", 0),
    (f"{SLOT}.kdf.time", FOREVER),
    (f"{SLOT}.kdf.time", "4294967296"),
]


OF_LUKS1 = [  # byte offset in the header, value
    (8, b"serpent".ljust(32, b"\0")),
    (40, b"xts-\xff".ljust(32, b"\0")),
    (72, b"shake_128".ljust(32, b"\0")),
    (72, bytes(32)),
    (104, b"\xff" * 4),
    (108, bytes(4)),
    (108, b"\xff" * 4),
    (108, b"\0\0\0\x30"),
    (164, bytes(4)),
    (164, b"\xff" * 4),
    (212, bytes(4)),
    (212, b"\xff" * 4),
    (248, b"\xff" * 4),
    (252, bytes(4)),
    (252, b"\0\0\0\1"),
    (252, b"\xff" * 4),
]


def _is_one_line_at_once(path: Path) -> None:
    start = time.process_time()
    said = _opened(path)
    assert said != "open"
    assert "\n" not in said and len(said) < 400, said
    assert not any(word in said for word in ("Error", "object", "indices", "NoneType")), said
    assert time.process_time() - start < SECONDS, said


@pytest.mark.parametrize(("place", "value"), [*ODD, *OF_PBKDF2], ids=lambda one: str(one)[:40])
def test_an_odd_value_is_one_line(
    pbkdf2: Header, tmp_path: Path, place: str, value: object
) -> None:
    _is_one_line_at_once(pbkdf2.changed(tmp_path / "disk", place, value))


@pytest.mark.parametrize(("place", "value"), [*ODD, *OF_ARGON2], ids=lambda one: str(one)[:40])
def test_an_odd_value_beside_argon2_is_one_line(
    argon2: Header, tmp_path: Path, place: str, value: object
) -> None:
    _is_one_line_at_once(argon2.changed(tmp_path / "disk", place, value))


@pytest.mark.parametrize(("offset", "value"), OF_LUKS1)
def test_an_odd_value_of_luks1_is_one_line(
    luks1_header: bytes, tmp_path: Path, offset: int, value: bytes
) -> None:
    data = bytearray(luks1_header)
    data[offset : offset + len(value)] = value
    (tmp_path / "disk").write_bytes(data)
    if offset == 104:  # where the payload begins: the key is found, and nothing is there
        assert _opened(tmp_path / "disk") == "open"
    else:
        _is_one_line_at_once(tmp_path / "disk")


@pytest.mark.parametrize("text", [b"", b"{", b"[" * 3000, b"[]", b"7", b"null", b'"\xff"'])
def test_json_that_is_none_is_one_line(pbkdf2: Header, tmp_path: Path, text: bytes) -> None:
    path = pbkdf2.write(tmp_path / "disk", {})
    data = bytearray(path.read_bytes())
    for start in (0, pbkdf2.size):
        head = data[start : start + pbkdf2.size]
        head[BINARY:] = text.ljust(pbkdf2.size - BINARY, b"\0")
        head[CHECKSUM : CHECKSUM + 32] = bytes(32)
        head[CHECKSUM : CHECKSUM + 32] = hashlib.sha256(head).digest()
        data[start : start + pbkdf2.size] = head
    path.write_bytes(data)
    _is_one_line_at_once(path)


def test_the_limit_is_named(pbkdf2: Header, argon2: Header, tmp_path: Path) -> None:
    path = pbkdf2.changed(tmp_path / "disk", f"{SLOT}.kdf.iterations", FOREVER)
    said = _opened(path)
    assert "volume 1: key slot 0: deriving its key (PBKDF2, 2,147,483,647 iterations) takes" in said
    assert "the limit is 300 s: --kdf-limit SECONDS allows more" in said
    path = argon2.changed(tmp_path / "other", f"{SLOT}.kdf.memory", 8 << 20)
    assert "needs 8,192 MiB of memory, more than the limit of 4,096 MiB: --kdf-memory" in (
        _opened(path).replace("; --kdf", ": --kdf")
    )
    path = argon2.write(tmp_path / "third", argon2.facts)
    assert "more than the limit of 1 MiB" in _opened(path, OpenLimits(key_memory=1 << 20))


def test_costly_slots_do_not_hide_the_one_that_opens(pbkdf2: Header, tmp_path: Path) -> None:
    facts = copy.deepcopy(pbkdf2.facts)
    slots = facts["keyslots"]
    for number in range(1, 31):
        slots[str(number)] = copy.deepcopy(slots["0"])
        slots[str(number)]["kdf"]["iterations"] = FOREVER
    facts["digests"]["0"]["keyslots"] = [*map(str, range(30, -1, -1))]
    assert _opened(pbkdf2.write(tmp_path / "disk", facts)) == "open"


def test_all_derivations_share_one_limit(pbkdf2: Header, tmp_path: Path) -> None:
    facts = copy.deepcopy(pbkdf2.facts)
    slots = facts["keyslots"]
    for number in range(31):
        slots[str(number)] = copy.deepcopy(slots["0"])
        slots[str(number)]["kdf"].update(iterations=4_000_000, salt=base64.b64encode(b"x").decode())
    facts["digests"]["0"]["keyslots"] = [*map(str, range(31))]
    start = time.monotonic()
    said = _opened(pbkdf2.write(tmp_path / "disk", facts), OpenLimits(key_seconds=3))
    assert "--kdf-limit" in said
    assert time.monotonic() - start < 3 + SECONDS


def test_a_damaged_estimate_does_not_outlast_the_limit(
    pbkdf2: Header, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the estimate is wrong, the process is ended."""
    monkeypatch.setattr("ext4kit.evidence.containers.keys._cost", lambda _: 1)
    path = pbkdf2.changed(tmp_path / "disk", f"{SLOT}.kdf.iterations", FOREVER)
    start = time.monotonic()
    assert "has not ended; the limit is 1 s" in _opened(path, OpenLimits(key_seconds=1))
    assert time.monotonic() - start < 1 + SECONDS


def test_a_derivation_in_a_process_of_its_own_gives_the_same_key(
    pbkdf2: Header, argon2: Header, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"pbkdf2": 10, "argon2i": 1, "argon2id": 1}
    monkeypatch.setattr("ext4kit.evidence.containers.keys._TRIAL_ITERATIONS", few)
    for name, header in (("pbkdf2", pbkdf2), ("argon2", argon2)):
        assert _opened(header.write(tmp_path / name, header.facts)) == "open"


def test_the_command_ends_with_3_and_the_limit_can_be_raised(
    pbkdf2: Header, tmp_path: Path, password: Path, ext4kit: Cli
) -> None:
    path = pbkdf2.changed(tmp_path / "disk", f"{SLOT}.kdf.iterations", FOREVER)
    result = ext4kit("volumes", path, "--password-file", password)
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr.count("\n") == 1 and "--kdf-limit SECONDS allows more" in result.stderr


def test_an_interrupt_ends_a_derivation_within_a_second(
    pbkdf2: Header, tmp_path: Path, password: Path
) -> None:
    path = pbkdf2.changed(tmp_path / "disk", f"{SLOT}.kdf.iterations", FOREVER)
    words = ["volumes", str(path), "--password-file", str(password), "--kdf-limit", "1000000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ext4kit", *words], cwd=ROOT, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (child := children.read_text().split()):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)  # it is at work
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    _, said = process.communicate(timeout=60)
    assert time.monotonic() - start < 1
    assert (process.returncode, said) == (130, b"ext4kit: interrupted\n")
    assert not Path(f"/proc/{child[0]}").exists()
