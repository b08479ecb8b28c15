"""What is asked of math-verify, and what never is: the guards against what it takes for equal.

math-verify drops words and units, takes the last member of any chain of equations, ignores bases and repeated members, and cuts
lists at dots. A candidate that differs from the reference in one of these is not put to it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from guerdon.verifiers.math.engine.clean import clean
from guerdon.verifiers.math.engine.limits import MAX_CHARS
from guerdon.verifiers.math.engine.tables import CONNECTORS, FUNCTIONS, HEDGES, QUALIFIERS
from guerdon.verifiers.math.rules import MathRules

__all__ = ["Question", "question", "words"]

_MARKUP = re.compile(r"\\(?:text[a-z]*|math[a-z]+|mbox|hbox|operatorname|begin|end)\s*(?:\{[a-z]*matrix\}|(?=\{))")
_TEXT = re.compile(r"\\(?:text[a-z]*|mbox|hbox)\s*\{([^{}]*)\}")
_WORD = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{2,}")
_SMALL_WORDS = HEDGES | QUALIFIERS | frozenset(CONNECTORS)
_DOTS = re.compile(r"\\[lcv]?dots|\.\.")
_BASE = re.compile(r"\d\s*_")
_UNEVALUATED = re.compile(r"\\(?:i{0,3}nt|oint|sum|prod|lim(?:sup|inf)?|max|min|gcd|lcm|sup|inf|det|lfloor|lceil)(?![a-zA-Z])")
_SKELETON = re.compile(r"[,;\[\]%!|<>]|\\[{}]|\\(?:pm|mp|circ|neq?|not|approx|cup|cap|setminus|in|le|ge|leq|geq|equiv|to)(?![a-zA-Z])")
_BRACES_OR_EQUALS = re.compile(r"(?<!\\)[{}]|(?<![<>!:=])=+")
_PARTS = 16


@dataclass(frozen=True, slots=True)
class Question:
    """Does every part equal the reference?"""

    reference: str
    parts: tuple[str, ...]


def question(candidate: str, reference: str, rules: MathRules) -> Question | None:
    """What to ask about an undecided pair; None when the two are not of one shape, so that no algebra should make them equal.

    >>> from guerdon.verifiers.math.rules import MathRules
    >>> question("7 = \\\\sqrt{5}", "\\\\sqrt{5}", MathRules()).parts
    ('7', '\\\\sqrt{5}')
    >>> question("5 \\\\text{ km or so}", "5", MathRules()) is None
    True
    """
    given, wanted = clean(candidate), clean(reference)
    if max(len(given), len(wanted)) > MAX_CHARS or not words(given) <= words(wanted):
        return None
    if Counter(_SKELETON.findall(given)) != Counter(_SKELETON.findall(wanted)):
        return None
    if any(pattern.search(text) for pattern in (_DOTS, _BASE) for text in (given, wanted)):
        return None
    if not rules.allow_unevaluated and not set(_UNEVALUATED.findall(given)) <= set(_UNEVALUATED.findall(wanted)):
        return None
    members, expected = _members(given), _members(wanted)
    if len(expected) > 1:
        return Question(wanted, (given,)) if len(members) == len(expected) else None
    return Question(wanted, members) if len(members) <= _PARTS and all(members) else None


def _members(text: str) -> tuple[str, ...]:
    """The members of a chain of equations; `k = 1` below a sum is none."""
    members, start, depth = [], 0, 0
    for mark in _BRACES_OR_EQUALS.finditer(text):
        if mark[0] in "{}":
            depth += 1 if mark[0] == "{" else -1
        elif not depth:
            members.append(text[start : mark.start()].strip())
            start = mark.end()
    return (*members, text[start:].strip())


def words(text: str) -> frozenset[str]:
    """The words of a text that are neither commands nor functions: letters side by side may be a product, so two need a meaning, or
    to be marked as text."""
    marked = {word.lower() for content in _TEXT.findall(text) for word in _WORD.findall(content)}
    found = {word.lower() for word in _WORD.findall(_MARKUP.sub(" ", text))}
    return frozenset(marked | {word for word in found if word in _SMALL_WORDS or (len(word) > 2 and word not in FUNCTIONS)})
