"""The conformance checks accept good rewards and find each fault they promise to find."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import guerdon.rewards as R
from guerdon import Rollout, Status, Verdict
from guerdon.sandboxes import Capabilities, Job, RunResult, Zygote
from guerdon.testing import assert_scores, check_reward, check_sandbox, check_verifier, check_worker

ROWS = [Rollout("4", answer="4"), Rollout("5", answer="4"), Rollout("seven", answer="4"), Rollout("four", answer="four")]
COUNT = {"calls": 0}
SEEN = threading.local()


def good(rollout: Rollout) -> float:
    return float(len(rollout.completion) < 3)


def impure(rollout: Rollout) -> float:
    COUNT["calls"] += 1
    return float(COUNT["calls"])


def crashes_on_empty(rollout: Rollout) -> float:
    return float(ord(rollout.completion[0]))


def bound_to_a_thread(rollout: Rollout) -> float:
    SEEN.name = getattr(SEEN, "name", threading.current_thread().name)
    return float(SEEN.name == "MainThread")


def looks_at_neighbours(rollouts: Sequence[Rollout]) -> list[float]:
    return [float(i) for i, _ in enumerate(rollouts)]


def spoils_others(rollouts: Sequence[Rollout]) -> list[float]:
    return [float(any("\x00" in r.completion for r in rollouts))] * len(rollouts)


def changes_rows(rollout: Rollout) -> float:
    rollout.columns["seen"] = True  # type: ignore[index]
    return 1.0


def test_a_good_reward_passes() -> None:
    check_reward(0.5 * R.exact() + R.from_function(good), ROWS)


def test_a_built_in_reward_scores_alike_in_another_process() -> None:
    check_reward(R.exact() + R.think_format(), ROWS, another_process=True)


@pytest.mark.parametrize(
    ("reward", "fault"),
    [
        (R.from_function(impure), "not pure"),
        (R.from_function(bound_to_a_thread), "threads"),
        (R.from_function(looks_at_neighbours, batch=True), "order"),
        (R.from_function(spoils_others, batch=True), "other rows"),
        (R.from_function(changes_rows), "changed the rollouts"),
        (R.from_function(crashes_on_empty), "IndexError"),
    ],
)
def test_each_fault_is_found(reward: R.Term, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_reward(reward, ROWS)


def test_a_reward_that_cannot_pickle_is_found() -> None:
    with pytest.raises(AssertionError, match="pickling failed"):
        check_reward(R.from_function(lambda r: 1.0, name="f"), ROWS)


@dataclass(frozen=True)
class Broken(R.Leaf):
    """A leaf that breaks the contract in the way `how` says."""

    how: str
    name: str = "broken"

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        if self.how == "raises":
            raise KeyError("x")
        return [1.0 for _ in rollouts] if self.how == "floats" else [Verdict.of(Status.CORRECT)]  # type: ignore[misc]


@dataclass
class Thawed(R.Leaf):
    name: str = "thawed"

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        return [Verdict(1.0, Status.SCORED) for _ in rollouts]


@pytest.mark.parametrize("how", ["raises", "floats", "short"])
def test_a_reward_that_is_broken_on_every_row_does_not_pass(how: str) -> None:
    with pytest.raises(AssertionError, match="broken on row 0"):
        check_reward(Broken(how), ROWS)


@dataclass(frozen=True)
class Foreign:
    """An object that follows the Reward protocol and nothing more."""

    name: str = "foreign"
    reads: frozenset[str] = frozenset()
    fingerprint: str = "1"

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        return [Verdict(2.0, Status.SCORED) for _ in rollouts]


def test_an_object_that_follows_the_protocol_is_checked_too() -> None:
    check_reward(Foreign(), ROWS)
    assert_scores(Foreign(), [("x", None, 2.0)])


@pytest.mark.parametrize("thing", [R.exact, Broken, 3])
def test_something_that_is_no_reward_is_said_so(thing: Any) -> None:
    with pytest.raises(AssertionError, match="expected a reward"):
        check_reward(thing, ROWS)


def test_a_reward_that_is_not_frozen_does_not_pass() -> None:
    with pytest.raises((AssertionError, TypeError), match="hash"):
        check_reward(Thawed(), ROWS)


@dataclass(frozen=True)
class Raises:
    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        return [Verdict.graded(float(r.completion[0] == "4")) for r in rollouts]


@dataclass(frozen=True)
class Shapes:
    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        return [Verdict(2.0, Status.SCORED) for _ in rollouts]


@dataclass(frozen=True)
class Short:
    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        return [Verdict.of(Status.CORRECT)]


def test_a_verifier_that_raises_on_hostile_text_is_found() -> None:
    with pytest.raises(AssertionError, match="judge raised IndexError"):
        check_verifier(Raises(), ROWS)


@pytest.mark.parametrize(("verifier", "fault"), [(Shapes(), "SCORED"), (Short(), "1 verdicts for 4")])
def test_a_verifier_that_breaks_the_contract_is_found(verifier: Any, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_verifier(verifier, ROWS)


def test_a_golden_table_reports_every_row_that_differs() -> None:
    assert_scores(R.exact(), [("4", "4", 1.0), (Rollout("4", answer="5"), None, 0.0), ("4", "4", Status.CORRECT)])
    with pytest.raises(AssertionError) as failure:
        assert_scores(R.exact(), [("4", "4", 0.0), ("4", "4", 1.0), ("5", "4", None), ("5", "4", "no_answer")])
    assert [f"row {i}" in str(failure.value) for i in range(4)] == [True, False, True, True]


def test_a_worker_function_is_run_and_its_failures_are_reported() -> None:
    assert check_worker("operator:add", [(1, 2), (3, 4)]) == [3, 7]
    with pytest.raises(AssertionError, match="1 of 2 jobs failed"):
        check_worker("operator:truediv", [(1, 2), (1, 0)])


def test_the_default_sandbox_keeps_what_verifiers_rely_on() -> None:
    check_sandbox(Zygote(workers=2))


@dataclass(frozen=True)
class Forgetful:
    """A sandbox that says every program went well."""

    min_isolation: str = "none"

    def start(self) -> Any:
        return self

    def capabilities(self) -> Capabilities:
        return Capabilities("fake", "none", ("python",), slots=1)

    def run_many(self, jobs: Sequence[Job]) -> list[RunResult]:
        return [RunResult("ok", stdout=job.stdin) for job in jobs]

    def close(self) -> None: ...

    def disown(self) -> None: ...


def test_a_sandbox_that_loses_statuses_is_found() -> None:
    with pytest.raises(AssertionError, match="the programs ended as"):
        check_sandbox(Forgetful())
