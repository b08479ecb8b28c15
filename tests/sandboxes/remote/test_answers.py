"""Every answer of the two schemas, and answers of none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.sandboxes import Job, Limits, Piston, RunResult, SandboxFusion
from guerdon.sandboxes.remote_schemas import BadAnswer, body, result

FUSION, PISTON = SandboxFusion("http://fusion"), Piston("http://piston", versions=(("c++", "10.2.0"),))
LIMITS = Limits(cpu_s=2.0, wall_s=6.0, memory_mb=64)


def fusion(overall: str = "Failed", /, compiled: Any = None, **run: Any) -> RunResult:
    stage = {"status": "Finished", "execution_time": 0.5, "return_code": 0, "stdout": "", "stderr": "", **run}
    data = {"status": overall, "message": "m", "compile_result": compiled, "run_result": stage if run else None}
    return result(FUSION, Job(""), LIMITS, json.dumps(data).encode())


def piston(compiled: Any = None, **run: Any) -> RunResult:
    data = {"language": "python", "version": "3", "run": {"stdout": "", "stderr": "", "output": "", "code": 0, "signal": None, **run}}
    return result(PISTON, Job(""), LIMITS, json.dumps(data | ({"compile": compiled} if compiled else {})).encode())


@pytest.mark.parametrize(
    ("run", "status", "clock"),
    [
        ({"return_code": 0}, "ok", ""),
        ({"return_code": 2}, "nonzero", ""),
        ({"return_code": -11}, "signal", ""),
        ({"return_code": 1, "stderr": "Traceback\nMemoryError\n"}, "memory", ""),
        ({"status": "TimeLimitExceeded", "return_code": None}, "timeout", "wall"),
        ({"status": "TimeLimitExceeded", "return_code": None, "stdout": "x" * 150_000}, "output_limit", ""),
        ({"return_code": 0, "stdout": "x" * 196_608}, "output_limit", ""),
        ({"status": "Error", "return_code": None}, "infra_error", ""),
        ({"status": "Finished", "return_code": None}, "infra_error", ""),
    ],
)
def test_what_sandbox_fusion_says_of_a_run(run: dict[str, Any], status: str, clock: str) -> None:
    found = fusion(**run)
    assert (found.status, found.timed_out_by) == (status, clock)


@pytest.mark.parametrize(
    ("run", "status", "clock"),
    [
        ({}, "ok", ""),
        ({"code": 1, "status": "RE"}, "nonzero", ""),
        ({"code": None, "signal": "SIGSEGV"}, "signal", ""),
        ({"code": None, "signal": "SIGKILL", "status": "SG", "memory": 64 << 20}, "memory", ""),
        ({"code": None, "signal": "SIGKILL", "status": "TO", "cpu_time": 2001, "wall_time": 2100}, "timeout", "cpu"),
        ({"code": None, "signal": "SIGKILL", "status": "TO", "cpu_time": 3, "wall_time": 6001}, "timeout", "wall"),
        ({"code": None, "signal": "SIGKILL", "status": "TO"}, "timeout", "wall"),
        ({"code": None, "signal": "SIGKILL", "status": "OL"}, "output_limit", ""),
        ({"code": None, "signal": "SIGKILL", "status": "EL"}, "output_limit", ""),
        ({"code": None, "signal": "SIGKILL", "message": "stdout length exceeded"}, "output_limit", ""),
        ({"code": None, "signal": None, "status": "XX"}, "infra_error", ""),
    ],
)
def test_what_piston_says_of_a_run(run: dict[str, Any], status: str, clock: str) -> None:
    found = piston(**run)
    assert (found.status, found.timed_out_by) == (status, clock)


def test_a_failed_compilation_is_a_compile_error_with_the_compilers_words() -> None:
    stage = {"status": "Finished", "execution_time": 1.0, "return_code": 1, "stdout": "", "stderr": "no"}
    found = [fusion(compiled=stage), piston({"stdout": "", "stderr": "no", "output": "no", "code": 1, "signal": None}, code=1)]
    assert [(one.status, one.stderr) for one in found] == [("compile_error", b"no")] * 2


@pytest.mark.parametrize("stage", [{"status": "TimeLimitExceeded", "return_code": None}, {"status": "Finished", "return_code": 1}])
def test_a_compiler_that_ran_out_of_time_is_a_compile_error_too(stage: dict[str, Any]) -> None:
    assert fusion(compiled=stage).status == "compile_error"


def test_a_service_that_failed_says_nothing_of_the_program() -> None:
    assert fusion("SandboxError", return_code=0).status == "infra_error"


@pytest.mark.parametrize("spec", [FUSION, PISTON])
@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"<html>", b"null", b"[]", b"{}", b'"ok"', b"[" * 100_000, b"\xff\xfe"),
        *(b'{"status": "Success"}', b'{"status": "Done", "run_result": null}'),
        b'{"status": "Success", "run_result": {"status": "Finished", "return_code": 0.0}}',
        *(b'{"run": []}', b'{"run": {"code": "0"}}', b'{"run": {"code": 0, "stdout": 5}}'),
        *(b'{"run": {"code": null, "signal": null}}', b'{"run": {"code": true}}'),
    ],
)
def test_an_answer_of_another_schema_is_refused(spec: Any, answer: bytes) -> None:
    with pytest.raises(BadAnswer):
        result(spec, Job(""), LIMITS, answer)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
)
FIELDS = ("status", "return_code", "stdout", "stderr", "execution_time", "code", "signal", "memory", "message", "cpu_time", "wall_time")
STAGE = st.dictionaries(st.sampled_from(FIELDS), JSON | st.sampled_from(["Finished", "TO", "SIGKILL", 0, 1]))


@given(st.dictionaries(st.sampled_from(["status", "run_result", "compile_result", "run", "compile"]), STAGE | JSON | st.just("Success")))
def test_any_answer_is_a_result_or_refused(data: dict[str, Any]) -> None:
    for spec in (FUSION, PISTON):
        try:
            found = result(spec, Job("", channel=True), LIMITS, json.dumps(data).encode())
        except BadAnswer:
            continue
        assert isinstance(found, RunResult)


def test_a_request_to_sandbox_fusion_has_its_fields() -> None:
    sent = json.loads(body(FUSION, Job("s", language="javascript", stdin=b"i", files=(("f", b"c"),)), LIMITS))
    times = {"compile_timeout": 10.0, "run_timeout": 6.0, "memory_limit_MB": 64}
    assert sent == {**times, "code": "s", "stdin": "i", "language": "nodejs", "files": {"f": "Yw=="}, "fetch_files": []}


def test_a_request_to_piston_has_its_fields() -> None:
    sent = json.loads(body(PISTON, Job("s", language="cpp", stdin=b"i", args=("a",), files=(("f", b"c"),)), LIMITS))
    files = [{"name": "main.cpp", "content": "s", "encoding": "utf8"}, {"name": "f", "content": "Yw==", "encoding": "base64"}]
    assert (sent["language"], sent["version"], sent["files"], sent["args"], sent["stdin"]) == ("c++", "10.2.0", files, ["a"], "i")
    assert (sent["run_timeout"], sent["run_cpu_time"], sent["compile_timeout"], sent["run_memory_limit"]) == (6000, 2000, 10000, 64 << 20)
