"""Verifiable instructions: the 25 constraint types of IFEval (Zhou et al. 2023, arXiv 2311.07911), written anew.

Checks what a program can check of a text: its words, parts, format, case and language. It does not judge whether the text is
any good. The meaning is that of the published implementation (google-research/instruction_following_eval), with these deviations:

- any. Published: a missing or odd argument is drawn at random. Here: BAD_REFERENCE. Published: only white space is blank. Here: so
  are characters that do not show.
- existence, frequency, forbidden_words, multiple_sections. Published: each text is a regular expression: "C++" finds any C, "("
  crashes. Here: plain text; a forbidden word or section mark is a word of its own.
- letter_frequency. Published: "#" and "!", both in its own data, become a random letter. Here: any character is counted.
- response_language. Published: text without a detectable language passes; langdetect draws lots. Here: a text without letters
  fails; the same text always gets the same answer.
- english_capital, english_lowercase. Published: langdetect, often wrong on capitals and short texts. Here: English unless the
  text is clearly in another language.
- number_sentences. Published: Punkt: numbers of list items and detached quotation marks are sentences. Here: rules (`.text`):
  they are not; full-width and Indic stops end sentences.
- number_words. Published: combining marks split words or not, by the version of NLTK. Here: they do not.
- nth_paragraph_first_word. Published: counts paragraphs without the blank ones, then picks among all; "word:" fails. Here:
  blank ones count neither way; any sign may follow the word.
- number_placeholders. Published: "[]" is a placeholder. Here: a placeholder holds something.
- postscript. Published: also inside a word ("clip.s."); markers other than P.S. and P.P.S are regular expressions. Here: a word
  of its own, plain text.
- number_bullet_lists. Published: "---", "--", an empty bullet and a line that begins with `*emphasis*` count. Here: none of
  these counts.
- constrained_response. Published: at least one of the options occurs. Here: exactly one of them occurs.
- number_highlighted_sections. Published: "* **bold**" counts two or three times, "***both***" twice. Here: once each.
- json_format. Published: NaN passes, deep nesting crashes. Here: neither is JSON.
- end_checker. Published: a phrase that ends in a quotation mark never matches. Here: it can match.
- capital_word_frequency. Published: NLTK's tokens: "DON'T" is two. Here: one: `.text.capital_words` says what a word is.
- quotation. Published: two marks with nothing between them pass. Here: something stands between them.
- two_responses. Published: white space within or an invisible character makes two texts different. Here: it does not.
- no_comma. Published: only ",". Here: also "，", "、" and "،".

A repeated instruction id counts each time it occurs. The three constraints that ask for a language need the extra `ifeval` and
raise MissingExtra without it: a verdict must not depend on what happens to be installed.
"""

from __future__ import annotations

from guerdon.verifiers.instructions.table import INSTRUCTIONS
from guerdon.verifiers.instructions.text import split_sentences
from guerdon.verifiers.instructions.verifier import InstructionsVerifier

__all__ = ["INSTRUCTIONS", "InstructionsVerifier", "split_sentences"]
