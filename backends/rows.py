"""Rows to rollouts: which key of a row holds the completion, the prompt, the answer.

A row is one rollout (`{"prompt", "completion", "answer", ...}`) or one prompt with a list of them (`{"prompt",
"answer", "rollouts": [{"text", ...}, ...]}`). Every other key becomes a column. Names are detected, or given as a mapping
such as `{"answer": "solution", "completion": "text"}`. Nothing is read, grouped or scored here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guerdon.errors import ConfigError, DataError
from guerdon.rollouts import from_messages, prompt_of
from guerdon.types import Rollout

__all__ = ["NAMES", "Layout", "Row"]

NAMES: dict[str, tuple[str, ...]] = {
    "rollouts": ("rollouts",),
    "completion": ("completion", "text", "response", "output", "generation", "messages"),
    "prompt": ("prompt", "question", "problem", "query"),
    "answer": ("answer", "ground_truth", "solution", "target"),
    "group": ("group",),
    "id": ("id",),
    "num_tokens": ("num_tokens",),
    "token_ids": ("token_ids", "completion_ids"),
    "truncated": ("truncated",),
}
"""What a rollout is made of, and the keys looked for where the caller does not say: its own name wins, of others only one may be there."""

RIVALS = {"answer": ("label",)}
"""Keys that are never taken, being grades in many files, but that leave a doubt beside others when they hold text."""

OPTION = "--columns {name}={key}"
"""How the commands are told where a part of a rollout is."""


@dataclass(frozen=True, slots=True)
class Row:
    """One object of a data set. `line` counts from 1."""

    line: int
    data: dict[str, Any]


@dataclass(frozen=True)
class Layout:
    """The key that holds each part of a rollout; a part the file lacks is absent. `aliases` are further columns."""

    keys: Mapping[str, str]
    aliases: Mapping[str, str]

    @classmethod
    def detect(cls, rows: Sequence[Row], mapping: Mapping[str, str], label: str, *, option: str = OPTION) -> Layout:
        """From the first rows of a data set. Raises DataError, with the fix, when no completion is found or a mapped key is absent.

        `option` is how the caller is told to name a key, with fields `name` and `key`.
        """
        listing = mapping.get("rollouts", "rollouts")
        lists = [found for row in rows if isinstance(found := row.data.get(listing), list)]
        nested, items = bool(lists), [item for found in lists for item in found]
        inner = dict.fromkeys(key for item in items if isinstance(item, dict) for key in item)
        filled = _filled([*(row.data for row in rows), *(item for item in items if isinstance(item, dict))])
        there = [*inner, *(key for key in dict.fromkeys(key for row in rows for key in row.data) if key not in inner)]
        for name, key in mapping.items():
            if key not in there:
                raise DataError(f"{label}: {option.format(name=name, key=key)}: no row has {key!r}; they have {_listed(there)}")
        taken = {key for name, key in mapping.items() if name in NAMES}
        keys = {name: key for name, key in mapping.items() if name in NAMES}
        for name, candidates in NAMES.items():
            where = inner if nested and name == "completion" else there
            free = [key for key in candidates if key in where and key not in taken]
            if free and name not in keys and (nested or name != "rollouts"):
                keys[name] = _only(name, free, [key for key in there if key not in taken], filled, label, option)
        if "completion" not in keys and not any(isinstance(item, str) for item in items):
            raise DataError(
                f"{label}: no completion found: looked for {', '.join(NAMES['completion'])}, the rows have {_listed(there)}; "
                f"say which it is with {option.format(name='completion', key='KEY')}"
            )
        return cls(keys, {name: key for name, key in mapping.items() if name not in NAMES})

    @property
    def read_from(self) -> dict[str, str]:
        """The keys of a rollout's parts and of the further columns."""
        return {**self.keys, **self.aliases}

    @property
    def nested(self) -> bool:
        """Whether each row holds the rollouts of one prompt."""
        return "rollouts" in self.keys

    @property
    def grouped(self) -> bool:
        """Whether the file says which rollouts belong together."""
        return self.nested or "group" in self.keys or "prompt" in self.keys or self.keys["completion"] == "messages"

    def rollouts(self, row: Row) -> list[Rollout]:
        """The rollouts of one row. Raises ConfigError when they cannot be read."""
        if not self.nested:
            return [self._rollout(row.data, self._alone(row) if self.grouped else row.line)]
        listing = self.keys["rollouts"]
        items = row.data.get(listing)
        if not isinstance(items, list) or not items:
            raise ConfigError(f"{listing!r}: expected a list of rollouts, got {'nothing' if not items else type(items).__name__}")
        shared = {key: value for key, value in row.data.items() if key != listing}
        return [self._rollout({**shared, **self._item(item)}, row.line) for item in items]

    def _alone(self, row: Row) -> Hashable:
        """The group of a row whose file names groups, but not this row's, and no prompt either that could tell; None for all others."""
        named = self.keys.get("group")
        told = named is None or row.data.get(named) is not None or "prompt" in self.keys or self.keys.get("completion") == "messages"
        return None if told else f"line {row.line}, without {named}"

    def _item(self, item: Any) -> dict[str, Any]:
        if isinstance(item, str):
            return {self.keys.get("completion", "completion"): item}
        if not isinstance(item, dict):
            raise ConfigError(f"{self.keys['rollouts']!r}: expected a list of objects or texts, found {type(item).__name__}")
        return item

    def _rollout(self, data: dict[str, Any], group: Hashable) -> Rollout:
        keys = self.keys
        completion_key, prompt_key = keys.get("completion", "completion"), keys.get("prompt", "")
        completion = data.get(completion_key)
        columns = {key: value for key, value in data.items() if key != completion_key and key != prompt_key}
        for name, key in self.aliases.items():
            columns[name] = data.get(key)
        fields: dict[str, Any] = {}
        for name, check in _CHECKS:
            if name in keys and (value := data.get(keys[name])) is not None:
                fields[name] = check(value, keys[name])
        if "token_ids" in fields:
            fields.setdefault("num_tokens", len(fields["token_ids"]))
        if group is not None:
            fields["group"] = group
        if isinstance(completion, str):
            return Rollout(completion, _prompt(data.get(prompt_key), prompt_key), columns=columns, **fields)
        if not isinstance(completion, list):
            got = "nothing" if completion is None else type(completion).__name__
            raise ConfigError(f"{completion_key!r}: expected text or a list of messages, got {got}")
        prompt = _prompt(data[prompt_key], prompt_key) if prompt_key in data else None
        return from_messages(completion, prompt, columns=columns, **fields)


def _filled(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The keys that hold something in some row, with the first of it: all rows of a Parquet file have all keys."""
    found: dict[str, Any] = {}
    for row in rows:
        for key, value in row.items():
            if value is not None:
                found.setdefault(key, value)
    return found


def _only(name: str, free: Sequence[str], there: Sequence[str], filled: Mapping[str, Any], label: str, option: str) -> str:
    """The one candidate for a part of a rollout. Raises DataError where several could be it."""
    if free[0] == name:
        return name
    could = [key for key in free if key in filled] or list(free[:1])
    rivals = [key for key in RIVALS.get(name, ()) if key in there and isinstance(filled.get(key), str)]
    if len(could) + len(rivals) == 1:
        return could[0]
    one, other = (*could, *rivals)[:2]
    ways = " or ".join(option.format(name=name, key=key) for key in (one, other))
    raise DataError(f"{label}: the {name} could be {one!r} or {other!r}: say which with {ways}")


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(keys[:20]) + (", ..." if len(keys) > 20 else "") if keys else "no keys"


def _prompt(value: Any, key: str) -> Any:
    if value is not None and not isinstance(value, str | list):
        raise ConfigError(f"{key!r}: expected text or a list of messages, got {type(value).__name__}")
    return prompt_of(value)


def _answer(value: Any, key: str) -> Any:
    return value


def _count(value: Any, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15 or value != int(value):
        quotes = ", without quotes" if isinstance(value, str) else ""
        raise ConfigError(f"{key!r}: expected a count of tokens, got {value!r:.60}; write a whole number{quotes}")
    return int(value)


def _token_ids(value: Any, key: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(token) is int for token in value):
        raise ConfigError(f"{key!r}: expected a list of token ids, got {value!r:.60}")
    return tuple(value)


def _flag(value: Any, key: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{key!r}: expected true or false, got {value!r:.60}")
    return value


def _group(value: Any, key: str) -> Hashable:
    if not isinstance(value, str | int | float):
        raise ConfigError(f"{key!r}: expected text or a number to name the group, got {type(value).__name__}")
    return value


def _id(value: Any, key: str) -> str:
    return str(value)


_CHECKS: tuple[tuple[str, Callable[[Any, str], Any]], ...] = (
    ("answer", _answer),
    ("group", _group),
    ("id", _id),
    ("num_tokens", _count),
    ("token_ids", _token_ids),
    ("truncated", _flag),
)
