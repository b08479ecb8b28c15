"""The engine's two calls: compile an answer once, compare candidates with it. Pure, bounded, no timer, no worker.

Every verdict names the stage and the convention that gave it. What is not decided here has status None and can be handed to a slower
judge; text that takes its value back, unevaluated forms, false chains and inputs over the caps never are: they are wrong.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from guerdon.types import Status
from guerdon.verifiers.math.engine.choices import choice_letter, choice_letters, chooses
from guerdon.verifiers.math.engine.clean import clean, squeezed
from guerdon.verifiers.math.engine.decide import same
from guerdon.verifiers.math.engine.exact import exact
from guerdon.verifiers.math.engine.forms import prepared
from guerdon.verifiers.math.engine.lazy import restates
from guerdon.verifiers.math.engine.lexer import GROUPED
from guerdon.verifiers.math.engine.limits import MAX_CHARS, TooLarge, Undefined, Unreadable
from guerdon.verifiers.math.engine.nodes import Node, has_kind, num, sym, symbols, walk
from guerdon.verifiers.math.engine.quantities import Context
from guerdon.verifiers.math.engine.quick import Plain, plain_number
from guerdon.verifiers.math.engine.reading import read_cleaned, words_of

__all__ = ["Compiled", "Decision", "Rules", "compare", "compile_answer"]


class Rules(Protocol):
    """The choices the engine reads."""

    @property
    def rounding(self) -> bool: ...
    @property
    def allow_unevaluated(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Compiled:
    """An answer read once. `problem` says why it can judge nothing ("" when it can); `tree` is None where only text can be compared."""

    text: str
    key: str
    tree: Node | None
    plain: Plain | None = None
    letter: str | None = None
    letters: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """`status` None: undecided here. `stage` is number, text, choice, tree or none; `rule` the convention that decided."""

    status: Status | None
    reason: str = ""
    stage: str = "none"
    rule: str = ""
    detail: str = ""


def compile_answer(text: str) -> Compiled:
    """Read an answer (reference), to be kept for many comparisons.

    >>> compile_answer("\\\\frac{0}{0}").problem
    'the answer has no value'
    """
    plain = plain_number(text)
    if plain is not None:
        return Compiled(text, squeezed(clean(text)), _plain_tree(plain), plain)
    if len(text) > MAX_CHARS:
        return Compiled(text, text, None, problem="the answer is too large")
    cleaned = clean(text)
    if not cleaned:
        return Compiled(text, "", None, problem="the answer is empty")
    key, letter, letters = squeezed(cleaned), choice_letter(cleaned), choice_letters(cleaned)
    try:
        tree = prepared(read_cleaned(cleaned))
        problem = _problem(tree)
    except TooLarge:
        return Compiled(text, key, None, letter=letter, problem="the answer is too large")
    except (Unreadable, *_FAULTS):
        return Compiled(text, key, None, letter=letter)
    return Compiled(text, key, tree, letter=letter, letters=letters, problem=problem)


_NOTHING = Node("list", (), ",")


def _problem(tree: Node) -> str:
    """Why no candidate can equal the tree: a closed part divides by zero, or a part was lost (`\\frac{q}{}`)."""
    for node in walk(tree):
        if node.kind in ("div", "root") and _NOTHING in node.args:
            return "a part of the answer is empty"
        if node.kind in ("div", "pow") and not symbols(node):
            try:
                exact(node)
            except Undefined:
                return "the answer has no value"
    return ""


def compare(candidate: str, answer: Compiled, rules: Rules) -> Decision:
    """The verdict on a candidate's answer (already extracted)."""
    plain = plain_number(candidate)
    if plain is not None and (theirs := answer.plain) is not None:
        return (
            _RIGHT_NUMBER
            if plain.value == theirs.value and (plain.name == theirs.name or not (plain.name and theirs.name))
            else _WRONG_NUMBER
        )
    if len(candidate) > MAX_CHARS:
        return _RIGHT_TEXT if candidate == answer.text else _TOO_LARGE
    cleaned = clean(candidate)
    if not cleaned:
        return Decision(Status.UNPARSEABLE, "no_answer", "text", "empty")
    if squeezed(cleaned) == answer.key:
        return _RIGHT_TEXT
    if answer.letter is not None and (chosen := chooses(cleaned, answer.letter)) is not None:
        return Decision(Status.CORRECT if chosen else Status.INCORRECT, "" if chosen else "mismatch", "choice", "letter")
    if answer.letters and choice_letters(cleaned) == answer.letters:
        return Decision(Status.CORRECT, "", "choice", "letters")
    try:
        return _by_tree(cleaned, answer, rules)
    except TooLarge:
        return _TOO_LARGE
    except Unreadable as error:
        return _unreadable(cleaned, answer, str(error))
    except _FAULTS as error:
        return Decision(None, "", "none", "fault", repr(error))


_FAULTS = (ArithmeticError, LookupError, ValueError, RecursionError)
"""None is known to be raised; a fault of the engine must not end a training run, nor decide a verdict."""
_RIGHT_NUMBER = Decision(Status.CORRECT, "", "number", "equal numbers")
_WRONG_NUMBER = Decision(Status.INCORRECT, "mismatch", "number", "different numbers")
_RIGHT_TEXT = Decision(Status.CORRECT, "", "text", "same text")
_TOO_LARGE = Decision(Status.UNPARSEABLE, "too_large", "tree", "caps")


def _by_tree(cleaned: str, answer: Compiled, rules: Rules) -> Decision:
    tree = prepared(read_cleaned(cleaned))
    theirs = answer.tree
    if theirs is None:
        if tree.kind == "text":
            return _texts(words_of(clean(answer.text)) == tree.value)
        return Decision(None, "", "none", "answer not read")
    if theirs.kind == "based" and cleaned.isalnum():  # 1A for 1A_{16}: letters may be digits
        equal = cleaned.upper().lstrip("0") == theirs.value[0]
        return Decision(Status.CORRECT if equal else Status.INCORRECT, "" if equal else "mismatch", "tree", "based")
    if tree.kind == "text" and theirs.kind == "text":
        return _texts(tree.value == theirs.value)
    if theirs.kind == "text" and words_of(cleaned) == theirs.value:  # EVEN, which could be a product
        return _RIGHT_TEXT
    if not rules.allow_unevaluated and restates(theirs, tree):
        return Decision(Status.INCORRECT, "mismatch", "tree", "unevaluated")
    context = Context(rules.rounding, rules.allow_unevaluated)
    verdict = _safely(theirs, tree, context)
    if not verdict:
        for a, b in _other_readings(answer, theirs, cleaned, tree):
            if _safely(a, b, context):
                return Decision(Status.CORRECT, "", "tree", "digit grouping")
    if verdict is None:
        return Decision(None, "", "none", _kinds(theirs, tree))
    return Decision(Status.CORRECT if verdict else Status.INCORRECT, "" if verdict else "mismatch", "tree", _kinds(theirs, tree))


def _safely(answer: Node, candidate: Node, context: Context) -> bool | None:
    try:
        return same(answer, candidate, context)
    except Undefined:
        return False


def _texts(equal: bool) -> Decision:
    return _RIGHT_TEXT if equal else Decision(Status.INCORRECT, "mismatch", "text", "different words")


def _kinds(answer: Node, candidate: Node) -> str:
    return answer.kind if answer.kind == candidate.kind else f"{answer.kind} and {candidate.kind}"


def _plain_tree(plain: Plain) -> Node:
    value = plain.value if isinstance(plain.value, Fraction) else Fraction(plain.value)
    number = num(value) if plain.places < 0 else Node("dec", (), (value, plain.places, plain.digits))
    return Node("rel", (sym(plain.name), number), ("=",)) if plain.name else number


_DECIMAL_COMMA = re.compile(r"([+-]?\s?(?:\d{1,3}(?:[. ]\d{3}){1,3}|\d{1,12})),(\d{1,12})(\s?[^\d\s,.][^,]{0,40})?")
_GROUP_MARK = re.compile(r"[. ]")
_SURE_DECIMAL_COMMA = re.compile(r"([+-]?\s?0),(\d{1,12})|([+-]?\s?\d{1,12}),(\d{2,12})")
"""In a reference: `3,4` there is a list."""
_SCALARS = frozenset(("num", "dec", "neg", "div", "unit", "percent", "add", "mul", "root"))


def _other_readings(answer: Compiled, theirs: Node, cleaned: str, tree: Node) -> list[tuple[Node, Node]]:
    """A decimal comma beside one number; grouped digits as a list beside a list, and in brackets as one number."""
    pairs: list[tuple[Node, Node]] = []
    own = clean(answer.text)
    for text, other, swap in ((cleaned, theirs, False), (own, tree, True)):
        if "," not in text:
            continue
        readings: list[str] = []
        comma = _DECIMAL_COMMA.fullmatch(text)
        if comma and other.kind in _SCALARS and (not swap or _SURE_DECIMAL_COMMA.fullmatch(text)):
            readings.append(f"{_GROUP_MARK.sub('', comma[1])}.{comma[2]}{comma[3] or ''}")
        if GROUPED.search(text) and (text[0] not in "([\\{" or ", " in text) and has_kind(other, "list", "tuple", "set"):
            readings.append(text)
        for reading in readings:
            with suppress(TooLarge, Unreadable):
                read = prepared(read_cleaned(reading, flip=reading is text))
                pairs.append((read, other) if swap else (other, read))
    return pairs


_MATH = re.compile(r"[\\0-9=+*/^<>|]")


def _unreadable(cleaned: str, answer: Compiled, why: str) -> Decision:
    """Not an expression of the grammar: wrong beside a plain number or words, undecided beside what may need more notation."""
    theirs = answer.tree
    if answer.plain is not None or answer.letter is not None or (theirs is not None and theirs.kind in ("text", "num", "dec", "based")):
        return Decision(Status.UNPARSEABLE, "unreadable", "tree", "unreadable", why)
    if not _MATH.search(cleaned):
        return Decision(Status.INCORRECT, "mismatch", "text", "words")
    return Decision(None, "", "none", "unreadable", why)
