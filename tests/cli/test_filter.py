"""`guerdon filter`: which prompts are kept, what is written of them, and that every prompt is accounted for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from .conftest import Files

Run = Callable[..., Result]


def prompt(name: str, completions: str, answer: str | None = "1") -> dict[str, Any]:
    """A prompt whose rollouts are the letters: 1 is right, 0 wrong, ? breaks the check."""
    return {"id": name, "prompt": name, "answer": answer, "extra": {"é": 1.5}, "rollouts": [{"text": c} for c in completions]}


PROMPTS = [
    prompt("easy", "11111"),
    prompt("one of five", "10000"),
    prompt("hard", "00000"),
    prompt("four of five", "11110"),
    prompt("broken", "???10"),
    prompt("no answer", "11111", None),
]


def flat(prompts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**{k: v for k, v in p.items() if k != "rollouts"}, "completion": r["text"]} for p in prompts for r in p["rollouts"]]


def test_the_kept_rows_are_the_rows_of_the_input_with_the_pass_rate(guerdon: Run, files: Files) -> None:
    result = guerdon("filter", files.write(PROMPTS), "-r", files.reward(), "--keep", "0.2:0.8", "-o", str(files.folder / "kept.jsonl"))
    assert result.exit_code == 0, result.output
    one, four = files.read("kept.jsonl")
    assert one == PROMPTS[1] | {"guerdon_pass_rate": 0.2, "guerdon_passed": 1, "guerdon_total": 5, "guerdon_unscorable": 0}
    assert (four["id"], four["guerdon_pass_rate"]) == ("four of five", 0.8)


def test_every_prompt_is_counted_once_with_its_reason(guerdon: Run, files: Files) -> None:
    document = json.loads(guerdon("filter", files.write(PROMPTS), "-r", files.reward(), "--json").stdout)
    assert document["decisions"] == {"keep": 2, "too_easy": 1, "too_hard": 1, "zero_variance": 0, "unscorable": 2}
    assert document["unscorable_because"] == {"error (exception)": 1, "bad_reference (missing_reference)": 1}
    assert (document["prompts"], document["rollouts"], document["unscorable_rollouts"]) == (6, 30, 8)


def test_flat_rows_are_kept_by_group(guerdon: Run, files: Files) -> None:
    guerdon("filter", files.write(flat(PROMPTS)), "-r", files.reward(), "-o", str(files.folder / "kept.jsonl"))
    assert [row["id"] for row in files.read("kept.jsonl")] == ["one of five"] * 5 + ["four of five"] * 5


def test_one_per_prompt_keeps_the_first_row(guerdon: Run, files: Files) -> None:
    guerdon("filter", files.write(flat(PROMPTS)), "-r", files.reward(), "-o", str(files.folder / "kept.jsonl"), "--one-per-prompt")
    assert [row["id"] for row in files.read("kept.jsonl")] == ["one of five", "four of five"]


def test_scattered_rows_are_kept_by_group_with_gather(guerdon: Run, files: Files) -> None:
    rows = sorted(flat(PROMPTS), key=lambda row: row["completion"])
    document = json.loads(guerdon("filter", files.write(rows), "-r", files.reward(), "--json", "--gather").stdout)
    assert document["decisions"]["keep"] == 2


def test_shaping_does_not_move_the_pass_rate(guerdon: Run, files: Files) -> None:
    runs = [guerdon("filter", files.write(PROMPTS), "-r", files.reward(name), "--json").stdout for name in ("right", "reward")]
    assert json.loads(runs[0])["decisions"] == json.loads(runs[1])["decisions"]


def test_pass_at_lowers_the_bar(guerdon: Run, files: Files) -> None:
    (files.folder / "partial.py").write_text(
        "import guerdon.rewards as R\nreward = R.from_function(lambda r: float(r.completion), name='p', outcome=True)\n"
    )
    rows = [{"prompt": "p", "rollouts": [{"text": text} for text in ("0.5", "0.5", "0.1", "0.1")]}]
    for pass_at, decision in (("1.0", "too_hard"), ("0.5", "keep")):
        run = guerdon("filter", files.write(rows), "-r", f"{files.folder / 'partial.py'}:reward", "--json", "--pass-at", pass_at)
        assert json.loads(run.stdout)["decisions"][decision] == 1


def test_min_total_decides_what_is_unscorable(guerdon: Run, files: Files) -> None:
    run = guerdon("filter", files.write(PROMPTS), "-r", files.reward(), "--json", "--min-total", "2")
    assert json.loads(run.stdout)["decisions"]["unscorable"] == 1


@pytest.mark.parametrize(("on", "kept"), [("outcome", 3), ("components", 3)])
def test_zero_variance(guerdon: Run, files: Files, on: str, kept: int) -> None:
    document = json.loads(guerdon("filter", files.write(PROMPTS), "-r", files.reward(), "--json", "--zero-variance", on).stdout)
    assert document["decisions"] == {"keep": kept, "too_easy": 0, "too_hard": 0, "zero_variance": 2, "unscorable": 1}


def test_zero_variance_on_components_sees_the_shaping(guerdon: Run, files: Files) -> None:
    rows = [{"prompt": "p", "answer": "1", "rollouts": [{"text": "0"}, {"text": "00"}]}]
    for on, decision in (("outcome", "zero_variance"), ("components", "keep")):
        run = guerdon("filter", files.write(rows), "-r", files.reward(), "--json", "--zero-variance", on)
        assert json.loads(run.stdout)["decisions"][decision] == 1


def test_rows_that_utf8_cannot_hold_are_written_as_json_can(guerdon: Run, files: Files) -> None:
    rows = [prompt("\ud800", "1100")]
    guerdon("filter", files.write(rows), "-r", files.reward(), "-o", str(files.folder / "kept.jsonl"))
    assert files.read("kept.jsonl")[0]["prompt"] == "\ud800"


def test_parquet_rows_with_dates_are_written(guerdon: Run, files: Files) -> None:
    import datetime

    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    row = {k: v for k, v in prompt("p", "1100").items() if k != "extra"} | {"day": datetime.date(2025, 1, 2)}
    parquet.write_table(arrow.Table.from_pylist([row]), files.folder / "r.parquet")
    guerdon("filter", str(files.folder / "r.parquet"), "-r", files.reward(), "-o", str(files.folder / "kept.jsonl"))
    assert files.read("kept.jsonl")[0]["day"] == "2025-01-02"


def test_nothing_kept_is_an_empty_file(guerdon: Run, files: Files) -> None:
    guerdon("filter", files.write([PROMPTS[0]]), "-r", files.reward(), "-o", str(files.folder / "kept.jsonl"))
    assert files.read("kept.jsonl") == []


BARS = [prompt(f"{kind} {i}", kind) for kind in ("00000", "10000", "11111") for i in range(2)]


@pytest.mark.parametrize(
    ("options", "dropped"),
    [(["--zero-variance", "outcome"], {0, 5}), (["--keep", "0:0.1"], {1, 5}), (["--zero-variance", "components"], {0, 5})],
)
def test_the_bars_of_what_is_dropped_are_hollow(guerdon: Run, files: Files, options: list[str], dropped: set[int]) -> None:
    shown = guerdon("filter", files.write(BARS), "-r", files.reward("right"), *options).stdout
    lines = [line.strip() for line in shown.splitlines() if " of 5 " in line]
    assert "█ kept   ░ dropped" in shown
    assert {int(line[0]) for line in lines if "░" in line} == dropped
    assert {int(line[0]) for line in lines if "█" in line} == {0, 1, 5} - dropped


def test_a_rate_of_which_some_are_kept_has_a_bar_of_two_parts(guerdon: Run, files: Files) -> None:
    (files.folder / "partial.py").write_text(
        "import guerdon.rewards as R\nreward = R.from_function(lambda r: float(r.completion), name='p', outcome=True)\n"
    )
    rows = [{"prompt": text, "rollouts": [{"text": "0"}, {"text": text}]} for text in ("0", "0.5")]
    shown = guerdon("filter", files.write(rows), "-r", f"{files.folder / 'partial.py'}:reward", "--zero-variance", "outcome").stdout
    assert "█" * 20 + "░" * 20 in shown


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "keeping pass rates from 0.2 to 0.8; a rollout passes at an outcome of 1;"),
        (["--zero-variance", "outcome"], "dropping prompts in which all outcomes are equal;"),
        (["--zero-variance", "components"], "dropping prompts in which no component varies;"),
    ],
)
def test_the_rule_is_said_in_words(guerdon: Run, files: Files, options: list[str], says: str) -> None:
    assert says in " ".join(guerdon("filter", files.write(PROMPTS), "-r", files.reward(), *options).stdout.split())


def test_what_broke_and_what_was_skipped_is_in_the_summary(guerdon: Run, files: Files) -> None:
    path = files.write([*PROMPTS, "{"])
    result = guerdon("filter", path, "-r", files.reward())
    told = " ".join(result.stdout.split())
    assert result.exit_code == 0
    assert f"outcome: exception 3, first at {path}:5, rollout 0: right: RuntimeError: broken" in told
    assert f"outcome: missing_reference 5, first at {path}:6, rollout 0" in told
    assert f"skipped 1 row, the first: {path}:7: not JSON" in told


def test_a_file_without_any_outcome_is_exit_code_1_and_says_why(guerdon: Run, files: Files) -> None:
    path = files.write([prompt("p", "?????")])
    result = guerdon("filter", path, "-r", files.reward(), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["broken"][0]["count"] == 5
    why = f"outcome: exception 5, first at {path}:1, rollout 0: right: RuntimeError: broken"
    assert result.stderr == f"guerdon: no rollout of {path} has an outcome: {why}\n"


def test_the_summary_shows_percentages_of_prompts(guerdon: Run, files: Files) -> None:
    lines = guerdon("filter", files.write(PROMPTS), "-r", files.reward()).stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert ["kept", "2", "33.3", "%"] in [line.split() for line in lines]
    assert ["error", "(exception)", "1", "16.7", "%"] in [line.split() for line in lines]
