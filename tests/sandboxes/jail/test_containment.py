"""What a program cannot do: one property a test, at each rung and as each kind of user."""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path
from typing import Any

import pytest

import guerdon
from guerdon.sandboxes import Limits

MACHINE = platform.machine()

CALLS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *args):
    r = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in args])
    return 0 if r >= 0 else ctypes.get_errno()
"""


def test_no_internet_socket_can_be_made(jail: Any) -> None:
    code = """
        import socket
        for family in (socket.AF_INET, socket.AF_INET6, 16, 17, 40):
            try: socket.socket(family, socket.SOCK_DGRAM); print(family, "made")
            except OSError: pass
    """
    assert jail.says(code) == ""


def test_no_listener_of_the_host_is_reached(jail: Any) -> None:
    listener = socket.socket(socket.AF_UNIX)
    name = f"guerdon-test-{os.getpid()}"
    listener.bind("\0" + name)
    listener.listen()
    code = f"""
        import socket
        try: socket.socket(socket.AF_UNIX).connect("\\0{name}"); print("reached")
        except OSError: print("refused")
    """
    with listener:
        assert jail.says(code) == "refused"


def test_the_hosts_files_cannot_be_read(jail: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("expected answers")
    for path in (tmp_path, *list(tmp_path.parents)[:-2]):
        path.chmod(path.stat().st_mode | 0o005)
    paths = [
        str(secret),
        "/etc/shadow",
        "/etc/hostname",
        "/etc/hosts",
        os.path.realpath(guerdon.__file__),
        "/proc/1/environ",
        "/var",
        "/home",
        "/sys",
    ]
    code = f"""
        import os
        for path in {paths!r}:
            try: (os.listdir if os.path.isdir(path) else open)(path); print("read", path)
            except OSError: pass
    """
    assert jail.says(code) == ("read /proc/1/environ" if jail.private else "")  # there, process 1 is the program itself


def test_nothing_can_be_written_outside_the_own_folder(jail: Any) -> None:
    code = """
        import os, sys
        for path in ("/x", "/usr/x", "/dev/x", "/etc/x", "/var/tmp/x", "/dev/shm/x/y", sys.prefix + "/x", os.__file__, "/proc/sys/x"):
            try: open(path, "a"); print("wrote", path)
            except OSError: pass
    """
    assert jail.says(code) == ""


def test_the_own_folder_can_be_written(jail: Any) -> None:
    code = """
        import os, tempfile
        open("a", "w").write("1"); os.mkdir("d"); os.rename("a", "d/b")
        with tempfile.NamedTemporaryFile() as file: file.write(b"x")
        print(open("d/b").read(), os.listdir("d"))
    """
    assert jail.says(code) == "1 ['b']"


def test_metadata_of_foreign_files_cannot_be_changed(jail: Any, tmp_path: Path) -> None:
    target = tmp_path / "mine"
    target.write_text("x")
    os.chown(target, jail.user, -1)
    for path in (tmp_path, *list(tmp_path.parents)[:-2]):
        path.chmod(path.stat().st_mode | 0o005)
    code = f"""
        import os
        path = {str(target)!r}
        for act in (os.chmod, 0), (os.utime, (1, 1)), (os.truncate, 0), (os.unlink,), (os.rename, "x"):
            try: act[0](path, *act[1:]); print("done", act)
            except OSError: pass
    """
    before = target.stat()
    assert jail.says(code) == ""
    assert target.stat() == before
    assert target.read_text() == "x"


def test_no_other_process_is_visible(jail: Any) -> None:
    code = """
        import os
        try: print([name for name in os.listdir("/proc") if name.isdigit()])
        except OSError: print("denied")
    """
    assert jail.says(code) == ("['1']" if jail.private else "denied")


def test_the_environment_holds_nothing_of_the_trainers(jail: Any) -> None:
    code = """
        import os
        text = str(dict(os.environ))
        try: text += open("/proc/self/environ").read()
        except OSError: pass
        print("tok-4711" in text, sorted(os.environ))
    """
    names = ["HOME", "LANG", "MALLOC_ARENA_MAX", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH", "PYTHONHASHSEED", "TMPDIR", "TZ"]
    assert jail.says(code) == f"False {names}"


def test_the_zygotes_environment_block_is_clean(jail: Any) -> None:
    for guard, below in jail.processes().items():
        for pid in (guard, *below):
            assert b"tok-4711" not in Path(f"/proc/{pid}/environ").read_bytes()


@pytest.mark.parametrize("target", ["0", "-1", "os.getppid()"])
def test_signals_reach_nobody_outside(jail: Any, target: str) -> None:
    before = jail.processes()
    for _ in range(2):
        jail.run(f"import os\nos.kill({target}, 9)")
    assert jail.says("print('alive')") == "alive"
    assert jail.processes() == before


def test_a_fork_bomb_is_bounded(jail: Any) -> None:
    code = """
        import os, time
        n = 0
        try:
            while True:
                if os.fork() == 0: time.sleep(30)
                n += 1
        except OSError: print(n)
    """
    forked = int(jail.says(code))
    assert 10 <= forked < 64 if jail.private else forked == 0
    assert all(len(below) == 1 for below in jail.processes().values())


def test_a_thread_bomb_is_bounded(jail: Any) -> None:
    code = """
        import threading, time
        n = 0
        try:
            while n < 5000: threading.Thread(target=time.sleep, args=(20,), daemon=True).start(); n += 1
        except RuntimeError: pass
        print(n, flush=True)
        import os; os._exit(0)
    """
    assert 8 <= int(jail.says(code)) < 500


def test_a_memory_bomb_meets_its_limit(jail: Any) -> None:
    result = jail.run("x = []\nwhile True: x.append(bytearray(1 << 24))", limits=Limits(memory_mb=100))
    assert result.status == "memory"
    assert result.maxrss_mb < 200


def test_the_memory_of_twenty_processes_is_bounded_in_sum(jail: Any) -> None:
    if not jail.sums_memory or not jail.private:
        pytest.skip("no memory cgroup, or no processes to sum")
    code = """
        import os, time
        pids = []
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                x = bytearray(50 << 20); time.sleep(1); os._exit(0)
            pids.append(pid)
        print(sum(os.waitpid(pid, 0)[1] == 0 for pid in pids))
    """
    result = jail.run(code, limits=Limits(memory_mb=200))
    assert result.status == "memory" or int(result.stdout) < 8


def test_the_disk_cannot_be_filled(jail: Any) -> None:
    code = """
        n = 0
        try:
            for i in range(40):
                with open(f"f{i}", "wb") as file:
                    for _ in range(4): file.write(bytes(1 << 20)); file.flush(); n += 1
        except OSError: pass
        print(n)
    """
    result = jail.run(code)
    assert result.status == "output_limit" or int(result.stdout) <= 17


def test_no_file_grows_beyond_the_limit(jail: Any) -> None:
    code = """
        import os
        fd = os.open("big", os.O_CREAT | os.O_WRONLY)
        try: os.ftruncate(fd, 1 << 40); print("grown")
        except OSError: print("refused")
    """
    result = jail.run(code)
    assert result.stdout == b"refused\n" or result.status in ("signal", "output_limit")


def test_inodes_cannot_be_used_up(jail: Any) -> None:
    code = """
        n = 0
        try:
            while True: open(str(n), "w").close(); n += 1
        except OSError: print(n)
    """
    result = jail.run(code)
    assert result.status == "output_limit" or int(result.stdout) < 5000


def test_an_output_flood_is_cut_and_ended(jail: Any) -> None:
    result = jail.run("while True: print('A' * 65536)", limits=Limits(output_kb=100))
    assert (result.status, len(result.stdout)) == ("output_limit", 100 * 1024)
    assert result.dropped > 0
    assert result.wall_s < 5


def test_a_flood_of_warnings_is_dropped_without_harm(jail: Any) -> None:
    result = jail.run("import sys\nfor _ in range(50): sys.stderr.write('A' * 65536)\nprint('done')", limits=Limits(output_kb=100))
    assert (result.status, result.stdout, len(result.stderr)) == ("ok", b"done\n", 100 * 1024)
    assert result.dropped == 50 * 65536 - 100 * 1024


def test_nothing_survives_a_timeout(jail: Any) -> None:
    code = """
        import os, time
        try:
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0: time.sleep(60)
        except OSError: pass
        time.sleep(60)
    """
    result = jail.run(code, limits=Limits(wall_s=0.5))
    assert (result.status, result.timed_out_by) == ("timeout", "wall")
    assert all(len(below) == 1 for below in jail.processes().values())


def test_a_child_that_holds_the_output_open_does_not_delay_the_result(jail: Any) -> None:
    code = """
        import os, time
        print("done", flush=True)
        try:
            if os.fork() == 0: time.sleep(60)
        except OSError: pass
        os._exit(0)
    """
    result = jail.run(code)
    assert (result.status, result.stdout) == ("ok", b"done\n")
    assert result.wall_s < 5


DENIED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "mount": (165, 40), "unshare": (272, 97), "setns": (308, 268),
    "chroot": (161, 51), "bpf": (321, 280), "io_uring_setup": (425, 425), "keyctl": (250, 219), "userfaultfd": (323, 282),
    "perf_event_open": (298, 241), "memfd_create": (319, 279), "open_by_handle_at": (304, 265), "personality": (135, 92),
    "pidfd_getfd": (438, 438), "open_tree": (428, 428),
}  # fmt: skip


@pytest.mark.parametrize("name", DENIED)
@pytest.mark.skipif(MACHINE not in ("x86_64", "aarch64"), reason="no table of system calls")
def test_a_dangerous_call_is_refused(jail: Any, name: str) -> None:
    number = DENIED[name][MACHINE == "aarch64"]
    assert jail.says(CALLS + f"print(call({number}, 0, 0, 0, 0, 0))") == "1"


def test_unknown_and_opaque_calls_are_said_not_to_exist(jail: Any) -> None:
    assert jail.says(CALLS + "print(call(435, 0, 0), call(5000))") == "38 38"  # clone3 hides its flags; 5000 is from the future


def test_clone_makes_no_namespaces(jail: Any) -> None:
    number = {"x86_64": 56, "aarch64": 220}[MACHINE]
    assert jail.says(CALLS + f"print(call({number}, 0x10000000 | 17, 0, 0, 0, 0))") == "1"


@pytest.mark.skipif(MACHINE != "x86_64", reason="x86 only")
def test_x32_calls_kill_the_program(jail: Any) -> None:
    result = jail.run(CALLS + "call(0x40000000 | 39)")
    assert (result.status, result.signal) == ("signal", 31)


@pytest.mark.skipif(MACHINE != "x86_64", reason="x86 only")
def test_ia32_calls_kill_the_program(jail: Any) -> None:
    code = """
        import ctypes, mmap
        page = mmap.mmap(-1, 4096, prot=7)
        page.write(bytes.fromhex("b814000000cd80c3"))
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    """
    result = jail.run(code)
    assert (result.status, result.signal) == ("signal", 31)


def test_the_program_has_no_capability_and_can_gain_none(jail: Any) -> None:
    code = """
        import ctypes, struct
        libc = ctypes.CDLL(None)
        header, data = struct.pack("Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
        libc.capget(header, data)
        effective, permitted, inheritable, *upper = struct.unpack("6I", data.raw)
        print(effective | permitted | inheritable | sum(upper), libc.prctl(39, 0, 0, 0, 0), libc.prctl(21, 0, 0, 0, 0))
    """
    assert jail.says(code) == "0 1 2"  # capabilities, no_new_privs, seccomp by filter


def test_nothing_is_left_for_the_next_run(jail: Any) -> None:
    jail.many([guerdon.sandboxes.Job("open('left', 'w').write('x'); import builtins, socket; builtins.left = 1")] * 4)
    results = jail.many([guerdon.sandboxes.Job("import os, builtins; print('left' in os.listdir(), hasattr(builtins, 'left'))")] * 4)
    assert {result.stdout for result in results} == {b"False False\n"}


def test_a_folder_nested_beyond_reach_is_removed_too(jail: Any) -> None:
    code = """
        import os
        os.mkdir("sealed", 0)
        try:
            for _ in range(1500): os.mkdir("deep" * 10); os.chdir("deep" * 10)
            open("file", "w").write("x" * 10000)
        except OSError: pass
    """
    assert jail.run(code).status in ("ok", "output_limit")
    assert jail.says("import os; print([n for n in os.listdir() if n not in ('solution.py', 'venv0')])") == "[]"


def test_the_memory_a_program_inherits_holds_nothing_of_earlier_ones(jail: Any) -> None:
    """Else a wrong program could read what a right one printed for the same input."""
    marks = [f"{kind}-{'7391' * 3}" for kind in ("source", "stdin", "stdout", "file", "argument")]
    first = f"print('{marks[0]}'); print('{marks[2]}' * 1000); input()"
    for size in (1, 20_000):
        given = {"stdin": marks[1].encode() * size, "files": (("f", marks[3].encode() * size),), "args": (marks[4],)}
        jail.many([guerdon.sandboxes.Job(first, **given)] * 4)
    code = """
        import ctypes, re
        found, pattern = set(), re.compile(rb"([a-z]{3,8})-(?:7391){3}")
        for line in MAPS:
            low, high = (int(x, 16) for x in line.split()[0].split("-"))
            if line.split()[1].startswith("rw"):
                found.update(pattern.findall(ctypes.string_at(low, high - low)))
        print(sorted(found))
    """
    if jail.private:  # elsewhere it cannot even see where its memory is
        assert jail.says(code.replace("MAPS", "open('/proc/self/maps')"), args=("own-" + "7391" * 3,)) == "[b'own']"


def test_only_the_standard_descriptors_are_open(jail: Any) -> None:
    code = """
        import os
        found = []
        for fd in range(1024):
            try: os.fstat(fd); found.append(fd)
            except OSError: pass
        print(found)
    """
    assert jail.says(code) == "[0, 1, 2]"
    assert jail.says(code, channel=True) == "[0, 1, 2, 3]"


def test_the_input_cannot_be_changed(jail: Any) -> None:
    code = """
        import os
        for act in (lambda: os.write(0, b"x"), lambda: os.ftruncate(0, 0)):
            try: act(); print("changed")
            except OSError: pass
    """
    assert jail.says(code, stdin=b"1 2 3") == ""


def test_no_core_is_dumped_and_files_are_few(jail: Any) -> None:
    code = "import resource as r; print(r.getrlimit(r.RLIMIT_CORE)[1], r.getrlimit(r.RLIMIT_NOFILE)[1])"
    assert jail.says(code) == "0 128"


def test_priorities_and_limits_of_others_are_out_of_reach(jail: Any) -> None:
    pids = [pid for guard, below in jail.processes().items() for pid in (guard, *below)]
    code = f"""
        import os, resource
        for pid in {[*pids, os.getpid()]}:
            for act in (resource.prlimit, pid, resource.RLIMIT_NOFILE, (9, 9)), (os.kill, pid, 0), (os.sched_setaffinity, pid, [0]):
                try: act[0](*act[1:]); print("reached", pid)
                except OSError: pass
    """
    assert jail.says(code) == ""


def test_the_terminal_is_out_of_reach(jail: Any) -> None:
    assert jail.says("import os\ntry: os.open('/dev/tty', 0)\nexcept OSError: print('none')") == "none"


def test_the_real_user_is_never_root_with_rights(jail: Any) -> None:
    """As root each slot has a user of its own; where that user could not read the interpreter, root without any capability."""
    uid = int(jail.says("import os; print(os.getuid())"))
    if jail.user:
        assert uid == jail.user
    elif jail.private:
        assert uid >= 20000
    else:
        assert uid >= 20000 or any("keep user 0" in note for note in jail.capabilities.notes)
