"""The server as a process, under poison, kills, edited files and clients that do as HTTP allows but few do."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from serve_process import REWARD, Server, alive, ended, parsed, ready, reward_file, serving, start, start_in_python


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(
        reward_file(tmp_path_factory.mktemp("served")), "--workers", "2", "--timeout", "0.4", "--log-level", "critical"
    ) as running:
        yield running


def asked(server: Server, completions: list[str]) -> Any:
    """The results of one request."""
    answer = httpx.post(f"{server.url}/score/batch", json={"rollouts": [{"completion": c} for c in completions]}, timeout=90)
    assert answer.status_code == 200
    return parsed(answer.content)["results"]


@pytest.mark.slow
def test_poison_in_several_requests_at_once_harms_only_its_own_rows(server: Server) -> None:
    words = ["hold", "spin", "die", "raise", "sleep:5", "nan"]
    with ThreadPoolExecutor(len(words)) as pool:
        found = list(pool.map(lambda word: asked(server, ["ok:1", word, "ok:1"]), words))
    assert [[result["reward"] for result in results] for results in found] == [[1.0, None, 1.0]] * len(words)
    assert {results[1]["components"]["obey"]["status"] for results in found} == {"error"}


@pytest.mark.parametrize("words", [["hold"], ["hold", "ok:1", "raise", "sleep:1"]], ids=["alone", "among others"])
@pytest.mark.slow
def test_without_a_row_limit_what_holds_the_interpreter_harms_only_its_own_row(tmp_path: Path, words: list[str]) -> None:
    with (
        serving(reward_file(tmp_path), "--workers", "2", "--deadline", "240", "--log-level", "critical") as server,
        ThreadPoolExecutor(len(words)) as pool,
    ):
        found = list(pool.map(lambda word: asked(server, ["ok:1", word, "ok:1"]), words))
    assert [[result["reward"] for result in results] for results in found] == [[1.0, {"ok": 1.0, "sl": 1.0}.get(w[:2]), 1.0] for w in words]
    assert found[0][1]["components"]["obey"]["reason"] == "lost_worker"


@pytest.mark.slow
def test_an_interrupt_of_the_rewards_own_is_answered_at_once(server: Server) -> None:
    started = time.monotonic()
    assert server.score("interrupt")["components"]["obey"]["reason"] == "exception"
    assert time.monotonic() - started < 10


@pytest.mark.slow
def test_metrics_count_each_row_that_is_answered_once_whatever_dies(server: Server) -> None:
    def rows(status: str = "") -> float:
        return server.metric(f'guerdon_rows_total{{component="obey",status="{status}' if status else 'guerdon_rows_total{component="obey"')

    before, errors, abstained = rows(), rows("error"), server.metric("guerdon_abstained_rows_total")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda word: asked(server, [word, "ok:1", "ok:1"]), ["die", "ok:1", "sleep:5", "ok:1", "hold", "ok:1"]))
    unreadable = server.client.post("/get_reward", json={"query": [5, "p ok:1"], "prompts": ["p ", "p "], "labels": ["", ""]}).json()
    assert unreadable["extra_logs"]["guerdon/abstained"] == [1.0, 0.0]
    assert (rows() - before, rows("error") - errors, server.metric("guerdon_abstained_rows_total") - abstained) == (20, 4, 4)


def distinct(server: Server, numbers: range) -> list[Any]:
    """Asks for each number alone; what came back for it."""
    with httpx.Client(base_url=server.url, timeout=60) as client:
        return [client.post("/score", json={"completion": "ok:" + "x" * n, "id": str(n)}).json() for n in numbers]


@pytest.mark.slow
def test_every_answer_belongs_to_its_request_while_workers_are_killed(server: Server) -> None:
    with ThreadPoolExecutor(16) as pool:
        futures = [pool.submit(distinct, server, range(k * 60, k * 60 + 60)) for k in range(16)]
        for _ in range(2):
            time.sleep(0.4)
            os.kill(server.worker_pids()[0], signal.SIGKILL)
        found = [answer for future in futures for answer in future.result()]
    assert [(answer["id"], answer["components"]["length"]["score"]) for answer in found] == [(str(n), n + 3.0) for n in range(960)]


# -- workers and files


def eventually(condition: Any, within_s: float = 30) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
def test_a_reload_beside_a_lost_worker_leaves_as_many_workers_as_there_were(tmp_path: Path) -> None:
    def at_work() -> int:
        return len([pid for pid in server.worker_pids() if alive(pid)])

    with serving(reward_file(tmp_path), "--workers", "2", "--log-level", "critical") as server:
        for source, status in ((REWARD, 200), ("reward = missing", 422)):
            (tmp_path / "served.py").write_text(source)
            os.kill(server.worker_pids()[0], signal.SIGKILL)
            eventually(lambda: server.metric("guerdon_workers") < 2)
            assert server.client.post("/reload").status_code == status
            (tmp_path / "served.py").write_text(REWARD)
            eventually(lambda: server.metric("guerdon_workers") == 2 == at_work())
            time.sleep(1.0)
            assert at_work() == 2


@pytest.mark.slow
def test_a_worker_that_finds_another_reward_in_the_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import guerdon.rewards as R\nreward = R.math_equal()\n")
    with ready(start(f"{tmp_path / 'mine.py'}:reward", "--workers", "1", errors=subprocess.PIPE)) as server:
        (tmp_path / "mine.py").write_text("import guerdon.rewards as R\nreward = 2 * R.math_equal()\n")
        first = server.worker_pids()[0]
        os.kill(first, signal.SIGKILL)
        eventually(lambda: first not in server.worker_pids() and server.client.get("/readyz").status_code == 200)
        server.process.terminate()
        assert "loaded another reward than the others" in server.process.communicate(timeout=30)[1]


@pytest.mark.slow
def test_what_is_printed_and_warned_by_a_reward_is_logged_below_error_and_the_address_is_flushed(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text("import warnings\n" + REWARD + "\nwarnings.warn('mind the gap')\n")
    process = start_in_python(f"{tmp_path / 'loud.py'}:reward", errors=subprocess.PIPE, log_level="error")
    with ended(process):
        assert process.stdout is not None
        assert " at http://" in process.stdout.readline()
        process.terminate()
        assert process.communicate(timeout=30)[1] == ""


# -- HTTP

HEAD = b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
BODY = b'{"completion": "ok:1"}'


def resident_mb(server: Server) -> float:
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (CHUNKED + b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY), b"X-A: " + b"y" * 60_000 + b"\r\n"),
        (CHUNKED + b"%x\r\n%s\r\n0\r\nX-A: " % (len(BODY), BODY), b"y" * 60_000),
        (CHUNKED + b"5;", b"y" * 60_000),
    ],
    ids=["trailers", "one trailer", "an extension"],
)
@pytest.mark.slow
def test_what_surrounds_a_body_is_bounded_too(server: Server, first: bytes, piece: bytes) -> None:
    before, sent = resident_mb(server), len(first)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(10)
        connection.sendall(first)
        with suppress(OSError):  # it is cut
            while sent < 200_000_000:
                connection.sendall(piece)
                sent += len(piece)
    assert sent < 50_000_000
    assert resident_mb(server) - before < 30
    assert server.score("ok:1")["reward"] == 1.0


@pytest.mark.slow
def test_many_small_chunks_and_a_few_trailers_are_taken(server: Server) -> None:
    body = b'{"completion": "ok:%s"}' % (b"y" * 100_000)
    chunks = b"".join(b"1\r\n%s\r\n" % body[i : i + 1] for i in range(len(body)))
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(20)
        connection.sendall(CHUNKED + chunks + b"0\r\nX-Checksum: abc\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


@pytest.mark.slow
def test_a_client_that_ends_its_side_is_answered_and_then_closed(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(10)
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY))
        connection.shutdown(socket.SHUT_WR)
        got = b""
        while chunk := connection.recv(4096):
            got += chunk
    assert got.startswith(b"HTTP/1.1 200 ")
    assert got.endswith(b"}")


@pytest.mark.slow
def test_what_is_not_http_is_told_so_as_json(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(10)
        connection.sendall(HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n")
        got = connection.recv(4096)
    assert re.match(rb"HTTP/1.1 400 .*\r\n\r\n\{.detail.: ", got, re.DOTALL)


@pytest.mark.slow
def test_bodies_that_are_still_coming_in_count_as_queued(tmp_path: Path) -> None:
    with ready(start_in_python(reward_file(tmp_path), max_queue_mb=16.0)) as server:
        before = peak = resident_mb(server)
        with ExitStack() as connections:
            for _ in range(60):  # 400 MB
                connection = connections.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                connection.settimeout(5)
                with suppress(OSError):  # it may be cut while it sends
                    connection.sendall(HEAD + b"Content-Length: 8000000\r\n\r\n" + b" " * 7_000_000)
                peak = max(peak, resident_mb(server))
        assert peak - before < 90
        assert server.score("ok:1")["reward"] == 1.0
