"""How fast the worker pool is, and how late it is when it has to kill.

Prints jobs per second of a trivial function, the time of one small call, the time from a kill to the next answer (with and without
a warm spare), the overhang of hostile jobs beyond their limit, and the lag of an event loop meanwhile. It measures the machine too:
run it on an idle one. Usage: `python benchmarks/bench_workers.py [repetitions]`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from guerdon.sandboxes import Pool, PoolSpec, session

TARGET = """
import time
def do(what):
    if what == "hog":
        return 9**9**9
    if what == "sleep":
        time.sleep(60)
    return what
"""
LIMIT_S = 0.3


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def report(what: str, values_s: Sequence[float]) -> None:
    ordered = sorted(values_s)
    points = {f"p{p}": ordered[min(len(ordered) - 1, len(ordered) * p // 100)] for p in (50, 90, 99)} | {"max": ordered[-1]}
    print(f"{what:<52}" + "  ".join(f"{name} {value * 1000:7.2f} ms" for name, value in points.items()))


def throughput(pool: Pool, count: int) -> None:
    jobs = [("x",)] * count
    times = [seconds(lambda: pool.map(jobs, 5.0)) for _ in range(200 if count < 1000 else 5)]
    print(f"{f'trivial jobs a second, {count} a call':<52}{count / sorted(times)[len(times) // 2]:,.0f}")
    if count == 1:
        report("one call of one job", times)


def overhang(pool: Pool, what: str, repetitions: int) -> None:
    late = [seconds(lambda: pool.map([(what,)], LIMIT_S, LIMIT_S)) - LIMIT_S for _ in range(repetitions)]
    report(f"overhang of a {what} beyond its limit of {LIMIT_S:g} s", late)


def kill_to_ready(spec: PoolSpec, repetitions: int) -> None:
    pool, times = Pool(spec), []
    pool.map([("x",)], 5.0)
    for _ in range(repetitions):
        time.sleep(0.3)  # a spare imports meanwhile
        pool.map([("sleep",)], 0.02)
        times.append(seconds(lambda: pool.map([("x",)], 5.0)))
    report(f"next answer after a kill, {spec.warm_spares} spare", times)
    pool.close()


async def loop_lag(pool: Pool) -> list[float]:
    hostile = asyncio.gather(pool.amap([("hog",), ("sleep",)] * 4, 0.5), pool.amap([("x",)] * 20_000, 5.0))
    lags = []
    while not hostile.done():
        start = time.perf_counter()
        await asyncio.sleep(0.005)
        lags.append(time.perf_counter() - start - 0.005)
    return lags


def main() -> None:
    repetitions = int(sys.argv[1]) if sys.argv[1:] else 20
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as folder, session():
        file = Path(folder) / "bench_target.py"
        file.write_text(TARGET)
        pool = Pool(PoolSpec(f"{file}:do"))
        report("first answer of a cold pool", [seconds(lambda: pool.map([("x",)], 5.0))])
        pool.map([("x",)] * 1000, 5.0)
        for count in (1, 100, 20_000):
            throughput(pool, count)
        for what in ("hog", "sleep"):
            overhang(pool, what, repetitions)
        for spares in (0, 1):
            kill_to_ready(PoolSpec(f"{file}:do", workers=1, warm_spares=spares), repetitions)
        report("event loop lag under kills and 20,000 jobs", asyncio.run(loop_lag(pool)))


if __name__ == "__main__":
    main()
