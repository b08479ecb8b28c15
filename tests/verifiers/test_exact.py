"""Exact means equal, after NFC and with white space made one: never contained, never close."""

from __future__ import annotations

import time
import unicodedata
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon import Rollout, Verdict
from guerdon.errors import ConfigError
from guerdon.testing import check_verifier
from guerdon.verifiers.exact import ExactVerifier, final_text


def verdict(completion: str, answer: Any, **options: Any) -> Verdict:
    return ExactVerifier(**options).judge([Rollout(completion, answer=answer)])[0]


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("Paris", "Paris"),
        ("  Paris\n", "Paris"),
        ("New \n York", "New York"),
        ("New York", " New\tYork "),
        ("<answer> Paris </answer>", "Paris"),
        ("<think>Rome?</think>Paris", "Paris"),
        ("<think>Rome?</think>\n<answer>Paris</answer> is it.", "Paris"),
        ("<answer>Rome</answer><answer>Paris</answer>", "Paris"),
        ("<answer>Paris", "Paris"),
        ("Cafe\u0301", "Caf\u00e9"),
        ("4", 4),
        ("0.5", 0.5),
        ("True", True),
        ("b", {"any_of": ["a", "b"]}),
        ("b", {"any_of": np.array(["a", "b"])}),
    ],
)
def test_equal_text_is_correct(completion: str, answer: Any) -> None:
    assert verdict(completion, answer).status == "correct"


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("Pari", "Paris"),
        ("Paris is it", "Paris"),
        ("a", "African Wild Dog"),
        ("African Wild Dog or Cat", "African Wild Dog"),
        ("<answer>Rome</answer> No: Paris", "Paris"),
        ("paris", "Paris"),
        ("0042", "42"),
        ("42.0", 42),
        ("true", True),
        ("c", {"any_of": ["a", "b"]}),
        ("Par\u200bis", "Paris"),
    ],
)
def test_anything_else_is_incorrect(completion: str, answer: Any) -> None:
    assert (verdict(completion, answer).status, verdict(completion, answer).reason) == ("incorrect", "mismatch")


@pytest.mark.parametrize("completion", ["", " \n", "<answer></answer>", "<answer> \n</answer>", "<think>African Wild Dog</think>"])
def test_an_empty_answer_is_no_answer_and_earns_nothing(completion: str) -> None:
    found = verdict(completion, "African Wild Dog")
    assert (found.status, found.score) == ("no_answer", 0.0)


@pytest.mark.parametrize("answer", [None, "", " \t", {"any_of": []}, ["Paris"], {"a": 1}, b"Paris", float("nan")], ids=str)
@pytest.mark.parametrize("completion", ["", "Paris", "nan"])
def test_a_reference_that_is_no_text_is_bad(completion: str, answer: Any) -> None:
    assert verdict(completion, answer).status == "bad_reference"


@given(st.text(max_size=20), st.text(max_size=20))
def test_only_the_whole_reference_is_correct(answer: str, other: str) -> None:
    wanted, found = (" ".join(unicodedata.normalize("NFC", " ".join(text.split())).split()) for text in (answer, other))
    if wanted and "<" not in other:
        assert (verdict(other, answer).score == 1.0) == (wanted == found)


@given(st.text(max_size=30))
def test_case_and_form_are_folded_together(text: str) -> None:
    for form in ("NFC", "NFD"):
        other = unicodedata.normalize(form, text).casefold()
        if text.strip() and "<" not in text:
            assert verdict(other, text, ignore_case=True).status == "correct"


def test_an_extracted_answer_is_reported() -> None:
    assert verdict("so <answer> Rome  it is </answer>", "Paris").extracted == "Rome it is"


def test_another_column_can_hold_the_reference() -> None:
    verifier = ExactVerifier(column="city")
    assert verifier.reads == {"city"}
    assert verifier.judge([Rollout("Paris", answer="Rome", columns={"city": "Paris"})])[0].status == "correct"


def test_final_text_keeps_to_the_last_span() -> None:
    assert final_text("<think><answer>a</answer></think>b<answer>c</answer>d") == "c"


def test_the_column_is_checked_when_built() -> None:
    with pytest.raises(ConfigError, match="column"):
        ExactVerifier(column="")


def test_the_contract_holds() -> None:
    rows = [Rollout("Paris", answer="Paris"), Rollout("Rome", answer="Paris"), Rollout("", answer="Paris"), Rollout("x", answer=[])]
    check_verifier(ExactVerifier(ignore_case=True), rows)


@pytest.mark.parametrize("answer", ["Caf\u00e9", "\u00e9" * 20_000])
def test_runs_of_combining_marks_cost_nothing(answer: str) -> None:
    start = time.process_time()
    for marks in ("\u0300" * 500_000, "e" + "\u0327\u0301" * 10_000, "\u0301" * len(answer)):
        assert verdict(marks, answer).status == "incorrect"
    assert time.process_time() - start < 2.0  # NFC of the first takes minutes
