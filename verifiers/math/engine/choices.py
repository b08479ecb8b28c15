"""Multiple choice: a reference that is one letter, A to J, is a choice, whatever follows it in the candidate after a mark."""

from __future__ import annotations

import re

__all__ = ["choice_letter", "choice_letters", "chooses"]

_REFERENCE = re.compile(r"\s*(?:\\text[a-z]*|\\math[a-z]+)?\s*\{?\s*\(?\s*([A-J])\s*\)?\s*\}?\s*")
_CANDIDATE = re.compile(
    r"\s*(?:\\text[a-z]*|\\math[a-z]+)?\s*[{*]*\s*(?:[Oo]ption|[Cc]hoice|[Aa]nswer)?\s*[({\[]?\s*([A-Ja-j])\s*[)\]]?\s*(?:\}?\s*|[.:)}]+\s*(?P<rest>.{0,400}))",
    re.DOTALL,
)
_LONGEST = 500
_ANOTHER = re.compile(
    r"(?<![A-Za-z\\])[B-HJ](?![A-Za-z'])|\b(?:wrong|incorrect|isn't|is not)\b|(?:^|[\s,;])(?:\([b-j]\)|[b-j][.:]|or [b-j]\))(?:\s|$)"
)


def choice_letter(text: str) -> str | None:
    """The letter of a reference that is a choice.

    >>> choice_letter("\\\\text{(C)}"), choice_letter("x")
    ('C', None)
    """
    found = _REFERENCE.fullmatch(text) if len(text) < 40 else None
    return found[1] if found else None


_MARKUP = re.compile(r"\\(?:text|math)[a-z]*|[\s{}(),;.]|and|&")
_SEVERAL = re.compile(r"[A-E]{2,5}")


def choice_letters(text: str) -> str:
    """The letters of a text that names several choices and nothing else, in order; "" for any other.

    >>> choice_letters("BD"), choice_letters("(D) and (B)"), choice_letters("AA"), choice_letters("B")
    ('BD', 'BD', '', '')
    """
    letters = _MARKUP.sub("", text) if len(text) < 60 else ""
    return "".join(sorted(letters)) if _SEVERAL.fullmatch(letters) and len(set(letters)) == len(letters) else ""


def chooses(text: str, letter: str) -> bool | None:
    """Whether a candidate names this choice and no other; None when it is not a choice at all.

    >>> [chooses(text, "A") for text in ("a", "\\\\text{A. } 5", "(B)", "A,B,C,D", "A. 5 or B. 6")]
    [True, True, False, None, False]
    """
    if len(text) > _LONGEST:
        return None
    found = _CANDIDATE.fullmatch(" ".join(text.split()))
    if found is None:
        return None
    if found[1].upper() != letter:
        return False
    return not (found["rest"] and _ANOTHER.search(found["rest"]))
