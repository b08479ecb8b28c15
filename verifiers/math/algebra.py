"""Runs inside pool workers only: math-verify (sympy, latex2sympy) on what the engine could not decide, and as a peer to compare with.

Importing this module loads sympy and warms its parser, so the parent process must not. No timers: the pool kills what overruns.
"""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from typing import Any

# python-flint or gmpy2, where installed, would make big-number steps uninterruptible and sympy's results depend on the host.
os.environ["SYMPY_GROUND_TYPES"] = "python"

import sympy
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify

from guerdon.sandboxes import mark

__all__ = ["check", "documented"]

# Units are read by guerdon: math-verify would strip the m of `n + m` too.
_NORMALIZATION = NormalizationConfig(basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none")
_DIGITS = 100
_CONFIG = (LatexExtractionConfig(boxed_match_priority=-1, normalization_config=_NORMALIZATION),)


def check(reference: str, parts: tuple[str, ...]) -> str:
    """Whether every part equals the reference: "equal", "different", or "bad_reference" or "unreadable" for what has no reading."""
    wanted = _parsed(reference)
    if wanted is None:
        return "bad_reference"
    mark("candidate")
    for part in parts:
        given = _parsed(part)
        if given is None:
            return "unreadable"
        try:
            agree = _equal(wanted, given)
        except MemoryError:
            raise
        except Exception:  # sympy raises all sorts for what it cannot evaluate: the candidate's doing, not the host's
            return "unreadable"
        if not agree:
            return "different"
    return "equal"


def documented(answer: str, candidate: str) -> str:
    """math-verify as its documentation calls it, the answer between dollar signs so that all of it is parsed: a peer to compare with."""
    wanted = parse(answer if "$" in answer or "boxed" in answer else f"${answer}$", parsing_timeout=None)
    if not wanted:
        return "bad_reference"
    mark("candidate")
    found = parse(candidate, parsing_timeout=None)
    return "unreadable" if not found else "equal" if verify(wanted, found, timeout_seconds=None) else "different"


@lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    """The sympy reading of exactly this text, or None. The dollar signs make math-verify read all of it and nothing else."""
    found = parse(f"${text}$", extraction_config=_CONFIG, fallback_mode="no_fallback", parsing_timeout=None)
    return found[0] if found and not isinstance(found[0], str) else None


def _equal(wanted: Any, given: Any) -> bool:
    if any(isinstance(side, sympy.Basic) and side.has(sympy.nan, sympy.zoo) for side in (wanted, given)):
        return False
    if not verify([wanted], [given], allow_set_relation_comp=True, timeout_seconds=None):
        return False
    return not _is_number(wanted) or not _is_number(given) or _same_digits(wanted, given)


def _is_number(value: Any) -> bool:
    return isinstance(value, sympy.Expr) and not value.free_symbols and not value.has(sympy.oo)


def _same_digits(wanted: Any, given: Any) -> bool:
    """Equal to 100 digits, relative, decimals as written: math-verify is content with 15 after the point, so 2**-98 is 2**-99 to it."""
    a, b = (sympy.nsimplify(value.doit(), rational=True) if value.has(sympy.Float) else value.doit() for value in (wanted, given))
    if a.is_Rational and b.is_Rational:
        return bool(a == b)
    a, b = sympy.N(a, _DIGITS + 10), sympy.N(b, _DIGITS + 10)
    return bool(abs(a - b) <= abs(a) / 10**_DIGITS)


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
    _equal(_parsed(r"\frac{x^2-1}{x-1}"), _parsed("x+1"))
    _equal(_parsed(r"\sqrt{8}"), _parsed(r"2\sqrt{2}"))


_warm_up()
