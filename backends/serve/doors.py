"""The four doors as pure functions: bytes of a request to rollouts, and rows with their scores to the bytes of an answer.

Workers read and answer through them; the front uses them only for requests that no worker could answer. Nothing here scores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from guerdon.backends.openrlhf.answers import ABSTAINED, LARGEST
from guerdon.backends.openrlhf.rows import rollout_of, split_label
from guerdon.backends.serve.frames import Door
from guerdon.rollouts import from_messages
from guerdon.types import Message, Rollout

__all__ = ["DOORS", "Refused", "Row", "answer", "error_body", "read"]

DOORS: Mapping[str, Door] = {"/get_reward": "get_reward", "/score": "score", "/score/batch": "score_batch", "/remote_rm": "remote_rm"}

MAX_ROWS = 16_384
"""Rows of one request. More belong in several, that other requests may come in between."""


class Refused(Exception):
    """The request cannot be read: an HTTP status and what to say."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


class Row(Protocol):
    """What became of one rollout."""

    @property
    def total(self) -> float | None: ...
    @property
    def outcome(self) -> float | None: ...
    def flat(self) -> dict[str, float]: ...
    def statuses(self) -> tuple[tuple[str, str], ...]: ...
    def components(self) -> dict[str, dict[str, Any]]: ...


def error_body(detail: str) -> bytes:
    """The body of every refusal: `{"detail": "..."}`."""
    return json.dumps({"detail": detail}).encode()


# -- reading


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_constant=_no_constant).decode


def read(door: Door, body: bytes, names: frozenset[str]) -> list[Rollout | str]:
    """The rollouts of a request, or why a row is none. Labels that are objects with one of the keys `names` hold columns.

    Raises Refused: 400 for what is not JSON, 422 for JSON of another shape, 413 for too many rows.

    >>> read("remote_rm", b'{"prompt": "2+2?", "response": "4", "label": {"answer": "4"}}', frozenset({"answer"}))[0].answer
    '4'
    """
    try:
        data = _decode(str(body, "utf-8"))
    except RecursionError:
        raise Refused(400, "the body is nested too deeply") from None
    except ValueError as error:  # UnicodeDecodeError, and integers of more than 4,300 digits, are ValueErrors too
        raise Refused(400, f"the body is not JSON: {error}"[:300]) from None
    if not isinstance(data, dict):
        raise Refused(422, f"expected a JSON object, got {_kind(data)}")
    return _READERS[door](data, names)


def _get_reward(data: dict[str, Any], names: frozenset[str]) -> list[Rollout | str]:
    queries = _column(data, "query", None)
    prompts = _column(data, "prompts", len(queries))
    labels = _column(data, "labels", len(queries), [""] * len(queries))
    return [rollout_of(*row, names) for row in zip(queries, prompts, labels, strict=True)]


def _column(data: dict[str, Any], name: str, n: int | None, default: list[Any] | None = None) -> list[Any]:
    if name not in data:
        if default is not None:
            return default
        raise Refused(422, f'{name!r} is missing: expected {{"query": [...], "prompts": [...], "labels": [...]}}')
    column = data[name] if isinstance(data[name], list) else [data[name]]
    if n is not None and len(column) != n:
        raise Refused(422, f"{name}: expected {n} items, as many as in 'query', got {len(column)}")
    _check_rows(len(column))
    return column


def _remote_rm(data: dict[str, Any], names: frozenset[str]) -> list[Rollout | str]:
    response, prompt = data.get("response"), data.get("prompt")
    if not isinstance(response, str):
        raise Refused(422, f"'response': expected text, got {_kind(response)}")
    answer, columns = split_label(data.get("label"), names)
    return [Rollout(response, _prompt(prompt), answer, columns=columns)]


def _score(data: dict[str, Any], names: frozenset[str]) -> list[Rollout | str]:
    return [_rollout(data)]


def _score_batch(data: dict[str, Any], names: frozenset[str]) -> list[Rollout | str]:
    rows = data.get("rollouts")
    if not isinstance(rows, list) or len(data) > 1:
        raise Refused(422, f'expected {{"rollouts": [...]}}, got {"a list and other keys" if isinstance(rows, list) else _kind(rows)}')
    _check_rows(len(rows))
    return [_rollout(row, f"rollouts[{i}]: ") for i, row in enumerate(rows)]


def _check_rows(n: int) -> None:
    if n > MAX_ROWS:
        raise Refused(413, f"{n} rows in one request, at most {MAX_ROWS} are taken: send several")


_KEYS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "completion": ((str,), "text or null"),
    "messages": ((list,), "a list of messages or null"),
    "prompt": ((str, list), "text or a list of messages"),
    "answer": ((object,), ""),
    "columns": ((dict,), "an object"),
    "num_tokens": ((int,), "a whole number or null"),
    "truncated": ((bool,), "true, false or null"),
    "token_ids": ((list,), "a list of whole numbers or null"),
    "group": ((str, int), "text, a whole number or null"),
    "id": ((str,), "text or null"),
}


def _rollout(data: Any, where: str = "") -> Rollout:
    if not isinstance(data, dict):
        raise Refused(422, f"{where}expected an object, got {_kind(data)}")
    for key, value in data.items():
        if key not in _KEYS:
            raise Refused(422, f"{where}unknown key {key[:60]!r}: data columns go into 'columns'; known are {', '.join(_KEYS)}")
        kinds, expected = _KEYS[key]
        if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and kinds not in ((bool,), (object,)))):
            raise Refused(422, f"{where}{key}: expected {expected}, got {_kind(value)}")
    get = data.get
    completion, messages, tokens = get("completion"), get("messages"), get("token_ids")
    if tokens is not None and not all(type(token) is int for token in tokens):
        raise Refused(422, f"{where}token_ids: expected a list of whole numbers")
    ids = None if tokens is None else tuple(tokens)
    count = get("num_tokens", None if ids is None else len(ids))
    if count is not None and not 0 <= count < 1 << 53:
        raise Refused(422, f"{where}num_tokens: expected a count, got a number out of range")
    fields: dict[str, Any] = {
        "answer": get("answer"), "token_ids": ids, "num_tokens": count, "truncated": get("truncated"), "group": get("group"),
        "id": get("id"), "columns": get("columns") or {},
    }  # fmt: skip
    if completion is not None:
        chat = None if messages is None else _chat(messages, f"{where}messages")
        return Rollout(completion, _prompt(get("prompt"), where), messages=chat, **fields)
    if messages is None:
        raise Refused(422, f"{where}expected a 'completion' or 'messages'")
    prompt = None if get("prompt") is None else _prompt(get("prompt"), where)
    return from_messages(_chat(messages, f"{where}messages"), prompt, **fields)


def _prompt(prompt: Any, where: str = "") -> str | tuple[Message, ...]:
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    if not isinstance(prompt, list):
        raise Refused(422, f"{where}prompt: expected text or a list of messages, got {_kind(prompt)}")
    return _chat(prompt, f"{where}prompt")


_OF_MESSAGE: Mapping[str, tuple[tuple[type, ...], str]] = {
    "role": ((str,), "text"),
    "content": ((str, list), "text, a list of parts or null"),
    "reasoning_content": ((str,), "text or null"),
    "tool_calls": ((list,), "a list or null"),
}


def _chat(messages: list[Any], where: str) -> tuple[Message, ...]:
    for i, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") is None:
            raise Refused(422, f"{where}[{i}]: expected a message with a 'role', got {_kind(message)}")
        for key, (kinds, expected) in _OF_MESSAGE.items():
            if (value := message.get(key)) is not None and not isinstance(value, kinds):
                raise Refused(422, f"{where}[{i}].{key}: expected {expected}, got {_kind(value)}")
        if isinstance(parts := message.get("content"), list) and not all(isinstance(part, str | dict) for part in parts):
            raise Refused(422, f"{where}[{i}].content: expected parts that are objects or texts")
    return tuple([Message.of(message) for message in messages])


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


_READERS: Mapping[Door, Callable[[dict[str, Any], frozenset[str]], list[Rollout | str]]] = {
    "get_reward": _get_reward,
    "score": _score,
    "score_batch": _score_batch,
    "remote_rm": _remote_rm,
    "remote_rm_detail": _remote_rm,
}


# -- answering


def answer(door: Door, rows: Sequence[Row], ids: Sequence[str | None], fill: float | None) -> bytes:
    """The body of the answer. `fill` is what `/score` gives to rows that abstain; the others fill with it, or 0."""
    if door == "score":
        found: Any = _result(rows[0], ids[0], fill)
    elif door == "score_batch":
        found = {"results": [_result(row, id_, fill) for row, id_ in zip(rows, ids, strict=True)]}
    elif door == "get_reward":
        flats = [row.flat() for row in rows]
        found = {
            "rewards": [_filled(None if flat[ABSTAINED] else row.total, fill) for row, flat in zip(rows, flats, strict=True)],
            "scores": [row.outcome or 0.0 for row in rows],
            "extra_logs": {key: [flat[key] for flat in flats] for key in (flats[0] if flats else ())},
        }
    else:
        reward = _filled(rows[0].total, fill)
        found = reward if door == "remote_rm" else {"reward": reward, "outcome": rows[0].outcome or 0.0, **rows[0].flat()}
    return json.dumps(found, separators=(",", ":")).encode()


def _filled(value: float | None, fill: float | None) -> float:
    return value if value is not None and abs(value) <= LARGEST else fill or 0.0


def _result(row: Row, id_: str | None, fill: float | None) -> dict[str, Any]:
    total = row.total
    reward = fill if total is None else total
    return {"reward": reward, "outcome": row.outcome, "abstained": total is None, "components": row.components(), "id": id_}
