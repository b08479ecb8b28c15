"""What the doors take and answer, as pure functions of bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guerdon import Rollout
from guerdon.backends.serve.doors import MAX_ROWS, Refused, read
from guerdon.backends.serve.frames import Door

NAMES = frozenset({"answer", "tests"})


def rows(door: Door, data: Any) -> list[Any]:
    return list(read(door, json.dumps(data).encode(), NAMES))


def refusal(door: Door, body: bytes) -> tuple[int, str]:
    with pytest.raises(Refused) as caught:
        read(door, body, NAMES)
    return caught.value.status, caught.value.detail


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe{\x00}\x00",
        b'{"completion": "\xff"}',
        b'{"completion": "x", "answer": NaN}',
        b'{"completion": "x", "answer": -Infinity}',
        b'{"completion": "x", "answer": ' + b"9" * 5000 + b"}",
        b'{"completion": "x", "answer": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"completion": "x"} {}',
    ],
)
def test_what_is_not_json_is_400(body: bytes) -> None:
    assert refusal("score", body)[0] == 400


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({}, "'completion' or 'messages'"),
        ({"completion": None}, "'completion' or 'messages'"),
        ({"completion": 4}, "completion: expected text"),
        ({"completion": "x", "solution": "4"}, "unknown key 'solution': data columns go into 'columns'"),
        ({"completion": "x", "num_tokens": True}, "num_tokens"),
        ({"completion": "x", "num_tokens": -1}, "num_tokens"),
        ({"completion": "x", "num_tokens": 1.5}, "num_tokens"),
        ({"completion": "x", "truncated": 1}, "truncated"),
        ({"completion": "x", "token_ids": [1, "2"]}, "token_ids"),
        ({"completion": "x", "token_ids": [True]}, "token_ids"),
        ({"completion": "x", "group": []}, "group"),
        ({"completion": "x", "group": False}, "group"),
        ({"completion": "x", "columns": []}, "columns"),
        ({"completion": "x", "prompt": 4}, "prompt"),
        ({"completion": "x", "prompt": [4]}, "expected a message"),
        ({"messages": [{"content": "no role"}]}, "'role'"),
        ({"messages": [{"role": 5}]}, "messages[0].role"),
        ({"messages": [{"role": "assistant", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "assistant", "content": [5]}]}, "messages[0].content"),
        ({"messages": [{"role": "assistant", "tool_calls": {}}]}, "messages[0].tool_calls"),
        ([], "expected"),
        ("text", "expected"),
    ],
)
def test_a_rollout_of_another_shape_is_422_and_says_which(row: Any, says: str) -> None:
    status, detail = refusal("score_batch", json.dumps({"rollouts": [{"completion": "x"}, row]}).encode())
    assert (status, says in detail) == (422, True), detail


@pytest.mark.parametrize(
    ("door", "data"),
    [
        ("score", []),
        ("score_batch", {"rollouts": {}}),
        ("score_batch", {"rollouts": [], "more": 1}),
        ("score_batch", {}),
        ("get_reward", {"prompts": []}),
        ("get_reward", {"query": ["a"], "prompts": []}),
        ("get_reward", {"query": ["a"], "prompts": ["a"], "labels": []}),
        ("remote_rm", {"prompt": "a"}),
        ("remote_rm", {"response": 5}),
        ("remote_rm", {"response": "a", "prompt": {}}),
    ],
)
def test_other_json_is_422(door: Door, data: Any) -> None:
    assert refusal(door, json.dumps(data).encode())[0] == 422


def test_too_many_rows_are_413() -> None:
    many = ["q"] * (MAX_ROWS + 1)
    assert refusal("get_reward", json.dumps({"query": many, "prompts": many}).encode())[0] == 413


def test_a_rollout_carries_all_its_fields() -> None:
    message = {"role": "assistant", "content": "4", "reasoning_content": "2+2"}
    sent = {
        "messages": [message], "prompt": [{"role": "user", "content": "2+2?"}], "answer": {"any_of": ["4"]}, "columns": {"unit": "m"},
        "token_ids": [1, 2], "truncated": False, "group": "g", "id": "7",
    }  # fmt: skip
    [found] = rows("score", sent)
    assert (found.completion, found.prompt[0].content, found.column("unit"), found.num_tokens) == ("<think>2+2</think>4", "2+2?", "m", 2)
    assert (found.answer, found.truncated, found.group, found.id) == ({"any_of": ["4"]}, False, "g", "7")


def test_a_completion_may_come_with_its_trajectory() -> None:
    [found] = rows("score", {"completion": "4", "messages": [{"role": "assistant", "content": "4"}], "num_tokens": 3})
    assert (found.completion, found.messages[0].content, found.num_tokens) == ("4", "4", 3)


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: x])
def test_openrlhfs_rows_may_be_lists_or_bare(wrap: Any) -> None:
    [found] = rows("get_reward", {"query": wrap("2+2? 4</s>"), "prompts": wrap("2+2? "), "labels": wrap('{"answer": "4", "unit": "m"}')})
    assert found == Rollout("4", "2+2? ", "4", columns={"unit": "m"})


def test_a_query_without_its_prompt_is_no_rollout_and_no_refusal() -> None:
    [found] = rows("get_reward", {"query": ["something else"], "prompts": ["2+2?"], "labels": [""]})
    assert "does not begin with its prompt" in found


def test_lone_surrogates_pass() -> None:
    [found] = read("score", b'{"completion": "\\ud800", "answer": "\\udfff"}', NAMES)
    assert isinstance(found, Rollout)
    assert found.completion == "\ud800"
