"""What a run says: status, streams, limits, and how Python programs behave."""

from __future__ import annotations

from typing import Any

import pytest

from guerdon.errors import ConfigError
from guerdon.sandboxes import Job, Limits


@pytest.mark.parametrize(
    ("code", "status", "code_or_signal"),
    [
        ("print(1)", "ok", 0),
        ("import sys; sys.exit(3)", "nonzero", 3),
        ("import sys; sys.exit('sorry')", "nonzero", 1),
        ("1 / 0", "nonzero", 1),
        ("import os; os._exit(7)", "nonzero", 7),
        ("raise SystemExit", "ok", 0),
        ("import ctypes; ctypes.string_at(0)", "signal", 11),
        ("def f(:", "compile_error", 1),
        ("a = '\0'", "compile_error", 1),
        ("a = '\ud800'", "compile_error", 1),
        ("x" + "+x" * 200_000, "compile_error", None),
        ("x = bytearray(1 << 33)", "memory", 1),
        ("", "ok", 0),
    ],
)
def test_the_status_says_how_it_ended(box: Any, code: str, status: str, code_or_signal: int | None) -> None:
    result = box.run(Job(code))
    if code_or_signal is None:  # depends on the interpreter's stack
        assert result.status in (status, "signal", "memory")
    else:
        assert (result.status, result.exit_code if result.signal is None else result.signal) == (status, code_or_signal), result


def test_cpu_and_wall_limits_are_told_apart(box: Any) -> None:
    limits = Limits(cpu_s=0.3, wall_s=0.6)
    spin, sleep = box.run_many(
        [Job("while True: pass", limits=Limits(cpu_s=0.3, wall_s=20)), Job("import time; time.sleep(9)", limits=limits)]
    )
    assert (spin.status, spin.timed_out_by, sleep.status, sleep.timed_out_by) == ("timeout", "cpu", "timeout", "wall")
    assert 0.25 < spin.cpu_s < 1.0
    assert sleep.cpu_s < 0.2


def test_threads_count_towards_the_cpu_limit(box: Any) -> None:
    code = """
import threading, hashlib
def spin():
    while True: hashlib.sha256(bytes(1 << 20))
for _ in range(2): threading.Thread(target=spin).start()
"""
    result = box.run(Job(code, limits=Limits(cpu_s=0.5, wall_s=20)))
    assert (result.status, result.timed_out_by) == ("timeout", "cpu")


def test_streams_are_kept_apart(box: Any) -> None:
    result = box.run(Job("import sys, os; print('out'); print('err', file=sys.stderr); os.write(3, b'private')", channel=True))
    assert (result.stdout, result.stderr, result.channel) == (b"out\n", b"err\n", b"private")


def test_the_channels_number_is_in_the_environment(box: Any) -> None:
    assert box.run(Job("import os; print(os.environ['GUERDON_CHANNEL'])", channel=True)).stdout == b"3\n"
    assert box.run(Job("import os; print('GUERDON_CHANNEL' in os.environ)")).stdout == b"False\n"


def test_a_flooded_channel_ends_the_run(box: Any) -> None:
    result = box.run(Job("import os\nwhile True: os.write(3, bytes(65536))", channel=True, limits=Limits(output_kb=64)))
    assert (result.status, len(result.channel)) == ("output_limit", 65536)


@pytest.mark.parametrize(
    "how",
    [
        "input()",
        "__import__('sys').stdin.buffer.read().decode()",
        "open(0).read()",
        "open('/dev/stdin').read()",
        "__import__('os').read(0, 99).decode()",
    ],
)
def test_the_input_can_be_read_in_every_way(box: Any, how: str) -> None:
    assert box.run(Job(f"print({how}.strip())", stdin=b"1 2\n")).stdout == b"1 2\n"


def test_input_after_its_end_raises(box: Any) -> None:
    assert b"EOFError" in box.run(Job("input(); input()", stdin=b"1")).stderr


def test_a_large_input_and_output_pass_through(box: Any) -> None:
    data = b"x" * 3_000_000
    result = box.run(Job("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())", stdin=data))
    assert result.stdout == data


def test_odd_bytes_survive(box: Any) -> None:
    assert box.run(Job("print(input())", stdin=b"\xff\xfe \xc3\xa9")).stdout == b"\xff\xfe \xc3\xa9\n"


def test_arguments_and_main_are_as_for_a_script(box: Any) -> None:
    code = "import sys\nif __name__ == '__main__': print(sys.argv, __file__, __import__('__main__').x)\nx = 1"
    assert box.run(Job("x = 1\n" + code, args=("a", "b c"))).stdout == b"['solution.py', 'a', 'b c'] solution.py 1\n"


def test_threads_and_exit_handlers_finish(box: Any) -> None:
    code = """
import atexit, threading, time
atexit.register(print, "bye")
threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
print("main")
"""
    assert box.run(Job(code)).stdout == b"main\nthread\nbye\n"


def test_a_traceback_shows_the_program_only(box: Any) -> None:
    stderr = box.run(Job("def f():\n    return 1 / 0\nf()")).stderr.decode()
    assert stderr.count("File ") == stderr.count('File "solution.py"') == 2
    assert "return 1 / 0" in stderr


@pytest.mark.parametrize("code", ["print(list({'a', 'b', 'c', 'd'}), hash('x'))", "import random; print(random.random())"])
def test_equal_programs_give_equal_output(box: Any, code: str) -> None:
    assert len({result.stdout for result in box.run_many([Job(code)] * 6)}) == 1


def test_subprocesses_and_multiprocessing_work_where_processes_are_private(box: Any) -> None:
    if box.capabilities().level != "namespaces":
        pytest.skip("threads only")
    code = """
import multiprocessing, subprocess
def square(x): return x * x
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool: print(pool.map(square, [1, 2]))
    print(subprocess.run(["/bin/echo", "sub"], capture_output=True).stdout)
"""
    assert box.run(Job(code)).stdout == b"[1, 4]\nb'sub\\n'\n"


def test_results_keep_the_order_of_the_jobs(box: Any) -> None:
    jobs = [Job(f"import time; time.sleep({0.05 if n % 3 == 0 else 0}); print({n})") for n in range(24)]
    assert [int(result.stdout) for result in box.run_many(jobs)] == list(range(24))


def test_no_jobs_no_results(box: Any) -> None:
    assert box.run_many([]) == []


def test_an_unknown_language_is_no_statement_about_the_program(box: Any) -> None:
    result = box.run(Job("x", language="cobol"))
    assert (result.status, result.level) == ("infra_error", box.capabilities().level)
    assert "cobol" in result.detail


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": b"x"}, "source must be str"),
        ({"stdin": "x"}, "stdin must be bytes"),
        ({"files": (("/etc/x", b""),)}, "relative path"),
        ({"files": (("../x", b""),)}, "relative path"),
        ({"files": (("x", "text"),)}, "relative path"),
        ({"args": ("a\0b",)}, "without NUL"),
        ({"flags": ("-O",)}, "takes no flags"),
        ({"limits": 3}, "limits must be Limits"),
        ({"language": ""}, "language must be a name"),
    ],
)
def test_a_wrong_job_is_refused_when_built(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Job(**{"source": "", **fields})


@pytest.mark.parametrize(
    "fields", [{"cpu_s": 0}, {"wall_s": float("inf")}, {"cpu_s": True}, {"memory_mb": 1.5}, {"output_kb": 0}, {"open_files": 3}]
)
def test_wrong_limits_are_refused_when_built(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(fields))):
        Limits(**fields)
