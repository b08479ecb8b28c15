"""The `\\boxed{...}` and `\\fbox{...}` of a text. What stands in them is not read here."""

from __future__ import annotations

import re

__all__ = ["boxes"]

_TOKEN = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)


def boxes(text: str) -> list[str | None]:
    r"""The contents of the boxes in a text, in the order they open; None for one that is never closed. Linear in the text.

    A box within a closed box belongs to that one's content. A `\boxed` without a brace is no box.

    >>> boxes(r"\boxed{1} and \fbox{ {\boxed{2}} }, then \boxed without braces, \boxed{3")
    ['1', ' {\\boxed{2}} ', None]
    """
    spans: list[tuple[int, int | None]] = []
    open_braces: list[tuple[int, int]] = []  # (number of the box or -1, where its content starts)
    for token in _TOKEN.finditer(text):
        mark = token.group()
        if mark == "}":
            if open_braces and (opened := open_braces.pop())[0] >= 0:
                spans[opened[0]] = (opened[1], token.start())
        elif mark == "{":
            open_braces.append((-1, token.end()))
        elif len(mark) > 2:
            open_braces.append((len(spans), token.end()))
            spans.append((token.end(), None))
    contents: list[str | None] = []
    closed_at = 0
    for start, end in spans:
        if end is None:
            contents.append(None)
        elif end > closed_at:
            contents.append(text[start:end])
            closed_at = end
    return contents
