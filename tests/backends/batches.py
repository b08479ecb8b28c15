"""Random batches for loss tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from guerdon.backends.composition import Recipe
from guerdon.backends.grpo.losses import policy_loss

GROUP = 2


def batch(seed: int = 0, rows: int = 6, tokens: int = 7, spread: float = 0.5, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Ragged rows of at least one token; groups of 2; log-probabilities of all the policies there are; 0 at padding."""
    generator = torch.Generator().manual_seed(seed)

    def noise(scale: float) -> Tensor:
        return scale * torch.randn(rows, tokens, generator=generator, dtype=torch.float64)

    logp = -torch.rand(rows, tokens, generator=generator, dtype=torch.float64) * 3 - 0.2
    lengths = torch.randint(1, tokens + 1, (rows, 1), generator=generator)
    lengths[0] = tokens
    mask = (torch.arange(tokens)[None] < lengths).double()
    policies = {"logp": logp, "old": logp + noise(spread), "rollout": logp + noise(spread), "ref": logp + noise(spread)}
    made = {name: (value.clamp(max=-1e-3) * mask).to(dtype) for name, value in policies.items()}
    advantages = torch.randn(rows, generator=generator, dtype=torch.float64)
    return {**made, "mask": mask.to(dtype), "advantages": advantages.to(dtype), "entropy": (noise(1.0).abs() * mask).to(dtype)}


def given(recipe: Recipe, data: dict[str, Tensor]) -> dict[str, Any]:
    """The keyword arguments of `policy_loss` that the recipe reads."""
    rows = len(data["logp"])
    everything = {
        "rollout_logp_NT": data["rollout"], "ref_logp_NT": data["ref"], "entropy_NT": data["entropy"], "truncated_N": torch.zeros(rows),
        "keep_NT": torch.ones_like(data["logp"]), "group_size": GROUP, "length": data["logp"].shape[1],
    }  # fmt: skip
    read = {name: value for name, value in everything.items() if name in recipe.reads}
    return {"advantages": data["advantages"], "mask_NT": data["mask"], "old_logp_NT": data["old"], **read}


def loss_and_gradient(recipe: Recipe, data: dict[str, Tensor], **changes: Any) -> tuple[Tensor, Tensor]:
    """Value and gradient with respect to the log-probabilities."""
    logp = data["logp"].clone().requires_grad_()
    loss, _ = policy_loss(recipe, logp, **{**given(recipe, data), **changes})
    (gradient,) = torch.autograd.grad(loss, logp)
    return loss.detach(), gradient


def value(recipe: Recipe, data: dict[str, Tensor], logp: Tensor, **changes: Any) -> Tensor:
    return policy_loss(recipe, logp, **{**given(recipe, data), **changes}, metrics=False).loss
