"""Repetition within a completion: the share of n-grams that occurred before."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.errors import ConfigError


def score(text: str, **options: Any) -> float | None:
    return R.repetition(**options).verdicts([Rollout(text)])[0].score


@pytest.mark.parametrize(
    ("text", "ngram", "expected"),
    [
        ("a b c d", 2, 0.0),
        ("a a a a a", 2, -0.75),
        ("a b a b", 2, -1 / 3),
        ("a a a", 1, -2 / 3),
        ("A a", 1, -0.5),
        ("a b", 3, 0.0),
        ("", 1, 0.0),
    ],
)
def test_the_penalty_is_the_share_of_repeated_ngrams(text: str, ngram: int, expected: float) -> None:
    assert score(text, ngram=ngram) == pytest.approx(expected)


@given(st.lists(st.sampled_from("abcd"), max_size=30), st.integers(1, 4), st.floats(0, 3))
def test_the_penalty_stays_within_its_size(words: list[str], ngram: int, size: float) -> None:
    found = score(" ".join(words), ngram=ngram, max_penalty=size)
    assert found is not None
    assert -size <= found <= 0


def test_tokens_see_what_words_do_not() -> None:
    assert score("重复重复重复", ngram=2) == 0.0
    assert score("重复重复重复", ngram=2, tokenizer=list) == pytest.approx(-0.6)


def test_a_penalty_says_how_much_is_repeated() -> None:
    verdict = R.repetition(ngram=1).verdicts([Rollout("a a b")])[0]
    assert (verdict.reason, verdict.detail) == ("repeated", "1 of 3 1-grams occurred before")


@pytest.mark.parametrize(
    ("options", "match"), [({"ngram": 0}, "ngram"), ({"ngram": 2.0}, "ngram"), ({"max_penalty": -1.0}, "its negative")]
)
def test_arguments_are_checked_when_built(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        R.repetition(**options)


def test_a_megabyte_is_no_trouble() -> None:
    start = time.process_time()
    assert score("ab " * 330_000) == pytest.approx(-1.0, abs=1e-4)
    assert time.process_time() - start < 5.0
