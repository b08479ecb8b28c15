"""Run by torchrun on two ranks: each gets two of the four completions of a group. Rank 0 writes what came out as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch.distributed as dist
from tiny_trl import composed, digits, rescored, train

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.backends.trl import advantage_func, reward_funcs
from guerdon.errors import GuerdonError
from guerdon.rewards.advantages import BATCH, GDPO, GOPO

SCORED: list[int] = []


def rank_in_group(rollouts: list[Rollout]) -> list[float]:
    """How many siblings have fewer digits: wrong unless the whole group is there."""
    SCORED.append(len(rollouts))
    values = [digits(r.completion) for r in rollouts]
    return [
        float(sum(r.group == s.group and w < v for s, w in zip(rollouts, values, strict=True)))
        for r, v in zip(rollouts, values, strict=True)
    ]


def grouped() -> Any:
    return R.from_function(rank_in_group, batch=True, reads={"group"}) + 0.3 * R.distinct(ngram=1) + composed()


def group_terms(output: Path) -> dict[str, Any]:
    funcs = reward_funcs(grouped())
    trainer = train(funcs, output, steps=1, per_device_train_batch_size=2, gradient_accumulation_steps=1, **funcs.config_kwargs())
    scored = sum(SCORED)  # on this rank, before the check below scores them again
    ours = rescored(trainer, grouped())
    got = [list(trainer._logs["rewards"][name]) for name in ours.names]
    return {"got": got, "want": ours.values_NK.T.tolist(), "scored": scored, "rows": len(got[0])}


def injected(output: Path) -> dict[str, Any]:
    found = {}
    for name, spec in {"gopo": GOPO, "gdpo": GDPO, "batch": BATCH}.items():
        function = advantage_func(grouped() if name == "gopo" else composed(), spec)
        trainer = train([function], output, steps=1, per_device_train_batch_size=6, num_generations=4, **function.config_kwargs())
        found[name] = {"got": trainer.watched[-1], "want": rescored(trainer, function.reward).advantages(spec).tolist()}
    return found


def fault_of_one_rank() -> str:
    """More than half of rank 1's rows are broken. Rank 0 must not wait for it."""
    function = advantage_func(R.math_equal(), GOPO)
    n = 256
    answers = [None if dist.get_rank() else "1"] * n
    try:
        function(prompts=[str(i // 4) for i in range(n)], completions=["\\boxed{1}"] * n, answer=answers)
    except GuerdonError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def row_that_cannot_be_sent() -> str:
    """A split group, of which rank 1 holds a cell that does not pickle. Rank 0 must not wait for it."""
    cell = (lambda: 0) if dist.get_rank() else 0
    try:
        reward_funcs(R.duplicate_penalty())[0](prompts=["p"] * 2, completions=["x"] * 2, own=[cell] * 2)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def main() -> None:
    output = Path(sys.argv[1])
    found: dict[str, Any] = {"group": group_terms(output), "injected": injected(output)}
    faults: list[Any] = [None, None]
    dist.all_gather_object(faults, fault_of_one_rank())
    unsent: list[Any] = [None, None]
    dist.all_gather_object(unsent, row_that_cannot_be_sent())
    scored: list[Any] = [None, None]
    dist.all_gather_object(scored, found["group"]["scored"])
    if dist.get_rank() == 0:
        (output / "found.json").write_text(json.dumps({**found, "faults": faults, "unsent": unsent, "scored": scored}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
