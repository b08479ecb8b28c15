"""Rollouts from the shapes trainers pass."""

from __future__ import annotations

import pytest

from guerdon import Message, Rollout
from guerdon.errors import ConfigError

CHAT = [
    {"role": "user", "content": "2+2?"},
    {"role": "assistant", "content": "", "tool_calls": [{"name": "calc"}]},
    {"role": "tool", "content": "4"},
    {"role": "assistant", "content": "It is 4", "reasoning_content": "the tool says 4"},
]


def test_the_completion_is_the_last_assistant_message_with_its_reasoning_restored() -> None:
    rollout = Rollout.from_messages(CHAT, answer="4")
    assert rollout.completion == "<think>the tool says 4</think>It is 4"
    assert rollout.prompt == (Message("user", "2+2?"),)
    assert rollout.messages is not None
    assert [m.role for m in rollout.messages] == ["assistant", "tool", "assistant"]


def test_a_given_prompt_may_hold_assistant_turns() -> None:
    rollout = Rollout.from_messages(CHAT[3:], prompt=CHAT[:3])
    assert len(rollout.prompt) == 3
    assert len(rollout.messages or ()) == 1


def test_a_chat_without_an_assistant_message_is_an_empty_completion() -> None:
    assert Rollout.from_messages([{"role": "user", "content": "hi"}]).completion == ""


@pytest.mark.parametrize("content", [None, "", [{"type": "image"}]])
def test_a_message_without_text_is_empty_text(content: object) -> None:
    assert Message.of({"role": "assistant", "content": content}).content == ""


@pytest.mark.parametrize("raw", [{"content": "x"}, "x", 3])
def test_a_message_without_a_role_is_refused(raw: object) -> None:
    with pytest.raises(ConfigError, match="role"):
        Message.of(raw)  # type: ignore[arg-type]


def test_trl_rows_plain_and_conversational() -> None:
    plain = Rollout.from_trl("p", "c", [1, 2, 3], answer="a", level=3)
    assert (plain.completion, plain.answer, plain.num_tokens, plain.columns) == ("c", "a", 3, {"level": 3})
    chat = Rollout.from_trl([CHAT[0]], CHAT[1:], None, solution="4")
    assert chat.completion.endswith("It is 4")
    assert chat.num_tokens is None
    assert chat.column("solution") == "4"


def test_verl_arguments_keep_extra_info_as_columns_and_uid_as_group() -> None:
    rollout = Rollout.from_verl("gsm8k", "#### 4", "4", {"uid": "u1", "index": 3})
    assert (rollout.group, rollout.column("data_source"), rollout.column("index")) == ("u1", "gsm8k", 3)


@pytest.mark.parametrize(
    ("label", "answer", "columns"),
    [("4", "4", {}), ('{"answer": "4", "k": 1}', "4", {"k": 1}), ("{1, 2}", "{1, 2}", {}), ('{"x": 1}', {"x": 1}, {}), (None, None, {})],
)
def test_openrlhf_labels_are_json_objects_with_an_answer_or_plain(label: str | None, answer: object, columns: dict[str, object]) -> None:
    rollout = Rollout.from_openrlhf("p?c", "p?", label)
    assert (rollout.completion, rollout.answer, rollout.columns) == ("c", answer, columns)


def test_an_openrlhf_query_that_does_not_start_with_its_prompt_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not start"):
        Rollout.from_openrlhf("other", "p", None)
