"""`guerdon score`: what it writes and what it says."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from .conftest import Files

ROWS = [{"id": "q1", "prompt": "2+2?", "answer": "4", "rollouts": [{"text": "4"}, {"text": "5"}, {"text": "?"}]}]
FLAT = [{"prompt": "2+2?", "answer": "4", "completion": text} for text in ("4", "5", "?")]

Run = Callable[..., Result]


@pytest.mark.parametrize("rows", [ROWS, FLAT], ids=["nested", "flat"])
def test_one_line_a_rollout(guerdon: Run, files: Files, rows: list[dict[str, object]]) -> None:
    guerdon("score", files.write(rows), "--reward", files.reward(), "-o", str(files.folder / "out.jsonl"))
    right, wrong, broken = files.read("out.jsonl")
    assert (right["group"], right["index"], right["total"], right["outcome"]) == (0, 0, 1.25, 1.0)
    assert right["components"]["right"] == {"score": 1.0, "status": "correct", "reason": ""}
    assert (wrong["index"], wrong["total"], wrong["outcome"]) == (1, 0.25, 0.0)
    assert (broken["total"], broken["outcome"], broken["components"]["right"]["status"]) == (None, None, "error")


def test_lines_can_be_joined_to_the_input(guerdon: Run, files: Files) -> None:
    guerdon("score", files.write(["", *ROWS]), "-r", files.reward(), "-o", str(files.folder / "out.jsonl"))
    assert [(row["id"], row["line"]) for row in files.read("out.jsonl")] == [("q1", 2)] * 3


def test_full_adds_detail_and_what_was_extracted(guerdon: Run, files: Files) -> None:
    guerdon("score", files.write(ROWS), "-r", files.reward(), "-o", str(files.folder / "out.jsonl"), "--full")
    verdict = files.read("out.jsonl")[2]["components"]["right"]
    assert verdict == {"score": None, "status": "error", "reason": "exception", "detail": "right: RuntimeError: broken", "extracted": None}


@pytest.mark.parametrize("texts", [["\ud800", "\x00", "‮ ", "é"]])
def test_any_text_is_scored_and_its_id_written(guerdon: Run, files: Files, texts: list[str]) -> None:
    rows = [{"id": text, "prompt": text, "completion": text, "answer": text} for text in texts]
    result = guerdon("score", files.write(rows), "-r", files.reward(), "-o", str(files.folder / "out.jsonl"), "--full")
    assert result.exit_code == 0
    assert [(row["id"], row["outcome"]) for row in files.read("out.jsonl")] == [(text, 1.0) for text in texts]


def test_every_input_form_gives_the_same_scores(guerdon: Run, files: Files) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    parquet.write_table(arrow.Table.from_pylist(ROWS), files.folder / "r.parquet")
    text = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    outputs = []
    for source, given in (
        (files.write(ROWS), None),
        (files.write(ROWS, "r.jsonl.gz"), None),
        (str(files.folder / "r.parquet"), None),
        ("-", text),
        ("-", Path(files.write(ROWS, "again.gz")).read_bytes()),
    ):
        assert guerdon("score", source, "-r", files.reward(), "-o", str(files.folder / "out.jsonl"), input=given).exit_code == 0
        outputs.append(files.read("out.jsonl"))
    assert all(output == outputs[0] for output in outputs)


def test_a_byte_order_mark_and_windows_lines_are_no_matter(guerdon: Run, files: Files) -> None:
    path = files.folder / "w.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(json.dumps(row).encode() for row in FLAT))
    assert json.loads(guerdon("score", str(path), "-r", files.reward(), "--json").stdout)["rollouts"] == 3


def test_stdout_gets_the_scores_and_stderr_the_summary(guerdon: Run, files: Files) -> None:
    result = guerdon("score", files.write(ROWS), "-r", files.reward(), "-o", "-")
    assert len([json.loads(line) for line in result.stdout.splitlines()]) == 3
    assert "component" in result.stderr


def test_a_gz_output_is_compressed(guerdon: Run, files: Files) -> None:
    guerdon("score", files.write(ROWS), "-r", files.reward(), "-o", str(files.folder / "out.jsonl.gz"))
    assert len(files.read("out.jsonl.gz")) == 3


def test_json_summary(guerdon: Run, files: Files) -> None:
    document = json.loads(guerdon("score", files.write(ROWS), "-r", files.reward(), "--json").stdout)
    assert (document["rollouts"], document["groups"], document["bad_rows"]) == (3, 1, 0)
    assert document["total"] == {"count": 2, "mean": 0.75, "std": 0.5, "abstained": 1}
    assert document["outcome"]["mean"] == 0.5
    assert document["components"]["right"]["statuses"] == {"correct": 1, "incorrect": 1, "error": 1}
    assert document["components"]["right"]["reasons"] == {"exception": 1}
    assert document["columns"]["completion"] == "text"


def test_the_summary_over_many_chunks_is_that_of_the_whole(guerdon: Run, files: Files) -> None:
    import numpy as np

    rows = [{"prompt": f"{i // 8}", "completion": "x" * (i % 40), "answer": "x"} for i in range(5000)]
    document = json.loads(guerdon("score", files.write(rows), "-r", files.reward("brief"), "--json").stdout)
    values = np.array([1 / (1 + i % 40) for i in range(5000)])
    assert document["total"]["count"] == 5000
    assert document["total"]["mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert document["total"]["std"] == pytest.approx(values.std(), rel=1e-12)


def test_a_reward_that_reads_the_group_sees_it_whole(guerdon: Run, files: Files) -> None:
    rows = [{"prompt": f"{i // 300}", "completion": "x", "answer": "x"} for i in range(2400)]
    guerdon("score", files.write(rows), "-r", files.reward("grouped"), "-o", str(files.folder / "out.jsonl"))
    sizes = {row["components"]["siblings"]["score"] for row in files.read("out.jsonl")}
    assert all(size % 300 == 0 for size in sizes)


def test_the_table_fits_100_columns(guerdon: Run, files: Files) -> None:
    lines = guerdon("score", files.write(ROWS), "-r", files.reward()).stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.split()[:2] == ["right", "1"] for line in lines)


@pytest.mark.parametrize(("rows", "place"), [(FLAT, "3"), (ROWS, "1, rollout 2")], ids=["flat", "nested"])
def test_what_broke_is_shown_with_its_first_place(guerdon: Run, files: Files, rows: list[dict[str, object]], place: str) -> None:
    path = files.write([*rows, *({**row, "prompt": "again"} for row in rows)])
    told = " ".join(guerdon("score", path, "-r", files.reward()).stdout.split())
    assert f"right: exception 2, first at {path}:{place}: RuntimeError: broken" in told


def test_what_broke_is_in_the_json_summary(guerdon: Run, files: Files) -> None:
    rows = [*ROWS, {"prompt": "p", "answer": None, "rollouts": [{"text": "x"}]}]
    document = json.loads(guerdon("score", files.write(rows), "-r", files.reward(), "--json").stdout)
    assert document["components"]["right"]["broken"] == [
        {"status": "error", "reason": "exception", "count": 1, "line": 1, "index": 2, "detail": "right: RuntimeError: broken"},
        {"status": "bad_reference", "reason": "missing_reference", "count": 1, "line": 2, "index": None, "detail": ""},
    ]
    assert document["components"]["brief"]["broken"] == []


@pytest.mark.parametrize("option", [[], ["--json"], ["-o", "-"]])
def test_a_file_without_any_total_is_exit_code_1_and_says_why(guerdon: Run, files: Files, option: list[str]) -> None:
    path = files.write([{"prompt": f"{i}", "answer": "x", "completion": "?"} for i in range(3)])
    result = guerdon("score", path, "-r", files.reward(), *option)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        f"guerdon: no rollout of {path} got a total: right: exception 3, first at {path}:1: RuntimeError: broken"
    )


def test_a_term_without_weight_is_not_why_there_is_no_total(guerdon: Run, files: Files) -> None:
    (files.folder / "mine.py").write_text(
        "import guerdon.rewards as R\n"
        "reward = R.from_function(lambda r: None, name='never') + 0 * R.from_function(lambda r: 1 / 0, name='watched')\n"
    )
    result = guerdon("score", files.write(FLAT), "-r", f"{files.folder / 'mine.py'}:reward", "--json")
    assert result.exit_code == 1
    assert result.stderr.endswith("got a total: never: not_applicable 3\n")


def test_one_total_is_enough_for_exit_code_0(guerdon: Run, files: Files) -> None:
    assert guerdon("score", files.write(FLAT[1:]), "-r", files.reward()).exit_code == 0


def test_skipped_rows_are_in_the_summary(guerdon: Run, files: Files) -> None:
    path = files.write([*FLAT, "{", "[]"])
    assert f"skipped 2 rows, the first: {path}:4: not JSON" in " ".join(guerdon("score", path, "-r", files.reward()).stdout.split())


def test_the_summary_says_what_was_read_from_which_key(guerdon: Run, files: Files) -> None:
    told = " ".join(guerdon("score", files.write(ROWS), "-r", files.reward(), "--columns", "name=id").stdout.split())
    assert "read from the keys: rollouts, completion from 'text', prompt, answer, id, name from 'id'" in told


def test_no_times_are_shown_where_they_say_nothing(guerdon: Run, files: Files) -> None:
    told = guerdon("score", files.write(ROWS), "-r", files.reward()).stdout
    assert "/s)" not in told
    assert ["component", "weight", "mean", "std", "statuses"] in [line.split() for line in told.splitlines()]


def test_bad_rows_are_reported_by_line_then_counted(guerdon: Run, files: Files) -> None:
    result = guerdon("score", files.write([*["{"] * 7, *FLAT, "[]"]), "-r", files.reward(), "--json")
    assert json.loads(result.stdout)["bad_rows"] == 8
    lines = result.stderr.splitlines()
    assert [line.split(": ")[1].rpartition(":")[2] for line in lines[:5]] == ["1", "2", "3", "4", "5"]
    assert lines[5:] == [f"guerdon: skipped 3 more rows of {files.folder / 'rollouts.jsonl'}, 8 in all"]


def test_a_protocol_reward_is_lifted(guerdon: Run, files: Files) -> None:
    assert json.loads(guerdon("score", files.write(FLAT), "-r", files.reward("own"), "--json").stdout)["total"]["mean"] == 1.0


def test_a_row_without_a_token_count_is_a_bad_row_where_others_have_one(guerdon: Run, files: Files) -> None:
    rows = [{"prompt": f"{i}", "answer": "4", "completion": "4", "num_tokens": 3} for i in range(3)]
    del rows[1]["num_tokens"]
    result = guerdon("score", files.write(rows), "-r", files.reward("counted"), "--json")
    assert json.loads(result.stdout)["rollouts"] == 2
    assert "rollouts.jsonl:2:" in result.stderr
    assert "num_tokens" in result.stderr


def test_a_deadline_makes_late_rows_errors(guerdon: Run, files: Files) -> None:
    (files.folder / "slow.py").write_text(
        "import time, guerdon.rewards as R\nreward = R.from_function(lambda r: time.sleep(5), name='slow')\n"
    )
    result = guerdon("score", files.write(FLAT), "-r", f"{files.folder / 'slow.py'}:reward", "--json", "--deadline", "0.1")
    assert json.loads(result.stdout)["components"]["slow"]["reasons"] == {"deadline": 3}


def test_no_file_is_left_but_the_output(guerdon: Run, files: Files) -> None:
    guerdon("score", files.write(ROWS), "-r", files.reward(), "-o", str(files.folder / "out.jsonl"))
    assert files.names() == {"rollouts.jsonl", "out.jsonl"}


def test_an_output_that_is_a_link_stays_one(guerdon: Run, files: Files) -> None:
    (files.folder / "link.jsonl").symlink_to("target.jsonl")
    guerdon("score", files.write(ROWS), "-r", files.reward(), "-o", str(files.folder / "link.jsonl"))
    assert (files.folder / "link.jsonl").is_symlink()
    assert len(files.read("target.jsonl")) == 3


def test_a_device_is_written_and_not_replaced(guerdon: Run, files: Files) -> None:
    assert guerdon("score", files.write(ROWS), "-r", files.reward(), "-o", "/dev/null").exit_code == 0
    assert Path("/dev/null").is_char_device()


def test_stdin_may_be_any_byte_stream(guerdon: Run, files: Files) -> None:
    buffer = io.BytesIO(b"\n\n" + json.dumps(FLAT[0]).encode())
    assert json.loads(guerdon("score", "-", "-r", files.reward(), "--json", input=buffer.getvalue()).stdout)["rollouts"] == 1
