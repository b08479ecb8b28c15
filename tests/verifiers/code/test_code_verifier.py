"""Programs and tests in, verdicts out: who is to blame for what, and that no row changes another's verdict."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import guerdon.rewards as R
from guerdon import Rollout, Status, Verdict
from guerdon.errors import ConfigError
from guerdon.sandboxes.base import RunResult
from guerdon.sandboxes.zygote import Zygote
from guerdon.testing import check_verifier
from guerdon.verifiers.code import CodeVerifier, Float, Program

Judge = Callable[..., Verdict]

ADD = "a, b = map(int, input().split())\nprint(a + b)"
SUMS = {"inputs": ["1 2\n", "3 4\n", "5 5\n", "0 1\n"], "outputs": ["3\n", "7\n", "10\n", "1\n"]}
TWICE = {"fn_name": "twice", "inputs": ["[1, 2]", "[]", "[7]"], "outputs": ["[2, 4]", "[]", "[14]"]}


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        (ADD, "correct", ""),
        ("if __name__ == '__main__':\n    import sys\n    print(sum(map(int, sys.stdin.buffer.read().split())))", "correct", ""),
        ("print(sum(map(int, open(0).read().split())))", "correct", ""),
        ("print(3)", "incorrect", "mismatch"),
        ("print(1/0)", "incorrect", "runtime_error"),
        ("import sys\nprint(3)\nsys.exit(1)", "incorrect", "runtime_error"),
        ("import ctypes\nctypes.string_at(0)", "incorrect", "runtime_error"),
        ("print(", "unparseable", "compile_error"),
        ("x = '\ud800'", "unparseable", "compile_error"),
        ("x = 1\x00", "unparseable", "compile_error"),
        ("while True: pass", "timeout", "cpu_limit"),
        ("while True: print('x' * 100000)", "incorrect", "output_limit"),
        ("x = bytearray(1 << 33)", "incorrect", None),
    ],
)
def test_what_a_program_does_wrong_is_its_own_doing(judge: Judge, code: str, status: str, reason: str | None) -> None:
    verdict = judge(code, SUMS, timeout_s=1.0)
    assert verdict.status.value == status
    assert reason is None or verdict.reason == reason
    assert verdict.score == (1 if status == "correct" else 0)


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("def twice(x): return [2 * n for n in x]", "correct", ""),
        ("class Solution:\n    def twice(self, x: List[int]) -> List[int]: return [2 * n for n in x]", "correct", ""),
        ("def twice(x): return tuple(2 * n for n in x)", "correct", ""),
        ("def twice(x): return [2.0 * n for n in x]", "correct", ""),
        ("def twice(x): return x", "incorrect", "mismatch"),
        ("def twice(x): return {2 * n for n in x}", "incorrect", "mismatch"),
        ("def twice(x): return map(lambda n: 2 * n, x)", "incorrect", "mismatch"),
        ("def double(x): return [2 * n for n in x]", "incorrect", "runtime_error"),
        ("def twice(x): exit(0)", "incorrect", "runtime_error"),
        ("def twice(x): import os; os._exit(0)", "incorrect", "runtime_error"),
        ("import os; os._exit(0)\ndef twice(x): return [2 * n for n in x]", "incorrect", "runtime_error"),
        ("def twice(x):\n    while True: pass", "timeout", "cpu_limit"),
        ("def twice(x): return (", "unparseable", "compile_error"),
    ],
)
def test_calls_are_judged_by_what_they_return(judge: Judge, code: str, status: str, reason: str) -> None:
    verdict = judge(code, TWICE, timeout_s=1.0)
    assert (verdict.status.value, verdict.reason) == (status, reason)


def test_sleeping_through_the_wall_limit_twice_is_a_timeout(judge: Judge) -> None:
    verdict = judge("import time; time.sleep(60)", SUMS, timeout_s=0.2)
    assert (verdict.status, verdict.reason) == (Status.TIMEOUT, "wall_limit")


def test_a_fraction_counts_tests_and_all_decides(judge: Judge) -> None:
    half = "a, b = map(int, input().split())\nprint(a + b if a < 4 and a > 0 else -1)"
    assert judge(half, SUMS, score="fraction").score == 0.5
    assert judge(half, SUMS, score="fraction").status is Status.PARTIAL
    assert judge(half, SUMS).score == 0
    assert judge("print(-1)", SUMS, score="fraction").score == 0


def test_a_fraction_survives_a_call_that_dies(judge: Judge) -> None:
    dies = "import os\ndef twice(x):\n    return [2 * n for n in x] if x else os._exit(0)"
    verdict = judge(dies, TWICE, score="fraction")
    assert (verdict.info["passed"], verdict.info["total"]) == (2, 3)
    assert list(verdict.info["tests"]) == ["passed", "runtime_error", "passed"]


def test_the_first_failure_ends_the_tests_where_it_decides(judge: Judge) -> None:
    assert len(judge("print(-1)", SUMS).info["tests"]) == 1
    assert len(judge("print(-1)", SUMS, stop_on_first_failure=False).info["tests"]) == 4
    assert len(judge("print(-1)", SUMS, score="fraction").info["tests"]) == 4


def test_the_first_failure_is_shown_and_cut(judge: Judge) -> None:
    failure = judge("print('9' * 10000)", {"inputs": ["5\n" * 1000], "outputs": ["7" * 10000]}).info["first_failure"]
    assert failure["got"].startswith("999")
    assert failure["expected"].startswith("777")
    assert failure["input"].startswith("5\n5")
    assert all(len(text) <= 300 for text in failure.values() if isinstance(text, str))


def test_the_level_of_isolation_is_told(judge: Judge) -> None:
    assert judge(ADD, SUMS).info["level"] in ("namespaces", "landlock")


@pytest.mark.parametrize(
    ("checker", "output", "status"),
    [
        ("tokens", "3.0", "incorrect"),
        ("float", "3.0000001", "correct"),
        (Float(0.5, 0.0), "3.4", "correct"),
        (Float(0.1, 0.0), "3.4", "incorrect"),
        ("exact", "3", "incorrect"),
        ("operator:contains", "3", "error"),
    ],
)
def test_a_checker_decides(judge: Judge, checker: Any, output: str, status: str) -> None:
    assert judge(f"print('{output}')", {"inputs": ["1 2"], "outputs": ["3\n\n"]}, checker=checker).status.value == status


def longer(given: str, output: str, expected: str) -> float:
    return min(1.0, len(output.strip()) / len(expected.strip()))


def test_a_function_may_check_and_give_part_of_the_points(judge: Judge) -> None:
    tests = {"inputs": [""], "outputs": ["abcd"]}
    assert judge("print('xy')", tests, checker=longer, score="fraction").score == 0.5
    assert judge("print('wxyz')", tests, checker=longer).score == 1
    assert judge("print('xy')", tests, checker=longer).score == 0


@pytest.mark.parametrize(
    ("exit_code", "status", "score"),
    [(0, "correct", 1), (1, "incorrect", 0), (2, "incorrect", 0), (7, "partial", 0.25), (3, "error", None), (9, "error", None)],
)
def test_a_checker_program_speaks_testlibs_exit_codes(judge: Judge, exit_code: int, status: str, score: float | None) -> None:
    source = f"""
import sys
assert [open(path).read() for path in sys.argv[1:]] == ['in', 'out\\n', 'ans']
print('points 0.25', file=sys.stderr)
sys.exit({exit_code})
"""
    verdict = judge("print('out')", {"inputs": ["in"], "outputs": ["ans"]}, checker=Program(source), score="fraction")
    assert (verdict.status.value, verdict.score) == (status, score)


def test_a_program_in_another_language_is_compiled_and_run(box: Zygote) -> None:
    from guerdon.sandboxes import sandbox

    if "cpp" not in sandbox(box).capabilities().languages:
        pytest.skip("no C++ compiler here")
    code = "```cpp\n#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }\n```"
    broken = "```cpp\nint main() { return x; }\n```"
    rows = [Rollout(text, columns={"tests": SUMS}) for text in (code, broken)]
    assert [v.status.value for v in CodeVerifier(language="cpp", sandbox=box).judge(rows)] == ["correct", "unparseable"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (Rollout(f"```python\n{ADD}\n```"), "missing_reference"),
        (Rollout(f"```python\n{ADD}\n```", columns={"tests": []}), "missing_reference"),
        (Rollout(f"```python\n{ADD}\n```", columns={"tests": "{oops"}), "malformed_reference"),
        (Rollout("nothing here", columns={"tests": {"inputs": ["1"], "outputs": []}}), "malformed_reference"),
    ],
)
def test_missing_and_undecodable_tests_are_the_references_fault(row: Rollout, reason: str, box: Zygote) -> None:
    verdict = CodeVerifier(sandbox=box).judge([row])[0]
    assert (verdict.score, verdict.status, verdict.reason) == (None, Status.BAD_REFERENCE, reason)


@pytest.mark.parametrize("text", ["", "I cannot.", "```python\n```"])
def test_a_completion_without_a_program_is_no_answer(text: str, box: Zygote) -> None:
    verdict = CodeVerifier(sandbox=box).judge([Rollout(text, columns={"tests": SUMS})])[0]
    assert (verdict.score, verdict.status, verdict.reason) == (0, Status.NO_ANSWER, "no_code")


def test_tests_may_be_text_in_the_answer_and_have_alternatives(box: Zygote) -> None:
    verifier = CodeVerifier(sandbox=box)
    assert verifier.reads == {"tests|answer"}
    assert CodeVerifier(column="cases", sandbox=box).reads == {"cases"}
    other = {"inputs": ["1 2"], "outputs": ["5"]}
    rows = [
        Rollout(f"```python\n{ADD}\n```", answer=json.dumps(SUMS)),
        Rollout(f"```python\n{ADD}\n```", answer={"any_of": [other, SUMS]}),
        Rollout(f"```python\n{ADD}\n```", columns={"tests": {"any_of": [other]}}),
    ]
    assert [v.score for v in verifier.judge(rows)] == [1, 1, 0]


LOST = RunResult("infra_error", level="container", backend="canned", detail="the sandbox died")
LATE = RunResult("infra_error", level="container", backend="canned", timed_out_by="deadline")
WALL = RunResult("timeout", timed_out_by="wall", level="container", backend="canned")
FINE = RunResult("ok", 0, stdout=b"3", level="container", backend="canned")


@pytest.mark.parametrize("tests", [SUMS, TWICE, "assert f(1) == 2"], ids=["stdio", "calls", "script"])
@pytest.mark.parametrize(("result", "reason"), [(LOST, "lost_sandbox"), (LATE, "deadline")])
def test_a_lost_sandbox_is_an_error_never_a_score(tests: Any, result: RunResult, reason: str, canned: Any) -> None:
    for score in ("all", "fraction"):
        verdict = CodeVerifier(sandbox=canned((result,)), score=score).judge([Rollout("x = 1", columns={"tests": tests})])[0]
        assert (verdict.score, verdict.status, verdict.reason) == (None, Status.ERROR, reason)


@pytest.mark.parametrize(
    ("results", "status", "reason"),
    [((WALL, WALL), "timeout", "wall_limit"), ((WALL, FINE), "correct", ""), ((WALL, LOST), "error", "lost_sandbox")],
)
def test_a_wall_overrun_counts_only_if_a_run_alone_overruns_too(
    results: tuple[RunResult, ...], status: str, reason: str, canned: Any
) -> None:
    verifier = CodeVerifier(sandbox=canned(results))
    verdict = verifier.judge([Rollout("print(3)", columns={"tests": {"inputs": ["1"], "outputs": ["3"]}})])[0]
    assert (verdict.status.value, verdict.reason) == (status, reason)


def test_a_failed_test_decides_though_another_was_lost(canned: Any) -> None:
    wrong = RunResult("ok", 0, stdout=b"4", level="container", backend="canned")
    verifier = CodeVerifier(sandbox=canned((LOST, wrong)), stop_on_first_failure=False)
    assert verifier.judge([Rollout("print(4)", columns={"tests": {"inputs": ["1", "2"], "outputs": ["3", "3"]}})])[0].score == 0


def rows() -> list[Rollout]:
    texts = [f"```python\n{ADD}\n```", "```python\nprint(3)\n```", "prose", "```python\nprint(\n```", f"```python\n{ADD}\n```"]
    return [Rollout(text, prompt=f"p{i}", columns={"tests": SUMS}) for i, text in enumerate(texts)]


def test_it_keeps_the_contract_of_verifiers(box: Zygote) -> None:
    check_verifier(_Timeless(box), rows(), threads=4)


class _Timeless:
    """A CodeVerifier whose verdicts carry no seconds, so that two runs compare equal."""

    def __init__(self, box: Zygote) -> None:
        self.verifier = CodeVerifier(sandbox=box)

    def judge(self, rollouts: list[Rollout]) -> list[Verdict]:
        from dataclasses import replace

        return [replace(verdict, seconds=0.0) for verdict in self.verifier.judge(rollouts)]


def test_async_gives_the_same(box: Zygote) -> None:
    verifier = CodeVerifier(sandbox=box)
    there = asyncio.run(verifier.ajudge(rows()))
    assert [(v.status, v.reason) for v in there] == [(v.status, v.reason) for v in verifier.judge(rows())]


@pytest.mark.parametrize(
    "wrong",
    [
        {"column": ""},
        {"score": "some"},
        {"timeout_s": 0},
        {"timeout_s": float("inf")},
        {"checker": "nearly"},
        {"checker": 5},
        {"sandbox": 5},
    ],
)
def test_wrong_arguments_are_refused_when_built(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        CodeVerifier(**wrong)


def test_the_reward_is_a_value() -> None:
    reward = R.code_tests(checker="float", score="fraction", timeout_s=4.0, sandbox=Zygote(workers=1))
    assert pickle.loads(pickle.dumps(reward)) == reward
    assert reward.fingerprint is not None
    assert reward.fingerprint != R.code_tests(checker="tokens", score="fraction", timeout_s=4.0, sandbox=Zygote(workers=1)).fingerprint
