"""Runs inside the model's jail: load the program, answer the calls, one line each. Holds no expected value and grades nothing.

Standard input is one JSON object: `code`, `preamble` (code to run before it, if it compiles), `entry` (a name that the preamble
must not supply), `calls`, `methods` (whether a class `Solution` may supply the function), `track` (whether changed arguments are
reported). Lines go to descriptor 3 as they come: `["r",exception]` once the program is loaded, then for each call
`["v",value,arguments]`, `["x",exception,arguments]` or `["s"]` (skipped: a method of what turned out to be plain data).
`arguments` is null unless the call changed its arguments in place. A call is `[target,name,arguments,keywords]`: target null is
the program itself, an id an earlier result; arguments null reads an attribute.

What the program does to this process is its own affair: a forged line is a value like any other. The builtins and functions
used here are captured before the program runs, so that a program that replaces them spoils nothing but its own values.
"""

from __future__ import annotations

import json
import os
import sys
import types
from typing import Any

from guerdon.verifiers.code.wire import Refused, dumps, value

__all__ = ["Runner", "main"]

RECURSION = 50_000
"""LiveCodeBench's. The default of 1000 fails honest depth-first searches."""
_NAMES = 8


class Runner:
    """The loaded program and the results of its calls so far, by id: "3" is the result of call 3, "3.0" the first opaque value in it."""

    def __init__(self, methods: bool, track: bool) -> None:
        self.methods, self.track = methods, track
        self.space: dict[str, Any] = {}
        self.results: dict[str, Any] = {}
        self.plain: set[str] = set()

    def load(self, code: str, preamble: str, entry: str) -> str:
        """Run the program as module `solution`; the line's exception part."""
        module = types.ModuleType("solution")
        sys.modules["solution"] = module
        self.space = module.__dict__
        try:
            if preamble:
                exec(compile(preamble, "preamble.py", "exec", dont_inherit=True), self.space)
                self.space.pop(entry, None)
        except Exception:
            self.space.pop(entry, None)  # prose, or code that needs what is not here: the program stands alone
        try:
            compiled = compile(code, "solution.py", "exec", dont_inherit=True)
        except BaseException as error:
            return _exception(error, "compile")
        try:
            exec(compiled, self.space)
        except BaseException as error:
            return _exception(error, "run")
        return "null"

    def answer(self, index: int, call: Any) -> str:
        """The line for one call."""
        target, name, arguments, keywords = call
        if target is not None and (target in self.plain or target not in self.results):
            return '["s"]'
        before = after = "null"
        try:
            result = callee = self._find(target, name)
            if arguments is not None:
                given = [value(node, self._held) for node in arguments]
                named = {key: value(node, self._held) for key, node in keywords.items()}
                before = self._changed(given, named)
                result = list(callee(*given, **named)) if name == "__iter__" else callee(*given, **named)
                after = self._changed(given, named)
        except BaseException as error:
            return f'["x",{_exception(error, "call")},null]'
        self.results[str(index)] = result
        text = self._encoded(result, str(index))
        if not text.startswith('{"o":'):
            self.plain.add(str(index))
        return f'["v",{text},{after if after != before else "null"}]'

    def _changed(self, given: list[Any], named: dict[str, Any]) -> str:
        return self._encoded([given, named], "") if self.track else "null"

    def _find(self, target: str | None, name: str) -> Any:
        if target is not None:
            found = self.results[target]
            return found if name == "__call__" else getattr(found, name)
        owner = self.space.get("Solution") if self.methods else None
        if isinstance(owner, type) and hasattr(owner, name):
            return getattr(owner(), name)
        first, *rest = name.split(".")
        if first not in self.space:
            raise NameError(f"name {first!r} is not defined")
        found = self.space[first]
        for part in rest:
            found = getattr(found, part)
        return found

    def _held(self, inner: Any) -> Any:
        return self.results[inner[0]]

    def _encoded(self, result: Any, name: str) -> str:
        """The line's value part; what is not plain keeps its place here and leaves an id, and the names of its classes."""
        count = 0

        def keep(thing: Any) -> str:
            nonlocal count
            own = name if thing is result else f"{name}.{count}"
            count += 1
            self.results[own] = thing
            return f'{{"o":[{dumps(own)},{dumps(_names(type(thing)))}]}}'

        try:
            return dumps(result, keep)
        except (Refused, RecursionError, MemoryError) as error:
            return f'{{"o":["!{name}",[{dumps("unsendable: " + str(error))}]]}}'


def _names(kind: type) -> list[str]:
    try:
        return [str.__str__(base.__name__)[:100] for base in type.mro(kind)][:_NAMES]
    except Exception:
        return ["object"]


def _exception(error: BaseException, stage: str) -> str:
    try:
        message = error.args[0] if len(error.args) == 1 and type(error.args[0]) is str else str(error)
        return dumps([stage, _names(type(error)), str.__str__(message)[:500]])
    except BaseException:
        return dumps([stage, _names(type(error)), ""])


def main() -> None:
    """Read the order, answer it, end at once: no exit handler of the program runs."""
    chunks = []
    while chunk := os.read(0, 1 << 20):
        chunks.append(chunk)
    order = json.loads(b"".join(chunks))
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):  # what the program prints is not part of the answer, and would meet the output limit
        os.dup2(null, fd)
    sys.setrecursionlimit(RECURSION)
    sys.set_int_max_str_digits(0)
    leave, write = os._exit, os.write

    def send(line: str) -> None:
        rest = memoryview(line.encode("ascii") + b"\n")
        while rest:
            rest = rest[write(3, rest) :]

    runner = Runner(order["methods"], order["track"])
    failure = runner.load(order["code"], order["preamble"], order["entry"])
    send(f'["r",{failure}]')
    if failure == "null":
        for index, call in enumerate(order["calls"]):
            send(runner.answer(index, call))
    leave(0)
