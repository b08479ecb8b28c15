"""A stub of the services that `judge` and `remote` ask: answers from what it is sent alone, or as it is told to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes]
DROP: Answer = (0, {}, b"")  # close the connection without a word


class Service(ThreadingHTTPServer):
    """Listens on a free port. `script` gives the answers one by one; after its end rows are scored by their length."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, *script: Answer | Callable[[Any], Answer], delay_s: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.delay_s, self.lock = list(script), delay_s, threading.Lock()
        self.seen: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.times: list[float] = []
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
    wbufsize = 1 << 16  # head and body in one packet: two would wait 40 ms for each other
    server: Service

    def do_POST(self) -> None:
        data, stub = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), self.server
        with stub.lock:
            stub.seen.append(data)
            stub.headers.append(dict(self.headers))
            stub.paths.append(self.path)
            stub.times.append(time.monotonic())
            planned = stub.script.pop(0) if stub.script else None
            stub.busy += 1
            stub.busiest = max(stub.busiest, stub.busy)
        try:
            time.sleep(stub.delay_s)
            status, headers, body = (planned(data) if callable(planned) else planned) if planned else answer(self.path, data)
        finally:
            with stub.lock:
                stub.busy -= 1
        if not status:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Quiet."""


def ok(data: Any) -> Answer:
    return 200, {}, json.dumps(data).encode()


def says(content: Any, finish_reason: str | None = "stop", **message: Any) -> Answer:
    """A chat completion."""
    return ok({"choices": [{"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish_reason}]})


def worth(text: str) -> float:
    """What the stub's reward models give to a text."""
    return len(text) / 8


def answer(path: str, data: Any) -> Answer:
    """What each server answers."""
    if path.endswith("/chat/completions"):
        return says(f"Hm. Score: {len(data['messages'][0]['content']) % 11}")
    if path == "/get_reward":
        return ok({"rewards": [worth(text) for text in data["query"]]})
    if path == "/score/batch":
        return ok({"results": [score(row) for row in data["rollouts"]]})
    if path == "/predict":
        return ok([[{"label": "LABEL_0", "score": worth(text)}] for (text,) in data["inputs"]])
    if "text" in data:
        return ok([{"embedding": [worth(text)], "meta_info": {}} for text in data["text"]])
    if path == "/classify":
        rows = [{"index": i, "label": "x", "probs": [worth(text)], "num_classes": 1} for i, text in enumerate(data["input"])]
        return ok({"object": "list", "data": rows[::-1]})
    if path == "/pooling":
        return ok({"data": [{"index": i, "object": "pooling", "data": [[0.0], [worth(text)]]} for i, text in enumerate(data["input"])]})
    return 404, {}, b"{}"


def score(row: dict[str, Any]) -> dict[str, Any]:
    reward = worth(row["completion"])
    part = {"score": reward, "status": "scored", "reason": "", "detail": "", "weight": 1.0}
    return {"reward": reward, "outcome": None, "abstained": False, "components": {"rm": part}, "id": None}


def shouted(rollout: Any) -> str:
    """What a reward model might read of a rollout."""
    return f"{rollout.completion.upper()}!"
