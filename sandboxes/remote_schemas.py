"""What SandboxFusion and Piston are sent and what their answers mean: pure functions, without a network.

An answer is the word of a machine that also ran the program: every field is checked, and what does not fit raises BadAnswer.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from guerdon.sandboxes.asking import BadAnswer
from guerdon.sandboxes.base import Job, Limits, RunResult, RunStatus
from guerdon.sandboxes.languages import main_class
from guerdon.sandboxes.remote import Piston, SandboxFusion
from guerdon.sandboxes.remote_driver import driver, encoded, split

__all__ = ["LANGUAGES", "BadAnswer", "Refused", "body", "path", "result"]

LANGUAGES: dict[str, tuple[str, str, str]] = {  # name there (SandboxFusion, Piston), file
    "python": ("python", "python", "main.py"),
    "cpp": ("cpp", "c++", "main.cpp"),
    "java": ("java", "java", "Main.java"),
    "javascript": ("nodejs", "javascript", "main.js"),
    "bash": ("bash", "bash", "main.sh"),
    "go": ("go", "go", "main.go"),
    "rust": ("rust", "rust", "main.rs"),
}
_FUSION_CUT = 196608  # bytes of output it keeps
_FUSION_PIPE = 131072  # a program stalls on more than two pipes hold, and is then called too slow
_MEMORY = re.compile(rb"^(?:\w+\.)*_?(?:Array)?MemoryError\b|std::bad_alloc|OutOfMemoryError|heap out of memory", re.MULTILINE)


class Refused(ValueError):
    """A job that this service cannot run."""


def path(spec: SandboxFusion | Piston) -> str:
    """The whole address to post to."""
    return spec.url.rstrip("/") + ("/run_code" if isinstance(spec, SandboxFusion) else "/api/v2/execute")


def body(spec: SandboxFusion | Piston, job: Job, limits: Limits) -> bytes:
    """The request of a job. Raises Refused where the service has no way to run it."""
    if job.language not in LANGUAGES:
        raise Refused(f"{spec.backend} is not known to run {job.language!r}")
    if job.flags:
        raise Refused(f"{spec.backend} takes no compiler flags")
    driven = job.channel or _odd(job.source.encode("utf-8", "surrogatepass")) or _odd(job.stdin)
    driven = driven or (bool(job.args) and isinstance(spec, SandboxFusion))
    if driven:
        if job.language != "python":
            raise Refused(f"{spec.backend} runs {job.language} programs without channel and with text only")
        job = Job(driver(job, limits))
    sent = _fusion(spec, job, limits) if isinstance(spec, SandboxFusion) else _piston(spec, job, limits)
    return json.dumps(sent).encode()


def result(spec: SandboxFusion | Piston, job: Job, limits: Limits, answer: bytes) -> RunResult:
    """What an answer says of the program. Raises BadAnswer."""
    try:
        data = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"no JSON: {answer[:100]!r}") from error
    if not isinstance(data, dict):
        _bad("an object", data)
    read = _read_fusion(data, limits) if isinstance(spec, SandboxFusion) else _read_piston(data, limits)
    fields = split(read) if job.channel else read
    return RunResult(**_bounded(fields, limits), level="remote", backend=spec.backend)


# requests


def _fusion(spec: SandboxFusion, job: Job, limits: Limits) -> dict[str, Any]:
    return {
        "compile_timeout": spec.compile_s,
        "run_timeout": limits.wall_s,
        "memory_limit_MB": limits.memory_mb,
        "code": job.source,
        "stdin": job.stdin.decode(),
        "language": LANGUAGES[job.language][0],
        "files": {path: encoded(content) for path, content in job.files},
        "fetch_files": [],
    }


def _piston(spec: Piston, job: Job, limits: Limits) -> dict[str, Any]:
    _, name, file = LANGUAGES[job.language]
    file = f"{main_class(job.source)}.java" if job.language == "java" else file
    files = [{"name": file, "content": job.source, "encoding": "utf8"}]
    files += [{"name": path, "content": encoded(content), "encoding": "base64"} for path, content in job.files]
    return {
        "language": name,
        "version": dict(spec.versions).get(name, "*"),
        "files": files,
        "stdin": job.stdin.decode(),
        "args": list(job.args),
        "run_timeout": round(limits.wall_s * 1000),
        "compile_timeout": round(spec.compile_s * 1000),
        "run_cpu_time": round(limits.cpu_s * 1000),
        "compile_cpu_time": round(spec.compile_s * 1000),
        "run_memory_limit": limits.memory_mb << 20,
        "compile_memory_limit": -1,
    }


def _odd(content: bytes) -> bool:
    """Whether bytes cannot travel as JSON text."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return True
    return False


# answers


def _read_fusion(data: dict[str, Any], limits: Limits) -> dict[str, Any]:
    status = _text(data, "status", ("Success", "Failed", "SandboxError"))
    if status == "SandboxError":
        return _infra(f"the service failed: {data.get('message')!r}"[:500])
    compiled, run = _part(data, "compile_result"), _part(data, "run_result")
    if compiled is not None:
        ended, code = _fusion_stage(compiled)
        if ended == "Error":
            return _infra("the service could not start the compiler")
        if ended == "TimeLimitExceeded" or code:
            late = "compiling took too long" if ended == "TimeLimitExceeded" else ""
            return {"status": "compile_error", "exit_code": code, "stderr": _bytes(compiled, "stderr"), "detail": late}
    if run is None:
        _bad("a run_result", data)
    ended, code = _fusion_stage(run)
    if ended == "Error" or (ended == "Finished" and code is None):
        return _infra("the service could not run the program")
    fields: dict[str, Any] = {
        "stdout": _bytes(run, "stdout"),
        "stderr": _bytes(run, "stderr"),
        "wall_s": _seconds(run, "execution_time", 1.0),
    }
    longest = max(len(fields["stdout"]), len(fields["stderr"]))
    if longest >= (_FUSION_PIPE if ended == "TimeLimitExceeded" else _FUSION_CUT):
        return {**fields, "status": "output_limit", "detail": "more output than the service keeps"}
    if ended == "TimeLimitExceeded":
        return {**fields, "status": "timeout", "timed_out_by": "wall", "detail": f"still running after {limits.wall_s:g} s"}
    return {**fields, **_ended(code if code >= 0 else None, -code if code < 0 else None, fields["stderr"])}


def _fusion_stage(stage: dict[str, Any]) -> tuple[str, Any]:
    return _text(stage, "status", ("Finished", "Error", "TimeLimitExceeded")), _number(stage, "return_code")


def _read_piston(data: dict[str, Any], limits: Limits) -> dict[str, Any]:
    compiled, run = _part(data, "compile"), _part(data, "run")
    if compiled is not None:
        code, killer, status = _piston_stage(compiled)
        if status == "XX":
            return _infra("the service could not run the compiler")
        if code or killer or status:
            said = _bytes(compiled, "stderr") or _bytes(compiled, "output")
            return {"status": "compile_error", "exit_code": code, "stderr": said, "detail": status or ""}
    if run is None:
        _bad("a run", data)
    code, killer, status = _piston_stage(run)
    fields: dict[str, Any] = {"stdout": _bytes(run, "stdout"), "stderr": _bytes(run, "stderr")}
    fields |= {"cpu_s": _seconds(run, "cpu_time", 1e-3), "wall_s": _seconds(run, "wall_time", 1e-3)}
    memory = _number(run, "memory") or 0
    fields["maxrss_mb"] = memory / (1 << 20)
    message = str(run.get("message") or "")
    if status == "XX":
        return _infra(f"the service could not run the program: {message!r}"[:500])
    if status in ("OL", "EL") or re.search(r"std(out|err) length exceeded", message):
        return {**fields, "status": "output_limit", "detail": message or "more output than the service keeps"}
    if status == "TO":
        clock = "cpu" if fields["cpu_s"] >= limits.cpu_s else "wall"
        return {**fields, "status": "timeout", "timed_out_by": clock, "detail": message}
    if code is None and killer is None:
        _bad("an exit code or a signal", run)
    if (code or killer) and memory >= limits.memory_mb << 20:
        return {**fields, **_ended(code, killer, b""), "status": "memory", "detail": f"met the limit of {limits.memory_mb} MB"}
    return {**fields, **_ended(code, killer, fields["stderr"])}


def _piston_stage(stage: dict[str, Any]) -> tuple[Any, int | None, str | None]:
    """Exit code, signal and status, the last of which older versions do not send."""
    import signal

    name, status = stage.get("signal"), stage.get("status")
    if not (name is None or isinstance(name, str)) or status not in (None, "RE", "SG", "TO", "OL", "EL", "XX"):
        _bad("a signal's name and a status", stage)
    killer = None if name is None else int(getattr(signal, name, signal.SIGKILL) if name.startswith("SIG") else signal.SIGKILL)
    return _number(stage, "code"), killer, status


def _ended(code: int | None, killer: int | None, stderr: bytes) -> dict[str, Any]:
    status: RunStatus = "ok" if code == 0 and not killer else "signal" if killer else "nonzero"
    if status != "ok" and _MEMORY.search(stderr[-4096:]):
        status = "memory"
    detail = "" if status == "ok" else f"killed by signal {killer}" if killer else f"exit code {code}"
    return {"status": status, "exit_code": code, "signal": killer, "detail": detail}


def _bounded(fields: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """No stream is longer than the limit asked for; where stdout or the channel was, the status says so."""
    room, dropped = limits.output_kb * 1024, 0
    for name in ("stdout", "stderr", "channel"):
        content: bytes = fields.get(name, b"")
        if len(content) > room:
            dropped += len(content) - room
            fields = {**fields, name: content[:room]}
            if name != "stderr":
                fields |= {"status": "output_limit", "detail": f"more than {limits.output_kb} kB of output"}
    return {**fields, "dropped": dropped}


def _infra(detail: str) -> dict[str, Any]:
    return {"status": "infra_error", "detail": detail}


def _part(data: dict[str, Any], name: str) -> Any:
    value = data.get(name)
    return value if value is None or isinstance(value, dict) else _bad(f"an object or null as {name}", data)


def _text(data: dict[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    value = data.get(name)
    return value if isinstance(value, str) and value in allowed else _bad(f"{name} to be one of {', '.join(allowed)}", data)


def _bytes(data: dict[str, Any], name: str) -> bytes:
    value = data.get(name)
    if value is not None and not isinstance(value, str):
        _bad(f"text as {name}", data)
    return (value or "").encode("utf-8", "surrogatepass")


def _number(data: dict[str, Any], name: str) -> Any:
    value = data.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 60):
        return value
    _bad(f"an integer or null as {name}", data)


def _seconds(data: dict[str, Any], name: str, unit: float) -> float:
    value = data.get(name)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        _bad(f"a time as {name}", data)
    return float(value) * unit


def _bad(expected: str, got: object) -> NoReturn:
    raise BadAnswer(f"expected {expected}, got {repr(got)[:200]}")
