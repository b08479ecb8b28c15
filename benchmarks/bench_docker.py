"""What a run costs in the Docker pool, beside `docker run` and the zygote of this machine, in the same minutes.

Prints the time until a cold container has run its first program, runs a second of a warm pool, one run's time, and that recycling does not
hold the pool up. Needs a daemon (`bash .ci/docker.sh start`). Usage: `python benchmarks/bench_docker.py [runs]`.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable

from guerdon.errors import SandboxError
from guerdon.sandboxes import Docker, Job, Sandbox, Zygote
from guerdon.sandboxes.docker_image import host_image
from guerdon.sandboxes.docker_pool import connect

JOB = Job("print(sum(map(int, input().split())))", stdin=b"1 2 3\n")
ROUNDS = 5


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def warm(box: Sandbox, count: int) -> str:
    """Runs a second over all slots, the best and the middle round, and the time of one run alone."""
    box.run_many([JOB] * 50)
    rates = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        results = box.run_many([JOB] * count)
        rates.append(count / (time.perf_counter() - start))
        assert {(result.status, result.stdout) for result in results} == {("ok", b"6\n")}
    alone = statistics.median(seconds(lambda: box.run(JOB)) for _ in range(100))
    return f"{statistics.median(rates):6.0f} runs/s (best {max(rates):.0f}), one alone {alone * 1000:.2f} ms, load {os.getloadavg()[0]:.1f}"


def first_run(spec: Docker) -> float:
    start = time.perf_counter()
    with spec.start() as box:
        box.run(JOB)
        return time.perf_counter() - start


def main(count: int) -> None:
    try:
        client = connect()
    except SandboxError as error:
        print(f'skipped: {error} (eval "$(bash .ci/docker.sh start)" starts one)')
        return
    print(f"{'image ready':<44}{seconds(lambda: host_image(client)):.2f} s")
    cold = [first_run(Docker(workers=1)) for _ in range(ROUNDS)]
    print(f"{'cold container to the first result':<44}{statistics.median(cold):.2f} s (worst {max(cold):.2f})")
    command = ["python3", "-c", JOB.source.replace("input()", "'1 2 3'")]
    each = [seconds(lambda: client.containers.run(host_image(client), command, network_mode="none", remove=True)) for _ in range(ROUNDS)]
    print(f"{'`docker run` for each program':<44}{statistics.median(each):.2f} s, {1 / statistics.median(each):.1f} runs/s")
    with Docker(workers=2).start() as box:
        print(f"{'pool of 2':<44}{warm(box, count)}")
    with Docker(workers=2, recycle_after=count).start() as box:
        print(f"{f'pool of 2, recycled after {count} runs':<44}{warm(box, count)}")
    with Zygote(workers=2).start() as box:
        print(f"{'zygotes of this machine, 2':<44}{warm(box, count)}")
    client.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
