"""What comes back from the model's jail in answer to calls, read without trust, and compared with expected values."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from guerdon.sandboxes.base import Job, Limits, RunResult
from guerdon.verifiers.code.bundle import program
from guerdon.verifiers.code.results import Candidate, Outcome, death, show
from guerdon.verifiers.code.wire import Refused, nodes, parse, value

__all__ = ["Answers", "decide", "read_answers", "same_json", "shown_call", "solve_job"]


def solve_job(
    candidate: Candidate, calls: Sequence[str], limits: Limits | None, *, entry: str = "", methods: bool = False, track: bool = False
) -> Job:
    """The run that asks the program all calls. Nothing of what is expected goes in."""
    texts = [json.dumps(text) for text in (candidate.code, candidate.preamble, entry, methods, track)]
    fields = [f'"{name}":{text}' for name, text in zip(("code", "preamble", "entry", "methods", "track"), texts, strict=True)]
    order = f'{{{",".join(fields)},"calls":[{",".join(calls)}]}}'
    return Job(program("wire", "solve"), stdin=order.encode("ascii"), limits=limits, channel=True)


@dataclass(frozen=True, slots=True)
class Answers:
    """The lines that came before the end, and the end: None when all calls were answered."""

    lines: tuple[bytes, ...]
    end: tuple[str, str] | None

    def outcome(self, index: int, judge: Callable[[Any], bool | None], given: str, expected: str) -> Outcome:
        """The outcome of call `index`; `judge(node)` says whether the value is right, and may raise Refused."""
        if index >= len(self.lines):
            reason, words = self.end or ("runtime_error", "no answer")
            return Outcome(reason, index, given, expected, words)
        try:
            line = parse(self.lines[index])
            if type(line) is list and len(line) == 3 and line[0] == "x":
                return Outcome("runtime_error", index, given, expected, _exception(line[1])[1])
            if type(line) is not list or len(line) != 3 or line[0] != "v":
                raise Refused("not an answer")
            return Outcome("" if judge(line[1]) else "mismatch", index, given, expected, show(line[1]))
        except (ValueError, TypeError, AttributeError) as error:  # Refused, or a forged line of a shape that we never write
            return Outcome("mismatch", index, given, expected, f"<unreadable: {error}>"[:300])


def read_answers(result: RunResult, count: int) -> Answers:
    """Sort out what a run answered to `count` calls. More lines than calls are forged: then none counts."""
    if result.status == "infra_error":
        return Answers((), death(result))
    head, *lines = result.channel.split(b"\n")[:-1] or [b""]
    try:
        first = parse(head)
        if type(first) is not list or len(first) != 2 or first[0] != "r":
            raise Refused("no program was loaded")
    except Refused:
        return Answers((), death(result))
    if first[1] is not None:
        return Answers((), _exception(first[1]))
    if len(lines) > count:
        return Answers((), ("runtime_error", "the program wrote answers of its own"))
    return Answers(tuple(lines), None if len(lines) == count else death(result))


def _exception(node: Any) -> tuple[str, str]:
    try:
        stage, names, message = value(node)
        reason = "compile_error" if stage == "compile" else "runtime_error"
        return reason, f"{names[0]}: {message}"[:300]
    except (Refused, ValueError, TypeError, IndexError):
        return "runtime_error", "an exception that cannot be read"


_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda got, expected: got in expected,
}


def decide(sign: str, got: Any, expected: Any) -> bool:
    """Whether a plain value (parsed) stands in the relation to the expected one (parsed), by Python's own comparison.

    No value larger than the expected one is built: it could not be equal, and building a set of a hostile choice of integers
    takes quadratic time.
    """
    if sign == "truth":
        return _truth(got) is expected
    if sign == "is":
        return got is expected
    if nodes(got) > nodes(expected) and sign in ("==", "!=", "in"):
        return sign == "!="
    if sign not in ("==", "!=", "in") and not (_scalar(got) and _scalar(expected)):
        return False
    try:
        return bool(_COMPARED[sign](value(got), value(expected)))
    except TypeError:
        return False


def _scalar(node: Any) -> bool:
    return type(node) is not list and (type(node) is not dict or bool({"i", "f", "D", "q"} & node.keys()))


def _truth(node: Any) -> bool:
    if type(node) is not dict:
        return bool(node)
    ((tag, inner),) = node.items()
    if tag in "tdszbB":
        return len(inner) > 0
    return bool(value(node)) if tag != "o" else True


def same_json(got: Any, expected: Any, close: Callable[[float, float], bool] | None = None) -> bool:
    """Equal as JSON: a tuple is a list, a key is text, 1 equals 1.0 and True. `close` judges two floats instead of equality."""
    if nodes(got) != nodes(expected):
        return False
    return _near(_as_json(got), _as_json(expected), close)


def _as_json(node: Any) -> Any:
    if type(node) is list:
        return [_as_json(item) for item in node]
    if type(node) is not dict:
        return node
    ((tag, inner),) = node.items()
    if tag == "t":
        return [_as_json(item) for item in inner]
    if tag == "d":
        return {key if type(key) is str else json.dumps(key): _as_json(item) for key, item in inner if type(key) is not dict}
    return value(node) if tag in ("i", "f") else object()  # equal to nothing


def _near(got: Any, expected: Any, close: Callable[[float, float], bool] | None) -> bool:
    if close is None:
        return bool(got == expected)
    if type(got) is list and type(expected) is list:
        return len(got) == len(expected) and all(_near(g, e, close) for g, e in zip(got, expected, strict=True))
    if type(got) is dict and type(expected) is dict:
        return got.keys() == expected.keys() and all(_near(got[key], expected[key], close) for key in expected)
    if type(got) in (int, float) and type(expected) in (int, float) and float in (type(got), type(expected)):
        return got == expected or close(got, expected)
    return bool(got == expected)


def shown_call(text: str) -> str:
    """A call as Python would write it: `f(1, 'a')`."""
    try:
        target, name, arguments, keywords = parse(text)
    except Refused:
        return "a large call"
    owner = "" if target is None else f"<result {target}>."
    given = [show(node) for node in arguments or ()] + [f"{key}={show(node)}" for key, node in keywords.items()]
    return f"{owner}{name}" + (f"({', '.join(given)})" if arguments is not None else "")
