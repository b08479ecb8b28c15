"""Truth by construction: rewritten expressions are equal, moved ones are not, and structures keep their conventions.

An expression is a nested tuple: ("num", n), ("sym", x), ("+", a, b), ("*", a, b), ("/", a, b), ("^", a, n), ("root", n), ("fn", name, a).
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guerdon.types import Status
from guerdon.verifiers.math.engine import compare, compile_answer
from guerdon.verifiers.math.rules import MathRules

Expr = tuple[Any, ...]
_FUNCTIONS = ("sin", "cos", "exp", "ln", "arctan")


def expression(rng: Random, depth: int, names: tuple[str, ...] = ("x", "y")) -> Expr:
    """A random expression; without names it is closed."""
    kind = rng.random()
    if depth == 0 or kind < 0.15:
        if names and rng.random() < 0.5:
            return ("sym", rng.choice(names))
        return ("num", rng.randint(1, 12)) if rng.random() < 0.8 else ("root", rng.choice((2, 3, 5, 6, 7)))
    if kind < 0.45:
        return ("+", expression(rng, depth - 1, names), expression(rng, depth - 1, names))
    if kind < 0.75:
        return ("*", expression(rng, depth - 1, names), expression(rng, depth - 1, names))
    if kind < 0.85:
        return ("/", expression(rng, depth - 1, names), ("num", rng.randint(2, 9)))
    if kind < 0.95:
        return ("^", expression(rng, depth - 1, names), rng.randint(2, 3))
    name = rng.choice(_FUNCTIONS)
    inner = ("num", rng.randint(2, 5)) if name in ("ln", "exp") else expression(rng, 0, names)
    return ("fn", name, inner)


def rewritten(rng: Random, e: Expr) -> Expr:
    """An equal expression: commuted, expanded, fractions scaled, powers multiplied out, here and there."""
    if e[0] in ("num", "sym", "root"):
        return ("/", ("num", e[1] * 3), ("num", 3)) if e[0] == "num" and rng.random() < 0.1 else e
    if e[0] == "fn":
        return ("fn", e[1], rewritten(rng, e[2]))
    if e[0] == "^":
        base = rewritten(rng, e[1])
        return ("*", base, ("^", base, e[2] - 1)) if e[2] > 1 and rng.random() < 0.4 else ("^", base, e[2])
    a, b = rewritten(rng, e[1]), rewritten(rng, e[2])
    if e[0] == "/":
        k = ("num", rng.randint(2, 5))
        return ("/", ("*", k, a), ("*", k, b)) if rng.random() < 0.4 else ("/", a, b)
    if e[0] == "*" and a[0] == "+" and rng.random() < 0.5:
        return ("+", ("*", a[1], b), ("*", a[2], b))
    return (e[0], b, a) if rng.random() < 0.5 else (e[0], a, b)


def rendered(rng: Random, e: Expr, latex: bool) -> str:
    """The text of an expression, in LaTeX or plain."""
    kind = e[0]
    if kind == "num":
        return f"{e[1]}.0" if rng.random() < 0.03 else str(e[1])
    if kind == "sym":
        return str(e[1])
    if kind == "root":
        return f"\\sqrt{{{e[1]}}}" if latex else f"sqrt({e[1]})"
    if kind == "fn":
        inner = rendered(rng, e[2], latex)
        return f"\\{e[1]}\\left({inner}\\right)" if latex else f"{e[1]}({inner})"
    if kind == "^":
        power = f"^{{{e[2]}}}" if latex else f"^{e[2]}"
        return f"({rendered(rng, e[1], latex)}){power}"
    a, b = rendered(rng, e[1], latex), rendered(rng, e[2], latex)
    if kind == "+":
        return f"{a}{rng.choice((' + ', '+'))}{b}"
    if kind == "/" and latex:
        return f"\\{rng.choice(('frac', 'dfrac'))}{{{a}}}{{{b}}}"
    a, b = (f"({text})" if part[0] in ("+", "/") else text for text, part in ((a, e[1]), (b, e[2])))
    if kind == "/":
        return f"{a}/({b})"
    times = rng.choice((" \\cdot ", " \\times ", "*")) if latex else "*"
    return f"{a}{times}{b}"


def equal_pair(rng: Random, names: tuple[str, ...] = ("x", "y")) -> tuple[str, str]:
    """Two texts of equal expressions."""
    e = expression(rng, rng.randint(1, 3), names)
    return rendered(rng, e, rng.random() < 0.7), rendered(rng, rewritten(rng, rewritten(rng, e)), rng.random() < 0.7)


def different_pair(rng: Random, names: tuple[str, ...] = ("x", "y")) -> tuple[str, str]:
    """Two texts of expressions that differ by a constant that is not zero."""
    e = expression(rng, rng.randint(1, 3), names)
    step: Expr = rng.choice((("num", 1), ("/", ("num", 1), ("num", rng.randint(2, 999))), ("root", 3), ("/", ("num", 1), ("num", 10**9))))
    moved = ("+", rewritten(rng, e), step)
    return rendered(rng, e, rng.random() < 0.7), rendered(rng, rewritten(rng, moved), rng.random() < 0.7)


EXAMPLES = 10_000 if os.environ.get("GUERDON_DEEP", "") not in ("", "0") else 150
SEEDS = st.integers(0, 2**32)
NAMES = st.sampled_from(((), ("x",), ("x", "y"), ("a", "b", "c")))
RULES = MathRules()


def status(answer: str, candidate: str) -> Status | None:
    compiled = compile_answer(answer)
    assert not compiled.problem
    return compare(candidate, compiled, RULES).status


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS, NAMES)
def test_rewritten_expressions_are_equal(seed: int, names: tuple[str, ...]) -> None:
    answer, candidate = equal_pair(Random(seed), names)
    assert status(answer, candidate) is Status.CORRECT


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS, NAMES)
def test_moved_expressions_are_not(seed: int, names: tuple[str, ...]) -> None:
    answer, candidate = different_pair(Random(seed), names)
    assert status(answer, candidate) is Status.INCORRECT


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(SEEDS, st.integers(2, 5))
def test_lists_are_multisets_and_tuples_are_not(seed: int, size: int) -> None:
    rng = Random(seed)
    members = [expression(rng, 1, ()) for _ in range(size)]
    texts = [rendered(rng, member, True) for member in members]
    shuffled = [rendered(rng, rewritten(rng, member), True) for member in members]
    assert status(f"({', '.join(texts)})", f"({', '.join(shuffled)})") is Status.CORRECT
    rng.shuffle(shuffled)
    assert status(", ".join(texts), ", ".join(shuffled)) is Status.CORRECT
    assert status(", ".join(texts), ", ".join(shuffled[1:])) is Status.INCORRECT
    assert status(", ".join(texts), ", ".join([*shuffled, shuffled[0]])) is Status.INCORRECT


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(SEEDS, st.integers(1, 40), st.integers(1, 40))
def test_equations_match_up_to_scale(seed: int, scale: int, shift: int) -> None:
    rng = Random(seed)
    side = expression(rng, 2, ("x", "y"))
    equation = ("+", side, ("*", ("num", 3), ("sym", "z")))
    scaled = ("*", ("num", scale), rewritten(rng, equation))
    answer = f"{rendered(rng, equation, True)} = 0"
    assert status(answer, f"{rendered(rng, scaled, True)} = 0") is Status.CORRECT
    assert status(answer, f"{rendered(rng, scaled, True)} = {shift}") is Status.INCORRECT


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(st.integers(-50, 50), st.integers(1, 50), st.sampled_from(("<", "\\le")), st.sampled_from(("<", "\\le")))
def test_inequalities_are_intervals(low: int, width: int, left: str, right: str) -> None:
    high = low + width
    interval = f"{'(' if left == '<' else '['}{low}, {high}{')' if right == '<' else ']'}"
    inequality = f"{low} {left} x {right} {high}"
    assert status(interval, inequality) is Status.CORRECT
    assert status(inequality, interval) is Status.CORRECT
    assert status(inequality, f"\\{{x \\mid {inequality}\\}}") is Status.CORRECT
    assert status(interval, f"{low} {left} x {right} {high + 1}") is Status.INCORRECT
    other = "\\le" if left == "<" else "<"
    assert status(interval, f"{low} {other} x {right} {high}") is Status.INCORRECT


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(st.integers(-(10**30), 10**30), st.integers(1, 10**30))
def test_integers_of_any_size_are_exact(value: int, step: int) -> None:
    assert status(str(value), str(value + step)) is Status.INCORRECT
    assert status(str(value), f"{value}.0") is Status.CORRECT
    assert status(str(value), f"\\frac{{{value * step}}}{{{step}}}") is Status.CORRECT


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(st.integers(1, 10**6), st.sampled_from((3, 7, 9, 11, 13, 17)), st.integers(4, 9))
def test_repeating_values_accept_their_rounding_only(top: int, bottom: int, digits: int) -> None:
    if top % bottom == 0:
        return
    answer = f"\\frac{{{top}}}{{{bottom}}}"
    places = max(1, digits - len(str(top // bottom)) + (top < bottom))
    scaled = (2 * top * 10**places + bottom) // (2 * bottom)  # rounded half up
    for number, expected in ((scaled, Status.CORRECT), (scaled + 1, Status.INCORRECT), (scaled - 1, Status.INCORRECT)):
        text = f"{number // 10**places}.{number % 10**places:0{places}d}"
        if len(text.replace(".", "").lstrip("0")) >= 4 and number >= 1000:
            assert status(answer, text) is expected


@pytest.mark.parametrize("flag", [True, False])
def test_rounding_can_be_turned_off(flag: bool) -> None:
    verdict = compare("85.71", compile_answer("\\frac{600}{7}"), MathRules(rounding=flag)).status
    assert (verdict is Status.CORRECT) is flag


@pytest.mark.parametrize("flag", [True, False])
def test_unevaluated_forms_can_be_allowed(flag: bool) -> None:
    verdict = compare("\\lfloor 7/2 \\rfloor", compile_answer("3"), MathRules(allow_unevaluated=flag)).status
    assert (verdict is Status.CORRECT) is flag
