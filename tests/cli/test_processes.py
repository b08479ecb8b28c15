"""The command line as a process: pipes that close, signals, and what is left on disk."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import Files, process

SLOW = """
import time
import guerdon.rewards as R


def wait(rollout):
    time.sleep(0.01)
    return 1.0


reward = R.from_function(wait, name="wait")
"""


def start_scoring(files: Files) -> subprocess.Popen[bytes]:
    """A process in the middle of writing scores."""
    (files.folder / "slow.py").write_text(SLOW)
    path = files.write({"prompt": f"{i}", "completion": "x"} for i in range(20_000))
    running = process("score", path, "-r", f"{files.folder / 'slow.py'}:reward", "-o", str(files.folder / "out.jsonl"))
    give_up = time.monotonic() + 20
    while not any(name.endswith(".tmp") for name in files.names()):
        assert time.monotonic() < give_up, "it never began to write"
        assert running.poll() is None, running.stderr and running.stderr.read()
        time.sleep(0.01)
    return running


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_leaves_no_file(files: Files, sent: signal.Signals, code: int) -> None:
    running = start_scoring(files)
    running.send_signal(sent)
    stdout, stderr = running.communicate(timeout=20)
    assert (running.returncode, stdout) == (code, b"")
    assert b"Traceback" not in stderr
    assert files.names() == {"rollouts.jsonl", "slow.py"}


def test_a_killed_run_leaves_nothing_under_the_final_name(files: Files) -> None:
    (files.folder / "out.jsonl").write_text("before\n")
    running = start_scoring(files)
    running.kill()
    running.communicate(timeout=20)
    assert (files.folder / "out.jsonl").read_text() == "before\n"


@pytest.mark.parametrize("args", [["score", "-o", "-"], ["score"], ["score", "--json"], ["filter"], ["demo"], ["--help"]])
@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_failure(files: Files, args: list[str]) -> None:
    if args[0] in ("score", "filter"):
        path = files.write({"prompt": f"{i}", "answer": "x", "completion": "x" * 50} for i in range(3000))
        args = [args[0], path, "-r", files.reward(), *args[1:]]
    read, write = os.pipe()
    os.close(read)
    running = subprocess.run(
        [sys.executable, "-c", "from guerdon.cli import main; main()", *args], stdout=write, stderr=subprocess.PIPE, timeout=30
    )
    os.close(write)
    assert (running.returncode, running.stderr) == (0, b"")


def test_pipes_show_no_progress_and_no_colour(files: Files) -> None:
    running = process("score", files.write([{"prompt": "p", "answer": "x", "completion": "x"}]), "-r", files.reward())
    stdout, stderr = running.communicate(timeout=20)
    assert stderr == b""
    assert b"\x1b" not in stdout


def test_the_exit_code_of_a_refusal_is_2(files: Files) -> None:
    running = process("score", "nowhere.jsonl", "-r", files.reward())
    assert running.communicate(timeout=20)[1].startswith(b"guerdon: nowhere.jsonl: no such file")
    assert running.returncode == 2


def test_the_package_is_the_command() -> None:
    running = subprocess.run([sys.executable, "-m", "guerdon", "--version"], capture_output=True, text=True, timeout=20)
    assert (running.returncode, running.stdout.split()[0], running.stderr) == (0, "guerdon", "")


def test_warnings_are_one_line(files: Files) -> None:
    rows = ({"prompt": f"{i}", "answer": "x", "completion": "?" if i % 3 == 0 else "x"} for i in range(1024))
    running = process("score", files.write(rows), "-r", files.reward(), "--json")
    stderr = running.communicate(timeout=20)[1].decode()
    assert stderr.startswith("guerdon: warning: reward 'total': 342 of the last 1024 rows")
    assert stderr.count("\n") == 1


def test_a_named_pipe_can_be_read(files: Files) -> None:
    pipe = files.folder / "pipe"
    os.mkfifo(pipe)
    running = process("score", str(pipe), "-r", files.reward(), "--json")
    pipe.write_text('{"prompt": "p", "answer": "x", "completion": "x"}\n')
    assert running.communicate(timeout=20)[0].startswith(b"{")


def test_an_old_terminal_gets_what_it_can_show(files: Files) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    running = process("filter", files.write([{"prompt": "p", "answer": "x", "completion": "x"}]), "-r", files.reward(), env=env)
    assert running.communicate(timeout=20)[1] == b""
    assert running.returncode == 0


def test_a_terminal_gets_a_bar_and_colour(files: Files) -> None:
    import pty

    path = files.write({"prompt": f"{i}", "answer": "x", "completion": "x"} for i in range(3000))
    main, other = pty.openpty()
    command = [sys.executable, "-c", "from guerdon.cli import main; main()", "score", path, "-r", files.reward()]
    running = subprocess.Popen(command, stdout=other, stderr=other)
    os.close(other)
    shown = b""
    with contextlib.suppress(OSError):  # Linux says so when the other side closes
        while block := os.read(main, 65536):
            shown += block
    os.close(main)
    assert running.wait(timeout=20) == 0
    assert "3,000 rollouts" in shown.decode()
    assert b"\x1b[1m" in shown


def test_a_module_beside_the_caller_can_be_named(files: Files) -> None:
    path = files.write([{"prompt": "p", "answer": "x", "completion": "x"}])
    running = process("score", path, "-r", "rewards:reward", "--json", cwd=Path(files.folder))
    assert running.communicate(timeout=20)[0].startswith(b"{")


def test_help_loads_nothing_heavy() -> None:
    code = "import sys\nfrom guerdon.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {name.partition(".")[0] for name in loaded} & {"numpy", "rich", "sympy", "asyncio", "jsonschema", "httpx", "torch"} == set()


@pytest.mark.parametrize(
    ("redirection", "code", "says"),
    [(">&-", 0, ""), ("2>&-", 0, ""), ("-o - >&-", 2, "stdout is closed"), ("--json >&-", 0, "")],
)
def test_closed_descriptors_are_no_traceback(files: Files, redirection: str, code: int, says: str) -> None:
    path = files.write([{"prompt": "p", "answer": "x", "completion": "x"}])
    command = f"{sys.executable} -c 'from guerdon.cli import main; main()' score {path} -r {files.reward()} {redirection}"
    running = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=20)
    assert running.returncode == code, running.stderr
    assert "Traceback" not in running.stderr
    assert says in running.stderr


def test_a_closed_stdin_is_refused(files: Files) -> None:
    command = f"{sys.executable} -c 'from guerdon.cli import main; main()' score - -r {files.reward()} <&-"
    running = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=20)
    assert (running.returncode, running.stderr) == (2, "guerdon: stdin is closed: name a file of rows\n")


def test_an_output_that_the_shell_made_stdin_is_refused(files: Files) -> None:
    path = files.write([{"prompt": "p", "answer": "x", "completion": "x"}])
    before = Path(path).read_bytes()
    with open(path, "rb") as stdin:
        running = process("score", "-", "-r", files.reward(), "-o", path, stdin=stdin)
        assert b"is also the input" in running.communicate(timeout=20)[1]
    assert running.returncode == 2
    assert Path(path).read_bytes() == before


def test_gzip_in_a_pipe_that_gives_one_byte_first_is_recognised(files: Files) -> None:
    raw = gzip.compress(b'{"prompt": "p", "answer": "x", "completion": "x"}\n')
    running = process("score", "-", "-r", files.reward(), "--json", stdin=subprocess.PIPE)
    assert running.stdin is not None
    running.stdin.write(raw[:1])
    running.stdin.flush()
    time.sleep(1.0)  # longer than the command takes to start and look
    stdout, stderr = running.communicate(raw[1:], timeout=20)
    assert (stdout[:1], stderr) == (b"{", b"")


@pytest.mark.parametrize("options", [["--json"], ["-o", "-"]])
def test_what_a_reward_prints_stays_out_of_stdout(files: Files, options: list[str]) -> None:
    chatty = "print('loading')\nimport guerdon.rewards as R\nreward = R.from_function(lambda rollout: print('scoring') or 1.0, name='f')\n"
    (files.folder / "chatty.py").write_text(chatty)
    path = files.write([{"prompt": "p", "completion": "x"}])
    running = process("score", path, "-r", f"{files.folder / 'chatty.py'}:reward", *options)
    stdout, stderr = running.communicate(timeout=20)
    assert running.returncode == 0
    assert [json.loads(line) for line in stdout.splitlines()]
    assert stderr.splitlines()[:2] == [b"loading", b"scoring"]
