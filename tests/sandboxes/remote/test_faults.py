"""Services that fail, stall or talk nonsense: a clear status, no hang, no wrong verdict."""

from __future__ import annotations

import asyncio
import pickle
import socket
import sys
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from guerdon.errors import ConfigError, MissingExtra, SandboxError
from guerdon.sandboxes import Job, Limits, Piston, SandboxFusion, asking, registry, remote_client, sandbox, until

Make = Callable[..., Any]
ONE = Job("print(1)")
FAILURE = (500, {}, b"")
BUSY = (429, {"Retry-After": "0"}, b"{}")


def stalls(seconds: float) -> Callable[[], Any]:
    def answer() -> Any:
        time.sleep(seconds)
        return FAILURE

    return answer


@pytest.mark.parametrize("failure", [FAILURE, (503, {}, b"x"), BUSY, (429, {"Retry-After": formatdate(0)}, b"")])
def test_failures_that_may_pass_are_tried_again(service: Make, client: Make, failure: Any) -> None:
    stub = service(failure, failure)
    assert client(stub.url).run(ONE).stdout == b"1\n"
    assert len(stub.seen) == 3


def test_a_service_that_goes_on_failing_is_an_infra_error(service: Make, client: Make) -> None:
    stub = service(*[FAILURE] * 9)
    result = client(stub.url, attempts=3).run(ONE)
    assert (result.status, len(stub.seen)) == ("infra_error", 3)
    assert "500" in result.detail


def test_retry_after_is_waited_for(service: Make, client: Make) -> None:
    started = time.monotonic()
    client(service((429, {"Retry-After": "1"}, b"")).url).run(ONE)
    assert time.monotonic() - started >= 1


@pytest.mark.parametrize("answer", [(200, {}, b"<html>"), (200, {}, b'{"status": 1}'), (400, {}, b'{"message": "no"}'), (302, {}, b"")])
def test_an_answer_that_makes_no_sense_is_an_infra_error(service: Make, client: Make, answer: Any) -> None:
    stub = service(answer)
    assert client(stub.url).run(ONE).status == "infra_error"
    assert len(stub.seen) == 1


def test_a_late_answer_is_given_up_and_asked_for_again(service: Make, client: Make) -> None:
    stub = service(stalls(3))
    box = client(stub.url, grace_s=0.2, compile_s=0.1)
    assert box.run(Job("print(1)", limits=Limits(wall_s=0.5))).stdout == b"1\n"


def test_an_answer_that_drips_is_given_up(client: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        stop = threading.Event()
        thread = threading.Thread(target=drip, args=(server, stop))
        thread.start()
        started = time.monotonic()
        box = client(f"http://127.0.0.1:{server.getsockname()[1]}", grace_s=0.1, compile_s=0.1, attempts=2)
        result = box.run(Job("", limits=Limits(wall_s=0.3)))
        stop.set()
        thread.join()
    assert result.status == "infra_error"
    assert time.monotonic() - started < 5


def drip(server: socket.socket, stop: threading.Event) -> None:
    """Accept everyone and send each a byte of a long answer now and then."""
    peers: list[socket.socket] = []
    while not stop.is_set():
        try:
            peers.append(server.accept()[0])
            peers[-1].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        except OSError:
            pass
        for peer in peers:
            try:
                peer.sendall(b" ")
            except OSError:
                continue
    for peer in peers:
        peer.close()


def test_an_endless_answer_is_cut_off(service: Make, client: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_client, "_MAX_ANSWER", 1 << 20)
    result = client(service((200, {}, b"x" * (3 << 20))).url).run(ONE)
    assert (result.status, "more than 1 MB" in result.detail) == ("infra_error", True)


def test_a_refused_connection_is_an_infra_error(client: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    result = client(f"http://127.0.0.1:{port}", attempts=2).run(ONE)
    assert (result.status, "ConnectError" in result.detail) == ("infra_error", True)


def test_a_service_that_only_fails_is_left_alone_and_comes_back(service: Make, client: Make) -> None:
    stub = service(*[FAILURE] * 4)
    box = client(stub.url, attempts=1, failures=4, cooldown_s=0.3, concurrency=1)
    results = box.run_many([ONE] * 20)
    assert {result.status for result in results} == {"infra_error"}
    assert len(stub.seen) == 4
    time.sleep(0.35)
    assert {result.status for result in box.run_many([ONE] * 3)} == {"ok"}


def test_an_overloaded_service_does_not_open_the_circuit(service: Make, client: Make) -> None:
    stub = service(*[BUSY] * 3)
    assert client(stub.url, failures=2).run(ONE).status == "ok"


def test_one_bad_answer_does_not_touch_other_jobs(service: Make, client: Make) -> None:
    stub = service((200, {}, b"garbage"))
    results = client(stub.url, concurrency=1).run_many([ONE] * 4)
    assert [result.status for result in results] == ["infra_error", "ok", "ok", "ok"]


def test_the_deadline_of_a_call_is_kept(service: Make, client: Make) -> None:
    box = client(service(*[stalls(1.0)] * 2).url, concurrency=1)
    started = time.monotonic()
    with until(started + 0.4):
        results = box.run_many([ONE] * 3)
    assert time.monotonic() - started < 0.9
    assert {(result.status, result.timed_out_by) for result in results} == {("infra_error", "deadline")}


def test_closing_ends_calls_that_run(service: Make, kind: Any) -> None:
    box = kind(service(stalls(1.0)).url).start()
    errors: list[Exception] = []

    def call() -> None:
        try:
            box.run(ONE)
        except SandboxError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(0.2)
    box.close()
    thread.join(5)
    assert len(errors) == 1
    with pytest.raises(SandboxError, match="closed"):
        box.run(ONE)


def test_cancelling_an_async_call_returns_at_once(service: Make, client: Make) -> None:
    box = client(service(stalls(1.0)).url)

    async def main() -> float:
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(box.arun(ONE), 0.1)
        return time.monotonic() - started

    assert asyncio.run(main()) < 0.8


def test_the_spec_finds_its_shared_client_again(service: Make, kind: Any) -> None:
    spec = kind(service().url)
    assert sandbox(pickle.loads(pickle.dumps(spec))) is sandbox(spec)
    assert sandbox(spec).run(ONE).status == "ok"
    registry.drop(spec)


def test_nothing_is_left_after_closing(service: Make, kind: Any, open_fds: Callable[[], int]) -> None:
    stub = service()
    before, threads = open_fds(), threading.active_count()
    kind(stub.url).start().close()
    assert (open_fds(), threading.active_count()) == (before, threads)


@pytest.mark.parametrize("retry_after", [None, "", "soon", "1e999", "-5", "9" * 400, formatdate(2e9)])
def test_a_pause_is_never_long(retry_after: str | None) -> None:
    pauses = [asking.pause_s(attempt, retry_after) for attempt in range(0, 1000, 99)]
    assert all(0 < pause <= 30.25 for pause in pauses)


@pytest.mark.parametrize("url", ["", "fusion:8080", "ftp://x", "http://", None])
def test_a_url_must_be_one(kind: Any, url: Any) -> None:
    with pytest.raises(ConfigError, match="url"):
        kind(url)


@pytest.mark.parametrize(
    "option", [{"concurrency": 0}, {"attempts": True}, {"grace_s": 0}, {"min_isolation": "vm"}, {"headers": (("a",),)}]
)
def test_arguments_are_checked_when_built(kind: Any, option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        kind("http://x", **option)


def test_without_httpx_the_pip_line_is_named(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtra, match=r"guerdon\[remote\]"):
        kind("http://x").start()


def test_importing_the_room_loads_no_client(python: Callable[..., str]) -> None:
    loaded = python("-c", "import sys, guerdon.sandboxes as s; s.Docker, s.Piston; print(*sys.modules)").split()
    assert not {"httpx", "docker", "asyncio", "requests"} & set(loaded)


def test_specs_are_plain_values() -> None:
    assert hash(SandboxFusion("http://a")) == hash(SandboxFusion("http://a"))
    assert Piston("http://a") != Piston("http://a", concurrency=2)
