"""The kinds of logs: which files are logs, and the form of each kind's lines.

A kind of text log is one `TextForm` here; the families of binary logs have modules of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ext4kit.logs import stamps
from ext4kit.logs.stamps import Stamp
from ext4kit.selection import Selection


class LogKind(StrEnum):
    """What a line is of."""

    SYSLOG = "syslog"
    SSHD = "sshd"
    SUDO = "sudo"
    CRON = "cron"
    MAIL = "mail"
    KERNEL = "kernel"
    AUDIT = "audit"
    WEB_ACCESS = "web-access"
    WEB_ERROR = "web-error"
    DPKG = "dpkg"
    APT = "apt"
    MYSQL = "mysql"
    POSTGRESQL = "postgresql"
    DOCKER = "docker"
    OTHER = "other"
    WTMP = "wtmp"
    BTMP = "btmp"
    UTMP = "utmp"
    LASTLOG = "lastlog"
    JOURNAL = "journal"


LOGINS = (LogKind.WTMP, LogKind.BTMP, LogKind.UTMP, LogKind.LASTLOG)
FAMILIES: dict[str, tuple[LogKind, ...]] = {
    "text": tuple(kind for kind in LogKind if kind not in (*LOGINS, LogKind.JOURNAL)),
    "logins": LOGINS,
    "journal": (LogKind.JOURNAL,),
}
KINDS = tuple(LogKind)
# Files below a directory of logs, and files that are named like one, wherever they are.
LOG_FILES = Selection(
    paths=(
        b"log", b"logs", b"journal", b"*.log", b"*[.-]log[.-]*", b"syslog*", b"messages*",
        b"secure*", b"maillog*", b"wtmp*", b"btmp*", b"utmp*", b"lastlog", b"*.journal",
        b"*.journal~",
    ),
    types=frozenset({"file"}),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TextForm:
    """Lines that begin with a time in one form.

    Attributes:
        name: of its group in `LINE`.
        start: regular expression of the start of a line, up to the end of the time.
        stamp: the time in such a start.
        kind: of the lines, where no rule of `rules` finds another one.
        rules: (kind, regular expression that is searched in the line after the start).
    """

    name: str
    start: bytes
    stamp: Callable[[bytes], Stamp | None]
    kind: LogKind
    rules: tuple[tuple[LogKind, re.Pattern[bytes]], ...] = ()


def _rule(kind: LogKind, pattern: bytes) -> tuple[LogKind, re.Pattern[bytes]]:
    return kind, re.compile(pattern)


_OF_PROGRAMS = (  # after the host
    _rule(LogKind.SSHD, rb"^ ?\S+ (?:sshd|sshd-session|sshd-auth)\["),
    _rule(LogKind.SUDO, rb"^ ?\S+ (?:sudo|su|doas)(?:\[\d+\])?:"),
    _rule(LogKind.CRON, rb"(?i)^ ?\S+ \S*cron(?:d|tab)?\["),
    _rule(LogKind.MAIL, rb"^ ?\S+ (?:postfix|dovecot|exim|sendmail|sm-mta|opendkim)[^\s:]*:"),
    _rule(LogKind.KERNEL, rb"^ ?\S+ kernel: "),
)
_LEVEL = rb"(?:DEBUG\d?|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|STATEMENT|DETAIL|HINT|CONTEXT): "
_MYSQL = _rule(LogKind.MYSQL, rb"^\s+\d+ (?:\[\w+\] |Query|Connect|Quit|Init DB)")
_OF_ISO = (
    _rule(
        LogKind.DPKG,
        rb"^ (?:startup|status|install|upgrade|configure|trigproc|remove|purge|conffile) \S",
    ),
    _rule(LogKind.POSTGRESQL, rb"^ ?(?:[A-Z]{2,5} )?\[\d+\][^\n]{0,200}?" + _LEVEL),
    _MYSQL,
    _rule(LogKind.WEB_ERROR, rb"^ \[\w+\] \d+#\d+: "),
    _rule(  # exim
        LogKind.MAIL,
        rb"^ (?:\[\d+\] )?(?:\w{6}-\w{6,11}-\w{2,4} |(?:Start|End) queue run: |exim )",
    ),
)
_OF_SYSLOG = (
    _MYSQL,
    *_OF_PROGRAMS,
    _rule(LogKind.SYSLOG, rb"^ \S+ [\w./@-]+(?:\[\d+\])?: "),
)
_MONTH = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY = rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_CLOCK = rb"\d\d:\d\d:\d\d"
_ISO = rb"(?:19|20)\d\d-\d\d-\d\d[T ] ?" + _CLOCK + rb"(?:[.,]\d{1,9})?"
_ZONE = rb"(?:Z| ?[+-]\d\d:?\d\d| UTC| GMT)?"
FORMS = (
    TextForm(
        "dmesg", rb"(?:19|20)\d\d-\d\d-\d\dT" + _CLOCK + rb",\d{6}[+-]\d\d:\d\d", stamps.iso,
        LogKind.KERNEL,
    ),
    TextForm(
        "rfc3339", _ISO.replace(b"[T ] ?", b"T") + rb"(?:Z|[+-]\d\d:\d\d)", stamps.iso,
        LogKind.OTHER, _OF_SYSLOG,
    ),
    TextForm("iso", _ISO + _ZONE, stamps.iso, LogKind.OTHER, _OF_ISO),
    TextForm(
        "bsd", rb"(?:<\d{1,3}>)?" + _MONTH + rb" [ \d]\d " + _CLOCK, stamps.bsd, LogKind.SYSLOG,
        _OF_PROGRAMS,
    ),
    TextForm("rfc5424", rb"<\d{1,3}>1 " + _ISO + _ZONE, stamps.iso, LogKind.SYSLOG),
    TextForm(
        "audit", rb"(?:node=\S+ )?type=[A-Z0-9_\[\]]+ msg=audit\(\d{9,10}\.\d{3}:\d+\)",
        stamps.epoch, LogKind.AUDIT,
    ),
    TextForm(
        "access", rb"(?:[\w.:-]+ )?[\w.:-]+ \S+ [^\[\n\0]{1,80} \[\d\d/" + _MONTH + rb"/\d{4}:"
        + _CLOCK + rb" [+-]\d{4}\]", stamps.access, LogKind.WEB_ACCESS,
    ),
    TextForm(
        "apache", rb"\[" + _DAY + rb" " + _MONTH + rb" [ \d]\d " + _CLOCK
        + rb"(?:\.\d{1,6})? \d{4}\]", stamps.ctime, LogKind.KERNEL,
        (_rule(LogKind.WEB_ERROR, rb"^ \["),),
    ),
    TextForm("nginx", rb"\d{4}/\d\d/\d\d " + _CLOCK + rb"(?= \[)", stamps.iso, LogKind.WEB_ERROR),
    TextForm(
        "apt", rb"(?:(?:Start|End)-Date|Log (?:started|ended)): " + _ISO, stamps.iso, LogKind.APT
    ),
    TextForm(
        "aptnext", rb"(?:Commandline|Requested-By|Install|Upgrade|Remove|Purge|Reinstall"
        rb"|Downgrade|Error): ", stamps.none, LogKind.APT,
    ),
    TextForm("alternatives", rb"update-alternatives " + _ISO, stamps.iso, LogKind.OTHER),
    TextForm(
        "docker", rb'\{"log":"[^\n\0]{0,65536}?"time":"[^"\n\0]{19,40}"\}', stamps.iso,
        LogKind.DOCKER,
    ),
    TextForm("ring", rb"(?:<\d{1,3}>)?\[ *\d{1,9}\.\d{6}\] ", stamps.none, LogKind.KERNEL),
    TextForm(
        "mariadb", rb"(?:19|20)\d\d-\d\d-\d\d  \d:\d\d:\d\d(?= \d+ \[)", stamps.iso, LogKind.MYSQL
    ),
    TextForm("slow", rb"# Time: (?:" + _ISO + _ZONE + rb"|\d{6} [ \d]\d:\d\d:\d\d)", stamps.slow,
             LogKind.MYSQL),
    TextForm("slownext", rb"# User@Host: ", stamps.none, LogKind.MYSQL),
    TextForm("mysql", rb"\d{6} [ \d]\d:\d\d:\d\d(?=[ \t])", stamps.short, LogKind.MYSQL),
)  # fmt: skip
BY_NAME = {form.name: form for form in FORMS}
MOST_LINE = 1 << 16  # bytes
LINE = re.compile(
    rb"^(?:"
    + b"|".join(b"(?P<%s>%s)" % (form.name.encode(), form.start) for form in FORMS)
    + rb")[^\n\0]{0,%d}" % MOST_LINE,
    re.MULTILINE,
)
"""A line; the last group is its form, with its start."""


def kind_of(form: TextForm, rest: bytes) -> LogKind:
    """The kind of a line.

    Args:
        form: of its start.
        rest: the line after the start.
    """
    return next((kind for kind, pattern in form.rules if pattern.search(rest)), form.kind)


def login_kind(path: bytes | None) -> LogKind | None:
    """The kind of a log of logins by its name; None for another file."""
    name = (path or b"").rpartition(b"/")[2]
    return next((kind for kind in LOGINS if name.startswith(kind.encode())), None)
