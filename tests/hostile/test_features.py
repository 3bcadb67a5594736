"""Nothing is silently incomplete: how far each feature of an image is read is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ext4kit.parsers.features import READ_FULLY, Compat, Features, Incompat, RoCompat
from tests.fuzz import images
from tests.fuzz.commands import called
from tests.hostile.victim import Victim

pytestmark = pytest.mark.skipif(bool(images.missing()), reason=images.missing())
UNKNOWN = {
    "compat": ({"compat": 1 << 29}, "FEATURE_C29"),
    "incompat": ({"incompat": 1 << 30}, "FEATURE_I30"),
    "ro_compat": ({"ro_compat": 1 << 31}, "FEATURE_R31"),
    "compression": ({"incompat": 0x1}, "compression"),
}
READING = (
    ["info"], ["ls", "-r", "-l"], ["stat", "/"], ["cat", "/sub/file 1"], ["deleted"],
    ["journal", "list"], ["journal", "audit"], ["journal", "replay"], ["timeline"],
)  # fmt: skip


def told(image: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own; the image goes behind the command's name."""
    at = 2 if words[0] == "journal" else 1
    command = [sys.executable, "-m", "ext4kit", *words[:at], str(image), *words[at:]]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


@pytest.mark.heavy
@pytest.mark.parametrize("words", READING, ids=lambda words: " ".join(words[:2]))
def test_a_sound_image_has_no_gap_in_any_command(words: list[str]) -> None:
    assert told(images.made("ext4"), *words).returncode == 0


@pytest.mark.parametrize("kind", UNKNOWN)
def test_what_no_reader_knows_is_told_by_every_command(kind: str, tmp_path: Path) -> None:
    victim, (bits, name) = Victim(), UNKNOWN[kind]
    victim.with_features(**bits)
    image = victim.write(tmp_path / "image")
    for words in READING:
        at = 2 if words[0] == "journal" else 1
        code, said = called([*words[:at], str(image), *words[at:]])
        assert (code, name in said) == (1, True), words


def test_info_says_of_each_feature_how_far_it_is_read(tmp_path: Path) -> None:
    image = images.made("casefold")
    listed = images.run("dumpe2fs", "-h", image).split("Filesystem features:")[1].split("\n")[0]
    lines = told(image, "info").stdout.splitlines()
    full = next(line for line in lines if line.startswith("Features read fully:")).split()[3:]
    partly = [line.split(":")[0].split()[1] for line in lines if line.startswith("Feature ")]
    assert sorted(full + partly) == sorted(listed.split())
    assert {"encrypt", "casefold", "verity"} == set(partly)
    records = map(json.loads, told(image, "info", "--json").stdout.splitlines())
    state = next(record for record in records if record["record"] == "state")
    assert sorted(state["features_read"]) == sorted(listed.split())


def test_every_known_bit_has_a_reading() -> None:
    every = Features(Compat(0xFFFFFFFF), Incompat(0xFFFFFFFF), RoCompat(0xFFFFFFFF))
    assert set(every.unknown) <= set(every.gaps)
    assert every.readings["extent"] == READ_FULLY
    assert "not decrypted" in every.readings["encrypt"]
