"""One policy loss for every recipe: small tensor functions, one for each value of an axis.

    loss = -sum over tokens of coef * x          coef = A * rollout weight * keep * mask * weight of the aggregation
           + beta * sum of mask * weight * KL    x = f(r) of a surrogate gate; log pi of the others, whose w(r) is then a factor of coef

Gradients are written out beside the values (`gating`, `ratios`, `kl`) and checked against finite differences: through the live ratio for
a surrogate, through log pi alone for the others, and nothing else is live. That keeps no graph, so the loss takes a few floats a token
whatever the recipe. There is no second derivative. Log-ratios are clamped to +-20 before an exponential, what padding holds is cut out
first, inputs below float32 are raised to it, and nothing waits for an accelerator but the entropy mask.
Shapes: N completions, T tokens; ratios of sequences are (N, 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from guerdon.backends import gates
from guerdon.backends.axes import RolloutCorrection
from guerdon.backends.composition import Recipe
from guerdon.backends.grpo.gating import LOG_TINY, SURROGATES, WEIGHTS
from guerdon.backends.grpo.inputs import CLAMP, Block, Rows, check_inputs, wide
from guerdon.backends.grpo.kl import kl_terms
from guerdon.backends.grpo.masks import loss_mask, near_policy_keep, top_entropy_keep
from guerdon.backends.grpo.metrics import SAMPLES, Sums, merge, metrics_of, sums_of
from guerdon.backends.grpo.ratios import GRADIENTS, LOG_RATIOS
from guerdon.errors import MissingInput

__all__ = ["Loss", "policy_loss", "rollout_weights", "token_weights"]

BLOCK = 2**16
"""Tokens that are worked on at a time, at least two rows: 256 kB a tensor, which a CPU's cache holds."""


class Loss(NamedTuple):
    """A scalar to call `backward` on, and detached scalars to log, still on the device."""

    loss: Tensor
    metrics: dict[str, Tensor]


def policy_loss(
    recipe: Recipe,
    logp_NT: Tensor,
    *,
    advantages: Tensor,
    mask_NT: Tensor,
    old_logp_NT: Tensor | None = None,
    rollout_logp_NT: Tensor | None = None,
    ref_logp_NT: Tensor | None = None,
    entropy_NT: Tensor | None = None,
    keep_NT: Tensor | None = None,
    truncated_N: Tensor | None = None,
    token_weights_N: Tensor | None = None,
    group_size: int | None = None,
    length: int | None = None,
    metrics: bool = True,
) -> Loss:
    """The loss of a recipe on a batch, or on a micro-batch of it.

    `logp_NT` are the log-probabilities of the sampled tokens under the policy that is trained. `advantages` are (N,) or (N, T).
    `mask_NT` is 1 where a token counts: padding and what tools wrote are 0, and what the other tensors hold there is not read.
    `old_logp_NT` None is on policy. NaN in `rollout_logp_NT` (a token the engine could not score) counts as no mismatch.
    `keep_NT`, (N, T) or (N, 1), multiplies the policy term and leaves the denominators. `entropy_NT` is only logged unless the
    recipe masks by it. `group_size` and `length` default to the recipe's; rows of one group must be neighbours.

    With `token_weights_N`, from `token_weights` on the *whole* batch, the losses of micro-batches sum to the loss of the batch however it
    is split; without it the rows at hand are the whole. Where gradients are averaged over devices, multiply by their number.

    Raises MissingInput for what `recipe.reads` and is not given, ConfigError for a shape that does not fit.
    """
    given = {"old_logp_NT": old_logp_NT, "rollout_logp_NT": rollout_logp_NT, "ref_logp_NT": ref_logp_NT, "entropy_NT": entropy_NT}
    check_inputs(recipe, logp_NT, advantages=advantages, mask_NT=mask_NT, keep_NT=keep_NT, truncated_N=truncated_N, **given)
    mask_NT = loss_mask(recipe.masks, mask_NT, truncated_N)
    if token_weights_N is None:
        dtype = torch.promote_types(logp_NT.dtype, torch.float32)
        token_weights_N = token_weights(recipe, mask_NT, group_size=group_size, length=length, dtype=dtype)
    if recipe.masks.entropy_quantile is not None and entropy_NT is not None:
        top = top_entropy_keep(recipe.masks.entropy_quantile, entropy_NT, mask_NT)
        keep_NT = top if keep_NT is None else keep_NT * top
    columns = advantages if advantages.dim() == 2 else advantages[:, None]
    old_NT = logp_NT if old_logp_NT is None else old_logp_NT
    rows = Rows(logp_NT, mask_NT, columns, token_weights_N[:, None], old_NT, rollout_logp_NT, ref_logp_NT, entropy_NT, keep_NT)
    stride = max(1, logp_NT.numel() // SAMPLES) if metrics else 0
    loss, sums = _WithGradient.apply(logp_NT, recipe, rows, stride)
    return Loss(loss, metrics_of(recipe, sums, len(logp_NT)) if metrics else {})


class _WithGradient(torch.autograd.Function):
    """The loss, whose gradient was computed beside it, block by block."""

    @staticmethod
    def forward(ctx: Any, logp_NT: Tensor, recipe: Recipe, rows: Rows, stride: int) -> tuple[Tensor, Sums]:
        count, width = logp_NT.shape
        size = max(BLOCK // max(width, 1), 2) & ~1  # even: a pair of rows belongs together
        loss, gradient_NT, sums = rows.weights.sum() * 0, torch.empty_like(logp_NT), Sums()
        for start in range(0, count, size):
            part, gradient, found = _block_loss(recipe, rows.block(start, start + size, recipe.ratio.anchor), stride)
            gradient_NT[start : start + size] = gradient
            loss = loss + part
            merge(sums, found)
        ctx.save_for_backward(gradient_NT)
        return loss, sums

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: object) -> tuple[Tensor, None, None, None]:
        (gradient_NT,) = ctx.saved_tensors
        return gradient_NT * grad.to(gradient_NT.dtype), None, None, None


def _block_loss(recipe: Recipe, block: Block, stride: int) -> tuple[Tensor, Tensor, Sums]:
    """The part of the loss that these rows make up, its gradient, and what to log of them."""
    difference_NT = block.cut(block.logp_NT - block.anchor_NT)
    log_ratio, weight, correction = LOG_RATIOS[recipe.ratio.level](recipe.ratio, difference_NT, block), None, recipe.rollout_correction
    if correction is not None and block.rollout_NT is not None:
        weight = rollout_weights(correction, block.old_NT, block.rollout_NT, block.mask_NT)
        log_ratio = log_ratio + _folded(weight, block.mask_NT) if correction.fold else log_ratio
    coef_NT = _coefficients(recipe, block, None if correction is None or correction.fold else weight)
    loss, gradient_NT = _policy_term(recipe, block, difference_NT, log_ratio, coef_NT)
    kl_NT = None
    if recipe.kl is not None and recipe.kl.place == "loss" and block.ref_NT is not None:
        kl_NT, slope = kl_terms(recipe.kl, block.cut(block.logp_NT - block.ref_NT), difference_NT)
        scale = block.mask_NT * (recipe.kl.beta * block.weights)
        loss, gradient_NT = loss + (kl_NT * scale).sum(), gradient_NT.add_(slope.mul_(scale))
    return loss, gradient_NT, sums_of(recipe, block, difference_NT, log_ratio, coef_NT, weight, kl_NT, stride) if stride else Sums()


def _policy_term(recipe: Recipe, block: Block, difference_NT: Tensor, log_ratio: Tensor, coef_NT: Tensor) -> tuple[Tensor, Tensor]:
    """Value and gradient of -sum of coef * x. The weight of a weighted gate is put into `coef_NT`."""
    if isinstance(recipe.gate, gates.Surrogate):
        f, slope = SURROGATES[type(recipe.gate)](recipe.gate, log_ratio, block, coef_NT)
        gradient_NT = GRADIENTS[recipe.ratio.level](recipe.ratio, difference_NT, block, coef_NT, slope).neg_()
        return -((coef_NT if f.shape[1] > 1 else coef_NT.sum(1, keepdim=True)) * f).sum(), gradient_NT
    coef_NT *= WEIGHTS[type(recipe.gate)](recipe.gate, log_ratio, block)
    return -(coef_NT * block.cut(block.logp_NT)).sum(), -coef_NT


def _coefficients(recipe: Recipe, block: Block, weight: Tensor | None) -> Tensor:
    """What every token's f(r), or w(r) log pi, is multiplied with."""
    coef_NT = block.mask_NT * (block.advantages * block.weights)
    for factor in (weight, block.keep):
        coef_NT = coef_NT if factor is None else coef_NT.mul_(factor)
    masks = recipe.masks
    if masks.off_policy is not None:
        sampled_NT = block.old_NT if block.rollout_NT is None else block.rollout_NT
        coef_NT *= near_policy_keep(masks.off_policy, block.logp_NT, sampled_NT, block.advantages, block.mask_NT)
    if masks.token_weight == "1-pi_ref" and block.ref_NT is not None:
        coef_NT *= -torch.expm1(block.cut(block.ref_NT).clamp(max=0.0))
    return coef_NT


# --- aggregation --------------------------------------------------------------------------------------------------------------


def token_weights(
    recipe: Recipe, mask_NT: Tensor, *, truncated_N: Tensor | None = None, group_size: int | None = None, length: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:  # fmt: skip
    """The weight of each completion's tokens in the loss, (N,): what `recipe.aggregate` says, as a factor that rows can be split with.

    Called once on the mask of the whole batch (over all devices), its rows go with the micro-batches. All-masked batches get 0.

    >>> import torch
    >>> from guerdon.backends import recipes
    >>> mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]])
    >>> token_weights(recipes.dapo(overlong=None, truncated=False), mask), token_weights(recipes.grpo(), mask)
    (tensor([0.2500, 0.2500]), tensor([0.1667, 0.5000]))
    """
    mask_NT = loss_mask(recipe.masks, mask_NT, truncated_N) if truncated_N is not None else mask_NT
    tokens_N = torch.count_nonzero(mask_NT, dim=1).to(dtype)  # faster than the sum of a bool
    group = group_size or recipe.group_size or 0
    width = length or recipe.aggregate.length or 0
    missing = {
        "group_size": recipe.aggregate.how == "prompt_mean" and not group,
        "length": recipe.aggregate.how == "token_sum" and not width,
    }
    for name in (name for name, absent in missing.items() if absent):
        raise MissingInput(f"recipe {recipe.name} reads {name}: pass it, or set it in the recipe")
    rows = torch.full_like(tokens_N[:1], len(tokens_N)) if recipe.aggregate.count_empty else (tokens_N > 0).sum().to(dtype)
    rows = rows.clamp(min=1)
    one_N = torch.ones_like(tokens_N)
    return _WEIGHTS_OF_MEANS[recipe.aggregate.how](tokens_N, one_N, rows, group, width, recipe.aggregate.count_empty)


def _prompt_mean(tokens_N: Tensor, one_N: Tensor, rows: Tensor, group: int, width: int, count_empty: bool) -> Tensor:
    tokens_P = tokens_N.view(-1, group).sum(1)
    prompts = one_N.sum() / group if count_empty else (tokens_P > 0).sum()
    return one_N / (tokens_P.clamp(min=1) * prompts.clamp(min=1)).repeat_interleave(group)


_WEIGHTS_OF_MEANS: Mapping[str, Callable[[Tensor, Tensor, Tensor, int, int, bool], Tensor]] = {
    "sequence_mean": lambda tokens, one, rows, *_: one / (tokens.clamp(min=1) * rows),
    "token_mean": lambda tokens, one, *_: one / tokens.sum().clamp(min=1),
    "token_sum": lambda tokens, one, rows, _, width, __: one / (rows * width),
    "sequence_sum": lambda tokens, one, rows, *_: one / rows,
    "prompt_mean": _prompt_mean,
}

# --- rollout correction -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def rollout_weights(correction: RolloutCorrection, old_logp_NT: Tensor, rollout_logp_NT: Tensor, mask_NT: Tensor) -> Tensor:
    """pi_old / mu of each token (N, T), 0 at padding, or of each sequence (N, 1), bounded as `correction` says.

    Tokens whose `rollout_logp_NT` is NaN have no mismatch. Truncation is TIS (fengyao.notion.site/off-policy-rl), masking MIS or
    IcePop (arXiv:2510.18855).
    """
    log_NT = (wide(old_logp_NT) - wide(rollout_logp_NT)).nan_to_num(nan=0.0) * mask_NT
    log = log_NT if correction.level == "token" else log_NT.sum(1, keepdim=True)
    if correction.level == "geometric":
        log = log / mask_NT.sum(1, keepdim=True).clamp(min=1)
    weight = log.clamp(-CLAMP, CLAMP).exp()
    low, high = correction.floor or 0.0, math.inf if correction.cap is None else correction.cap
    if correction.mode == "truncate":
        weight = weight.clamp(low, high)
    else:
        kept = (weight >= low) & (weight <= high)
        if correction.carries == "same":
            weight = weight * kept
        else:
            weight = (log_NT.clamp(-CLAMP, CLAMP).exp() if correction.carries == "token" else torch.ones_like(weight)) * kept
    return weight if weight.shape[1] == 1 and correction.level != "token" else weight * mask_NT


def _folded(weight: Tensor, mask_NT: Tensor) -> Tensor:
    log = weight.log().clamp(LOG_TINY, CLAMP)
    return log if log.shape != mask_NT.shape else (log * mask_NT).sum(1, keepdim=True)
