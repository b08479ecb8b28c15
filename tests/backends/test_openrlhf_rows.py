"""Completions out of OpenRLHF's queries, answers and columns out of its labels."""

from __future__ import annotations

import json
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon import Rollout
from guerdon.backends.openrlhf.rows import END_TOKENS, column_names, completion_of, rollout_of, split_label, without_end

ANSWER = frozenset({"answer"})
FEW_SHOT = "Q: 1+1? A: \\boxed{2}\n\nQ: 2+2? A: \\boxed{4}\n\nQ: 3+3? A:"


@pytest.mark.parametrize(
    ("query", "prompt", "expected"),
    [
        ("Q: 2+2?\n4", "Q: 2+2?\n", "4"),
        ("4", "", "4"),
        ("Q", "Q", ""),
        ("<s>Q: 2+2? 4", "Q: 2+2?", " 4"),
        ("<s> Q: 2+2? 4", "Q: 2+2?", " 4"),
        ("<|begin_of_text|>Q\n\n4", "Q\n", "\n4"),
        ("<｜begin▁of▁sentence｜>Q 4", "Q", " 4"),
        ("[CLS] Q 4", "Q", " 4"),
        ("<s> [INST] hi [/INST] 4", "<s>[INST] hi [/INST]", " 4"),
        (
            "<|im_start|>user\nhi<|im_end|> \n<|im_start|>assistant\n<think>4",
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
            "<think>4",
        ),
        ("a  b\tc\n\n4", "a b c\n", "\n4"),
        ("a b c4", "a b c ", "4"),
        (unicodedata.normalize("NFC", "naïve? ") + "4", unicodedata.normalize("NFD", "naïve? "), "4"),
        (FEW_SHOT + " \\boxed{6}", FEW_SHOT, " \\boxed{6}"),
        (FEW_SHOT[9:] + " \\boxed{6}", FEW_SHOT, " \\boxed{6}"),  # OpenRLHF cut the beginning of a long prompt
        ("\ufffd" + FEW_SHOT[9:] + " 6", "é" + FEW_SHOT, " 6"),  # in the middle of a letter
        ("<|image_pad|>" * 9 + "Q? 4", "<|image_pad|>Q?", " 4"),  # one token an image in the prompt, as many as it takes in the query
        ("<s><image><image> Q <image><image> 4", "<image> Q <image>", " 4"),
    ],
)
def test_the_completion_is_what_follows_the_prompt(query: str, prompt: str, expected: str) -> None:
    assert completion_of(query, prompt) == expected


@pytest.mark.parametrize(
    ("query", "prompt"),
    [
        ("Q: 3+3? 6", "Q: 2+2?"),
        ("", "Q"),
        ("Q: 2", "Q: 2+2?"),
        ("so Q: 2+2? 4", "Q: 2+2?"),  # in the middle is not at the beginning
        ("<s><s>Q 4", "Q"),
        ("A: 6", "Q: 1\nA: 6"),  # too little of the prompt to be sure
        ("completely different", FEW_SHOT),
        ("   ", "\n\n\n"),
        ("<|image_pad|><|image_pad|>Q? 4", "<|image_pad|>P?"),
        ("<image><image><image>Q <image><image>", "<image>Q"),  # the completion would lose an image
    ],
)
def test_a_query_that_does_not_begin_with_its_prompt_gives_nothing(query: str, prompt: str) -> None:
    assert completion_of(query, prompt) is None


WORDS = st.lists(st.sampled_from(["Q:", "A:", "2+2?", "\\boxed{4}", "<|im_end|>", "é", "x" * 40]), min_size=1, max_size=12)
BLANKS = st.sampled_from([" ", "\n", "  ", " \n"])


@given(
    WORDS, BLANKS, BLANKS, st.sampled_from(["", "<s>", "<s> ", "<|begin_of_text|>"]), st.sampled_from(["\\boxed{6}", "Q: A:", "x", "6 7"])
)
def test_no_part_of_the_prompt_is_ever_taken_for_the_completion(words: list[str], one: str, other: str, bos: str, completion: str) -> None:
    """Whatever happens to blanks and BOS, what comes out is the completion, blanks aside."""
    found = completion_of(bos + other.join(words) + completion, one.join(words))
    assert found is not None
    assert found.strip() == completion


@given(WORDS, BLANKS, BLANKS, st.integers(0, 200))
def test_nor_of_a_prompt_that_was_cut(words: list[str], one: str, other: str, cut: int) -> None:
    """Whether or not its blanks moved too, and however often the prompt repeats itself."""
    prompt = [*words, *words[:-1], "and now the last of the questions: 3+3? A:"]
    found = completion_of(other.join(prompt)[cut:] + " so it is 6", one.join(prompt))
    assert found is None or found.strip() == "so it is 6"


@pytest.mark.parametrize("moved", ["", " "])
def test_an_example_that_asks_the_same_is_not_where_a_cut_prompt_ends(moved: str) -> None:
    question = "Question: what is two plus two, please?\nAnswer:"
    prompt = f"{question} \\boxed{{4}}\n<|end|>\n{question}"
    assert completion_of(prompt[3:].replace("<|end|>", f"{moved}<|end|>") + " 5", prompt) == " 5"


@pytest.mark.parametrize("token", END_TOKENS)
def test_every_end_token_is_cut_from_the_end_alone(token: str) -> None:
    assert without_end(f"a {token} b{token}\n{token}\n") == f"a {token} b"


@pytest.mark.parametrize("text", ["", "4 \n", "a < b", "</think>", "1 </s> 2"])
def test_texts_without_one_stay_as_they_are(text: str) -> None:
    assert without_end(text) == text


def test_other_end_tokens_replace_the_usual_ones() -> None:
    assert without_end("4<stop></s>", ("<stop>",)) == "4<stop></s>"
    assert without_end("4</s><stop>", ("<stop>",)) == "4</s>"


@pytest.mark.parametrize(
    ("label", "names", "answer", "columns"),
    [
        ("4", ANSWER, "4", {}),
        (4, ANSWER, 4, {}),
        (["4", "four"], ANSWER, ["4", "four"], {}),
        (None, ANSWER, None, {}),
        ("", ANSWER, None, {}),
        ('{"answer": "4", "level": 3}', ANSWER, "4", {"level": 3}),
        (' {"answer": ["4"]}', ANSWER, ["4"], {}),
        ({"answer": "4", "level": 3}, ANSWER, "4", {"level": 3}),
        ('{"x": 1}', ANSWER, {"x": 1}, {}),  # an answer that is an object: tests, a schema
        ('{"any_of": ["4", "four"]}', ANSWER, {"any_of": ["4", "four"]}, {}),
        ("{1, 2}", ANSWER, "{1, 2}", {}),  # a set
        ("{" * 100_000, ANSWER, "{" * 100_000, {}),
        ('{"tests": [1]}', frozenset({"answer", "tests"}), None, {"tests": [1]}),
        ('{"answer": null, "tests": []}', ANSWER, None, {"tests": []}),
    ],
)
def test_a_label_is_an_answer_or_an_object_of_columns(
    label: object, names: frozenset[str], answer: object, columns: dict[str, object]
) -> None:
    assert split_label(label, names) == (answer, columns)


@pytest.mark.parametrize("label", ['{"answer": "4"', "{'answer': '4'}", '  {\n "answer" : 4,}', '{"a":' * 100_000])
def test_broken_json_of_an_object_is_no_answer(label: str) -> None:
    assert split_label(label) == (None, {})


@pytest.mark.parametrize("label", ["{1, 2}", "{'a', 'b'}", '{"a"}', "{x: x > 0}", r"\{1\}", "{"])
def test_other_braces_are_plain_answers(label: str) -> None:
    assert split_label(label) == (label, {})


def test_a_label_that_compares_oddly_is_handed_on() -> None:
    label = np.array(["4", "5"])
    assert split_label(label)[0] is label


def test_alternatives_in_reads_name_both_columns() -> None:
    assert column_names({"tests|answer", "level"}) == {"tests", "answer", "level"}


def test_the_shared_label_is_not_changed() -> None:
    label = {"answer": "4", "level": 3}
    split_label(label)
    assert label == {"answer": "4", "level": 3}


@pytest.mark.parametrize(("query", "prompt"), [(None, "Q"), ("Q", None), (3, 4), ("x", "Q")])
def test_what_is_no_row_says_why(query: object, prompt: object) -> None:
    assert isinstance(rollout_of(query, prompt, "4", ANSWER), str)


def test_a_row_is_a_rollout_with_its_columns() -> None:
    row = rollout_of("Q 4</s>", "Q ", json.dumps({"answer": "4", "data_source": "x"}), ANSWER)
    assert row == Rollout("4", "Q ", "4", columns={"data_source": "x"})
