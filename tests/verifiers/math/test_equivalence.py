"""Which bare answers are equal, and how the rest reaches the fallback. Conventions have a table of their own beside the engine's tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guerdon
from guerdon import Rollout, Status
from guerdon.verifiers.math import MathRules, MathVerifier, equivalent
from guerdon.verifiers.math.fallback import question


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    guerdon.close()


def decided(candidate: str, answer: Any, rules: MathRules | None = None) -> bool:
    """Whether they are equal; fails if it took a worker to say so."""
    verdict = equivalent(candidate, answer, rules or MathRules())
    assert verdict.info["stage"] in ("number", "text", "choice", "tree")
    return verdict.status is Status.CORRECT


EQUAL = [
    ("72", "72.0"), ("8000", "8,000"), ("1,234", "1234"), ("12345678", r"12\,345\,678"), ("15000", r"\$15,\!000"), ("4", "004"),
    ("0.5", r"\frac12"), ("3/2", r"1\frac{1}{2}"), ("918\\frac{1}{2}", "918.5"), ("780", r"7.8 \times 10^2"), ("-5", "−5"), ("5", "５"),
    ("25", "5²"), ("1/2", "½"), ("2:1", "2"), ("12^{10}", r"2^{20} \cdot 3^{10}"), ("847288609444", "3^{25} + 1"), ("5", "1+4=5"),
    ("5", "x = 2+3 = 5"), ("5", r"\text{5}"), ("5", r"\left(5\right)"), ("5", "{5}"), ("5", "**5**."), ("5", r"\boxed{5}"), ("7", "7th"),
    # units, percent, currency, degrees
    ("35", "35 cm"), ("35 cm", "35"), ("4", "4 hours"), ("18", "18 pieces"), ("9", r"9 \text{ cm}^2"), ("60 miles per hour", "60 mph"),
    ("5 m", "5 metres"), ("32348", "$32,348"), ("5", "5 dollars"), ("3500000", "3.5 million"), ("0.335", r"33.5\%"),
    ("0.335", "33.5 percent"),
    ("10%", "10"), ("66", r"66.0\%"), (r"50\%", "0.5"), ("1", r"100\%"), (r"90^\circ", "90"), ("74°", r"\angle APC = 74^\circ"),
    ("2516_8", "2516"), ("1A_{16}", "1A"), ("16", "16_8"), ("60 mph", "60 miles/hour"), ("5", r"500\%"),
    # decimals for exact values
    ("33.3", r"\frac{100}{3}"), ("1/3", "0.3333"), ("600/7", "85.71"), ("21.93", r"21 \frac{13}{14}"), ("16/3", r"5.\overline{3}"),
    # lists, tuples, names
    ("1,-2", "-2,1"), ("1/2,1,2", r"\left\{\frac{1}{2}, 1, 2\right\}"), ("5,15", r"5 \text{ and } 15"), ("(1,9/2)", "(1,4.5)"),
    ("3,4", "p=3, q=4"),
    ("x=1, y=2", "y=2, x=1"), (r"a=1 \text{ or } a=-2", r"a=-2 \text{ or } a=1"), ("(2,1),(1,2)", "(1,2),(2,1)"), ("(1,2)", "1,2"),
    ("10", "x = 10"), ("x=1", "1"), (r"f(x) = 3", "3"), (r"(x,y)=(1,2)", "(1,2)"),
    # text
    ("Evelyn", r"\text{evelyn}"), (r"\text{no solution}", r"\emptyset"), ("A", "(A)"), ("A", r"\text{A. } 5"),
    (r"3\sqrt{13}", r"3 \sqrt{13}"),
]  # fmt: skip

DIFFERENT = [
    ("5", "-5"), ("5", "5.4"), ("100000000000", "99999999999"), ("10^{20}", "10^{20}+1"), ("123", "1,23"), ("1/2004!", "1/2006!"),
    ("2^{-99}", "2^{-98}"), (r"\frac{2^{2005}+1}{3 \cdot 2^{2006}}", r"\frac{1}{3 \cdot 2^{2006}}"), ("0", "10^{-20}"),
    ("0.0000001", "0.0000002"),
    ("2^{100}", r"1.267650600228229 \times 10^{30}"), ("0", r"\frac{1}{2004!}"), ("5", r"\infty"), ("1.27", "1.3"), ("165.47", "165.5"),
    # a value taken back or hidden among others
    ("5", "1=5"), ("5", "5=7"), ("5", "7=6=5"), ("5", "x=7=5"), ("5", r"7 \approx 5"), ("5", r"\neq 5"), ("x=5", r"x \neq 5"),
    ("5", "x > 4"),
    ("5", r"5 \text{ is not the answer}"), ("5", r"5 \text{ or any other number}"), ("5", r"\text{not } 5"), ("5", "5 or 6"),
    ("5", "1,2,3,4,5"),
    ("5", r"\{5,6\}"), ("5", "[0,10]"), ("5", "five"), ("5", "5 million"), ("5", "5 squared"), ("5", "True"),
    ("1,2", "1,2,2"), ("1,1,2", "1,2,2"), ("1331 and 1728", "1728"), ("n=2, 3, 4", "n=1, 2, 3"),
    # order, brackets, names, units, bases
    ("(1,2)", "(2,1)"), ("(1,2)", r"\{1,2\}"), ("[1,2]", "(1,2)"), ("[1,2]", "1,2"), ("x=1", "y=1"), ("5 km", "5 cm"), ("9 cm^2", "9 cm"),
    ("1A_{16}", "1B"), ("2516_8", "2516_7"),
    # too coarse
    ("1/3", "0.333"), ("1/3", "0.3334"), ("1/8", "0.1250001"), ("0.5", "0.54"), ("36.0", "36.04"),
    # text
    ("Evelyn", "Bob"), ("Evelyn", "not Evelyn"), ("A", "B"), ("A", r"\text{B. } A"), ("x", "X"), (r"\text{odd}", "7"), ("7", r"\text{odd}"),
    # the problem restated
    (r"\frac{1}{3}", r"\int_0^1 x^2 dx"), ("0", r"\lim_{x\to\infty} \frac{1}{x}"), ("3", r"\lfloor \pi \rfloor"), ("6", r"\gcd(12,18)"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "candidate"), EQUAL)
def test_equal_answers_are_accepted_in_process(answer: str, candidate: str) -> None:
    assert decided(candidate, answer)


@pytest.mark.parametrize(("answer", "candidate"), DIFFERENT)
def test_different_answers_are_rejected_in_process(answer: str, candidate: str) -> None:
    assert not decided(candidate, answer)


ALGEBRA = [
    (r"x^2-1", "(x-1)(x+1)", True), (r"\sqrt{3} - 1", "-1 + sqrt(3)", True), ("e^{16} - 1", "-1 + exp(16)", True),
    (r"-2\pi", "-2*pi", True),
    (r"2\sqrt{3}", r"2\sqrt{3} \text{ cm}", True), (r"\sqrt{2}", "1.4142135623730951", True), ("2.718", "e", True), (r"\pi", "3.14", False),
    (r"0.5 + \frac{\pi}{8}", r"\pi \div 8 + 1 \div 2", True), ("x+y=3", "2x+2y=6", True), ("x+y=3", "0x+0y=0", False),
    ("(3,4]", r"3 < \lambda \leq 4", True), ("1<x<2", "(1,2)", True), (r"x \in [-2,7]", r"-2 \leq x \leq 7", True),
    ("y = x^2+1", "1+x^2", True),
    (r"\tan^2(y)+1", r"\sec^2(y)", True), (r"1 - \frac{1}{\mathrm{e}}", r"1 + \frac{1}{e}", False), ("e^{-300}", "e^{-301}", False),
    (r"\sqrt{2}x", "1.4142136x", False), (r"\pm 2021", "2021", False), (r"1 \pm \sqrt{19}", r"1 + \sqrt{19}, 1 - \sqrt{19}", True),
    (r"\frac{3}{2}n + \frac{1}{2}m", r"\dfrac{3n + m}{2}", True), ("6 - 5i", "-5i + 6", True), (r"\log_{10} 2", r"\ln 2", False),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "candidate", "equal"), ALGEBRA)
def test_algebra_needs_no_worker(answer: str, candidate: str, equal: bool) -> None:
    assert decided(candidate, answer) is equal


def test_rounding_can_be_refused() -> None:
    strict = MathRules(rounding=False)
    assert decided("100/3", "33.3")
    assert not decided("100/3", "33.3", strict)
    assert not decided("0.3333", "1/3", strict)


@given(st.integers(-(10**18), 10**18), st.integers(1, 10**6), st.integers(2, 50))
def test_every_way_of_writing_a_fraction_is_equal(top: int, bottom: int, factor: int) -> None:
    answer = f"{top}/{bottom}"
    for candidate in (
        rf"\frac{{{top * factor}}}{{{bottom * factor}}}",
        rf"$\dfrac{{{top}}}{{{bottom}}}$",
        f"({top}) / {bottom}",
        f"x = {top}/{bottom}",
    ):
        assert decided(candidate, answer)
    assert not decided(f"{top + 1}/{bottom}", answer)


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=6).flatmap(lambda xs: st.tuples(st.just(xs), st.permutations(xs))))
def test_the_order_of_a_list_does_not_matter_and_its_members_do(lists: tuple[list[int], list[int]]) -> None:
    answer, candidate = lists
    assert decided(", ".join(map(str, candidate)), ", ".join(map(str, answer)))
    assert not decided(", ".join(map(str, [*candidate[:-1], 10])), ", ".join(map(str, answer)))
    assert not decided(", ".join(map(str, [*candidate, candidate[0]])), ", ".join(map(str, answer)))


# what takes a worker

ASKED = [
    (r"\sum_{k=1}^n k^2", r"\sum_{j=1}^n j^2", True), (r"\sum_{k=1}^n k^2", r"\sum_{j=1}^n j^3", False),
    (r"\sum_{k=1}^\infty \frac{1}{k^2}", r"\frac{\pi^2}{6}", True), (r"\sum_{k=1}^\infty \frac{1}{k^2}", r"\frac{\pi^2}{7}", False),
    (r"\int_0^1 x^2 dx + 1", r"\frac{4}{3}", True), (r"\int_0^1 x^2 dx + 1", r"\frac{4}{3} + 10^{-30}", False),
]  # fmt: skip


def test_what_the_engine_leaves_open_is_asked() -> None:
    verdicts = MathVerifier(timeout_s=30.0).judge([Rollout(f"<answer>{b}</answer>", answer=a) for a, b, _ in ASKED])
    assert [v.status for v in verdicts] == [Status.CORRECT if equal else Status.INCORRECT for *_, equal in ASKED]
    assert {v.info["stage"] for v in verdicts} == {"math_verify"}


def test_without_the_fallback_what_is_left_open_is_not_rewarded() -> None:
    verdict = equivalent(r"\frac{\pi^2}{6}", r"\sum_{k=1}^\infty \frac{1}{k^2}", MathRules(fallback=False))
    assert (verdict.status, verdict.reason, verdict.info["stage"]) == (Status.UNPARSEABLE, "unreadable", "none")


def test_unevaluated_forms_can_be_allowed() -> None:
    verifier = MathVerifier(rules=MathRules(allow_unevaluated=True), timeout_s=30.0)
    assert verifier.judge([Rollout(r"\boxed{\int_0^1 x^2 dx}", answer=r"\frac{1}{3}")])[0].status is Status.CORRECT


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (r"\weird{5}", r"\weird{5} \text{ is not the answer}"), (r"\weird{5}", r"\weird{5} \text{ km}"), ("5", r"\neq \weird 5"),
        (r"\weird{1,2}", r"\weird{1,2,2}"), ("(1,2)", r"\{1,2\}"), ("2516_8", "2516_7"), (r"\weird 5", r"\int_0^5 \weird dx"),
        (r"1,2,\ldots,n", r"1,3,\ldots,n"), (r"x=\weird 5", r"\weird 5"), ("5", r"5\%"), ("x < 5", "x"), ("5", "x" * 10_000),
    ],
)  # fmt: skip
def test_what_math_verify_takes_for_equal_is_never_asked(reference: str, candidate: str) -> None:
    assert question(candidate, reference, MathRules()) is None


def test_every_member_of_a_chain_is_asked() -> None:
    asked = question(r"7 = \sum_{k=1}^5 1 = 5", "5", MathRules(allow_unevaluated=True))
    assert asked is not None
    assert asked.parts == ("7", r"\sum_{k=1}^5 1", "5")
