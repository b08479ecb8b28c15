"""Text for people: how wide it is, where it breaks, and that times are shown where they say something."""

from __future__ import annotations

import re

import pytest

from guerdon.cli.summary import ComponentTotals, Summary
from guerdon.cli.tables import print_rich, shares, table

STATUSES = {"correct": 12345, "incorrect": 6789, "no_answer": 100, "bad_reference": 3, "unparseable": 1}


def printed(capsys: pytest.CaptureFixture[str], *renderables: object) -> list[str]:
    print_rich(*renderables)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("columns", [20, 50, 61, 80])
def test_a_status_stays_with_its_count(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    rows = [["math_equal", "1", "0.500", shares(STATUSES)], ["a_long_name_of_a_component", "0.25", "-0.125", shares(STATUSES)]]
    shown = "\n".join(printed(capsys, table(["component", "weight", "mean", "statuses"], rows, left=(0, 3)), shares(STATUSES)))
    assert re.findall(r"(\w+) ([\d,]*\d)(?:,|$)", shown, re.MULTILINE) == [(name, f"{count:,}") for name, count in STATUSES.items()] * 3


@pytest.mark.parametrize("columns", [60, 200])
def test_pipes_are_as_wide_as_columns_says(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert columns - 10 < max(map(len, printed(capsys, "word " * 100))) <= columns


def test_pipes_are_100_columns_wide_otherwise(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert 90 < max(map(len, printed(capsys, "word " * 100))) <= 100


@pytest.mark.parametrize(("seconds", "slowest", "shown"), [(1.0, 0.5, []), (3.0, 0.0, ["time"]), (3.0, 0.5, ["time", "slowest"])])
def test_times_are_shown_where_they_say_something(
    capsys: pytest.CaptureFixture[str], seconds: float, slowest: float, shown: list[str]
) -> None:
    header = printed(capsys, Summary(1, {"a": ComponentTotals(1.0, seconds=seconds, slowest=slowest)}).table())[1]
    assert header.split() == ["component", "weight", "mean", "std", "statuses", *shown]
