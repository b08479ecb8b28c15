"""Rows to rollouts: the names that are detected, the shapes that are read, what is refused."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from guerdon.cli.files import Row
from guerdon.cli.rows import NAMES, Layout, parse_columns
from guerdon.errors import ConfigError, DataError
from guerdon.types import Rollout


def rollouts(row: dict[str, Any], columns: str = "") -> list[Rollout]:
    rows = [Row(1, row)]
    return Layout.detect(rows, parse_columns(columns), "file").rollouts(rows[0])


@pytest.mark.parametrize("key", ["completion", "text", "response", "output", "generation"])
def test_the_completion_is_found_under_its_usual_names(key: str) -> None:
    assert rollouts({"question": "2+2?", key: "4", "solution": "4"})[0].completion == "4"


@pytest.mark.parametrize(
    ("row", "part", "one", "other"),
    [
        ({"text": "t", "response": "r"}, "completion", "text", "response"),
        ({"messages": [], "output": "o"}, "completion", "output", "messages"),
        ({"completion": "c", "question": "q", "problem": "p"}, "prompt", "question", "problem"),
        ({"completion": "c", "ground_truth": 1, "solution": "s"}, "answer", "ground_truth", "solution"),
        ({"completion": "c", "solution": "s", "label": "l"}, "answer", "solution", "label"),
        ({"prompt": "p", "solution": "s", "rollouts": [{"text": "t", "target": "u"}]}, "answer", "solution", "target"),
        ({"prompt": "p", "rollouts": [{"text": "t", "output": "o"}]}, "completion", "text", "output"),
    ],
)
def test_two_candidates_for_one_part_are_refused_with_both_and_the_option(row: dict[str, Any], part: str, one: str, other: str) -> None:
    with pytest.raises(DataError, match=f"the {part} could be '{one}' or '{other}': .*--columns {part}={one} or --columns {part}={other}"):
        rollouts(row)
    assert rollouts(row, f"{part}={one}")


def test_candidates_in_different_rows_are_two_candidates() -> None:
    with pytest.raises(DataError, match="'text' or 'response'"):
        Layout.detect([Row(1, {"text": "t"}), Row(2, {"response": "r"})], {}, "file")


def test_a_canonical_name_wins_over_all_others() -> None:
    row = {"completion": "c", "text": "t", "prompt": "p", "question": "q", "answer": "a", "solution": "s", "label": "l"}
    found = rollouts(row)[0]
    assert (found.completion, found.prompt, found.answer) == ("c", "p", "a")


def test_a_key_that_holds_nothing_is_no_candidate() -> None:
    assert rollouts({"text": None, "response": "r"})[0].completion == "r"


@pytest.mark.parametrize("label", [True, 1, 0.5])
def test_a_label_that_is_a_grade_leaves_no_doubt(label: Any) -> None:
    assert rollouts({"completion": "c", "solution": "s", "label": label})[0].answer == "s"


def test_a_label_is_never_taken_for_the_answer_by_itself() -> None:
    assert rollouts({"completion": "c", "label": "l"})[0].answer is None


def test_the_documentation_lists_the_keys_that_are_detected() -> None:
    lines = (Path(__file__).parents[2] / "docs" / "commands.md").read_text().splitlines()
    table = [
        [re.findall(r"`(\w+)`", cell) for cell in line.split("|")[1:3]]
        for line in lines[lines.index("| part | other names | holds |") + 2 :]
    ]
    listed = {part[0]: (part[0], *others) for part, others in itertools.takewhile(lambda row: len(row) == 2, table)}
    assert listed == NAMES


def test_answer_comes_before_solution() -> None:
    found = rollouts({"completion": "4", "solution": "2+2=4", "answer": "4"})[0]
    assert (found.answer, found.column("solution")) == ("4", "2+2=4")


def test_a_mapping_comes_before_what_is_detected() -> None:
    found = rollouts({"prompt": "p", "text": "t", "answer": "a", "ref": "r"}, "completion=prompt,prompt=text,answer=ref")[0]
    assert (found.completion, found.prompt, found.answer) == ("p", "t", "r")


def test_a_mapping_of_another_name_is_a_further_column() -> None:
    assert rollouts({"completion": "c", "test": [1]}, "tests=test")[0].column("tests") == [1]


def test_every_other_key_is_a_column() -> None:
    found = rollouts({"prompt": "p", "completion": "c", "answer": "a", "level": 3})[0]
    assert dict(found.columns) == {"answer": "a", "level": 3}


def test_nested_rollouts_share_the_keys_of_their_row() -> None:
    row = {"id": 7, "prompt": "p", "answer": "a", "rollouts": [{"text": "x", "model": "m"}, {"text": "y", "answer": "b"}]}
    one, other = rollouts(row)
    assert (one.completion, one.prompt, one.answer, one.id, one.column("model")) == ("x", "p", "a", "7", "m")
    assert (other.completion, other.answer, other.column("model")) == ("y", "b", None)
    assert one.group == other.group is not None


def test_the_completion_of_nested_rollouts_is_a_key_of_theirs() -> None:
    assert [r.completion for r in rollouts({"text": "shared", "rollouts": [{"response": "x"}]})] == ["x"]


def test_nested_rollouts_may_be_texts() -> None:
    assert [r.completion for r in rollouts({"prompt": "p", "responses": ["x", "y"]}, "rollouts=responses")] == ["x", "y"]


def test_chats_are_read() -> None:
    chat = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4", "reasoning_content": "easy"}]
    whole = rollouts({"messages": chat})[0]
    parts = rollouts({"prompt": chat[:1], "completion": chat[1:]})[0]
    assert whole.completion == parts.completion == "<think>easy</think>4"
    assert whole.prompt == parts.prompt


def test_token_counts_come_from_ids_if_need_be() -> None:
    assert rollouts({"text": "x", "token_ids": [5, 6, 7]})[0].num_tokens == 3
    assert rollouts({"text": "x", "num_tokens": 9.0, "truncated": True})[0].num_tokens == 9


@pytest.mark.parametrize(
    "row",
    [
        {"completion": 5},
        {"completion": None},
        {"completion": [1]},
        {"completion": "c", "prompt": 5},
        {"completion": "c", "prompt": ["no message"]},
        {"completion": "c", "num_tokens": -1},
        {"completion": "c", "num_tokens": 1.5},
        {"completion": "c", "num_tokens": float("nan")},
        {"completion": "c", "num_tokens": True},
        {"completion": "c", "num_tokens": 10**400},
        {"completion": "c", "token_ids": "12"},
        {"completion": "c", "truncated": "no"},
        {"completion": "c", "group": []},
        {"prompt": "p", "rollouts": [{"text": 5}]},
        {"prompt": "p", "rollouts": [{"text": "x"}, 5]},
    ],
)
def test_a_row_of_wrong_types_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        rollouts(row)


def test_no_completion_says_what_there_is_and_how_to_name_it() -> None:
    with pytest.raises(DataError, match="the rows have prompt, reply; say which it is with --columns completion=KEY"):
        rollouts({"prompt": "p", "reply": "r"})


def test_a_mapped_key_that_is_nowhere_is_refused() -> None:
    with pytest.raises(DataError, match="--columns answer=soluton: no row has 'soluton'; they have completion, solution"):
        rollouts({"completion": "c", "solution": "s"}, "answer=soluton")


@pytest.mark.parametrize("columns", ["answer", "answer=", "=x", "answer:solution"])
def test_a_mapping_of_another_form_is_refused(columns: str) -> None:
    with pytest.raises(ConfigError, match="expected name=key pairs"):
        parse_columns(columns)


def test_a_misspelt_part_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'answer'"):
        parse_columns("anwser=solution")
