"""Group terms: each rollout gets a value of its own, whatever the order of its siblings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.errors import ConfigError


def group(*texts: str, prompt: str = "p", answer: Any = None) -> list[Rollout]:
    return [Rollout(text, prompt=prompt, answer=answer) for text in texts]


TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=4).map(" ".join), min_size=1, max_size=7)
SYMMETRIC = [R.distinct(), R.distinct(ngram=1), R.duplicate_penalty(), R.duplicate_penalty(0.5, on=R.exact())]


@pytest.mark.parametrize("term", SYMMETRIC, ids=repr)
@given(TEXTS, st.randoms(use_true_random=False))
def test_permuting_the_group_permutes_the_scores(term: R.Term, texts: list[str], random: Any) -> None:
    rows = group(*texts, answer="a")
    order = list(range(len(rows)))
    random.shuffle(order)
    found = term.verdicts(rows)
    assert term.verdicts([rows[i] for i in order]) == [found[i] for i in order]


@pytest.mark.parametrize("term", [*SYMMETRIC, R.duplicate_penalty(keep_first=True)], ids=repr)
@given(TEXTS, TEXTS)
def test_other_groups_change_nothing(term: R.Term, texts: list[str], others: list[str]) -> None:
    rows = group(*texts, answer="a")
    mixed = rows + group(*others, prompt="q", answer="b")
    assert term.verdicts(mixed)[: len(rows)] == term.verdicts(rows)


def test_novelty_is_the_share_of_ngrams_no_sibling_has() -> None:
    rows = group("a b c d", "a b x y", "A  B")
    assert [v.score for v in R.distinct().verdicts(rows)] == pytest.approx([2 / 3, 2 / 3, 0.0])
    assert R.distinct().verdicts(rows)[0].detail == "2 of 3 2-grams are in no sibling"


def test_repeating_itself_makes_nothing_newer() -> None:
    once, often = R.distinct(ngram=1).verdicts(group("a x", "a b")), R.distinct(ngram=1).verdicts(group("a x x x x", "a b"))
    assert once[0].score == often[0].score == 0.5


@pytest.mark.parametrize(("texts", "expected"), [(["4", "5"], [1.0, 1.0]), (["4", "4"], [0.0, 0.0]), (["", "a b"], [0.0, 1.0])])
def test_texts_shorter_than_an_ngram_are_one(texts: list[str], expected: list[float]) -> None:
    assert R.distinct(ngram=3)(group(*texts)) == expected


def test_a_rollout_without_siblings_is_not_concerned() -> None:
    found = R.distinct().verdicts(group("a b") + group("a b", "a c", prompt="q"))
    assert [v.status.value for v in found] == ["not_applicable", "scored", "scored"]


def test_novelty_can_be_of_tokens() -> None:
    assert R.distinct(ngram=1, tokenizer=list)(group("ab", "bc")) == [0.5, 0.5]


def test_every_copy_pays() -> None:
    assert R.duplicate_penalty(0.5)(group("a b", " a\nb", "c", "a  b")) == [-0.5, -0.5, 0.0, -0.5]


def test_the_first_copy_can_go_free() -> None:
    assert R.duplicate_penalty(keep_first=True)(group("a", "b", "a", "a")) == [0.0, 0.0, -1.0, -1.0]


def test_answers_can_be_compared_instead_of_texts() -> None:
    term = R.duplicate_penalty(on=R.exact())
    rows = group("<think>x</think>4", "<think>y</think>4", "5", "", "", answer="4")
    assert term(rows) == [-1.0, -1.0, 0.0, 0.0, 0.0]


def test_where_the_inner_term_abstains_so_does_the_penalty() -> None:
    rows = [*group("4", "4", answer="4"), Rollout("4", prompt="p", answer=[])]
    assert [v.status.value for v in R.duplicate_penalty(on=R.exact()).verdicts(rows)] == ["scored", "scored", "bad_reference"]


def test_a_duplicate_says_so() -> None:
    verdict = R.duplicate_penalty().verdicts(group("a", "a"))[0]
    assert (verdict.reason, verdict.detail) == ("duplicate", "2 rollouts of the group say the same")


@pytest.mark.parametrize("term", [R.distinct(), R.duplicate_penalty(), 0.5 * R.duplicate_penalty(on=R.exact())])
def test_the_group_is_declared(term: R.Term) -> None:
    assert "group" in term.reads


def test_the_penalty_is_no_outcome() -> None:
    assert R.duplicate_penalty(on=R.exact()).outcome_term() is None


def test_an_explicit_group_parts_equal_prompts() -> None:
    rows = [Rollout("a", prompt="p", group=g) for g in (1, 1, 2)]
    assert R.duplicate_penalty()(rows) == [-1.0, -1.0, 0.0]


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: R.distinct(ngram=0), "ngram"),
        (lambda: R.duplicate_penalty(-1.0), "its negative"),
        (lambda: R.duplicate_penalty(keep_first=1), "keep_first"),  # type: ignore[arg-type]
        (lambda: R.duplicate_penalty(on="exact"), "expected a reward"),  # type: ignore[arg-type]
    ],
)
def test_arguments_are_checked_when_built(build: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        build()
