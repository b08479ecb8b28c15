"""The reward server people write today, for bench_serve.py: one FastAPI route that calls math-verify in a thread.

Threads cannot have math-verify's time limits (they are signals), so it has none.
"""

from __future__ import annotations

import argparse
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI
from math_verify import parse, verify

app = FastAPI()


@app.post("/get_reward")
def get_reward(body: dict[str, Any]) -> dict[str, Any]:
    """A plain function: FastAPI runs it in a thread."""
    rewards = [
        score(query[len(prompt) :], label) for query, prompt, label in zip(body["query"], body["prompts"], body["labels"], strict=True)
    ]
    return {"rewards": rewards, "scores": rewards, "extra_logs": {}}


def score(completion: str, answer: str) -> float:
    gold = parse(answer, parsing_timeout=None)
    return float(verify(gold, parse(completion, parsing_timeout=None), timeout_seconds=None))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    listener = socket.create_server(("127.0.0.1", parser.parse_args().port), backlog=2048)
    print(f"peer: http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])


if __name__ == "__main__":
    main()
