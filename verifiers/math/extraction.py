"""Where a completion says its answer: a visible chain of rules, the last statement winning.

Reasoning is stripped first. Then the last `<answer>` span; else the last, by position, of a box, "the answer is ...", a line
`Answer: ...` or `A: ...`, or `#### ...`; else the whole completion if it is one number or expression. A completion that states no
answer gets none: its last formula and its last number are picked up only with `MathRules(search=True)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from guerdon.verifiers.base import strip_reasoning
from guerdon.verifiers.math.boxes import BLANK, last_box
from guerdon.verifiers.math.engine.clean import clean
from guerdon.verifiers.math.engine.limits import TooLarge, Unreadable
from guerdon.verifiers.math.engine.reading import read_cleaned
from guerdon.verifiers.math.engine.tables import HEDGES
from guerdon.verifiers.math.rules import DEFAULT_RULES, MathRules

__all__ = ["Extraction", "extract", "given", "reference_text"]


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was taken from a completion (`text`) and the rule that took it, or None and the `reason` why there is nothing.

    `rule` is one of `answer_tag`, `box`, `phrase`, `answer_line`, `hash`, `whole`; `formula` and `number` with
    `MathRules(search=True)`; `given` for a bare candidate; "" when none fired. `reason` is "", `empty_box`, `unterminated_box` or
    `no_answer`.
    """

    text: str | None
    rule: str = ""
    reason: str = ""


_NOTHING = Extraction(None, "", "no_answer")
_WHOLE_CHARS = 1000

_STATEMENTS = [  # what to look for from the end, the pattern that must match there, the rule's name
    ("nswer", re.compile(r"nswer(?: to [^.\n]{1,80}?)?\s{1,4}is(?![a-zA-Z])[*_]{0,3}:?[\s*_:]*(?:\\?[\"“])?"), "phrase"),
    ("nswer", re.compile(r"nswer[*_ \t]{0,4}(?:[:：]|(?=\$|\\[\[(]))[\s*_]*"), "answer_line"),
    ("NSWER", re.compile(r"NSWER[*_ \t]{0,4}[:：][\s*_]*"), "answer_line"),
    ("A:", re.compile(r"A:[ \t*_]*"), "answer_line"),
    ("####", re.compile(r"####(?!#)[ \t*]*"), "hash"),
]
_LINE_START = re.compile(r"[\s*_#>$\\\[({-]*(?:(?:the|my|final|correct)[ \t]+)*a?", re.IGNORECASE).fullmatch
_FINAL = re.compile(r"[.!?*$)\]][\s*]{1,8}Final[ \t]+[Aa]$").search
_MATHEMATICAL = re.compile(r"[-+−]?\s?(?:[\d$\\(\[{€£¥]|\.\d)").match
_HEADING = re.compile(r"\d+[.):]\s+\S").match
_REMARK = re.compile(r",?\s(?:because|since|as|so|which|where|hence|thus)\s", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<![.\s])\.(?=\s|$)")
_DELIMITERS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)", "$": "$"}


def extract(completion: str, rules: MathRules = DEFAULT_RULES) -> Extraction:
    """Take the answer out of a completion.

    The last box decides even when it is empty or never closed: an earlier one does not rescue it. Boxes joined by commas or
    "and" are one list.

    >>> extract("So it is \\\\boxed{4}. Wait: the answer is 5.")
    Extraction(text='5', rule='phrase', reason='')
    >>> extract("2+40=42\\n#### 42\\n and so on")
    Extraction(text='42', rule='hash', reason='')
    >>> extract("It could be \\\\boxed{42}, or \\\\boxed{")
    Extraction(text=None, rule='box', reason='unterminated_box')
    >>> extract("That makes 42"), extract("That makes 42", MathRules.lenient()).text
    (Extraction(text=None, rule='', reason='no_answer'), '42')
    """
    text = strip_reasoning(completion, rules.reasoning_end) if rules.reasoning_end else completion
    found = _stated(text)
    return _searched(text, found) if rules.search else found


def given(candidate: str) -> Extraction:
    """A bare candidate: as it stands, or the content of its last box."""
    if "boxed" not in candidate and "fbox" not in candidate:
        return Extraction(candidate, "given")
    return _boxed(candidate)[0] or Extraction(candidate, "given")


def _stated(text: str) -> Extraction:
    opened = text.rfind("<answer>")
    inner = opened + len("<answer>") if opened >= 0 else 0
    closed = text.rfind("</answer>", inner)
    if opened < 0:
        return _from_chain(text if closed < 0 else text[:closed])
    if closed < 0:  # generation often stops at the closing tag
        found = _from_chain(text[inner:])
        return found if found != _NOTHING else _from_chain(text)
    span = text[inner:closed].strip(BLANK)
    return _boxed(span)[0] or _last_statement(span, 0) or (Extraction(span, "answer_tag") if span else _NOTHING)


_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:\s{0,3}(?:\\?%|percent\w{0,3}|pct))?")
_DOLLARS = re.compile(r"(?<!\\)\$\$?")


def _searched(text: str, found: Extraction) -> Extraction:
    """What was found, if it is mathematics or a broken box; else the last formula, or the last number, of a statement in prose or,
    without a statement, of the whole text."""
    if found.reason in ("empty_box", "unterminated_box") or found.rule in ("box", "whole") or _is_expression(found.text or ""):
        return found
    part = text if found.text is None else found.text
    if (formula := _last_formula(part)) is not None:
        return Extraction(formula, "formula")
    numbers = _NUMBER.findall(part)
    return Extraction(numbers[-1].rstrip(","), "number") if numbers else found


def _last_formula(text: str) -> str | None:
    """The content of the last closed `$...$`, `$$...$$`, `\\(...\\)` or `\\[...\\]`."""
    marks = [mark.span() for mark in _DOLLARS.finditer(text)]
    pairs = [(marks[k][1], marks[k + 1][0]) for k in range(0, len(marks) - 1, 2)][-1:]
    for opening, closing in (("\\(", "\\)"), ("\\[", "\\]")):
        closed = text.rfind(closing)
        if closed >= 0 and (opened := text.rfind(opening, 0, closed)) >= 0:
            pairs.append((opened + 2, closed))
    start, end = max(pairs, key=lambda pair: pair[1], default=(0, 0))
    return text[start:end].strip() or None


_OPENS_WITH_BOX = re.compile(r"[\s$]*\\{1,2}boxed\{").match


def reference_text(answer: str) -> str | None:
    """An answer that holds a box contributes its box (None when that is empty or not closed); any other is taken whole.

    An answer that is one box but for a lost brace at its end is taken whole too: the engine repairs it.
    """
    box = _boxed(answer)[0]
    if box is not None and box.reason == "unterminated_box" and _OPENS_WITH_BOX(answer) and answer.count("boxed") == 1:
        return answer.strip(BLANK)
    return answer.strip(BLANK) if box is None else box.text


def _boxed(text: str) -> tuple[Extraction | None, int]:
    """The last box as an extraction, and where it ends; (None, 0) without any."""
    box = last_box(text)
    if box is None:
        return None, 0
    content, end = box
    if content is None:
        return Extraction(None, "box", "unterminated_box"), end
    return Extraction(content, "box") if content else Extraction(None, "box", "empty_box"), end


def _from_chain(text: str) -> Extraction:
    box, end = _boxed(text)
    return _last_statement(text, end) or box or _whole(text)


def _last_statement(text: str, after: int) -> Extraction | None:
    """The last statement that begins at `after` or later.

    One that does not begin like mathematics ("the answer is obvious") counts only if there is no other, and never after a box.
    """
    best: tuple[bool, int, Extraction] | None = None
    for needle, pattern, rule in _STATEMENTS:
        at = text.rfind(needle, after)
        while at >= 0 and (best is None or not best[0] or at > best[1]):
            if (match := pattern.match(text, at)) and (rule == "phrase" or _starts_line(text, at)):
                sure = _is_sure(text, match.end(), rule)
                if (sure or (best is None and after == 0 and rule != "hash")) and (value := _value(text, match.end(), rule)):
                    best = (sure, at, Extraction(value, rule))
            at = text.rfind(needle, after, at)
    return best[2] if best else None


def _starts_line(text: str, at: int) -> bool:
    """At the start of a line, or, with "Final" before it, of a sentence."""
    start = max(0, at - 60)
    _, newline, line = text[start:at].rpartition("\n")
    if (start == 0 or newline != "") and _LINE_START(line) is not None:
        return True
    return _FINAL(text, start, at) is not None


def _is_sure(text: str, at: int, rule: str) -> bool:
    return _MATHEMATICAL(text, at) is not None and not (rule == "hash" and _HEADING(text, at))


def _value(text: str, at: int, rule: str) -> str:
    """What is stated from `at` on: the rest of the line (of the display, if one begins here), up to the end of the sentence."""
    start = at
    for opening, closing in _DELIMITERS.items():
        if text.startswith(opening, at):
            closed = text.find(closing, at + len(opening))
            if closed >= 0 and (opening in ("$$", "\\[") or "\n" not in text[at:closed]):
                start = closed + len(closing)
            break
    end = text.find("\n", start)
    value = text[at : end if end >= 0 else len(text)]
    if rule == "phrase":
        value = _REMARK.split(value, maxsplit=1)[0]
    if rule != "hash":
        value = _SENTENCE_END.split(value, maxsplit=1)[0]
    value = value.strip(" \t*_")
    if rule != "hash":
        value = _named_last(value.removesuffix('"').removesuffix("”").removesuffix("\\"))
    bracketed = value.endswith((")", "]")) and _open(value) < 0 and not _open(value[:-1])  # "(the answer is 5)"
    return value[:-1] if bracketed and not value.endswith(("\\)", "\\]")) else value


def _named_last(value: str) -> str:
    """`The volume of the prism is 120` names what is 120."""
    if _MATHEMATICAL(value):
        return value
    before, verb, after = value.partition(" is ")
    return after if verb and _MATHEMATICAL(after) and HEDGES.isdisjoint(before.lower().split()) else value


def _open(text: str) -> int:
    """How many round and square brackets are left open."""
    return sum((char in "([") - (char in ")]") for char in text)


def _whole(text: str) -> Extraction:
    """The whole completion, if it is one number (with its unit), one expression, or one word."""
    text = text.strip()
    if not text or len(text) > _WHOLE_CHARS:
        return _NOTHING
    one_formula = any(
        text.startswith(opening)
        and text.endswith(closing)
        and text.count(closing) == 1 + (opening == closing)
        and text.count("$") in (0, 2, 4)
        for opening, closing in _DELIMITERS.items()
    )
    return Extraction(text, "whole") if one_formula or ("\n" not in text and _is_expression(text)) else _NOTHING


def _is_expression(text: str) -> bool:
    """Whether the text is mathematics to the engine, or one word."""
    cleaned = clean(text)
    if not cleaned or not any(char.isalnum() or char in "{}" for char in cleaned):
        return False
    try:
        return read_cleaned(cleaned).kind != "text" or cleaned.isalpha()
    except (TooLarge, Unreadable, ArithmeticError, LookupError, ValueError, RecursionError):
        return False
