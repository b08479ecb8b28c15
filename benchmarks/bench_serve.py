"""Load on `guerdon serve`: requests a second, latency, hostile completions, memory over time, a killed worker, an orderly end.

The client is OpenRLHF's own where it is installed (.venv-stacks), on the same machine, with one sample a request and 256 requests
under way; else a lookalike on bare sockets. The rollouts are those of GSM8K (GUERDON_DATA, else the bundled slice), none of them
twice. Beside it the server people write today (serve_peer.py). Exits 1 where a target is missed; latencies are of clean requests.

    python benchmarks/bench_serve.py                       about a minute
    python benchmarks/bench_serve.py memory --minutes 3    one part, longer
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

from serve_load import TOWER, Post, Retries, Run, Sample, client, cpu_s, drive, hostile, rss_mb, samples, tree

HERE = Path(__file__).parent
PARTS = ("rate", "peer", "hostile", "memory", "kill", "drain")
RATE, P99_S, HOSTILE_RATE, HOSTILE_P99_S, GROWTH = 1200.0, 0.5, 200.0, 1.5, 1.05
SHARE = 0.01
STUCK = "It never ends."


@contextmanager
def started(command: list[str], grace_s: float = 20.0, stderr: int | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server and its address, from the line it prints. It is ended here, with everything below it."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=HERE.parent)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "http://" not in line:
            raise SystemExit(f"{' '.join(command)} did not start: {line!r}")
        yield process, "http://" + line.split("http://")[1].split()[0]
    finally:
        below = tree(process.pid)[1:]
        process.terminate()
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pid in below:  # whatever outlived it
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def guerdon(workers: int, *options: str, name: str = "reward") -> list[str]:
    reward = f"{HERE / 'serve_reward.py'}:{name}"
    return ["-m", "guerdon", "serve", reward, "--port", "0", "--workers", str(workers), "--log-level", "warning", *options]


class Bench:
    """The parts. Each returns whether its target was met."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.clean = options, samples(options.rows)
        self.rate = 0.0

    def load(
        self, url: str, pid: int, seconds: float, share: float = 0.0, text: str = TOWER, patience_s: float | None = None
    ) -> tuple[Run, Retries]:
        _, post, retries = client(url)

        async def main() -> Run:
            await drive(post, hostile(self.clean, 0), 1.0, pid, 16)  # imports, first answers
            retries.count = 0
            return await drive(post, hostile(self.clean, share, text), seconds, pid, self.options.in_flight, patience_s)

        return asyncio.run(main()), retries

    def run_rate(self) -> bool:
        with started(guerdon(self.options.workers)) as (server, url):
            run, retries = self.load(url, server.pid, self.options.seconds)
        self.rate = run.rate
        print(run.line(f"guerdon serve, {self.options.workers} workers (at least {RATE:,.0f}/s, p99 under {P99_S:g} s)"))
        print(f"{retries.count:8d} requests asked again, {run.abstained} abstained, {run.wrong} not finite")
        return run.rate >= RATE and run.quantile(0.99) < P99_S and run.failed + retries.count + run.wrong + run.abstained == 0

    def run_peer(self) -> bool:
        peer = [str(HERE / "serve_peer.py")]
        with started(peer, 1.0, subprocess.DEVNULL) as (server, url):  # math-verify warns at every call that it has no limit
            run, _ = self.load(url, server.pid, self.options.seconds)
            print(run.line("FastAPI and math-verify in a thread"))
            if self.rate:
                print(f"{self.rate / run.rate:8.1f} times as many requests a second")
        with started(peer, 1.0, subprocess.DEVNULL) as (server, url):
            run, _ = self.load(url, server.pid, 3.0, SHARE, TOWER, 5.0)
        print(f"{run.answered:8,d} answered, {run.failed} waiting after {run.seconds:.0f} s: the same with {SHARE:.0%} hostile completions")
        return True

    def run_hostile(self) -> bool:
        with started(guerdon(self.options.workers, "--timeout", "0.2")) as (server, url):
            run, retries = self.load(url, server.pid, self.options.seconds, SHARE)
        print(run.line(f"{SHARE:.0%} hostile, --timeout 0.2 (at least {HOSTILE_RATE:,.0f}/s, p99 of the clean under {HOSTILE_P99_S:g} s)"))
        print(f"{retries.count:8d} requests asked again, {run.abstained} abstained, {run.wrong} not finite")
        met = run.rate >= HOSTILE_RATE and run.quantile(0.99) < HOSTILE_P99_S and run.failed + retries.count + run.wrong == 0
        with started(guerdon(self.options.workers, "--timeout", "0.2", "--log-level", "error", name="with_stuck")) as (server, url):
            run, retries = self.load(url, server.pid, self.options.seconds, SHARE, STUCK)
        print(run.line(f"{SHARE:.0%} on which a function of the user's hangs, --timeout 0.2 (no target)"))
        print(f"{retries.count:8d} requests asked again, {run.abstained} abstained, {run.wrong} not finite")
        return met and run.failed + retries.count + run.wrong == 0

    def run_memory(self) -> bool:
        """Mixed load; the highest resident memory of the last third against that of the second."""
        seconds = self.options.minutes * 60
        with started(guerdon(self.options.workers, "--timeout", "0.2")) as (server, url):
            _, post, retries = client(url)
            run, taken = asyncio.run(self._sampled(post, server.pid, seconds))
        second, last = ([mb for at, mb in taken if a <= at / seconds < b] for a, b in ((1 / 3, 2 / 3), (2 / 3, 9.9)))
        growth = max(last) / max(second)
        print(run.line(f"{seconds:.0f} s of mixed load, {SHARE / 2:.1%} hostile"))
        print(
            f"{max(last):8.0f} MB resident at most in the last third, {max(second):.0f} MB in the second: {growth:.3f} (at most {GROWTH})"
        )
        return growth <= GROWTH and run.failed + retries.count + run.wrong == 0

    async def _sampled(self, post: Post, pid: int, seconds: float) -> tuple[Run, list[tuple[float, float]]]:
        start, taken = time.perf_counter(), []

        async def sample() -> None:
            while True:
                taken.append((time.perf_counter() - start, rss_mb(pid)))
                await asyncio.sleep(min(1.0, seconds / 30))

        sampling = asyncio.create_task(sample())
        run = await drive(post, hostile(self.clean, SHARE / 2), seconds, pid, self.options.in_flight)
        sampling.cancel()
        return run, taken

    def run_kill(self) -> bool:
        """kill -9 of one process below the server after another, under load."""
        killed: list[int] = []
        with started(guerdon(self.options.workers)) as (server, url):
            _, post, retries = client(url)

            async def main() -> Run:
                loading = asyncio.create_task(drive(post, hostile(self.clean, 0), 5.0, server.pid, self.options.in_flight))
                for _ in range(3):
                    await asyncio.sleep(1.2)
                    victim = scoring(server.pid)
                    os.kill(victim, signal.SIGKILL)
                    killed.append(victim)
                return await loading

            run = asyncio.run(main())
            alive = server.poll() is None
        print(run.line(f"with {len(killed)} scoring workers killed (0 failed)"))
        print(f"{retries.count:8d} requests asked again, {run.abstained} abstained; the server {'lives' if alive else 'died'}")
        return alive and run.failed + retries.count + run.wrong + run.abstained == 0

    def run_drain(self) -> bool:
        """SIGTERM under load: what was sent is answered."""
        with started(guerdon(self.options.workers, name="with_slow")) as (server, url):
            _, post, retries = client(url)
            done, failed, total = 0, 0, self.options.in_flight

            async def one(sample: Sample) -> None:
                nonlocal done, failed
                try:
                    answer = await asyncio.wait_for(post(sample), 30)
                    done += answer["extra_logs"]["guerdon/abstained"] == [0.0]
                except Exception:
                    failed += 1

            async def main() -> None:
                tasks = [asyncio.create_task(one(sample)) for sample in itertools.islice(self.clean, total)]
                while await asyncio.to_thread(in_flight, url) + done < total:
                    await asyncio.sleep(0.05)
                server.send_signal(signal.SIGTERM)
                await asyncio.gather(*tasks)

            asyncio.run(main())
            start = time.perf_counter()
            code = server.wait(20)
        print(f"{done:8d} of {total} scored, {failed} failed, {retries.count} asked again: SIGTERM while they were scored, for 1 s a batch")
        print(f"{code:8d} is its exit code, {time.perf_counter() - start:.1f} s after the last answer")
        return done == total and retries.count == 0 and code == 0


def in_flight(url: str) -> int:
    with urlopen(f"{url}/metrics") as page:
        return int(float(page.read().decode().partition("\nguerdon_requests_in_flight ")[2].split("\n")[0]))


def scoring(pid: int) -> int:
    """A scoring worker: of the processes that have none below them, the one that has used most CPU time."""
    below = tree(pid)[1:]
    return max((p for p in below if len(tree(p)) == 1), key=cpu_s)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"all by default: {', '.join(PARTS)}")
    parser.add_argument("--seconds", type=float, default=4.0, help="of load, for each measurement")
    parser.add_argument("--minutes", type=float, default=0.15, help="of the memory part")
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=20_000, help="rollouts that differ; after them the same again")
    options = parser.parse_args()
    bench = Bench(options)
    print(f"{client('http://127.0.0.1:9')[0]}, {options.in_flight} under way, {os.cpu_count()} CPUs")
    met = {part: getattr(bench, f"run_{part}")() for part in PARTS if part in (options.parts or PARTS)}
    if missed := [part for part, good in met.items() if not good]:
        print(f"targets missed: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
