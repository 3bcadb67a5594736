"""The rules: what each one matches, where, and why it matters.

Directories and names are regular expressions over bytes that must match completely. Live files
(`live`), deleted files (`deleted`) or events of the timeline (`events`) can match a rule. A file
that matches in several ways is shown once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from ext4kit.timeline import EventKind
from ext4kit.timeline.hints import HintKind


class Weight(StrEnum):
    """Weight of a rule on its own."""

    STRONG = "strong"  # a harmless cause is rare
    LOOK = "look"  # harmless causes exist; each case deserves a check


class Trait(StrEnum):
    """Further conditions for a file."""

    REGULAR = "regular"
    EXECUTABLE = "executable"  # some user may execute it
    SETUID = "setuid"  # or setgid, and executable
    FRESH = "fresh"  # written on this system: not unpacked with an older time
    EMPTY = "empty"
    STORED = "stored"  # it has content
    LINK = "link"  # a symlink
    GONE = "gone"  # no file has its path now
    LOCKED = "locked"  # immutable or append-only
    GAINED_SETUID = "gained setuid"  # by a change of mode
    AGED = "aged"  # times set to the past, long after its creation


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        code: its stable name in records.
        title: description; reason: why it matters and which harmless causes exist.
        folder, name: patterns of the path; "" for any.
        unless: pattern of whole paths known to be harmless; "" for none.
        live, deleted: whether live files or deleted files can match.
        events: kinds of events that can match.
        hints: hints of the timeline that match.
        needs: further conditions.
    """

    code: str
    weight: Weight
    title: str
    reason: str
    folder: str = ""
    name: str = ""
    unless: str = ""
    live: bool = False
    deleted: bool = False
    events: tuple[EventKind, ...] = ()
    hints: tuple[HintKind, ...] = ()
    needs: frozenset[Trait] = frozenset()
    _patterns: tuple[re.Pattern[bytes] | None, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        texts = (self.folder, self.name, self.unless)
        made = (re.compile(text.encode(), re.DOTALL) if text else None for text in texts)
        object.__setattr__(self, "_patterns", tuple(made))

    def matches_directory(self, folder: bytes) -> bool:
        """Whether files in a directory can match the rule; the root is b""."""
        pattern = self._patterns[0]
        return pattern is None or pattern.fullmatch(folder) is not None

    def matches(self, path: bytes) -> bool:
        """Whether a whole path matches."""
        return self.matches_directory(path.rpartition(b"/")[0]) and self.matches_name(path)

    def matches_name(self, path: bytes) -> bool:
        """Whether a path matches whose directory matches."""
        _, pattern, unless = self._patterns
        if pattern is not None and not pattern.fullmatch(path.rpartition(b"/")[2]):
            return False
        return unless is None or not unless.fullmatch(path)


_STRONG, _LOOK = Weight.STRONG, Weight.LOOK
_WRITTEN = (
    EventKind.CREATED,
    EventKind.LINKED,
    EventKind.RENAMED,
    EventKind.MOVED,
    EventKind.SIZE,
    EventKind.TRUNCATED,
    EventKind.CONTENT,
)
_TEMP = r"/(tmp|var/tmp|dev/shm|run/shm)"
_BIN = r"/(usr/(local/)?)?s?bin"
_WEB = (
    r"/(var/www|srv/(www|http)|usr/share/nginx/html|var/lib/tomcat\d*/webapps"
    r"|home/[^/]+/public_html)"
)
_HOME = r"/(root|home/[^/]+|var/www)"
_SCRIPT = r".*\.(php\d?|phtml|phar|jspx?|war|aspx?|ashx|cgi|pl|py|sh)"
_HISTORY = r"\.(bash|zsh|ash|sh|python|mysql|psql|node_repl|rediscli)_history"
_LOGINS = r"(wtmp|btmp|utmp|lastlog|faillog|auth\.log|secure|messages|syslog|kern\.log|audit\.log)"
_TEMP_KNOWN = (
    r"/tmp/\.(ICE|X11|XIM|font|Test)-unix|/tmp/\.X\d+-lock|/tmp/[^/]+\.(config|template)\.\w{6}"
    r"|/var/tmp/(mkinitramfs|dracut)[^/]*(/.*)?|.*/systemd-private-[^/]+(/.*)?"
    r"|/tmp/\.ICE-unix/\d+"
)
_SETUID_KNOWN = (
    r".*/(passwd|su|sudo|sudoedit|mount|umount|chsh|chfn|gpasswd|newgrp|newuidmap|newgidmap|pkexec"
    r"|fusermount3?|crontab|ssh-agent|ssh-keysign|expiry|chage|wall|write(\.ul)?|bsd-write"
    r"|dotlockfile|ping6?|at|screen|ntfs-3g|pppd|unix_chkpwd|pam_extrausers_chkpwd|mount\.(nfs|cifs)"
    r"|dbus-daemon-launch-helper|polkit-agent-helper-1|Xorg\.wrap|utempter|exim4|locate|mlocate"
    r"|plocate|chrome-sandbox|snap-confine|mail-(un)?lock|mail-touchlock|postdrop|postqueue)"
)
_ODD = (
    r"[. \t]*[ \t][. \t]*|\.{3,}|\.\.?[ \t]+.*|(?!Icon\r$).*[\x01-\x1f\x7f].*"
    r"|.*\xe2(\x80[\x8b\xaa-\xae]|\x81[\xa0\xa6-\xa9]).*"
)


def _traits(*traits: Trait) -> frozenset[Trait]:
    return frozenset(traits)


RULES: tuple[Rule, ...] = (
    Rule(
        "upload-script", _STRONG, "Scripts where uploads go",
        "what visitors upload should never be a script that the server runs",
        folder=_WEB + r"(/.*)?/(uploads?|images?|img|media|files|cache|tmp|avatars?)(/.*)?",
        name=_SCRIPT, live=True, deleted=True, needs=_traits(Trait.REGULAR, Trait.STORED),
    ),
    Rule(
        "web-script", _LOOK, "Scripts removed from a web root",
        "a script that came and is gone again is how web shells look; an update of a site "
        "removes scripts as well, many at a time",
        folder=_WEB + r"(/.*)?", name=_SCRIPT, deleted=True,
        needs=_traits(Trait.GONE, Trait.STORED),
    ),
    Rule(
        "setuid-gained", _STRONG, "Programs that were given setuid or setgid",
        "whoever runs it has its owner's rights from then on; packages set it when they are "
        "unpacked, not later",
        events=(EventKind.MODE,), unless=_SETUID_KNOWN,
        needs=_traits(Trait.REGULAR, Trait.GAINED_SETUID),
    ),
    Rule(
        "setuid-place", _STRONG, "Setuid programs outside the folders of the system",
        "packages keep setuid programs in the system's own folders; copies elsewhere are a way "
        "back to root",
        folder=r"(?!/(usr/)?(s?bin|lib\w*|libexec|games)(/|$)|/(opt|snap)/).*", live=True,
        deleted=True, needs=_traits(Trait.REGULAR, Trait.SETUID),
    ),
    Rule(
        "shared-memory", _STRONG, "Files in the folder of shared memory, on the disk",
        "on a running system /dev/shm lies in memory: what is on the disk was put there before "
        "or below the mount, a favourite place for tools",
        folder=r"/(dev|run)/shm(/.*)?", live=True, deleted=True, needs=_traits(Trait.REGULAR),
    ),
    Rule(
        "running-deleted", _STRONG, "Programs deleted while they were open",
        "it was unlinked and still open when the system stopped: programs that hide run so; an "
        "update of a package leaves this too until the next start",
        needs=_traits(Trait.REGULAR, Trait.EXECUTABLE, Trait.STORED),
    ),
    Rule(
        "preload", _STRONG, "A library forced into every program",
        "/etc/ld.so.preload is hardly ever used but by rootkits",
        folder=r"/etc", name=r"ld\.so\.preload", live=True, deleted=True, events=_WRITTEN,
    ),
    Rule(
        "login-records", _STRONG, "Records of logins removed or replaced",
        "these logs are rotated under other names, not deleted or swapped for a shorter copy "
        "under their own: somebody edited or removed them",
        folder=r"/var/(log|run)(/.*)?", name=_LOGINS, deleted=True,
        needs=_traits(Trait.REGULAR, Trait.STORED),
    ),
    Rule(
        "log-swapped", _STRONG, "Another file took the name of a log",
        "rotation gives the old log another name and begins a new one; here a file that was "
        "made under another name was put in its place, as `sed -i` does when lines are taken out",
        folder=r"/var/(log|run)(/.*)?", name=_LOGINS, events=(EventKind.RENAMED, EventKind.MOVED),
        needs=_traits(Trait.REGULAR),
    ),
    Rule(
        "log-emptied", _LOOK, "Logs cut to nothing",
        "what was in it is no longer in the file; some systems rotate logs by copying and "
        "cutting, which looks the same",
        folder=r"/var/log(/.*)?", events=(EventKind.TRUNCATED,), needs=_traits(Trait.EMPTY),
    ),
    Rule(
        "log-removed", _LOOK, "Logs deleted under their own name",
        "rotation deletes numbered or packed logs only; a removed package takes its log with it",
        folder=r"/var/log(/.*)?", name=r"(?!(bootstrap|install)\.log).*(\.log|_log|journal)",
        unless=r".*/" + _LOGINS, deleted=True, needs=_traits(Trait.GONE, Trait.STORED),
    ),
    Rule(
        "history-removed", _STRONG, "Shell histories deleted",
        "a history is hardly ever deleted but to hide what was typed",
        folder=_HOME, name=_HISTORY, deleted=True, needs=_traits(Trait.GONE, Trait.STORED),
    ),
    Rule(
        "history-emptied", _STRONG, "Shell histories emptied",
        "nothing is left in it, and there was",
        folder=_HOME, name=_HISTORY, events=(EventKind.TRUNCATED,), needs=_traits(Trait.EMPTY),
    ),
    Rule(
        "history-linked", _STRONG, "Shell histories that lead elsewhere",
        "a link, usually to /dev/null, in place of the history: nothing is kept",
        folder=_HOME, name=_HISTORY, live=True, deleted=True, needs=_traits(Trait.LINK),
    ),
    Rule(
        "ssh-keys", _LOOK, "Keys for ssh, written in the time of the log",
        "a key in authorized_keys is a way in without a password",
        folder=r".*/\.ssh", name=r"authorized_keys2?|rc|environment", deleted=True,
        events=_WRITTEN, needs=_traits(Trait.REGULAR),
    ),
    Rule(
        "ssh-odd-home", _STRONG, "Keys for accounts that nobody logs in to",
        "services have no reason to be logged in to by ssh",
        folder=r"/(var/(www|lib|cache|mail|spool)|usr|bin|srv|nonexistent)(/.*)?/\.ssh",
        name=r"authorized_keys2?", live=True, deleted=True, needs=_traits(Trait.REGULAR),
    ),
    Rule(
        "start-up", _LOOK, "Jobs that start by themselves, written in the time of the log",
        "cron and systemd start them again and again: a way to stay",
        folder=r"/etc(/cron(tab|\.\w+)|/systemd/(system|user)(/.*)?|/init\.d|/profile\.d"
        r"|/rc\.d|/rc\d\.d|/update-motd\.d|/xdg/autostart)?|/var/spool/cron(/.*)?"
        r"|/(root|home/[^/]+)/\.config/(systemd/user|autostart)(/.*)?",
        name=r"(?!\.placeholder|tmp\.)(?!.*\.(dpkg|ucf)-\w+$).*",
        unless=r"/etc/(?!(crontab|rc\.local|profile|inittab)$)[^/]*"
        r"|/etc/rc\d\.d/.*",
        deleted=True, events=_WRITTEN, needs=_traits(Trait.REGULAR, Trait.FRESH),
    ),
    Rule(
        "temp-program", _LOOK, "Programs in folders for temporary files",
        "everybody may write there, so tools are unpacked and started there; installers do it too",
        folder=_TEMP + r"(/.*)?", unless=_TEMP_KNOWN, live=True, deleted=True,
        needs=_traits(Trait.REGULAR, Trait.EXECUTABLE, Trait.STORED),
    ),
    Rule(
        "temp-hidden", _LOOK, "Hidden things in folders for temporary files",
        "a leading dot keeps it out of sight",
        folder=_TEMP + r"(/.*)?", name=r"\..+", unless=_TEMP_KNOWN, live=True, deleted=True,
    ),
    Rule(
        "system-hidden", _STRONG, "Hidden names among the system's programs",
        "packages do not hide programs behind a leading dot",
        folder=_BIN + r"|/(usr/)?lib(64)?", name=r"\..+", unless=r".*/(\..*\.hmac|\.build-id)",
        live=True, deleted=True,
    ),
    Rule(
        "odd-name", _STRONG, "Names made to be overlooked",
        "dots and blanks that look like the entries of every folder, or characters that steer a "
        "terminal or turn the reading direction",
        name=_ODD, live=True, deleted=True,
    ),
    Rule(
        "file-in-dev", _LOOK, "Plain files among the devices",
        "/dev is made anew at every start, in memory: a file on the disk there is out of place",
        folder=r"/dev(?!/shm)(/.*)?", live=True, deleted=True,
        needs=_traits(Trait.REGULAR, Trait.STORED),
    ),
    Rule(
        "times-set-back", _LOOK, "Times set back long after the file was made",
        "packing programs set times at once when they unpack; later it is done by hand, to make "
        "a file look old",
        events=(EventKind.TIMES,), needs=_traits(Trait.REGULAR, Trait.AGED),
    ),
    Rule(
        "locked", _LOOK, "Files that nobody can change or delete",
        "the immutable or append-only flag keeps a file from being cleaned away",
        live=True, events=(EventKind.FLAGS,), needs=_traits(Trait.REGULAR, Trait.LOCKED),
    ),
    Rule(
        "edited-outside", _STRONG, "Inodes changed behind the journal's back",
        "the disk says otherwise than the newest copy in a complete log: it was written to by "
        "something else than the kernel (debugfs, a hex editor, a repair)",
        hints=(HintKind.NOT_IN_LOG,),
    ),
    Rule(
        "creation-changed", _STRONG, "Creation times that changed",
        "no system call changes a creation time: the disk was edited",
        hints=(HintKind.CRTIME_CHANGED,),
    ),
    Rule(
        "clock", _LOOK, "Times that the journal contradicts",
        "a change is dated after the commit that wrote it, or before the change that came first: "
        "the clock was set, or the times were edited",
        hints=(HintKind.AFTER_COMMIT, HintKind.CTIME_BACK),
    ),
)  # fmt: skip
