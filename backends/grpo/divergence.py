"""How far two policies are apart at a token, from the sampled token alone up to the whole vocabulary: DPPO (arXiv:2602.04879)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

__all__ = ["divergence_keep", "drifts_away", "token_divergence", "with_sampled"]


@torch.no_grad()
def token_divergence(kind: Literal["tv", "kl"] | str, mu_logp_NTK: Tensor, pi_logp_NTK: Tensor) -> Tensor:
    """TV(mu, pi) or KL(mu || pi) over K named tokens and one bucket for the rest, (N, T).

    K = 1 with the sampled token is DPPO's binary divergence, K = vocabulary the full one. By data processing it is a lower bound of the
    full one, and merging tokens never raises it: so binary <= top-K with the sampled token <= full. Log-probability -inf names nothing.
    """
    mu_NTK, pi_NTK = mu_logp_NTK.exp(), pi_logp_NTK.exp()
    if mu_NTK.shape[-1] == 1 and kind == "tv":
        return mu_NTK.sub_(pi_NTK).abs_()[..., 0]
    if mu_NTK.shape[-1] == 1:  # 1 - p loses the digits of a rest that -expm1(log p) keeps
        mu_rest, pi_rest = -torch.expm1(mu_logp_NTK[..., 0]), -torch.expm1(pi_logp_NTK[..., 0])
    else:
        mu_rest, pi_rest = (1 - mu_NTK.sum(-1)).clamp(min=0), (1 - pi_NTK.sum(-1)).clamp(min=0)
    if kind == "tv":
        return ((mu_NTK - pi_NTK).abs().sum(-1) + (mu_rest - pi_rest).abs()) / 2
    tiny = torch.finfo(mu_NTK.dtype).tiny
    named = torch.where(mu_NTK > 0, mu_NTK * (mu_logp_NTK - pi_logp_NTK), 0.0).sum(-1)
    return named + torch.where(mu_rest > 0, mu_rest * (mu_rest.clamp(min=tiny) / pi_rest.clamp(min=tiny)).log(), 0.0)


@torch.no_grad()
def with_sampled(top_ids_NTK: Tensor, top_logp_NTK: Tensor, ids_NT: Tensor, logp_NT: Tensor) -> Tensor:
    """The log-probabilities of the top K and of the sampled token, (N, T, K + 1); -inf in the last place where it is among the K.

    Without the sampled token a top-K divergence can fall below the binary one.
    """
    among = (top_ids_NTK == ids_NT[..., None]).any(-1)
    return torch.cat([top_logp_NTK, logp_NT.masked_fill(among, -torch.inf)[..., None]], -1)


@torch.no_grad()
def divergence_keep(divergence_NT: Tensor, mu_logp_NT: Tensor, pi_logp_NT: Tensor, advantages: Tensor, delta: float) -> Tensor:
    """DPPO's mask, to pass to the loss as `keep_NT`: 0 where the divergence exceeds delta and the update moves pi further from mu.

    `mu_logp_NT` and `pi_logp_NT` are those of the sampled token.
    """
    far = divergence_NT > delta
    return (~(far & drifts_away(mu_logp_NT, pi_logp_NT, advantages if advantages.dim() == 2 else advantages[:, None]))).to(pi_logp_NT.dtype)


def drifts_away(mu_logp_NT: Tensor, pi_logp_NT: Tensor, advantages: Tensor) -> Tensor:
    """Whether raising (A > 0) or lowering (A < 0) the sampled token's probability takes pi further from mu."""
    return (pi_logp_NT - mu_logp_NT) * advantages > 0
