"""CPU time per rollout of `R.math_equal` and of TRL 1.16's `accuracy_reward`, in the same run, on GSM8K completions.

CPU seconds of this process and of its workers. Imports, starting workers and a first question are left out on both sides, and
the start-up is printed apart. Every rollout is judged once, none before. Exits 1 below the target. The data are the GSM8K rollouts
under GUERDON_DATA, or else the slice in the tests. Linux. Usage: `python benchmarks/bench_math.py [rollouts of the other side]`.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import guerdon
import guerdon.rewards as R
from guerdon import Rollout
from guerdon.verifiers.math import equivalent

TARGET = 6.0
SLICE = Path(__file__).parents[1] / "tests/verifiers/math/data/gsm8k_rollouts.jsonl"


def load() -> list[tuple[str, str]]:
    """(completion, answer) pairs."""
    if folder := os.environ.get("GUERDON_DATA"):
        with gzip.open(Path(folder) / "rollouts/gsm8k_test_rollouts.jsonl.gz", "rt") as lines:
            return [(rollout["text"], prompt["answer"]) for prompt in map(json.loads, lines) for rollout in prompt["rollouts"]]
    print("GUERDON_DATA is not set: using the small slice in the tests")
    return [(row["text"], row["answer"]) for row in map(json.loads, SLICE.read_text().splitlines())]


def cpu_s() -> float:
    """CPU seconds of this process and of its children."""
    return time.process_time() + children_s()


def children_s() -> float:
    """CPU seconds of this process's children, alive or ended."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            fields = stat.read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12]) if int(fields[1]) == os.getpid() else 0
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + ticks / os.sysconf("SC_CLK_TCK")


def start_workers() -> float:
    """Start the workers, spare ones too, and ask a first question: CPU seconds spent."""
    before = cpu_s()
    equivalent("\\sum_{j=1}^n j", "\\sum_{k=1}^n k")
    settled, now = before, cpu_s()
    while now - settled > 0.1:  # a spare is still importing
        time.sleep(1.0)
        settled, now = now, cpu_s()
    return now - before


def as_trl_does(completions: list[list[dict[str, str]]], solution: list[str], **_columns: Any) -> list[float | None]:
    """The calls into math-verify that `accuracy_reward` of TRL 1.16.0 makes on the main thread, timeouts included."""
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse, verify

    config = LatexExtractionConfig(
        normalization_config=NormalizationConfig(units=True), boxed_match_priority=0, try_extract_without_anchor=False
    )
    rewards: list[float | None] = []
    for completion, reference in zip(completions, solution, strict=True):
        gold = parse(reference, parsing_timeout=10)
        if not gold:
            rewards.append(None)
            continue
        answer = parse(completion[0]["content"], extraction_config=[config], extraction_mode="first_match", parsing_timeout=10)
        rewards.append(float(verify(gold, answer, timeout_seconds=5)))
    return rewards


def theirs() -> tuple[str, Callable[..., list[float | None]]]:
    try:
        from trl.rewards import accuracy_reward
    except ImportError:
        return "math-verify called exactly as TRL 1.16.0 does (trl is not installed)", as_trl_does
    return "trl.rewards.accuracy_reward", accuracy_reward


def main() -> int:
    pairs = load()
    random.Random(0).shuffle(pairs)
    ours = R.math_equal()
    rollouts = [Rollout(text, answer=answer) for text, answer in pairs]
    start_up = start_workers()
    start, here = cpu_s(), time.process_time()
    verdicts = ours.verdicts(rollouts)
    ours_s, here = (cpu_s() - start) / len(pairs), (time.process_time() - here) / len(pairs)
    guerdon.close()

    name, accuracy_reward = theirs()
    sample = pairs[: int(sys.argv[1]) if len(sys.argv) > 1 else 1500]
    completions = [[{"role": "assistant", "content": text}] for text, _ in sample]
    accuracy_reward(completions[:20], solution=[answer for _, answer in sample[:20]])
    start = cpu_s()
    rewards = accuracy_reward(completions, solution=[answer for _, answer in sample])
    theirs_s = (cpu_s() - start) / len(sample)

    stages = Counter(verdict.info.get("stage", "no answer") for verdict in verdicts)
    agree = sum((reward == 1.0) == (verdict.score == 1.0) for reward, verdict in zip(rewards, verdicts, strict=False)) / len(sample)
    print(f"{len(pairs)} rollouts, {sum(len(text) for text, _ in pairs) // len(pairs)} characters on average; decided by {dict(stages)}")
    print(f"{1e6 * ours_s:9.1f} us  CPU per rollout, guerdon R.math_equal ({1e6 * here:.1f} us of it in this process)")
    print(f"{1e3 * start_up:9.0f} ms  CPU once to start the workers, only when a rollout needs the fallback")
    print(f"{1e6 * theirs_s:9.1f} us  CPU per rollout, {name}, on {len(sample)}")
    print(f"{theirs_s / ours_s:9.1f} x   per CPU second (target {TARGET:g}); the two agree on {agree:.1%} of the rollouts")
    return int(theirs_s / ours_s < TARGET)


if __name__ == "__main__":
    sys.exit(main())
