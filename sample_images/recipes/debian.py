"""A Debian server: installed by debootstrap, packages purged, an intruder tidies up, power cut."""

from __future__ import annotations

import re
from pathlib import Path

from sample_images.recipes import machine
from sample_images.recipes.contents import noise, text
from sample_images.recipes.recipe import MIB, Recipe
from sample_images.recipes.stage import Stage

SUITE = "bookworm"
EXTRA = ("cron", "vim-tiny", "netcat-openbsd", "less", "logrotate")
PURGED = ("vim-tiny", "vim-common", "netcat-openbsd", "tzdata", "less")
DROPPED = {
    "tmp/.ICE-unix/.x/scan.sh": 2300,
    "tmp/.ICE-unix/.x/targets.txt": 41_000,
    "tmp/.ICE-unix/.x/out/10.0.0.0.txt": 150_000,
    "tmp/loot.tar.gz": 1_700_000,
    "tmp/a b\tc": 12,
    "dev/shm/.k": 48_000,
    "dev/shm/... /agent": 320_000,
    "root/.ssh/authorized_keys": 573,
    "root/.ssh/id_ed25519": 411,
    "root/.bash_history": 3100,
    "usr/local/bin/.systemd-helper": 95_000,
    "var/tmp/\x1b[2Jclear": 700,
}


def debian_mirror() -> str:
    """The Debian archive that this machine's own apt uses.

    Raises:
        MachineError: no apt source names the suite.
    """
    folder = Path("/etc/apt")
    texts = [
        path.read_text()
        for path in (folder / "sources.list", *sorted(folder.glob("sources.list.d/*")))
        if path.is_file()
    ]
    one_line = re.compile(rf"^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+{SUITE}\s+main\b", re.MULTILINE)
    paragraph = re.compile(rf"^URIs:\s*(\S+)\nSuites:.*\b{SUITE}(?:\s|$)", re.MULTILINE)
    for found in (pattern.search(said) for said in texts for pattern in (one_line, paragraph)):
        if found:
            return found.group(1)
    raise machine.MachineError(f"no apt source for {SUITE}")


def debian(stage: Stage) -> None:
    """Install, run for a while, purge packages, let the intruder come and go."""
    include = f"--include={','.join(EXTRA)}"
    machine.run("debootstrap", "--variant=minbase", include, SUITE, stage.root, debian_mirror())
    stage.write("var/log/auth.log", text("auth", 60_000))
    stage.remount()
    stage.sync()
    stage.record_tree()
    machine.run("chroot", stage.root, "dpkg", "--purge", "--force-depends", *PURGED)
    stage.sync()
    _intrude(stage)
    stage.save_over("var/log/auth.log", text("auth", 60_000).replace(b"tunnel", b"garden"))
    stage.commit()


def _intrude(stage: Stage) -> None:
    for name, size in DROPPED.items():
        content = noise(name, size) if size > 100_000 else text(name, size)
        stage.write(name, content.rstrip(b"\0"))
    stage.sync()
    for name in DROPPED:
        machine.run("touch", "-d", "2019-03-01 04:05:06", stage.path(name))
    stage.remove(list(DROPPED))
    machine.run("rm", "-rf", stage.path("tmp/.ICE-unix"), stage.path("dev/shm/... "))


RECIPES = (
    Recipe(
        "debian", "a Debian server, packages purged, an intruder's files removed", debian,
        options=("-t", "ext4", "-J", "size=32"), size=1024 * MIB, power_cut=True, slow=True,
    ),
)  # fmt: skip
