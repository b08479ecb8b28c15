"""The last `\\boxed{...}` or `\\fbox{...}` of a text, in one pass over it."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Box", "last_box"]

_PART = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])\s{0,8}(\{)?|\\\\(?!boxed|fbox)|\\[{}]|[{}]")
_TOKEN = re.compile(r"-?\d[\d.,/]*(?<![.,])|\\[a-zA-Z]+(?:\{[^{}]{0,100}\}){0,2}|[a-zA-Z](?![a-zA-Z])")
_BETWEEN = re.compile(r"\\(?:text|mathrm|q?quad)|\\[()\[\],;! ]|[\s${}]")
_JOINTS = frozenset([",", ";", "and", "or", ",and", ",or"])


@dataclass(slots=True)
class Box:
    """Where a box begins, and its content. `end` is where the content ends, -1 while the box is not closed."""

    start: int
    inner: int
    end: int = -1
    parent: int = -1


def last_box(text: str) -> tuple[str | None, int] | None:
    """The content of the last box and where it ends; the content is None if the box is never closed; None without any box.

    A box within a box is part of it. Boxes joined by a comma, "and" or "or" are one list (equal ones count once). `\\boxed 5`
    holds one token; `\\boxed` before anything else is a mention, not a box.

    >>> last_box("\\\\boxed{1} and then \\\\boxed{\\\\frac{1}{2}}")
    ('\\\\frac{1}{2}', 37)
    >>> last_box("$\\\\boxed{4}, \\\\boxed{5}$"), last_box("in \\\\boxed please")
    (('4, 5', 20), None)
    """
    boxes = _boxes(text)
    if not boxes:
        return None
    at = _outermost(boxes, len(boxes) - 1)
    last = boxes[at]
    if last.end < 0:
        return None, len(text)
    contents, start = [text[last.inner : last.end].strip()], last.start
    for box in reversed(boxes[:at]):
        if box.parent >= 0:
            continue
        between = text[box.end + 1 : start] if 0 <= start - box.end < 40 and box.end >= 0 else ""
        if _BETWEEN.sub("", between).lower() not in _JOINTS:
            break
        contents.append(text[box.inner : box.end].strip())
        start = box.start
    joined = contents[0] if len(set(contents)) == 1 else ", ".join(reversed(contents))
    return joined, last.end


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
