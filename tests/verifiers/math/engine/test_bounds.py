"""Nothing a completion or an answer holds may raise, hang or grow: the caps, measured in CPU time."""

from __future__ import annotations

import gc
import time
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guerdon.types import Status
from guerdon.verifiers.math.engine import compare, compile_answer
from guerdon.verifiers.math.rules import MathRules

LIMIT_S = 0.5
"""Far above the 0.1 s that an input at every cap takes here, for slower machines."""
RULES = MathRules()


def _near(size: int, shift: int) -> str:
    return ",".join(f"\\sqrt2+10^{{-{30 + k + shift}}}" for k in range(size))


def _nested(before: str, core: str, after: str, depth: int) -> str:
    return before * depth + core + after * depth


_MATRIX = "\\begin{pmatrix}a&b\\\\c&d\\end{pmatrix}"
_SINES = [f"\\sin {k}" for k in range(200)]

HOSTILE: dict[str, tuple[str, str]] = {
    "lists that floats cannot tell apart": (_near(60, 0), _near(60, 100)),
    "equal lists in reverse": (",".join(f"{s}+1" for s in _SINES[1:63]), ",".join(f"1+{s}" for s in reversed(_SINES[1:63]))),
    "mixed numbers in mixed numbers": ("1", _nested("1\\frac{", "1", "}{2}", 30)),
    "a product of many matrices": (_MATRIX, _MATRIX * 18),
    "towers": ("1", "+".join(f"2^{{3^{{{1200 + k}}}}}" for k in range(70))),
    "inverse factorials": ("1", "+".join(f"\\frac{{1}}{{{k + 300}!}}" for k in range(120))),
    "large factorials": ("1", "+".join(f"{k + 1500}!" for k in range(120))),
    "long sums": ("+".join(_SINES), "+".join(reversed(_SINES))),
    "terms far apart": ("+".join(_SINES[:100]) + "+10^{-600}", "+".join(reversed(_SINES[:100])) + "+10^{-601}"),
    "spaces": ("A", "{" + " " * 5000 + "z"),
    "spaces between digits": ("1", "1" + " " * 5900 + "2"),
    "points": ("1", "." * 5900 + "x"),
    "points at the end": ("1", "x" + "." * 5900),
    "letters that could be digits": ("1", "a" * 2900 + "F" * 2900),
    "backslashes": ("1", "\\" * 5900),
    "braces": ("1", "{" * 2900 + "}" * 2900),
    "commas": ("1", "," * 800),
    "conditions": ("1", "1 if a, " * 200),
    "signs": ("1", ",".join(["1 \\pm 2 \\pm 3 \\pm 5 \\pm 7"] * 20)),
    "inequalities": ("(1,2)", " \\text{ or } ".join(f"{k}<x<{k + 2}" for k in range(0, 100, 3))),
    "unions": ("(1,2)", "\\cup".join(f"({k},{k + 1})" for k in range(60))),
    "an equation to be solved": ("a+b+c+d+f+g+h=x^{20}", "+".join(f"x^{{{k}}}" for k in range(150)) + "=y"),
    "a power of a sum": ("(x+y+z)^{500}", "(z+y+x)^{499}(x+y+z)+1"),
    "nested roots": ("1", _nested("\\sqrt{2+", "1", "}", 28)),
    "an exponential tower": ("1", "e^{e^{e^{e^{e^{5}}}}}"),
    "iterated factorials": ("1", "((30)!)!"),
    "a tower of powers": ("9", "2003^{2002^{2001}}"),
    "long literals": ("7" * 1400, "7" * 1399 + "8"),
    "a long literal beyond the cap": ("7" * 100_000, "7" * 99_999 + "8"),
    "large exponents": ("1", "1e999999"),
    "quotients": ("1", "/".join(["7" * 40] * 100)),
    "bars": ("x", "|x" * 300),
    "powers": ("1", "2^" * 400 + "2"),
    "minus signs": ("1", "-" * 800 + "1"),
    "exclamation marks": ("1", "3" + "!" * 700),
    "text in text": ("1", _nested("\\text{", "a", "}", 300)),
    "units": ("5 cm", "5" + " cm" * 400),
    "functions of functions": ("x", "\\sin " * 29 + "x"),
    "binomials": ("1", "\\binom{20000}{10000}" * 60),
    "factorials of a variable": ("n!", "+".join(f"\\frac{{n!}}{{(n-{k})!}}" for k in range(60))),
    "one million characters": ("1", "x+" * 500_000),
    "a plain tower": ("1", "9^9^9^9^9"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_every_call_is_short(name: str) -> None:
    for answer, candidate in (HOSTILE[name], HOSTILE[name][::-1]):
        start = time.process_time()
        compiled = compile_answer(answer)
        if not compiled.problem:
            compare(candidate, compiled, RULES)
        assert time.process_time() - start < LIMIT_S


_FRAGMENTS = r"""
\frac{ \sqrt{ ^{ _{ } { ( ) [ ] | ! ^ \sin \log_ \int_ \sum_{k=1}^{n} \pm , = < \le \in \{ \} x n i e \pi \infty 1 10 0.5 1e5 / -
\text{ \begin{pmatrix} & \\ \end{pmatrix} \begin{cases} \cup \circ % \$ ' and or not if cm \binom{ \lfloor \mathbb{R} ² √ ...
"""
_PIECES = st.sampled_from([*_FRAGMENTS.split(), " ", "\ud800", "\x00"])


@settings(max_examples=400, deadline=None)
@given(st.lists(_PIECES, max_size=40).map("".join), st.lists(_PIECES, max_size=40).map("".join))
def test_no_text_raises(answer: str, candidate: str) -> None:
    compiled = compile_answer(answer)
    for text in (candidate, answer):
        if not compiled.problem:
            assert compare(text, compiled, RULES).status in (None, Status.CORRECT, Status.INCORRECT, Status.UNPARSEABLE)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_no_unicode_raises(answer: str, candidate: str) -> None:
    compiled = compile_answer(answer)
    if not compiled.problem:
        compare(candidate, compiled, RULES)


@settings(max_examples=100, deadline=None)
@given(st.lists(_PIECES, max_size=20).map("".join), st.integers(0, 2**32))
def test_the_same_text_is_the_same_answer(text: str, seed: int) -> None:
    spaced = text + " " * Random(seed).randint(0, 3)
    compiled = compile_answer(text)
    if not compiled.problem:
        assert compare(spaced, compiled, RULES) == compare(spaced, compiled, RULES)
        assert compare(text, compiled, RULES).status in (Status.CORRECT, Status.UNPARSEABLE, None)


@pytest.mark.parametrize(("answer", "candidate"), [("3\\sqrt{13}", "5\\sqrt{13}"), ("\\sin 1", "0.8415"), ("2^{2^{99}}", "x +")])
@pytest.mark.slow
def test_memory_is_flat(answer: str, candidate: str) -> None:
    """An exception object raised again and again would keep every frame it passed."""

    def live_objects() -> int:
        for _ in range(500):
            compare(candidate, compile_answer(answer), RULES)
        gc.collect()
        return len(gc.get_objects())

    live_objects()
    assert live_objects() - live_objects() > -200
