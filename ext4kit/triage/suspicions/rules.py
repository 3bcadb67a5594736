"""The rules: what each rule matches, where it matches, and why that matters.

The patterns of directories and names are regular expressions over bytes, and must match completely.
A rule can be matched by live files (`live`), deleted files (`deleted`) or events of the timeline
(`events`). A file that matches a rule in several ways is shown once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from ext4kit.timeline import EventKind
from ext4kit.timeline.hints import HintKind


class Weight(StrEnum):
    """The weight of a rule by itself."""

    STRONG = "strong"  # harmless causes are rare
    LOOK = "look"  # harmless causes exist, but each case deserves a check


class Trait(StrEnum):
    """Further conditions that a file must meet."""

    REGULAR = "regular"
    EXECUTABLE = "executable"  # executable by some user
    SETUID = "setuid"  # setuid or setgid, and executable
    FRESH = "fresh"  # written on this system and not unpacked with an older time
    EMPTY = "empty"
    STORED = "stored"  # has content
    LINK = "link"  # is a symlink
    GONE = "gone"  # no live file has its path
    LOCKED = "locked"  # immutable or append-only
    GAINED_SETUID = "gained setuid"  # became setuid by a change of mode
    AGED = "aged"  # times were set to the past long after its creation


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        code: stable name of the rule in records.
        title: description; reason: why a match matters, and which harmless causes exist.
        folder, name: patterns of the path; "" for any.
        unless: pattern of whole paths that are known to be harmless; "" for none.
        live, deleted: whether live files or deleted files can match.
        events: kinds of events that can match.
        hints: kinds of hints of the timeline that can match.
        needs: further conditions that must all be met.
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
        """Whether a path matches, if its directory is known to match."""
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
        "upload-script", _STRONG, "Scripts in upload directories",
        "an upload directory of a web server normally holds no scripts that the server runs",
        folder=_WEB + r"(/.*)?/(uploads?|images?|img|media|files|cache|tmp|avatars?)(/.*)?",
        name=_SCRIPT, live=True, deleted=True, needs=_traits(Trait.REGULAR, Trait.STORED),
    ),
    Rule(
        "web-script", _LOOK, "Scripts removed from a web root",
        "web shells are typically added and deleted again; a site update also removes scripts, "
        "many at a time",
        folder=_WEB + r"(/.*)?", name=_SCRIPT, deleted=True,
        needs=_traits(Trait.GONE, Trait.STORED),
    ),
    Rule(
        "setuid-gained", _STRONG, "Programs that gained setuid or setgid",
        "the program runs with the rights of its owner or group; packages set these bits when "
        "they are unpacked, not later",
        events=(EventKind.MODE,), unless=_SETUID_KNOWN,
        needs=_traits(Trait.REGULAR, Trait.GAINED_SETUID),
    ),
    Rule(
        "setuid-place", _STRONG, "Setuid programs outside the system directories",
        "packages keep setuid programs in system directories; a copy elsewhere can give root "
        "rights again",
        folder=r"(?!/(usr/)?(s?bin|lib\w*|libexec|games)(/|$)|/(opt|snap)/).*", live=True,
        deleted=True, needs=_traits(Trait.REGULAR, Trait.SETUID),
    ),
    Rule(
        "shared-memory", _STRONG, "Files below /dev/shm or /run/shm on disk",
        "on a running system this is a tmpfs; a file on disk was written before the mount or "
        "below it, a common hiding place for tools",
        folder=r"/(dev|run)/shm(/.*)?", live=True, deleted=True, needs=_traits(Trait.REGULAR),
    ),
    Rule(
        "running-deleted", _STRONG, "Programs deleted while they were open",
        "the file was unlinked but still open when the system stopped: hidden programs run this "
        "way; a package update leaves the same state until the next boot",
        needs=_traits(Trait.REGULAR, Trait.EXECUTABLE, Trait.STORED),
    ),
    Rule(
        "preload", _STRONG, "A library preloaded into every program",
        "/etc/ld.so.preload is rarely used except by rootkits",
        folder=r"/etc", name=r"ld\.so\.preload", live=True, deleted=True, events=_WRITTEN,
    ),
    Rule(
        "login-records", _STRONG, "Login records deleted or replaced",
        "rotation renames these logs; it does not delete them under their own name or replace "
        "them by a shorter copy",
        folder=r"/var/(log|run)(/.*)?", name=_LOGINS, deleted=True,
        needs=_traits(Trait.REGULAR, Trait.STORED),
    ),
    Rule(
        "log-swapped", _STRONG, "A log replaced by another file",
        "rotation renames the old log and creates a new one; here a file created under another "
        "name replaced the log, as `sed -i` does when it removes lines",
        folder=r"/var/(log|run)(/.*)?", name=_LOGINS, events=(EventKind.RENAMED, EventKind.MOVED),
        needs=_traits(Trait.REGULAR),
    ),
    Rule(
        "log-emptied", _LOOK, "Logs truncated to zero",
        "the file no longer has its earlier content; log rotation by copying and truncating looks "
        "the same",
        folder=r"/var/log(/.*)?", events=(EventKind.TRUNCATED,), needs=_traits(Trait.EMPTY),
    ),
    Rule(
        "log-removed", _LOOK, "Logs deleted under their own name",
        "rotation deletes only numbered or packed logs; removing a package also deletes its log",
        folder=r"/var/log(/.*)?", name=r"(?!(bootstrap|install)\.log).*(\.log|_log|journal)",
        unless=r".*/" + _LOGINS, deleted=True, needs=_traits(Trait.GONE, Trait.STORED),
    ),
    Rule(
        "history-removed", _STRONG, "Shell histories deleted",
        "a shell history is rarely deleted except to hide the commands in it",
        folder=_HOME, name=_HISTORY, deleted=True, needs=_traits(Trait.GONE, Trait.STORED),
    ),
    Rule(
        "history-emptied", _STRONG, "Shell histories emptied",
        "the history had content and is now empty",
        folder=_HOME, name=_HISTORY, events=(EventKind.TRUNCATED,), needs=_traits(Trait.EMPTY),
    ),
    Rule(
        "history-linked", _STRONG, "Shell histories replaced by a link",
        "a link, usually to /dev/null, replaces the history: no commands are recorded",
        folder=_HOME, name=_HISTORY, live=True, deleted=True, needs=_traits(Trait.LINK),
    ),
    Rule(
        "ssh-keys", _LOOK, "SSH keys written in the period of the journal",
        "a key in authorized_keys permits a login without a password",
        folder=r".*/\.ssh", name=r"authorized_keys2?|rc|environment", deleted=True,
        events=_WRITTEN, needs=_traits(Trait.REGULAR),
    ),
    Rule(
        "ssh-odd-home", _STRONG, "SSH keys of service accounts",
        "service accounts have no reason for SSH logins",
        folder=r"/(var/(www|lib|cache|mail|spool)|usr|bin|srv|nonexistent)(/.*)?/\.ssh",
        name=r"authorized_keys2?", live=True, deleted=True, needs=_traits(Trait.REGULAR),
    ),
    Rule(
        "start-up", _LOOK, "Autostart entries written in the period of the journal",
        "the system starts these jobs automatically: a means of persistence",
        folder=r"/etc(/cron(tab|\.\w+)|/systemd/(system|user)(/.*)?|/init\.d|/profile\.d"
        r"|/rc\.d|/rc\d\.d|/update-motd\.d|/xdg/autostart)?|/var/spool/cron(/.*)?"
        r"|/(root|home/[^/]+)/\.config/(systemd/user|autostart)(/.*)?",
        name=r"(?!\.placeholder|tmp\.)(?!.*\.(dpkg|ucf)-\w+$).*",
        unless=r"/etc/(?!(crontab|rc\.local|profile|inittab)$)[^/]*"
        r"|/etc/rc\d\.d/.*",
        deleted=True, events=_WRITTEN, needs=_traits(Trait.REGULAR, Trait.FRESH),
    ),
    Rule(
        "temp-program", _LOOK, "Programs in temporary directories",
        "every user can write there, so tools are often run from there; installers do this too",
        folder=_TEMP + r"(/.*)?", unless=_TEMP_KNOWN, live=True, deleted=True,
        needs=_traits(Trait.REGULAR, Trait.EXECUTABLE, Trait.STORED),
    ),
    Rule(
        "temp-hidden", _LOOK, "Hidden entries in temporary directories",
        "a leading dot hides the entry from `ls`",
        folder=_TEMP + r"(/.*)?", name=r"\..+", unless=_TEMP_KNOWN, live=True, deleted=True,
    ),
    Rule(
        "system-hidden", _STRONG, "Hidden names in program directories",
        "packages do not install programs with a leading dot",
        folder=_BIN + r"|/(usr/)?lib(64)?", name=r"\..+", unless=r".*/(\..*\.hmac|\.build-id)",
        live=True, deleted=True,
    ),
    Rule(
        "odd-name", _STRONG, "Deceptive names",
        "dots and blanks that resemble `.` and `..`, or characters that control a terminal or "
        "reverse the reading direction",
        name=_ODD, live=True, deleted=True,
    ),
    Rule(
        "file-in-dev", _LOOK, "Regular files in /dev",
        "/dev is created in memory at every boot; a regular file there on disk is unusual",
        folder=r"/dev(?!/shm)(/.*)?", live=True, deleted=True,
        needs=_traits(Trait.REGULAR, Trait.STORED),
    ),
    Rule(
        "times-set-back", _LOOK, "Times set back long after the creation",
        "archivers set times when they unpack; times set back later make a file look older "
        "than it is",
        events=(EventKind.TIMES,), needs=_traits(Trait.REGULAR, Trait.AGED),
    ),
    Rule(
        "locked", _LOOK, "Files protected from change or deletion",
        "the immutable or append-only flag prevents removal of the file",
        live=True, events=(EventKind.FLAGS,), needs=_traits(Trait.REGULAR, Trait.LOCKED),
    ),
    Rule(
        "known-bad", _STRONG, "Known bad files",
        "the content has a hash of a list that was given with --known-bad; what a match means is "
        "told by whoever made the list",
    ),
    Rule(
        "disguise", _STRONG, "Disks that begin like something else",
        "first bytes of another format hide the data after them from most tools; creating a file "
        "system wipes the first bytes of the previous one, so this state needs intent or a hex "
        "editor",
    ),
    Rule(
        "edited-outside", _STRONG, "Inodes changed without the journal",
        "the disk differs from the newest copy in a complete journal: other software than the "
        "kernel wrote to it (debugfs, a hex editor, a repair)",
        hints=(HintKind.NOT_IN_LOG,),
    ),
    Rule(
        "creation-changed", _STRONG, "Creation times that changed",
        "no system call changes a creation time: the disk was edited",
        hints=(HintKind.CRTIME_CHANGED,),
    ),
    Rule(
        "clock", _LOOK, "Times contradicted by the journal",
        "a time is later than the commit that wrote it, or earlier than that of a previous "
        "change: the clock was set or the times were edited",
        hints=(HintKind.AFTER_COMMIT, HintKind.CTIME_BACK),
    ),
)  # fmt: skip
