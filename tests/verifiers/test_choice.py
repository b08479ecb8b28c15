"""One letter is read from a completion, from where it can be nothing else; two different letters never earn."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon import Rollout
from guerdon.errors import ConfigError
from guerdon.testing import check_verifier
from guerdon.verifiers.boxes import boxes
from guerdon.verifiers.choice import LETTERS, ChoiceVerifier, named_letters

HERE = Path(__file__).parent


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


def status(completion: str, answer: Any, verifier: ChoiceVerifier | None = None, **columns: Any) -> str:
    return (verifier or ChoiceVerifier()).judge([Rollout(completion, answer=answer, columns=columns)])[0].status.value


CASES = read("choice_cases.jsonl")


@pytest.mark.parametrize("case", CASES, ids=[f"{c['kind']}: {c['completion'][:40]!r} for {c['answer']}" for c in CASES])
def test_each_case_has_its_status(case: dict[str, Any]) -> None:
    columns = {"choices": case["choices"]} if "choices" in case else {}
    assert status(case["completion"], case["answer"], **columns) == case["expect"]


def test_real_completions_agree_with_their_labels() -> None:
    rows = read("choice_rollouts.jsonl")
    verdicts = ChoiceVerifier().judge([Rollout(row["completion"], answer=row["answer"]) for row in rows])
    differ = [(row["completion"][-40:], v.status.value) for row, v in zip(rows, verdicts, strict=True) if (v.score == 1.0) != row["label"]]
    # Both give the option's text, which only a `choices` column could tell.
    assert [(text.rpartition("<answer>")[2], found) for text, found in differ] == [
        (" \\boxed{4^x}", "no_answer"),
        (" \\boxed{10656}", "no_answer"),
    ]


WORDS = "A,B,(C),a,D.,A) x,I,Paris,or,and,/,not,if,because,is correct,both,?,**,$,the answer is,answer:,option,答案,选"
MARKS = ["\n", ",", "\\boxed{A}", "\\boxed{", "}", "\\text{B}", "<answer>", "</answer>", "<think>", "</think>"]
PIECES = st.sampled_from([*WORDS.split(","), *MARKS])


@given(st.lists(PIECES, max_size=12), st.sampled_from(["", " "]))
def test_no_completion_is_right_for_two_letters(pieces: list[str], glue: str) -> None:
    rows = [Rollout(glue.join(pieces), answer=letter, columns={"choices": ["Paris", "x"]}) for letter in LETTERS]
    assert sum(verdict.score == 1.0 for verdict in ChoiceVerifier().judge(rows)) <= 1


@given(st.text(max_size=80))
def test_reasoning_names_nothing(thought: str) -> None:
    assert named_letters(f"<think>{thought} The answer is A.</think>The answer is B.") == {"B"}


@pytest.mark.parametrize(
    ("reference", "first", "letter"), [(0, 0, "A"), ("3", 0, "D"), (1, 1, "A"), (10, 1, "J")], ids=["0", "text", "1-based", "last"]
)
def test_an_index_is_a_letter_where_it_is_asked_for(reference: Any, first: Any, letter: str) -> None:
    assert status(letter, reference, ChoiceVerifier(index_from=first)) == "correct"


@pytest.mark.parametrize("reference", [10, -1, 1.0, "²", True], ids=str)
def test_what_is_no_index_of_a_letter_is_a_bad_reference(reference: Any) -> None:
    assert status("A", reference, ChoiceVerifier(index_from=0)) == "bad_reference"


def test_an_index_beyond_the_choices_is_a_bad_reference() -> None:
    assert status("C", 2, ChoiceVerifier(index_from=0), choices=["x", "y"]) == "bad_reference"


@pytest.mark.parametrize("choices", ["Paris", {"text": ["Paris"]}, [1, 2], None, 7], ids=str)
def test_choices_that_are_no_list_of_texts_are_left_aside(choices: Any) -> None:
    assert status("A", "A", choices=choices) == "correct"


def test_the_detail_says_how_to_mend_an_index() -> None:
    assert "index_from" in ChoiceVerifier().judge([Rollout("A", answer=0)])[0].detail


@pytest.mark.parametrize("fields", [{"column": ""}, {"choices": 3}, {"index_from": 2}], ids=str)
def test_arguments_are_checked_when_built(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(fields))):
        ChoiceVerifier(**fields)


def test_the_contract_holds() -> None:
    check_verifier(
        ChoiceVerifier(), [Rollout("A", answer="A"), Rollout("B or C", answer="B"), Rollout("?", answer="D"), Rollout("A", answer=0)]
    )


@pytest.mark.parametrize(
    "piece",
    [
        "answer is ",
        "A, ",
        "(A) ",
        "\\boxed{",
        "\\boxed{A}",
        "选",
        "A\n",
        "A. x\n",
        " ",
        "<answer>",
        "the answer is A. ",
        "if not a ",
        "\\text{",
    ],
)
@pytest.mark.slow
def test_time_is_linear_in_hostile_text(piece: str) -> None:
    start = time.process_time()
    ChoiceVerifier().judge(
        [Rollout(head + piece * (100_000 // len(piece)), answer="A", columns={"choices": ["x"]}) for head in ("", "answer: ")]
    )
    assert time.process_time() - start < 5.0  # 0.6 s at most on a slow core; quadratic forms took from 30 s


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\\boxed{\\frac{1}{2}} \\fbox{x}", ["\\frac{1}{2}", "x"]),
        ("\\boxed{\\{1\\}}", ["\\{1\\}"]),
        ("\\boxed {a}", ["a"]),
        ("\\boxed{1 \\boxed{2}", [None, "2"]),
        ("} \\boxed{a}}", ["a"]),
        ("{ \\boxed{a}", ["a"]),
        ("\\boxed{\\boxed{a}}", ["\\boxed{a}"]),
        ("\\boxed 5, \\boxedx{5}", []),
    ],
)
def test_boxes_are_found_with_their_braces_balanced(text: str, found: list[str | None]) -> None:
    assert boxes(text) == found


def test_nested_boxes_take_linear_space() -> None:
    assert sum(len(content or "") for content in boxes("\\boxed{" * 20_000 + "}" * 20_000)) < 200_000
