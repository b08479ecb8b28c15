"""What reward models are sent over HTTP and what they answer: pure functions for each known server.

`openrlhf`: `POST /get_reward {"query", "prompts", "labels"}` -> `{"rewards": [...]}` (openrlhf.cli.serve_rm 0.11). `score`: our own
`guerdon serve`, `POST /score/batch`. `classify` and `pooling`: vLLM's routes of these names. `sglang`: its native `/classify`. `tei`:
`/predict` of text-embeddings-inference. Scores come in the order of the rows; anything else is BadAnswer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from guerdon.rewards._http import plain
from guerdon.rewards._prompting import prompt_text, shown_value
from guerdon.types import Message, Rollout, Status, Verdict

__all__ = ["FORMATS", "Format", "Options", "query"]


@dataclass(frozen=True)
class Options:
    """What of a `Remote` the formats need."""

    model: str | None = None
    columns: tuple[str, ...] = ()
    text: Callable[[Rollout], str] | None = None
    index: int | str | None = None


@dataclass(frozen=True)
class Format:
    """`item`: what is sent of one row. `body`: the request about several items. `read`: one value a row, from the parsed answer.
    `path`: where the server listens. `reads_text`: the model reads one text, which for chats only the user can make."""

    path: str
    item: Callable[[Options, Rollout], Any]
    body: Callable[[Options, list[Any]], dict[str, Any]]
    read: Callable[[Options, Any], Any]
    reads_text: bool = True


def query(options: Options, rollout: Rollout) -> str:
    """The text that the model reads: prompt and completion, or what `text=` makes of the row."""
    made = rollout.completion if options.text is None else options.text(rollout)
    if not isinstance(made, str):
        raise TypeError(f"text= must return text, got {type(made).__name__}")
    return plain(made if options.text is not None else prompt_text(rollout.prompt) + made)


def _pick(options: Options, values: Any) -> Any:
    """The one value that is the reward, of those the model gave to a row."""
    if not isinstance(values, list):
        return values
    if isinstance(options.index, int):
        return values[options.index]
    if len(values) != 1:
        raise ValueError(f"the model gives {len(values)} values a row; say which is the reward with index=")
    return values[0]


# openrlhf


def _openrlhf_item(options: Options, rollout: Rollout) -> tuple[str, str, Any]:
    found = {name: rollout.column(name) for name in options.columns}
    label: Any = next(iter(found.values()), None) if len(found) < 2 else found
    if not isinstance(label, int | float):
        label = "" if label is None else shown_value(label)
    return query(options, rollout), prompt_text(rollout.prompt), label


def _openrlhf_body(options: Options, items: list[Any]) -> dict[str, Any]:
    queries, prompts, labels = zip(*items, strict=True)
    return {"query": queries, "prompts": prompts, "labels": labels}


def _openrlhf_read(options: Options, answer: Any) -> Any:
    rewards = answer["rewards"] if isinstance(answer, dict) else answer
    if isinstance(rewards, int | float):
        return [rewards]
    if not isinstance(rewards, list):
        raise TypeError("the rewards are no list")
    flags = (answer.get("extra_logs") or {}).get("guerdon/abstained") if isinstance(answer, dict) else None
    filled = [bool(flag) for flag in flags] if isinstance(flags, list) else [bool(flags)] * len(rewards)
    return [_FILLED if flag else _pick(options, value) for flag, value in zip(filled, rewards, strict=True)]


_FILLED = Verdict.of(Status.ERROR, "service_failed", "there, the row has no reward and was filled; format='score' shows why")


# guerdon serve


def _score_item(options: Options, rollout: Rollout) -> dict[str, Any]:
    row: dict[str, Any] = {"completion": plain(rollout.completion), "prompt": _chat(rollout.prompt)}
    if rollout.messages is not None:
        row["messages"] = _chat(rollout.messages)
    row |= {name: value for name in ("num_tokens", "truncated") if (value := getattr(rollout, name)) is not None}
    columns = {name: rollout.column(name) for name in options.columns}
    if (answer := columns.pop("answer", None)) is not None:
        row["answer"] = answer
    return row | ({"columns": columns} if columns else {})


def _chat(text: str | tuple[Message, ...]) -> Any:
    return plain(text) if isinstance(text, str) else [_message(message) for message in text]


def _message(message: Message) -> dict[str, Any]:
    sent: dict[str, Any] = {"role": message.role, "content": plain(message.content)}
    if message.reasoning_content is not None:
        sent["reasoning_content"] = plain(message.reasoning_content)
    return sent | ({"tool_calls": list(message.tool_calls)} if message.tool_calls else {})


def _score_read(options: Options, answer: Any) -> list[Any]:
    return [_scored(result) for result in answer["results"]]


def _scored(result: Mapping[str, Any]) -> Any:
    """The total of a row, or the verdict that says why it has none."""
    if not result["abstained"]:
        return result["reward"]
    for status, reason in _ABSTAINED.items():
        for name, part in result["components"].items():
            if part["status"] == status:
                why = f"there, {name} is {status} {part.get('reason') or ''}: {part.get('detail') or ''}"
                return Verdict.of(status, reason, plain(why)[:1000])
    return Verdict.of(Status.NOT_APPLICABLE, "not_concerned")


_ABSTAINED = {Status.ERROR: "service_failed", Status.BAD_REFERENCE: "malformed_reference", Status.UNSCORED: "abstained"}


# models behind inference servers


def _with_model(options: Options, fields: dict[str, Any]) -> dict[str, Any]:
    return fields if options.model is None else {"model": options.model, **fields}


def _inputs(options: Options, items: list[Any]) -> dict[str, Any]:
    return _with_model(options, {"input": items})


def _in_order(data: Any) -> list[Any]:
    """vLLM's rows by their index, each once."""
    rows = sorted(data, key=lambda row: row["index"])
    if [row["index"] for row in rows] != list(range(len(rows))):
        raise ValueError("the rows are not numbered 0, 1, ...")
    return rows


def _classify_read(options: Options, answer: Any) -> list[Any]:
    return [_pick(options, row["probs"]) for row in _in_order(answer["data"])]


def _pooling_read(options: Options, answer: Any) -> list[Any]:
    found = []
    for row in _in_order(answer["data"]):
        values = row["data"]
        if isinstance(values, list) and values and isinstance(values[-1], list):
            values = values[-1]  # one row a token: the last has seen all
        found.append(_pick(options, values))
    return found


def _sglang_read(options: Options, answer: Any) -> list[Any]:
    return [_pick(options, row["embedding"]) for row in (answer if isinstance(answer, list) else [answer])]


def _tei_read(options: Options, answer: Any) -> list[Any]:
    """Classes come sorted by score, so one of several is known by its label only."""
    named = isinstance(options.index, str)
    return [_pick(options, [part["score"] for part in row if not named or part["label"] == options.index]) for row in answer]


FORMATS: dict[str, Format] = {
    "openrlhf": Format("/get_reward", _openrlhf_item, _openrlhf_body, _openrlhf_read),
    "score": Format("/score/batch", _score_item, lambda options, items: {"rollouts": items}, _score_read, reads_text=False),
    "classify": Format("/classify", query, _inputs, _classify_read),
    "pooling": Format("/pooling", query, _inputs, _pooling_read),
    "sglang": Format("/classify", query, lambda options, items: _with_model(options, {"text": items}), _sglang_read),
    "tei": Format(
        "/predict", query, lambda options, items: {"inputs": [[item] for item in items], "raw_scores": True, "truncate": False}, _tei_read
    ),
}
"""By the name that `format=` takes."""
