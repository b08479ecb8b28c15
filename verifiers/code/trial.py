"""Runs inside the trusted jail: the tests, against stand-ins for the program (see `stubs`). No model code is here, only plain data.

Standard input is one JSON object: `style` ("asserts", "unittest", "pytest"), `tests` (one text, or a list of texts each of which is
one test), `setup`, `prompt` (its helper functions are the tests' own), `entry`, and `rows`: a transcript each, `calls` and `lines`.
One line a row comes out on descriptor 3, in order. With an empty transcript every answer is a Blank and the line is the plan:
which calls the tests make, and for each check how to decide it from one result, if that is possible.

In the style "asserts" each `assert` is rewritten to record its outcome and go on, so all are counted, as many as run.
"""

from __future__ import annotations

import ast
import builtins
import json
import operator
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from guerdon.verifiers.code.stubs import Attribute, Blank, Handle, Stop, Stub, Transcript, Unsendable
from guerdon.verifiers.code.suites import run_pytest, run_unittest
from guerdon.verifiers.code.wire import Refused, dumps, parse

__all__ = ["main"]

_OPERATORS: dict[type, tuple[str, Any]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Is: ("is", operator.is_),
    ast.IsNot: ("is not", operator.is_not),
    ast.In: ("in", lambda a, b: a in b),
    ast.NotIn: ("not in", lambda a, b: a not in b),
}
_APPLY = dict(_OPERATORS.values())
_CHECK = "__guerdon_check__"
_SPLIT = ("==", "!=", "<", "<=", ">", ">=", "in")
"""What can be decided outside from one result and one plain value; `is` too, for None, True and False."""


class Checks:
    """The recorder that rewritten asserts talk to."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript, self.found = transcript, []  # type: ignore[var-annotated]
        self.first = 0

    def begin(self) -> None:
        self.first = self.transcript.place()

    def compare(self, left: Any, sign: str, right: Any) -> None:
        left, right = _plain(left), _plain(right)
        self._note(lambda: bool(_APPLY[sign](left, right)), self._split(left, sign, right), left, right)

    def truth(self, found: Any, wanted: bool) -> None:
        found = _plain(found)
        self._note(lambda: bool(found) is wanted, ["truth", dumps(wanted)] if type(found) is Blank else None, found, wanted)

    def _split(self, left: Any, sign: str, right: Any) -> list[str] | None:
        if type(right) is Blank and sign in ("==", "!="):
            left, right = right, left
        if type(left) is not Blank:
            return None
        if not (sign in _SPLIT or (sign == "is" and (right is None or right is True or right is False))):
            return None
        try:
            return [sign, dumps(right)]
        except Refused:
            return None

    def _note(self, decide: Callable[[], bool], split: list[str] | None, left: Any, right: Any) -> None:
        """A check that needed exactly one call, and nothing else of it, can be decided outside: then it is not a guess."""
        calls, touched = self.transcript.place() - self.first, self.transcript.touched
        passed = decide()
        if split is not None and calls == 1:
            self.transcript.touched = touched
        shown = ["", ""] if passed else [_shown(left), _shown(right)]
        self.found.append([passed, self.first if calls else None, *shown, split if calls == 1 else None])

    def named(self, name: str, trouble: str) -> None:
        """One test of a suite."""
        asked = self.transcript.place() > self.first
        self.found.append([not trouble, self.first if asked else None, trouble, "", None])

    def failed(self, error: BaseException) -> None:
        if isinstance(error, Stop | Unsendable):
            raise error
        self.found.append([False, self.first, f"{type(error).__name__}: {error}"[:300], "", None])


def _plain(thing: Any) -> Any:
    return thing._guerdon_value() if type(thing) is Attribute else thing


def _shown(thing: Any) -> str:
    if type(thing) in (Handle, Blank):
        return f"<{thing._guerdon_classes[0] if type(thing) is Handle and thing._guerdon_classes else 'object'}>"
    try:
        return repr(thing)[:300]
    except Exception:
        return "?"


class _Recorded(ast.NodeTransformer):
    """`assert` becomes a recorded check. The message is dropped: it would call the program again."""

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        test, wanted = node.test, True
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, wanted = test.operand, False
        if wanted and isinstance(test, ast.Compare) and len(test.ops) == 1:
            sign = _OPERATORS[type(test.ops[0])][0]
            check = _call("compare", test.left, ast.Constant(sign), test.comparators[0])
        else:
            check = _call("truth", test, ast.Constant(wanted))
        caught = ast.Name("__guerdon_all__", ast.Load())
        handler = ast.ExceptHandler(caught, "__guerdon_error__", [_call("failed", ast.Name("__guerdon_error__", ast.Load()))])
        attempt = ast.Try([_call("begin"), check], [handler], [], [])
        return ast.fix_missing_locations(ast.copy_location(attempt, node))


def _call(name: str, *arguments: ast.expr) -> ast.Expr:
    function = ast.Attribute(ast.Name("__guerdon__", ast.Load()), name, ast.Load())
    return ast.Expr(ast.Call(function, list(arguments), []))


class Space(dict[str, Any]):
    """The tests' globals: a name nobody defined is a standard module if there is one that is not called, else the program's."""

    def __init__(self, transcript: Transcript, texts: list[str]) -> None:
        super().__init__(__name__="test_solution", __builtins__=vars(builtins))
        self.transcript = transcript
        self.called = {ast.unparse(n.func) for text in texts for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)}

    def __missing__(self, name: str) -> Any:
        if name in vars(builtins) or name.startswith("__"):
            raise KeyError(name)
        if name in sys.stdlib_module_names and name not in self.called:
            return __import__(name)
        return Stub(self.transcript, name)


class _Solution(types.ModuleType):
    """`import solution`, `from solution import f`."""

    def __init__(self, transcript: Transcript) -> None:
        super().__init__("solution")
        self.__all__: list[str] = []
        self.__path__: list[str] = []
        self._guerdon_transcript = transcript

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(self._guerdon_transcript, name)


def helpers(prompt: str, entry: str) -> ast.Module:
    """What the prompt defines for the tests: imports, constants, functions and classes with a body. Nothing if it is not code."""
    try:
        tree = ast.parse(prompt)
    except (SyntaxError, ValueError):
        return ast.Module([], [])
    kept = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.ClassDef)
    body: list[ast.stmt] = [
        node for node in tree.body if isinstance(node, kept) and getattr(node, "name", "") != entry and not _is_empty(node)
    ]
    return ast.Module(body, [])


def _is_empty(node: ast.stmt) -> bool:
    empty = (ast.Pass, ast.Expr, ast.Raise)
    return isinstance(node, ast.FunctionDef) and all(isinstance(statement, empty) for statement in node.body)


def run_asserts(order: Any, checks: Checks, space: Space) -> None:
    """Run a script of asserts, or each text of a list as one test; call `check(entry)` or `test_*()` if the script only defines them."""
    tests, entry = order["tests"], order["entry"]
    texts = [tests] if isinstance(tests, str) else tests
    trees = [_Recorded().visit(ast.parse(text)) for text in (order["setup"], *texts)]
    if entry:
        space[entry] = Stub(space.transcript, entry)  # it may bear the name of a builtin
    for node in (node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"):
        if any(isinstance(call, ast.Call) and ast.unparse(call.func) == "check" for call in ast.walk(node)):
            node.name = _CHECK  # the function under test bears that name too: this one would call itself for ever
    space.update(__guerdon__=checks, __guerdon_all__=BaseException)
    for number, tree in enumerate(trees):
        before = len(checks.found)
        try:
            exec(compile(tree, "<tests>", "exec"), space)
        except (Stop, Unsendable):
            raise
        except BaseException as error:
            if isinstance(tests, str) or not number:
                raise
            checks.failed(error)
        if number and isinstance(tests, list) and len(checks.found) == before:
            checks.found.append([True, None, "", "", None])
    check = dict.get(space, _CHECK) or dict.get(space, "check")
    if not checks.found and entry and callable(check):
        check(Stub(space.transcript, entry))
    if not checks.found:
        for name, function in list(space.items()):
            if name.startswith("test") and isinstance(function, types.FunctionType) and not function.__code__.co_argcount:
                function()


def _read_lines(text: str) -> list[Any]:
    """The lines of the model's jail after the first. A line that is none of ours ends them: the program died there, or forged it."""
    found: list[Any] = []
    for line in text.split("\n")[1:]:
        try:
            node = parse(line)
        except Refused:
            break
        if type(node) is not list or not (node == ["s"] or (len(node) == 3 and node[0] in ("v", "x"))):
            break
        found.append(node)
    return found


def run_row(order: Any, row: Any) -> list[Any]:
    """The line for one transcript: checks, calls to ask next after how many that stay, and what went wrong outside of a check."""
    import random

    random.seed(0)
    transcript = Transcript(row["calls"], _read_lines(row["lines"]))
    checks, trouble = Checks(transcript), None
    sys.modules["solution"] = _Solution(transcript)
    try:
        space = Space(transcript, [tests] if isinstance(tests := order["tests"], str) else tests)
        exec(compile(helpers(order["prompt"], order["entry"]), "<prompt>", "exec"), space)
        style = order["style"]
        run = run_asserts if style == "asserts" else run_unittest if style == "unittest" else run_pytest
        run(order, checks, space)
    except Stop:
        transcript.touched = True
    except Unsendable as error:
        trouble = ["unsendable", str(error)]
    except BaseException as error:
        trouble = ["raised", f"{type(error).__name__}: {error}"[:300]]
    return [checks.found, transcript.need, transcript.at, transcript.touched, transcript.died, trouble]


def main() -> None:
    """Read the order and run each row."""
    chunks = []
    while chunk := os.read(0, 1 << 20):
        chunks.append(chunk)
    order = json.loads(b"".join(chunks))
    if "numpy" in str(order["tests"]):
        import numpy

        numpy.random.seed(0)
    for row in order["rows"]:
        line = memoryview(dumps(run_row(order, row), None, 1 << 24).encode("ascii") + b"\n")
        while line:
            line = line[os.write(3, line) :]
    os._exit(0)
