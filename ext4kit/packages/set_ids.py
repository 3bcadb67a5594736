"""Programs of Debian that are set-user-ID or set-group-ID.

The lists of dpkg have no modes. Of the packaged files with such a mode, those that no package of
Debian or Ubuntu installs with it are told apart by this table of names.
"""

from __future__ import annotations

_NAMES = frozenset(
    b"""
    at batch bsd-write bwrap chage chfn chrome-sandbox chsh cifs.upcall crontab
    dbus-daemon-launch-helper dma dotlock.mailutils dotlockfile doas dumpcap expiry exim4 fping
    fusermount fusermount3 gpasswd gst-ptp-helper helper incrontab kismet_cap_linux_bluetooth ksu
    lockfile lxc-user-nic maildrop mail-lock mail-touchlock mail-unlock mlocate mlock mount
    mount.cifs mount.davfs mount.ecryptfs_private mount.nfs mtr-packet nethack newgidmap newgrp
    newuidmap ntfs-3g pam_extrausers_chkpwd passwd pkexec ping ping4 ping6 plocate
    polkit-agent-helper-1 postdrop postqueue pppd procmail pulseaudio qmail-queue rcp rlogin rsh
    screen sendmail sensible-mda slock snap-confine spice-client-glib-usb-acl-helper ssh-agent
    ssh-keysign staprun su sudo sudoedit suexec-custom suexec-pristine traceroute6.iputils udevil
    umount unix_chkpwd utempter uuidd virtualbox vmware-user-suid-wrapper wall write write.ul
    xlock xscreensaver-auth xtrlock xterm Xorg.wrap netreport VBoxHeadless VBoxNetAdpCtl
    VBoxNetDHCP VBoxNetNAT VBoxSDL VBoxVolInfo VirtualBoxVM camel-lock-helper-1.2 deliver
    auth_pam_tool authdaemon pmount pumount
    locate lppasswd cardctl arping clockdiff opiepasswd opiesu sperl
    """.split()
)
_GAMES = b"/usr/games/"


def may_be_set_id(path: bytes) -> bool:
    """Whether a packaged program may be set-user-ID or set-group-ID."""
    return path[path.rfind(b"/") + 1 :] in _NAMES or path.startswith(_GAMES)
