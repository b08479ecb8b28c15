"""The last `\\boxed{...}` or `\\fbox{...}` of a text, in one pass over it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from guerdon.verifiers.math.engine.tables import FILLERS
from guerdon.verifiers.math.engine.units import is_unit_word

__all__ = ["BLANK", "Box", "last_box"]

BLANK = " \n"
"""Not tabs and form feeds: they may be what is left of `\\text` and `\\frac`."""

_PART = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])\s{0,8}(\{)?|\\\\(?!boxed|fbox)|\\[{}]|[{}]")
_TOKEN = re.compile(r"-?\d[\d.,/]*(?<![.,])|\\[a-zA-Z]+(?:\{[^{}]{0,100}\}){0,2}|[a-zA-Z](?![a-zA-Z])")
_ONLY = re.compile(r"\\boxed\{((?:[^{}\\]|\\.|\{(?:[^{}\\]|\\.|\{(?:[^{}\\]|\\.)*+\})*+\})*+)\}", re.DOTALL)
"""The one box of a text, with groups two deep: most completions, at a third of the time."""
_MARKUP = re.compile(r"\\(?:text|mathrm|q?quad)|\\[()\[\],;! ]|[\s${}]")
_NAME = re.compile(r"(?<![a-zA-Z])[a-zA-Z](?:_?\d)?\s{0,3}=\s{0,3}$")
_WORDS = re.compile(r"[a-z]+|[^a-z\s]")
_JOINTS = frozenset([",", ";", "and", "or", ", and", ", or"])


@dataclass(slots=True)
class Box:
    """Where a box begins, and its content. `end` is where the content ends, -1 while the box is not closed."""

    start: int
    inner: int
    end: int = -1
    parent: int = -1


def last_box(text: str) -> tuple[str | None, int] | None:
    """The content of the last box and where it ends; the content is None if the box is never closed; None without any box.

    A box within a box is part of it. Boxes joined by a comma, "and" or "or" are one list (equal ones count once); a unit may stand
    before the joint and `x =` after it. `\\boxed 5` holds one token; `\\boxed` before anything else is a mention, not a box.

    >>> last_box("\\\\boxed{1} and then \\\\boxed{\\\\frac{1}{2}}")
    ('\\\\frac{1}{2}', 37)
    >>> last_box("$\\\\boxed{4}, \\\\boxed{5}$"), last_box("in \\\\boxed please")
    (('4, 5', 20), None)
    """
    first = text.find("boxed")
    alone = first > 0 and text.find("boxed", first + 5) < 0 and "fbox" not in text
    if alone and (only := _ONLY.match(text, first - 1)):
        return only[1].strip(BLANK), only.end() - 1
    boxes = _boxes(text)
    if not boxes:
        return None
    at = _outermost(boxes, len(boxes) - 1)
    last = boxes[at]
    if last.end < 0:
        return None, len(text)
    contents, start = [text[last.inner : last.end].strip(BLANK)], last.start
    for box in reversed(boxes[:at]):
        if box.parent >= 0:
            continue
        if box.end < 0 or not 0 <= start - box.end < 60 or not _joins(text[box.end + 1 : start]):
            break
        contents.append(text[box.inner : box.end].strip(BLANK))
        start = box.start
    joined = contents[0] if len(set(contents)) == 1 else ", ".join(reversed(contents))
    return joined, last.end


def _joins(between: str) -> bool:
    found = _WORDS.findall(_NAME.sub("", _MARKUP.sub(" ", between)).lower())
    while found and is_unit_word(found[0]) and found[0] not in FILLERS:
        del found[0]
    return " ".join(found) in _JOINTS


def _outermost(boxes: list[Box], at: int) -> int:
    """The closed box that holds box `at`, or `at` itself."""
    parent = boxes[at].parent
    while parent >= 0:
        if boxes[parent].end >= 0:
            at = parent
        parent = boxes[parent].parent
    return at


def _boxes(text: str) -> list[Box]:
    first = min((at for at in (text.find("\\boxed"), text.find("\\fbox")) if at >= 0), default=len(text))
    boxes: list[Box] = []
    braces: list[int] = []  # for every open brace the box it opens, or -1
    around = -1  # the innermost open box
    for part in _PART.finditer(text, first):
        mark = part[0]
        if mark == "{":
            braces.append(-1)
        elif mark == "}":
            if braces and (closed := braces.pop()) >= 0:
                boxes[closed].end, around = part.start(), boxes[closed].parent
        elif part[1]:
            boxes.append(Box(part.start(), part.end(), parent=around))
            around = len(boxes) - 1
            braces.append(around)
        elif len(mark) > 2 and (token := _TOKEN.match(text, part.end())):
            boxes.append(Box(part.start(), token.start(), token.end(), around))
    return boxes
