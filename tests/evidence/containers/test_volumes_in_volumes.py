"""LVM and LUKS, alone and in each other: made by lvm2, cryptsetup and qemu-img."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ext4kit.cli.main import run
from ext4kit.errors import AccessError
from ext4kit.evidence import open_evidence
from ext4kit.filesystem.found import find_file_systems
from sample_images.recipes import machine
from tests.conftest import Cli
from tests.evidence.containers.conftest import LUKS1_HEADER, PHRASE, Tool
from tests.partition_tables import write_table

MIB = 1 << 20
FAST = ("--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000")
OLD_CIPHER = ("--cipher", "aes-cbc-essiv:sha256", "--key-size", "256")
ARGON = ("--pbkdf", "argon2id", "--pbkdf-memory", "8192", "--pbkdf-force-iterations", "4")
ROOM = 16 * MIB  # of a LUKS2 header as cryptsetup makes it
STRIPE = 64 << 10

Loop = Callable[[Path], Path]
Check = Callable[..., None]


class Group:
    """A volume group on loop devices, without the device mapper."""

    def __init__(self, tool: Tool, devices: list[Path]) -> None:
        allowed = ",".join(f'"a|^{device}$|"' for device in devices)
        devices_section = f'devices{{filter=[{allowed},"r|.*|"]\nuse_devicesfile=0}}'
        self._config = ("--config", f"{devices_section}\nbackup{{backup=0 archive=0}}")
        self._tool = tool
        self("pvcreate", "-q", *devices)
        self("vgcreate", "-q", "-s", "1m", "case", *devices)

    def __call__(self, command: str, *arguments: str | Path) -> str:
        """Run a command of lvm2 on the group's devices alone."""
        return self._tool(command, *self._config, *arguments)

    def create(self, name: str, *options: str, on: tuple[Path, ...] = ()) -> None:
        """A logical volume."""
        self("lvcreate", "--driverloaded", "n", "-an", "-Zn", "-Wn", "-q", "-n", name, *options,
             "case", *on)  # fmt: skip


def _blank(path: Path, mebibytes: int) -> Path:
    with path.open("xb") as file:
        file.truncate(mebibytes * MIB)
    return path


def _put(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def _encrypted(tool: Tool, plain: Path, target: Path, key: Path, *options: str) -> Path:
    """Encrypted in place by cryptsetup in user space: the header moves what was there back."""
    if not os.access("/run/cryptsetup" if Path("/run/cryptsetup").is_dir() else "/run", os.W_OK):
        pytest.skip("needs root, as cryptsetup has its locks in /run")
    machine.copy_sparse(plain, target)
    with target.open("r+b") as file:
        file.truncate(plain.stat().st_size + 2 * ROOM)
    tool("cryptsetup", "reencrypt", "-q", "--encrypt", "--type", "luks2", "--key-file", key,
         "--reduce-device-size", str(2 * ROOM), *options, target)  # fmt: skip
    return target


@pytest.mark.heavy
def test_luks1_gives_the_answers_of_the_raw_image(
    luks1: Path, password: Path, same_answers: Check
) -> None:
    same_answers(luks1, "--volume", "2", "--password-file", password)


@pytest.mark.heavy
@pytest.mark.parametrize("options", [(*FAST, *OLD_CIPHER), (*ARGON, "--sector-size", "4096")])
def test_luks2_has_the_bytes_of_the_raw_image(
    options: tuple[str, ...], tool: Tool, sample: Path, tmp_path: Path, key: Path
) -> None:
    image = _encrypted(tool, sample, tmp_path / "disk", key, *options)
    with open_evidence(image, [PHRASE.encode()]) as evidence:
        outer, inner = evidence.volumes
        assert (outer.kind, inner.kind, inner.parent) == ("crypto_LUKS", "ext4", 1)
        size = sample.stat().st_size
        assert inner.source.read(0, size) == sample.read_bytes()
        assert inner.source.read(12_345, 99) == sample.read_bytes()[12_345:12_444]


@pytest.mark.heavy
def test_luks2_gives_the_answers_of_the_raw_image(
    tool: Tool, sample: Path, tmp_path: Path, key: Path, same_answers: Check
) -> None:
    image = _encrypted(tool, sample, tmp_path / "disk", key, *FAST)
    same_answers(image, "--volume", "2", "--key-file", key)


def test_the_second_header_of_luks2_stands_in_for_the_first(
    tool: Tool, sample: Path, tmp_path: Path, key: Path
) -> None:
    image = _encrypted(tool, sample, tmp_path / "disk", key, *FAST)
    _put(image, 4096 + 100, b"damage")
    with open_evidence(image, [PHRASE.encode()]) as evidence:
        assert [volume.kind for volume in evidence.volumes] == ["crypto_LUKS", "ext4"]


def test_a_wrong_pass_phrase_is_one_line_and_none_is_a_note(
    luks1: Path, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = luks1
    wrong = tmp_path / "wrong"
    wrong.write_text("guess")
    assert run(["info", str(image), "--password-file", str(wrong)]) == 3
    said = capsys.readouterr().err
    assert "no pass phrase" in said
    assert "guess" not in said
    assert len(said.splitlines()) == 1
    assert run(["volumes", str(image)]) == 0
    assert "stays locked" in capsys.readouterr().err
    assert run(["volumes", str(image), "--key-file", str(key)]) == 0
    assert PHRASE not in "".join(capsys.readouterr())
    assert run(["volumes", str(image), "--key-file", str(tmp_path / "none")]) == 2


def test_no_output_holds_the_pass_phrase(luks1: Path, password: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    how = ("--volume", "2", "--password-file", str(password), "--verify-evidence")
    assert run(["extract", str(luks1), "/", "-o", str(out), *how]) == 0
    case = json.loads((out / "case.json").read_text())
    assert str(password) in case["command"]
    assert [each["worked_on"] for each in case["volumes"]] == [False, True]
    assert case["evidence_check"]["unchanged"] is True
    text = (out / "case.json").read_bytes() + (out / "manifest.jsonl").read_bytes()
    assert PHRASE.encode() not in text


@pytest.mark.heavy
@pytest.mark.parametrize("stripes", [1, 2])
def test_logical_volumes_give_the_answers_of_the_raw_image(
    stripes: int,
    tool: Tool,
    sample: Path,
    tmp_path: Path,
    loop: Loop,
    same_answers: Check,
) -> None:
    """The oracle of the layout is lvm2: `lvs` tells the first extents, the content goes there."""
    devices = [loop(_blank(tmp_path / f"pv{number}", 40)) for number in range(stripes)]
    group = Group(tool, devices)
    size = sample.stat().st_size // MIB
    group.create("before", "-L", "2m")
    if stripes == 1:
        group.create("root", "-L", f"{size}m")
    else:
        group.create("root", "-L", f"{size}m", "-i", "2", "-I", "64k")
    content, pieces = sample.read_bytes(), _where(group, "root")
    for column, (device, base) in enumerate(pieces):
        backing = tmp_path / f"pv{devices.index(device)}"
        part = content if stripes == 1 else b"".join(
            content[at : at + STRIPE]
            for at in range(column * STRIPE, len(content), STRIPE * stripes)
        )  # fmt: skip
        _put(backing, base, part)
    parts = _disk_of(tmp_path, stripes)
    same_answers(parts, "--volume", str(_index(parts, "case/root")))


@pytest.mark.heavy
def test_a_logical_volume_is_found_without_the_metadata_of_lvm(
    tool: Tool, sample: Path, tmp_path: Path, loop: Loop, same_answers: Check, ext4kit: Cli
) -> None:
    """What lvm2 keeps in front of its volumes is gone; a linear one lies there in one piece."""
    group = Group(tool, [loop(_blank(tmp_path / "pv", 40))])
    group.create("before", "-L", "2m")
    group.create("root", "-L", f"{sample.stat().st_size // MIB}m")
    ((_, base),) = _where(group, "root")
    _put(tmp_path / "pv", base, sample.read_bytes())
    _put(tmp_path / "pv", 4096, bytes(MIB - 4096))  # the label stays
    assert f"--offset {base}" in ext4kit("ls", tmp_path / "pv").stderr
    _put(tmp_path / "pv", 0, bytes(MIB))
    with open_evidence(tmp_path / "pv") as evidence:
        assert {each.kind for each in evidence.volumes} == {"unknown"}
        (found,) = find_file_systems(evidence.source, evidence.problems)
    assert found.offset == base
    same_answers(tmp_path / "pv", "--offset", str(found.offset))


def _where(group: Group, name: str) -> list[tuple[Path, int]]:
    """(device, byte offset on it) of each stripe of a volume, as lvm2's own tools tell them."""
    how = ("--driverloaded", "n", "--reportformat", "json", "--units", "b", "--nosuffix", "-o")
    volumes = json.loads(group("lvs", *how, "lv_name,devices"))["report"][0]["lv"]
    starts = json.loads(group("pvs", *how, "pv_name,pe_start"))["report"][0]["pv"]
    first = {row["pv_name"]: int(row["pe_start"]) for row in starts}
    devices = next(row["devices"] for row in volumes if row["lv_name"] == name)
    found = re.findall(r"([^(),]+)\((\d+)\)", devices)
    return [(Path(device), first[device] + int(extent) * MIB) for device, extent in found]


def _disk_of(folder: Path, count: int, size: int = 40) -> Path:
    """One disk of all physical volumes: partitions behind each other where there are several."""
    if count == 1:
        return folder / "pv0"
    disk = _blank(folder / "disk", size * count + 2)
    lines = [f"start={2048 + number * size * 2048}, size={size * 2048}" for number in range(count)]
    write_table(disk, "\n".join(["label: gpt", *lines]))
    for number in range(count):
        _put(disk, (1 + number * size) * MIB, (folder / f"pv{number}").read_bytes())
    return disk


def _index(image: Path, name: str) -> int:
    with open_evidence(image) as evidence:
        return next(each.index for each in evidence.volumes if each.description.startswith(name))


@pytest.mark.heavy
def test_each_logical_volume_is_named_with_the_place_of_its_first_extent(
    tool: Tool, sample: Path, tmp_path: Path, loop: Loop, ext4kit: Cli
) -> None:
    """The oracle is lvm2: `lvs` and `pvs` tell on which device and at which byte each begins."""
    devices = [loop(_blank(tmp_path / f"pv{number}", 80)) for number in range(2)]
    group = Group(tool, devices)
    for name, device in (("root", devices[0]), ("home", devices[0]), ("far", devices[1])):
        group.create(name, "-L", f"{sample.stat().st_size // MIB}m", on=(device,))
    group.create("wide", "-L", "4m", "-i", "2", "-I", "64k")
    names = ("root", "home", "far", "wide")
    where = {name: _where(group, name)[0] for name in names}
    for name in names[:2]:
        _put(tmp_path / "pv0", where[name][1], sample.read_bytes())
    image = _disk_of(tmp_path, 2, 80)
    with open_evidence(image) as evidence:
        members = [each for each in evidence.volumes if each.kind == "LVM2_member"]
        logical = {each.name: each for each in evidence.volumes if each.parent}
    assert set(logical) == {f"case/{name}" for name in names}
    for name, (device, byte) in where.items():
        member = members[devices.index(device)]
        each = logical[f"case/{name}"]
        assert (each.parent, each.first_byte) == (member.index, (member.index, byte))
    listed = ext4kit("volumes", image).stdout
    hashed = ext4kit("hash", image).stdout
    report = ext4kit("report", image, "--volume", str(logical["case/home"].index), "--quick").stdout
    for each in logical.values():
        assert each.first_byte is not None
        first = f"first byte at {each.first_byte[1]:,} of volume {each.parent}"
        assert f"{each.description}, {first}" in listed
        assert f" bytes, logical volume {each.name}, {first}" in hashed
        assert each.name in report
    assert not re.search(r"at 0 in|\b0 in volume", listed + hashed + report)
    number = str(logical["case/home"].index)
    told = ext4kit("explain", image, "<14>", "--volume", number).stdout
    assert "of logical volume case/home (block" in told and "of the image" not in told
    graphs = [
        ext4kit("export", image, "--case-uco", "-", "--volume", str(logical[name].index)).stdout
        for name in ("case/root", "case/home")
    ]
    systems = [re.findall(r'"@id":"([^"]+)","@type":"observable:FileSystem"', each)
               for each in graphs]  # fmt: skip
    assert len({one for (one,) in systems}) == 2  # of one content and UUID


def test_a_partition_in_a_logical_volume_ends_there_and_not_with_the_image(
    tool: Tool, tmp_path: Path, loop: Loop, ext4kit: Cli
) -> None:
    group = Group(tool, [loop(_blank(tmp_path / "pv0", 24))])
    group.create("before", "-L", "2m")
    group.create("vm", "-L", "8m")
    inner = _blank(tmp_path / "vm", 16)
    write_table(inner, "label: gpt\nstart=2048, size=2048\nstart=4096, size=16384\n")
    ((_, base),) = _where(group, "vm")
    _put(tmp_path / "pv0", base, inner.read_bytes()[: 8 * MIB])
    done = ext4kit("volumes", tmp_path / "pv0", "--json")
    assert f"are missing: logical volume case/vm ends at byte {8 * MIB:,}" in done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    places = [(each["offset"], each["first_byte"]["offset"]) for each in told
              if each["record"] == "volume" and each["name"] == "case/vm"]  # fmt: skip
    assert places == [(MIB, base + MIB), (2 * MIB, base + 2 * MIB)]


def test_an_unlocked_volume_begins_behind_the_header_of_the_encrypted_one(
    luks1: Path, password: Path, ext4kit: Cli
) -> None:
    how = ("--password-file", password)
    told = ext4kit("volumes", luks1, "--json", *how).stdout.splitlines()
    first = {"volume": 1, "offset": LUKS1_HEADER}
    assert [json.loads(line)["first_byte"] for line in told] == [
        {"volume": None, "offset": 0}, first,
    ]  # fmt: skip
    text = f"unlocked, first byte at {LUKS1_HEADER:,} of volume 1"
    assert text in ext4kit("volumes", luks1, *how).stdout
    assert "at 0 in" not in ext4kit("hash", luks1, *how).stdout


def test_a_missing_physical_volume_costs_what_is_on_it(
    tool: Tool, tmp_path: Path, loop: Loop
) -> None:
    first, second = (loop(_blank(tmp_path / f"pv{number}", 12)) for number in range(2))
    group = Group(tool, [first, second])
    group.create("here", "-L", "4m", on=(first,))
    group.create("both", "-L", "4m", "-i", "2", "-I", "64k")
    with open_evidence(tmp_path / "pv0") as evidence:
        assert ["missing" in problem.what for problem in evidence.problems] == [True]
        _, here, both = evidence.volumes
        assert here.description == "case/here, linear"
        assert both.description == "case/both, striped (2)"
        assert len(here.source.read(0, 4 * MIB)) == 4 * MIB
        both.source.read(0, 64 * 1024)
        with pytest.raises(AccessError, match="physical volume pv1 is missing"):
            both.source.read(64 * 1024, 1)


def test_a_snapshot_is_shown(tool: Tool, tmp_path: Path, loop: Loop) -> None:
    """lvm2 makes no snapshot without the device mapper, but takes one from a description."""
    device = loop(_blank(tmp_path / "pv0", 24))
    group = Group(tool, [device])
    group.create("root", "-L", "4m")
    group.create("changes", "-L", "2m")
    text = tmp_path / "group.txt"
    group("vgcfgbackup", "--driverloaded", "n", "-f", text, "case")
    described = text.read_text()
    at = described.index("logical_volumes {") + len("logical_volumes {")
    snapshot = """
        snapshot0 {
            id = "AAAAAA-AAAA-AAAA-AAAA-AAAA-AAAA-AAAAAA"
            status = ["READ", "WRITE", "VISIBLE"]
            flags = []
            segment_count = 1
            segment1 {
                start_extent = 0
                extent_count = 4
                type = "snapshot"
                chunk_size = 8
                origin = "root"
                cow_store = "changes"
            }
        }
    """
    text.write_text(described[:at] + snapshot + described[at:])
    group("vgcfgrestore", "--driverloaded", "n", "-f", text, "case")
    with open_evidence(tmp_path / "pv0") as evidence:
        told = [volume.description for volume in evidence.volumes[1:]]
        assert told == ["case/root, linear", "case/changes, snapshot of root; its changes"]


@pytest.mark.heavy
def test_thin_volumes_are_named_and_refused(
    tool: Tool, tmp_path: Path, loop: Loop, capsys: pytest.CaptureFixture[str]
) -> None:
    """lvm2 makes no pool without the device mapper, but takes one from a description."""
    group = Group(tool, [loop(_blank(tmp_path / "pv0", 24))])
    for name in ("data", "meta", "root"):
        group.create(name, "-L", "4m")
    text = tmp_path / "group.txt"
    group("vgcfgbackup", "--driverloaded", "n", "-f", text, "case")
    parts = r'\b(data|meta) \{(.*?status = \["READ", "WRITE"), "VISIBLE"'  # names are reserved
    hidden = re.sub(parts, r"pool0_t\1 {\2", text.read_text(), flags=re.DOTALL)
    at = hidden.index("logical_volumes {") + len("logical_volumes {")
    text.write_text(hidden[:at] + _thin(4) + hidden[at:])
    group("vgcfgrestore", "--force", "--driverloaded", "n", "-f", text, "case")
    how = ("--driverloaded", "n", "--noheadings", "-o", "lv_name,segtype,pool_lv")
    assert ["thin", "thin", "pool0"] in [line.split() for line in group("lvs", *how).splitlines()]
    with open_evidence(tmp_path / "pv0") as evidence:
        told = {volume.description: volume.kind for volume in evidence.volumes[1:]}
        assert told["case/thin, thin"] == "thin logical volume"
        number = next(v.index for v in evidence.volumes if v.description == "case/thin, thin")
    assert run(["ls", str(tmp_path / "pv0"), "--volume", str(number)]) == 3
    assert "is thin logical volume, not ext2" in capsys.readouterr().err
    run(["volumes", str(tmp_path / "pv0")])
    said = capsys.readouterr()
    assert "case/thin: it is a thin volume: the metadata of its pool pool0" in said.err
    assert run(["hash", str(tmp_path / "pv0"), "--json"]) == 0


def _thin(extents: int) -> str:
    """A pool on the volumes that are named as its parts, and a thin volume in it."""
    common = 'status = ["READ", "WRITE", "VISIBLE"]\nflags = []\nsegment_count = 1\n'
    span = f"start_extent = 0\nextent_count = {extents}\n"
    return f"""
        pool0 {{
            id = "AAAAAA-AAAA-AAAA-AAAA-AAAA-AAAA-AAAAAA"
            {common}
            segment1 {{
                {span}
                type = "thin-pool"
                metadata = "pool0_tmeta"
                pool = "pool0_tdata"
                transaction_id = 1
                chunk_size = 128
                discards = "passdown"
                zero_new_blocks = 1
            }}
        }}
        thin {{
            id = "BBBBBB-BBBB-BBBB-BBBB-BBBB-BBBB-BBBBBB"
            {common}
            segment1 {{
                {span}
                type = "thin"
                thin_pool = "pool0"
                transaction_id = 0
                device_id = 1
            }}
        }}
    """


@pytest.mark.heavy
def test_they_are_read_as_they_come(
    tool: Tool,
    sample: Path,
    tmp_path: Path,
    loop: Loop,
    key: Path,
    password: Path,
    same_answers: Check,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """E01 -> GPT -> LUKS -> LVM -> ext4."""
    Group(tool, [loop(_blank(tmp_path / "pv", 36))]).create("root", "-L", "33m")
    _put(tmp_path / "pv", MIB, sample.read_bytes())  # the first extent, as `pvs` says by default
    locked = _encrypted(tool, tmp_path / "pv", tmp_path / "locked", key, *FAST)
    disk = _blank(tmp_path / "disk", 76)
    machine.run(
        "sfdisk",
        "--no-tell-kernel",
        "-q",
        disk,
        stdin=b"label: gpt\nstart=2048,size=4096\nstart=6144",
    )
    _put(disk, 3 * MIB, locked.read_bytes())
    tool("ewfacquire", "-u", "-q", "-c", "fast", "-S", "6MiB", "-t", tmp_path / "case", disk)
    image = tmp_path / "case.E01"
    capsys.readouterr()
    assert run(["volumes", str(image), "--json", "--password-file", str(password)]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = [(each["index"], each["parent"], each["kind"], each["scheme"]) for each in records]
    assert told == [
        (1, None, "unknown", "gpt"),
        (2, None, "crypto_LUKS", "gpt"),
        (3, 2, "LVM2_member", "luks"),
        (4, 3, "ext4", "lvm2"),
    ]
    same_answers(image, "--password-file", password)
