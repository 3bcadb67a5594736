"""Capabilities of an executable as text, in the notation of getcap.

Source: include/uapi/linux/capability.h, `struct vfs_cap_data` and `struct vfs_ns_cap_data`.
"""

from __future__ import annotations

import struct

NAME = b"security.capability"
_REVISIONS = {0x01: 1, 0x02: 2, 0x03: 2}  # revision -> pairs of words
_EFFECTIVE = 1
_NAMES = (
    "chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid",
    "setpcap", "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw",
    "ipc_lock", "ipc_owner", "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct",
    "sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time", "sys_tty_config", "mknod",
    "lease", "audit_write", "audit_control", "setfcap", "mac_override", "mac_admin", "syslog",
    "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf", "checkpoint_restore",
)  # fmt: skip


def capability_text(value: bytes) -> str | None:
    """The capabilities of a `security.capability`, such as `cap_net_raw=ep`; None if it is invalid.

    >>> capability_text(bytes.fromhex("0100000200200000" + "00" * 12))
    'cap_net_raw=ep'
    """
    if len(value) < 4:
        return None
    revision, is_effective = value[3], value[0] & _EFFECTIVE
    pairs = _REVISIONS.get(revision, 0)
    size = 4 + 8 * pairs + 4 * (revision == 3)
    if not pairs or len(value) != size:
        return None
    words = struct.unpack_from(f"<{2 * pairs}I", value, 4)
    permitted, inheritable = (
        sum(word << 32 * place for place, word in enumerate(words[start::2])) for start in (0, 1)
    )
    groups = dict[str, list[str]]()
    for number in range(32 * pairs):
        has = permitted >> number & 1, inheritable >> number & 1
        if any(has):
            letters = "e" * bool(is_effective) + "i" * has[1] + "p" * has[0]
            groups.setdefault(letters, []).append(_name(number))
    text = " ".join(f"{','.join(names)}={letters}" for letters, names in groups.items())
    if revision == 3:
        (root,) = struct.unpack_from("<I", value, size - 4)
        text += f" [rootid={root}]" * bool(root)
    return text or "none"


def _name(number: int) -> str:
    return f"cap_{_NAMES[number]}" if number < len(_NAMES) else f"cap_{number}"
