"""`R.remote` against a real `guerdon serve`, in both of the formats that it speaks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from serve_process import Server, reward_file, serving

import guerdon
import guerdon.rewards as R
from guerdon import Message, Rollout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("served")
    with serving(reward_file(folder), "--workers", "1", "--timeout", "1", "--log-level", "error") as running:
        yield running
    guerdon.close()


def test_scores_and_failures_of_rows_come_through(server: Server) -> None:
    rows = [Rollout("ok:1", prompt="p"), Rollout("raise", prompt="p"), Rollout("ok:2", prompt=(Message("user", "q"),)), Rollout("nan")]
    found = R.remote(server.url, format="score").verdicts(rows)
    assert [v.score for v in found] == [1.0, None, 1.0, None]
    assert [v.status.value for v in found] == ["scored", "error", "scored", "error"]
    assert "told to" in found[1].detail


def test_its_door_for_openrlhf_is_a_reward_model_like_others(server: Server) -> None:
    model = R.remote(server.url, format="openrlhf", batch_size=2)
    found = model.verdicts([Rollout("ok:1", prompt="p"), Rollout("raise", prompt="p"), Rollout("ok:3", prompt="p")])
    assert [v.score for v in found] == [1.0, None, 1.0]  # the fill of that door, 0, is no score
    assert found[1].reason == "service_failed"
