"""The seccomp filter: which system calls a program may not make. Hand-made BPF for x86-64 and aarch64.

A list of what is refused rather than of what is allowed, so that compilers, JVMs and interpreters run unchanged; calls newer than
the table are refused as unknown. Foreign architectures (ia32, x32) are killed. It does not look behind pointers, so it never
decides by path: that is for mounts and Landlock.
"""

from __future__ import annotations

import os
import platform
import struct

from guerdon.sandboxes.jail.syscalls import Blob, prctl, raw

__all__ = ["Filter", "instructions"]

_ARCH = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of the tables, AUDIT_ARCH
_NEWEST = 462  # mseal: what came later is not known to be harmless

_DENIED: dict[str, tuple[int, int]] = {
    # other processes' memory, the kernel, its modules, clocks, keys
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272), "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440), "bpf": (321, 280), "perf_event_open": (298, 241), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "userfaultfd": (323, 282), "acct": (163, 89), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266), "personality": (135, 92), "syslog": (103, 116), "vhangup": (153, 58),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "lookup_dcookie": (212, 18), "fanotify_init": (300, 262),
    # io_uring does by proxy what the filter forbids
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # the tree and the namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "open_tree": (428, 428), "mount_setattr": (442, 442), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    # memory that no limit counts
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
}  # fmt: skip
_DENIED_X86 = (172, 173, 154)  # iopl, ioperm, modify_ldt

# Without mount and pid namespaces: what Landlock does not cover (metadata), and what reaches the user's other processes.
_METADATA: dict[str, tuple[int, int]] = {
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, -1), "fchown": (93, 55),
    "lchown": (94, -1), "fchownat": (260, 54), "utime": (132, -1), "utimes": (235, -1), "futimesat": (261, -1), "utimensat": (280, 88),
    "truncate": (76, 45), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "setpriority": (141, 140), "ioprio_set": (251, 30), "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
}  # fmt: skip
_OWN_PID = {"kill": (62, 129), "tgkill": (234, 131)}
_OWN_OR_ZERO = {
    "prlimit64": (302, 261), "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}  # fmt: skip
_SOCKET, _CLONE, _CLONE3, _FORK, _FCNTL = (41, 198), (56, 220), (435, 435), (57, 58), (72, 25)

_LD, _JEQ, _JGE, _JGT, _JSET, _RET = 0x20, 0x15, 0x35, 0x25, 0x45, 0x06
_KILL, _ALLOW, _EPERM, _ENOSYS, _EAFNOSUPPORT = 0x80000000, 0x7FFF0000, 0x50001, 0x50026, 0x50061
_NEW_NAMESPACES, _CLONE_THREAD = 0x7E020000, 0x10000
Instruction = tuple[int, int, int, int]


def instructions(machine: str, *, lone: bool, pid: int = 0, fork: bool = True) -> list[Instruction]:
    """The filter as (code, jump if true, jump if false, constant).

    `lone`: there are no namespaces around the program, so it may signal only itself (`pid`), change no metadata and, unless
    `fork`, start no process (threads are fine).
    """
    column, arch = _ARCH[machine]
    out: list[Instruction] = [(_LD, 0, 0, 4), (_JEQ, 1, 0, arch), (_RET, 0, 0, _KILL), (_LD, 0, 0, 0)]
    out += [(_JGE, 0, 1, 0x40000000), (_RET, 0, 0, _KILL), (_JGT, 0, 1, _NEWEST), (_RET, 0, 0, _ENOSYS)]
    out += _when(_CLONE3[column], [(_RET, 0, 0, _ENOSYS)])  # its flags lie behind a pointer; libc falls back to clone
    clone = [(_LD, 0, 0, 16), (_JSET, 0, 1, _NEW_NAMESPACES), (_RET, 0, 0, _EPERM)]
    if lone and not fork:
        clone += [(_JSET, 1, 0, _CLONE_THREAD), (_RET, 0, 0, _EPERM)]
        if machine == "x86_64":
            out += [row for number in _FORK for row in _when(number, [(_RET, 0, 0, _EPERM)])]
    out += _when(_CLONE[column], [*clone, (_RET, 0, 0, _ALLOW)])
    out += _when(_SOCKET[column], [(_LD, 0, 0, 16), (_JEQ, 1, 0, 1), (_RET, 0, 0, _EAFNOSUPPORT), (_RET, 0, 0, _ALLOW)])
    denied = [pair[column] for pair in _DENIED.values()] + (list(_DENIED_X86) if machine == "x86_64" else [])
    if lone:
        denied += [pair[column] for pair in _METADATA.values() if pair[column] >= 0]
        for pair in _OWN_PID.values():
            out += _when(pair[column], [(_LD, 0, 0, 16), (_JEQ, 1, 0, pid), (_RET, 0, 0, _EPERM), (_RET, 0, 0, _ALLOW)])
        for pair in _OWN_OR_ZERO.values():
            rows = [(_LD, 0, 0, 16), (_JEQ, 2, 0, pid), (_JEQ, 1, 0, 0), (_RET, 0, 0, _EPERM), (_RET, 0, 0, _ALLOW)]
            out += _when(pair[column], rows)
        owner = [(_LD, 0, 0, 24), (_JEQ, 2, 0, 8), (_JEQ, 1, 0, 15), (_RET, 0, 0, _ALLOW), (_RET, 0, 0, _EPERM)]
        out += _when(_FCNTL[column], owner)  # F_SETOWN: a signal to whom one likes
    for number in sorted(set(denied)):
        out += _when(number, [(_RET, 0, 0, _EPERM)])
    return [*out, (_RET, 0, 0, _ALLOW)]


def _when(number: int, rows: list[Instruction]) -> list[Instruction]:
    """`rows` for one system call; they must end in a return."""
    return [(_JEQ, 0, len(rows), number), *rows]


class Filter:
    """A filter ready to be installed in a child: built before the fork where it does not depend on the child's pid."""

    def __init__(self, *, lone: bool, pid: int = 0, fork: bool = True) -> None:
        rows = instructions(platform.machine(), lone=lone, pid=pid, fork=fork)
        self._code = Blob(b"".join(struct.pack("HBBI", *row) for row in rows))
        self._program = Blob(struct.pack("HxxxxxxQ", len(rows), self._code.address))

    def install(self) -> None:
        """From here on, for this thread and all it starts. Sets no_new_privs."""
        prctl(38, 1)
        raw("seccomp", 1, 0, self._program.address)


def supported() -> str:
    """Why no filter can be made here; empty if it can."""
    if platform.machine() not in _ARCH:
        return f"no system call table for {platform.machine()!r}"
    if not os.path.exists("/proc/sys/kernel/seccomp/actions_avail"):
        return "the kernel has no seccomp filters"
    return ""
