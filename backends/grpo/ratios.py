"""From differences of log-probabilities to the log-ratio that a gate sees, and back: the gradient of each token through it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from torch import Tensor

from guerdon.backends.axes import Ratio
from guerdon.backends.grpo.inputs import Block, choose

__all__ = ["GRADIENTS", "LOG_RATIOS"]


def _mean(difference_NT: Tensor, block: Block) -> Tensor:
    return difference_NT.sum(1, keepdim=True) / block.tokens_N1


def _one_sided(ratio: Ratio, difference_NT: Tensor, block: Block) -> Tensor:
    """GMPO's clip in log space: above where A > 0, below elsewhere."""
    up = block.advantages > 0
    low = choose(up, -math.inf, -(ratio.log_eps_low or 0.0), difference_NT)
    return difference_NT.clamp(low, choose(up, ratio.log_eps_high or 0.0, math.inf, difference_NT))


def _of_rows(coef_NT: Tensor, slope: Tensor) -> Tensor:
    """The slope is one a row, unless advantages of tokens give each its own clip."""
    return coef_NT.sum(1, keepdim=True) * slope if slope.shape[1] == 1 else (coef_NT * slope).sum(1, keepdim=True)


LOG_RATIOS: Mapping[str, Callable[[Ratio, Tensor, Block], Tensor]] = {
    "token": lambda ratio, difference, block: difference,
    "geometric": lambda ratio, difference, block: _mean(difference, block),
    "geometric_token": lambda ratio, difference, block: _mean(difference, block),
    "geometric_clipped": lambda ratio, difference, block: _mean(_one_sided(ratio, difference, block), block),
    "product": lambda ratio, difference, block: difference.sum(1, keepdim=True),
}
"""(N, T) for tokens, (N, 1) for sequences."""

GRADIENTS: Mapping[str, Callable[[Ratio, Tensor, Block, Tensor, Tensor], Tensor]] = {
    "token": lambda ratio, difference, block, coef, slope: coef * slope,
    "geometric": lambda ratio, difference, block, coef, slope: _of_rows(coef, slope) / block.tokens_N1 * block.mask_NT,
    "geometric_token": lambda ratio, difference, block, coef, slope: coef * slope,
    "geometric_clipped": lambda ratio, difference, block, coef, slope: (
        _of_rows(coef, slope) / block.tokens_N1 * block.mask_NT * (_one_sided(ratio, difference, block) == difference)
    ),
    "product": lambda ratio, difference, block, coef, slope: _of_rows(coef, slope) * block.mask_NT,
}
"""d(sum of coef * f) / d(log pi of each token), from the slope df/d(log-ratio): a sequence's ratio moves with every token of it."""
