"""Whatever is wrong with the input: one line that says what, where and how to mend it; exit code 2; no file."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from .conftest import Files

Refused = Callable[..., str]
GOOD = {"prompt": "2+2?", "answer": "4", "completion": "4"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\n  \n", "is empty"),
        (b"[]\n", "jq -c '.[]'"),
        (b'"text"\n', "expected a JSON object, got str"),
        (b"{'a': 1}\n", "not JSON"),
        (b'{"completion": "x"\n', "1: not JSON (Expecting ',' delimiter at column 19, the end of the line)"),
        (b'{"completion": "x"  \r\n', "at column 19, the end of the line"),
        (b'{"completion": "x" "y": 1}\n', "at column 20)"),
        (b"\xff\xfe{}\n", "not UTF-8"),
        (b"[" * 100_000 + b"\n", "JSON"),
        (b'{"completion": ' + b"9" * 5000 + b"}\n", "not readable as JSON"),
        (b'{"prompt": "p"}\n', "no completion found"),
        (gzip.compress(b'{"completion": "x"}\n' * 500)[:40], "damaged gzip file"),
        (b"\x1f\x8bnonsense", "damaged gzip file"),
        (b"PAR1nonsense", "damaged Parquet file"),
    ],
)
def test_a_malformed_file(guerdon: Callable[..., Result], files: Files, content: bytes, says: str) -> None:
    pytest.importorskip("pyarrow")
    path = files.folder / "in"
    path.write_bytes(content)
    result = guerdon("score", str(path), "-r", files.reward("brief"), "-o", str(files.folder / "out.jsonl"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr.splitlines()[-1]
    assert str(path) in result.stderr.splitlines()[-1]
    assert files.names() == {"in"}


def test_a_bad_row_under_strict_says_its_line(refused: Refused, files: Files) -> None:
    path = files.write([*[GOOD] * 100, "{"])
    line = refused("score", path, "-r", files.reward(), "-o", str(files.folder / "out.jsonl"), "--strict")
    assert line.startswith(f"guerdon: {path}:101: not JSON")
    assert files.names() == {"rollouts.jsonl"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Own", "the class Own; build one"),
        ("check", "the function check; lift it in the file: reward = R.from_function(check)"),
        ("siblings", "reward = R.from_function(siblings, batch=True)"),
        ("unnamed", "reward = R.from_function(unnamed, name=...)"),
        ("called", "an object of the class Called, which can be called; lift it in the file: reward = R.from_function(called, name=...)"),
        ("Called", "reward = R.from_function(Called(...), name=...)"),
        ("from_trl", "reward = R.from_trl(from_trl)"),
        ("made", "if it builds the reward, call it in the file: reward = made()"),
        ("made_with", "reward = made_with(...)"),
        ("R.math_equal", "reward = R.math_equal()"),
        ("verifier", "the verifier V; lift it in the file: reward = R.verified(verifier)"),
        ("Verifier", "reward = R.verified(Verifier(...))"),
        ("text", "got str 'not a reward'"),
        ("missing", "has no 'missing'; it has"),
    ],
)
def test_an_object_that_is_no_reward(refused: Refused, files: Files, name: str, says: str) -> None:
    assert says in refused("score", files.write([GOOD]), "-r", files.reward(name))


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import nonexistent_package", "nonexistent_package"),
        ("reward = (", "SyntaxError"),
        ("raise SystemExit(3)", "exited (3)"),
        ("import guerdon.rewards as R\nreward = R.clip(R.from_function(len), low=2, high=1)", "low <= high"),
    ],
)
def test_a_reward_file_that_does_not_run(refused: Refused, files: Files, code: str, says: str) -> None:
    (files.folder / "broken.py").write_text(code)
    assert says in refused("score", files.write([GOOD]), "-r", f"{files.folder / 'broken.py'}:reward")


def test_a_wrong_object_is_not_called(refused: Refused, files: Files) -> None:
    (files.folder / "calls.py").write_text("def made():\n    raise SystemExit('called')\n")
    assert "reward = made()" in refused("score", files.write([GOOD]), "-r", f"{files.folder / 'calls.py'}:made")


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("x = 1\ny = 1 / 0", 2),
        ("def f():\n    return 1 / 0\n\nf()", 2),
        ("import json\n\njson.loads('{')", 3),
        ("x = 1\ny = (", 2),
    ],
)
def test_a_reward_file_that_fails_says_at_which_line(refused: Refused, files: Files, code: str, line: int) -> None:
    (files.folder / "broken.py").write_text(code)
    assert f"broken.py:{line} failed" in refused("score", files.write([GOOD]), "-r", f"{files.folder / 'broken.py'}:reward")


@pytest.mark.parametrize(("spec", "says"), [("no.py:reward", "no such file"), ("nomod:reward", "no module named"), ("reward", "expected")])
def test_a_reward_that_is_nowhere(refused: Refused, files: Files, spec: str, says: str) -> None:
    assert says in refused("score", files.write([GOOD]), "-r", spec)


def test_the_reward_is_asked_for(refused: Refused, files: Files) -> None:
    assert "--reward" in refused("score", files.write([GOOD]))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--rewrd", "x"], "Did you mean '--reward'"),
        (["--limit", "0"], "--limit"),
        (["--deadline", "soon"], "'soon' is not a valid number in the range x>0"),
        (["--limit", "few"], "'few' is not a valid whole number in the range x>=1"),
        (["--columns", "anwser=solution"], "did you mean 'answer'"),
        (["--columns", "answer=solution"], "no row has 'solution'; they have prompt, answer, completion"),
        (["--columns", "answer"], "name=key pairs"),
    ],
)
def test_a_wrong_option(refused: Refused, files: Files, options: list[str], says: str) -> None:
    assert says in refused("score", files.write([GOOD]), "-r", files.reward(), *options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--keep", "0.8:0.2"], "low <= high"),
        (["--keep", "0.2-0.8"], "--keep: expected LOW:HIGH, e.g. 0.2:0.8, got '0.2-0.8'"),
        (["--keep", "abc"], "--keep: expected LOW:HIGH, e.g. 0.2:0.8, got 'abc'"),
        (["--keep", "20:80"], "--keep: expected LOW:HIGH with 0 <= low <= high <= 1, e.g. 0.2:0.8"),
        (["--pass-at", "all"], "'all' is not a valid number in the range 0<x<=1"),
        (["--keep", "0.1:0.9", "--zero-variance", "outcome"], "two rules"),
        (["--zero-variance", "total"], "--zero-variance"),
        (["--pass-at", "0"], "--pass-at"),
        (["--json", "-o", "-"], "both write to stdout"),
    ],
)
def test_a_wrong_option_of_filter(refused: Refused, files: Files, options: list[str], says: str) -> None:
    assert says in refused("filter", files.write([GOOD]), "-r", files.reward(), *options)


def test_a_missing_input_file_says_where_it_was_looked_for(refused: Refused, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files.folder)
    line = refused("score", "nowhere.jsonl", "-r", files.reward())
    assert line.startswith(f"guerdon: nowhere.jsonl: no such file in {files.folder}; name it from the working directory")
    assert f"no directory {files.folder}/no" in refused("score", "no/rollouts.jsonl", "-r", files.reward())


def test_a_misspelt_input_file_is_recognised(refused: Refused, files: Files) -> None:
    path = files.write([GOOD])
    assert f"did you mean '{path}'?" in refused("score", path.replace("rollouts", "rolouts"), "-r", files.reward())


@pytest.mark.parametrize("name", ["r.csv", "r.TSV", "r.xlsx", "r.jsonl.zst"])
def test_a_format_that_is_not_read_is_named_with_those_that_are(refused: Refused, files: Files, name: str) -> None:
    (files.folder / name).write_text("prompt,completion\n2+2?,4\n")
    line = refused("score", str(files.folder / name), "-r", files.reward())
    assert f"{Path(name).suffix} files are not read, JSONL, gzipped JSONL and Parquet are" in line


def test_a_token_count_in_quotes_says_how_to_write_it(guerdon: Callable[..., Result], files: Files) -> None:
    result = guerdon("score", files.write([{**GOOD, "num_tokens": "5"}]), "-r", files.reward())
    assert "expected a count of tokens, got '5'; write a whole number, without quotes" in result.stderr


def test_a_directory_as_input(refused: Refused, files: Files) -> None:
    assert "is a directory" in refused("score", str(files.folder), "-r", files.reward())


@pytest.mark.parametrize(("output", "says"), [("", "is a directory"), ("no/out.jsonl", "create it first"), ("out.parquet", ".jsonl")])
def test_an_output_that_cannot_be(refused: Refused, files: Files, output: str, says: str) -> None:
    assert says in refused("score", files.write([GOOD]), "-r", files.reward(), "-o", str(files.folder / output))


def test_an_output_in_a_folder_that_cannot_be_written(refused: Refused, files: Files) -> None:
    locked = files.folder / "locked"
    locked.mkdir(mode=0o500)
    folder = Path("/proc") if os.geteuid() == 0 else locked  # root may write anywhere else
    line = refused("score", files.write([GOOD]), "-r", files.reward(), "-o", str(folder / "out.jsonl"))
    assert line.startswith(f"guerdon: {folder}/out.jsonl: cannot be written")


@pytest.mark.parametrize("name", ["rollouts.jsonl", "./rollouts.jsonl", "link.jsonl", "rewards.py"])
def test_an_output_that_is_an_input(refused: Refused, files: Files, name: str) -> None:
    path = files.write([GOOD])
    before = Path(path).read_bytes()
    (files.folder / "link.jsonl").symlink_to(path)
    assert "would be overwritten" in refused("score", path, "-r", files.reward(), "-o", f"{files.folder}/{name}")
    assert Path(path).read_bytes() == before


def test_token_counts_that_all_rows_lack(refused: Refused, files: Files) -> None:
    line = refused("score", files.write([GOOD]), "-r", files.reward("counted"), "-o", str(files.folder / "out.jsonl"))
    assert "'num_tokens'" in line
    assert "tokenizer=" in line
    assert "rollouts.jsonl:1" in line
    assert files.names() == {"rollouts.jsonl"}


def test_a_column_that_all_rows_lack(refused: Refused, files: Files) -> None:
    line = refused("score", files.write([{"prompt": "p", "completion": "x", "reference": "y"}]), "-r", files.reward())
    assert "reads column 'answer'" in line
    assert "reference" in line


def test_rows_that_cannot_be_grouped(refused: Refused, files: Files) -> None:
    path = files.write([{"completion": "x", "answer": "x"}])
    assert "--columns group=KEY" in refused("filter", path, "-r", files.reward())
    assert "--columns group=KEY" in refused("score", path, "-r", files.reward("grouped"))


def test_scattered_groups(refused: Refused, files: Files) -> None:
    path = files.write([{**GOOD, "prompt": name} for name in "aba"])
    assert f"{path}:3:" in refused("filter", path, "-r", files.reward())


def test_a_reward_without_outcome_cannot_filter(refused: Refused, files: Files) -> None:
    assert "with_outcome" in refused("filter", files.write([GOOD]), "-r", files.reward("brief"))


def test_a_broken_reward_stops_the_run(guerdon: Callable[..., Result], files: Files) -> None:
    path = files.write([{**GOOD, "prompt": f"{i}", "completion": "?"} for i in range(1100)])
    result = guerdon("score", path, "-r", files.reward(), "-o", str(files.folder / "out.jsonl"))
    assert result.exit_code == 2
    assert "could not be scored: right error exception" in result.stderr
    assert f"e.g. right at {path}:1: RuntimeError: broken" in result.stderr
    assert result.stderr.count("\n") == 1
    assert "--max-broken" in result.stderr
    assert files.names() == {"rollouts.jsonl"}


def test_parquet_without_pyarrow_names_the_pip_line(refused: Refused, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    (files.folder / "r.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert "pip install 'guerdon[datasets]'" in refused("score", str(files.folder / "r.parquet"), "-r", files.reward())


def test_parquet_on_stdin_is_refused(refused: Refused, files: Files) -> None:
    assert "name the file" in refused("score", "-", "-r", files.reward(), input=b"PAR1")


def test_a_message_does_not_command_the_terminal(refused: Refused, files: Files) -> None:
    assert "\x1b" not in refused("score", files.write([{"\x1b[2J": "x"}]), "-r", files.reward())


def test_an_unknown_command(refused: Refused) -> None:
    assert "Did you mean" in refused("scor")


@pytest.mark.parametrize("rollouts", [5, "4", {"a": 1}, None])
def test_a_row_whose_rollouts_are_no_list_is_skipped_wherever_it_stands(
    guerdon: Callable[..., Result], files: Files, rollouts: object
) -> None:
    rows = [{"prompt": "p", "answer": "4", "rollouts": rollouts}, {"prompt": "q", "answer": "4", "rollouts": ["4"]}]
    result = guerdon("score", files.write(rows), "-r", files.reward(), "--json")
    assert result.exit_code == 0
    assert ":1: 'rollouts': expected a list of rollouts" in result.stderr
