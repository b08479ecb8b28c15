"""The one table of IFEval's 25 constraints: for each id, its check and the arguments the check takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from guerdon.verifiers.instructions import layout, words
from guerdon.verifiers.instructions.arguments import count, letter, phrase, phrases, positive, relation
from guerdon.verifiers.instructions.finding import Finding
from guerdon.verifiers.instructions.language import language

__all__ = ["INSTRUCTIONS", "TABLE", "Instruction"]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One type of constraint: the check, and the reader of each of its arguments, by name. All arguments are required."""

    check: Callable[..., Finding]
    arguments: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    detects_language: bool = False


TABLE: Mapping[str, Instruction] = {
    "keywords:existence": Instruction(words.keywords_exist, {"keywords": phrases}),
    "keywords:frequency": Instruction(words.keyword_count, {"keyword": phrase, "frequency": positive, "relation": relation}),
    "keywords:forbidden_words": Instruction(words.forbidden_words, {"forbidden_words": phrases}),
    "keywords:letter_frequency": Instruction(words.letter_count, {"letter": letter, "let_frequency": positive, "let_relation": relation}),
    "language:response_language": Instruction(words.response_language, {"language": language}, detects_language=True),
    "length_constraints:number_sentences": Instruction(words.sentence_count, {"num_sentences": positive, "relation": relation}),
    "length_constraints:number_paragraphs": Instruction(layout.paragraphs, {"num_paragraphs": positive}),
    "length_constraints:number_words": Instruction(words.word_count, {"num_words": positive, "relation": relation}),
    "length_constraints:nth_paragraph_first_word": Instruction(
        layout.nth_paragraph, {"num_paragraphs": positive, "nth_paragraph": positive, "first_word": phrase}
    ),
    "detectable_content:number_placeholders": Instruction(layout.placeholders, {"num_placeholders": positive}),
    "detectable_content:postscript": Instruction(layout.postscript, {"postscript_marker": phrase}),
    "detectable_format:number_bullet_lists": Instruction(layout.bullets, {"num_bullets": count}),
    "detectable_format:constrained_response": Instruction(layout.constrained_response),
    "detectable_format:number_highlighted_sections": Instruction(layout.highlights, {"num_highlights": positive}),
    "detectable_format:multiple_sections": Instruction(layout.sections, {"section_spliter": phrase, "num_sections": positive}),
    "detectable_format:json_format": Instruction(layout.is_json),
    "detectable_format:title": Instruction(layout.title),
    "combination:two_responses": Instruction(layout.two_responses),
    "combination:repeat_prompt": Instruction(layout.repeats_prompt, {"prompt_to_repeat": phrase}),
    "startend:end_checker": Instruction(layout.ends_with, {"end_phrase": phrase}),
    "change_case:capital_word_frequency": Instruction(
        words.capital_word_count, {"capital_frequency": positive, "capital_relation": relation}
    ),
    "change_case:english_capital": Instruction(words.all_capitals, detects_language=True),
    "change_case:english_lowercase": Instruction(words.all_lowercase, detects_language=True),
    "punctuation:no_comma": Instruction(layout.no_comma),
    "startend:quotation": Instruction(layout.quotation),
}

INSTRUCTIONS: tuple[str, ...] = tuple(TABLE)
"""The ids of the constraints that can be checked."""
