"""Which tokens and completions count. The loss applies those that a recipe names; the others are made here and given to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal

import torch
from torch import Tensor

from guerdon.backends.axes import Masks

__all__ = ["duplicate_weights", "loss_mask", "near_policy_keep", "top_entropy_keep"]


@torch.no_grad()
def loss_mask(
    masks: Masks, mask_NT: Tensor, truncated_N: Tensor | None = None, tools_NT: Tensor | None = None, valid_N: Tensor | None = None
) -> Tensor:
    """The tokens that count, bool: `mask_NT` (0 at padding) without truncated completions where `masks` leaves them out, without the
    tokens that tools or the environment wrote (`tools_NT` is 0 there, as in TRL's tool_mask) and without invalid rows.

    All of them leave the denominators of the loss too.
    """
    mask_NT = mask_NT.bool()
    if masks.truncated and truncated_N is not None:
        mask_NT = mask_NT & ~truncated_N.bool()[:, None]
    if tools_NT is not None:
        mask_NT = mask_NT & tools_NT.bool()
    return mask_NT if valid_N is None else mask_NT & valid_N.bool()[:, None]


@torch.no_grad()
def near_policy_keep(threshold: float, logp_NT: Tensor, sampled_logp_NT: Tensor, advantages: Tensor, mask_NT: Tensor) -> Tensor:
    """DeepSeek-V3.2's off-policy sequence mask: 0 where A < 0 and the mean of log(mu / pi) over the completion exceeds the threshold.

    (N, 1), or (N, T) for advantages of tokens. `sampled_logp_NT` are the engine's log-probabilities where there are any, else the old ones.
    """
    drift_NT = (sampled_logp_NT - logp_NT).nan_to_num(nan=0.0) * mask_NT
    drift_N1 = drift_NT.sum(1, keepdim=True) / mask_NT.sum(1, keepdim=True).clamp(min=1)
    return ((advantages >= 0) | (drift_N1 <= threshold)).to(logp_NT.dtype)


@torch.no_grad()
def top_entropy_keep(share: float, entropy_NT: Tensor, mask_NT: Tensor) -> Tensor:
    """1 for the `share` of counted tokens with the highest entropy (arXiv:2506.01939); TRL `top_entropy_quantile`."""
    mask_NT = mask_NT.bool()
    counted = entropy_NT[mask_NT].float()
    if counted.numel() == 0:
        return torch.zeros_like(entropy_NT)
    place = (1 - share) * (counted.numel() - 1)  # torch.quantile refuses more than 16 million values
    ordered, low = counted.sort().values, int(place)
    threshold = torch.lerp(ordered[low], ordered[min(low + 1, len(ordered) - 1)], place - low)
    return ((entropy_NT.float() >= threshold) & mask_NT).to(entropy_NT.dtype)


def duplicate_weights(completions: Sequence[Hashable], groups: Sequence[Hashable], how: Literal["drop", "share"] = "drop") -> list[float]:
    """A weight for each completion by how often its group has it: the first of equals 1 and the others 0 (`drop`), or 1 / count (`share`).

    Give them to the loss as `keep_NT=torch.tensor(weights)[:, None]`, or leave the zeros out before advantages are made, which
    moves the baseline of the group too: log which.

    >>> duplicate_weights(["a", "b", "a", "a"], [0, 0, 0, 1], "share")
    [0.5, 1.0, 0.5, 1.0]
    """
    pairs = list(zip(groups, completions, strict=True))
    if how == "share":
        counts = Counter(pairs)
        return [1 / counts[pair] for pair in pairs]
    firsts = {pair: i for i, pair in reversed(list(enumerate(pairs)))}
    return [float(firsts[pair] == i) for i, pair in enumerate(pairs)]
