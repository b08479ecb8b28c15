"""From text to a tree: cleaned, split into tokens, parsed; prose stays prose.

Text that takes its value back ("not 5", "5 or any other number") is never read as the value.
"""

from __future__ import annotations

import re

from guerdon.verifiers.math.engine.clean import clean
from guerdon.verifiers.math.engine.lexer import tokens
from guerdon.verifiers.math.engine.limits import Unreadable
from guerdon.verifiers.math.engine.nodes import Node
from guerdon.verifiers.math.engine.structures import Structures
from guerdon.verifiers.math.engine.tables import HEDGES

__all__ = ["read", "words_of"]

_NOTHING = re.compile(
    r"(?:there (?:is|are|exists?) )?(?:no|none)(?: (?:such|real|integer|valid|possible|positive|rational|finite))*"
    r"(?: (?:solutions?|roots?|answers?|values?|numbers?|integers?|functions?|such [a-z]+))?(?: exists?| in (?:the )?reals?)?"
    r"|(?:the )?empty set|does not exist|dne|no such [a-z]+(?: [a-z]+)?(?: exists?)?|not possible|impossible"
)
_HINT = re.compile(r"no|real|exist|empty|yes|true|false|defined|possible|dne", re.IGNORECASE)
"""Without one of these no phrase below can match."""
_EVERYTHING = re.compile(
    r"(?:x is )?(?:all|any|every) (?:real|reals|real numbers?|real values?)(?: numbers?)?(?: x)?"
    r"|(?:the )?(?:set of )?(?:all )?real numbers|reals"
)
_TEXT_WRAPPER = re.compile(r"\\(?:text[a-z]*|math[a-z]+|mbox|hbox|emph|operatorname)\s*(?=\{)")
_NOT_WORD = re.compile(r"[^a-z0-9.+\-*/=<>^|()\[\]\\]+")
_ARTICLES = frozenset(("the", "a", "an"))
_BASED = re.compile(r"[\s({\\a-z]*?\(?([0-9A-F]{1,200})[)}]?\s*_\s*(?:\{\s*(?:\\text\s*\{\s*)?(\d{1,2}|[a-z]+)\s*\}?\s*\}|(\d{1,2}))\s*$")
_HAS_LETTER_DIGIT = re.compile(r"[A-F]")


def words_of(cleaned: str) -> str:
    """Prose in one form: lower case, no articles, no markup.

    >>> words_of("\\\\text{The  Midpoints}")
    'midpoints'
    """
    text = _TEXT_WRAPPER.sub(" ", cleaned.replace("\\ ", " ")).lower()
    kept = (word.strip(".()") for word in _NOT_WORD.sub(" ", text).split())
    return " ".join(word for word in kept if word and word not in _ARTICLES)


def _phrase(cleaned: str) -> Node | None:
    """Phrases with a meaning of their own."""
    words = words_of(cleaned)
    if _NOTHING.fullmatch(words) and words not in ("no", "none"):
        return Node("empty")
    if _EVERYTHING.fullmatch(words):
        return Node("reals", (), "R")
    return Node("text", (), words) if words in ("no", "none", "yes", "true", "false", "undefined") else None


def _hex(cleaned: str) -> Node | None:
    """Digits beyond nine, which the grammar would read as variables: `1A_{16}`."""
    found = _BASED.fullmatch(cleaned)
    if found is None or not _HAS_LETTER_DIGIT.search(found[1]) or not (found[2] or found[3] or "").isdigit():
        return None
    base = int(found[2] or found[3])
    if not 11 <= base <= 36 or any(int(c, 36) >= base for c in found[1]):
        return None
    return Node("based", (), (found[1].lstrip("0") or "0", base))


def read(text: str, flip: bool = False) -> Node:
    """The tree of an answer. Raises TooLarge over the caps and Unreadable for what is neither an expression nor prose.

    >>> read("x = 2")
    Node(kind='rel', args=(Node(kind='sym', args=(), value='x'), Node(kind='num', args=(), value=Fraction(2, 1))), value=('=',))
    >>> read("not 5").kind
    'text'
    """
    return read_cleaned(clean(text), flip)


def read_cleaned(cleaned: str, flip: bool = False) -> Node:
    """`read` for text that is already clean."""
    if not cleaned:
        raise Unreadable("empty")
    letters = any(c.isalpha() for c in cleaned)
    if letters:
        special = (_phrase(cleaned) if _HINT.search(cleaned) else None) or (_hex(cleaned) if "_" in cleaned else None)
        if special is not None:
            return special
    try:
        found = tokens(cleaned, flip)
    except Unreadable:
        if letters and "\\" not in cleaned:
            return Node("text", (), words_of(cleaned))
        raise
    prose = False
    for kind, word in found:
        if kind == "word":
            if word.lower() in HEDGES:
                return Node("text", (), words_of(cleaned))
            prose = True
    try:
        return Structures(found).answer()
    except Unreadable:
        if prose:
            return Node("text", (), words_of(cleaned))
        raise
