"""The server as a process: what no fault of a reward, a worker or a signal may do to other requests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from serve_process import (
    REWARD,
    Server,
    alive,
    assert_gone,
    body,
    children,
    ended,
    parsed,
    ready,
    reward_file,
    serving,
    start,
    start_in_python,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    reward = reward_file(tmp_path_factory.mktemp("served"))
    with serving(reward, "--workers", "2", "--timeout", "0.3", "--deadline", "20", "--log-level", "error") as running:
        yield running


def many(server: Server, completions: list[str]) -> list[httpx.Response]:
    """One request each, at once."""
    with ThreadPoolExecutor(32) as pool:
        return list(pool.map(lambda c: server.client.post("/get_reward", json=body(c)), completions))


def test_both_doors_give_the_same_reward(server: Server) -> None:
    answer = server.client.post("/get_reward", json=body("ok:1")).json()
    assert (answer["rewards"], answer["scores"]) == ([1.0], [1.0])
    assert server.score("ok:1")["reward"] == 1.0
    assert server.client.post("/remote_rm", json={"prompt": "p", "response": "ok:1", "label": None}).json() == 1.0


@pytest.mark.slow
def test_a_row_that_overruns_is_an_error_and_its_neighbours_are_not(server: Server) -> None:
    answers = many(server, ["ok:1"] * 20 + ["sleep:2"] + ["ok:1"] * 20)
    assert [a.status_code for a in answers] == [200] * 41
    abstained = [parsed(a.content)["extra_logs"]["guerdon/abstained"][0] for a in answers]
    assert abstained == [0.0] * 20 + [1.0] + [0.0] * 20
    assert server.score("sleep:2")["components"]["obey"]["reason"] == "checker_timeout"


@pytest.mark.parametrize(("word", "reason"), [("spin", "checker_timeout"), ("hold", "checker_timeout"), ("die", "lost_worker")])
@pytest.mark.slow
def test_a_poison_row_is_an_error_and_the_rest_of_its_request_and_batch_is_scored(server: Server, word: str, reason: str) -> None:
    rollouts = [{"completion": "ok:1"}, {"completion": word}, {"completion": "ok:1"}]
    with ThreadPoolExecutor(1) as pool:
        poisoned = pool.submit(server.client.post, "/score/batch", json={"rollouts": rollouts})
        clean = many(server, ["ok:1"] * 30)
        results = parsed(poisoned.result(60).content)["results"]
    assert [r["reward"] for r in results] == [1.0, None, 1.0]
    assert (results[1]["components"]["obey"]["status"], results[1]["components"]["obey"]["reason"]) == ("error", reason)
    assert all(parsed(a.content)["rewards"] == [1.0] for a in clean)
    assert server.score("ok:1")["reward"] == 1.0


@pytest.mark.parametrize("word", ["raise", "nan"])
@pytest.mark.slow
def test_what_breaks_is_counted_and_filled_at_openrlhfs_door_and_null_at_ours(server: Server, word: str) -> None:
    answer = parsed(server.client.post("/get_reward", json=body(word)).content)
    assert (answer["rewards"], answer["extra_logs"]["guerdon/rows/error"]) == ([0.0], [1.0])
    assert (server.score(word)["reward"], server.score(word)["abstained"]) == (None, True)


def test_a_killed_worker_loses_no_request(server: Server) -> None:
    stop, killed = threading.Event(), []

    def killer() -> None:
        while not stop.wait(0.5):
            victim = server.worker_pids()[:1]
            if victim and len(killed) < 2:
                os.kill(victim[0], signal.SIGKILL)
                killed.append(victim[0])

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        answers = many(server, ["sleep:0.02"] * 150)
    finally:
        stop.set()
        thread.join()
    assert killed
    assert [parsed(a.content)["rewards"] for a in answers] == [[1.0]] * 150
    assert server.metric("guerdon_worker_restarts") >= len(killed)


@pytest.mark.slow
def test_a_request_that_kills_one_worker_is_tried_again(server: Server, tmp_path: Path) -> None:
    assert server.score(f"die_once:{tmp_path / 'mark'}")["reward"] == 1.0


@pytest.mark.slow
def test_a_slow_row_lets_others_pass(tmp_path: Path) -> None:
    with serving(reward_file(tmp_path), "--workers", "1", "--log-level", "error") as server, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(server.score, "sleep:3")
        time.sleep(0.2)
        started = time.monotonic()
        assert server.score("ok:1")["reward"] == 1.0
        assert not slow.done()
        assert time.monotonic() - started < 2.5
        assert slow.result()["reward"] == 1.0


@pytest.mark.slow
def test_the_deadline_answers_what_is_not_done_and_frees_the_worker(tmp_path: Path) -> None:
    with serving(reward_file(tmp_path), "--workers", "1", "--deadline", "1", "--log-level", "error") as server:
        for word in ("spin", "hold", "sleep:30"):
            started = time.monotonic()
            found = server.score(word)
            assert found["components"]["obey"]["reason"] == "deadline"
            assert time.monotonic() - started < 6
            end = time.monotonic() + 20
            while server.score("ok:1")["reward"] != 1.0:  # until the held worker is replaced
                assert time.monotonic() < end
        assert server.metric('guerdon_rows_total{component="obey",status="error"}') >= 3


@pytest.mark.slow
def test_a_row_without_end_costs_its_own_request_only_itself(tmp_path: Path) -> None:
    rollouts = [{"completion": c} for c in ("ok:1", "sleep:30", "ok:1")]
    with (
        serving(reward_file(tmp_path), "--workers", "1", "--deadline", "4", "--log-level", "error") as server,
        ThreadPoolExecutor(1) as pool,
    ):
        asked = pool.submit(server.client.post, "/score/batch", json={"rollouts": rollouts})
        clean = many(server, ["ok:1"] * 20)
        assert all(parsed(a.content)["rewards"] == [1.0] for a in clean)
        results = asked.result().json()["results"]
        assert (results[0]["reward"], results[1]["components"]["obey"]["reason"]) == (1.0, "deadline")


@pytest.mark.slow
def test_a_burning_thread_takes_its_worker_with_it(server: Server) -> None:
    before = set(server.worker_pids())
    assert server.score("spin")["reward"] is None
    end = time.monotonic() + 15
    while not before - set(server.worker_pids()):
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
def test_sigterm_finishes_what_is_in_flight(tmp_path: Path) -> None:
    with serving(reward_file(tmp_path), "--workers", "1") as server, ThreadPoolExecutor(4) as pool:
        running = [pool.submit(server.score, "sleep:1.5") for _ in range(3)]
        with httpx.Client(base_url=server.url) as other:
            assert other.get("/readyz").status_code == 200
            time.sleep(0.4)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            ready, refused = other.get("/readyz"), other.post("/score", json={"completion": "ok:1"})
        assert (ready.status_code, refused.status_code) == (503, 503)
        assert refused.headers["retry-after"]
        assert [future.result()["reward"] for future in running] == [1.0] * 3
        assert server.process.wait(20) == 0


@pytest.mark.slow
def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with serving(reward_file(tmp_path), "--workers", "1", "--log-level", "error") as server, ThreadPoolExecutor(1) as pool:
        running = pool.submit(httpx.post, f"{server.url}/score", json={"completion": "sleep:50"}, timeout=60)
        time.sleep(0.4)
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(15) == 1
        assert running.result().status_code == 503  # come again, elsewhere


@pytest.mark.slow
def test_workers_end_with_a_front_that_is_killed(tmp_path: Path) -> None:
    with serving(reward_file(tmp_path), "--workers", "2") as server:
        workers = server.worker_pids()
        with ThreadPoolExecutor(1) as pool:
            held = pool.submit(httpx.post, f"{server.url}/score", json={"completion": "hold"}, timeout=10)
            time.sleep(0.3)
            server.process.kill()
            assert held.exception() is not None
        server.process.wait(20)
        assert_gone(workers)


@pytest.mark.slow
def test_reload_takes_the_new_file_keeps_the_old_one_when_it_is_broken_and_waits_for_nobody(tmp_path: Path) -> None:
    with serving(reward_file(tmp_path), "--workers", "1", "--log-level", "error") as server:
        assert server.score("version")["reward"] == 1.0
        (tmp_path / "served.py").write_text(REWARD.replace("VERSION = 1.0", "VERSION = 0.5"))
        assert server.client.post("/reload").status_code == 200
        assert server.score("version")["reward"] == 0.5
        (tmp_path / "served.py").write_text("reward = missing")
        answer = server.client.post("/reload")
        assert (answer.status_code, "missing" in answer.json()["detail"]) == (422, True)
        assert server.score("version")["reward"] == 0.5
        with ThreadPoolExecutor(1) as pool, httpx.Client(base_url=server.url) as other:
            slow = pool.submit(server.score, "sleep:1.5")
            time.sleep(0.3)
            assert other.post("/reload").status_code == 409
            assert slow.result()["reward"] == 1.0


@pytest.mark.slow
def test_a_full_queue_refuses_before_it_grows(tmp_path: Path) -> None:
    with serving(reward_file(tmp_path), "--workers", "1", "--max-queue", "20", "--batch-size", "4") as server:
        answers = many(server, ["sleep:0.3"] * 60)
        refused = [a for a in answers if a.status_code == 429]
        assert refused
        assert all(int(a.headers["retry-after"]) >= 1 for a in refused)
        assert {a.status_code for a in answers} == {200, 429}


@pytest.mark.slow
def test_processes_share_a_port_are_restarted_and_add_up_their_metrics(tmp_path: Path) -> None:
    with serving(reward_file(tmp_path), "--workers", "1", "--processes", "2", "--log-level", "error") as server:
        answers = many(server, ["ok:1"] * 60)
        assert all(parsed(a.content)["rewards"] == [1.0] for a in answers)
        assert server.metric('guerdon_request_seconds_count{code="200",path="/get_reward"}') == 60
        assert server.client.post("/reload").status_code == 409
        fronts = server.worker_pids()
        assert len(fronts) == 2
        orphans = children(fronts[0])
        os.kill(fronts[0], signal.SIGKILL)
        assert_gone([fronts[0], *orphans])
        end = time.monotonic() + 20
        while len([pid for pid in server.worker_pids() if alive(pid)]) < 2:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert all(a.status_code == 200 for a in many(server, ["ok:1"] * 60))
        assert server.stop() == 0


# -- clients that misbehave


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with ready(start_in_python(reward_file(tmp_path_factory.mktemp("impatient")), read_s=1.0, max_body_mb=0.5)) as server:
        yield server


HEAD = b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("start", "piece", "expected"),
    [
        (b"POST /sco", b"r", b"408"),
        (HEAD + b"X-A: ", b"b", b"408"),
        (HEAD + b"Content-Length: 1000\r\n\r\n", b" ", b"408"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", b"408"),
        (b"", b"", b"408"),
        (HEAD + b"X-A: " + b"b" * 70_000, b"b", b"431"),
        (b"NONSENSE\r\n\r\n", b"", b"400"),
        (HEAD + b"Content-Length: 99999999\r\n\r\n", b" ", b"413"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"20000\r\n" + b" " * 0x20000 + b"\r\n", b"413"),
        (HEAD + b"Content-Length: -5\r\n\r\n", b"", b"400"),
    ],
)
@pytest.mark.slow
def test_a_client_that_trickles_or_floods_is_refused_and_closed(impatient: Server, start: bytes, piece: bytes, expected: bytes) -> None:
    with socket.create_connection(("127.0.0.1", impatient.port)) as connection:
        connection.settimeout(0.1)
        connection.sendall(start)
        got, end = b"", time.monotonic() + 10
        while time.monotonic() < end:
            try:
                if piece:
                    connection.sendall(piece)
                chunk = connection.recv(4096)
                if not chunk:
                    break
                got += chunk
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() < end
    assert got.startswith(b"HTTP/1.1 " + expected), got
    assert impatient.score("ok:1")["reward"] == 1.0


@pytest.mark.slow
def test_a_body_too_large_is_refused_to_a_client_that_sends_all_of_it(impatient: Server) -> None:
    assert impatient.client.post("/score", content=b" " * 1_500_000, headers={"content-type": "application/json"}).status_code == 413


# -- the start


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("reward = missing", "missing"),
        ("import sys; sys.exit(3)", "exit"),
        ("import os; os._exit(3)", "exit code 3"),
        ("reward = 5", "expected a reward"),
        ("other = 1", "no 'reward'"),
    ],
)
@pytest.mark.slow
def test_a_reward_that_cannot_be_loaded_fails_the_command_in_one_line(tmp_path: Path, source: str, says: str) -> None:
    (tmp_path / "broken.py").write_text(source)
    for processes in ("1", "2") if "missing" in source else ("1",):
        found = start(f"{tmp_path / 'broken.py'}:reward", "--workers", "1", "--processes", processes, errors=subprocess.PIPE)
        with ended(found):
            out, err = found.communicate(timeout=60)
        assert (found.returncode, out) == (2, "")
        assert err.count("\n") == 1, err
        assert says in err.lower()
