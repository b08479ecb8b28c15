"""Where a reply says its score or verdict, and which of several places counts. Readers of the reply are `guerdon.rewards.replies`.

A heading ("Score: 7") counts before a sentence ("the score is 7"), the last heading before others. Where what counts cannot be read, or
a later sentence contradicts it, there is no score: an earlier place is often a quotation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from guerdon.verifiers.base import strip_reasoning
from guerdon.verifiers.json_text import parse_constant, parse_pairs

__all__ = ["concluded", "grade", "last_plain_number", "objects", "score_said", "verdict_said", "word"]

_QUIET = r"[\s*_`\"']"
_SCORE = re.compile(
    rf"\bscore\b{_QUIET}{{0,6}}(?:\([^()\n]{{0,20}}\))?{_QUIET}{{0,6}}(?P<sign>[:=]|is\b|of\b|){_QUIET}{{0,6}}", re.IGNORECASE
)
_VERDICT = re.compile(rf"\b(?:verdict|judge?ment|decision)\b{_QUIET}{{0,6}}(?P<sign>[:=]|is\b|){_QUIET}{{0,6}}", re.IGNORECASE)
_NAMES = "n/?a|none|null|nan|unknown|not|cannot|zero|one|two|three|four|five|six|seven|eight|nine|ten"
_A_SCORE = re.compile(rf"[^A-Za-z]{{0,8}}\d|\\boxed|(?:{_NAMES})\b", re.IGNORECASE)
_A_WORD = re.compile(r"\S")

_GRADE = re.compile(r"\d{1,4}(?:\.\d{1,9})?")
_OUT_OF = re.compile(r"\s*\(?(?:points?\s*)?(?:/|(?:out\s+)?of\b)(?:\s+a\s+possible)?\s*(\d[\d.,]*)(?!\s*/)", re.IGNORECASE)
_RUNS_ON = re.compile(r"[\w^]|[.,]\d|\s*(?:%|percent\b)|\s*(?:[-–—−~+/×]|\b(?:to|or|and|minus|plus)\b)?\s*\d", re.IGNORECASE)
_WORD = re.compile(r"([a-z]+)\b(?:\s*(?:$|[.,;:!)\]}–—])|\s+(?:-\s|because\b|since\b|as\b))", re.IGNORECASE)
_MARKS = str.maketrans("", "", "*_`\"'")

_TOKEN = re.compile(r"[^\s()\[\]{}<>\"'`*=:;$|~]+")
_PLAIN = re.compile(r"([-+−]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?)%?")
_COUNTED_IN = re.compile(r"\d[*_`\"')\]]*\s*(?:/|\b(?:out\s+)?of(?:\s+a\s+possible)?)[\s*_`\"'(\[]*$", re.IGNORECASE)
_MOST_BRACES = 200
"""Further ones are no judge's JSON, and each may cost a pass over the rest."""


def concluded(reply: str) -> str:
    """What follows the reasoning, if there is any; nothing where the reasoning never ends.

    >>> concluded("<think>A 10?</think>Score: 2"), concluded("<think>Score: 10")
    ('Score: 2', '')
    """
    rest = strip_reasoning(reply)
    return "" if rest.lstrip().startswith("<think>") else rest


def score_said(text: str) -> str | None:
    """The number that the text says its score is, of 10; None where it says none or it cannot be told."""
    return _said(_SCORE, text, grade, _A_SCORE)


def verdict_said(text: str) -> str | None:
    """The word that the text says its verdict is, in lower case."""
    return _said(_VERDICT, text, word, _A_WORD)


def _said(heading: re.Pattern[str], text: str, read: Callable[[str], str | None], tried: re.Pattern[str]) -> str | None:
    headed, decided = False, None
    sentences: set[str] = set()
    for found in heading.finditer(text):
        rest = text[found.end() : found.end() + 80].partition("\n")[0]
        value, sign = read(rest), found["sign"].lower()
        if sign in (":", "="):
            if value is not None or tried.match(rest):
                headed, decided, sentences = True, value, set()
        elif value is not None and not (headed and sign == "of"):  # "for a score of 10" says what is not
            sentences.add(value)
    if headed:
        return decided if sentences <= {decided} else None
    return sentences.pop() if len(sentences) == 1 else None


def grade(rest: str) -> str | None:
    """The number that a text begins with, unless it is counted in something else than 10 or is a part of something longer.

    >>> grade("7 / 10."), grade("7 of 100"), grade("5-6"), grade("1e9")
    ('7', None, None, None)
    """
    rest = rest.translate(_MARKS).lstrip()
    found = _GRADE.match(rest)
    if found is None:
        return None
    after = rest[found.end() :]
    if (out_of := _OUT_OF.match(after)) is not None:
        if out_of[1].rstrip(".,") not in ("10", "10.0"):
            return None
        after = after[out_of.end() :]
    return None if _RUNS_ON.match(after) else found[0]


def word(rest: str) -> str | None:
    """The word that a text begins with, if its clause ends there.

    >>> word("Correct, if clumsy"), word("no errors found")
    ('correct', None)
    """
    found = _WORD.match(rest.translate(_MARKS).strip())
    return None if found is None else found[1].lower()


def last_plain_number(text: str) -> str | None:
    """The last number, if it is a plain one and not what another is counted in.

    >>> last_plain_number("so 8.5."), last_plain_number("7/10"), last_plain_number("7 out of 10")
    ('8.5', None, None)
    """
    last, at = "", 0
    for token in _TOKEN.finditer(text):
        trimmed = token[0].strip("_,!?#").removesuffix(".")
        if trimmed and not trimmed[0].isalpha() and re.search(r"\d", trimmed):
            last, at = trimmed, token.start()
    found = _PLAIN.fullmatch(last)
    return None if found is None or _COUNTED_IN.search(text[max(0, at - 40) : at]) else found[1].replace("−", "-")


def objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects in a text, in order, those within others apart. Empty where one is broken: what is in it may mean anything.

    >>> objects('The set {1, 2}: {"score": 3}'), objects('{"a": {"score": 3}, "a": 1}')
    ([{'score': 3}], [])
    """
    decoder, at = json.JSONDecoder(object_pairs_hook=parse_pairs, parse_constant=parse_constant), 0
    found: list[dict[str, Any]] = []
    for _ in range(_MOST_BRACES):
        if (at := text.find("{", at)) < 0:
            return found
        try:
            value, at = decoder.raw_decode(text, at)
            found.append(value)
        except (ValueError, RecursionError):
            if re.match(r'\{\s*"', text[at : at + 40]):
                return []
            at += 1
    return []
