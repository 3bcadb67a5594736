"""What every command prints is as its JSON Schema says, on sound, hostile and damaged images."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ext4kit.cli.schemas import schema_names, schema_text
from tests import cases
from tests.cli.conftest import EVIL
from tests.conftest import Cli, Images
from tests.environment import ROOT, everything
from tests.filesystem.matrix_oracle import debugfs
from tests.fuzz import images
from tests.schemas.outputs import COMMANDS, complaint, records_of

_MOST_BYTES = 64 << 20  # of an image of e2fsprogs' cases
_CASES = 40 if everything() else 12


def complaints(image: Path, folder: Path) -> Iterator[str]:
    """Records that their schema does not allow, and kinds without a schema."""
    for command in COMMANDS:
        for kind, record in records_of(command, image, folder):
            if text := complaint(kind, record):
                yield f"{' '.join(command)}: {text}"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Names that are no UTF-8, devices, attributes, long links, an image over another one."""
    folder = tmp_path_factory.mktemp("hostile")
    root = folder / "tree"
    (root / "sub").mkdir(parents=True)
    for number in range(40):
        (root / f"sub/{number}").write_bytes(bytes([number]) * 5000)
    Path(str(root), EVIL.decode("utf-8", "surrogateescape")).write_bytes(b"evil")
    (root / "long").symlink_to("x" * 200)
    (root / "odd").symlink_to(b"\xff\n".decode("utf-8", "surrogateescape"))
    image = folder / "hostile.img"
    same = ["-U", images.UUID, "-E", f"hash_seed={images.SEED}"]  # what is damaged is always alike
    make = ["mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", *same, "-d", str(root), str(image)]
    subprocess.run([*make, "20M"], check=True, capture_output=True)
    debugfs(image, "mknod disk b 8 1", "ea_set /sub/1 user.one two", "rm /sub/7", write=True)
    return image


@pytest.mark.heavy
def test_a_sample_with_deleted_files(unpacked: Images, tmp_path: Path) -> None:
    assert list(complaints(unpacked("rm_rf_tree").image, tmp_path)) == []


@pytest.mark.heavy
def test_hostile_names_devices_and_attributes(hostile: Path, tmp_path: Path) -> None:
    assert list(complaints(hostile, tmp_path)) == []


@pytest.mark.heavy
def test_errors_that_the_superblock_remembers(hostile: Path, tmp_path: Path) -> None:
    image = tmp_path / "errors.img"
    image.write_bytes(hostile.read_bytes())
    fields = [f"{which}_error_{what}" for which in ("first", "last") for what in ("time", "ino")]
    debugfs(image, *(f"set_super_value {field} 12" for field in fields), write=True)
    assert list(complaints(image, tmp_path)) == []


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_damaged_images(hostile: Path, tmp_path: Path, seed: int) -> None:
    data, chance = bytearray(hostile.read_bytes()), random.Random(seed)
    for _ in range(400):
        data[chance.randrange(4096, 1 << 20)] = chance.randrange(256)
    image = tmp_path / "damaged.img"
    image.write_bytes(data[: len(data) - (seed - 1) * (3 << 20)])
    assert list(complaints(image, tmp_path)) == []


@pytest.mark.heavy
def test_a_file_system_over_another(hostile: Path, tmp_path: Path) -> None:
    image = tmp_path / "over.img"
    image.write_bytes(hostile.read_bytes())
    make = [
        "mke2fs",
        "-q",
        "-F",
        "-t",
        "ext4",
        "-b",
        "1024",
        "-E",
        "lazy_itable_init=1",
        str(image),
    ]
    subprocess.run(make, check=True, capture_output=True)
    assert list(complaints(image, tmp_path)) == []


@pytest.mark.slow
@pytest.mark.skipif(not cases.records(), reason=cases.MISSING)
def test_images_of_e2fsprogs(tmp_path: Path) -> None:
    small = [each for each in cases.records() if each["bytes"] <= _MOST_BYTES]
    chosen = random.Random(6).sample(small, min(_CASES, len(small)))
    found: list[str] = []
    for each in chosen:
        cases.unpack(tmp_path, [each["image"]])
        image = tmp_path / each["image"]
        found += [f"{each['name']}: {text}" for text in complaints(image, tmp_path)]
        image.unlink()
    assert found == []


def test_every_kind_of_record_in_the_code_has_a_schema() -> None:
    sources = (ROOT / "ext4kit").rglob("*.py")
    found = {
        kind
        for path in sources
        for kind in re.findall(r'"record": "([a-z ]+)"', path.read_text(encoding="utf-8"))
    }
    assert found | {"manifest"} == set(schema_names())


@pytest.mark.parametrize("kind", schema_names())
def test_schemas_are_sound_and_closed(kind: str) -> None:
    schema = json.loads(schema_text(kind))
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["description"]
    for each in _objects(schema):
        assert each.get("additionalProperties") is not None, each


@pytest.mark.parametrize("kind", sorted({*schema_names()} - {"manifest"}))
def test_the_types_of_a_kind_say_its_name(kind: str) -> None:
    schema = json.loads(schema_text(kind))
    for form in schema.get("oneOf", [schema]):
        assert form["properties"]["record"] == {"const": kind}
        assert "record" in form["required"]


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema of an object."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for value in schema.values():
            yield from _objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _objects(value)


def test_the_schema_command(ext4kit: Cli) -> None:
    listed = ext4kit("schema").stdout.splitlines()
    assert listed == list(schema_names())
    assert json.loads(ext4kit("schema", "lost file system").stdout)["title"] == "lost file system"
    assert ext4kit("schema", "nothing").returncode == 2
