"""Sentences and words: where a sentence ends, and what a word is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.verifiers.instructions import split_sentences
from guerdon.verifiers.instructions.text import capital_words, count_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  \n ... !!", []),
        ("no stop at all", ["no stop at all"]),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("all lower case. still two.", ["all lower case.", "still two."]),
        ("What?! No... Yes.", ["What?!", "No...", "Yes."]),
        ("He left... and came back.", ["He left... and came back."]),
        ("Wait… Then go… now.", ["Wait…", "Then go… now."]),
        ("Dr. Smith met Mrs. Jones at 5 p.m. on Main St. in St. Louis.", ["Dr. Smith met Mrs. Jones at 5 p.m. on Main St. in St. Louis."]),
        ("He came at 5 p.m. Then he left.", ["He came at 5 p.m.", "Then he left."]),
        ("She moved to the U.S. It was cold.", ["She moved to the U.S.", "It was cold."]),
        ("The U.S. Army, e.g. Company B. of Smith Inc. in Ohio.", ["The U.S. Army, e.g. Company B. of Smith Inc. in Ohio."]),
        ("J. R. R. Tolkien and George P. Smith. They wrote.", ["J. R. R. Tolkien and George P. Smith.", "They wrote."]),
        ("See no. 5 and Fig. 3. I said no. Nobody heard.", ["See no. 5 and Fig. 3.", "I said no.", "Nobody heard."]),
        ("Pi is 3.14. See example.com/a.b for v2.0.1. Done.", ["Pi is 3.14.", "See example.com/a.b for v2.0.1.", "Done."]),
        ("It was 1998. It rained.", ["It was 1998.", "It rained."]),
        ('He said "Stop." Then (really?) he went.', ['He said "Stop."', "Then (really?) he went."]),
        ('"Why?" he asked. "Because!" "I see."', ['"Why?" he asked.', '"Because!"', '"I see."']),
        ("**Bold claim.** Next one.", ["**Bold claim.**", "Next one."]),
        ("1. First item.\n2. Second item.\n- a. Third", ["1. First item.", "2. Second item.", "- a. Third"]),
        ("## 1. Head\n  10) ten\n\n* 3. Bold etc.\n4. End.", ["## 1. Head\n  10) ten\n\n* 3. Bold etc.", "4. End."]),
        ("A line\nbreak is no end. Two", ["A line\nbreak is no end.", "Two"]),
        ("Great job! 🎉 :) Next! 🎉", ["Great job!", "🎉 :) Next! 🎉"]),
        ("今日は晴れ。明日は？「雨！」そう。", ["今日は晴れ。", "明日は？", "「雨！」", "そう。"]),
        ("वह आया। वह गया।", ["वह आया।", "वह गया।"]),
    ],
)
def test_sentences_end_where_a_reader_would_end_them(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


@given(st.text(alphabet="aB1 .?!…\"')*\n。।", max_size=60))
def test_sentences_lose_only_the_space_between_them(text: str) -> None:
    kept = "".join("".join(split_sentences(text)).split())
    whole = "".join(text.split())
    assert whole.endswith(kept)
    assert not any(map(str.isalnum, whole.removesuffix(kept)))


@given(st.lists(st.sampled_from(["The cat sat.", "Why not?", "Go on!", "It cost 3.50 dollars.", "Mr. Fox ran."]), max_size=8))
def test_plain_sentences_are_found_again(sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences)) == sentences
    assert split_sentences("\n\n".join(sentences)) == sentences


@pytest.mark.parametrize(
    ("text", "words"),
    [("", 0), ("word1, word2, word3, word4.", 4), ("Hyphenated-word isn't one.", 5), ("snake_case", 1), ("भारत हिंदी", 2), ("- … !", 0)],
)
def test_words_are_runs_of_word_characters(text: str, words: int) -> None:
    assert count_words(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("I am A man", 2),
        ("NASA's CO-OP", 2),
        ("DON'T I'M I’m", 3),
        ("O'Brien McDonald iOS", 0),
        ("U.S. A1 B2B 99", 3),
        ("**LOUD** _LOUD_", 2),
    ],
)
def test_capital_words_have_no_small_letter(text: str, words: int) -> None:
    assert capital_words(text) == words
