"""`RewardClient` against `guerdon serve` itself."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from serve_process import Server, reward_file, serving, start

import guerdon
from guerdon import Message, Rollout, Status
from guerdon.backends.client import RewardClient
from guerdon.errors import ConfigError
from guerdon.loading import load


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(reward_file(tmp_path_factory.mktemp("client")), "--workers", "2", "--timeout", "2", "--batch-size", "8") as found:
        yield found
    guerdon.close()


def test_the_server_gives_what_the_reward_gives_here(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import guerdon.rewards as R\nreward = R.math_equal() + 0.5 * R.think_format() + -0.1 * R.exact(column='other')\n")
    chat = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "4", "reasoning_content": "why"}]
    rollouts = [
        *(Rollout(f"<think>x</think>\\boxed{{{i}}}", f"p{i % 7}", str(i % 3), columns={"other": "1"}, id=f"r{i}") for i in range(100)),
        Rollout.from_messages(chat, answer="4"),
        Rollout("\\boxed{4}", (Message("user", "?"),), None, columns={"other": "\ud800"}),
    ]
    here = load(f"{file}:reward").score(rollouts)
    with serving(f"{file}:reward", "--workers", "1") as server:
        there = RewardClient(server.url, rows_per_request=16).score(rollouts)
    assert [score.reward for score in there] == pytest.approx(here.totals())
    assert [score.outcome for score in there] == [verdict.score for verdict in here.outcomes]
    assert [score.id for score in there] == [rollout.id for rollout in rollouts]
    for row, score in enumerate(there):
        assert {n: (v.score, v.status, v.reason, v.extracted) for n, v in score.components.items()} == {
            n: (v.score, v.status, v.reason, v.extracted) for n, v in here.components(row).items()
        }
    assert there[-1].abstained
    assert there[-1].components["math_equal"].status is Status.BAD_REFERENCE


@pytest.mark.slow
def test_group_terms_see_their_group_and_no_other(tmp_path: Path) -> None:
    rollouts = [Rollout(f"c{i}", group=i % 5) for i in range(40)]
    with serving(reward_file(tmp_path, "grouped"), "--workers", "1", "--batch-wait-ms", "20") as server, ThreadPoolExecutor(4) as pool:
        client = RewardClient(server.url, rows_per_request=8)
        for scores in pool.map(lambda _: client.score(rollouts), range(4)):
            assert [score.reward for score in scores] == [8.0] * 40


@pytest.mark.slow
def test_rows_that_break_are_errors_and_harm_no_other(server: Server) -> None:
    words = ["raise", "nan", "spin", "die"]
    rollouts = [Rollout(words[i] if i < 4 else f"ok:{i}", f"p{i}") for i in range(40)]
    scores = RewardClient(server.url, rows_per_request=10).score(rollouts)
    assert [score.reward for score in scores] == [None] * 4 + [1.0] * 36
    assert [score.components["obey"].status for score in scores[:4]] == [Status.ERROR] * 4
    assert all(score.abstained for score in scores[:4])


@pytest.mark.slow
def test_killed_workers_cost_no_row(server: Server) -> None:
    victim = server.worker_pids()[0]
    threading.Timer(0.3, os.kill, (victim, signal.SIGKILL)).start()
    scores = RewardClient(server.url, rows_per_request=4).score([Rollout("sleep:0.01", f"p{i}") for i in range(100)])
    assert [score.reward for score in scores] == [1.0] * 100
    assert victim not in server.worker_pids()


@pytest.mark.slow
def test_a_full_server_is_waited_for(tmp_path: Path) -> None:
    with serving(reward_file(tmp_path), "--workers", "1", "--max-queue", "8", "--batch-size", "4") as server:
        scores = RewardClient(server.url, rows_per_request=4, attempts=1).score([Rollout("sleep:0.02", f"p{i}") for i in range(60)])
        refused = server.metric('guerdon_request_seconds_count{code="429"')
    assert [score.reward for score in scores] == [1.0] * 60
    assert refused > 0


@pytest.mark.slow
def test_large_requests_are_cut_to_what_the_server_takes(tmp_path: Path) -> None:
    with serving(reward_file(tmp_path), "--workers", "1", "--max-body-mb", "0.05") as server:
        scores = RewardClient(server.url).score([*(Rollout("ok" + " " * 5000, f"p{i}") for i in range(40)), Rollout("x" * 60_000)])
    assert [score.reward for score in scores] == [1.0] * 40 + [None]
    assert "413" in scores[-1].components["obey"].detail


@pytest.mark.slow
def test_what_the_rollouts_lack_is_raised_and_named(tmp_path: Path) -> None:
    with serving(reward_file(tmp_path, "counted"), "--workers", "1") as server:
        client = RewardClient(server.url)
        with pytest.raises(ConfigError, match="num_tokens"):
            client.score([Rollout("4", answer="4")])
        assert client.score([Rollout("4", answer="4", num_tokens=1)])[0].reward == 1.0
        assert "num_tokens" in client.info()["reads"]


@pytest.mark.slow
def test_the_token_opens_the_door(tmp_path: Path) -> None:
    with serving(reward_file(tmp_path), "--workers", "1", headers={"Authorization": "Bearer secret"}, GUERDON_TOKEN="secret") as server:
        with pytest.raises(ConfigError, match="GUERDON_TOKEN"):
            RewardClient(server.url).score([Rollout("ok")])
        with pytest.raises(ConfigError, match="GUERDON_TOKEN"):
            RewardClient(server.url, token="wrong").info()
        assert RewardClient(server.url, token="secret").score([Rollout("ok")])[0].reward == 1.0


@pytest.mark.slow
def test_a_server_that_restarts_costs_no_row(tmp_path: Path) -> None:
    with serving(reward_file(tmp_path), "--workers", "1") as server:
        client = RewardClient(server.url, rows_per_request=4, concurrency=2, attempts=12)
        with ThreadPoolExecutor(1) as pool:
            scoring = pool.submit(client.score, [Rollout("sleep:0.05", f"p{i}") for i in range(60)])
            time.sleep(0.8)
            assert server.stop() == 0
            again = start(reward_file(tmp_path), "--workers", "1", "--port", str(server.port))
            try:
                assert [score.reward for score in scoring.result()] == [1.0] * 60
            finally:
                again.terminate()
                again.communicate(timeout=20)
