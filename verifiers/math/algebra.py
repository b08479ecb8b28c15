"""Runs inside pool workers only: math-verify (sympy, latex2sympy) on what exact arithmetic and text could not decide.

Importing this module loads sympy and warms its parser, so the parent process must not. No timers: the pool kills what overruns.
"""

from __future__ import annotations

import logging
import os
from fractions import Fraction
from functools import lru_cache
from typing import Any

# python-flint or gmpy2, where installed, would make big-number steps uninterruptible and sympy's results depend on the host.
os.environ["SYMPY_GROUND_TYPES"] = "python"

import sympy
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify

from guerdon.sandboxes import mark

__all__ = ["check"]

# Units are read by guerdon: math-verify would strip the m of `n + m` too.
_NORMALIZATION = NormalizationConfig(basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none")
_CONFIG = (LatexExtractionConfig(boxed_match_priority=-1, normalization_config=_NORMALIZATION),)


def check(reference: str, parts: tuple[str, ...], tolerance: Fraction | None) -> str:
    """Whether every part equals the reference: "equal", "different", or "bad_reference" or "unreadable" for what has no reading.

    With a tolerance both sides must be numbers no further apart; one side is a decimal then, which math-verify
    would compare after rounding to six digits after the point, however small the numbers are.
    """
    wanted = _parsed(reference)
    if wanted is None:
        return "bad_reference"
    mark("candidate")
    for part in parts:
        given = _parsed(part)
        if given is None:
            return "unreadable"
        try:
            agree = _equal(wanted, given, tolerance)
        except MemoryError:
            raise
        except Exception:  # sympy raises all sorts for what it cannot evaluate: the candidate's doing, not the host's
            return "unreadable"
        if not agree:
            return "different"
    return "equal"


@lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    """The sympy reading of exactly this text, or None. The dollar signs make math-verify read all of it and nothing else."""
    found = parse(f"${text}$", extraction_config=_CONFIG, fallback_mode="no_fallback", parsing_timeout=None)
    return found[0] if found and not isinstance(found[0], str) else None


def _equal(wanted: Any, given: Any, tolerance: Fraction | None) -> bool:
    if tolerance is not None:
        return _near(wanted, given, tolerance)
    if not verify([wanted], [given], allow_set_relation_comp=True, timeout_seconds=None):
        return False
    return not _is_number(wanted) or not _is_number(given) or _near(wanted, given, Fraction(0))


def _is_number(value: Any) -> bool:
    return isinstance(value, sympy.Expr) and not value.free_symbols and not value.has(sympy.oo, sympy.nan, sympy.zoo)


def _near(wanted: Any, given: Any, tolerance: Fraction) -> bool:
    """Within the tolerance, or equal to 20 digits (15 for decimals, which are floats here): relative, so that 2**-98 is not 2**-99."""
    if not _is_number(wanted) or not _is_number(given):
        return False
    a, b = (sympy.N(value.doit(), 30) for value in (wanted, given))
    return bool(abs(a - b) <= max(sympy.Rational(tolerance.numerator, tolerance.denominator), abs(a) / 10 ** (15 if tolerance else 20)))


def _warm_up() -> None:
    """Parse the common constructions once: the first time each costs up to 0.1 s, which no job should be charged for."""
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    for text in (
        r"\left(3,\frac{\pi}{2}\right)",
        r"\{1\pm\sqrt[3]{5},-2\}",
        r"(-\infty,-8)\cup [8,\infty)",
        r"x \in [-2,7]",
        r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
        r"\frac{d!}{2k(d-k)!}",
        r"\sin^2(x)+\log_{2} 5+\ln x+|x-2|",
        r"f(x)=2x^{3}+c",
        r"-2\le x<7",
        r"x_1=5, x_2=7",
        r"2^{k}\cdot e^{n+1}",
        r"\binom{5}{2}",
    ):
        _parsed(text)
    _equal(_parsed(r"\frac{x^2-1}{x-1}"), _parsed("x+1"), None)
    _equal(_parsed(r"\sqrt{8}"), _parsed(r"2\sqrt{2}"), None)


_warm_up()
