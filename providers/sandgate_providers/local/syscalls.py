"""The system calls that a sandbox is refused, by machine, each group with its reason.

Numbers are those of the kernel's own headers, `asm/unistd_64.h` for x86_64 and `asm-generic/unistd.h` for aarch64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Numbers:
    """One system call's number on each machine; None where it does not exist."""

    x86_64: int
    aarch64: int | None


REFUSED: Mapping[str, Numbers] = MappingProxyType(
    {
        # Mounts, old and new: what is shown to a sandbox is fixed before it runs.
        "mount": Numbers(165, 40),
        "umount2": Numbers(166, 39),
        "pivot_root": Numbers(155, 41),
        "open_tree": Numbers(428, 428),
        "move_mount": Numbers(429, 429),
        "fsopen": Numbers(430, 430),
        "fsconfig": Numbers(431, 431),
        "fsmount": Numbers(432, 432),
        "fspick": Numbers(433, 433),
        "mount_setattr": Numbers(442, 442),
        "open_tree_attr": Numbers(467, 467),
        # Namespaces of others; new ones are told by the flags of unshare and clone.
        "setns": Numbers(308, 268),
        # Code in the kernel, and looking into it.
        "create_module": Numbers(174, None),
        "init_module": Numbers(175, 105),
        "finit_module": Numbers(313, 273),
        "delete_module": Numbers(176, 106),
        "get_kernel_syms": Numbers(177, None),
        "query_module": Numbers(178, None),
        "kexec_load": Numbers(246, 104),
        "kexec_file_load": Numbers(320, 294),
        "bpf": Numbers(321, 280),
        "perf_event_open": Numbers(298, 241),
        "lookup_dcookie": Numbers(212, 18),
        "syslog": Numbers(103, 116),
        # Other processes' memory, descriptors and identity: the runner shares its uid with the commands.
        "ptrace": Numbers(101, 117),
        "process_vm_readv": Numbers(310, 270),
        "process_vm_writev": Numbers(311, 271),
        "process_madvise": Numbers(440, 440),
        "pidfd_getfd": Numbers(438, 438),
        "kcmp": Numbers(312, 272),
        # Keyrings belong to host users and are not in a namespace.
        "add_key": Numbers(248, 217),
        "request_key": Numbers(249, 218),
        "keyctl": Numbers(250, 219),
        # Large interfaces with a history of holes, and without use for a command.
        "userfaultfd": Numbers(323, 282),
        "io_uring_setup": Numbers(425, 425),
        "io_uring_enter": Numbers(426, 426),
        "io_uring_register": Numbers(427, 427),
        "modify_ldt": Numbers(154, None),
        "uselib": Numbers(134, None),
        "nfsservctl": Numbers(180, 42),
        "_sysctl": Numbers(156, None),
        # Files by number instead of by path: that is how containers were left before.
        "open_by_handle_at": Numbers(304, 265),
        "fanotify_init": Numbers(300, 262),
        "fanotify_mark": Numbers(301, 263),
        # Where memory lies on the machine is the host's to say.
        "mbind": Numbers(237, 235),
        "set_mempolicy": Numbers(238, 237),
        "set_mempolicy_home_node": Numbers(450, 450),
        "migrate_pages": Numbers(256, 238),
        "move_pages": Numbers(279, 239),
        # The machine itself: power, clock, names, accounting, quotas, swap, ports, consoles.
        "reboot": Numbers(169, 142),
        "settimeofday": Numbers(164, 170),
        "clock_settime": Numbers(227, 112),
        "clock_adjtime": Numbers(305, 266),
        "sethostname": Numbers(170, 161),
        "setdomainname": Numbers(171, 162),
        "acct": Numbers(163, 89),
        "quotactl": Numbers(179, 60),
        "quotactl_fd": Numbers(443, 443),
        "swapon": Numbers(167, 224),
        "swapoff": Numbers(168, 225),
        "iopl": Numbers(172, None),
        "ioperm": Numbers(173, None),
        "vhangup": Numbers(153, 58),
    }
)

CLONE = Numbers(56, 220)
CLONE3 = Numbers(435, 435)
UNSHARE = Numbers(272, 97)
PERSONALITY = Numbers(135, 92)
SOCKET = Numbers(41, 198)
SOCKETPAIR = Numbers(53, 199)
IOCTL = Numbers(16, 29)
PRLIMIT64 = Numbers(302, 261)

NEWEST = 469
"""`file_setattr` of Linux 6.17, the last one that this list was written with in view; the numbers of new system calls
are the same on both machines. Later ones "do not exist" in a sandbox until someone has looked at them."""
