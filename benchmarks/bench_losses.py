"""Speed and memory of `policy_loss` against TRL's own code for the same algorithm: forward and backward, N=64, T=2048, float32.

Both get the same tensors. TRL logs while it computes and cannot do without, which costs it much where it logs much; guerdon is timed
without its metrics (`ratio`, which is checked) and with them (`with`: quantiles, clip fractions, drift, for every recipe). Memory is the
largest sum of live tensors made by a call, inputs apart, in units of N*T floats, counted at each operation. Skipped without torch;
without TRL only guerdon is measured.

Exits 1 where guerdon takes more than --max-slowdown times TRL's time, or more than --max-floats of memory.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "backends"))

NAMES = ("grpo", "dapo", "dr_grpo", "gspo", "cispo", "sapo", "vespo", "tis", "opsm", "gmpo", "dppo")


def batch(rows: int, tokens: int) -> dict[str, Any]:
    import torch

    generator = torch.Generator().manual_seed(0)
    logp = -torch.rand(rows, tokens, generator=generator) * 3 - 0.05
    near = [logp + 0.1 * torch.randn(rows, tokens, generator=generator) for _ in range(3)]
    lengths = torch.randint(tokens // 2, tokens + 1, (rows, 1), generator=generator)
    mask = (torch.arange(tokens)[None] < lengths).float()
    advantages = torch.randn(rows, generator=generator)
    return {"logp": logp, "old": near[0], "rollout": near[1], "ref": near[2], "mask": mask, "advantages": advantages}


def runs(name: str, data: dict[str, Any]) -> dict[str, Callable[[], None]]:
    """Forward and backward by guerdon and, where it has the algorithm, by TRL."""
    import torch

    from guerdon.backends.grpo.losses import policy_loss
    from guerdon.backends.recipes import RECIPES

    recipe = RECIPES[name]()
    recipe = recipe.but(masks=recipe.masks.__class__(off_policy=recipe.masks.off_policy), name=name)
    given = {"rollout_logp_NT": data["rollout"], "ref_logp_NT": data["ref"]}
    given = {key: value for key, value in given.items() if key in recipe.reads}

    def ours(metrics: bool = True) -> None:
        logp = data["logp"].detach().requires_grad_()
        loss, _ = policy_loss(
            recipe,
            logp,
            advantages=data["advantages"],
            mask_NT=data["mask"],
            old_logp_NT=data["old"],
            length=data["logp"].shape[1],
            metrics=metrics,
            **given,
        )
        torch.autograd.grad(loss, logp)

    def alone() -> None:
        ours(metrics=False)

    translation = recipe.trl()
    if translation.support == "guerdon only" or importlib.util.find_spec("trl") is None:
        return {"alone": alone, "guerdon": ours}
    import stack_code

    settings = {**translation.settings, "max_completion_length": data["logp"].shape[1]}

    def theirs() -> None:
        logp = data["logp"].detach().requires_grad_()
        extra = {"rollout": data["rollout"] if "rollout_logp_NT" in recipe.reads else None, "ref": data["ref"], "gmpo": name == "gmpo"}
        loss = stack_code.trl_loss(settings, logp, advantages=data["advantages"], mask=data["mask"], old=data["old"], **extra)
        torch.autograd.grad(loss, logp)

    return {"alone": alone, "guerdon": ours, "TRL": theirs}


def peak_bytes(call: Callable[[], None]) -> int:
    """The largest sum of storages alive at once that were made during the call."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    live = peak = 0

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal live, peak
            known = {a.untyped_storage().data_ptr() for a in args if isinstance(a, torch.Tensor)}
            result = function(*args, **(kwargs or {}))
            for tensor in result if isinstance(result, tuple | list) else (result,):
                if not isinstance(tensor, torch.Tensor) or tensor.untyped_storage().data_ptr() in known:
                    continue
                storage = tensor.untyped_storage()
                size = storage.nbytes()
                live += size
                peak = max(peak, live)
                weakref.finalize(storage, release, size)
            return result

    def release(size: int) -> None:
        nonlocal live
        live -= size

    with Count():
        call()
    return peak


def seconds(calls: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """The median CPU time of each on one thread, taken in turns: what else the machine does hits both."""
    times: dict[str, list[float]] = {who: [] for who in calls}
    for turn in range(repeats + 3):
        for who, call in calls.items():
            start = time.process_time()
            call()
            if turn >= 3:
                times[who].append(time.process_time() - start)
    return {who: statistics.median(found) for who, found in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--max-slowdown", type=float, default=1.0)
    parser.add_argument("--max-floats", type=float, default=6.0)
    args = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("skipped: torch is not installed (make stacks has it)")
        return 0
    import torch

    torch.set_num_threads(1)
    data = batch(args.rows, args.tokens)
    unit = 4 * args.rows * args.tokens
    failed = False
    print(f"{'recipe':<10}{'loss ms':>10}{'+ metrics':>11}{'TRL ms':>9}{'ratio':>8}{'with':>8}{'floats NT':>12}{'TRL NT':>9}")
    for name in NAMES:
        calls = runs(name, data)
        found, memory = seconds(calls, args.repeats), {who: peak_bytes(call) / unit for who, call in calls.items()}
        theirs = found.get("TRL", float("nan"))
        ratio, whole = found["alone"] / theirs, found["guerdon"] / theirs
        failed |= ratio > args.max_slowdown or memory["guerdon"] > args.max_floats
        times = f"{1000 * found['alone']:>10.2f}{1000 * found['guerdon']:>11.2f}{1000 * theirs:>9.2f}{ratio:>8.2f}{whole:>8.2f}"
        print(f"{name:<10}{times}{memory['guerdon']:>12.2f}{memory.get('TRL', float('nan')):>9.2f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
