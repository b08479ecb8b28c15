"""Gates: what a token's ratio and advantage become, in two kinds.

* *surrogate*: the token's loss is -A f(r), its gradient flows through f and the live ratio r (PPO's clip, SAPO).
* *weighted REINFORCE*: the token's loss is -sg(w(r)) A log pi, its gradient through log pi alone (CISPO, VESPO, DPPO). The value
  holds log pi and is not comparable with a surrogate's; gradients are.

`gate.weight(r, A)` is the gradient weight of either kind at one ratio, in plain floats: -(dL / d log pi) / A. Policy gradient has
weight 1 on policy and r off it. The losses take the same formulas on tensors in `guerdon.backends.grpo.losses`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from guerdon.backends._checks import require, require_choice, require_number

__all__ = [
    "CappedWeight",
    "Clip",
    "DivergenceMask",
    "GammaWeight",
    "Gate",
    "MirroredSigmoid",
    "Pairwise",
    "SigmoidGate",
    "Surrogate",
    "Unclipped",
]


class Gate:
    """Base of all gates."""

    __slots__ = ()

    def weight(self, ratio: float, advantage: float = 1.0, prob: float = 0.5) -> float:
        """-(dL / d log pi) / A of a token with this ratio; `prob` is its probability under the anchor, which few gates read."""
        raise NotImplementedError


class Surrogate(Gate):
    """A gate whose loss is -A f(r), through the live ratio."""

    __slots__ = ()

    def slope(self, ratio: float, advantage: float = 1.0) -> float:
        """df/dr."""
        raise NotImplementedError

    def weight(self, ratio: float, advantage: float = 1.0, prob: float = 0.5) -> float:
        return ratio * self.slope(ratio, advantage)


@dataclass(frozen=True, slots=True)
class Unclipped(Surrogate):
    """f = r: the importance-sampled policy gradient."""

    def slope(self, ratio: float, advantage: float = 1.0) -> float:
        return 1.0


@dataclass(frozen=True, slots=True)
class Clip(Surrogate):
    """PPO's clip, min(r A, clip(r, 1 - eps_low, 1 + eps_high) A): f = min(r, 1 + eps_high) where A > 0, max(r, 1 - eps_low) where A < 0.

    >>> [Clip(0.2, 0.28).weight(r, A) for r, A in [(1.0, 1), (1.3, 1), (1.3, -1), (0.7, 1), (0.7, -1)]]
    [1.0, 0.0, 1.3, 0.7, 0.0]
    >>> Clip(dual=0.5)
    Traceback (most recent call last):
    ...
    guerdon.errors.ConfigError: Clip: dual bounds r above where A < 0, so it expects a number above 1 + eps_high = 1.2, got 0.5
    """

    eps_low: float = 0.2
    eps_high: float = 0.2
    delta: float | None = None
    """Two-sided clip: where A < 0, r counts at most delta (INTELLECT-2, arXiv:2505.07291, delta 4; TRL `delta`)."""
    dual: float | None = None
    """Dual clip: where A < 0, the loss is at most -dual A (arXiv:1912.09729; verl's `clip_ratio_c`, 3 and on by default there;
    OpenRLHF `dual_clip`). Equal to `delta` for every delta above 1 + eps_high; both exist because the stacks have one each."""

    def __post_init__(self) -> None:
        require_number(self, "eps_low", "eps_high", inclusive=True)
        require_number(self, "delta", "dual", optional=True)
        for name in ("delta", "dual"):
            bound = getattr(self, name)
            message = f"{name} bounds r above where A < 0, so it expects a number above 1 + eps_high = {1 + self.eps_high:g}, got {bound}"
            require(bound is None or bound > 1 + self.eps_high, self, message)
        require(self.delta is None or self.dual is None, self, "delta and dual are the same bound: set one")

    @property
    def cap(self) -> float:
        """The bound on r where A < 0; inf without one."""
        return next((bound for bound in (self.delta, self.dual) if bound is not None), math.inf)

    def slope(self, ratio: float, advantage: float = 1.0) -> float:
        inside = ratio <= 1 + self.eps_high if advantage > 0 else 1 - self.eps_low <= ratio <= self.cap
        return 1.0 if inside else 0.0


@dataclass(frozen=True, slots=True)
class SigmoidGate(Surrogate):
    """SAPO's soft clip, f = (4 / tau) sigmoid(tau (r - 1)), tau by the sign of A: slope sech^2(tau (r - 1) / 2), 1 at r = 1 for any tau.

    Towards tau = 0 it is the unclipped policy gradient, towards infinity it lets only r = 1 pass; neither end is PPO's clip.
    """

    tau_pos: float = 1.0
    tau_neg: float = 1.05

    def __post_init__(self) -> None:
        require_number(self, "tau_pos", "tau_neg")

    def slope(self, ratio: float, advantage: float = 1.0) -> float:
        half = (self.tau_pos if advantage > 0 else self.tau_neg) * abs(ratio - 1) / 2
        return (2 * math.exp(-half) / (1 + math.exp(-2 * half))) ** 2  # 1 / cosh overflows


@dataclass(frozen=True, slots=True)
class MirroredSigmoid(Surrogate):
    """f = r sigmoid(+-(r - 1) / tau), + where A > 0: a form that circulates under SAPO's name, for comparison only.

    It is an inverse trust region: for A > 0 and small tau it drops tokens below r = 1 and lets those above pass unbounded. On policy
    its weight is 3/4 for A > 0 (tau 1) and 0.26 for A < 0, where a policy gradient has 1.
    """

    tau_pos: float = 1.0
    tau_neg: float = 1.05

    def __post_init__(self) -> None:
        require_number(self, "tau_pos", "tau_neg")

    def slope(self, ratio: float, advantage: float = 1.0) -> float:
        tau = self.tau_pos if advantage > 0 else -self.tau_neg
        gate = 0.5 * (1 + math.tanh((ratio - 1) / tau / 2))
        return gate + ratio * gate * (1 - gate) / tau


@dataclass(frozen=True, slots=True)
class Pairwise(Surrogate):
    """`-|A| log sigmoid(beta (log R+ - log R-))` for the two completions of a prompt, R their products of ratios: DPO's form of 2-GRPO.

    arXiv:2510.00977 shows 2-GRPO to be contrastive *like* DPO; it trains with the clipped loss. Here f = sign(A) log sigmoid(...).
    """

    beta: float = 0.1

    def __post_init__(self) -> None:
        require_number(self, "beta")

    def slope(self, ratio: float, advantage: float = 1.0) -> float:
        """With the other completion on policy."""
        return 0.5 * self.beta * (1 - math.tanh(math.copysign(self.beta, advantage) * math.log(ratio) / 2)) / ratio


@dataclass(frozen=True, slots=True)
class CappedWeight(Gate):
    """w = min(r, cap), and at least floor: CISPO, -sg(min(r, cap)) A log pi. No token is dropped, large ratios count at most cap.

    `cap` is absolute: TRL's `epsilon_high`; verl's and open-instruct's 1 + clip_high. verl also clamps below, at 1 - clip_low: `floor`.
    """

    cap: float | None = 5.0
    floor: float | None = None

    def __post_init__(self) -> None:
        require_number(self, "cap", optional=True)
        require_number(self, "floor", optional=True, inclusive=True)
        ordered = self.cap is None or self.floor is None or self.floor <= self.cap
        require(ordered, self, f"floor expects at most cap={self.cap}, got {self.floor}")

    def weight(self, ratio: float, advantage: float = 1.0, prob: float = 0.5) -> float:
        return max(min(ratio, math.inf if self.cap is None else self.cap), self.floor or 0.0)


@dataclass(frozen=True, slots=True)
class GammaWeight(Gate):
    """w = W^k exp(lam (1 - W)), W the sequence's ratio, (k, lam) by the sign of A: VESPO. 1 at W = 1, highest at W = k / lam.

    >>> GammaWeight().weight(1.0), GammaWeight().peak(-1.0)
    (1.0, 1.5)
    """

    k_pos: float = 2.0
    lam_pos: float = 3.0
    k_neg: float = 3.0
    lam_neg: float = 2.0

    def __post_init__(self) -> None:
        require_number(self, "k_pos", "k_neg", inclusive=True)
        require_number(self, "lam_pos", "lam_neg")

    def weight(self, ratio: float, advantage: float = 1.0, prob: float = 0.5) -> float:
        k, lam = (self.k_pos, self.lam_pos) if advantage >= 0 else (self.k_neg, self.lam_neg)
        return math.pow(ratio, k) * math.exp(lam * (1 - ratio))

    def peak(self, advantage: float = 1.0) -> float:
        """The ratio of the largest weight."""
        return self.k_pos / self.lam_pos if advantage >= 0 else self.k_neg / self.lam_neg


Divergence = Literal["binary_tv", "binary_kl", "topk_tv", "topk_kl"]


@dataclass(frozen=True, slots=True)
class DivergenceMask(Gate):
    """w = min(r, cap), or 0 where the divergence D of the policies at the token exceeds delta and A (pi - mu) > 0: DPPO.

    A token that moves back towards the rollout policy mu is never dropped. `binary_*` takes D between the two distributions on
    {sampled token, any other}: TV = `|pi - mu|`, or KL(mu || pi). `topk_*` takes D over the K likeliest tokens under mu, the sampled token
    and one bucket for the rest; that needs logits, so the mask is computed beside the forward pass (`losses.token_divergence`,
    `losses.divergence_keep`) and given to the loss as `keep_NT`.
    """

    divergence: Divergence = "binary_tv"
    delta: float = 0.15
    cap: float = 20.0

    def __post_init__(self) -> None:
        require_choice(self, "divergence", ("binary_tv", "binary_kl", "topk_tv", "topk_kl"))
        require_number(self, "delta", "cap")

    @property
    def from_logits(self) -> bool:
        """Whether the mask comes from outside."""
        return self.divergence.startswith("topk")

    def weight(self, ratio: float, advantage: float = 1.0, prob: float = 0.5) -> float:
        """With D of the sampled token alone; 0 too where pi would exceed 1."""
        mu, pi = prob, min(ratio * prob, 1.0)
        if self.divergence.endswith("tv"):
            far = abs(pi - mu)
        else:
            far = mu * math.log(mu / pi) + (1 - mu) * math.log((1 - mu) / (1 - pi)) if 0 < pi < 1 else math.inf
        return 0.0 if far > self.delta and (pi - mu) * advantage > 0 else min(ratio, self.cap)
