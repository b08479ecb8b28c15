"""What the doors of OpenRLHF, verl and Ray cost beside scoring, a rollout and component: at most 50 us is the aim.

Each call is timed against the scoring of the same rollouts that it does inside, in turns, and the fastest are compared. Neither OpenRLHF,
nor verl, nor a Ray cluster is needed: the adapters are called as they call them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.backends.door import score_safely
from guerdon.backends.openrlhf import reward_func_from
from guerdon.backends.ray import RewardActor
from guerdon.backends.verl import compute_score_from

PROMPT, TEXT = "What is 2+2? ", "<think>two and two</think>It is \\boxed{4}"
REWARDS: dict[int, Any] = {
    1: R.math_equal(),
    4: R.math_equal() + 0.2 * R.boxed_format() + 0.1 * R.think_format() + 0.1 * R.exact(),
}
AT_MOST_US = 50.0
ROUNDS = 300


def beside(call: Callable[[], Any], scoring: Callable[[], Any], rows: int, components: int, rounds: int) -> float:
    """Microseconds of the call that are not scoring, a rollout and component."""
    seconds: dict[str, list[float]] = {"call": [], "scoring": []}
    for _ in range(rounds):
        for name, work in (("call", call), ("scoring", scoring)):
            start = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - start)
    return (min(seconds["call"]) - min(seconds["scoring"])) / rows / components * 1e6


def main() -> None:
    import pyarrow as pa

    label, extra = json.dumps({"answer": "4", "data_source": "gsm8k"}), {"index": 0}
    table = pa.table({"prompt": [PROMPT] * 256, "completion": [TEXT] * 256, "answer": ["4"] * 256})
    for k, reward in REWARDS.items():
        one, many = [Rollout(TEXT, prompt=PROMPT, answer="4")], [Rollout(TEXT, prompt=PROMPT, answer="4")] * 256
        file, score, actor = reward_func_from(reward), compute_score_from(reward), RewardActor(reward)

        def scored(rollouts: list[Rollout], reward: Any = reward) -> Any:
            return score_safely(reward, rollouts, 60.0, check=False)

        doors = {
            "OpenRLHF, a reward file, one row": (lambda f=file: f([PROMPT + TEXT], [PROMPT], [label]), one, ROUNDS),
            "verl, compute_score, one row": (lambda f=score: f("gsm8k", TEXT, "4", extra), one, ROUNDS),
            "Ray, an Arrow batch of 256": (lambda f=actor: f(table), many, ROUNDS // 10),
        }
        for name, (call, rollouts, rounds) in doors.items():
            cost = beside(call, lambda rows=rollouts, scored=scored: scored(rows), len(rollouts), k, rounds)
            print(f"{cost:9.1f} us  {name}, {k} component{'s' * (k > 1)} (at most {AT_MOST_US:g})")


if __name__ == "__main__":
    main()
