"""Exact arithmetic on text."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.verifiers.math.exact import HUGE, rational


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12+41*2", Fraction(94)),
        ("-2^2", Fraction(-4)),
        ("(-2)^2", Fraction(4)),
        ("2^{-3}", Fraction(1, 8)),
        ("2^3^2", Fraction(512)),
        ("5!", Fraction(120)),
        ("1,234,567.5", Fraction(2469135, 2)),
        (".5", Fraction(1, 2)),
        ("1.5e3", Fraction(1500)),
        ("7.8*10^{2}", Fraction(780)),
        (r"-\frac{3}{4}", Fraction(-3, 4)),
        (r"2\frac{1}{2}", Fraction(5, 2)),
        ("1 1/2", Fraction(3, 2)),
        (r"3(4)\frac{1}{2}", Fraction(6)),
        (r"1.2\overline{3}", Fraction(37, 30)),
        ("1/2004!-1/2004!", Fraction(0)),
    ],
)
def test_arithmetic_is_exact(text: str, value: Fraction) -> None:
    assert rational(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "x", "1,23", "(1,234)", "0,123", "1 2", "1..2", "2)", "(2", "1/0", "0^0", "2^{0.5}", "(-1)!", r"2\frac{4}{2}", "1+", "^2", "٥"],
)
def test_anything_else_is_not_decided(text: str) -> None:
    assert rational(text) is None


@pytest.mark.parametrize("text", ["9^{9^{9^9}}", "20000000!", "((30)!)!", "10^{100000}", "2003^{2002^{2001}}", "9^{9^9}+1", "2*9^{9^9}"])
def test_a_bomb_is_huge_and_not_computed(text: str) -> None:
    assert rational(text) == HUGE
    assert rational(f"-({text})") == -HUGE


@pytest.mark.parametrize("text", ["9^{9^9}-9^{9^9}", "1/9^{9^9}", "0*9^{9^9}", "5000!", "(1/2)^{100000}", "9^{9^9}/9^{9^9}"])
def test_what_may_be_small_after_all_is_not_called_huge(text: str) -> None:
    assert rational(text) is None


@given(st.fractions(max_denominator=10**12), st.fractions(max_denominator=10**12))
def test_it_agrees_with_fractions(a: Fraction, b: Fraction) -> None:
    text = rf"\frac{{{a.numerator}}}{{{a.denominator}}} - ({b.numerator})/{b.denominator}*3"
    assert rational(text) == a - b * 3


@given(st.text(alphabet="0123456789+-*/^!(){}., \\fracekx", max_size=60))
def test_no_text_raises(text: str) -> None:
    value = rational(text)
    assert value is None or abs(value) >= 0


@pytest.mark.parametrize(
    "text", ["1/2999!+" * 100 + "1", "3000!*" * 100 + "1", "2^{" * 1000, "(" * 4000, "1+" * 2000, "-" * 4000 + "1", "9!^" * 1000 + "1"]
)
def test_hostile_arithmetic_is_bounded(text: str) -> None:
    start = time.process_time()
    rational(text)
    assert time.process_time() - start < 1.0  # 20 ms at most when measured
