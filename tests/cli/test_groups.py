"""Groups: whole, numbered in the order of the file, and streamed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from guerdon.cli.files import Source
from guerdon.cli.groups import BadRows, Group, chunks, read_groups
from guerdon.errors import DataError


def read(path: Path, rows: list[dict[str, Any]], *, whole: bool = False, gather: bool = False, limit: int | None = None) -> list[Group]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with closing(Source(str(path))) as source:
        return list(read_groups(source, {}, BadRows("file", strict=True), limit=limit, whole=whole, gather=gather)[1])


def flat(*prompts: str) -> list[dict[str, Any]]:
    return [{"prompt": prompt, "completion": f"{i}"} for i, prompt in enumerate(prompts)]


def shape(groups: list[Group]) -> list[tuple[int, int, list[str]]]:
    return [(g.number, g.start, [r.completion for r in g.rollouts]) for g in groups]


def test_neighbours_with_one_prompt_are_a_group(tmp_path: Path) -> None:
    assert shape(read(tmp_path / "f", flat("a", "a", "b"))) == [(0, 0, ["0", "1"]), (1, 0, ["2"])]


def test_a_group_column_comes_before_the_prompt(tmp_path: Path) -> None:
    rows = [{**row, "group": group} for row, group in zip(flat("a", "a", "b"), (1, 2, 2), strict=True)]
    assert [len(g.rollouts) for g in read(tmp_path / "f", rows)] == [1, 2]


def test_a_group_that_comes_back_goes_on_counting(tmp_path: Path) -> None:
    assert shape(read(tmp_path / "f", flat("a", "b", "a"))) == [(0, 0, ["0"]), (1, 0, ["1"]), (0, 1, ["2"])]


def test_a_group_that_comes_back_is_refused_where_groups_must_be_whole(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r":3: .* --gather"):
        read(tmp_path / "f", flat("a", "b", "a"), whole=True)


def test_gather_brings_scattered_rows_together(tmp_path: Path) -> None:
    groups = read(tmp_path / "f", flat("a", "b", "a"), whole=True, gather=True)
    assert shape(groups) == [(0, 0, ["0", "2"]), (1, 0, ["1"])]
    assert groups[0].lines == [1, 3]


def test_rows_without_a_prompt_are_groups_of_their_own(tmp_path: Path) -> None:
    assert [len(g.rollouts) for g in read(tmp_path / "f", [{"completion": "x"}] * 3)] == [1, 1, 1]


def test_equal_nested_rows_stay_apart(tmp_path: Path) -> None:
    groups = read(tmp_path / "f", [{"prompt": "a", "rollouts": [{"text": "x"}]}] * 2)
    assert [g.number for g in groups] == [0, 1]
    assert groups[0].rollouts[0].group != groups[1].rollouts[0].group


def test_limit_counts_rows(tmp_path: Path) -> None:
    assert len(read(tmp_path / "f", flat(*"abcdef"), limit=4)) == 4


def test_chunks_keep_groups_whole_and_do_not_read_ahead() -> None:
    taken = 0

    def groups() -> Iterator[Group]:
        nonlocal taken
        for taken in itertools.count(1):
            yield Group(taken, lines=[], rollouts=[None] * 3)  # type: ignore[list-item]

    first = next(chunks(groups(), 8))
    assert [len(g.rollouts) for g in first] == [3, 3, 3]
    assert taken == 3
