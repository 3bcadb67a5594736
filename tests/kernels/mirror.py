"""A small archive of made-up packages, as apt reads it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from sample_images.kernels.fetching import Mirror

RELEASE = "9.3.1-made-up"
PROGRAM = b"program of a kernel, loaded by /lib64/ld-linux-x86-64.so.2\0 and so on"


def make_mirror(folder: Path, suite: str, program: bytes = PROGRAM) -> Mirror:
    """An archive with one suite that has a kernel and a C library; nobody has signed it."""
    packages = [
        _package(folder, "user-mode-linux", {
            "usr/bin/linux.uml": program,
            f"usr/lib/uml/modules/{RELEASE}/modules.dep": b"kernel/loop.ko:\n",
        }),
        _package(folder, "libc6", {
            "usr/lib/x86_64-linux-gnu/libc.so.6": b"library",
            "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2": b"loader",
        }),
    ]  # fmt: skip
    index = "\n".join(packages).encode()
    place = folder / "dists" / suite / "main" / "binary-amd64"
    place.mkdir(parents=True)
    (place / "Packages").write_bytes(index)
    (place.parents[1] / "Release").write_text(
        f"Suite: {suite}\nCodename: {suite}\nComponents: main\nArchitectures: amd64\n"
        f"Date: Mon, 01 Jan 2024 00:00:00 UTC\nSHA256:\n"
        f" {hashlib.sha256(index).hexdigest()} {len(index)} main/binary-amd64/Packages\n"
    )
    return Mirror(f"file:{folder}", "trusted=yes")


def _package(folder: Path, name: str, files: dict[str, bytes]) -> str:
    """Build a package into the pool; its paragraph of the index."""
    root = folder / "build" / name
    control = f"Package: {name}\nVersion: 1\nArchitecture: amd64\nMaintainer: nobody\n"
    control += "Description: made up\n"
    files = {**files, "DEBIAN/control": control.encode()}
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    (folder / "pool").mkdir(exist_ok=True)
    made = folder / "pool" / f"{name}_1_amd64.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "--build", str(root), str(made)],
        check=True, capture_output=True,
    )  # fmt: skip
    data = made.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return f"{control}Filename: pool/{made.name}\nSize: {len(data)}\nSHA256: {digest}\n"
