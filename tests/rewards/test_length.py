"""Length terms: the published curves, where tokens come from, and what a cosine reward does with the term it rests on."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.errors import ConfigError, LoadError, MissingInput


def scores(term: R.Term, *lengths: int) -> list[float | None]:
    return [v.score for v in term.verdicts([Rollout("", num_tokens=n) for n in lengths])]


def test_the_soft_punishment_has_the_papers_values() -> None:
    term = R.soft_overlong(max_tokens=20480, cache=4096)
    assert scores(term, 0, 16384, 16385, 18432, 20480, 20481, 10**6) == [0.0, 0.0, -1 / 4096, -0.5, -1.0, -1.0, -1.0]


def test_the_lambda_form_goes_on_beyond_the_limit() -> None:
    term = R.length_penalty(safe_tokens=80, max_tokens=100, scale=0.5)
    assert scores(term, 0, 80, 81, 90, 99, 100, 101, 150) == pytest.approx([0, 0, -0.025, -0.25, -0.475, -0.5, -0.525, -1.75], abs=1e-12)


@given(st.integers(1, 500), st.integers(0, 500), st.floats(0, 10), st.integers(0, 1200))
def test_both_forms_agree_up_to_the_limit(longest: int, cache: int, scale: float, n: int) -> None:
    cache = min(cache, longest)
    soft = scores(R.soft_overlong(max_tokens=longest, cache=cache, scale=scale), n)[0]
    assert soft is not None
    assert -scale <= soft <= 0
    if cache and n <= longest:
        line = scores(R.length_penalty(safe_tokens=longest - cache, max_tokens=longest, scale=scale), n)[0]
        assert soft == pytest.approx(line)


def test_the_soft_punishment_never_rises_with_length() -> None:
    values = scores(R.soft_overlong(max_tokens=40, cache=13), *range(60))
    assert all(a is not None and b is not None and a >= b for a, b in pairwise(values))


def test_no_buffer_is_a_hard_limit() -> None:
    assert scores(R.soft_overlong(max_tokens=10, cache=0), 10, 11) == [0.0, -1.0]


def test_a_penalty_says_by_how_much() -> None:
    verdict = R.soft_overlong(max_tokens=100, cache=20).verdicts([Rollout("", num_tokens=90)])[0]
    assert (verdict.reason, verdict.detail) == ("overlong", "90 tokens, 10 more than 80; the limit is 100")


# --- where tokens come from


class Counts:
    def encode(self, text: str) -> list[int]:
        return [1] * len(text)


class AddsSpecialTokens:
    def __call__(self, text: str) -> dict[str, Any]:  # as Hugging Face tokenizers: its length is the number of its keys
        return {"input_ids": [], "attention_mask": []}

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [0] * add_special_tokens + [1] * len(text)


class Encoding:
    def __init__(self, ids: list[int]) -> None:
        self.ids = ids


class Wraps:
    def encode(self, text: str) -> Encoding:
        return Encoding([1] * len(text))


class RefusesSpecialText:
    def encode(self, text: str) -> list[int]:
        raise ValueError(text)

    def encode_ordinary(self, text: str) -> list[int]:
        return [1] * len(text)


class RefusesSurrogates:
    def encode(self, text: str) -> list[int]:
        text.encode()
        return [1] * len(text)


TOKENIZERS = [Counts(), AddsSpecialTokens(), Wraps(), RefusesSpecialText(), RefusesSurrogates(), list]


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=lambda t: getattr(t, "__name__", type(t).__name__))
def test_any_kind_of_tokenizer_counts(tokenizer: Any) -> None:
    term = R.soft_overlong(max_tokens=4, cache=2, tokenizer=tokenizer)
    assert term.reads == frozenset()
    assert term([Rollout("ab"), Rollout("abc"), Rollout("a\ud800cd"), Rollout("")]) == [0.0, -0.5, -1.0, 0.0]


def test_what_calling_a_hugging_face_tokenizer_gives_counts_its_ids() -> None:
    def called(text: str) -> dict[str, list[int]]:
        return {"input_ids": [1] * len(text), "attention_mask": [1] * len(text)}

    assert R.soft_overlong(max_tokens=4, cache=2, tokenizer=called)([Rollout("ab"), Rollout("abc"), Rollout("abcd")]) == [0.0, -0.5, -1.0]


def test_a_tokenizer_may_be_an_import_string(tmp_path: Path) -> None:
    (tmp_path / "tok.py").write_text("def tokenizer(text):\n    return text.split()\n")
    term = R.soft_overlong(max_tokens=4, cache=2, tokenizer=f"{tmp_path}/tok.py:tokenizer")
    again = pickle.loads(pickle.dumps(term))
    assert (again, again([Rollout("a b c")])) == (term, [-0.5])
    assert term.fingerprint is not None


def test_a_tokenizer_that_breaks_is_an_error_on_its_row_alone() -> None:
    def broken(text: str) -> list[str]:
        if "!" in text:
            raise RuntimeError("no !")
        return text.split()

    verdicts = R.soft_overlong(max_tokens=4, cache=2, tokenizer=broken).verdicts([Rollout("a b c"), Rollout("!")])
    assert [v.status.value for v in verdicts] == ["scored", "error"]
    assert "no !" in verdicts[1].detail


@pytest.mark.parametrize(
    "term",
    [R.soft_overlong(max_tokens=4, cache=2), R.length_penalty(safe_tokens=1, max_tokens=4), R.cosine_length(on=R.exact(), max_tokens=4)],
)
def test_missing_counts_are_a_configuration_error(term: R.Term) -> None:
    assert "num_tokens" in term.reads
    with pytest.raises(MissingInput, match="tokenizer="):
        term([Rollout("4", answer="4", num_tokens=1), Rollout("4", answer="4")])


def test_missing_counts_are_an_error_outside_a_batch_too() -> None:
    with pytest.raises(MissingInput, match="rollout 1"):
        R.soft_overlong(max_tokens=4, cache=2).verdicts([Rollout("", num_tokens=1), Rollout("")])


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: R.soft_overlong(max_tokens=100, cache=101), "width of the buffer"),
        (lambda: R.soft_overlong(max_tokens=0, cache=0), "max_tokens"),
        (lambda: R.soft_overlong(max_tokens=10.0, cache=1), "max_tokens"),  # type: ignore[arg-type]
        (lambda: R.soft_overlong(max_tokens=10, cache=1, scale=-1), "size of the penalty"),
        (lambda: R.soft_overlong(max_tokens=10, cache=1, scale=float("nan")), "scale"),
        (lambda: R.length_penalty(safe_tokens=10, max_tokens=10), "safe_tokens"),
        (lambda: R.cosine_length(on=R.exact(), max_tokens=10, correct=(1.0,)), "correct"),  # type: ignore[arg-type]
        (lambda: R.cosine_length(on=R.exact(), max_tokens=10, wrong=-1.0), "wrong"),  # type: ignore[arg-type]
        (lambda: R.cosine_length(on=R.exact(), max_tokens=10, exceed=float("inf")), "exceed"),
        (lambda: R.cosine_length(on=1, max_tokens=10), "expected a reward"),  # type: ignore[arg-type]
        (lambda: R.soft_overlong(max_tokens=10, cache=1, tokenizer=7), "tokenizer"),  # type: ignore[arg-type]
    ],
)
def test_arguments_are_checked_when_built(build: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        build()


def test_the_name_of_a_model_is_no_tokenizer() -> None:
    with pytest.raises(LoadError, match=r"file\.py:object"):
        R.soft_overlong(max_tokens=10, cache=1, tokenizer="Qwen/Qwen3-0.6B")


# --- cosine


def cosine(rows: list[tuple[str, int]], **options: Any) -> list[float | None]:
    term = R.cosine_length(on=R.exact(), max_tokens=100, **options)
    return term([Rollout(text, answer="4", num_tokens=n) for text, n in rows])


def test_the_cosine_joins_the_papers_rewards() -> None:
    rows = [("4", 0), ("4", 50), ("5", 0), ("5", 50), ("4", 100), ("5", 100), ("4", 500)]
    assert cosine(rows) == pytest.approx([2.0, 1.5, -10.0, -5.0, -10.0, -10.0, -10.0])
    assert cosine([("4", 99), ("5", 99)]) == pytest.approx([1.0, 0.0], abs=3e-3)


def test_a_pair_of_rewards_may_be_a_list() -> None:
    listed = R.cosine_length(on=R.exact(), max_tokens=10, correct=[2.0, 1.0])  # type: ignore[arg-type]
    assert hash(listed) == hash(R.cosine_length(on=R.exact(), max_tokens=10))


def test_right_answers_lose_and_wrong_ones_gain_with_length() -> None:
    right, wrong = (cosine([(text, n) for n in range(100)], correct=(1.0, 0.5), wrong=(-1.0, -0.5)) for text in "45")
    assert right == sorted(right, key=lambda x: -(x or 0.0))
    assert wrong == sorted(wrong, key=lambda x: x or 0.0)
    assert min(x or 0.0 for x in right) > max(x or 0.0 for x in wrong)


def test_where_the_inner_term_abstains_so_does_the_cosine() -> None:
    term = R.cosine_length(on=R.exact(), max_tokens=100)
    verdicts = term.verdicts([Rollout("4", answer=[], num_tokens=5), Rollout("4", answer="4", num_tokens=5)])
    assert [v.status.value for v in verdicts] == ["bad_reference", "scored"]


def test_the_outcome_is_the_inner_terms() -> None:
    found = R.cosine_length(on=R.exact(), max_tokens=100).score(
        [Rollout("4", answer="4", num_tokens=100), Rollout("5", answer="4", num_tokens=1)]
    )
    assert found.outcome_N.tolist() == [1.0, 0.0]


def test_the_threshold_says_what_is_right() -> None:
    half = R.from_function(lambda r: 0.5, name="half", outcome=True)
    rows = [Rollout("", num_tokens=0)]
    assert R.cosine_length(on=half, max_tokens=10)(rows) == [-10.0]
    assert R.cosine_length(on=half, max_tokens=10, threshold=0.5)(rows) == [2.0]


def test_the_inner_term_runs_once_in_a_sum() -> None:
    seen: list[int] = []

    def judge(rollouts: list[Rollout]) -> list[float]:
        seen.append(len(rollouts))
        return [1.0] * len(rollouts)

    on = R.from_function(judge, batch=True, outcome=True, name="on")
    (0.0 * on + R.cosine_length(on=on, max_tokens=10))([Rollout("", num_tokens=1)] * 3)
    assert seen == [3]
