"""What a sandboxed run costs, beside bare and unisolated spawns of an interpreter in the same minutes.

Blocks of both alternate, so that other load on the machine weighs on both alike; the ratio is the median of the blocks' ratios. CPU a
run counts the guard, the zygote, the run and the caller. Then many runs, to see that nothing grows.
Usage: `python benchmarks/bench_sandbox.py [rounds] [runs of the last part]`.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from guerdon.errors import SandboxError
from guerdon.sandboxes import Job, Level, RunResult, Sandbox, Zygote
from guerdon.sandboxes._zygote import default_slots

PLAIN = "print(sum(map(int, input().split())))"
HEAVY = "import numpy, sympy\nprint(int(numpy.array(list(map(int, input().split()))).sum()))"
SYSTEM = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
STDIN, STDOUT = b"1 2 3\n", b"6\n"
TICK = os.sysconf("SC_CLK_TCK")


def spawns(python: str, source: str, count: int) -> float:
    """Bare spawns a second, from as many threads as there are slots."""

    def work(share: int) -> None:
        for _ in range(share):
            done = subprocess.run([python, "-I", "-c", source], input=STDIN, capture_output=True)
            assert done.stdout == STDOUT, done.stderr

    threads = [threading.Thread(target=work, args=(max(1, count // default_slots()),)) for _ in range(default_slots())]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(1, count // default_slots()) * default_slots() / (time.perf_counter() - started)


def runs(box: Sandbox, source: str, count: int) -> tuple[float, list[RunResult]]:
    """Sandboxed runs a second, and their results."""
    started = time.perf_counter()
    results = box.run_many([Job(source, stdin=STDIN)] * count)
    elapsed = time.perf_counter() - started
    assert {result.stdout for result in results} == {STDOUT}, results[0]
    return count / elapsed, results


def below(pid: int) -> list[int]:
    """A process and all its descendants."""
    stats = {int(path.parent.name): path.read_text() for path in Path("/proc").glob("[0-9]*/stat") if path.exists()}
    parents = {child: int(text.rpartition(")")[2].split()[1]) for child, text in stats.items()}
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found


def cpu_s() -> float:
    """CPU seconds of this process and its sandboxes, ended runs included."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in below(os.getpid())[1:]]
    return time.process_time() + sum(int(value) for words in fields for value in words[11:15]) / TICK


def compare(name: str, spec: Zygote, source: str, python: str, rounds: int, block: int) -> None:
    ratios, rates, bare, latencies = [], [], [], []
    try:
        box = spec.start()
    except SandboxError as error:
        print(f"{name:<34}not here: {error}")
        return
    with box:
        runs(box, source, 8)
        for _ in range(rounds):
            bare.append(spawns(python, source, max(2, block // 3 if source is PLAIN else 2)))
            rate, _ = runs(box, source, block)
            rates.append(rate)
            ratios.append(rate / bare[-1])
        before = cpu_s()
        runs(box, source, 2 * block)
        used_ms = (cpu_s() - before) / (2 * block) * 1000
        for _ in range(100):
            started = time.perf_counter()
            box.run(Job(source, stdin=STDIN))
            latencies.append((time.perf_counter() - started) * 1000)
    median: Callable[[list[float]], float] = statistics.median
    print(
        f"{name:<34}{median(rates):6.0f} runs/s (best {max(rates):.0f}), {median(bare):5.1f} bare spawns/s, {median(ratios):5.1f} times;"
        f" {used_ms:.2f} ms CPU a run; one run {median(latencies):.2f} ms (p90 {sorted(latencies)[90]:.2f})",
        flush=True,
    )


def growth(count: int) -> None:
    """Many runs: processes, descriptors, resident memory of everything, before and after."""

    def state() -> tuple[int, int, int]:
        pids = below(os.getpid())
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
        return len(pids), sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids), pages * os.sysconf("SC_PAGE_SIZE") >> 10

    with Zygote().start() as box:
        runs(box, PLAIN, 500)
        before = state()
        rate = [runs(box, PLAIN, 500)[0] for _ in range(count // 500)]
        after = state()
    print(f"{count} runs, {min(rate):.0f} to {max(rate):.0f} a second: processes, descriptors, kB resident {before} -> {after}")


def main(rounds: int, many: int) -> None:
    print(f"{default_slots()} slots, load {os.getloadavg()[0]:.1f}, {SYSTEM} bare")
    levels: tuple[Level, ...] = ("namespaces", "landlock")
    for level in levels:
        compare(f"plain, {level}", Zygote(level=level), PLAIN, SYSTEM, rounds, 200)
    if importlib.util.find_spec("sympy") and importlib.util.find_spec("numpy"):
        compare("numpy and sympy, namespaces", Zygote(preload=("numpy", "sympy"), level="namespaces"), HEAVY, sys.executable, rounds, 100)
    growth(many)


if __name__ == "__main__":
    main(*(int(word) for word in [*sys.argv[1:], *("10", "10000")[len(sys.argv) - 1 :]]))
