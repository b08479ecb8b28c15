"""Templates for what services read: known placeholders filled once, and nothing that a completion holds read as a template.

`{prompt}`, `{completion}`, `{answer}`, `{columns[name]}` and `{fence}` are filled; `{{word}}` is written `{word}`; any other brace
is itself. No format specification, attribute or index is evaluated.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from guerdon.errors import ConfigError
from guerdon.rewards._http import plain
from guerdon.types import Message, Rollout

__all__ = ["Missing", "check_template", "columns_of", "filled", "prompt_text", "shown_value"]

_PLACE = re.compile(r"\{\{(\w+(?:\[[^\[\]{}\n]*\])?)\}\}|\{(\w+)(?:\[([^\[\]{}\n]*)\])?\}")
_KNOWN = "{prompt}, {completion}, {answer}, {columns[name]} and {fence}"


class Missing(Exception):
    """A row has nothing in a column that the template names."""


def check_template(where: str, template: Any) -> None:
    """ConfigError for a template that does not show the completion, or names what does not exist."""
    if not isinstance(template, str):
        raise ConfigError(f"{where}: template must be text, got {type(template).__name__}")
    names = set()
    for place in _PLACE.finditer(template):
        if place[1] is not None:
            continue
        names.add(place[2])
        good = (
            place[2] in ("prompt", "completion", "answer", "fence")
            if place[3] is None
            else place[2] == "columns" and place[3].strip() and "|" not in place[3]
        )
        if not good:
            raise ConfigError(
                f"{where}: the template's {place[0]} is unknown; there are {_KNOWN}; write {{{place[0]}}} for the text {place[0]}"
            )
    if "completion" not in names:
        raise ConfigError(f"{where}: the template never shows the {{completion}}; there are {_KNOWN}")


@lru_cache(maxsize=256)
def columns_of(template: str) -> frozenset[str]:
    """The data columns that a template reads."""
    places = [place for place in _PLACE.finditer(template) if place[1] is None]
    return frozenset({p[3].strip() for p in places if p[3] is not None} | {"answer" for p in places if p[2] == "answer"})


def filled(template: str, rollout: Rollout) -> str:
    """The template with this row's values. Values are not looked into. Raises Missing.

    `{fence}` is made from the values and occurs in none of them, so that a text between `<a-{fence}>` and `</a-{fence}>` cannot end
    itself; it is the same for equal rows.
    """
    values = {"prompt": prompt_text(rollout.prompt), "completion": plain(rollout.completion)}
    for name in columns_of(template):
        values[f"column {name}"] = _column(rollout, name)
    fence = _fence(values)

    def value(place: re.Match[str]) -> str:
        if place[1] is not None:
            return "{" + place[1] + "}"
        if place[2] == "fence":
            return fence
        return values[f"column {(place[3] or place[2]).strip()}" if place[2] in ("answer", "columns") else place[2]]

    return _PLACE.sub(value, template)


def _fence(values: Mapping[str, str]) -> str:
    text, salt = json.dumps(sorted(values.items())), 0
    while True:
        fence = hashlib.blake2s(f"{salt}{text}".encode(), digest_size=6).hexdigest()
        if not any(fence in value for value in values.values()):
            return fence
        salt += 1


def _column(rollout: Rollout, name: str) -> str:
    value = rollout.column(name)
    if value is None:
        raise Missing(name)
    return shown_value(value)


def shown_value(value: Any) -> str:
    """Text as it is, anything else as JSON."""
    return plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def prompt_text(prompt: str | tuple[Message, ...]) -> str:
    """A prompt as text; a chat as one paragraph a message, each begun with its role."""
    if isinstance(prompt, str):
        return plain(prompt)
    return plain("\n\n".join(_paragraph(message) for message in prompt))


def _paragraph(message: Message) -> str:
    calls = [f"(calls {shown_value(call)})" for call in message.tool_calls]
    return f"{message.role}: " + "\n".join([message.text, *calls] if message.text or not calls else calls)
