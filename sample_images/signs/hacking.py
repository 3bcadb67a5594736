"""What intruders do on copies of a system, and which of it the rules notice.

A scene is a shell script that runs in the root directory of a system and cannot leave it. Scenes
that touch different files share a copy; a scene is noticed if a sign that the untouched system does
not have names one of the files that it is about.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from ext4kit.triage.rules.rule import Rule
from sample_images.recipes import machine
from sample_images.signs.reading import Sign

_SCENES = Path(__file__).with_name("scenes")
_SHELL = "set -eu\nsync() { command sync -f .; }\n"
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/root"}
_PATH = re.compile(r"(?<![\w/.$-])(?:[a-z]+)(?:/[^\s'\";|&<>()$*{}]+)+")
_TOPS = ("bin", "dev", "etc", "home", "lib", "media", "mnt", "opt", "proc", "root", "run", "sbin",
         "srv", "sys", "tmp", "usr", "var")  # fmt: skip
_READ_ONLY = re.compile(r"usr/bin/(?:ls|true|cat|dash|su)\b")
_NEEDED = """mkdir -p home/anna var/www/html/uploads var/log/nginx srv opt mnt proc run media tmp
lines() {
  seq -f 'Nov 29 04:00:00 www sshd[%g]: Failed password for root from 203.0.113.9' 300
  seq -f 'Nov 29 05:00:00 www sshd[%g]: Accepted publickey for anna' 300
}
for log in auth.log syslog nginx/access.log apache2/access.log; do lines >> var/log/$log; done
head -c 4000 /dev/zero >> var/log/wtmp
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """One thing that an intruder does.

    Attributes:
        name: what it is.
        attack: the technique of MITRE ATT&CK.
        script: the shell script.
        at: paths, one of which a sign must name.
        code: the rule that must notice it; "" for any rule.
        story: name of the break-in that it is a step of; "" for none.
    """

    name: str
    attack: str
    script: str
    at: tuple[str, ...]
    code: str = ""
    story: str = ""

    def is_noticed(self, signs: Iterable[Sign]) -> bool:
        """Whether a sign names a file that the scene is about."""
        return any(
            (not self.code or sign.code == self.code)
            and any(sign.path == path or sign.path.startswith(path + "/") for path in self.at)
            for sign in signs
        )


def of_rules(rules: Sequence[Rule]) -> list[Scene]:
    """The positive scenes of rules."""
    return [
        Scene(rule.title, rule.attack[0] if rule.attack else "", rule.positive,
              tuple(touched(rule.positive)), rule.code)
        for rule in rules if rule.positive
    ]  # fmt: skip


def variants() -> list[Scene]:
    """Scenes that the rules do not name."""
    return [
        Scene(one["name"], one["attack"], one["script"], tuple(one["at"]))
        for one in _documents("variants.yaml")
    ]


def break_ins() -> dict[str, list[Scene]]:
    """Name -> steps."""
    return {
        one["name"]: [
            Scene(f"step {number}", step["attack"], step["script"], tuple(step["at"]),
                  story=one["name"])
            for number, step in enumerate(one["steps"], 1)
        ]
        for one in _documents("break-ins.yaml")
    }  # fmt: skip


def touched(script: str) -> list[str]:
    """The paths that a script names."""
    found = (word.rstrip("/.,") for word in _PATH.findall(script))
    return ["/" + word for word in dict.fromkeys(found) if word.split("/")[0] in _TOPS]


def groups(scenes: Sequence[Scene]) -> list[list[Scene]]:
    """Scenes that may share a copy, because they touch different files."""
    found: list[tuple[set[str], list[Scene]]] = []
    for scene in scenes:
        words = {word for word in touched(scene.script) if not _READ_ONLY.search(word)}
        words |= set(scene.at)
        for used, members in found:
            if not words & used:
                used |= words
                members.append(scene)
                break
        else:
            found.append((words, [scene]))
    return [members for _, members in found]


def act(image: Path, scenes: Sequence[Scene]) -> tuple[list[Scene], dict[str, str]]:
    """Act scenes out one after another.

    Returns:
        (the scenes, also with the paths that theirs lead to; what went wrong, by the name of the
        scene).
    """
    acted, failed = list[Scene](), dict[str, str]()
    with machine.mounted(image, "noatime,commit=600") as root:
        _run(_NEEDED, root)
        for scene in scenes:
            machine.sync(root)
            acted.append(
                replace(scene, at=tuple(dict.fromkeys([*scene.at, *_targets(root, scene.at)])))
            )
            if said := _run(scene.script, root):
                failed[scene.name] = said
        machine.sync(root)
    return acted, failed


def _targets(root: Path, paths: Sequence[str]) -> list[str]:
    """Where paths lead to in a system, through its symlinks."""
    words = ["chroot", str(root), "realpath", "-m", *paths]
    done = subprocess.run(words, capture_output=True, check=True, text=True, env=_ENVIRONMENT)
    return done.stdout.splitlines()


def _run(script: str, root: Path) -> str:
    words = ["chroot", str(root), "sh", "-c", _SHELL + script]  # absolute symlinks stay inside
    done = subprocess.run(words, capture_output=True, check=False, env=_ENVIRONMENT)
    return done.stderr.decode(errors="replace")[-300:] if done.returncode else ""


def _documents(name: str) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load_all((_SCENES / name).read_text())
