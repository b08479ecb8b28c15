"""A server in a process of its own, and a reward that misbehaves on command. Shared by the tests of `guerdon serve`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

REWARD = '''
import os, signal, time
import guerdon.rewards as R
from guerdon import Rollout

VERSION = 1.0


def obey(rollout):
    """Does what the completion says; `ok:X` scores X."""
    word, _, value = rollout.completion.partition(":")
    if word == "sleep":
        time.sleep(float(value))
    elif word == "spin":
        while True:
            pass
    elif word == "hold":  # C code that keeps the interpreter lock
        9 ** 9 ** 9 ** 9
    elif word == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "die_once":
        if not os.path.exists(value):
            open(value, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
    elif word == "interrupt":
        raise KeyboardInterrupt
    elif word == "raise":
        raise RuntimeError("told to")
    elif word == "nan":
        return float("nan")
    elif word == "pid":
        return Verdict_of(os.getpid())
    elif word == "version":
        return VERSION
    return 1.0


def Verdict_of(pid):
    from guerdon import Status, Verdict
    return Verdict(1.0, Status.CORRECT, detail=str(pid))


def length(rollout):
    return float(len(rollout.completion))


def siblings(rollouts):
    return [float(len(rollouts))] * len(rollouts)


reward = R.from_function(obey, name="obey", outcome=True) + 0.0 * R.from_function(length, name="length")
needy = R.from_function(lambda r: 1.0, name="needy", outcome=True, reads=["answer"])
counted = needy + R.soft_overlong(max_tokens=8, cache=2)
grouped = R.from_function(siblings, name="siblings", batch=True, reads=["group"], outcome=False).with_outcome("siblings")
'''


def reward_file(folder: Path, name: str = "reward") -> str:
    """The import string of a reward of the file above, written into `folder`."""
    path = folder / "served.py"
    if not path.exists():
        path.write_text(REWARD)
    return f"{path}:{name}"


class Server:
    """A running `guerdon serve`."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url
        self.port = int(url.rpartition(":")[2])
        self.client = httpx.Client(base_url=url, timeout=90)

    def score(self, completion: str, **more: Any) -> dict[str, Any]:
        answer = self.client.post("/score", json={"completion": completion, **more})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def metric(self, name: str) -> float:
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name) and not line.startswith("#"))

    def worker_pids(self) -> list[int]:
        return children(self.process.pid)

    def stop(self, timeout_s: float = 30) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def start(*args: str, errors: int | None = None, **env: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from guerdon.cli import main; main()", "serve", "--port", "0", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | env)


IN_PYTHON = "import sys; from guerdon.backends.serve import Settings, serve; sys.exit(serve(Settings.from_json(sys.argv[1])))"


def start_in_python(reward: str, *, errors: int | None = None, **settings: Any) -> subprocess.Popen[str]:
    """A server with one worker that is not started by the command, which has no option for some of the settings."""
    given = json.dumps({"reward": reward, "port": 0, "workers": 1, **settings})
    return subprocess.Popen([sys.executable, "-c", IN_PYTHON, given], stdout=subprocess.PIPE, stderr=errors, text=True)


@contextmanager
def ready(process: subprocess.Popen[str], headers: dict[str, str] | None = None) -> Iterator[Server]:
    """The server of a process when it is ready; ended, and its workers seen to end, whatever happens meanwhile."""
    server: Server | None = None
    workers: list[int] = []
    with ended(process):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " at http://" in line, f"no address in {line!r}"
        server = Server(process, line.split(" at ")[1].split()[0])
        server.client.headers.update(headers or {})
        workers = server.worker_pids()
        with server.client:
            yield server
    assert_gone(workers)


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """Ends the process, gently if that is quick: to leave a `with` of its own would wait for it without end."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def serving(reward: str, *args: str, headers: dict[str, str] | None = None, **env: str) -> AbstractContextManager[Server]:
    """A server that is ready, started by the command."""
    return ready(start(reward, *args, **env), headers)


def assert_gone(pids: list[int], within_s: float = 10) -> None:
    end = time.monotonic() + within_s
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < end, f"still running: {[pid for pid in pids if alive(pid)]}"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def body(*completions: str) -> dict[str, Any]:
    """A request of OpenRLHF."""
    return {"query": [f"q {c}" for c in completions], "prompts": ["q "] * len(completions), "labels": [""] * len(completions)}


def parsed(content: bytes) -> Any:
    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} in an answer")

    return json.loads(content, parse_constant=refuse)
