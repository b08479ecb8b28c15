"""What bench_serve.py loads servers with: clients, rollouts, and what /proc says of a process and those below it."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench_score import data, varied

Sample = tuple[str, str, str]
"""Prompt, completion, label."""
Post = Callable[[Sample], Awaitable[Any]]

HOSTILE = "hostile "
TOWER = "The answer is $\\boxed{9^{9^{9^9}}}$."
_TICK, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def samples(n: int) -> list[Sample]:
    """GSM8K rollouts of which no two are the same: see `bench_score.varied`."""
    with gzip.open(data(), "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    every = (
        (row["prompt"] + "\n", rollout["text"], row["answer"])
        for copy in itertools.count(10)
        for row in (varied(raw, copy) for raw in rows)
        for rollout in row["rollouts"]
    )
    return list(itertools.islice(every, n))


def hostile(clean: list[Sample], share: float, text: str = TOWER) -> Iterator[Sample]:
    """The rows for ever; `share` of them say `text`, after a number so that no two are the same."""
    every = round(1 / share) if share else 0
    for i in itertools.count():
        prompt, completion, label = clean[i % len(clean)]
        yield (prompt, f"{HOSTILE}{i}: {text}" if every and i % every == every - 1 else completion, label)


class Retries(logging.Handler):
    """Counts what OpenRLHF's client says when it has to ask again, instead of showing it."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "error" in record.getMessage().lower()


def client(url: str) -> tuple[str, Post, Retries]:
    """OpenRLHF's own client where it is installed, else one that does as it does: a new connection for every request."""
    retries = Retries()
    try:
        from openrlhf.utils import agent
    except ImportError:
        return "a client like OpenRLHF's on bare sockets, which is cheaper", _lookalike(url, retries), retries
    agent.logger.handlers, agent.logger.propagate = [retries], False
    executor = agent.SingleTurnAgentExecutor(f"{url}/get_reward")

    async def post(sample: Sample) -> Any:
        prompt, text, label = sample
        return (await executor._fetch_rewards_via_http([prompt + text], [prompt], [label]))[0]

    return "OpenRLHF's client (openrlhf.utils.agent)", post, retries


def _lookalike(url: str, retries: Retries) -> Post:
    host, port = urlsplit(url).hostname, urlsplit(url).port

    async def once(body: bytes) -> Any:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            head = f"POST /get_reward HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            answered = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            content = await reader.readexactly(int(answered.partition("content-length:")[2].split("\r\n")[0]))
            if " 200 " not in answered[:20]:
                raise OSError(answered[:60])
            return json.loads(content)
        finally:
            writer.close()

    async def post(sample: Sample) -> Any:
        prompt, text, label = sample
        body = json.dumps({"query": [prompt + text], "prompts": [prompt], "labels": [label]}).encode()
        for _ in range(5):
            try:
                return await once(body)
            except (OSError, EOFError, ValueError):
                retries.count += 1
                await asyncio.sleep(1)
        raise RuntimeError("asked five times")

    return post


@dataclass
class Run:
    """What a load met. Seconds; `clean` are the latencies of the requests that were not hostile."""

    seconds: float = 0.0
    answered: int = 0
    failed: int = 0
    wrong: int = 0
    clean: list[float] = field(default_factory=list)
    abstained: int = 0
    client_cpu_s: float = 0.0
    server_cpu_s: float = 0.0

    @property
    def rate(self) -> float:
        return self.answered / self.seconds

    def quantile(self, q: float) -> float:
        ordered = sorted(self.clean)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else math.nan

    def line(self, name: str) -> str:
        each = 1e3 / max(self.answered, 1)
        latency = f"p50 {self.quantile(0.5):.3f} s, p99 {self.quantile(0.99):.3f} s, {self.answered:,} answered, {self.failed} failed"
        cpu = f"server {self.server_cpu_s * each:.2f} ms, client {self.client_cpu_s * each:.2f} ms"
        return f"{self.rate:8,.0f} requests/s  {name}\n{'':8} {latency}; CPU per request: {cpu}"


async def drive(post: Post, rows: Iterator[Sample], seconds: float, pid: int, in_flight: int, patience_s: float | None = None) -> Run:
    """Keep `in_flight` requests under way for that long, then wait for the last (`patience_s` at most)."""
    run, start = Run(), time.perf_counter()
    client_cpu, server_cpu = time.process_time(), cpu_s(pid)

    async def one() -> None:
        while (began := time.perf_counter()) - start < seconds:
            sample = next(rows)
            try:
                answer = await post(sample)
            except Exception:
                run.failed += 1
                continue
            run.answered += 1
            run.wrong += not _is_finite(answer)
            run.abstained += bool(answer.get("extra_logs", {}).get("guerdon/abstained", [0])[0])
            if not sample[1].startswith(HOSTILE):
                run.clean.append(time.perf_counter() - began)

    tasks = [asyncio.create_task(one()) for _ in range(in_flight)]
    _, late = await asyncio.wait(tasks, timeout=None if patience_s is None else seconds + patience_s)
    run.seconds = time.perf_counter() - start
    run.client_cpu_s, run.server_cpu_s = time.process_time() - client_cpu, cpu_s(pid) - server_cpu
    run.failed += len(late)
    for task in late:
        task.cancel()
    return run


def _is_finite(answer: Any) -> bool:
    return all(isinstance(answer[key][0], float) and math.isfinite(answer[key][0]) for key in ("rewards", "scores"))


# -- /proc


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name; none if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def tree(pid: int) -> list[int]:
    """The process and all below it."""
    parents = {int(p.name): int(stat[1]) for p in Path("/proc").glob("[0-9]*") if (stat := _stat(int(p.name))) and stat[0] != "Z"}
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def cpu_s(pid: int) -> float:
    """CPU seconds of the tree, ended children included."""
    return sum(sum(map(int, stat[11:15])) for p in tree(pid) if (stat := _stat(p))) / _TICK


def rss_mb(pid: int) -> float:
    """Resident memory of the tree; pages that several processes share count for each."""
    return sum(int(stat[21]) for p in tree(pid) if (stat := _stat(p))) * _PAGE / 2**20
