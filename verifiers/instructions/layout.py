"""IFEval's constraints on parts and format. Each is a pure function of the text and its checked arguments.

Lines end at a line feed only, as in IFEval. Every check is linear in the text.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

from guerdon.verifiers.base import VISIBLE, is_blank
from guerdon.verifiers.instructions.finding import Finding, compare

__all__ = [
    "bullets",
    "constrained_response",
    "ends_with",
    "highlights",
    "is_json",
    "no_comma",
    "nth_paragraph",
    "paragraphs",
    "placeholders",
    "postscript",
    "quotation",
    "repeats_prompt",
    "sections",
    "title",
    "two_responses",
]

_OPTIONS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_COMMAS = re.compile("[,،，、]")


def paragraphs(text: str, num_paragraphs: int) -> Finding:
    """So many paragraphs separated by `***`; only the first and the last piece may be blank."""
    pieces = _trimmed(text.split("***"))
    if not all(pieces):
        return Finding(False, "nothing between two *** dividers")
    return _exactly(len(pieces), num_paragraphs, "paragraphs between *** dividers")


def nth_paragraph(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> Finding:
    """So many paragraphs separated by an empty line (blank ones do not count), and the n-th begins with the word, in any case."""
    parts = [part.strip() for part in text.split("\n\n") if not is_blank(part)]
    if len(parts) != num_paragraphs:
        return _exactly(len(parts), num_paragraphs, "paragraphs")
    start = parts[nth_paragraph - 1].lstrip("\"'“‘").lower()
    word = first_word.lower()
    holds = start.startswith(word) and not re.match(r"[\w-]", start[len(word) :])
    return Finding(holds, f"paragraph {nth_paragraph} {'begins' if holds else 'does not begin'} with {first_word!r}")


def placeholders(text: str, num_placeholders: int) -> Finding:
    """At least so many `[...]` with something in them, each on one line."""
    found = sum(not is_blank(inside) for inside in re.findall(r"\[([^\[\]\n]+)\]", text))
    return compare(found, "at least", num_placeholders, "placeholders in square brackets")


def postscript(text: str, postscript_marker: str) -> Finding:
    """The marker occurs as a word of its own, in any case; white space may follow each of its dots ("P. S.")."""
    pattern = re.escape(postscript_marker).replace(r"\.", r"\.\s?").removesuffix(r"\s?")
    found = re.search(rf"(?<!\w){pattern}{_word_end(postscript_marker)}", text, re.IGNORECASE)
    return Finding(found is not None, f"{'a' if found else 'no'} postscript starting with {postscript_marker!r}")


def bullets(text: str, num_bullets: int) -> Finding:
    """Exactly so many lines that begin with `*` or `-` and go on with text."""
    return _exactly(sum(map(_is_bullet, text.split("\n"))), num_bullets, "bullet points")


def _is_bullet(line: str) -> bool:
    """Not a rule (`***`, `- - -`), bold or emphasised text (`*so*`), or a dash of several hyphens; a space need not follow the marker."""
    line = line.strip()
    marker, rest = line[:1], line[1:]
    if marker not in ("*", "-") or rest.startswith(marker) or is_blank(rest.strip("*- \t")):
        return False
    return marker == "-" or rest[0].isspace() or "*" not in rest


def constrained_response(text: str) -> Finding:
    """One of "My answer is yes.", "My answer is no." and "My answer is maybe." occurs, and no other of them."""
    found = [option for option in _OPTIONS if option in text]
    return Finding(len(found) == 1, f"options given: {', '.join(map(repr, found)) or 'none'}, wanted one")


def highlights(text: str, num_highlights: int) -> Finding:
    """At least so many `*highlights*`, `**bold**` or `***both***`, each on one line and counted once."""
    return compare(sum(map(_highlights_in, text.split("\n"))), "at least", num_highlights, "highlighted sections")


def _highlights_in(line: str) -> int:
    """Pairs of runs of asterisks, equally long, with text between; the asterisk of a bullet point opens none."""
    pieces = re.split(r"(\*+)", re.sub(r"^\s*+\*\s", "", line))
    found, at = 0, 1
    while at + 2 < len(pieces):
        pair = pieces[at] == pieces[at + 2] and not is_blank(pieces[at + 1])
        found += pair
        at += 4 if pair else 2
    return found


def sections(text: str, section_spliter: str, num_sections: int) -> Finding:
    """At least so many section marks: the word, exactly so written, and a number."""
    marks = re.findall(rf"(?<![^\W_]){re.escape(section_spliter)}\s?\d+", text)
    return compare(len(marks), "at least", num_sections, f"sections marked {section_spliter!r} and a number")


def is_json(text: str) -> Finding:
    """The whole is one JSON value, alone or in a Markdown code block. NaN and Infinity are not JSON."""
    text = re.sub(r"^```(?:json)?", "", text.strip(), flags=re.IGNORECASE).removesuffix("```").strip()
    try:
        json.loads(text, parse_constant=_not_json, parse_int=str, parse_float=str)
    except ValueError as error:
        return Finding(False, f"not JSON: {error}")
    except RecursionError:
        return Finding(False, "not JSON: nested too deeply")
    return Finding(True, "the whole is JSON")


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


def title(text: str) -> Finding:
    """A `<<title>>` that is not blank, on one line."""
    found = any(map(_has_title, text.split("\n")))
    return Finding(found, f"{'a' if found else 'no'} title in double angular brackets")


def _has_title(line: str) -> bool:
    start, stop = line.find("<<"), line.rfind(">>")
    return 0 <= start < stop and not is_blank(line[start:stop].lstrip("<").rstrip(">"))


def two_responses(text: str) -> Finding:
    """Two texts that differ in what shows, separated by `******`; only a piece before or after them may be blank."""
    pieces = _trimmed(text.split("******"))
    if len(pieces) != 2 or not all(pieces):
        return Finding(False, f"{sum(map(bool, pieces))} responses separated by ******, wanted 2")
    differ = VISIBLE.findall(pieces[0]) != VISIBLE.findall(pieces[1])
    return Finding(differ, f"two responses, {'different' if differ else 'but the same'}")


def repeats_prompt(text: str, prompt_to_repeat: str) -> Finding:
    """The text begins with the prompt, in any case."""
    holds = text.strip().lower().startswith(prompt_to_repeat.lower())
    return Finding(holds, f"the text {'begins' if holds else 'does not begin'} with the prompt")


def ends_with(text: str, end_phrase: str) -> Finding:
    """The text ends with the phrase, in any case; quotation marks around the text do not matter."""
    text, phrase = text.strip().lower(), end_phrase.lower()
    holds = text.endswith(phrase) or text.strip('"').endswith(phrase)
    return Finding(holds, f"the text {'ends' if holds else 'does not end'} with {end_phrase!r}")


def quotation(text: str) -> Finding:
    """The text begins and ends with a double quotation mark, and something stands between them."""
    text = text.strip()
    holds = text[:1] == text[-1:] == '"' and not is_blank(text[1:-1])
    return Finding(holds, f"{'' if holds else 'not '}wrapped in double quotation marks")


def no_comma(text: str) -> Finding:
    """No comma: Western, Arabic, full-width or ideographic."""
    found = len(_COMMAS.findall(text))
    return Finding(not found, f"{found} comma{'s' * (found > 1)}" if found else "no comma")


def _trimmed(pieces: list[str]) -> list[str]:
    """The pieces without white space around them; a blank first or last one is left out."""
    stripped = ["" if is_blank(piece) else piece.strip() for piece in pieces]
    return stripped[not stripped[0] : len(stripped) - (len(stripped) > 1 and not stripped[-1])]


def _exactly(found: int, wanted: int, things: str) -> Finding:
    return Finding(found == wanted, f"{found} {things}, wanted {wanted}")


def _word_end(word: str) -> str:
    """A pattern for "no longer word": only a word that ends in a letter or digit can go on."""
    return r"(?!\w)" if word[-1].isalnum() else ""
