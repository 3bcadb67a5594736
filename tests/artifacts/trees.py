"""Small trees of three distributions, what is done to them, and the files that definitions name.

The counts are written by hand, from the YAML of the definitions alone: live files, deleted files
and earlier versions. A definition that is not in a list names nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sample_images.recipes.machine import sync

Counts = dict[str, tuple[int, int, int]]
TEXT = "".join(f"line {number} of a file that fills more than one block\n" for number in range(150))


@dataclass(frozen=True)
class Tree:
    """A tree.

    Attributes:
        files: paths of files.
        links: path -> target of symlinks.
        passwd: lines of its /etc/passwd at first.
        change: what is done after the first commit, to the mounted tree.
        homes: home directories that only former states of /etc/passwd name.
        counts: what definitions name in the end.
    """

    files: str
    links: dict[str, str]
    passwd: str
    change: Callable[[Path], None]
    homes: tuple[str, ...]
    counts: Counts

    def make(self, root: Path) -> None:
        """Write it."""
        for target in self.links.values():
            if target.endswith("/"):
                (root / target.strip("/")).mkdir(parents=True, exist_ok=True)
        for name, target in self.links.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(target)
        for name in self.files.split():
            write(root / name, f"{name}\n{TEXT}")
        write(root / "etc/passwd", self.passwd)


def write(path: Path, text: str) -> None:
    """Write a file; parents are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def replace(path: Path, text: str) -> None:
    """Replace a file by another one, as editors and `sed -i` do."""
    new = path.with_name(path.name + ".new")
    write(new, text)
    new.rename(path)


def rewrite(path: Path, text: str) -> None:
    """Write other bytes into a file, in a transaction of their own."""
    sync(path.parent)
    os.truncate(path, 0)
    sync(path.parent)
    path.write_text(text, encoding="utf-8")


def _change_debian(root: Path) -> None:
    replace(root / "etc/passwd", DEBIAN.passwd.replace(_BOB, ""))
    for name in (".bash_history", ".viminfo", ".ssh/authorized_keys", ".ssh", ""):
        path = root / "srv/people/bob" / name
        path.rmdir() if path.is_dir() else path.unlink()
    (root / "var/log/auth.log.1").unlink()
    rewrite(root / "etc/hosts", "127.0.0.1 localhost\n")
    rewrite(root / "home/alice/.bash_history", "")


def _change_fedora(root: Path) -> None:
    (root / "var/log/messages-20260222").unlink()
    (root / "etc/yum.repos.d/extra.repo").unlink()
    (root / "var/home/carol/.python_history").unlink()
    rewrite(root / "var/log/secure", "")


def _change_alpine(root: Path) -> None:
    (root / "root/.ash_history").unlink()
    (root / "var/log/wtmp").unlink()
    rewrite(root / "etc/motd", "Welcome\n")


_BOB = "bob:x:1001:1001:,,,:/srv/people/bob:/bin/bash\n"
DEBIAN = Tree(
    files="""
        etc/group etc/shadow etc/shadow- etc/hosts etc/hostname etc/fstab etc/issue etc/issue.net
        etc/debian_version etc/timezone etc/crontab etc/cron.d/e2scrub_all etc/cron.daily/apt
        etc/cron.daily/dpkg etc/apt/sources.list etc/ssh/sshd_config
        etc/ssh/ssh_host_ed25519_key etc/ssh/ssh_host_ed25519_key.pub etc/pam.d/common-password
        etc/pam.d/login etc/profile etc/bash.bashrc usr/lib/os-release
        usr/lib/systemd/system/ssh.service usr/lib/systemd/system/apt-daily.timer
        usr/share/zoneinfo/Etc/UTC var/lib/dpkg/status var/lib/dpkg/status-old var/log/auth.log
        var/log/auth.log.1 var/log/syslog var/log/wtmp var/log/btmp var/log/lastlog
        var/log/dpkg.log run/utmp root/.bashrc root/.profile root/.bash_history
        home/alice/.bash_history home/alice/.ssh/authorized_keys home/alice/.ssh/known_hosts
        home/alice/Downloads/report.pdf home/alice/Downloads/old/letter.txt
        home/alice/.thumbnails/normal/a.png home/alice/.thumbnails/large/fail/b.png
        home/alice/.thumbnails/1/2/3/deep.png srv/people/bob/.bash_history
        srv/people/bob/.viminfo srv/people/bob/.ssh/authorized_keys srv/people/.bash_history
    """,
    links={
        "bin": "usr/bin/", "lib": "usr/lib/", "var/run": "/run", "etc/localtime":
        "/usr/share/zoneinfo/Etc/UTC", "etc/os-release": "../usr/lib/os-release",
    },
    passwd="root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
    "alice:x:1000:1000:,,,:/home/alice:/bin/bash\n" + _BOB
    + "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    change=_change_debian,
    homes=("/srv/people/bob",),
    counts={
        "AnacronFiles": (2, 0, 0),  # apt, dpkg
        "APTSources": (1, 0, 0),
        "BashShellConfigurationFile": (2, 0, 0),  # /root/.bashrc, /etc/bash.bashrc
        "BashShellHistoryFile": (2, 1, 1),  # root, alice; bob; alice
        "ContainerdLogs": (1, 0, 0),  # /var/log/syslog*
        "DebianPackagesLogFiles": (1, 0, 0),
        "DebianPackagesStatus": (1, 0, 0),
        "DebianVersion": (1, 0, 0),
        "KubernetesLogs": (1, 0, 0),  # /var/log/syslog*
        "LinuxAuthLogs": (1, 1, 0),
        "LinuxCronTabs": (2, 0, 0),
        "LinuxFstab": (1, 0, 0),
        "LinuxHostnameFile": (1, 0, 0),
        "LinuxIssueFile": (2, 0, 0),
        "LinuxLastlogFile": (1, 0, 0),
        "LinuxLocalTime": (1, 0, 0),  # the link
        "LinuxMountInfo": (1, 0, 0),  # fstab
        "LinuxPamConfigs": (2, 0, 0),  # not the directory /etc/pam.d
        "LinuxPasswdFile": (1, 1, 0),
        "LinuxReleaseInfo": (2, 0, 0),  # LinuxSystemdOSRelease
        "LinuxScheduleFiles": (4, 0, 0),  # AnacronFiles, LinuxCronTabs
        "LinuxServices": (1, 0, 0),
        "LinuxSysLogFiles": (1, 0, 0),
        "LinuxSystemdOSRelease": (2, 0, 0),  # the file, the link
        "LinuxSystemdServices": (1, 0, 0),  # /lib/systemd and /usr/lib/systemd are the same
        "LinuxSystemdTimers": (1, 0, 0),
        "LinuxTimezoneFile": (1, 0, 0),
        "LinuxUtmpFiles": (3, 0, 0),  # btmp, wtmp, /run/utmp through /var/run
        "LinuxWtmp": (1, 0, 0),
        "LoginPolicyConfiguration": (2, 1, 0),  # passwd, shadow
        "MySQLLogFiles": (2, 1, 0),  # /var/log/*.log*
        "RootUserShellConfigs": (2, 0, 0),  # .bashrc, .profile
        "RootUserShellHistory": (1, 0, 0),
        "ShellConfigurationFile": (4, 0, 0),
        "ShellHistoryFile": (2, 1, 1),
        "ShellProfileFile": (2, 0, 0),  # /root/.profile, /etc/profile
        "SSHAuthorizedKeysFiles": (1, 1, 0),
        "SshdConfigFile": (1, 0, 0),
        "SSHHostPubKeys": (1, 0, 0),
        "SSHKnownHostsFiles": (1, 0, 0),
        "ThumbnailCacheFolder": (2, 0, 0),  # **3: not 1/2/3/deep.png
        "TriageDatabaseConfigsAndLogs": (2, 1, 0),  # MySQLLogFiles
        "TriageHistoryFiles": (2, 1, 1),
        "TriageInteractiveActivity": (2, 1, 0),  # ThumbnailCacheFolder, Viminfo
        "TriageNetwork": (2, 0, 1),  # LinuxHostnameFile, UnixHostsFile
        "TriagePersistence": (6, 0, 0),
        "TriageSystemConfiguration": (17, 1, 0),
        "TriageSystemLogs": (7, 1, 0),
        "TriageUserConfiguration": (6, 1, 0),
        "UnixGroupsFile": (1, 0, 0),
        "UnixHostsFile": (1, 0, 1),
        "UnixLocalTimeConfigurationFile": (1, 0, 0),
        "UnixPasswdFile": (1, 1, 0),
        "UnixShadowBackupFile": (1, 0, 0),
        "UnixShadowFile": (1, 0, 0),
        "UnixUsersGroups": (3, 1, 0),
        "UnixUtmpFile": (3, 0, 0),
        "UserDownloadsDirectory": (3, 0, 0),  # report.pdf, old, old/letter.txt
        "Viminfo": (0, 1, 0),
    },
)  # fmt: skip
FEDORA = Tree(
    files="""
        etc/fedora-release usr/lib/os-release etc/yum.repos.d/fedora.repo
        etc/yum.repos.d/fedora-updates.repo etc/yum.repos.d/extra.repo
        usr/lib/sysimage/rpm/rpmdb.sqlite var/log/secure var/log/secure-20260301 var/log/messages
        var/log/messages-20260222 var/log/cron var/log/dnf.log var/log/audit/audit.log
        etc/rc.d/init.d/README etc/rc.d/rc0.d/K50netconsole etc/bashrc
        usr/lib/sysctl.d/50-default.conf etc/sysctl.conf var/home/carol/.bash_history
        var/home/carol/.python_history var/lib/keys/carol/authorized_keys
    """,
    links={
        "lib": "usr/lib/", "home": "var/home/", "var/lib/rpm": "../../usr/lib/sysimage/rpm",
        "etc/redhat-release": "fedora-release", "etc/system-release": "fedora-release",
        "etc/os-release": "../usr/lib/os-release", "etc/init.d": "rc.d/init.d",
        "etc/rc0.d": "rc.d/rc0.d", "etc/sysctl.d/99-sysctl.conf": "../sysctl.conf",
        "var/home/carol/.ssh": "/var/lib/keys/carol",
    },
    passwd="root:x:0:0:root:/root:/bin/bash\ncarol:x:1000:1000::/home/carol:/bin/bash\n",
    change=_change_fedora,
    homes=(),
    counts={
        "BashShellConfigurationFile": (1, 0, 0),  # /etc/bashrc
        "BashShellHistoryFile": (1, 0, 0),
        "ContainerdLogs": (1, 1, 0),  # /var/log/message*
        "LinuxAuditLogs": (1, 0, 0),
        "LinuxAuthLogs": (2, 0, 1),
        "LinuxDistributionRelease": (2, 0, 0),  # both links
        "LinuxLSBInit": (1, 0, 0),  # README through /etc/init.d
        "LinuxMessagesLogFiles": (1, 1, 0),
        "LinuxPasswdFile": (1, 0, 0),
        "LinuxRelease": (2, 0, 0),
        "LinuxReleaseInfo": (4, 0, 0),
        "LinuxServices": (3, 0, 0),
        "LinuxSysctlConfigurationFiles": (2, 0, 0),
        "LinuxSystemdOSRelease": (2, 0, 0),
        "LinuxSysVInit": (3, 0, 0),  # the link /etc/rc0.d, K50netconsole, README
        "LoginPolicyConfiguration": (1, 0, 0),
        "MySQLLogFiles": (1, 0, 0),  # /var/log/dnf.log
        "PythonHistoryFile": (0, 1, 0),
        "ShellConfigurationFile": (1, 0, 0),
        "ShellHistoryFile": (1, 0, 0),
        "SSHAuthorizedKeysFiles": (1, 0, 0),
        "TriageDatabaseConfigsAndLogs": (1, 0, 0),
        "TriageHistoryFiles": (1, 1, 0),
        "TriagePersistence": (3, 0, 0),
        "TriageSystemConfiguration": (10, 1, 0),
        "TriageSystemLogs": (4, 1, 1),
        "TriageUserConfiguration": (2, 0, 0),
        "UnixPasswdFile": (1, 0, 0),
        "UnixUsersGroups": (1, 0, 0),
        "YumSources": (2, 1, 0),
    },
)  # fmt: skip
ALPINE = Tree(
    files="""
        lib/apk/db/installed etc/apk/world etc/alpine-release etc/os-release etc/issue etc/motd
        etc/hosts etc/hostname etc/fstab etc/profile etc/shadow etc/group etc/crontabs/root
        etc/periodic/daily/logrotate root/.ash_history home/dave/.ash_history
        home/dave/.profile var/log/messages var/log/wtmp
    """,
    links={"var/spool/cron/crontabs": "/etc/crontabs"},
    passwd="root:x:0:0:root:/root:/bin/ash\ndave:x:1000:1000::/home/dave:/bin/ash\n",
    change=_change_alpine,
    homes=(),
    counts={
        "ContainerdLogs": (1, 0, 0),
        "LinuxCronTabs": (2, 0, 0),  # the link crontabs, and root through it
        "LinuxFstab": (1, 0, 0),
        "LinuxHostnameFile": (1, 0, 0),
        "LinuxIssueFile": (1, 0, 0),
        "LinuxMessagesLogFiles": (1, 0, 0),
        "LinuxMountInfo": (1, 0, 0),
        "LinuxPasswdFile": (1, 0, 0),
        "LinuxReleaseInfo": (1, 0, 0),
        "LinuxScheduleFiles": (2, 0, 0),
        "LinuxSystemdOSRelease": (1, 0, 0),
        "LinuxUtmpFiles": (0, 1, 0),
        "LinuxWtmp": (0, 1, 0),
        "LoginPolicyConfiguration": (2, 0, 0),  # passwd, shadow
        "ShellConfigurationFile": (2, 0, 0),
        "ShellProfileFile": (2, 0, 0),  # of dave, /etc/profile
        "TriageNetwork": (2, 0, 0),  # hostname, hosts
        "TriagePersistence": (2, 0, 0),
        "TriageSystemConfiguration": (6, 0, 0),  # fstab, issue, os-release, passwd, shadow, group
        "TriageSystemLogs": (1, 1, 0),
        "TriageUserConfiguration": (2, 0, 0),
        "UnixGroupsFile": (1, 0, 0),
        "UnixHostsFile": (1, 0, 0),
        "UnixPasswdFile": (1, 0, 0),
        "UnixShadowFile": (1, 0, 0),
        "UnixUsersGroups": (3, 0, 0),
        "UnixUtmpFile": (0, 1, 0),
    },
)
TREES = {"debian": DEBIAN, "fedora": FEDORA, "alpine": ALPINE}
