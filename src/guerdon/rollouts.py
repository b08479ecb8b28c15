"""Rollouts from the shapes trainers hand to reward functions.

Each maker takes one row as its stack passes it and gives a `guerdon.Rollout`; no trainer is imported. They do not
guess answers: whatever a stack calls the reference (`solution`, `ground_truth`, `label`) becomes `answer` or a column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from guerdon.errors import ConfigError
from guerdon.types import Message, Rollout

__all__ = ["JSON_OBJECT", "from_messages", "from_openrlhf", "from_trl", "from_verl", "prompt_of", "split_label"]

JSON_OBJECT = re.compile(r"""\{\s*(?:"[^"]{0,200}"|'[^']{0,200}')\s*:""")
"""How the JSON (or the repr) of an object begins: no answer by itself."""


def prompt_of(prompt: Any) -> str | tuple[Message, ...]:
    """A prompt as text, or as a tuple of messages when it is a chat; None becomes the empty text."""
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    return tuple(Message.of(m) for m in prompt)


def from_messages(messages: Iterable[Message | Mapping[str, Any]], prompt: Any = None, **fields: Any) -> Rollout:
    """A rollout from a chat. `completion` is the last assistant message, its reasoning restored as `<think>...</think>`.

    `messages` may be the whole conversation: without `prompt`, everything before the first assistant message is the
    prompt. Pass `prompt` when the prompt itself holds assistant turns. No assistant message: an empty completion.

    >>> rollout = from_messages([{"role": "user", "content": "2+2?"},
    ...                          {"role": "assistant", "content": "4", "reasoning_content": "easy"}], answer="4")
    >>> rollout.completion, rollout.prompt[0].content
    ('<think>easy</think>4', '2+2?')
    """
    chat = tuple(Message.of(m) for m in messages)
    before: str | tuple[Message, ...]
    if prompt is None:
        first = next((i for i, m in enumerate(chat) if m.role == "assistant"), len(chat))
        before, chat = chat[:first], chat[first:]
    else:
        before = prompt_of(prompt)
    last = next((m for m in reversed(chat) if m.role == "assistant"), Message("assistant"))
    return Rollout(completion=last.text, prompt=before, messages=chat, **fields)


def from_trl(prompt: Any, completion: Any, completion_ids: Any = None, **columns: Any) -> Rollout:
    """One row of a TRL reward call: text or conversational completion, its token ids, and the data columns.

    The column `answer` becomes the answer; every other column (`solution`, `tests`, ...) stays a column.

    >>> from_trl("2+2?", [{"role": "assistant", "content": "4"}], [19], solution="4").column("solution")
    '4'
    """
    ids = None if completion_ids is None else tuple(completion_ids)
    if ids and type(ids[0]) is not int:  # a tensor's or an array's; int() of every id would cost 1 ms for a long completion
        ids = tuple(int(i) for i in ids)
    answer = columns.pop("answer", None)
    fields: dict[str, Any] = {"answer": answer, "token_ids": ids, "num_tokens": None if ids is None else len(ids), "columns": columns}
    if isinstance(completion, str):
        return Rollout(completion, prompt_of(prompt), **fields)
    return from_messages(completion, prompt if prompt is not None else (), **fields)


def from_verl(data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None) -> Rollout:
    """The arguments of verl's `compute_score`. `data_source` and every key of `extra_info` become columns.

    >>> from_verl("gsm8k", "#### 4", "4", {"index": 7}).columns
    {'index': 7, 'data_source': 'gsm8k'}
    """
    extra = dict(extra_info) if isinstance(extra_info, Mapping) else {}
    prompt = prompt_of(extra.pop("prompt", None))
    uid = extra.get("uid")
    group = uid if isinstance(uid, str | int) else None  # verl's is text; a data column of that name may hold anything
    return Rollout(solution_str, prompt, ground_truth, group=group, columns={**extra, "data_source": data_source})


def from_openrlhf(query: str, prompt: str, label: Any = None) -> Rollout:
    """One row of an OpenRLHF reward call, whose `query` is the prompt followed by the completion.

    `label` may be plain text (the answer) or a JSON object whose `answer` is the answer and whose other keys are columns.

    >>> from_openrlhf("2+2? 4", "2+2?", '{"answer": "4", "data_source": "gsm8k"}').answer
    '4'
    """
    if not query.startswith(prompt):
        raise ConfigError(f"from_openrlhf: the query does not start with its prompt (prompt {prompt[:60]!r}, query {query[:60]!r})")
    answer, columns = split_label(label)
    return Rollout(query[len(prompt) :], prompt, answer, columns=columns)


def split_label(label: Any, names: frozenset[str] = frozenset({"answer"})) -> tuple[Any, dict[str, Any]]:
    """Answer and columns. A label that is an object, or its JSON, and has one of the keys `names` holds columns; any other is the answer
    itself, objects as objects: a check that wants text then says BAD_REFERENCE, where it would find every completion wrong against the
    JSON of an object under another key. OpenRLHF's empty label (no `--data.label_key`) is no answer, nor is broken JSON.

    >>> split_label('{"answer": "4", "data_source": "gsm8k"}'), split_label("4"), split_label('{"inputs": ["1"]}')
    (('4', {'data_source': 'gsm8k'}), ('4', {}), ({'inputs': ['1']}, {}))
    """
    if isinstance(label, str):
        if not label:
            return None, {}
        if label.lstrip()[:1] == "{":
            try:
                label = json.loads(label)
            except (ValueError, RecursionError):  # or a plain label that merely starts with a brace
                return None if JSON_OBJECT.match(label.lstrip()) else label, {}
    if isinstance(label, Mapping) and not names.isdisjoint(label):
        columns = {str(key): value for key, value in label.items()}
        return columns.pop("answer", None), columns
    return label, {}
