"""A stub of both services: really runs Python programs, or answers as it is told to."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Answer = tuple[int, dict[str, str], bytes]


class Service(ThreadingHTTPServer):
    """Listens on a free port. `script` gives the answers one by one; after its end programs are run."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, script: list[Answer | Callable[[], Answer]] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.seen, self.lock = list(script or ()), [], threading.Lock()
        self.seen: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.busy, self.busiest = 0, 0
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that give up are expected here."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Service

    def do_POST(self) -> None:
        data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.seen.append(data)
            self.server.headers.append(dict(self.headers))
            planned = self.server.script.pop(0) if self.server.script else None
            self.server.busy += 1
            self.server.busiest = max(self.server.busiest, self.server.busy)
        try:
            status, headers, body = (planned() if callable(planned) else planned) if planned else self._serve(data)
        finally:
            with self.server.lock:
                self.server.busy -= 1
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _serve(self, data: dict[str, Any]) -> Answer:
        if self.path == "/run_code":
            return ok(fusion(data))
        if self.path == "/api/v2/execute":
            return ok(piston(data)) if self.headers["Content-Type"].startswith("application/json") else (415, {}, b"{}")
        return 404, {}, b"{}"

    def log_message(self, *args: Any) -> None:
        """Quiet."""


def ok(data: Any) -> Answer:
    return 200, {}, json.dumps(data).encode()


def _execute(files: dict[str, bytes], stdin: str, args: list[str], seconds: float) -> tuple[int | None, bytes, bytes]:
    """Exit code (None: too slow) and output of the first file, a Python program."""
    with tempfile.TemporaryDirectory() as folder:
        for path, content in files.items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_bytes(content)
        command = [sys.executable, next(iter(files)), *args]
        try:
            done = subprocess.run(command, input=stdin.encode(), capture_output=True, cwd=folder, timeout=seconds)
        except subprocess.TimeoutExpired as error:
            return None, error.stdout or b"", error.stderr or b""
        return done.returncode, done.stdout, done.stderr


def fusion(data: dict[str, Any]) -> dict[str, Any]:
    files = {"main.py": data["code"].encode(), **{path: base64.b64decode(content) for path, content in data["files"].items()}}
    code, out, err = _execute(files, data["stdin"] or "", [], data["run_timeout"])
    run = {
        "status": "TimeLimitExceeded" if code is None else "Finished",
        "execution_time": 0.01,
        "return_code": code,
        "stdout": out[:196608].decode(errors="replace"),
        "stderr": err[:196608].decode(errors="replace"),
    }
    status = "Success" if code == 0 else "Failed"
    return {"status": status, "message": "", "compile_result": None, "run_result": run, "executor_pod_name": None, "files": {}}


def piston(data: dict[str, Any]) -> dict[str, Any]:
    decode: dict[str, Callable[[str], bytes]] = {"utf8": str.encode, "base64": base64.b64decode, "hex": bytes.fromhex}
    files = {file["name"]: decode[file.get("encoding", "utf8")](file["content"]) for file in data["files"]}
    code, out, err = _execute(files, data["stdin"], data["args"], data["run_timeout"] / 1000)
    killed = code is None or code < 0
    run = {
        "stdout": out.decode(errors="replace"),
        "stderr": err.decode(errors="replace"),
        "output": "",
        "code": None if killed else code,
        "signal": "SIGKILL" if killed else None,
        "memory": 1 << 20,
        "message": None,
        "status": "TO" if code is None else "SG" if killed else "RE" if code else None,
        "cpu_time": 10,
        "wall_time": 20,
    }
    return {"language": data["language"], "version": "3.12.0", "run": run}
