"""Tests are read in the field's shapes; what is none of them is the reference's fault, with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guerdon.verifiers.code import BadTests, Calls, Script, Stdio, read_tests

CHECK = "def check(candidate):\n    assert candidate(1) == 2\n"
CASE = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): ...\n"
PYTEST = "import pytest\ndef test_a(): ...\n"


@pytest.mark.parametrize(
    ("reference", "tests"),
    [
        ({"inputs": ["1"], "outputs": ["2"]}, Stdio(("1",), ("2",))),
        ({"input": ["1"], "output": ["2"]}, Stdio(("1",), ("2",))),
        ({"inputs": [["1", "x"]], "outputs": [["2", "3"]]}, Stdio(("1\nx",), ("2\n3",))),
        ({"inputs": ["1"], "outputs": [2]}, Stdio(("1",), ("2",))),
        ([{"input": "1", "output": "2", "testtype": "stdin"}], Stdio(("1",), ("2",))),
        (CHECK, Script("asserts", CHECK)),
        ({"test": CHECK, "entry_point": "f ", "prompt": "def f():\n"}, Script("asserts", CHECK, "", "def f():\n", "f")),
        (["assert f(1) == 2"], Script("asserts", ("assert f(1) == 2",))),
        (
            {"test_list": ["assert f(1) == 2"], "test_imports": ["import math"], "test_setup_code": "x = 1"},
            Script("asserts", ("assert f(1) == 2",), "import math\nx = 1"),
        ),
        (CASE, Script("unittest", CASE)),
        (PYTEST, Script("pytest", PYTEST)),
        ({"pytest": "def test_a(): ..."}, Script("pytest", "def test_a(): ...")),
        ({"test_code": CASE}, Script("unittest", CASE)),
    ],
)
def test_a_shape_is_read(reference: Any, tests: Any) -> None:
    assert read_tests(reference) == tests
    if not isinstance(reference, str):
        assert read_tests(json.dumps(reference)) == tests


@pytest.mark.parametrize(
    ("inputs", "outputs", "call", "output", "wrapped"),
    [
        ('[1, 2]\n"a"', "[0]", '[null,"f",[[1,2],"a"],{}]', "[0]", False),
        ([[1, 2], "a"], 3, '[null,"f",[[1,2],"a"],{}]', "3", False),
        ([[1, 2], "a"], [3], '[null,"f",[[1,2],"a"],{}]', "[3]", True),
        ([{"1": 2}], True, '[null,"f",[{"d":[[1,2]]}],{}]', "true", False),
        ("{}", "null", '[null,"f",[{"d":[]}],{}]', "null", False),
    ],
)
def test_calls_are_read_as_livecodebench_and_apps_write_them(inputs: Any, outputs: Any, call: str, output: str, wrapped: bool) -> None:
    assert read_tests({"fn_name": "f", "inputs": [inputs], "outputs": [outputs]}) == Calls("f", (call,), (output,), wrapped)


def test_functional_cases_take_the_entry_point() -> None:
    case = {"input": "1", "output": "2", "testtype": "functional"}
    assert read_tests([case], entry_point="f") == Calls("f", ('[null,"f",[1],{}]',), ("2",), False)


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("", "missing_reference"),
        ("  \n", "missing_reference"),
        ([], "missing_reference"),
        ({"inputs": [], "outputs": []}, "missing_reference"),
        ({"test": ""}, "missing_reference"),
        ({"inputs": ["1"], "outputs": []}, "malformed_reference"),
        ({"inputs": "1", "outputs": ["1"]}, "malformed_reference"),
        ({"inputs": [None], "outputs": ["1"]}, "malformed_reference"),
        ({"fn_name": "f", "inputs": ["x"], "outputs": ["1"]}, "malformed_reference"),
        ({"fn_name": "f", "inputs": [5], "outputs": [1]}, "malformed_reference"),
        ({"fn_name": "f", "inputs": [[object()]], "outputs": [1]}, "malformed_reference"),
        ({}, "malformed_reference"),
        ({"answer": 4}, "malformed_reference"),
        ("{bad json", "malformed_reference"),
        ("[" * 100_000, "malformed_reference"),
        (5, "malformed_reference"),
        ([1, 2], "malformed_reference"),
        (b"assert f(1)", "malformed_reference"),
    ],
)
def test_what_holds_no_tests_is_the_references_fault(reference: Any, reason: str) -> None:
    with pytest.raises(BadTests) as raised:
        read_tests(reference)
    assert raised.value.reason == reason
