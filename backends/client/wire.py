"""Rollouts as the JSON that `guerdon serve` takes, and its answers as values. Nothing here talks to a server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from guerdon.rewards.term import finite
from guerdon.sandboxes.asking import BadAnswer
from guerdon.types import Message, Rollout, Status, Verdict, group_ids

__all__ = ["RemoteScore", "chunked", "encoded", "lost", "read_scores"]


@dataclass(frozen=True)
class RemoteScore:
    """What the server gave to one rollout: `guerdon.Scores` for a single row.

    `reward` is the total and `outcome` the correctness in 0..1 before shaping; each is None where there is none. `abstained` says that
    the row has no reward: it is to be left out, not to be taken for 0. `components` holds the verdict of every named component
    (without its `info`, which stays on the server), `weights` the weight of each on this row. A row that the server never scored has
    ERROR in every component.

    >>> RemoteScore(1.2, 1.0, False, {"math_equal": Verdict.of(Status.CORRECT)}).components["math_equal"].score
    1.0
    """

    reward: float | None
    outcome: float | None
    abstained: bool
    components: Mapping[str, Verdict]
    weights: Mapping[str, float] = field(default_factory=dict)
    id: str | None = None

    __hash__ = None  # type: ignore[assignment]  # components is a mapping


def chunked(rollouts: Sequence[Rollout], rows: int) -> Iterator[tuple[list[int], list[int]]]:
    """Row numbers and group numbers for requests of about `rows` rows. A group is never split: terms may compare its rows."""
    groups: dict[int, list[int]] = {}
    for row, group in enumerate(group_ids(rollouts)):
        groups.setdefault(group, []).append(row)
    chunk: list[int] = []
    of: list[int] = []
    for group, members in groups.items():
        if chunk and len(chunk) + len(members) > rows:
            yield chunk, of
            chunk, of = [], []
        chunk += members
        of += [group] * len(members)
    if chunk:
        yield chunk, of


def encoded(rollout: Rollout, group: str) -> bytes | Verdict:
    """The row as JSON, or the verdict on a row that is not JSON: a Decimal or NaN among its columns, an integer of 5,000 digits.

    >>> encoded(Rollout("4", answer="4", columns={"unit": "m"}), "a/0")
    b'{"completion":"4","answer":"4","columns":{"unit":"m"},"group":"a/0"}'
    """
    row: dict[str, Any] = {"completion": rollout.completion}
    if rollout.messages is not None:
        row["messages"] = _chat(rollout.messages)
    if rollout.prompt:
        row["prompt"] = rollout.prompt if isinstance(rollout.prompt, str) else _chat(rollout.prompt)
    for name in ("answer", "num_tokens", "truncated", "token_ids", "id"):
        if (value := getattr(rollout, name)) is not None:
            row[name] = value
    if rollout.columns:
        row["columns"] = dict(rollout.columns)
    row["group"] = group
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        detail = f"the row cannot be sent as JSON: {type(error).__name__}: {error}"[:500]
        return Verdict.of(Status.BAD_REFERENCE, "bad_column", detail)
    return text.encode("utf-8", "replace")  # lone surrogates, which no JSON reader need take, become question marks


def _chat(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [_message(message) for message in messages]


def _message(message: Message) -> dict[str, Any]:
    sent: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning_content is not None:
        sent["reasoning_content"] = message.reasoning_content
    if message.tool_calls:
        sent["tool_calls"] = list(message.tool_calls)
    return sent


def _plain(value: Any) -> Any:
    """Arrays and scalars of numpy and torch; tuples and mappings that are not dicts."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON value")


def read_scores(content: bytes, n: int) -> list[RemoteScore]:
    """The answer of `/score/batch` to `n` rows. BadAnswer if it is anything else."""
    try:
        results = json.loads(content)["results"]
        if not isinstance(results, list):
            raise TypeError("results is not a list")
        scores = [_score(result) for result in results]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:  # ConfigError of Verdict is a ValueError
        raise BadAnswer(f"{type(error).__name__}: {error}: {content[:200]!r}") from error
    if len(scores) != n:
        raise BadAnswer(f"{len(scores)} results for {n} rows")
    return scores


def _score(raw: Mapping[str, Any]) -> RemoteScore:
    parts = raw["components"].items()
    return RemoteScore(
        reward=None if raw["abstained"] else _number(raw["reward"]),
        outcome=_number(raw["outcome"]),
        abstained=bool(raw["abstained"]) or raw["reward"] is None,
        components={str(name): _verdict(part) for name, part in parts},
        weights={str(name): float(part["weight"]) for name, part in parts if part.get("weight") is not None},
        id=raw.get("id"),
    )


def _number(value: Any) -> float | None:
    number = finite(value)
    if number is None and value is not None:
        raise ValueError(f"{value!r:.40} is not a finite number")
    return number


def _verdict(part: Mapping[str, Any]) -> Verdict:
    reason, detail = str(part.get("reason") or ""), str(part.get("detail") or "")
    return Verdict(
        _number(part["score"]), part["status"], reason, detail, extracted=part.get("extracted"), seconds=float(part.get("seconds") or 0)
    )


def lost(rollout: Rollout, names: Sequence[str], verdict: Verdict) -> RemoteScore:
    """The score of a row that never was scored: ERROR (or what `verdict` says) in every component, and no reward."""
    return RemoteScore(None, None, True, dict.fromkeys(names, verdict), {}, rollout.id)
