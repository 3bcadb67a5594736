"""The commands of the program in all the forms that are run on damaged images.

`mount`, `serve` and `browse` are not among them, because they do not end by themselves:
`test_damage.py` and `test_serve_limits.py` in `tests/mount`, and `tests/browse/random_keys.py`,
read damaged images through them. Nor is `case`, whose jobs are runs of these commands.

A form is a line of words. IMAGE and OUT stand for the two paths, the other words in capitals for
something that is drawn: see `_VALUES`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

TARGETS = ("/", "<8>", "<2>", "<12>", "/sub/holes", "/sub/file 5", "/long link")
JSON_SHARE = 0.3

# Of each line one form is drawn; a command stands in several lines to be run more than once.
FORMS: tuple[tuple[str, ...], ...] = (
    ("volumes IMAGE", "volumes IMAGE --scan"),
    ("hash IMAGE", "hash IMAGE --verify", "hash IMAGE --image-only", "hash IMAGE -q",
     "hash IMAGE --expect d41d8cd98f00b204e9800998ecf8427e --image-only"),
    ("hash IMAGE --window 100000", "hash IMAGE --window 1M --part 2/3 --hash md5"),
    ("hash IMAGE --files", "hash IMAGE --files --hash md5", "hash IMAGE / --files --csv",
     "hash IMAGE TARGET --files --hash sha1"),
    ("deleted IMAGE --known LIST", "deleted IMAGE --known LIST --hide-known --tree",
     "recover IMAGE -o OUT --known LIST --hide-known", "ls IMAGE -r --known LIST",
     "ls IMAGE -r -l --known LIST --hide-known --view all", "ls IMAGE -r -i --known LIST",
     "report IMAGE --known LIST --only-known --known-bad LIST",
     "report IMAGE --hide-known --known LIST",
     "ls IMAGE -r --known LIST --only-known", "deleted IMAGE --known LIST --only-known",
     "recover IMAGE -o OUT --known LIST --only-known"),
    ("info IMAGE", "info IMAGE -g", "info IMAGE --superblock COPY", "info IMAGE --volume 0"),
    ("info IMAGE --lost", "info IMAGE --lost-number 2"),
    ("ls IMAGE -r -l", "ls IMAGE -r -i", "ls IMAGE -r -a -l", "ls IMAGE TARGET -a"),
    ("ls IMAGE -r -l -h", "ls IMAGE TARGET -l --as-of TIME",
     "ls IMAGE -r -l --tz image"),
    ("ls IMAGE -r -l --no-replay", "ls IMAGE -r --superblock COPY", "ls IMAGE --offset 0"),
    ("ls IMAGE -r -l --as-of NUMBER", "ls IMAGE TARGET -l --as-of NUMBER"),
    ("ls IMAGE -r -l --lost", "ls IMAGE TARGET --lost"),
    ("ls IMAGE -r --view deleted", "ls IMAGE -r -l --view all", "ls IMAGE -l --view versions",
     "ls IMAGE -r --view as-of", "ls IMAGE -l --view unallocated", "ls IMAGE -r --view unattached",
     "ls IMAGE -r --view slack",
     "stat IMAGE / --view deleted", "cat IMAGE TARGET --view all"),
    ("roots IMAGE", "roots IMAGE system", "ls IMAGE -r -l --view roots",
     "roots IMAGE system -o OUT --whole", "roots IMAGE web"),
    ("packages IMAGE --root web --quick", "artifacts IMAGE --root web",
     "extract IMAGE / --root web -o OUT", "search IMAGE --text e --root web --limit 20"),
    ("deleted IMAGE --root web", "deleted IMAGE --root system --names",
     "recover IMAGE --root system -o OUT", "timeline IMAGE --root system"),
    ("stat IMAGE / <8> <2> <12> INODE",),
    ("stat IMAGE TARGET TARGET", "stat IMAGE INODE INODE --as-of NUMBER",
     "stat IMAGE INODE <2> --lost"),
    ("cat IMAGE INODE", "cat IMAGE TARGET", "cat IMAGE INODE --as-of NUMBER",
     "cat IMAGE TARGET INODE --lost"),
    ("extract IMAGE / -o OUT", "extract IMAGE TARGET INODE -o OUT --verify-evidence"),
    ("extract IMAGE / -o OUT --as-of NUMBER", "extract IMAGE / -o OUT --lost",
     "extract IMAGE / -o OUT --no-replay --operator N --case-number 1"),
    ("deleted IMAGE", "deleted IMAGE --versions", "deleted IMAGE --no-replay",
     "deleted IMAGE SOURCES", "deleted IMAGE --min-grade carved"),
    ("deleted IMAGE --names", "deleted IMAGE / --sort size --limit 5",
     "deleted IMAGE sub/** --type link --type dir --sort deleted --names"),
    ("deleted IMAGE --kind pictures --kind logs", "deleted IMAGE --mime text/* --size 1..1M",
     "recover IMAGE *a* -o OUT --dry-run --owner 0",
     "recover IMAGE --name e.* --grade carved -o OUT",
     "deleted IMAGE --deleted-since TIME --modified-until TIME",
     "recover IMAGE --deleted-until TIME --inode NUMBER -o OUT"),
    ("extract IMAGE **/f* /sub -o OUT --size ..9k",
     "extract IMAGE / -o OUT --kind documents --restore none",
     "export IMAGE /sub --csv OUT --modified-since TIME", "export IMAGE --csv OUT --mime */*"),
    ("search IMAGE --text e", "search IMAGE --text the --limit 100",
     "search IMAGE --regex [a-z]+[0-9] --limit 50 --in live,slack",
     "search IMAGE / --features all --count",
     "search IMAGE --hex 0000 -l --in deleted,earlier",
     "search IMAGE --words LIST -i --context 5",
     "search IMAGE --text e --in live,deleted -o OUT", "search IMAGE --hashes LIST -o OUT",
     "search IMAGE --text a --known LIST --only-known --count",
     "search IMAGE --hashes LIST --text e --known LIST --hide-known --limit 20"),
    ("artifacts IMAGE", "artifacts IMAGE ShellHistoryFile LinuxCronTabs --files",
     "artifacts IMAGE ShellHistoryFile LinuxAuthLogs -o OUT",
     "artifacts IMAGE --artifact-definitions DEFINITIONS OurFiles --all --files",
     "ls IMAGE -r --artifact ShellHistoryFile", "deleted IMAGE --artifact LinuxAuthLogs",
     "recover IMAGE --artifact-definitions DEFINITIONS --artifact OurFiles -o OUT",
     "logs IMAGE --artifact LinuxAuthLogs"),
    ("packages IMAGE", "packages IMAGE --all --quick", "packages IMAGE --list",
     "packages IMAGE TARGET --owner /usr/bin/a", "packages IMAGE --against LIST",
     "packages IMAGE / --as-of NUMBER"),
    ("search IMAGE --text e --inside --limit 50", "search IMAGE --yara RULES --inside --limit 50",
     "search IMAGE --yara RULES --count --in unallocated,journal,metadata",
     "search IMAGE / --hex 0000 --yara RULES -l"),
    ("deleted IMAGE --lost", "deleted IMAGE --tree", "deleted IMAGE --deleted-since 2h --from-now",
     "timeline IMAGE --bursts", "ls IMAGE / --as-of 2h"),
    ("recover IMAGE -o OUT", "recover IMAGE -o OUT --versions",
     "recover IMAGE -o OUT --verify-evidence --operator N --case-number 1"),
    ("recover IMAGE -o OUT SOURCES",
     "recover IMAGE -o OUT --min-grade partial --restore links,folders"),
    ("recover IMAGE -o OUT --lost", "recover IMAGE -o OUT --partial marked --no-readme",
     "recover IMAGE -o OUT --partial among --resume"),
    ("explain IMAGE INODE", "explain IMAGE TARGET --versions", "explain IMAGE INODE SOURCES",
     "explain IMAGE --manifest OUT --record 1"),
    ("scan IMAGE -o OUT", "scan IMAGE -o OUT --part 2/3", "scan IMAGE -o OUT --no-replay",
     "deleted IMAGE --scan IMAGE"),
    ("who IMAGE BLOCK", "who IMAGE 0-200", "who IMAGE BLOCK SOURCES", "who IMAGE --byte 99000",
     "who IMAGE --byte 99000 --in-volume"),
    ("blocks IMAGE --unallocated -o OUT", "blocks IMAGE --slack -o OUT",
     "blocks IMAGE --file TARGET -o OUT", "blocks IMAGE --file INODE -o - --map OUT"),
    ("versions IMAGE TARGET", "versions IMAGE TARGET --diff", "versions IMAGE TARGET -o OUT",
     "versions IMAGE TARGET --diff 1 2 SOURCES", "cat IMAGE TARGET --version 1"),
    ("verify IMAGE", "verify IMAGE --no-replay", "verify IMAGE --superblock COPY",
     "verify IMAGE --all-volumes", "deleted IMAGE --image IMAGE --all-volumes"),
    ("crosscheck IMAGE CALM", "crosscheck IMAGE --hashes CALM",
     "crosscheck IMAGE --hashes -a CALM", "crosscheck IMAGE --no-replay CALM",
     "crosscheck IMAGE --deleted CALM"),
    ("journal list IMAGE", "journal list IMAGE --journal IMAGE"),
    ("journal audit IMAGE", "journal audit IMAGE --all", "journal audit IMAGE --superblock COPY"),
    ("journal replay IMAGE", "journal replay IMAGE -o OUT",
     "journal replay IMAGE -o OUT --journal IMAGE --journal-copy OUT2"),
    ("journal history IMAGE INODE --entries", "journal history IMAGE TARGET",
     "journal history IMAGE TARGET --as-of NUMBER"),
    ("journal history IMAGE --block BLOCK",
     "journal history IMAGE --block BLOCK --transaction NUMBER --raw OUT",
     "journal history IMAGE INODE --transaction NUMBER --raw -"),
    ("timeline IMAGE", "timeline IMAGE --inode NUMBER", "timeline IMAGE --no-replay --all-hints",
     "timeline IMAGE TARGET --name l --no-hints"),
    ("timeline IMAGE --path */* --since TIME", "timeline IMAGE --until TIME --kind KIND",
     "timeline IMAGE --tz America/St_Johns --since TIME",
     "timeline IMAGE --kind KIND --kind KIND"),
    ("timeline IMAGE --logs", "timeline IMAGE --all-logs --since TIME --no-hints",
     "timeline IMAGE --logs --inode NUMBER --until TIME", "timeline IMAGE TARGET --all-logs"),
    ("logs IMAGE", "logs IMAGE --all --limit 20", "logs IMAGE TARGET --removed",
     "logs IMAGE --kind text --since TIME --until TIME",
     "logs IMAGE --grep a.c --kind logins --kind journal"),
    ("report IMAGE", "report IMAGE SOURCES", "report IMAGE --no-verify", "report IMAGE --quick",
     "report IMAGE --rows 10 --no-replay"),
    ("report IMAGE --html OUT", "report IMAGE --html OUT SOURCES --rows 20",
     "report IMAGE --html OUT --tz image --quick", "report IMAGE --quick --attack-navigator OUT"),
    ("rules --on IMAGE", "rules --rules SIGNS --on IMAGE", "rules preload clock --on IMAGE",
     "report IMAGE --quick --rules SIGNS", "export IMAGE --db OUT --rules SIGNS"),
    ("export IMAGE --db OUT", "export IMAGE --db OUT --hash md5 SOURCES",
     "export IMAGE --db OUT --versions --min-grade partial", "export IMAGE --db OUT --lost"),
    ("export IMAGE --bodyfile OUT", "export IMAGE --bodyfile OUT --fractions --versions",
     "export IMAGE --timesketch-csv OUT", "export IMAGE --csv OUT --hash sha1 --without live",
     "export IMAGE --csv OUT --lost", "export IMAGE --all-volumes --db OUT --together"),
    ("export IMAGE --dfxml OUT --hash md5,sha256", "export IMAGE --dfxml OUT --versions",
     "export IMAGE --case-uco OUT --operator N --case-number 1",
     "export IMAGE --case-uco OUT --versions --hash sha256", "export IMAGE --dfxml OUT --lost"),
    ("export IMAGE --jsonl OUT", "export IMAGE --jsonl OUT --lost",
     "export IMAGE --timesketch-jsonl OUT", "export IMAGE --timesketch-jsonl OUT --versions",
     "export IMAGE --jsonl OUT --without deleted --verify-evidence"),
)  # fmt: skip

_KINDS = ("created", "deleted", "renamed", "size", "content", "hint", "xattr")
_VALUES: dict[str, Callable[[random.Random], list[str]]] = {
    "NUMBER": lambda chance: [str(chance.randrange(1, 15))],
    "INODE": lambda chance: [f"<{chance.randrange(1, 180)}>"],
    "TARGET": lambda chance: [chance.choice(TARGETS)],
    "BLOCK": lambda chance: [chance.choice(("1", "2", "40", "100"))],
    "COPY": lambda chance: [chance.choice(("0", "1", "257", "8193", "32768"))],
    "SOURCES": lambda chance: ["--sources", chance.choice(("journal", "blocks", "runs"))],
    "TIME": lambda chance: [chance.choice(("2023-11-14T22:13:20", "@0", "9999-12-31"))],
    "KIND": lambda chance: [chance.choice(_KINDS)],
    "DEFINITIONS": lambda chance: [str(Path(__file__).with_name("definitions"))],
    "LIST": lambda chance: [str(Path(__file__).with_name("known-list.csv"))],
    "SIGNS": lambda chance: [str(Path(__file__).with_name("some-signs.yaml"))],
    "RULES": lambda chance: [str(Path(__file__).with_name("some-rules.yar"))],
    "CALM": lambda chance: ["--patience", "2", "--limit", "6"],
}
_NEVER_JSON = ("cat", "blocks")
_BY_COMMAND: dict[str, list[str]] = {}
for _forms in FORMS:
    for _form in _forms:
        _BY_COMMAND.setdefault(_form.partition(" IMAGE")[0], []).append(_form)


def commands(chance: random.Random) -> list[list[str]]:
    """Each command once, in a form that is drawn, a share of them with records as output."""
    return [_recorded(chance.choice(forms), chance) for forms in _BY_COMMAND.values()]


def every_line(chance: random.Random) -> list[list[str]]:
    """A form of each line of `FORMS`, so that most commands come more than once."""
    return [_recorded(chance.choice(forms), chance) for forms in FORMS]


def _recorded(form: str, chance: random.Random) -> list[str]:
    words = drawn(form, chance)
    records = words[0] not in _NEVER_JSON and chance.random() < JSON_SHARE
    return [*words, "--json"] if records else words


def every_form(chance: random.Random) -> list[list[str]]:
    """Each form once, its values drawn."""
    return [drawn(form, chance) for forms in FORMS for form in forms]


def drawn(form: str, chance: random.Random) -> list[str]:
    """The words of a form."""
    found: list[str] = []
    for word in form.split():
        found += _VALUES[word](chance) if word in _VALUES else [word]
    return found
