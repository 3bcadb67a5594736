"""Real programs that save over a file; only those that are installed are run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

Save = Callable[[Path, Path], list[str]]  # (the file, a file with the new content) -> command
_QUIET_VIM = ("-u", "NONE", "-i", "NONE", "-n", "-es")


def _vim(mode: str) -> Save:
    def save(path: Path, new: Path) -> list[str]:
        words = ("vim", *_QUIET_VIM, "-c", f"set backupcopy={mode} writebackup nobackup")
        return [*words, "-c", f"%d|0r {new}|wq", str(path)]

    return save


def _shell(text: str) -> Save:
    """A line of the shell in the folder of the file; $1 is its name, $2 the new content."""
    return lambda path, new: ["sh", "-ec", text, "sh", path.name, str(new)]


_LOGROTATE = """
printf '"%s" {\\n rotate 0\\n su root root\\n %s\\n}\\n' "$PWD/$1" MODE > "$2.conf"
logrotate -f -s "$2.state" "$2.conf"
cat "$2" >> "$1"
"""
_GIT = """
git init -q . && git add "$1" && git -c user.name=a -c user.email=a@b commit -q -m old
cat "$2" > "$1.next" && mv "$1.next" "$1" && git add "$1"
git -c user.name=a -c user.email=a@b commit -q -m new
git checkout -q HEAD~1 -- "$1" && git checkout -q HEAD -- "$1"
"""
_REPLACE = """
import os, sys
with open("t", "wb") as new, open(sys.argv[2], "rb") as given:
    new.write(given.read())
os.replace("t", sys.argv[1])
"""
PROGRAMS: dict[str, tuple[str, Save]] = {
    "sh, cat >": ("sh", _shell('cat "$2" > "$1"')),
    "cp": ("cp", _shell('cp "$2" "$1"')),
    "cp --remove-destination": ("cp", _shell('cp --remove-destination "$2" "$1"')),
    "mv": ("mv", _shell('cp "$2" ./other && mv ./other "$1"')),
    "install": ("install", _shell('install -m 644 "$2" "$1"')),
    "sed -i": ("sed", _shell('sed -i "1,9999d;\\$r $2" "$1"; sed -i s/a/b/ "$1"')),
    "tee": ("tee", _shell('tee "$1" < "$2" > /dev/null')),
    "truncate": ("truncate", _shell('truncate -s 0 "$1"')),
    "dd": ("dd", _shell('dd if="$2" of="$1" status=none')),
    "vim, backupcopy=yes": ("vim", _vim("yes")),
    "vim, backupcopy=no": ("vim", _vim("no")),
    "vim, backupcopy=auto": ("vim", _vim("auto")),
    "emacs": (
        "emacs",
        lambda path, new: ["emacs", "--batch", "-Q", str(path), "--eval", "(erase-buffer)",
                           "--eval", f'(insert-file-contents "{new}")', "-f", "save-buffer"],
    ),
    "rsync": ("rsync", _shell('rsync -I "$2" "$1"')),
    "git checkout": ("git", _shell(_GIT)),
    "logrotate, create": ("logrotate", _shell(_LOGROTATE.replace("MODE", "create"))),
    "logrotate, copytruncate": ("logrotate", _shell(_LOGROTATE.replace("MODE", "copytruncate"))),
    "patch": ("patch", _shell('diff -u "$1" "$2" > "$2.diff" || patch -s "$1" "$2.diff"')),
    "python, os.replace": ("python3", _shell(f"python3 -c '{_REPLACE}' \"$1\" \"$2\"")),
}  # fmt: skip


def installed() -> list[str]:
    """Names of the programs that can be run here."""
    return [name for name, (tool, _) in PROGRAMS.items() if shutil.which(tool)]


def pattern_of(name: str) -> Callable[[Path, bytes], Iterator[None]]:
    """The saving by a program as a pattern (`patterns.py`): all of it after the first step."""

    def save(path: Path, new: bytes) -> Iterator[None]:
        yield
        content = path.parents[1] / "content"  # beside the folders, not in the file's own
        content.write_bytes(new)
        words = PROGRAMS[name][1](path, content)
        environment = {**os.environ, "HOME": "/nonexistent", "LC_ALL": "C"}
        subprocess.run(
            words, cwd=path.parent, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, check=True, timeout=60,
        )  # fmt: skip

    return save
