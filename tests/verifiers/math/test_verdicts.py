"""Statuses: what is the completion's doing, the reference's, the host's; and that nothing a row holds touches another row."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import guerdon
from guerdon import Rollout, Status, Verdict
from guerdon.errors import ConfigError
from guerdon.sandboxes import Failed, PoolSpec, until
from guerdon.verifiers.math import MathRules, MathVerifier, asking, compile_answer, equivalent, verify

UNDECIDED = r"\boxed{\sum_{j=1}^n j^2}", r"\sum_{k=1}^n k^2"  # equal, and for algebra to say
HANG = r"\binom{100000000}{50000000}"  # math-verify computes it while parsing
HANGS = rf"\boxed{{\lfloor x \rfloor + {HANG}}}", r"\lfloor x \rfloor"


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    guerdon.close()


@pytest.mark.parametrize(
    ("completion", "answer", "status", "reason", "info"),
    [
        ("#### 42", "42", Status.CORRECT, "", {"rule": "hash", "stage": "number", "convention": "equal numbers"}),
        ("#### 41", "42", Status.INCORRECT, "mismatch", {"rule": "hash", "stage": "number", "convention": "different numbers"}),
        (
            "The answer is Bob.",
            "Evelyn",
            Status.INCORRECT,
            "mismatch",
            {"rule": "phrase", "stage": "text", "convention": "different words"},
        ),
        ("Answer: b", "B", Status.CORRECT, "", {"rule": "answer_line", "stage": "choice", "convention": "letter"}),
        (r"\boxed{\sqrt{8}}", r"2\sqrt2", Status.CORRECT, "", {"rule": "box", "stage": "tree", "convention": "mul and root"}),
        (*UNDECIDED, Status.CORRECT, "", {"rule": "box", "stage": "math_verify", "convention": "lazy"}),
        ("Dunno, sorry", "42", Status.NO_ANSWER, "no_answer", {"rule": ""}),
        (r"\boxed{42} \boxed{}", "42", Status.NO_ANSWER, "empty_box", {"rule": "box"}),
        (r"\boxed{42} \boxed{4", "42", Status.NO_ANSWER, "unterminated_box", {"rule": "box"}),
        (r"\boxed{ . }", "42", Status.NO_ANSWER, "no_answer", {"rule": "box", "stage": "text", "convention": "empty"}),
        (r"\boxed{(3-9) (5-15}", "-6", Status.UNPARSEABLE, "unreadable", {"rule": "box", "stage": "tree", "convention": "unreadable"}),
        (r"\boxed{9^{9^{9^9}}}", "1", Status.INCORRECT, "mismatch", {"rule": "box", "stage": "tree", "convention": "num and pow"}),
        (rf"\boxed{{{'7' * 100_000}}}", "1", Status.UNPARSEABLE, "too_large", {"rule": "box", "stage": "tree", "convention": "caps"}),
    ],
)
def test_what_the_completion_does_is_scored(completion: str, answer: str, status: Status, reason: str, info: dict[str, str]) -> None:
    verdict = verify(completion, answer)
    assert (verdict.status, verdict.reason, dict(verdict.info)) == (status, reason, info)
    assert verdict.score == float(status is Status.CORRECT)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "missing_reference"), ("", "missing_reference"), ("  ", "missing_reference"), (True, "malformed_reference"),
        (["5"], "malformed_reference"), (float("nan"), "malformed_reference"), (float("inf"), "malformed_reference"),
        (r"\boxed{}", "malformed_reference"), (r"so \boxed{5", "malformed_reference"), (r"\boxed{", "malformed_reference"),
        (r"\frac{1}{", "malformed_reference"),
        ("$$", "malformed_reference"), ("x" * 7000, "malformed_reference"), ("He has 2+1=3.\n#### 3", "malformed_reference"),
        (r"\frac{0}{0}", "malformed_reference"), (r"\wat_", "malformed_reference"), (r"1+\frac{q}{}", "malformed_reference"),
        (r"\sqrt{}", "malformed_reference"),
    ],
)  # fmt: skip
def test_a_broken_reference_never_scores(answer: Any, reason: str) -> None:
    verdict = verify("The answer is 5", answer)
    assert (verdict.status, verdict.score, verdict.reason) == (Status.BAD_REFERENCE, None, reason)
    assert verdict.detail


@pytest.mark.parametrize("answer", [5, 5.0, Fraction(10, 2), Decimal("5.0"), np.int64(5), np.float32(5.0), "5", r"so \boxed{5}"])
def test_numbers_are_references_too(answer: Any) -> None:
    assert verify("The answer is 5", answer).score == 1.0
    assert verify("The answer is 6", answer).score == 0.0


def test_an_answer_without_a_box_is_taken_whole() -> None:
    assert compile_answer("The answer is 5").text == "The answer is 5"
    assert compile_answer(r"It is \boxed{\frac{1}{2}}.").text == r"\frac{1}{2}"
    assert compile_answer(0.1).text == "0.1"
    assert compile_answer(Fraction(1, 3)).text == "1/3"


def test_alternatives_take_the_best() -> None:
    answer = {"any_of": ["4", "four", r"2\sqrt{4}"]}
    assert verify("The answer is four", answer).score == 1.0
    assert verify("The answer is 4.0", answer).score == 1.0
    assert verify("The answer is 5", answer).status is Status.INCORRECT
    assert equivalent("four", answer).score == 1.0
    assert verify("The answer is 5", {"any_of": ["4", ""]}).status is Status.BAD_REFERENCE
    assert verify("The answer is 4", {"any_of": ["4", ""]}).status is Status.CORRECT


def test_a_batch_keeps_its_order_and_repeats_are_equal() -> None:
    rows = [
        UNDECIDED,
        ("no idea at all", "1"),
        ("#### 3", "3"),
        (UNDECIDED[0], r"\sum_{k=1}^n k^3"),
        ("#### 3", None),
    ]
    verdicts = MathVerifier(timeout_s=30.0).judge([Rollout(text, answer=answer) for text, answer in rows * 3])
    expected = [Status.CORRECT, Status.NO_ANSWER, Status.CORRECT, Status.INCORRECT, Status.BAD_REFERENCE]
    assert [v.status for v in verdicts] == expected * 3
    assert [v.extracted for v in verdicts[:3]] == [r"\sum_{j=1}^n j^2", None, "3"]


@pytest.mark.parametrize(
    "text",
    ["\ud800", "5\x00", "\u202e5\u202c", "\U0001f600", "\x00" * 1000, "٥", "{" * 1000, "\\" * 999, "$" * 999, "0." + "1" * 2000 + "e-3999"],
)
def test_no_text_hurts_its_neighbours(text: str) -> None:
    rows = [Rollout("#### 5", answer="5"), Rollout(rf"\boxed{{{text}}}", answer=r"\sqrt{2}"), Rollout("#### 5", answer="5")]
    rows += [Rollout("#### 5", answer=text)]
    verdicts = MathVerifier(timeout_s=30.0).judge(rows)
    assert [verdicts[0].score, verdicts[2].score] == [1.0, 1.0]
    assert verdicts[1].status in (Status.INCORRECT, Status.UNPARSEABLE, Status.NO_ANSWER)


def test_a_candidate_that_never_ends_is_its_own_timeout_and_holds_nobody_up() -> None:
    verify(*UNDECIDED)  # the workers are up
    done: dict[str, tuple[Verdict, float]] = {}

    def judge(name: str, completion: str, answer: str, timeout_s: float) -> None:
        start = time.perf_counter()
        verdict = MathVerifier(timeout_s=timeout_s).judge([Rollout(completion, answer=answer)])[0]
        done[name] = verdict, time.perf_counter() - start

    threads = [
        threading.Thread(target=judge, args=("hang", *HANGS, 1.0)),
        threading.Thread(target=judge, args=("fine", "#### 5", "5", 1.0)),
    ]
    ticks = 0
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.01)
        ticks += 1
    verdict, seconds = done["hang"]
    # ERROR where the host is too busy to give it its CPU time within the wall limit.
    assert (verdict.status, verdict.reason) in [(Status.TIMEOUT, "cpu_limit"), (Status.ERROR, "checker_timeout")]
    assert seconds < 1.0 + 0.3 + 0.2
    assert ticks > 10
    assert done["fine"][0].score == 1.0


def test_a_reference_that_never_ends_is_a_bad_reference() -> None:
    verdict = MathVerifier(timeout_s=1.0).judge([Rollout(HANGS[1], answer=HANGS[0]), Rollout("#### 5", answer="5")])[0]
    assert verdict.status in (Status.BAD_REFERENCE, Status.ERROR)  # ERROR as above
    assert verdict.score is None


def test_a_deadline_that_passes_is_an_error_of_the_host() -> None:
    with until(time.monotonic()):
        verdict = verify(*UNDECIDED)
    assert (verdict.status, verdict.reason) == (Status.ERROR, "deadline")


@pytest.mark.parametrize(
    ("kind", "phase", "status", "reason"),
    [
        ("cpu", "candidate", Status.TIMEOUT, "cpu_limit"),
        ("cpu", "", Status.BAD_REFERENCE, "malformed_reference"),
        ("memory", "candidate", Status.UNPARSEABLE, "too_large"),
        ("memory", "", Status.BAD_REFERENCE, "malformed_reference"),
        ("wall", "candidate", Status.ERROR, "checker_timeout"),
        ("wall", "", Status.ERROR, "checker_timeout"),
        ("lost", "candidate", Status.ERROR, "lost_worker"),
        ("deadline", "", Status.ERROR, "deadline"),
        ("exception", "candidate", Status.ERROR, "exception"),
    ],
)
def test_every_failure_of_a_worker_has_its_status(
    kind: Any, phase: str, status: Status, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def map(self, jobs: list[Any], _timeout_s: float, _cpu_s: float) -> list[Failed]:
            return [Failed(kind, "", phase)] * len(jobs)

    monkeypatch.setattr(asking, "pool", lambda _spec: Broken())
    verdict = verify(*UNDECIDED)
    assert (verdict.status, verdict.reason, verdict.info["stage"]) == (status, reason, "math_verify")


def test_workers_that_cannot_start_are_an_error_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_ALGEBRA", PoolSpec("guerdon.verifiers.math.algebra:no_such_function", workers=1))
    verdict = verify(*UNDECIDED)
    assert (verdict.status, verdict.reason) == (Status.ERROR, "lost_worker")


def test_a_verifier_is_a_value() -> None:
    made = MathVerifier(column="solution", rules=MathRules(rounding=False), timeout_s=1.0)
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(made) == hash(MathVerifier("solution", MathRules(rounding=False), 1.0))
    assert made.reads == {"solution"}
    assert made.judge([Rollout("#### 5", columns={"solution": "5"})])[0].score == 1.0


@pytest.mark.parametrize(
    "arguments", [{"column": ""}, {"rules": None}, {"timeout_s": 0}, {"timeout_s": float("inf")}, {"timeout_s": True}, {"timeout_s": "2"}]
)
def test_wrong_arguments_are_refused_when_built(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="MathVerifier: "):
        MathVerifier(**arguments)


def test_wrong_rules_are_refused_when_built() -> None:
    with pytest.raises(ConfigError, match="reasoning_end"):
        MathRules(reasoning_end=None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="rounding"):
        MathRules(rounding=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", ['{"answer": "4"}', "{'answer': '4'}", '{ "answer": 4, "b": [1] }', '{"answer": "4'])
def test_an_object_is_no_answer(answer: str) -> None:
    verdict = MathVerifier().judge([Rollout("\\boxed{4}", answer=answer)])[0]
    assert (verdict.status, verdict.reason) == (Status.BAD_REFERENCE, "malformed_reference")
    assert "JSON object" in verdict.detail


@pytest.mark.parametrize("answer", ["{1, 2}", "{ x : x > 1 }", '{"a", "b"}'])
def test_a_set_is_no_object(answer: str) -> None:
    assert MathVerifier().judge([Rollout(f"\\boxed{{{answer}}}", answer=answer)])[0].reason != "malformed_reference"
