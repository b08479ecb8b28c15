"""What programs give when a service runs them: the same as elsewhere."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

from guerdon.sandboxes import Job, Limits

Make = Callable[..., Any]


@pytest.mark.parametrize(
    ("job", "status", "stdout"),
    [
        (Job("print(int(input()) + 1)", stdin=b"41"), "ok", b"42\n"),
        (Job("import sys; sys.exit(3)"), "nonzero", b""),
        (Job("raise ValueError"), "nonzero", b""),
        (Job("import os; os.kill(os.getpid(), 9)"), "signal", b""),
        (Job("raise MemoryError"), "memory", b""),
        (Job("while True: pass", limits=Limits(wall_s=0.5)), "timeout", b""),
        (Job("print('x' * 5000)", limits=Limits(output_kb=1)), "output_limit", b"x" * 1024),
        (Job("import sys; print(sys.argv[1:])", args=("a b", "")), "ok", b"['a b', '']\n"),
        (Job("print(open('a/b.bin', 'rb').read())", files=(("a/b.bin", b"\0\xff"),)), "ok", b"b'\\x00\\xff'\n"),
        (Job("import sys; print(sys.stdin.buffer.read())", stdin=b"\xff\0"), "ok", b"b'\\xff\\x00'\n"),
        (Job("print('\ud800')"), "nonzero", b""),
        (Job("print('\N{SNOWMAN}')"), "ok", "\N{SNOWMAN}\n".encode()),
    ],
)
def test_a_program_gives_what_it_gives_elsewhere(service: Make, client: Make, job: Job, status: str, stdout: bytes) -> None:
    result = client(service().url).run(job)
    assert (result.status, result.stdout) == (status, stdout), result
    assert result.level == "remote"


@pytest.mark.parametrize("code", ["0", "7"])
def test_the_channel_comes_back_beside_the_output(service: Make, client: Make, code: str) -> None:
    source = f"import os, sys; print('out', input()); os.write(int(os.environ['GUERDON_CHANNEL']), b'\\x00private\\xff'); sys.exit({code})"
    result = client(service().url).run(Job(source, stdin=b"in", channel=True))
    assert (result.stdout, result.channel, result.exit_code) == (b"out in\n", b"\0private\xff", int(code))


def test_a_program_that_ends_its_driver_is_to_blame_itself(service: Make, client: Make) -> None:
    result = client(service().url).run(Job("import os, signal; os.kill(os.getppid(), signal.SIGKILL)", channel=True))
    assert (result.status, result.channel) == ("signal", b"")


def test_a_flooded_channel_is_an_output_limit(service: Make, client: Make) -> None:
    result = client(service().url).run(Job("open(3, 'wb').write(b'x' * 2000)", channel=True, limits=Limits(output_kb=1)))
    assert (result.status, len(result.channel)) == ("output_limit", 1024)


def test_a_killed_program_tells_its_signal_through_the_driver(service: Make, client: Make) -> None:
    result = client(service().url).run(Job("import os; os.kill(os.getpid(), 9)", channel=True))
    assert (result.status, result.signal) == ("signal", signal.SIGKILL)


def test_order_is_kept(service: Make, client: Make) -> None:
    results = client(service().url, concurrency=4).run_many([Job(f"print({number})") for number in range(12)])
    assert [result.stdout for result in results] == [b"%d\n" % number for number in range(12)]


def test_no_more_requests_are_under_way_than_allowed(service: Make, client: Make) -> None:
    stub = service()
    client(stub.url, concurrency=2).run_many([Job("import time; time.sleep(0.05)")] * 8)
    assert stub.busiest == 2


def test_any_event_loop_may_ask(service: Make, client: Make) -> None:
    box = client(service().url)
    assert [asyncio.run(box.arun(Job("print(1)"))).stdout for _ in range(2)] == [b"1\n"] * 2


@pytest.mark.parametrize(
    "job",
    [Job("", language="cobol"), Job("", language="cpp", flags=("-O3",)), Job("", language="cpp", channel=True), Job("", "bash", b"\xff")],
)
def test_what_a_service_cannot_do_is_refused_without_asking(service: Make, client: Make, job: Job) -> None:
    stub = service()
    assert client(stub.url).run(job).status == "infra_error"
    assert stub.seen == []


def test_headers_go_along_and_are_not_shown(service: Make, client: Make, kind: Any) -> None:
    stub = service()
    client(stub.url, headers=(("X-Api-Key", "secret"),)).run(Job(""))
    assert stub.headers[0]["X-Api-Key"] == "secret"
    assert "secret" not in repr(kind(stub.url, headers=(("X-Api-Key", "secret"),)))
