"""Where a completion says its answer: a visible chain of rules, the last statement winning.

Reasoning is stripped first. Then the last `<answer>` span; else the last, by position, of a box, "the answer is ...", a line
`Answer: ...` or `A: ...`, or `#### ...`; else the whole completion if it is one number or expression. Nothing is parsed as
mathematics here, and a completion that states no answer gets none: the last number of a text is never picked up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from guerdon.verifiers.base import strip_reasoning
from guerdon.verifiers.math.boxes import last_box
from guerdon.verifiers.math.reading import normal, read, unbalanced, words
from guerdon.verifiers.math.rules import DEFAULT_RULES, MathRules

__all__ = ["Extraction", "extract", "reference_text"]


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was taken from a completion (`text`) and the rule that took it, or None and the `reason` why there is nothing.

    `rule` is one of `answer_tag`, `box`, `phrase`, `answer_line`, `hash`, `whole`, "" when none fired, or `given` for a bare
    candidate. `reason` is "", `empty_box`, `unterminated_box` or `no_answer`.
    """

    text: str | None
    rule: str = ""
    reason: str = ""


_NOTHING = Extraction(None, "", "no_answer")
_WHOLE_CHARS = 1000

_STATEMENTS = [  # what to look for from the end, the pattern that must match there, the rule's name
    ("nswer", re.compile(r"nswer(?: to [^.\n]{1,80}?)?\s{1,4}is(?![a-zA-Z])[*_]{0,3}:?[\s*_:]*"), "phrase"),
    ("nswer", re.compile(r"nswer[*_ \t]{0,4}(?:[:：]|(?=\$|\\[\[(]))[\s*_]*"), "answer_line"),
    ("NSWER", re.compile(r"NSWER[*_ \t]{0,4}[:：][\s*_]*"), "answer_line"),
    ("A:", re.compile(r"A:[ \t*_]*"), "answer_line"),
    ("####", re.compile(r"####(?!#)[ \t*]*"), "hash"),
]
_LINE_START = re.compile(r"[\s*_#>$\\\[({-]*(?:(?:the|my|final|correct)[ \t]+)*a?", re.IGNORECASE).fullmatch
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
    """
    text = strip_reasoning(completion, rules.reasoning_end) if rules.reasoning_end else completion
    opened = text.rfind("<answer>")
    inner = opened + len("<answer>") if opened >= 0 else 0
    closed = text.rfind("</answer>", inner)
    if opened < 0:
        return _from_chain(text if closed < 0 else text[:closed])
    if closed < 0:  # generation often stops at the closing tag
        found = _from_chain(text[inner:])
        return found if found != _NOTHING else _from_chain(text)
    span = text[inner:closed].strip()
    return _boxed(span)[0] or _last_statement(span, 0) or (Extraction(span, "answer_tag") if span else _NOTHING)


def reference_text(answer: str) -> str | None:
    """An answer that holds a box contributes its box (None when that is empty or not closed); any other is taken whole."""
    box = _boxed(answer)[0]
    return answer.strip() if box is None else box.text


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
    start = max(0, at - 60)
    _, newline, line = text[start:at].rpartition("\n")
    return (start == 0 or newline != "") and _LINE_START(line) is not None


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
    bracketed = value.endswith((")", "]")) and unbalanced(value) and not unbalanced(value[:-1])  # "(the answer is 5)"
    return value[:-1] if bracketed and not value.endswith(("\\)", "\\]")) else value


def _whole(text: str) -> Extraction:
    """The whole completion, if it is one number (with its unit), one expression, or one word."""
    text = text.strip()
    if not text or len(text) > _WHOLE_CHARS:
        return _NOTHING
    displayed = any(text.startswith(opening) and text.endswith(closing) for opening, closing in _DELIMITERS.items())
    if "\n" in text and not displayed:
        return _NOTHING
    prose = len(words(normal(text))) if " " in text and not displayed else 0
    if read(text).value is None and (prose or not any(char.isalnum() for char in text)):
        return _NOTHING
    return Extraction(text, "whole")
