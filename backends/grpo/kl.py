"""Estimates of KL(pi || ref) from sampled tokens, in the loss or in the reward. Values and gradients: see `guerdon.backends.axes.KL`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from guerdon.backends.axes import KL
from guerdon.backends.grpo.inputs import CLAMP, wide

__all__ = ["ESTIMATORS", "kl_penalties", "kl_terms"]

ESTIMATORS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "k1": lambda difference: difference,
    "k2": lambda difference: difference.square() / 2,
    "k3": lambda difference: difference.neg().clamp(-CLAMP, CLAMP).expm1() + difference,
}
"""Of log pi - log ref. k3 clamps its exponent only, so that the linear part keeps a gradient."""


SLOPES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "k1": torch.ones_like,
    "k2": lambda difference: difference.clone(),
    "k3": lambda difference: difference.neg().clamp_(-CLAMP, CLAMP).expm1_().neg_(),
}
"""Their derivatives."""


def kl_terms(kl: KL, difference_NT: Tensor, log_ratio_NT: Tensor) -> tuple[Tensor, Tensor]:
    """The estimate at each token, and the derivative by log pi that `kl` asks for, both without beta.

    `difference_NT` is log pi - log ref and `log_ratio_NT` log pi - log pi_old, both 0 at padding.
    """
    value_NT = ESTIMATORS[kl.estimator](difference_NT)
    if kl.gradient == "unbiased":
        return value_NT, SLOPES["k2"](difference_NT)
    slope_NT = SLOPES[kl.estimator](difference_NT)
    if kl.gradient == "naive":
        return value_NT, slope_NT
    ratio_NT = log_ratio_NT.clamp(-CLAMP, CLAMP).exp()
    return ratio_NT * value_NT, ratio_NT * (value_NT + slope_NT)


@torch.no_grad()
def kl_penalties(kl: KL, old_logp_NT: Tensor, ref_logp_NT: Tensor, mask_NT: Tensor) -> Tensor:
    """beta times the estimate at each token, 0 at padding, to subtract from the reward of the token: place="reward".

    Sum over tokens for one reward a completion (RLOO); for REINFORCE++ at gamma 1 each token's return is the reward less the
    penalties from there on.
    """
    return kl.beta * ESTIMATORS[kl.estimator]((wide(old_logp_NT) - wide(ref_logp_NT)).masked_fill(~mask_NT.bool(), 0.0))
