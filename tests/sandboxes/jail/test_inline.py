"""The sandbox that is none: it keeps the protocol, and says what it is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from guerdon.errors import ConfigError
from guerdon.sandboxes import Job, Limits, Sandbox, Zygote, close, sandbox, until
from guerdon.sandboxes.inline import Inline


def test_it_refuses_unless_told() -> None:
    with pytest.raises(ConfigError, match="allow_unsafe=True"):
        Inline()
    with pytest.raises(ConfigError, match="isolates nothing"):
        Inline(allow_unsafe=True, min_isolation="landlock")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("print(input())", "ok"),
        ("raise SystemExit(2)", "nonzero"),
        ("def f(:", "compile_error"),
        ("import os; os.kill(os.getpid(), 11)", "signal"),
        ("print('x' * 5000000)", "output_limit"),
        ("import time; time.sleep(9)", "timeout"),
    ],
)
def test_the_statuses_are_those_of_real_sandboxes(code: str, status: str) -> None:
    with Inline(allow_unsafe=True).start() as box:
        result = box.run(Job(code, stdin=b"in", limits=Limits(wall_s=1.0, output_kb=100)))
    assert (result.status, result.level, result.backend) == (status, "none", "inline")


def test_channel_files_and_arguments_work() -> None:
    job = Job(
        "import os, sys; os.write(3, open('d/f').read().encode()); print(sys.argv[1])", files=(("d/f", b"x"),), args=("a",), channel=True
    )
    with Inline(allow_unsafe=True, workers=2).start() as box:
        results = box.run_many([job, job])
    assert [(result.stdout, result.channel) for result in results] == [(b"a\n", b"x")] * 2


def test_the_deadline_bounds_it() -> None:
    with Inline(allow_unsafe=True).start() as box, until(time.monotonic() + 0.3):
        results = box.run_many([Job("import time; time.sleep(9)")] * 2)
    assert {(result.status, result.timed_out_by) for result in results} == {("infra_error", "deadline")}


def test_specs_give_sandboxes_and_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "boxes.py").write_text("from guerdon.sandboxes.inline import Inline\nmine = Inline(allow_unsafe=True)\n")
    for spec in (f"{tmp_path / 'boxes.py'}:mine", Inline(allow_unsafe=True), Zygote(workers=1)):
        assert isinstance(sandbox(spec), Sandbox)
    close()
    with pytest.raises(ConfigError, match="expected a spec"):
        sandbox(3)  # type: ignore[arg-type]
