"""Tests in the shapes the field uses, read into three: `Stdio`, `Calls`, `Script`. Nothing is run here.

`Stdio`: `{"inputs": [...], "outputs": [...]}` (also `input`, `output`), `[{"input":, "output":}, ...]`.

`Calls`: the same with `"fn_name"`; each input JSON lines (LiveCodeBench) or a list of arguments (APPS).

`Script`: `{"test": "def check(candidate): ...", "entry_point":, "prompt":}` (HumanEval) or its text alone; `{"test_list": ["assert
f(1) == 2", ...], "test_setup_code":, "test_imports":}` (MBPP) or the list alone; the text of a unittest or pytest file, also under
`"unittest"`, `"pytest"` or `"test_code"`.

JSON text of any of these is decoded. Pickles (LiveCodeBench's private tests) are not: decode those when the data set is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from guerdon.verifiers.code.wire import Refused, dumps

__all__ = ["BadTests", "Calls", "Script", "Stdio", "Tests", "read_tests"]

Style = Literal["asserts", "unittest", "pytest"]


class BadTests(Exception):
    """The reference holds no tests that can be run: `reason` is a machine code."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, slots=True)
class Stdio:
    """Programs that read standard input and print: test i is `inputs[i]`, `outputs[i]`."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one function: `calls[i]` as a line for the jail, `outputs[i]` the values that pass, as JSON has them."""

    name: str
    calls: tuple[str, ...]
    outputs: tuple[str, ...]
    wrapped: bool
    """APPS: each output is a list of one, and its element passes as well."""


@dataclass(frozen=True, slots=True)
class Script:
    """Test code, run in a jail of its own. `tests` is one text, or several of which each is one test."""

    style: Style
    tests: str | tuple[str, ...]
    setup: str = ""
    prompt: str = ""
    entry: str = ""


Tests = Stdio | Calls | Script


def read_tests(reference: Any, entry_point: str = "", prompt: str = "") -> Tests:
    """The tests of a reference. `entry_point` and `prompt` serve where the reference names none. Raises BadTests.

    >>> read_tests('{"inputs": ["1 2"], "outputs": ["3"]}')
    Stdio(inputs=('1 2',), outputs=('3',))
    >>> read_tests(["assert f(1) == 2"]).style
    'asserts'
    """
    if isinstance(reference, str):
        reference = _decoded(reference)
    if isinstance(reference, str):
        return _script(reference, {}, entry_point, prompt)
    if isinstance(reference, Mapping):
        return _from_mapping(reference, entry_point, prompt)
    if isinstance(reference, Sequence) and not isinstance(reference, bytes | bytearray):
        return _from_list(list(reference), {}, entry_point, prompt)
    raise BadTests("malformed_reference", f"expected tests as a mapping, a list or text, got {type(reference).__name__}")


def _decoded(text: str) -> Any:
    stripped = text.strip()
    if not stripped:
        raise BadTests("missing_reference", "the tests are empty")
    if stripped[0] not in '{["':
        return text
    try:
        return json.loads(stripped)
    except (ValueError, RecursionError) as error:
        raise BadTests("malformed_reference", f"the tests are not JSON: {error}; decode pickled or packed tests beforehand") from None


def _from_mapping(reference: Mapping[str, Any], entry_point: str, prompt: str) -> Tests:
    entry_point = _text(reference, "entry_point") or entry_point
    prompt = _text(reference, "prompt") or prompt
    name = _text(reference, "fn_name") or _text(reference, "func_name")
    for inputs, outputs in (("inputs", "outputs"), ("input", "output")):
        if inputs in reference or outputs in reference:
            return _pairs(_column(reference, inputs), _column(reference, outputs), name)
    if "test_list" in reference:
        imports = "\n".join(map(str, reference.get("test_imports") or ()))
        setup = f"{imports}\n{_text(reference, 'test_setup_code')}".strip()
        return _from_list(_column(reference, "test_list"), {"setup": setup}, entry_point, prompt)
    for key in ("tests", "test_cases"):
        if isinstance(reference.get(key), list):
            return _from_list(reference[key], {"fn_name": name}, entry_point, prompt)
    for key in ("test", "tests", "test_code", "unittest", "pytest"):
        if key in reference:
            return _script(reference[key], {"style": key, "setup": _text(reference, "setup")}, entry_point, prompt)
    raise BadTests("malformed_reference", f"no tests under the keys {', '.join(sorted(map(str, reference)))[:200] or '(none)'}")


def _text(reference: Mapping[str, Any], key: str) -> str:
    found = reference.get(key)
    return found.strip() if isinstance(found, str) and key != "prompt" else found if isinstance(found, str) else ""


def _column(reference: Mapping[str, Any], key: str) -> list[Any]:
    found = reference.get(key)
    found = getattr(found, "tolist", lambda: found)()  # Parquet gives arrays
    if not isinstance(found, list | tuple):
        raise BadTests("malformed_reference", f"{key!r} must be a list, got {type(found).__name__}")
    return list(found)


def _from_list(items: list[Any], options: dict[str, str], entry_point: str, prompt: str) -> Tests:
    if not items:
        raise BadTests("missing_reference", "there are no tests")
    if all(isinstance(item, Mapping) for item in items):
        functional = [item.get("testtype") == "functional" for item in items]
        name = options.get("fn_name") or (entry_point if all(functional) else "")
        return _pairs([item.get("input") for item in items], [item.get("output") for item in items], name)
    if all(isinstance(item, str) for item in items):
        return Script("asserts", tuple(items), options.get("setup", ""), prompt, entry_point.strip())
    raise BadTests("malformed_reference", "a list of tests holds texts, or mappings with input and output")


def _script(text: Any, options: dict[str, str], entry_point: str, prompt: str) -> Script:
    if not isinstance(text, str) or not text.strip():
        raise BadTests("missing_reference", f"the test code is empty or not text ({type(text).__name__})")
    style = options.get("style", "")
    if style not in ("unittest", "pytest"):
        style = "unittest" if _UNITTEST(text) else "pytest" if _PYTEST(text) else "asserts"
    return Script(style, text, options.get("setup", ""), prompt, entry_point.strip())  # type: ignore[arg-type]


_UNITTEST = re.compile(r"^class \w+\((?:unittest\.)?TestCase\)", re.M).search
_PYTEST = re.compile(r"^(?:import|from) pytest\b", re.M).search


def _pairs(inputs: list[Any], outputs: list[Any], name: str) -> Tests:
    if len(inputs) != len(outputs):
        raise BadTests("malformed_reference", f"{len(inputs)} inputs for {len(outputs)} outputs")
    if not inputs:
        raise BadTests("missing_reference", "there are no tests")
    if name:
        return _calls(inputs, outputs, name)
    return Stdio(tuple(map(_stream, inputs)), tuple(map(_stream, outputs)))


def _stream(given: Any) -> str:
    """Text as it is; a list is its lines (APPS); a number is its text."""
    if isinstance(given, str):
        return given
    if isinstance(given, list | tuple):
        return "\n".join(map(_stream, given))
    if isinstance(given, int | float) and not isinstance(given, bool):
        return str(given)
    raise BadTests("malformed_reference", f"an input or output must be text or a list of lines, got {type(given).__name__}")


def _calls(inputs: list[Any], outputs: list[Any], name: str) -> Calls:
    try:
        arguments = [_arguments(given) for given in inputs]
        values = [_json(given) if isinstance(given, str) and _all_text(inputs) else given for given in outputs]
        lines = [f"[null,{dumps(name)},[{','.join(map(dumps, given))}],{{}}]" for given in arguments]
        wrapped = not _all_text(inputs) and all(isinstance(found, list) and len(found) == 1 for found in values)
        return Calls(name, tuple(lines), tuple(map(dumps, values)), wrapped)
    except (Refused, ValueError, RecursionError) as error:
        raise BadTests("malformed_reference", f"{name}: arguments and outputs must be JSON: {error}") from None


def _all_text(inputs: list[Any]) -> bool:
    return all(isinstance(given, str) for given in inputs)


def _arguments(given: Any) -> list[Any]:
    """LiveCodeBench: one JSON value a line. APPS: the list of arguments, in which an object's keys that look like integers are."""
    if isinstance(given, str):
        return [_json(line) for line in given.splitlines() if line.strip()]
    if not isinstance(given, list | tuple):
        raise BadTests("malformed_reference", f"arguments must be a list or JSON lines, got {type(given).__name__}")
    return [_int_keys(argument) for argument in given]


def _json(text: str) -> Any:
    return json.loads(text)


def _int_keys(argument: Any) -> Any:
    if isinstance(argument, dict) and argument and all(isinstance(k, str) and k.lstrip("-").isdecimal() for k in argument):
        return {int(k): v for k, v in argument.items()}
    return argument
