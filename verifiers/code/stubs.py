"""Runs inside the trusted jail: stand-ins for the model's program, whose answers come from a transcript.

The tests call the stand-ins; the transcript holds the calls made so far and the lines that the model's jail gave for them. A call
that the transcript foresaw is answered from it. From the first that it did not, a `Blank` is returned for every call and the calls
are noted: they are asked in the next round. So tests of any shape need no process that talks to another.

An object that is not plain data is a `Handle`: attributes and methods are calls like any other, but it equals only itself, and
hashes by identity. What a model-written `__eq__` says never counts.
"""

from __future__ import annotations

import builtins
import contextlib
import re
from collections.abc import Iterator
from typing import Any, cast

from guerdon.verifiers.code.wire import Refused, dumps, value

__all__ = ["Attribute", "Blank", "Died", "Handle", "Stop", "Stub", "StubType", "Transcript", "Unsendable"]

CALLS, GUESSED_CALLS = 5_000, 200
"""Calls noted in one round; fewer once they depend on a guess."""
_MUTABLE = (list, dict, set, bytearray)
_MARK = re.compile(r'\{"o":\["(\d{1,6})",\[\]\]\}')
"""The result of a call, as an argument of another."""
GUESSES = 20_000
"""Questions put to a Blank in one round: `while f(x):` asks for ever."""


class Stop(BaseException):
    """Enough has been noted for this round."""


class Died(BaseException):
    """The program ended before it answered this call."""


class Unsendable(BaseException):
    """The tests hand the program something that is not plain data."""


class Transcript:
    """One row: the calls foreseen, the lines that answer them, and the calls still to be asked."""

    def __init__(self, calls: list[str], lines: list[Any]) -> None:
        self.calls, self.lines, self.at = calls, lines, 0
        self.need: list[str] = []
        self.touched = self.died = self.recording = False
        self.guesses = 0
        self.given: dict[int, Any] = {}
        self.stubs: dict[str, Any] = {}

    def ask(self, target: str | None, name: str, arguments: tuple[Any, ...] | None, keywords: dict[str, Any]) -> Any:
        """The program's answer to a call, a Blank, or its exception."""
        text = self._text(target, name, arguments, keywords)
        if not self.recording:
            index = self._foreseen(text)
            if index is not None:
                return self._answer(index, arguments or ())
            self.recording = True
        if len(self.need) >= (GUESSED_CALLS if self.touched else CALLS):
            raise Stop
        for argument in arguments or ():
            # Given again, it may have been changed in place meanwhile: that is for the transcript to tell.
            self.touched |= type(argument) in _MUTABLE and id(argument) in self.given
            self.given[id(argument)] = argument
        self.need.append(text)
        return Blank(self, str(self.place() - 1))

    def place(self) -> int:
        """How many calls have been asked or noted. Skipped ones count: ids are places."""
        return self.at + len(self.need)

    def guess(self) -> None:
        """Note that what follows depends on a Blank."""
        self.touched = True
        self.guesses += 1
        if self.guesses > GUESSES:
            raise Stop

    def _text(self, target: str | None, name: str, arguments: tuple[Any, ...] | None, keywords: dict[str, Any]) -> str:
        try:
            if arguments is None:
                return f"[{dumps(target)},{dumps(name)},null,{{}}]"
            given = ",".join([dumps(argument, _sent) for argument in arguments])
            named = ",".join([f"{dumps(key)}:{dumps(argument, _sent)}" for key, argument in keywords.items()])
        except Refused as error:
            raise Unsendable(f"{name}: an argument is {error}") from None
        return f"[{dumps(target)},{dumps(name)},[{given}],{{{named}}}]"

    def _foreseen(self, text: str) -> int | None:
        while self.at < len(self.lines) and self.lines[self.at][0] == "s":
            self.at += 1
        if self.at >= len(self.calls) or self._resolved(self.calls[self.at]) != text:
            return None
        self.at += 1
        return self.at - 1

    def _resolved(self, text: str) -> str:
        """A foreseen call with the results that have become known."""

        def known(mark: re.Match[str]) -> str:
            index = int(mark[1])
            line = self.lines[index] if index < self.at and index < len(self.lines) else ["s"]
            return mark[0] if line[0] != "v" or _is_opaque(line[1]) else dumps(value(line[1], self._handle), _sent)

        return _MARK.sub(known, text)

    def _answer(self, index: int, arguments: tuple[Any, ...]) -> Any:
        if index >= len(self.lines):
            self.died = True
            raise Died("the program ended before it answered")
        kind, inner, changed = self.lines[index]
        if changed is not None:
            for argument, node in zip(arguments, changed[0], strict=False):
                _copy_back(argument, value(node, self._handle))
        if kind == "x":
            raise self._exception(*value(inner)[1:])
        return value(inner, self._handle)

    def _handle(self, inner: Any) -> Handle:
        return Handle(self, str(inner[0]), tuple(map(str, inner[1])))

    def _exception(self, names: list[str], message: str) -> BaseException:
        """The program's exception by name: a builtin one is itself, one of its own is caught by its name and by its builtin base."""
        base: type[BaseException] = next((vars(builtins)[name] for name in names if _is_exception(name)), Exception)
        if names[:1] != [base.__name__]:
            own = tuple(Stub(self, name) for name in names if name not in vars(builtins))
            with contextlib.suppress(TypeError):  # their layouts conflict: the builtin base alone
                base = cast("type[BaseException]", StubType(str(names[0]) if names else "Exception", (*own, base), {}))
        error = BaseException.__new__(base, message)
        error.args = (message,)
        return error


def _is_exception(name: str) -> bool:
    found = vars(builtins).get(name)
    # These two end a test run instead of failing a test.
    return isinstance(found, type) and issubclass(found, BaseException) and name not in ("KeyboardInterrupt", "GeneratorExit")


def _is_opaque(node: Any) -> bool:
    return type(node) is dict and "o" in node


def _sent(thing: Any) -> str:
    if type(thing) is Attribute:
        thing = thing._guerdon_value()
        return dumps(thing, _sent)
    if type(thing) in (Blank, Handle):
        return f'{{"o":[{dumps(thing._guerdon_id)},[]]}}'
    raise Refused(f"of type {type(thing).__name__}, which is not plain data")


def _copy_back(argument: Any, after: Any) -> None:
    if type(argument) is not type(after) or argument == after:
        return
    if type(argument) in (list, bytearray):
        argument[:] = after
    elif type(argument) in (dict, set):
        argument.clear()
        argument.update(after)


class Handle:
    """An object of the program's, which never leaves its jail."""

    def __init__(self, transcript: Transcript, name: str, classes: tuple[str, ...]) -> None:
        self._guerdon_transcript, self._guerdon_id, self._guerdon_classes = transcript, name, classes

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Attribute(self._guerdon_transcript, self._guerdon_id, name)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._guerdon_transcript.ask(self._guerdon_id, "__call__", arguments, keywords)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._guerdon_transcript.ask(self._guerdon_id, "__iter__", (), {}))

    def __contains__(self, item: Any) -> bool:
        return item in list(self)  # by value: a model-written __contains__ may say yes to everything

    def __bool__(self) -> bool:
        return True


class Attribute:
    """`handle.name`: called, it is a method call; used in any other way, it is read first."""

    def __init__(self, transcript: Transcript, target: str | None, name: str) -> None:
        self._guerdon_transcript, self._guerdon_target, self._guerdon_name = transcript, target, name

    def _guerdon_value(self) -> Any:
        return self._guerdon_transcript.ask(self._guerdon_target, self._guerdon_name, None, {})

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._guerdon_transcript.ask(self._guerdon_target, self._guerdon_name, arguments, keywords)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._guerdon_value(), name)


class Blank:
    """A result that is not known yet. It agrees to anything, so that the tests go on and show what else they ask."""

    def __init__(self, transcript: Transcript, name: str) -> None:
        self._guerdon_transcript, self._guerdon_id = transcript, name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._guerdon_transcript.guess()
        return Attribute(self._guerdon_transcript, self._guerdon_id, name)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._guerdon_transcript.ask(self._guerdon_id, "__call__", arguments, keywords)


_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge", "contains", "bool")
_ZERO = {"len": 0, "int": 0, "index": 0, "float": 0.0, "complex": 0j, "hash": 0, "str": "", "repr": "", "format": "", "bytes": b""}
_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul")
_UNARY = ("neg", "pos", "abs", "invert", "round", "floor", "ceil", "trunc", "getitem", "next")
_SAME = (*_BINARY, *(f"r{name}" for name in _BINARY), *_UNARY)


def _blank_method(result: Any) -> Any:
    def method(self: Any, *_: Any) -> Any:
        self._guerdon_transcript.guess()
        return self if result is Blank else iter(()) if result is iter else result

    return method


def _attribute_method(name: str) -> Any:
    def method(self: Any, *others: Any) -> Any:
        found = self._guerdon_value()
        others = tuple(o._guerdon_value() if type(o) is Attribute else o for o in others)
        if name == "bool":
            return bool(found)
        if name == "iter":
            return iter(found)
        return getattr(found, f"__{name}__")(*others)

    return method


def _handle_method(name: str) -> Any:
    def method(self: Any, *others: Any) -> Any:
        return self._guerdon_transcript.ask(self._guerdon_id, f"__{name}__", others, {})

    return method


for _name in (*_COMPARED, *_ZERO, *_SAME, "iter"):
    setattr(Attribute, f"__{_name}__", _attribute_method(_name))
    setattr(Blank, f"__{_name}__", _blank_method(True if _name in _COMPARED else _ZERO.get(_name, iter if _name == "iter" else Blank)))
for _name in ("len", "getitem", "str", "repr", "int", "float"):
    setattr(Handle, f"__{_name}__", _handle_method(_name))


class StubType(type):
    """The class of stubs: calling one asks the program, and so does reading an attribute of it."""

    _guerdon_transcript: Any = None

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        return cls._guerdon_transcript.ask(None, cls.__name__, arguments, keywords)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_") or name.startswith("pytest"):
            raise AttributeError(name)
        return Attribute(cls._guerdon_transcript, None, f"{cls.__name__}.{name}")

    def __instancecheck__(cls, instance: Any) -> bool:
        if type(instance) is Blank:
            return True
        if type(instance) is Handle:
            return cls.__name__ in instance._guerdon_classes
        return type.__instancecheck__(cls, instance)


def Stub(transcript: Transcript, name: str) -> Any:
    """A stand-in for the program's `name`. An exception class too, so that `except name:` and `assertRaises(name)` work."""
    if name not in transcript.stubs:
        transcript.stubs[name] = StubType(name, (Exception,), {"_guerdon_transcript": transcript, "__module__": "solution"})
    return transcript.stubs[name]
