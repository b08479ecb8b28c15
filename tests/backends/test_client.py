"""`RewardClient` against a server of a few lines that can be told to misbehave."""

from __future__ import annotations

import asyncio
import json
import math
import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import guerdon
import guerdon.rewards as R
from guerdon import Message, Rollout, Status
from guerdon.backends.client import RewardClient
from guerdon.errors import ConfigError, SandboxError

pytest.importorskip("httpx")

Reply = tuple[int, bytes, dict[str, str]]


def scored(row: dict[str, Any]) -> dict[str, Any]:
    """What a server answers for one row: the completion as the reward."""
    value = float(row["completion"])
    part = {"score": value, "weight": 2.0, "status": "scored", "reason": "", "detail": "", "extracted": None, "seconds": 0.5}
    return {"reward": 2 * value, "outcome": None, "abstained": False, "components": {"echo": part}, "id": row.get("id")}


class Server(ThreadingHTTPServer):
    """Answers as `guerdon serve` does, except where `script` has something else for the next requests."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.script: list[Callable[[list[dict[str, Any]]], Reply | None]] = []
        self.requests: list[list[dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.under_way = self.most_under_way = 0
        self.delay_s = 0.0
        self.most_bytes = 1 << 30

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections the client gave up are no news."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.reply(200, json.dumps({"path": self.path, "token": self.headers.get("Authorization")}).encode(), {})

    def do_POST(self) -> None:
        server = self.server
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if len(content) > server.most_bytes:
            return self.reply(413, b'{"detail":"too large"}', {})
        rows = json.loads(content)["rollouts"]
        with server.lock:
            server.requests.append(rows)
            server.headers.append(dict(self.headers))
            scripted = server.script.pop(0) if server.script else None
            server.under_way += 1
            server.most_under_way = max(server.most_under_way, server.under_way)
        time.sleep(server.delay_s)
        reply = scripted(rows) if scripted else (200, json.dumps({"results": [scored(row) for row in rows]}).encode(), {})
        with server.lock:
            server.under_way -= 1
        if reply is None:
            self.close_connection = True
            self.connection.close()
        else:
            self.reply(*reply)
        return None

    def reply(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
    thread.start()
    yield server
    guerdon.close()
    server.shutdown()
    thread.join()
    server.server_close()


def rows(n: int, **fields: Any) -> list[Rollout]:
    return [Rollout(str(i), prompt=f"p{i}", id=f"row{i}", **fields) for i in range(n)]


def rewards(client: RewardClient, rollouts: list[Rollout]) -> list[float | None]:
    return [score.reward for score in client.score(rollouts)]


def test_scores_keep_length_and_order_over_many_requests(server: Server) -> None:
    scores = RewardClient(server.url, rows_per_request=7, concurrency=5).score(rows(100))
    assert [(s.reward, s.id) for s in scores] == [(2.0 * i, f"row{i}") for i in range(100)]
    verdict = scores[3].components["echo"]
    assert (verdict.score, verdict.status, verdict.seconds) == (3.0, Status.SCORED, 0.5)
    assert scores[3].weights == {"echo": 2.0}
    assert (scores[3].abstained, scores[3].outcome) == (False, None)
    assert server.most_under_way <= 5
    assert len(server.requests) == 15


def test_no_rollouts_no_request(server: Server) -> None:
    assert RewardClient(server.url).score([]) == []
    assert server.requests == []


def test_everything_of_a_rollout_is_sent(server: Server) -> None:
    chat = (Message("assistant", "1", "why", ({"name": "f"},)), Message("tool", "2"))
    rollout = Rollout("1", (Message("user", "?"),), {"a": [1]}, chat, (5, 6), 2, False, columns={"tests": (1, 2)}, id="x")
    RewardClient(server.url).score([rollout])
    [row] = server.requests[0]
    assert row.pop("group")
    assert row == {
        "completion": "1",
        "prompt": [{"role": "user", "content": "?"}],
        "answer": {"a": [1]},
        "messages": [
            {"role": "assistant", "content": "1", "reasoning_content": "why", "tool_calls": [{"name": "f"}]},
            {"role": "tool", "content": "2"},
        ],
        "token_ids": [5, 6],
        "num_tokens": 2,
        "truncated": False,
        "columns": {"tests": [1, 2]},
        "id": "x",
    }


@pytest.mark.parametrize("by", ["group", "prompt"])
def test_a_group_is_never_split_and_two_calls_never_share_one(server: Server, by: str) -> None:
    rollouts = [Rollout(str(i), **({"group": ("g", i % 5)} if by == "group" else {"prompt": f"p{i % 5}"})) for i in range(50)]
    client = RewardClient(server.url, rows_per_request=12)
    assert rewards(client, rollouts) == [2.0 * i for i in range(50)]
    assert len(server.requests) == 5
    for sent in server.requests:
        assert len({row["group"] for row in sent}) == 1
        assert {int(row["completion"]) % 5 for row in sent} == {int(sent[0]["completion"]) % 5}
    before = {row["group"] for sent in server.requests for row in sent}
    client.score(rollouts)
    assert not before & {row["group"] for sent in server.requests[5:] for row in sent}


@pytest.mark.parametrize(
    "fault",
    [
        lambda _: (429, b"full", {"Retry-After": "0"}),
        lambda _: (503, b"draining", {"Retry-After": "0"}),
        lambda _: (502, b"<html>", {}),
        lambda _: None,
    ],
    ids=["429", "503", "502", "lost"],
)
def test_faults_that_pass_cost_no_row(server: Server, fault: Any) -> None:
    server.script = [fault, fault]
    assert rewards(RewardClient(server.url), rows(3)) == [0.0, 2.0, 4.0]
    assert len(server.requests) == 3


def test_a_full_server_is_waited_for_beyond_the_attempts(server: Server) -> None:
    server.script = [lambda _: (429, b"", {"Retry-After": "0"})] * 6
    assert rewards(RewardClient(server.url, attempts=2), rows(1)) == [0.0]


def test_retry_after_is_obeyed(server: Server) -> None:
    server.script = [lambda _: (429, b"", {"Retry-After": "1"})]
    start = time.monotonic()
    assert rewards(RewardClient(server.url), rows(1)) == [0.0]
    assert time.monotonic() - start >= 1.0


@pytest.mark.parametrize(
    "reply",
    [
        b"not json",
        b"{}",
        b'{"results": {}}',
        b'{"results": []}',
        b'{"results": [{"reward": NaN, "outcome": null, "abstained": false, "components": {}}]}',
        b'{"results": [{"reward": true, "outcome": null, "abstained": false, "components": {}}]}',
        b'{"results": [{"reward": 1, "outcome": null, "abstained": false, "components": {"a": {"score": 0.5, "status": "correct"}}}]}',
        b'{"results": [{"reward": 1, "outcome": null, "abstained": false, "components": {"a": {"score": 1, "status": "fine"}}}]}',
        b'{"results": [null]}',
        b"[" * 100_000,
    ],
)
def test_an_answer_of_another_schema_is_an_error_never_a_score(server: Server, reply: bytes) -> None:
    server.script = [lambda _: (200, reply, {})]
    [score] = RewardClient(server.url).score(rows(1))
    assert (score.reward, score.outcome, score.abstained, score.id) == (None, None, True, "row0")
    [verdict] = score.components.values()
    assert (verdict.status, verdict.reason) == (Status.ERROR, "service_failed")


def test_only_the_rows_of_a_lost_request_are_errors_and_keep_the_names(server: Server) -> None:
    server.script = [lambda _: (500, b"", {})]
    scores = RewardClient(server.url, rows_per_request=2, concurrency=1, attempts=1).score(rows(6))
    assert [score.reward for score in scores] == [None, None, 4.0, 6.0, 8.0, 10.0]
    assert all(list(score.components) == ["echo"] for score in scores)
    assert scores[0].components["echo"].status is Status.ERROR


def test_a_server_that_is_not_there_is_an_error_on_every_row_in_bounded_time() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as gone:
        port = gone.server_port
    scores = RewardClient(f"http://127.0.0.1:{port}", attempts=2).score(rows(300))
    assert {(s.reward, s.abstained, s.components["reward"].reason) for s in scores} == {(None, True, "service_failed")}
    guerdon.close()


@pytest.mark.parametrize(
    ("status", "said"), [(401, "GUERDON_TOKEN"), (403, "token="), (404, "without a path"), (422, "num_tokens"), (307, "307")]
)
def test_a_refusal_is_raised_with_what_the_server_says(server: Server, status: int, said: str) -> None:
    server.script = [lambda _: (status, b'{"detail":"soft_overlong reads num_tokens"}', {"Location": "/x"})] * 9
    server.delay_s = 0.01
    with pytest.raises(ConfigError, match=said):
        RewardClient(server.url, rows_per_request=2, concurrency=2).score(rows(100))
    assert len(server.requests) < 9  # the rest was not sent


def test_too_large_requests_go_in_parts_and_a_row_too_large_alone_is_an_error(server: Server) -> None:
    server.most_bytes = 600
    rollouts = [*rows(20), Rollout("9" + " " * 1000, prompt="large")]
    scores = RewardClient(server.url).score(rollouts)
    assert [score.reward for score in scores] == [*(2.0 * i for i in range(20)), None]
    assert "413" in scores[-1].components["echo"].detail


@pytest.mark.parametrize("column", [math.nan, Decimal(1), 10**5000, b"bytes", object()], ids=["nan", "decimal", "huge", "bytes", "object"])
def test_a_row_that_is_no_json_is_a_bad_reference_and_harms_no_other(server: Server, column: Any) -> None:
    scores = RewardClient(server.url).score([Rollout("1", columns={"c": column}), Rollout("2", prompt="q")])
    assert [score.reward for score in scores] == [None, 4.0]
    assert scores[0].components["echo"].status is Status.BAD_REFERENCE


def test_numpy_values_and_lone_surrogates_are_sent(server: Server) -> None:
    np = pytest.importorskip("numpy")
    RewardClient(server.url).score([Rollout("1", "\ud800", columns={"a": np.arange(2), "b": np.float32(0.5)})])
    [row] = server.requests[0]
    assert (row["columns"], row["prompt"]) == ({"a": [0, 1], "b": 0.5}, "?")


def test_a_late_answer_is_an_error_after_timeout_s_and_is_not_asked_for_again(server: Server) -> None:
    server.delay_s = 1.5
    start = time.monotonic()
    [score] = RewardClient(server.url, timeout_s=0.3).score(rows(1))
    assert time.monotonic() - start < 1.4
    assert (score.reward, score.components["reward"].reason) == (None, "deadline")
    time.sleep(0.5)
    assert len(server.requests) == 1


def test_waiting_for_a_free_connection_does_not_count_against_timeout_s(server: Server) -> None:
    server.delay_s = 0.2
    client = RewardClient(server.url, timeout_s=0.8, concurrency=1, rows_per_request=1)
    assert rewards(client, rows(6)) == [2.0 * i for i in range(6)]


@pytest.mark.parametrize("outer", [False, True], ids=["argument", "around"])
def test_what_is_done_when_the_deadline_passes_counts(server: Server, outer: bool) -> None:
    from guerdon.sandboxes.deadline import until

    def slow(_: object) -> Reply | None:
        time.sleep(3)
        return None

    server.script = [slow]
    client = RewardClient(server.url, rows_per_request=1)
    start = time.monotonic()
    with until(start + 0.7 if outer else None):
        scores = client.score(rows(4), None if outer else 0.7)
    assert time.monotonic() - start < 2.5
    assert sorted(score.reward is None for score in scores) == [False, False, False, True]
    assert [list(score.components) for score in scores] == [["echo"]] * 4


def test_equal_clients_share_connections_among_threads_and_stay_bounded(server: Server) -> None:
    server.delay_s = 0.02

    def work(_: int) -> list[float | None]:
        return rewards(RewardClient(server.url, concurrency=3, rows_per_request=2), rows(10))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [[2.0 * i for i in range(10)]] * 8
    assert server.most_under_way <= 3


def test_loops_are_not_blocked_and_both_ways_work_inside_one(server: Server) -> None:
    server.delay_s = 0.3
    client = RewardClient(server.url)

    async def main() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        scores = await client.ascore(rows(2))
        assert [s.reward for s in scores] == [0.0, 2.0]
        assert ticks > 10
        ticking.cancel()
        assert client.score(rows(2)) == scores  # as in a notebook's cell

    asyncio.run(main())
    asyncio.run(main())


def test_a_reward_function_may_ask_the_server(server: Server) -> None:
    client = RewardClient(server.url)

    async def remote(rollouts: list[Rollout]) -> list[float | None]:
        return [score.reward for score in await client.ascore(rollouts)]

    assert R.from_function(remote, name="remote", batch=True)(rows(3)) == [0.0, 2.0, 4.0]


def test_a_cancelled_call_stops_asking(server: Server) -> None:
    server.delay_s = 0.05
    client = RewardClient(server.url, concurrency=1, rows_per_request=1)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.12):
                await client.ascore(rows(100))

    asyncio.run(main())
    time.sleep(0.2)
    assert len(server.requests) < 8


def _in_child(url: str, connection: Any) -> None:
    connection.send(rewards(RewardClient(url), rows(3)))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_it_works_in_forked_children_of_a_process_that_used_it(server: Server) -> None:
    rewards(RewardClient(server.url), rows(1))
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_in_child, args=(server.url, there))
    child.start()
    assert here.poll(20)
    assert here.recv() == [0.0, 2.0, 4.0]
    child.join(20)
    assert child.exitcode == 0
    assert rewards(RewardClient(server.url), rows(1)) == [0.0]


def test_it_pickles_and_compares_by_value() -> None:
    client = RewardClient("http://127.0.0.1:1", "t")
    assert pickle.loads(pickle.dumps(client)) == client == RewardClient("http://127.0.0.1:1/", "t")


def test_close_ends_a_running_call_and_later_ones_start_afresh(server: Server) -> None:
    server.delay_s = 0.4
    client = RewardClient(server.url)
    threading.Timer(0.15, guerdon.close).start()
    with pytest.raises(SandboxError):
        client.score(rows(1))
    assert rewards(client, rows(1)) == [0.0]


def test_the_token_is_sent_and_never_shown(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUERDON_TOKEN", "from the environment")
    client = RewardClient(server.url, token="s3cret")
    client.score(rows(1))
    RewardClient(server.url).score(rows(1))
    assert [h["Authorization"] for h in server.headers] == ["Bearer s3cret", "Bearer from the environment"]
    assert client.info() == {"path": "/info", "token": "Bearer s3cret"}
    assert "s3cret" not in repr(client)


def test_info_of_no_server_says_what_to_start() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as gone:
        port = gone.server_port
    with pytest.raises(ConfigError, match="guerdon serve"):
        RewardClient(f"http://127.0.0.1:{port}").info()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", "127.0.0.1:8000"),
        ("url", None),
        ("token", "line\nbreak"),
        ("timeout_s", 0),
        ("timeout_s", math.inf),
        ("concurrency", 0),
        ("attempts", 1.5),
        ("rows_per_request", True),
    ],
)
def test_arguments_are_checked_when_built(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        RewardClient(**{"url": "http://127.0.0.1:1", field: value})


def test_importing_it_loads_no_httpx() -> None:
    import subprocess
    import sys

    code = "import sys, guerdon.backends.client; sys.exit(any(m in sys.modules for m in ('httpx', 'numpy', 'torch')))"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ).returncode == 0


def test_what_is_no_rollout_is_named(server: Server) -> None:
    with pytest.raises(ConfigError, match="Rollout"):
        RewardClient(server.url).score([{"completion": "4"}])  # type: ignore[list-item]
