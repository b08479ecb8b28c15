"""verl 0.9: Hydra overrides of `python -m verl.trainer.main_ppo`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from guerdon.backends.gates import CappedWeight, Clip, DivergenceMask, SigmoidGate, Unclipped
from guerdon.backends.translate.translation import Draft, Translation
from guerdon.rewards import advantages as adv

if TYPE_CHECKING:
    from guerdon.backends.composition import Recipe

__all__ = ["to_verl"]

ACTOR = "actor_rollout_ref.actor"
MEANS: Mapping[str, str] = {
    "token_mean": "token-mean",
    "sequence_mean": "seq-mean-token-mean",
    "sequence_sum": "seq-mean-token-sum",
    "token_sum": "seq-mean-token-sum-norm",
}
ESTIMATORS: Mapping[adv.AdvantageSpec, str] = {
    replace(adv.GRPO, eps=1e-6): "grpo",
    replace(adv.DR_GRPO, eps=1e-6): "grpo",
    replace(adv.RLOO, eps=1e-6): "rloo",
    replace(adv.REINFORCE_PP, eps=1e-6): "reinforce_plus_plus",
    replace(adv.REINFORCE_PP_BASELINE, eps=1e-6): "reinforce_plus_plus_baseline",
    adv.GDPO_TOKEN: "gdpo",
}
NO_LOSS = "register guerdon's loss with register_policy_loss"
UNBOUNDED = 1e9
"""verl clips large ratios of negative advantages at 3 unless told otherwise."""


def to_verl(recipe: Recipe) -> Translation:
    """See `Recipe.verl`."""
    draft = Draft()
    _ratio_and_gate(recipe, draft)
    _aggregate(recipe, draft)
    _advantage(recipe, draft)
    _kl(recipe, draft)
    _correction(recipe, draft)
    _masks_and_selection(recipe, draft)
    if recipe.overlong is not None:
        buffer = "+reward.reward_kwargs.overlong_buffer_cfg"
        draft.settings |= {"reward.reward_manager.name": "dapo", f"{buffer}.enable": True, f"{buffer}.len": recipe.overlong.buffer}
        draft.settings |= {f"{buffer}.penalty_factor": recipe.overlong.scale, f"{buffer}.log": False}
        draft.settings["+reward.reward_kwargs.max_resp_len"] = recipe.overlong.max_tokens
        if recipe.overlong.capped:
            draft.differs("overlong", "the penalty has no floor above max_tokens, which generation does not pass")
    if recipe.group_size is not None:
        draft.settings["actor_rollout_ref.rollout.n"] = recipe.group_size
    return Translation("verl", recipe.name, "verl.trainer.main_ppo", draft.settings, tuple(draft.gaps))


def _ratio_and_gate(recipe: Recipe, draft: Draft) -> None:
    gate, level = recipe.gate, recipe.ratio.level
    mode, low, high, cap = "", 0.0, 0.0, UNBOUNDED
    match level, gate:
        case "token", Clip():
            mode, low, high, cap = "vanilla", gate.eps_low, gate.eps_high, gate.dual or gate.delta or UNBOUNDED
        case "geometric" | "geometric_token", Clip(delta=None, dual=None):
            mode, low, high = "gspo", gate.eps_low, gate.eps_high
        case "geometric_clipped", Unclipped():
            mode, low, high = "geo_mean", recipe.ratio.log_eps_low or 0.0, recipe.ratio.log_eps_high or 0.0
        case "token", CappedWeight(cap=float() | int() as bound):
            mode, low, high = "cispo", 1 - (gate.floor or 0.0), bound - 1
        case "token", SigmoidGate():
            mode = "sapo"
            draft.settings |= {f"{ACTOR}.tau_pos": gate.tau_pos, f"{ACTOR}.tau_neg": gate.tau_neg}
        case "token", DivergenceMask(from_logits=False):
            mode, low, high, cap = gate.divergence.replace("binary", "dppo"), gate.delta, gate.delta, gate.cap
        case _:
            draft.gap("gate", f"no loss_mode for {type(gate).__name__} on ratio {level!r}", NO_LOSS)
            return
    if level == "geometric":
        draft.differs("ratio", "gspo is GSPO-token: the same gradient as long as a completion has one advantage")
    draft.settings[f"{ACTOR}.policy_loss.loss_mode"] = mode
    if mode != "sapo":
        draft.settings |= {f"{ACTOR}.clip_ratio": low, f"{ACTOR}.clip_ratio_low": low, f"{ACTOR}.clip_ratio_high": high}
        draft.settings[f"{ACTOR}.clip_ratio_c"] = cap
    if recipe.ratio.anchor == "rollout":
        draft.settings["algorithm.rollout_correction.bypass_mode"] = True


def _aggregate(recipe: Recipe, draft: Draft) -> None:
    aggregate = recipe.aggregate
    if aggregate.how not in MEANS:
        draft.gap("aggregate", f"no loss_agg_mode for {aggregate.how}", NO_LOSS)
        return
    fixed = isinstance(recipe.gate, SigmoidGate) or recipe.ratio.level == "geometric_clipped"
    if fixed and aggregate.how != "sequence_mean":
        draft.gap("aggregate", f"this loss_mode has seq-mean-token-mean alone, not {aggregate.how}", NO_LOSS)
    draft.settings[f"{ACTOR}.loss_agg_mode"] = MEANS[aggregate.how]
    if aggregate.length is not None:
        draft.settings[f"{ACTOR}.loss_scale_factor"] = aggregate.length
    if aggregate.how == "token_sum" and aggregate.length is None:
        draft.differs("aggregate", "the constant is the padded width unless loss_scale_factor is set", "set it")
    if aggregate.count_empty:
        draft.differs("aggregate", "completions without a counted token leave the number of completions")


def _advantage(recipe: Recipe, draft: Draft) -> None:
    spec = recipe.advantage
    gdpo = replace(spec, whiten="token", eps=adv.GDPO_TOKEN.eps) == adv.GDPO_TOKEN
    nearest = adv.GDPO_TOKEN if gdpo and spec.whiten != "none" else replace(spec, eps=1e-6, ddof=1)
    ours = next((name for name, own in adv.SPECS.items() if own == spec and own.combine == "sum_first"), None)
    if nearest not in ESTIMATORS and ours is not None:
        draft.settings["algorithm.adv_estimator"] = f"guerdon_{ours}"  # registered by guerdon.backends.verl.plugin in every worker
        return
    if nearest not in ESTIMATORS:
        text = f"no adv_estimator with center={spec.center}, scale={spec.scale}, combine={spec.combine}, whiten={spec.whiten}"
        draft.gap("advantage", text, "register one with register_adv_est")
        return
    draft.settings |= {"algorithm.adv_estimator": ESTIMATORS[nearest], "algorithm.norm_adv_by_std_in_grpo": spec.scale != "none"}
    differences: dict[str, tuple[str, str]] = {"whiten": (nearest.whiten, spec.whiten)}
    if spec.scale != "none":
        differences |= {"eps": (f"{nearest.eps:g}", f"{spec.eps:g}"), "ddof": (str(nearest.ddof), str(spec.ddof))}
    if listed := ", ".join(f"{name} is {theirs}, not {ours}" for name, (theirs, ours) in differences.items() if theirs != ours):
        draft.differs("advantage", listed)


def _kl(recipe: Recipe, draft: Draft) -> None:
    kl = recipe.kl
    in_loss = kl is not None and kl.place == "loss"
    draft.settings |= {f"{ACTOR}.use_kl_loss": in_loss, "algorithm.use_kl_in_reward": kl is not None and not in_loss}
    if kl is None:
        return
    if kl.gradient == "importance":
        draft.gap("kl", "no KL loss weighted by the ratio", "gradient='unbiased' is verl's")
        return
    name = {"k1": "kl", "k2": "mse", "k3": "low_var_kl"}[kl.estimator]
    if in_loss:
        draft.settings |= {f"{ACTOR}.kl_loss_coef": kl.beta, f"{ACTOR}.kl_loss_type": name + "+" * (kl.gradient == "unbiased")}
    else:
        draft.settings |= {"algorithm.kl_penalty": name, "algorithm.kl_ctrl.type": "fixed", "algorithm.kl_ctrl.kl_coef": kl.beta}
    if kl.estimator == "k3":
        draft.differs("kl", "k3 is clamped to at most 10")
    if kl.sync is not None:
        draft.gap("kl", "the reference is never updated", "reload it yourself, or train with TRL")


def _correction(recipe: Recipe, draft: Draft) -> None:
    correction, prefix = recipe.rollout_correction, "algorithm.rollout_correction"
    if correction is None:
        draft.settings[f"{prefix}.rollout_is"] = None
        return
    levels = {"token": "token", "product": "sequence"}
    same = correction.carries == "same" and not correction.fold and correction.cap is not None
    floored = correction.mode == "truncate" and correction.floor is not None
    if correction.level not in levels or not same or floored:
        text = f"no {correction.level} {correction.mode} with floor={correction.floor}, carries={correction.carries!r}"
        draft.gap("rollout_correction", text, NO_LOSS)
        return
    draft.settings[f"{prefix}.rollout_is"] = levels[correction.level]
    masked = f"{correction.floor or TINIEST}_{correction.cap}"  # IcePop wants a lower bound above 0
    draft.settings[f"{prefix}.rollout_is_threshold"] = correction.cap if correction.mode == "truncate" else masked


TINIEST = 1e-30


def _masks_and_selection(recipe: Recipe, draft: Draft) -> None:
    masks, selection = recipe.masks, recipe.selection
    if masks.truncated:
        draft.gap("masks", "truncated completions stay in the loss", "set their response_mask to 0 in a reward manager")
    if masks.off_policy is not None or masks.entropy_quantile is not None or masks.duplicates != "keep" or masks.token_weight != "1":
        draft.gap("masks", "no masks of sequences, entropy or duplicates", NO_LOSS)
    if selection.zero_variance:
        draft.settings |= {"algorithm.filter_groups.enable": True, "algorithm.filter_groups.metric": "acc"}
        if not selection.refill:
            draft.differs("selection", "dropped groups are replaced")
    if selection.band is not None or selection.retire_at is not None:
        draft.gap("selection", "prompts are not selected by pass rate", "filter with guerdon.filters")
