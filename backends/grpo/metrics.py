"""What a loss logs: detached scalars on the device, by name. They are read from what the loss computed; nothing is run twice."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from guerdon.backends import gates
from guerdon.backends.composition import Recipe
from guerdon.backends.grpo.inputs import CLAMP, Block

__all__ = ["SAMPLES", "Sums", "merge", "metrics_of", "sums_of"]

SAMPLES = 1024
"""Quantiles are taken of about this many tokens, evenly spaced: sorting a batch costs more than its loss."""

_APART = ("tokens", "sample", "sample_tokens", "sample_active", "rollout_weight_max", "rollout_weight_square")

Sums = dict[str, Tensor]
"""Sums over rows by name; but `sample` is concatenated, and `rollout_weight_max` a maximum."""


@torch.no_grad()
def sums_of(
    recipe: Recipe,
    block: Block,
    difference_NT: Tensor,
    log_ratio: Tensor,
    coef_NT: Tensor,
    weight: Tensor | None,
    kl_NT: Tensor | None,
    stride: int,
) -> Sums:
    """What `metrics_of` needs of some rows."""
    difference_NT, log_ratio = difference_NT.detach(), log_ratio.detach()
    counted = block.mask_NT.flatten()[::stride]
    found = {
        "tokens": block.mask_NT.sum(),
        "sample_active": torch.count_nonzero(coef_NT.flatten()[::stride]),
        "kl_old": -difference_NT.sum(),
        "sample": difference_NT.flatten()[::stride].masked_fill(counted == 0, math.inf),
        "sample_tokens": counted.sum(),
    }
    low, high, signed = _BOUNDS.get(type(recipe.gate), _none)(recipe.gate)
    if recipe.ratio.level == "geometric_clipped":
        low, high, signed, log_ratio = -(recipe.ratio.log_eps_low or 0.0), recipe.ratio.log_eps_high, True, difference_NT
    up = block.advantages > 0
    if low is not None:  # padding has a log-ratio of 0, which no bound cuts
        found["clipped_low"] = torch.count_nonzero(log_ratio < (log_ratio.new_tensor(low).masked_fill(up, -math.inf) if signed else low))
    if high is not None:
        found["clipped_high"] = torch.count_nonzero(log_ratio > (log_ratio.new_tensor(high).masked_fill(~up, math.inf) if signed else high))
    if kl_NT is not None:
        found["kl"] = kl_NT.detach().sum()  # 0 at padding
    if weight is not None:
        found |= {"rollout_weight_mean": weight.sum(), "rollout_weight_max": weight.max(), "rollout_weight_square": weight.square().sum()}
    if block.entropy_NT is not None:
        found["entropy"] = block.cut(block.entropy_NT).sum()
    return found


def merge(sums: Sums, found: Sums) -> None:
    """Add the sums of other rows, in place."""
    for name, value in found.items():
        if name not in sums:
            sums[name] = value
        elif name == "sample":
            sums[name] = torch.cat([sums[name], value])
        else:
            sums[name] = torch.maximum(sums[name], value) if name == "rollout_weight_max" else sums[name] + value


@torch.no_grad()
def metrics_of(recipe: Recipe, sums: Sums, completions: int) -> dict[str, Tensor]:
    """By name, means over the tokens that count (over completions, for ratios and weights of sequences):

    `tokens` that count; `clipped_low` and `clipped_high`, where the gate or the ratio has a bound; `kl_old`, k1 of the anchor against
    this policy; of a sample of tokens `ratio_q01`, `ratio_q50`, `ratio_q99`, the `active` share that has a policy gradient and the
    share `clamped` to a log-ratio of +-20; `kl`, the estimate in the loss; `rollout_weight_mean`, `rollout_weight_max`,
    `rollout_weight_ess` (effective share); `entropy`.
    """
    if not sums:
        return {}
    tokens = sums["tokens"].clamp(min=1)
    of_ratio = tokens if recipe.ratio.level in ("token", "geometric_token") else max(completions, 1)
    clipped = tokens if recipe.ratio.level == "geometric_clipped" else of_ratio
    correction = recipe.rollout_correction
    of_tokens = correction is not None and "token" in (correction.level, correction.carries)
    of_weight = tokens if of_tokens else max(completions, 1)
    units = {"clipped_low": clipped, "clipped_high": clipped, "rollout_weight_mean": of_weight}
    kept = {name: value for name, value in sums.items() if name not in _APART}
    found = {"tokens": sums["tokens"], **{name: value / units.get(name, tokens) for name, value in kept.items()}}
    sample, count = sums["sample"].sort().values, sums["sample_tokens"].clamp(min=1)  # padding is infinite there: last
    found["active"] = sums["sample_active"] / count
    found["clamped"] = ((sample.abs() > CLAMP) & sample.isfinite()).sum() / count
    places = (sample.new_tensor([0.01, 0.5, 0.99]) * (count - 1)).round().long()
    quantiles = sample[places.clamp(max=len(sample) - 1)].clamp(-CLAMP, CLAMP).exp()
    found |= dict(zip(("ratio_q01", "ratio_q50", "ratio_q99"), quantiles.unbind(), strict=True))
    if "rollout_weight_square" in sums:
        found["rollout_weight_max"] = sums["rollout_weight_max"]
        squares = (sums["rollout_weight_square"] * of_weight).clamp(min=1e-30)
        found["rollout_weight_ess"] = sums["rollout_weight_mean"].square() / squares
    return found


Bounds = tuple[float | None, float | None, bool]


def _none(gate: Any) -> Bounds:
    return None, None, False


def _log(bound: float | None) -> float | None:
    return None if bound is None else math.log(bound) if bound > 0 else -math.inf


_BOUNDS: Mapping[type, Callable[[Any], Bounds]] = {
    gates.Clip: lambda gate: (_log(1 - gate.eps_low), _log(1 + gate.eps_high), True),
    gates.CappedWeight: lambda gate: (_log(gate.floor), _log(gate.cap), False),
    gates.DivergenceMask: lambda gate: (None, _log(gate.cap), False),
}
"""Log-ratios at which a gate stops: below, above, and whether only for the sign of A that it bounds."""
