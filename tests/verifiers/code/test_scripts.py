"""Test code of any form is run against the program, which it never meets: values cross, objects stay, and no test is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from guerdon import Rollout, Verdict
from guerdon.sandboxes.base import sandbox
from guerdon.sandboxes.zygote import Zygote
from guerdon.verifiers.code import CodeVerifier, read_tests
from guerdon.verifiers.code.results import Candidate
from guerdon.verifiers.code.scripts import judge_script

Judge = Callable[..., Verdict]

SQUARE = "def f(x):\n    return x * x\n"
CUBE = "def f(x):\n    return x * x * x\n"

FORMS = {
    "check": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\n",
    "loop": "def check(candidate):\n    for i in range(4):\n        assert candidate(i) == i ** 2\n",
    "random": "import random\ndef check(candidate):\n    for n in random.sample(range(5, 99), 9):\n        assert candidate(n) == n * n\n",
    "tolerance": "def check(candidate):\n    assert abs(candidate(2) - 4) < 1e-9\n    assert abs(candidate(3) - 9) < 1e-9\n",
    "isclose": "assert math.isclose(f(2), 4.0)\nassert math.isclose(f(3), 9.0)\n",
    "reversed": "assert 4 == f(2)\nassert 9 == f(3)\n",
    "membership": "assert f(2) in (4, 5)\nassert f(3) in [9]\n",
    "order": "assert f(2) < 5\nassert f(3) >= 9 and f(3) <= 9\n",
    "truth": "assert f(2) - 4 == 0\nassert not f(3) - 9\n",
    "nested": "assert f(f(2)) == 16\nassert str(f(3)) == '9'\n",
    "adaptive": "x = 2\nwhile f(x) < 100:\n    x = f(x)\nassert x == 16\n",
    "message": "assert f(2) == 4, f'got {f(2)}'\nassert f(3) == 9, 'no'\n",
    "self-run": "def check(candidate):\n    assert candidate(3) == 9\ndef test_check():\n    check(f)\ntest_check()\n",
    "functions": "def test_a():\n    assert f(3) == 9\ndef test_b():\n    assert f(2) == 4\n",
    "module": "import solution\nassert solution.f(3) == 9\n",
    "parts": ["assert f(2) == 4", "y = f(3)\nassert y == 9"],
    "unittest": """
import unittest
class T(unittest.TestCase):
    def test_a(self):
        for x in (2, 3):
            with self.subTest(x=x):
                self.assertEqual(f(x), x * x)
""",
    "raises": """
import unittest
from solution import f
class T(unittest.TestCase):
    def test_a(self):
        with self.assertRaises(TypeError):
            f(None)
        self.assertEqual(f(3), 9)
""",
}


@pytest.mark.parametrize("form", FORMS)
def test_right_passes_and_wrong_fails_in_every_form(judge: Judge, form: str) -> None:
    assert judge(SQUARE, FORMS[form], entry_point="f").score == 1
    wrong = judge(CUBE, FORMS[form], entry_point="f")
    assert (wrong.score, wrong.status.value) == (0, "incorrect")


@pytest.mark.parametrize("framework", ["unittest", "pytest"])
def test_each_test_of_a_suite_is_counted(judge: Judge, framework: str) -> None:
    tests = {
        "unittest": "import unittest\nfrom solution import f\nclass T(unittest.TestCase):\n"
        "    def test_a(self):\n        self.assertEqual(f(2), 4)\n    def test_b(self):\n        self.assertEqual(f(1), 1)\n"
        "    @unittest.skip('later')\n    def test_c(self):\n        self.assertEqual(f(1), 7)\n",
        "pytest": "import pytest\nfrom solution import f\n@pytest.mark.parametrize('x', [2, 1])\ndef test_a(x):\n    assert f(x) == x * x\n"
        "@pytest.mark.skip\ndef test_c():\n    assert f(1) == 7\n",
    }[framework]
    assert judge(SQUARE, {framework: tests}).info["total"] == 2
    half = judge(CUBE, {framework: tests}, score="fraction")
    assert (half.score, half.info["passed"], half.info["total"]) == (0.5, 1, 2)


CLASS = """
class Full(ValueError):
    pass
class Stack:
    limit = 2
    def __init__(self, items=()):
        self.items = list(items)
    def push(self, x):
        if len(self.items) == self.limit:
            raise Full(f"no room for {x}")
        self.items.append(x)
        return self
    def pop(self):
        return self.items.pop()
    def __len__(self):
        return len(self.items)
    def __iter__(self):
        return iter(self.items)
    def __eq__(self, other):
        return True
    __hash__ = None
"""


@pytest.mark.parametrize(
    ("tests", "score"),
    [
        ("s = Stack()\ns.push(1)\ns.push(2)\nassert s.pop() == 2\nassert len(s) == 1\nassert s.items == [1]", 1),
        ("assert Stack([1]).push(2).pop() == 2", 1),
        ("assert list(Stack([1, 2])) == [1, 2]\nassert 2 in Stack([1, 2])", 1),
        ("assert isinstance(Stack(), Stack)\nassert Stack.limit == 2", 1),
        ("s = Stack([1])\nwhile len(s) < 2:\n    s.push(9)\nassert s.items == [1, 9]", 1),
        ("s = Stack([1, 2])\ntry:\n    s.push(3)\nexcept Full as e:\n    assert str(e) == 'no room for 3'", 1),
        ("s = Stack([1, 2])\ntry:\n    s.push(3)\nexcept ValueError:\n    assert len(s) == 2", 1),
        ("assert Stack() == 5", 0),
        ("assert Stack() == Stack()", 0),
        ("assert Stack([1, 2]).pop() == 1", 0),
        ("assert 7 in Stack([1])", 0),
    ],
)
def test_objects_stay_in_their_jail_and_equal_nothing_by_their_own_word(judge: Judge, tests: str, score: int) -> None:
    assert judge(CLASS, tests).score == score


def test_arguments_changed_in_place_come_back(judge: Judge) -> None:
    tests = "x = [3, 1, 2]\nassert f(x) is None\nassert x == [1, 2, 3]\n"
    assert judge("def f(x):\n    x.sort()\n", tests).score == 1
    assert judge("def f(x):\n    sorted(x)\n", tests).score == 0


def test_an_argument_given_twice_is_seen_as_the_first_call_left_it(judge: Judge) -> None:
    tests = "x = [3, 1]\nassert f(x) == 1\nassert f(x) == 3\n"
    assert judge("def f(x):\n    return x.pop()\n", tests).score == 1
    assert judge("def f(x):\n    return x[-1]\n", tests).score == 0


@pytest.mark.parametrize(
    ("form", "rounds"), [("check", 2), ("loop", 2), ("random", 2), ("reversed", 2), ("membership", 2), ("parts", 3), ("tolerance", 3)]
)
def test_plain_comparisons_are_made_outside_without_a_second_trusted_run(box: Zygote, form: str, rounds: int) -> None:
    work = judge_script(read_tests(FORMS[form], "f"), [Candidate(SQUARE)], None)
    results, count, reports = None, 0, []
    while not reports:
        try:
            results = sandbox(box).run_many(work.send(results))  # type: ignore[arg-type]  # None starts a generator
            count += 1
        except StopIteration as end:
            reports = end.value
    assert count == rounds
    assert not any(outcome.reason for outcome in reports[0].outcomes)


@pytest.mark.parametrize(
    ("body", "caught", "score"),
    [
        ("raise ValueError('bad')", "ValueError", 1),
        ("raise UnicodeDecodeError('utf-8', b'', 0, 1, 'bad')", "ValueError", 1),
        ("raise SystemExit(0)", "SystemExit", 1),
        ("raise KeyError(x)", "ValueError", 0),
        ("class SkipTest(Exception): pass\n    raise SkipTest('x')", "ValueError", 0),
        ("import os; os._exit(0)", "BaseException", 0),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", 0),
    ],
)
def test_exceptions_cross_by_name(judge: Judge, body: str, caught: str, score: int) -> None:
    tests = (
        "import unittest\nfrom solution import f\nclass T(unittest.TestCase):\n    def test_a(self):\n"
        f"        with self.assertRaises({caught}):\n            f(1)\n"
    )
    assert judge(f"def f(x):\n    {body}\n", tests).score == score


def test_the_prompts_helpers_are_the_tests_own(judge: Judge) -> None:
    prompt = "import math\ndef poly(x):\n    return x - 3\ndef root(n):\n    '''The root of poly.'''\n"
    tests = "def check(candidate):\n    assert abs(poly(candidate(1))) < 1e-6\n    assert poly(4) == 1\n"
    assert judge("    return 3\n", tests, entry_point="root", prompt=prompt, fence=False).score == 1
    cheat = "def poly(x):\n    return 0\ndef root(n):\n    return 5\n"
    assert judge(cheat, tests, entry_point="root", prompt=prompt).score == 0


def test_a_program_that_stands_alone_may_use_the_prompts_imports_but_not_its_entry_point(judge: Judge) -> None:
    prompt = "from typing import List\ndef f(x: List[int]) -> int:\n    return 4\n"
    tests = "def check(candidate):\n    assert candidate([1]) == 4\n"
    assert judge("def f(x: List[int]):\n    return 4\n", tests, entry_point="f", prompt=prompt).score == 1
    assert judge("f.x = 1\ndef g(x): return 4\nclass f: pass\n", tests, entry_point="f", prompt=prompt).score == 0


@pytest.mark.parametrize("name", ["sum", "bisect", "check", "copy"])
def test_the_function_under_test_may_bear_any_name(judge: Judge, name: str) -> None:
    tests = f"def check(candidate):\n    assert {name}(2) == 4\n"
    assert judge(f"def {name}(x):\n    return x * x\n", tests, entry_point=name).score == 1


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        ("assert 1 == 1", "missing_reference"),
        ("x = 1", "missing_reference"),
        ("assert f(2) ==", "malformed_reference"),
        ("import nowhere_to_be_found\nassert f(2) == 4", "malformed_reference"),
        ("assert f(lambda: 1) == 4", "malformed_reference"),
        ("import unittest\nclass T(unittest.TestCase):\n    pass\n", "missing_reference"),
        ("import pytest\ndef test_a(: ...\n", "malformed_reference"),
    ],
)
def test_tests_that_cannot_test_are_the_references_fault(judge: Judge, tests: str, reason: str) -> None:
    for code in (SQUARE, CUBE):
        verdict = judge(code, tests)
        assert (verdict.score, verdict.status.value, verdict.reason) == (None, "bad_reference", reason)


def test_tests_that_never_end_are_the_references_fault(judge: Judge, impatient: Zygote) -> None:
    assert judge(SQUARE, "while True: pass", sandbox=impatient).reason == "malformed_reference"


@pytest.mark.slow
def test_a_test_that_follows_the_program_for_ever_ends(judge: Judge) -> None:
    verdict = judge("def f(x):\n    return x + 1\n", "x = 0\nwhile f(x):\n    x = f(x)\nassert x == 0")
    assert (verdict.score, verdict.reason) == (0, "too_many_rounds")


def test_what_a_program_returns_may_not_stall_the_tests_of_others(impatient: Zygote) -> None:
    tests = "assert sum(range(f(2))) == 6\n"
    rows = [Rollout(f"```python\ndef f(x):\n    return {n}\n```", columns={"tests": tests}) for n in (4, 10**12, 4, 5)]
    assert [v.status.value for v in CodeVerifier(sandbox=impatient).judge(rows)] == ["correct", "timeout", "correct", "incorrect"]


def test_the_first_failure_says_call_expected_and_got(judge: Judge) -> None:
    failure = judge(CUBE, "assert f(1) == 1\nassert f(2) == 4\n").info["first_failure"]
    assert failure == {"test": 1, "input": "f(2)", "expected": "4", "got": "8"}
