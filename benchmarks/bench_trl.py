"""What guerdon's TRL functions cost besides scoring, and what one hostile completion costs a batch: guerdon's functions beside TRL's own.

The first part needs no training stack: 256 GSM8K rollouts of the bundled slice in groups of 8, through `reward_funcs` as TRL calls them,
less `reward.score` on rollouts made before; with TRL's loggers and without. The second part is TRL's accuracy_reward in a process of
its own, killed at --cap seconds, on the main thread and in a worker thread, where AsyncGRPOTrainer runs it; without TRL it is left out.

Exits 1 above --max-overhead-us, or if guerdon takes longer than its deadline.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.backends.trl import advantage_func, reward_funcs
from guerdon.rewards.advantages import GDPO

SLICE = Path(__file__).resolve().parents[1] / "src" / "guerdon" / "data" / "gsm8k_rollouts.jsonl.gz"
GROUP, ROWS = 8, 256
NINES = "\\boxed{9^{9^{9^9}}}"
DEADLINE_S = 10.0

TRL = """
import json, sys, threading, time, warnings
warnings.filterwarnings("ignore")
from trl.rewards import accuracy_reward
texts = json.loads(sys.argv[1])
call = {"completions": [[{"role": "assistant", "content": t}] for t in texts], "solution": ["$1$"] * len(texts)}
accuracy_reward(completions=call["completions"][:1], solution=["$1$"])
print("ready", flush=True)
start = time.perf_counter()
if sys.argv[2] == "worker thread":
    thread = threading.Thread(target=accuracy_reward, kwargs=call)
    thread.start()
    thread.join()
else:
    accuracy_reward(**call)
print(time.perf_counter() - start, flush=True)
"""


def make_reward() -> Any:
    length = R.soft_overlong(max_tokens=400, cache=200)
    return R.exact() + 0.2 * R.boxed_format() + 0.5 * length + 0.0 * R.think_format()


def batch() -> dict[str, list[Any]]:
    """A call of TRL: rollouts of the slice, a group a problem, with token ids of the length of the words."""
    call: dict[str, list[Any]] = {"prompts": [], "completions": [], "completion_ids": [], "answer": [], "source": []}
    with gzip.open(SLICE, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            for rollout in row["rollouts"][:GROUP]:
                call["prompts"].append([{"role": "user", "content": row["prompt"]}])
                call["completions"].append([{"role": "assistant", "content": rollout["text"]}])
                call["completion_ids"].append(list(range(len(rollout["text"].split()))))
                call["answer"].append(row["answer"])
                call["source"].append("gsm8k")
            if len(call["prompts"]) >= ROWS:
                break
    return call


def seconds(work: Callable[[], Any], rounds: int) -> float:
    """CPU seconds of this process, threads included, median of some rounds: wall time would measure who else is on the machine."""
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def overheads(reward: Any, rounds: int) -> dict[str, float]:
    """CPU microseconds for a rollout and component, by what is called."""
    call = batch()
    n = len(call["completions"])
    rollouts = [
        Rollout.from_trl(call["prompts"][i], call["completions"][i], call["completion_ids"][i], answer=call["answer"][i]) for i in range(n)
    ]
    plain = seconds(lambda: reward.score(rollouts, DEADLINE_S), rounds)
    funcs, advantage = reward_funcs(reward, deadline_s=DEADLINE_S), advantage_func(reward, GDPO, deadline_s=DEADLINE_S)
    loggers = {"log_metric": lambda name, value: None, "log_extra": lambda name, values: None}
    ways: dict[str, Callable[[], Any]] = {
        "reward_funcs": lambda: [f(**call) for f in funcs],
        "reward_funcs, logging": lambda: [f(**call, **loggers) for f in funcs],
        "advantage_func, logging": lambda: advantage(**call, **loggers),
    }
    per = 1e6 / (n * len(funcs))
    print(f"{n} rollouts, {len(funcs)} components; reward.score alone takes {plain * per:.1f} us for a rollout and component")
    return {name: (seconds(work, rounds) - plain) * per for name, work in ways.items()}


def hostile() -> list[str]:
    return [NINES if i == 17 else f"\\boxed{{{i % 2}}}" for i in range(64)]


def guerdon_s() -> float:
    """Seconds for 64 completions with one tower of nines, workers started before."""
    funcs = reward_funcs(R.math_equal() + 0.2 * R.boxed_format(), deadline_s=DEADLINE_S)
    call = {"completions": hostile(), "prompts": ["p"] * 64, "answer": ["1"] * 64}
    funcs[0](**{**call, "completions": ["\\boxed{1}"] * 64})
    start = time.perf_counter()
    found = [f(**call) for f in funcs]
    taken = time.perf_counter() - start
    assert [v for i, v in enumerate(found[0]) if i != 17] == [float(i % 2) for i in range(64) if i != 17]
    return taken


def trl_s(where: str, cap: float) -> float | None:
    """The same with TRL's accuracy_reward; None if it was killed at the cap."""
    child = subprocess.Popen(
        [sys.executable, "-c", TRL, json.dumps(hostile()), where], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert child.stdout is not None
        if child.stdout.readline().strip() != "ready":
            raise RuntimeError("accuracy_reward did not start")
        return float(child.communicate(timeout=cap)[0])
    except subprocess.TimeoutExpired:
        return None
    finally:
        child.kill()
        child.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--cap", type=float, default=26.0)
    parser.add_argument("--max-overhead-us", type=float, default=50.0)
    options = parser.parse_args()
    worst = 0.0
    for reward in (make_reward(), R.exact()):
        for name, us in overheads(reward, options.rounds).items():
            print(f"{us:9.1f} us  {name}, besides scoring, for a rollout and component (at most {options.max_overhead_us:g})")
            worst = max(worst, us)
    taken = guerdon_s()
    print(f"{taken:9.3f} s   64 completions, one of them {NINES}: guerdon (deadline {DEADLINE_S:g} s)")
    if importlib.util.find_spec("trl") is None or importlib.util.find_spec("torch") is None:
        print("            TRL is not here: make stacks, then .venv-stacks/bin/python benchmarks/bench_trl.py")
    else:
        for where in ("main thread", "worker thread"):
            theirs = trl_s(where, options.cap)
            shown = f">{options.cap:8.0f} s   (killed)" if theirs is None else f"{theirs:9.2f} s  "
            print(f"{shown} the same: TRL's accuracy_reward, {where}")
    return int(worst > options.max_overhead_us or taken > DEADLINE_S + 1.0)


if __name__ == "__main__":
    sys.exit(main())
