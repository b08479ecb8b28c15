"""How the fixture kinds loss, offpolicy_weight, recipe, kernel, divergence, mask, schedule and sampling map to guerdon: names only.

A fixture's `params` become a `Recipe`, its batch tensors; the arithmetic is guerdon's. torch is imported by the kinds that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from guerdon.backends import recipes
from guerdon.backends.axes import KL, Aggregate, Masks, Ratio, ReferenceSync, RolloutCorrection
from guerdon.backends.gates import CappedWeight, Clip, DivergenceMask, GammaWeight, Gate, MirroredSigmoid, Pairwise, SigmoidGate, Unclipped
from guerdon.backends.recipes import Recipe
from guerdon.rewards.advantages import SPECS

if TYPE_CHECKING:
    from torch import Tensor

Fixture = Mapping[str, Any]
Batches = Mapping[str, Any]

LEVELS = {
    "token": "token", "seq_geo": "geometric", "seq_geo_token": "geometric_token", "seq_prod": "product",
    "seq_geo_clipped": "geometric_clipped",
}  # fmt: skip
MEANS = {
    "seq_mean": "sequence_mean", "token_mean": "token_mean", "token_sum_const": "token_sum", "seq_mean_token_sum": "sequence_sum",
    "prompt_mean": "prompt_mean",
}  # fmt: skip
MODES: dict[str, dict[str, Any]] = {
    "token_truncate": {"level": "token", "mode": "truncate"},
    "token_mask": {"level": "token", "mode": "mask"},
    "sequence_truncate": {"level": "product", "mode": "truncate"},
    "sequence_mask": {"level": "product", "mode": "mask"},
    "sequence_geo_truncate": {"level": "geometric", "mode": "truncate"},
    "sequence_geo_mask": {"level": "geometric", "mode": "mask"},
    "seqgeo_gate": {"level": "geometric", "mode": "mask", "carries": "token"},
    "sequence_indicator": {"level": "product", "mode": "mask", "carries": "indicator"},
    "token_indicator": {"level": "token", "mode": "mask", "carries": "indicator"},
}
SPEC_NAMES = {"group": "grpo", "centered": "dr_grpo", "batch_std": "batch", "scalerl_batch": "scalerl"}
GRADIENTS = {None: "naive", "naive": "naive", "k2": "unbiased", "straight_through": "unbiased", "is_weight": "importance"}


class Params:
    """The parameters of a fixture, each of which must be read."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.left = dict(params)

    def take(self, name: str, default: Any = None) -> Any:
        return self.left.pop(name, default)

    def has(self, *names: str) -> bool:
        return any(self.left.get(name) is not None for name in names)

    def end(self) -> None:
        if self.left:
            raise NotImplementedError(f"no mapping for parameters {', '.join(sorted(self.left))}")


def gate_of(p: Params, form: str) -> Gate:
    if p.has("divergence"):
        return DivergenceMask(p.take("divergence"), p.take("delta"), p.take("ratio_cap", 20.0))
    if p.has("cap"):
        return CappedWeight(p.take("cap"), p.take("floor"))
    if p.has("tau_pos"):
        kind = MirroredSigmoid if form in ("seed", "mirrored") else SigmoidGate
        return kind(p.take("tau_pos"), p.take("tau_neg"))
    if p.has("k_pos"):
        return GammaWeight(*(p.take(name) for name in ("k_pos", "lam_pos", "k_neg", "lam_neg")))
    if p.has("eps_low"):
        return Clip(p.take("eps_low"), p.take("eps_high"), dual=p.take("dual_clip"), delta=p.take("delta"))
    return Unclipped()


def kl_of(p: Params) -> KL | None:
    beta, estimator, is_weight, gradient = p.take("beta", 0.0), p.take("estimator") or p.take("kl"), p.take("is_weight"), p.take("gradient")
    if not beta:
        return None
    return KL(beta, (estimator or "k3").rstrip("+"), "importance" if is_weight else GRADIENTS[gradient])


def correction_of(p: Params, fold: bool) -> RolloutCorrection | None:
    mode, cap, floor = p.take("rollout_correction"), p.take("c_max"), p.take("c_min")
    if p.has("rho_clamp"):
        mode, cap = "token_truncate", p.take("rho_clamp")
    if mode is None:
        return None
    keywords = dict(MODES[mode], **({"carries": "indicator"} if p.take("mask_weight", True) is False else {}))
    return RolloutCorrection(**keywords, cap=cap, floor=floor or None, fold=fold)


def recipe_of(fixture: Fixture, base: Recipe | None = None) -> Recipe:
    """The recipe that `params` spell out, on a base that settles what they leave out."""
    p = Params(fixture["params"])
    off_policy = p.take("delta") if fixture["algo"] == "opsm" else None
    truncated = p.take("overlong_filter", False) or fixture["inputs"].get("apply_truncated_mask", False)
    masks = Masks(truncated, off_policy, p.take("entropy_quantile"), token_weight=p.take("token_weight", "1"))
    level = LEVELS[p.take("ratio", "token")]
    ratio = Ratio(level, "old", p.take("log_eps_low"), p.take("log_eps_high"))
    if fixture["algo"] == "2-grpo" and p.has("beta") and not p.has("eps_low"):
        ratio, gate, kl, mean = Ratio("product"), Pairwise(p.take("beta")), None, Aggregate("sequence_mean")
        group = 2
    else:
        gate, kl, group = gate_of(p, fixture["form"]), kl_of(p), p.take("group_size")
        mean = Aggregate(MEANS[p.take("agg")], p.take("const"), count_empty=False)
        if mean.how != "token_mean" and not p.take("skip_empty", False):
            mean = replace(mean, count_empty=True)
    correction = correction_of(p, fold=isinstance(gate, GammaWeight))
    advantage = (base or Recipe()).advantage
    if p.has("adv"):
        name = p.take("adv")
        advantage = SPECS[SPEC_NAMES.get(name, name)]
        advantage = replace(advantage, ddof=p.take("ddof", advantage.ddof), eps=p.take("adv_eps", advantage.eps))
    p.take("skip_empty")
    p.end()
    made = {"advantage": advantage, "ratio": ratio, "gate": gate, "aggregate": mean, "kl": kl, "masks": masks, "group_size": group}
    return replace(base or Recipe(), **made, rollout_correction=correction)


def loss_and_gradient(fixture: Fixture, batch: Mapping[str, Any], recipe: Recipe, advantages: Any) -> dict[str, Any]:
    import torch

    from guerdon.backends.grpo.losses import policy_loss

    tensors = {name: torch.tensor(batch[name], dtype=torch.float64) for name in ("old_logp", "rollout_logp", "ref_logp") if name in batch}
    logp_NT = torch.tensor(batch["logp"], dtype=torch.float64, requires_grad=True)
    loss, _ = policy_loss(
        recipe, logp_NT, advantages=torch.as_tensor(advantages, dtype=torch.float64), mask_NT=torch.tensor(batch["mask"]),
        truncated_N=torch.tensor(batch["truncated"]) if "truncated" in batch else None, group_size=batch["group_size"],
        **{f"{name}_NT": tensor for name, tensor in tensors.items()},
    )  # fmt: skip
    (gradient_NT,) = torch.autograd.grad(loss, logp_NT)
    return {"loss": loss.item(), "grad_logp": gradient_NT.tolist()}


def run_loss(fixture: Fixture, batches: Batches) -> dict[str, Any]:
    inputs, batch = fixture["inputs"], batches[fixture["inputs"]["batch"]]
    recipe = recipe_of(fixture)
    term_of_kl_alone = recipe.kl is not None and recipe.gate == Unclipped() and recipe.ratio == Ratio()
    advantages = [0.0] * len(batch["advantages"]) if term_of_kl_alone else inputs.get("token_advantages", batch["advantages"])
    return loss_and_gradient(fixture, batch, recipe, advantages)


NAMED: dict[str, Callable[[], Recipe]] = {
    **recipes.RECIPES, "scalerl": lambda: recipes.scalerl(form="trl"), "2-grpo": recipes.two_grpo, "dr.grpo": recipes.dr_grpo,
}  # fmt: skip


def run_recipe(fixture: Fixture, batches: Batches) -> dict[str, Any]:
    """From rewards to gradients."""
    from guerdon.rewards.advantages import advantages

    batch, rewards = batches[fixture["inputs"]["batch"]], fixture["inputs"]["rewards"]
    recipe = recipe_of(fixture, NAMED[fixture["algo"]]())
    flat = [[reward] for group in rewards for reward in group]
    groups = [g for g, group in enumerate(rewards) for _ in group]
    advantages_N = advantages(flat, groups, None, recipe.advantage)
    return {"advantages": advantages_N.tolist(), **loss_and_gradient(fixture, batch, recipe, advantages_N)}


def run_offpolicy_weight(fixture: Fixture, batches: Batches) -> dict[str, Any]:
    import torch

    from guerdon.backends.grpo.losses import rollout_weights

    batch, p = batches[fixture["inputs"]["batch"]], Params(fixture["params"])
    correction = RolloutCorrection(**MODES[p.take("mode")], cap=p.take("c_max"), floor=p.take("c_min") or None)
    p.end()
    old, rollout = (torch.tensor(batch[name], dtype=torch.float64) for name in ("old_logp", "rollout_logp"))
    weights = rollout_weights(correction, old, rollout, torch.tensor(batch["mask"]))
    flat = not isinstance(fixture["expected"]["weights"][0], list)
    return {"weights": weights.flatten().tolist() if flat else weights.tolist()}


def run_kernel(fixture: Fixture, batches: Batches) -> dict[str, Any]:
    p, inputs = Params(fixture["params"]), fixture["inputs"]
    if "taus" in p.left:
        taus = p.take("taus")
        return {"weight": [[SigmoidGate(tau, tau).slope(r) for r in inputs["r"]] for tau in taus]}
    gate = gate_of(p, fixture["form"])
    p.end()
    if isinstance(gate, GammaWeight):
        signs = {"pos": 1.0, "neg": -1.0}
        values = {f"phi_{name}": [gate.weight(w, sign) for w in inputs["W"]] for name, sign in signs.items()}
        return {**values, **{f"argmax_{name}": gate.peak(sign) for name, sign in signs.items()}}
    return {"weight": [gate.weight(r) for r in inputs["r"]]}


def distributions(fixture: Fixture) -> tuple[Tensor, Tensor, Tensor]:
    import torch

    mu, pi = (torch.tensor(fixture["inputs"][name], dtype=torch.float64).log() for name in ("p_behaviour", "p_current"))
    return mu, pi, torch.tensor(fixture["inputs"]["sampled"])


def divergence_named(name: str, k: int, mu: Tensor, pi: Tensor, sampled: Tensor) -> Tensor:
    """`binary_tv`, `topk_kl`, `topk_act_tv`, `full_kl`: the tokens it names, given to guerdon."""
    from guerdon.backends.grpo.divergence import token_divergence, with_sampled

    named, _, kind = name.rpartition("_")
    ids = mu.topk(k).indices
    of_mu, of_pi = (logp.gather(-1, sampled[:, None]) for logp in (mu, pi))
    top_mu, top_pi = (logp.gather(-1, ids) for logp in (mu, pi))
    pairs = {
        "binary": (of_mu, of_pi),
        "topk": (top_mu, top_pi),
        "topk_act": (with_sampled(ids, top_mu, sampled, of_mu[:, 0]), with_sampled(ids, top_pi, sampled, of_pi[:, 0])),
        "full": (mu, pi),
    }
    return token_divergence(kind, *pairs[named])


def run_divergence(fixture: Fixture, batches: Batches) -> dict[str, Any]:
    mu, pi, sampled = distributions(fixture)
    return {name: divergence_named(name, fixture["params"]["k"], mu, pi, sampled).tolist() for name in fixture["expected"]}


def run_mask(fixture: Fixture, batches: Batches) -> dict[str, Any]:
    import torch

    from guerdon.backends.grpo.divergence import divergence_keep

    p = Params(fixture["params"])
    (mu, pi, sampled), name, k, delta = distributions(fixture), p.take("divergence"), p.take("k", 1), p.take("delta")
    p.end()
    divergence_N1 = divergence_named(name, k, mu, pi, sampled)[:, None]
    of_mu, of_pi = (logp.gather(-1, sampled[:, None]) for logp in (mu, pi))
    signs = {"keep_if_adv_positive": 1.0, "keep_if_adv_negative": -1.0}
    return {
        key: divergence_keep(divergence_N1, of_mu, of_pi, torch.full((len(mu),), sign), delta).flatten().tolist()
        for key, sign in signs.items()
    }


def run_schedule(fixture: Fixture, batches: Batches) -> dict[str, Any]:
    import torch

    from guerdon.backends.grpo.schedules import is_due, sync

    p = Params(fixture["params"])
    schedule = ReferenceSync(every=p.take("N") or p.take("every", 1), mix=p.take("alpha", 1.0))
    p.end()
    if "steps" in fixture["inputs"]:
        steps = fixture["inputs"]["steps"]
        due = [step for step in (steps if isinstance(steps, list) else range(1, steps + 1)) if is_due(schedule, step)]
        return dict.fromkeys(fixture["expected"], due)
    reference, seen = torch.tensor([fixture["inputs"]["ref0"]], dtype=torch.float64), []
    for value in fixture["inputs"]["policy_scalar_at_sync"]:
        sync(schedule, [reference], [torch.tensor([value], dtype=torch.float64)])
        seen.append(reference.item())
    return {"ref": seen}


def run_sampling(fixture: Fixture, batches: Batches) -> dict[str, Any]:
    from guerdon.backends.verbalized import parse, tail

    p = Params(fixture["params"])
    found, threshold = parse(fixture["inputs"]["text"], p.take("k")), p.take("threshold")
    p.end()
    found = found if threshold is None else tail(found, threshold)
    return {"responses": [each.text for each in found], "probs": [each.probability for each in found]}
