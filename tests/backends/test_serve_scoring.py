"""What a worker does with a batch, without its process: requests fail alone, and never see each other."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import pytest

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.backends.serve.frames import LATE, SOME, STEP, Door, Item, Work
from guerdon.backends.serve.scoring import Counts, Scorer, info_of
from guerdon.errors import LoadError
from guerdon.rewards.term import Term


def sizes(rollouts: list[Rollout]) -> list[float]:
    return [float(len(rollouts))] * len(rollouts)


def obey(rollout: Rollout) -> float:
    if rollout.completion == "slow":
        time.sleep(1.5)
    if rollout.completion == "interrupt":
        raise KeyboardInterrupt
    if rollout.completion == "fatal":
        raise LoadError("of the whole call, not of a row")
    return 1.0


REWARD = R.from_function(obey, name="obey", outcome=True)


def run(
    reward: Term,
    *requests: tuple[Door, Any],
    fill: float | None = None,
    step_s: float | None = None,
    limit_s: float = 20.0,
    final: bool = False,
    left_s: float = 60.0,
    lost: Any = None,
    row_s: float | None = None,
) -> Any:
    """Replies by request, the frames, the counts."""
    frames: list[Any] = []
    scorer = Scorer(reward, fill, info_of(reward), frames.append)
    items = tuple(Item(i, door, json.dumps(data).encode(), (lost or {}).get(i, {})) for i, (door, data) in enumerate(requests))
    counts = scorer.run(Work(0, items, step_s or limit_s, left_s, step_s is not None, final, True, row_s))
    said = [reply for frame in frames if frame[0] == SOME for reply in frame[2]]
    return {unit: (status, json.loads(body or b"null")) for unit, status, body, _ in said}, frames, counts


def marks(frames: list[Any]) -> Counter[Any]:
    """What the answers say of their rows: whether they abstain, and the statuses."""
    return Counter(mark for frame in frames if frame[0] == SOME for *_, found in frame[2] for mark in found)


def batch(*completions: str, **more: Any) -> tuple[Door, Any]:
    return "score_batch", {"rollouts": [{"completion": c, **more} for c in completions]}


def rewards(reply: tuple[int, Any]) -> list[Any]:
    assert reply[0] == 200, reply
    return [result["reward"] for result in reply[1]["results"]]


def test_terms_that_compare_siblings_see_their_own_request_only() -> None:
    reward = R.from_function(sizes, name="sizes", batch=True, reads=["group"])
    replies, *_ = run(reward, batch("a", "b", "c"), batch("a"), ("score", {"completion": "a"}))
    assert (rewards(replies[0]), rewards(replies[1]), replies[2][1]["reward"]) == ([3.0] * 3, [1.0], 1.0)


def test_requests_are_scored_in_one_call_where_terms_compare_nothing() -> None:
    replies, *_ = run(R.from_function(sizes, name="sizes", batch=True), batch("a", "b"), batch("c"))
    assert rewards(replies[0]) + rewards(replies[1]) == [3.0] * 3


def test_a_missing_input_is_the_requests_own() -> None:
    reward = R.from_function(obey, name="obey", outcome=True, reads=["answer", "num_tokens"])
    replies, *_ = run(reward, batch("a", answer="4"), batch("a", answer="4", num_tokens=1), batch("a", num_tokens=1))
    assert [replies[i][0] for i in range(3)] == [422, 200, 422]
    assert "num_tokens" in replies[0][1]["detail"]
    assert "answer" in replies[2][1]["detail"]


def test_a_request_that_breaks_the_whole_call_fails_alone() -> None:
    replies, *_ = run(REWARD, batch("a"), batch("fatal"), batch("b", "c"))
    assert [rewards(replies[i]) for i in range(3)] == [[1.0], [None], [1.0, 1.0]]
    assert replies[1][1]["results"][0]["components"]["obey"]["status"] == "error"


def test_an_unreadable_request_fails_alone() -> None:
    replies, *_ = run(REWARD, batch("a"), ("score", {"completion": 5}))
    assert (rewards(replies[0]), replies[1][0]) == ([1.0], 422)


@pytest.mark.parametrize(
    ("reward", "fix"),
    [
        (REWARD + R.soft_overlong(max_tokens=8, cache=2), "num_tokens"),
        (REWARD + R.from_function(sizes, name="sizes", batch=True, reads=["group"]), "group"),
        (R.from_function(obey, name="obey"), "outcome"),
    ],
)
def test_openrlhfs_door_refuses_rewards_that_read_what_it_does_not_carry(reward: Term, fix: str) -> None:
    replies, *_ = run(reward, ("get_reward", {"query": "a", "prompts": "a"}))
    assert (replies[0][0], fix in replies[0][1]["detail"]) == (422, True)


def test_a_missing_label_is_counted_and_filled_at_openrlhfs_door() -> None:
    replies, *_ = run(R.math_equal(), ("get_reward", {"query": ["a"], "prompts": ["a"], "labels": [""]}), fill=-0.5)
    assert (replies[0][1]["rewards"], replies[0][1]["scores"]) == ([-0.5], [0.0])
    assert replies[0][1]["extra_logs"]["guerdon/rows/bad_reference"] == [1.0]


def test_the_keys_of_openrlhfs_answers_are_the_same_for_every_kind_of_row() -> None:
    queries = ["p \\boxed{4}", "p none", "other"]
    rows = [("get_reward", {"query": q, "prompts": "p ", "labels": a}) for q in queries for a in ("4", "")]
    replies, *_ = run(R.math_equal() + 0.1 * R.boxed_format(), *rows)  # type: ignore[arg-type]
    assert len({tuple(replies[i][1]["extra_logs"]) for i in range(6)}) == 1
    assert all(len(v) == 1 for i in range(6) for v in replies[i][1]["extra_logs"].values())


def test_slime_gets_a_number_or_an_object() -> None:
    sent = {"prompt": "2+2?", "response": "\\boxed{4}", "label": "4"}
    replies, *_ = run(R.math_equal(), ("remote_rm", sent), ("remote_rm_detail", sent))
    assert replies[0] == (200, 1.0)
    assert (replies[1][1]["reward"], replies[1][1]["guerdon/abstained"]) == (1.0, 0.0)


def test_no_rows_are_no_rows() -> None:
    replies, *_ = run(REWARD, batch(), ("get_reward", {"query": [], "prompts": []}))
    assert (replies[0][1], replies[1][1]["rewards"]) == ({"results": []}, [])


def test_row_by_row_the_front_hears_of_each_row_first_and_lost_rows_are_left_alone() -> None:
    replies, frames, _ = run(REWARD, batch("a", "b", "c"), batch("d"), step_s=5.0, lost={0: {1: ("lost_worker", "gone")}})
    assert [frame[2:] for frame in frames if frame[0] == STEP] == [(0, -1), (0, 0), (0, 2), (1, -1), (1, 0)]
    assert (rewards(replies[0]), rewards(replies[1])) == ([1.0, None, 1.0], [1.0])
    assert replies[0][1]["results"][1]["components"]["obey"]["reason"] == "lost_worker"


def test_row_by_row_an_overrun_is_that_rows_and_blamed_on_the_limit() -> None:
    replies, *_ = run(REWARD, batch("a", "slow", "b"), step_s=0.3)
    assert rewards(replies[0]) == [1.0, None, 1.0]
    assert replies[0][1]["results"][1]["components"]["obey"]["reason"] == "checker_timeout"


def test_an_overrun_gives_the_slow_request_back_and_answers_the_others() -> None:
    replies, _, counts = run(REWARD, batch("a", "b"), batch("c", "slow"), ("score", {"completion": "d"}), limit_s=0.5)
    assert rewards(replies[0]) == [1.0, 1.0]
    assert replies[1][0] == LATE
    assert counts.late


def test_row_by_row_what_has_no_time_left_is_an_error_and_what_is_done_is_not() -> None:
    replies, *_ = run(REWARD, batch("a", "slow", "b"), step_s=5.0, left_s=0.5)
    assert rewards(replies[0]) == [1.0, None, None]
    assert replies[0][1]["results"][2]["components"]["obey"]["reason"] == "deadline"


def test_a_row_left_alone_in_its_batch_is_tried_again() -> None:
    replies, *_ = run(REWARD, ("score", {"completion": 5}), ("score", {"completion": "slow"}), limit_s=0.3)
    assert (replies[0][0], replies[1][0]) == (422, LATE)


def test_a_single_row_that_overruns_is_not_tried_again() -> None:
    replies, *_ = run(REWARD, ("score", {"completion": "slow"}), limit_s=0.3, final=True)
    assert replies[0][1]["components"]["obey"]["reason"] == "checker_timeout"


def test_answers_say_what_their_rows_are_for_the_metrics() -> None:
    _, frames, counts = run(R.math_equal(), batch("\\boxed{4}", "no idea", answer="4"), batch("x", answer=""))
    assert isinstance(counts, Counts)
    assert counts.rows == 3
    expected = {(False, "correct"): 1, (False, "no_answer"): 1, (True, "bad_reference"): 1}
    assert marks(frames) == {(abstains, (("math_equal", status),)): n for (abstains, status), n in expected.items()}


def test_rows_that_cannot_be_read_or_were_lost_are_told_too() -> None:
    lost = {0: {0: ("lost_worker", "gone")}}
    _, frames, _ = run(REWARD, batch("a", "b"), ("get_reward", {"query": [5, "p b"], "prompts": ["p ", "p "]}), step_s=5.0, lost=lost)
    assert marks(frames) == {(True, (("obey", "error"),)): 2, (False, (("obey", "correct"),)): 2}


def test_a_row_given_back_is_not_told_until_it_is_answered() -> None:
    _, frames, _ = run(REWARD, batch("a"), ("score", {"completion": "slow"}), limit_s=0.3)
    assert sum(marks(frames).values()) == 1


@pytest.mark.parametrize("step_s", [None, 5.0])
def test_an_interrupt_of_the_rewards_own_is_an_error_of_its_request(step_s: float | None) -> None:
    replies, *_ = run(REWARD, batch("a", "b"), batch("interrupt"), step_s=step_s)
    assert (rewards(replies[0]), rewards(replies[1])) == ([1.0, 1.0], [None])
    assert "KeyboardInterrupt" in replies[1][1]["results"][0]["components"]["obey"]["detail"]


SLOW_SUM = "\\boxed{\\int_0^1 \\sin(x^{x^x}) dx}"


@pytest.mark.slow
def test_a_check_in_a_process_of_its_own_keeps_to_the_row_limit_and_is_not_tried_again() -> None:
    ready = R.math_equal()
    ready.score([Rollout(SLOW_SUM, answer="\\int_0^1 2x dx")], deadline_s=30.0)  # sympy is imported
    start = time.monotonic()
    replies, _, counts = run(ready, batch(SLOW_SUM, "\\boxed{4}", answer="\\int_0^1 \\cos(x^{x^x}) dx"), limit_s=4.0, row_s=0.2)
    assert time.monotonic() - start < 3.5
    slow = replies[0][1]["results"][0]["components"]["math_equal"]
    assert (slow["status"], slow["reason"], counts.late) == ("error", "checker_timeout", False)


@pytest.mark.parametrize("text", ["\ud800", "\x00", "\u202e" * 50, "\\boxed{" * 2000, "9" * 100_000])
def test_no_text_breaks_a_request(text: str) -> None:
    replies, *_ = run(R.math_equal() + R.think_format(), ("score", {"completion": text, "answer": text}), batch("\\boxed{4}", answer="4"))
    assert replies[0][0] == 200
    assert rewards(replies[1])[0] >= 1.0
