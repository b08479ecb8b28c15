"""What programs give inside a container, and what they cannot reach."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from guerdon.sandboxes import Docker, Job, Limits

pytestmark = pytest.mark.docker
MINIMAL = Limits(cpu_s=1.0, wall_s=15.0, memory_mb=64, output_kb=16, disk_mb=1)


@pytest.mark.parametrize(
    ("job", "status", "stdout"),
    [
        (Job("print(int(input()) + 1)", stdin=b"41"), "ok", b"42\n"),
        (Job("import sys; sys.exit(3)"), "nonzero", b""),
        (Job("("), "compile_error", b""),
        (Job("print('\ud800')"), "compile_error", b""),
        (Job("import os; os.abort()"), "signal", b""),
        (Job("while True: pass", limits=MINIMAL), "timeout", b""),
        (Job("import time; time.sleep(60)", limits=Limits(wall_s=0.3)), "timeout", b""),
        (Job("x = bytes(1 << 30)", limits=MINIMAL), "memory", b""),
        (Job("while True: print('x' * 99, end='')", limits=MINIMAL), "output_limit", b"x" * 16384),
        (Job("import sys; print(sys.argv[1:])", args=("a b",)), "ok", b"['a b']\n"),
        (Job("print(open('a/b', 'rb').read())", files=(("a/b", b"\0\xff"),)), "ok", b"b'\\x00\\xff'\n"),
        (Job("import sys; print(len(sys.stdin.buffer.read()))", stdin=b"x" * (3 << 20)), "ok", b"3145728\n"),
        (Job("print('x' * (3 << 20))"), "ok", b"x" * (3 << 20) + b"\n"),
        (Job("import decimal, sqlite3, ssl, zlib, unittest, asyncio; print('all here')"), "ok", b"all here\n"),
    ],
)
def test_a_program_gives_what_it_gives_elsewhere(box: Any, job: Job, status: str, stdout: bytes) -> None:
    result = box.run(job)
    assert (result.status, result.stdout) == (status, stdout), result
    assert (result.level, result.backend) == ("container", "docker")


def test_a_busy_loop_is_ended_by_its_cpu_time(box: Any) -> None:
    assert box.run(Job("while True: pass", limits=MINIMAL)).timed_out_by == "cpu"


def test_the_channel_comes_back(box: Any) -> None:
    result = box.run(Job("import os; os.write(int(os.environ['GUERDON_CHANNEL']), b'private'); print('out')", channel=True))
    assert (result.channel, result.stdout) == (b"private", b"out\n")


def test_order_is_kept(box: Any) -> None:
    assert [result.stdout for result in box.run_many([Job(f"print({n})") for n in range(50)])] == [b"%d\n" % n for n in range(50)]


REFUSED = {
    "a network connection": "import socket; socket.create_connection(('127.0.0.1', 80), 1)",
    "a datagram": "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('8.8.8.8', 53))",
    "the root folder": "open('/x', 'w')",
    "another run's folder": "open('/tmp/x', 'w')",
    "the host's users": "open('/etc/shadow').read()",
    "its supervisor's environment": "open('/proc/1/environ').read()",
    "its supervisor's memory": "open('/proc/1/mem', 'rb').read(1)",
    "a signal to its supervisor": "import os; os.kill(1, 9)",
    "a signal to all": "import os; os.kill(-1, 9)",
    "a signal to its parent": "import os; os.kill(os.getppid(), 9)",
    "a process": "import os; os.fork()",
    "a program": "import subprocess; subprocess.run(['/usr/bin/python3', '-c', 'pass'])",
    "another user": "import os; os.setuid(0)",
    "a mount": "import ctypes, os; assert ctypes.CDLL(None).mount(b'x', b'/tmp', b'tmpfs', 0, None) == 0",
    "a namespace": "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0",
    "another process's memory": "import ctypes; assert ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0",
    "io_uring": "import ctypes; assert ctypes.CDLL(None).syscall(425, 1, 0) >= 0",
    "a thousand threads": "import threading, time; [threading.Thread(target=time.sleep, args=(0.5,)).start() for _ in range(999)]",
    "a full disk": "open('big', 'wb').write(b'x' * (64 << 20))",
    "inherited descriptors": "import os; os.fstat(6)",
    "the device of a disk": "import os; os.mknod('disk', 0o60600, os.makedev(8, 0))",
}


@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED)
def test_a_program_does_not_get(box: Any, source: str) -> None:
    result = box.run(Job(source))
    assert result.status not in ("ok", "infra_error", "compile_error"), result
    assert box.run(Job("print('well')")).stdout == b"well\n"


def test_nothing_stays_from_run_to_run(daemon: Any) -> None:
    leave = """
        import builtins, os, sys
        builtins.print = sys.modules['json'] = None
        os.makedirs('a/b'); open('a/b/c', 'w').write('x'); os.mkdir('closed', 0); os.mkdir('write-only', 0o300); open('write-only/x', 'w')
    """
    look = "import json, os; print(os.listdir('.'), os.path.exists('write-only/x'))"
    with Docker(workers=1).start() as box:
        results = box.run_many([Job("if 1:" + leave), Job(look)])
    assert [result.stdout for result in results] == [b"", b"['solution.py'] False\n"]


def test_the_environment_is_not_ours(box: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    result = box.run(Job("import os; print(*os.environ)"))
    assert set(result.stdout.decode().split()) <= {
        *("PATH", "HOME", "TMPDIR", "LANG", "TZ", "PYTHONHASHSEED", "HOSTNAME"),
        *("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MALLOC_ARENA_MAX"),
    }


def test_a_container_is_hardened(box: Any, daemon: Any) -> None:
    host = daemon.api.inspect_container(box._fleet.containers()[0])["HostConfig"]
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"], host["SecurityOpt"], host["IpcMode"], host["Privileged"]) == (
        *("none", True, ["ALL"], ["no-new-privileges"], "none", False),
    )
    assert host["PidsLimit"] == LIMIT_OF_THREADS + 8
    assert host["Memory"] == host["MemorySwap"] < 1 << 30
    assert (host["LogConfig"]["Type"], host["AutoRemove"], host["Binds"]) == ("none", True, None)


LIMIT_OF_THREADS = Limits().processes


@pytest.mark.parametrize("job", [Job("", language="bash"), Job("", limits=Limits(memory_mb=4096)), Job("", limits=Limits(disk_mb=999))])
def test_a_job_that_does_not_fit_is_an_infra_error_and_others_run(box: Any, job: Job) -> None:
    results = box.run_many([job, Job("print(1)")])
    assert [result.status for result in results] == ["infra_error", "ok"]


def test_an_image_of_ones_own_may_be_named(daemon: Any) -> None:
    from guerdon.sandboxes.docker_image import host_image_name

    daemon.images.get(host_image_name()).tag("guerdon-test/mine", "1")
    try:
        with Docker(image="guerdon-test/mine:1", workers=1, preload=("sqlite3",)).start() as box:
            assert box.run(Job("import sys; print('_sqlite3' in sys.modules)")).stdout == b"True\n"
            assert box.capabilities().languages == ("python",)
    finally:
        daemon.images.remove("guerdon-test/mine:1")


def test_the_machines_null_device_keeps_its_owner(daemon: Any, python: Callable[..., str]) -> None:
    python("-c", "from guerdon.sandboxes import Docker, Job; Docker(workers=1).start().close()")  # its own input is an empty pipe
    with open(os.devnull, "rb") as null:
        kept = os.dup(0)
        os.dup2(null.fileno(), 0)
        try:
            with Docker(workers=1).start() as box:
                assert box.run(Job("print(1)")).status == "ok"
        finally:
            os.dup2(kept, 0)
            os.close(kept)
    status = os.stat("/dev/null")
    assert (status.st_uid, status.st_gid) == (0, 0)
