"""The system call filter as a program, for both machines, and its tables against the kernel's headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from guerdon.sandboxes.jail import bpf

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
TABLES = {
    **bpf._DENIED,
    **bpf._METADATA,
    **bpf._OWN_PID,
    **bpf._OWN_OR_ZERO,
    "socket": bpf._SOCKET,
    "clone": bpf._CLONE,
    "fcntl": bpf._FCNTL,
}
ALLOW, KILL, EPERM, ENOSYS, EAFNOSUPPORT = 0x7FFF0000, 0x80000000, 0x50001, 0x50026, 0x50061
PID = 4321


def verdict(rows: list[bpf.Instruction], arch: int, number: int, *args: int) -> int:
    """What the kernel would answer."""
    words = {0: number, 4: arch, **{16 + 8 * i: arg & 0xFFFFFFFF for i, arg in enumerate(args)}}
    accumulator, at = 0, 0
    while True:
        code, yes, no, constant = rows[at]
        at += 1
        if code == 0x20:
            accumulator = words.get(constant, 0)
        elif code == 0x06:
            return constant
        else:
            test = {
                0x15: accumulator == constant,
                0x35: accumulator >= constant,
                0x25: accumulator > constant,
                0x45: bool(accumulator & constant),
            }[code]
            at += yes if test else no


@pytest.fixture(params=ARCH)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("lone", [False, True])
def test_every_denied_call_is_denied_and_reading_is_not(machine: str, lone: bool) -> None:
    rows = bpf.instructions(machine, lone=lone, pid=PID)
    column = list(ARCH).index(machine)
    names = {**bpf._DENIED, **(bpf._METADATA if lone else {})}
    denied = {pair[column] for pair in names.values() if pair[column] >= 0}
    assert {verdict(rows, ARCH[machine], number) for number in denied} == {EPERM}
    for number in {"x86_64": (0, 1, 3, 9, 59, 231), "aarch64": (63, 64, 57, 222, 221, 94)}[
        machine
    ]:  # read write close mmap execve exit_group
        assert verdict(rows, ARCH[machine], number) == ALLOW


def test_foreign_machines_are_killed(machine: str) -> None:
    rows = bpf.instructions(machine, lone=False)
    assert {verdict(rows, arch, 0) for arch in (0x40000003, 0x40000028, *(a for m, a in ARCH.items() if m != machine))} == {KILL}
    assert verdict(rows, ARCH[machine], 0x40000000 | 1) == KILL


def test_sockets_are_local_only(machine: str) -> None:
    rows, number = bpf.instructions(machine, lone=False), bpf._SOCKET[list(ARCH).index(machine)]
    assert [verdict(rows, ARCH[machine], number, family) for family in (1, 2, 10, 16)] == [ALLOW, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT]


@pytest.mark.parametrize(("lone", "fork", "process"), [(False, True, ALLOW), (True, True, ALLOW), (True, False, EPERM)])
def test_clone_makes_threads_always_and_processes_where_allowed(machine: str, lone: bool, fork: bool, process: int) -> None:
    rows, number = bpf.instructions(machine, lone=lone, pid=PID, fork=fork), bpf._CLONE[list(ARCH).index(machine)]
    assert [verdict(rows, ARCH[machine], number, flags) for flags in (0x3D0F00, 17, 0x10000000 | 17)] == [ALLOW, process, EPERM]
    assert verdict(rows, ARCH[machine], 435) == ENOSYS


def test_a_lone_program_signals_only_itself(machine: str) -> None:
    rows, column = bpf.instructions(machine, lone=True, pid=PID), list(ARCH).index(machine)
    for pair in bpf._OWN_PID.values():
        assert [verdict(rows, ARCH[machine], pair[column], pid) for pid in (PID, 1, 0, -1)] == [ALLOW, EPERM, EPERM, EPERM]
    for pair in bpf._OWN_OR_ZERO.values():
        assert [verdict(rows, ARCH[machine], pair[column], pid) for pid in (PID, 0, 1)] == [ALLOW, ALLOW, EPERM]
    assert [verdict(rows, ARCH[machine], bpf._FCNTL[column], 0, command) for command in (1, 8, 15)] == [ALLOW, EPERM, EPERM]


def test_calls_newer_than_the_table_do_not_exist(machine: str) -> None:
    assert verdict(bpf.instructions(machine, lone=False), ARCH[machine], 463) == ENOSYS


@pytest.mark.parametrize(
    ("column", "path"), [(0, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), (1, "/usr/include/asm-generic/unistd.h")]
)
def test_the_numbers_are_the_kernels(column: int, path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"no {path}")
    numbers = {match[1]: int(match[2]) for match in re.finditer(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", Path(path).read_text())}
    wrong = {name: (pair[column], numbers[name]) for name, pair in TABLES.items() if name in numbers and numbers[name] != pair[column]}
    assert wrong == {}
    assert len(numbers.keys() & TABLES.keys()) > 40
