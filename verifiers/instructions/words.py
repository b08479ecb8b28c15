"""IFEval's constraints on words, letters, case and language. Each is a pure function of the text and its checked arguments."""

from __future__ import annotations

import re

from guerdon.verifiers.instructions.finding import Finding, Relation, compare
from guerdon.verifiers.instructions.language import is_english, is_language
from guerdon.verifiers.instructions.text import capital_words, count_words, split_sentences

__all__ = [
    "all_capitals",
    "all_lowercase",
    "capital_word_count",
    "forbidden_words",
    "keyword_count",
    "keywords_exist",
    "letter_count",
    "response_language",
    "sentence_count",
    "word_count",
]


def keywords_exist(text: str, keywords: tuple[str, ...]) -> Finding:
    """Every keyword occurs, in any case, also inside a longer word."""
    lowered = text.lower()
    missing = [keyword for keyword in keywords if keyword.lower() not in lowered]
    return Finding(not missing, f"keywords missing: {', '.join(missing)}" if missing else "every keyword occurs")


def keyword_count(text: str, keyword: str, frequency: int, relation: Relation) -> Finding:
    """How often the keyword occurs, in any case, also inside longer words, without overlaps."""
    return compare(text.lower().count(keyword.lower()), relation, frequency, f"occurrences of {keyword!r}")


def forbidden_words(text: str, forbidden_words: tuple[str, ...]) -> Finding:
    """None of the words occurs as a word of its own, in any case."""
    found = [word for word in forbidden_words if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)]
    return Finding(not found, f"forbidden words: {', '.join(found)}" if found else "no forbidden word")


def letter_count(text: str, letter: str, let_frequency: int, let_relation: Relation) -> Finding:
    """How often the letter (or other character) occurs, in either case."""
    return compare(text.lower().count(letter.lower()), let_relation, let_frequency, f"occurrences of {letter!r}")


def sentence_count(text: str, num_sentences: int, relation: Relation) -> Finding:
    """How many sentences there are."""
    return compare(len(split_sentences(text)), relation, num_sentences, "sentences")


def word_count(text: str, num_words: int, relation: Relation) -> Finding:
    """How many words there are."""
    return compare(count_words(text), relation, num_words, "words")


def capital_word_count(text: str, capital_frequency: int, capital_relation: Relation) -> Finding:
    """How many words are written in capitals only; "I" and "A" are such words."""
    return compare(capital_words(text), capital_relation, capital_frequency, "words in capitals")


def response_language(text: str, language: str) -> Finding:
    """The text as a whole is in the language."""
    holds = is_language(text, language)
    return Finding(holds, f"the text is {'' if holds else 'not '}in the language {language!r}")


def all_capitals(text: str) -> Finding:
    """English, with no lower-case letter and at least one capital."""
    return _cased_english(text, text.isupper(), "capitals")


def all_lowercase(text: str) -> Finding:
    """English, with no capital and at least one lower-case letter."""
    return _cased_english(text, text.islower(), "lower case")


def _cased_english(text: str, cased: bool, case: str) -> Finding:
    if not cased:
        return Finding(False, f"not all letters are in {case}")
    return Finding(True, f"English in {case}") if is_english(text) else Finding(False, f"in {case}, but not in English")
