"""Images of a case: found by what they are, and each evidence once."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sample_images.recipes.machine import make_file_system, mounted
from tests.case.making import case, jobs_of, made_case
from tests.conftest import Images
from tests.environment import needs
from tests.program import run_program
from tests.schemas.outputs import complaint


@needs("qemu-img")
def test_images_are_found_by_what_they_are(unpacked: Images, tmp_path: Path) -> None:
    source = tmp_path / "evidence"
    (source / "deep").mkdir(parents=True)
    image = unpacked("ext3").image
    shutil.copy(image, source / "deep/photo.jpg")
    words = ["qemu-img", "convert", "-O", "vmdk", "-o", "subformat=monolithicFlat"]
    subprocess.run([*words, unpacked("rm_rf_tree").image, source / "disk.vmdk"], check=True)
    (source / "notes.txt").write_text("x" * 200_000)
    (source / "small").write_bytes(b"x")
    folder = made_case(tmp_path / "case")
    added = [json.loads(line) for line in case(folder, "add", source, "--json").splitlines()]
    assert [one["name"] for one in added] == ["photo.jpg", "disk.vmdk"]
    assert [one["format"] for one in added] == ["raw", "vmdk"]


@needs("mkfs.vfat", "cryptsetup")
def test_a_folder_leaves_nothing_out_without_a_word(unpacked: Images, tmp_path: Path) -> None:
    source = tmp_path / "evidence"
    source.mkdir()
    shutil.copy(unpacked("ext3").image, source / "disk.img")
    (source / "notes.txt").write_text("x" * 200_000)
    (source / "broken.qcow2").write_bytes(b"QFI\xfb\x00\x00\x00\x63" + bytes(1 << 16))
    for name in ("fat", "locked"):
        (source / name).write_bytes(bytes(32 << 20))
    subprocess.run(["mkfs.vfat", "-F", "16", source / "fat"], check=True, capture_output=True)
    words = ["cryptsetup", "luksFormat", "-q", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations"]
    subprocess.run([*words, "1000", source / "locked", "-"], input=b"secret", check=True)
    folder = made_case(tmp_path / "case")
    done = run_program("case", "add", "--case", folder, source)
    assert done.returncode == 1
    assert b"broken.qcow2: cannot be opened" in done.stdout
    told = done.stderr.decode()
    assert "left out: 3 files" in told
    assert all(kind in told for kind in ("vfat", "crypto_LUKS", "raw (unknown)"))


@needs("qemu-img", "tune2fs")
def test_the_same_evidence_is_noticed_in_another_container(
    unpacked: Images, tmp_path: Path
) -> None:
    image, other = unpacked("rm_rf_tree").image, tmp_path / "other.qcow2"
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", image, other], check=True)
    folder = made_case(tmp_path / "case", image)
    assert "the same evidence as" in case(folder, "add", other)
    changed = tmp_path / "changed.img"
    shutil.copy(image, changed)
    subprocess.run(["tune2fs", "-L", "later", changed], check=True, capture_output=True)
    assert "the same evidence" not in case(folder, "add", changed)
    case(folder, "run", "--do", "verify")
    assert [job["image"] for job in jobs_of(folder)] == [image.name, "changed.img"]
    assert f"the same evidence: other.qcow2 volume 1 as {image.name}" in case(folder, "status")


def test_what_cannot_be_opened_is_named(unpacked: Images, tmp_path: Path) -> None:
    broken = tmp_path / "broken.qcow2"
    broken.write_bytes(b"QFI\xfb\x00\x00\x00\x63" + bytes(1 << 16))
    folder = made_case(tmp_path / "case", unpacked("ext3").image)
    assert "cannot be opened" in case(folder, "add", broken, code=1)
    assert "broken.qcow2" in case(folder, "status")
    case(folder, "run", "--do", "report", "--no-quick")
    case(folder, "report")
    page = (folder / "index.html").read_text("utf-8")
    row = next(line for line in page.splitlines() if "<tr>" in line and "broken.qcow2" in line)
    assert not re.search(r">\d+</td>", row)  # what was not read has no numbers
    assert "What could not be read" in page


def test_a_path_is_added_once_and_names_are_told_apart(unpacked: Images, tmp_path: Path) -> None:
    image = unpacked("ext3").image
    (tmp_path / "two").mkdir()
    other = tmp_path / "two" / image.name
    shutil.copy(unpacked("rm_rf_tree").image, other)
    folder = made_case(tmp_path / "case", image, image, other)
    case(folder, "run", "--do", "verify")
    assert [job["image"] for job in jobs_of(folder)] == [image.name, f"{image.name}-2"]


@pytest.mark.parametrize("words", [("status",), ("run",), ("report",), ("seal",)])
def test_where_no_case_is_a_command_says_how_to_make_one(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    done = run_program("case", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert b"ext4kit case init" in done.stderr


@pytest.mark.kernel
@needs("mount")
def test_a_case_on_the_evidence_is_refused(tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    make_file_system(image, 8 << 20, ("-t", "ext4"))
    with mounted(image, "noatime") as root:
        folder = made_case(root / "case")
        done = run_program("case", "add", "--case", folder, image)
    assert done.returncode == 2
    assert b"is on the evidence itself" in done.stderr


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run_program("case", "init", tmp_path)
    assert done.returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_records_are_as_their_schemas_say(unpacked: Images, tmp_path: Path) -> None:
    folder = made_case(tmp_path / "case", unpacked("rm_rf_tree").image)
    lines = case(folder, "add", unpacked("ext3").image, "--json")
    lines += case(folder, "status", "--json")
    case(folder, "run", "--do", "export", "--quick")
    lines += case(folder, "status", "--json")
    for words in (["names", "name=*"], ["activity"], ["owners"], ["not_read"]):
        lines += case(folder, "query", *words, "--json", "--limit", "20")
    records = [json.loads(line) for line in lines.splitlines()]
    assert {one["record"] for one in records} == {"case image", "case job", "case answer"}
    assert [complaint(one["record"], one) for one in records if complaint(one["record"], one)] == []


@needs("ssh-keygen", "sha256sum")
def test_a_seal_is_what_sha256sum_and_ssh_keygen_check(unpacked: Images, tmp_path: Path) -> None:
    folder = made_case(tmp_path / "case", unpacked("ext3").image)
    case(folder, "run", "--do", "verify")
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    case(folder, "seal", "--ssh-key", key)
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    told = subprocess.run(check, cwd=folder, check=True, capture_output=True, text=True).stdout
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    named = {line.removesuffix(": OK") for line in told.splitlines()}
    assert files - named == {"SHA256SUMS", "SHA256SUMS.sig"}
    allowed = tmp_path / "allowed"
    allowed.write_text(f"roe {key.with_suffix('.pub').read_text()}")
    verify: list[str | Path] = ["ssh-keygen", "-Y", "verify", "-s", "SHA256SUMS.sig", "-n", "file"]
    verify += ["-I", "roe", "-f", allowed]
    sums = (folder / "SHA256SUMS").read_bytes()
    assert subprocess.run(verify, cwd=folder, input=sums, check=False).returncode == 0
    assert subprocess.run(verify, cwd=folder, input=sums + b"x", check=False).returncode != 0
