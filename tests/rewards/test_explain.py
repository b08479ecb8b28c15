"""The explanation: every term, its weight, score, status and reason."""

from __future__ import annotations

import pytest

import guerdon.rewards as R
from guerdon import Rollout

from .conftest import Shape, check

REWARD = 0.8 * R.gate(check(0, "math"), on=Shape(1, "format")) + 0.2 * Shape(1, "format")


def test_explain_prints_the_tree(capsys: pytest.CaptureFixture[str]) -> None:
    REWARD.explain(Rollout("C0"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "total 0   outcome 1 (correct)"
    assert [line.strip().split("  ")[0] for line in lines[1:]] == ["0.8 * math", "- math", "on format", "0.2 * format"]
    assert "gate_closed: format gave 0, the gate opens at 1" in lines[1]


def test_an_abstaining_row_says_so() -> None:
    text = REWARD.explanation(Rollout("E1"))
    assert text.startswith("total none: the row abstains")
    assert "lost_worker" in text


def test_group_terms_see_the_siblings() -> None:
    size = R.from_function(lambda rollouts: [len(rollouts)] * len(rollouts), name="size", batch=True, reads=("group",))
    rollout = Rollout("a")
    assert "total 3" in size.explanation(rollout, [rollout, Rollout("b"), Rollout("c")])
