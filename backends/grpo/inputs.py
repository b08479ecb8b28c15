"""What every loss function does with its tensors first: check shapes, raise precision, cut out padding."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from guerdon.backends.composition import Recipe
from guerdon.backends.gates import Pairwise
from guerdon.errors import ConfigError, MissingInput

__all__ = ["CLAMP", "Block", "Rows", "check_inputs", "choose", "wide"]

CLAMP = 20.0
"""Bound of every log-ratio before an exponential, as in verl and OpenRLHF; exp(20) is 5e8."""


class Rows(NamedTuple):
    """The tensors of a batch or of some of its rows. `advantages` are (N, 1) or (N, T), `weights` (N, 1), `keep` either."""

    logp_NT: Tensor
    mask_NT: Tensor
    advantages: Tensor
    weights: Tensor
    old_NT: Tensor
    rollout_NT: Tensor | None = None
    ref_NT: Tensor | None = None
    entropy_NT: Tensor | None = None
    keep: Tensor | None = None

    def block(self, start: int, stop: int, anchor: str) -> Block:
        """Some rows of them, at least float32."""
        logp_NT, mask_NT, advantages, weights = (each[start:stop].detach() for each in self[:4])
        *others, keep = (None if each is None else each[start:stop].detach() for each in self[4:])
        logp_NT = wide(logp_NT)
        old_NT, rollout_NT, ref_NT, entropy_NT = (None if each is None else wide(each) for each in others)
        mask_NT, advantages, weights = (each.to(logp_NT.dtype) for each in (mask_NT, advantages, weights))
        anchor_NT = old_NT
        if anchor == "rollout" and rollout_NT is not None:  # where the engine has no log-probability, the old policy's
            anchor_NT = torch.where(rollout_NT.isnan(), old_NT, rollout_NT)
        tokens_N1 = mask_NT.sum(1, keepdim=True).clamp(min=1)
        return Block(logp_NT, mask_NT, tokens_N1, advantages, weights, old_NT, anchor_NT, rollout_NT, ref_NT, entropy_NT, keep)


class Block(NamedTuple):
    """Some rows, ready for arithmetic once padding is `cut` from what is made of them. `mask_NT` is a float.

    `tokens_N1` counts each row's tokens, at least 1; `anchor_NT` is the denominator of the ratio.
    """

    logp_NT: Tensor
    mask_NT: Tensor
    tokens_N1: Tensor
    advantages: Tensor
    weights: Tensor
    old_NT: Tensor
    anchor_NT: Tensor
    rollout_NT: Tensor | None = None
    ref_NT: Tensor | None = None
    entropy_NT: Tensor | None = None
    keep: Tensor | None = None

    def cut(self, values_NT: Tensor) -> Tensor:
        """0 at padding, whatever it held. On a CPU a product takes a tenth of a fill's time, and is the same unless there are NaN or
        infinities (0 * NaN is NaN), which the sum tells; on an accelerator that look would wait for the device."""
        if values_NT.device.type == "cpu" and math.isfinite(values_NT.sum().item()):
            return values_NT * self.mask_NT
        return values_NT.masked_fill(self.mask_NT == 0, 0.0)


def choose(condition: Tensor, yes: float, no: float, like: Tensor) -> Tensor:
    """One number or the other, in the dtype of `like`: `torch.where` of two numbers is float32 whatever the tensors are."""
    return like.new_full(condition.shape, no).masked_fill_(condition, yes)


def wide(tensor: Tensor) -> Tensor:
    """At least float32: sums over thousands of tokens have no digits left in bfloat16."""
    return tensor.float() if tensor.element_size() < 4 else tensor


def check_inputs(recipe: Recipe, logp_NT: Tensor, **given: Tensor | None) -> None:
    """MissingInput for what the recipe reads and is not there, ConfigError for shapes that do not fit `logp_NT`."""
    if missing := sorted(name for name in recipe.reads & given.keys() if given[name] is None):
        raise MissingInput(f"recipe {recipe.name} reads {', '.join(missing)}: pass {'it' if len(missing) == 1 else 'them'} to policy_loss")
    if logp_NT.dim() != 2:
        raise ConfigError(f"policy_loss: logp_NT expects shape (completions, tokens), got {tuple(logp_NT.shape)}")
    rows, columns = logp_NT.shape
    paired, advantages = isinstance(recipe.gate, Pairwise), given["advantages"]
    if paired and (rows % 2 or (advantages is not None and advantages.dim() == 2 and advantages.shape[1] > 1)):
        raise ConfigError(
            f"policy_loss: gate Pairwise compares pairs of completions: pass an even number of rows, advantages (N,); got {rows} rows"
        )
    special = {"advantages": [(rows,), (rows, 1), (rows, columns)], "keep_NT": [(rows, 1), (rows, columns)], "truncated_N": [(rows,)]}
    for name, tensor in given.items():
        shapes = special.get(name, [(rows, columns)])
        if tensor is not None and tuple(tensor.shape) not in shapes:
            expected = " or ".join(map(str, shapes))
            raise ConfigError(f"policy_loss: {name} expects shape {expected} beside logp_NT {(rows, columns)}, got {tuple(tensor.shape)}")
