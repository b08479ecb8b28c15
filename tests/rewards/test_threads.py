"""Which thread a leaf runs in."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

import guerdon.rewards as R
from guerdon import Rollout, Status, Verdict
from guerdon.verifiers.math import MathVerifier


class _Here(MathVerifier):
    """Says where it was asked."""

    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        return [Verdict.of(Status.CORRECT, detail=threading.current_thread().name) for _ in rollouts]


@pytest.mark.parametrize(("rows", "threads"), [(1, 0), (64, 0), (65, 2)])
def test_brief_leaves_need_no_thread_for_a_few_rows(rows: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(threading.Thread, "start", _noted(threading.Thread.start, started))
    (R.exact() + R.boxed_format()).score([Rollout("x", answer="x")] * rows, 5.0)
    assert len(started) == threads


def test_a_verifier_of_the_users_has_a_thread_even_if_it_extends_a_brief_one() -> None:
    scores = R.verified(_Here()).score([Rollout("x", answer="x")], 5.0)
    assert scores.outcomes[0].detail == "guerdon-leaf"


def _noted(start: Any, names: list[str]) -> Any:
    def noted(self: threading.Thread) -> None:
        names.append(self.name)
        start(self)

    return noted
