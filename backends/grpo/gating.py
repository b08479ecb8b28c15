"""Gates on tensors. The formulas and what they mean: `guerdon.backends.gates`.

A surrogate gives f and its slope df/dlog r, a weighted gate w. `log_ratio` is (N, T) or, for sequences, (N, 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from guerdon.backends import gates
from guerdon.backends.grpo.divergence import drifts_away, token_divergence
from guerdon.backends.grpo.inputs import CLAMP, Block, choose

__all__ = ["LOG_TINY", "SURROGATES", "WEIGHTS", "clamped_slope"]

LOG_TINY = math.log(1e-8)
"""Where VESPO's log W, and each weight folded into it, ends below, as in TRL and its authors' code."""

FAndSlope = tuple[Tensor, Tensor]


def clamped_slope(values: Tensor, low: Tensor | float, high: Tensor | float) -> FAndSlope:
    """Values clamped, and whether each was inside: the derivative of clamping."""
    kept = values.clamp(low, high)
    return kept, kept == values


def _clip(gate: gates.Clip, log_ratio: Tensor, block: Block, coef: Tensor) -> FAndSlope:
    """Clamped before the exponential: the same, and one pass less."""
    up = block.advantages > 0
    low, high, cap = _log(1 - gate.eps_low), _log(1 + gate.eps_high), _log(gate.cap)
    kept, inside = clamped_slope(log_ratio, choose(up, -CLAMP, low, log_ratio), choose(up, high, cap, log_ratio))
    f = kept.exp_()
    return f, f * inside


def _log(bound: float) -> float:
    return min(max(math.log(bound) if bound > 0 else -CLAMP, -CLAMP), CLAMP)


def _unclipped(gate: gates.Unclipped, log_ratio: Tensor, block: Block, coef: Tensor) -> FAndSlope:
    kept, inside = clamped_slope(log_ratio, -CLAMP, CLAMP)
    f = kept.exp_()
    return f, f * inside


def _sigmoid(gate: gates.SigmoidGate, log_ratio: Tensor, block: Block, coef: Tensor) -> FAndSlope:
    tau, ratio = choose(block.advantages > 0, gate.tau_pos, gate.tau_neg, log_ratio), log_ratio.clamp(-CLAMP, CLAMP).exp_()
    s = ((ratio - 1).mul_(tau)).sigmoid_()
    return s * (4 / tau), ratio.mul_(s).mul_(1 - s).mul_(4)


def _mirrored(gate: gates.MirroredSigmoid, log_ratio: Tensor, block: Block, coef: Tensor) -> FAndSlope:
    tau, ratio = choose(block.advantages > 0, gate.tau_pos, -gate.tau_neg, log_ratio), log_ratio.clamp(-CLAMP, CLAMP).exp()
    s = ((ratio - 1) / tau).sigmoid()
    return ratio * s, ratio * s * (1 + ratio * (1 - s) / tau)


def _pairwise(gate: gates.Pairwise, log_ratio: Tensor, block: Block, coef: Tensor) -> FAndSlope:
    """A row's slope counts the weight of both rows of the pair, since its ratio is in the loss of both."""
    sign_N1, coef_N1 = block.advantages[:, :1].sign(), coef.sum(1, keepdim=True)
    margin = (gate.beta * sign_N1 * log_ratio.clamp(-CLAMP, CLAMP)).view(-1, 2).sum(1).repeat_interleave(2)[:, None]
    of_both = coef_N1.abs().view(-1, 2).sum(1).repeat_interleave(2)[:, None]
    share = torch.where(coef_N1 == 0, 0.0, of_both / coef_N1)
    return sign_N1 * functional.logsigmoid(margin), gate.beta * sign_N1 * (-margin).sigmoid() * share


SURROGATES: Mapping[type, Callable[[Any, Tensor, Block, Tensor], FAndSlope]] = {
    gates.Unclipped: _unclipped,
    gates.Clip: _clip,
    gates.SigmoidGate: _sigmoid,
    gates.MirroredSigmoid: _mirrored,
    gates.Pairwise: _pairwise,
}


def _capped(gate: gates.CappedWeight, log_ratio: Tensor, block: Block) -> Tensor:
    low, high = _log(gate.floor or 0.0), CLAMP if gate.cap is None else _log(gate.cap)
    return log_ratio.clamp(low, high).exp_()


def _gamma(gate: gates.GammaWeight, log_ratio: Tensor, block: Block) -> Tensor:
    log_w, positive = log_ratio.clamp(LOG_TINY, CLAMP), block.advantages >= 0
    k, lam = choose(positive, gate.k_pos, gate.k_neg, log_w), choose(positive, gate.lam_pos, gate.lam_neg, log_w)
    return (k * log_w - lam * (log_w.exp() - 1)).exp()


def _divergence_mask(gate: gates.DivergenceMask, log_ratio: Tensor, block: Block) -> Tensor:
    weight = log_ratio.clamp(-CLAMP, _log(gate.cap)).exp_()
    if gate.from_logits:  # the mask is a factor of the coefficients already
        return weight
    mu, pi, kind = block.anchor_NT, block.logp_NT, gate.divergence.removeprefix("binary_")
    far = token_divergence(kind, mu[..., None], pi[..., None]) > gate.delta
    return weight.masked_fill_(far & drifts_away(mu, pi, block.advantages), 0.0)


WEIGHTS: Mapping[type, Callable[[Any, Tensor, Block], Tensor]] = {
    gates.CappedWeight: _capped,
    gates.GammaWeight: _gamma,
    gates.DivergenceMask: _divergence_mask,
}
