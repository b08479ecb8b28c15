"""References: the shapes that are read, and the broken ones, which are never dropped and never passed."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

from guerdon.types import Rollout, Status, Verdict
from guerdon.verifiers.instructions import InstructionsVerifier

NO_COMMA = "punctuation:no_comma"
BULLETS = "detectable_format:number_bullet_lists"
WORDS = "length_constraints:number_words"
IFEVAL = {"instruction_id_list": [NO_COMMA, BULLETS], "kwargs": [{}, {"num_bullets": 1}]}
GOOD, HALF = "* one", "* one, two"


def judge(completion: str, answer: Any, **columns: Any) -> Verdict:
    (verdict,) = InstructionsVerifier(score="fraction").judge([Rollout(completion, answer=answer, columns=columns)])
    return verdict


@pytest.mark.parametrize(
    "reference",
    [
        IFEVAL,
        {**IFEVAL, "key": 1000, "prompt": "Write."},
        {"instruction_id_list": [NO_COMMA, BULLETS], "kwargs": [None, {"num_bullets": 1, "num_words": None, "relation": None}]},
        {"instruction_id_list": (NO_COMMA, BULLETS), "kwargs": ({}, {"num_bullets": 1.0, "num_words": float("nan")})},
        {"instruction_id_list": np.array([NO_COMMA, BULLETS]), "kwargs": np.array([{}, {"num_bullets": np.int64(1)}])},
        {"instruction_id_list": json.dumps([NO_COMMA, BULLETS]), "kwargs": json.dumps(IFEVAL["kwargs"])},
        {"instruction_id_list": [NO_COMMA, BULLETS], "kwargs": ["{}", '{"num_bullets": 1}']},
        [{"instruction_id": NO_COMMA}, {"instruction_id": BULLETS, "num_bullets": 1}],
        [{"id": NO_COMMA}, {"id": BULLETS, "kwargs": {"num_bullets": 1}}],
        json.dumps(IFEVAL),
        json.dumps([{"instruction_id": NO_COMMA}, {"id": BULLETS, "kwargs": {"num_bullets": 1}}]),
    ],
    ids=lambda reference: repr(reference)[:60],
)
def test_every_shape_gives_the_same_verdicts(reference: Any) -> None:
    assert judge(GOOD, reference).status is Status.CORRECT
    assert judge(HALF, reference).score == 0.5
    assert [name for name, _, _ in judge(HALF, reference).info["constraints"]] == [NO_COMMA, BULLETS]


def test_columns_of_the_data_set_are_read_when_the_answer_is_absent() -> None:
    assert judge(HALF, None, **IFEVAL).score == 0.5
    assert judge(GOOD, IFEVAL, instruction_id_list=["x"], kwargs=[]).score == 1.0


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ({"instruction_id_list": ["keywords:exist"], "kwargs": [{}]}, "constraint 1: unknown instruction id 'keywords:exist'"),
        ({"instruction_id_list": [NO_COMMA, None], "kwargs": [{}, {}]}, "constraint 2: unknown instruction id None"),
        ({"instruction_id_list": [NO_COMMA], "kwargs": []}, "1 instruction ids but 0 kwargs"),
        ({"instruction_id_list": [NO_COMMA], "kwargs": [{}, {}]}, "1 instruction ids but 2 kwargs"),
        ({"instruction_id_list": [NO_COMMA]}, "expected two lists"),
        ({"instruction_id_list": NO_COMMA, "kwargs": [{}]}, "not JSON"),
        ({"instruction_id_list": [], "kwargs": []}, "no constraints"),
        ({"instruction_id_list": [NO_COMMA], "kwargs": [[1]]}, "expected a mapping of arguments"),
        ({"instruction_id_list": [BULLETS], "kwargs": [{}]}, f"constraint 1 ({BULLETS}): argument 'num_bullets' is missing"),
        ({"instruction_id_list": [BULLETS], "kwargs": [{"num_bullets": None}]}, "argument 'num_bullets' is missing"),
        ({"instruction_id_list": [NO_COMMA], "kwargs": [{"num_bullets": 1}]}, "unknown argument 'num_bullets', expected none"),
        ({"instruction_id_list": [BULLETS], "kwargs": [{"num_bullet": 1, "num_bullets": 1}]}, "unknown argument 'num_bullet'"),
        ([{"instruction_id": BULLETS, "num_bullets": "3"}], "got '3', expected an integer of at least 0"),
        ([{"instruction_id": BULLETS, "num_bullets": -1}], "expected an integer of at least 0"),
        ([{"instruction_id": BULLETS, "num_bullets": True}], "expected an integer"),
        ([{"instruction_id": BULLETS, "num_bullets": 1.5}], "expected an integer"),
        ([{"instruction_id": WORDS, "num_words": 0, "relation": "at least"}], "expected an integer of at least 1"),
        ([{"instruction_id": WORDS, "num_words": 5, "relation": "at most"}], "expected 'less than' or 'at least'"),
        ([{"instruction_id": WORDS, "num_words": 5, "relation": ["at least"]}], "expected 'less than' or 'at least'"),
        ([{"instruction_id": "keywords:existence", "keywords": []}], "expected a list of texts"),
        ([{"instruction_id": "keywords:existence", "keywords": "word"}], "expected a list of texts"),
        ([{"instruction_id": "keywords:existence", "keywords": ["word", " "]}], "expected text that is not blank"),
        (
            [{"instruction_id": "keywords:letter_frequency", "letter": "ab", "let_frequency": 1, "let_relation": "at least"}],
            "one character",
        ),
        ([{"instruction_id": "startend:end_checker", "end_phrase": ""}], "expected text that is not blank"),
        (
            [
                {
                    "instruction_id": "length_constraints:nth_paragraph_first_word",
                    "num_paragraphs": 2,
                    "nth_paragraph": 3,
                    "first_word": "x",
                }
            ],
            "argument 'nth_paragraph': expected at most num_paragraphs",
        ),
        ([], "no constraints"),
        ([NO_COMMA], "constraint 1: not JSON"),
        ([{"name": NO_COMMA}], "constraint 1: expected"),
        ([{"id": NO_COMMA, "kwargs": "none"}], "constraint 1: not JSON"),
        ({"instruction_id_list": [NO_COMMA, BULLETS], "kwargs": [{}, "three"]}, "constraint 2: not JSON"),
        ([{"id": NO_COMMA, "kwargs": {}, "more": 1}], "constraint 1: expected"),
        ({}, "expected"),
        (3, "expected"),
        ("", "not JSON"),
        ("no commas, please", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ({"any_of": []}, "any_of"),
        ({"any_of": [IFEVAL], "more": 1}, "any_of"),
        ({"any_of": [IFEVAL, []]}, "no constraints"),
        ({"any_of": [{"any_of": [IFEVAL]}]}, "expected"),
    ],
    ids=lambda value: repr(value)[:60],
)
@pytest.mark.parametrize("completion", [GOOD, ""])
def test_broken_reference_is_never_dropped_or_passed(reference: Any, why: str, completion: str) -> None:
    verdict = judge(completion, reference)
    assert (verdict.status, verdict.reason, verdict.score) == (Status.BAD_REFERENCE, "malformed_reference", None)
    assert why in verdict.detail
    assert len(verdict.detail) < 500


def test_missing_reference_is_said() -> None:
    verdict = judge(GOOD, None)
    assert (verdict.status, verdict.reason) == (Status.BAD_REFERENCE, "missing_reference")


def test_good_constraint_beside_a_broken_one_does_not_count() -> None:
    reference = [{"instruction_id": NO_COMMA}, {"instruction_id": "keywords:unheard_of"}]
    assert judge(GOOD, reference).status is Status.BAD_REFERENCE


def test_repeated_id_counts_each_time() -> None:
    reference = [{"instruction_id": WORDS, "num_words": n, "relation": r} for n, r in ((2, "at least"), (4, "less than"))]
    assert [judge(text, reference).score for text in ("one", "one two", "one two three four")] == [0.5, 1.0, 0.5]
    assert len(judge("one", reference).info["constraints"]) == 2


@pytest.mark.parametrize("reference", [IFEVAL, {"any_of": [IFEVAL]}, [{"id": BULLETS, "kwargs": {"num_bullets": 1, "num_words": None}}]])
def test_reference_is_not_changed(reference: Any) -> None:
    before = copy.deepcopy(reference)
    judge(HALF, reference)
    assert reference == before
