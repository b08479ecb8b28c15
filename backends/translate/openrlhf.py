"""OpenRLHF 0.11: flags of `python -m openrlhf.cli.train_ppo_ray`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from guerdon.backends.axes import Ratio
from guerdon.backends.gates import Clip
from guerdon.backends.translate.translation import Draft, Translation
from guerdon.rewards import advantages as adv

if TYPE_CHECKING:
    from guerdon.backends.composition import Recipe

__all__ = ["to_openrlhf"]

MEANS: Mapping[str, str] = {"token_mean": "token-mean", "sequence_mean": "seq-mean-token-mean"}
ESTIMATORS: Mapping[adv.AdvantageSpec, str] = {
    adv.GRPO: "group_norm",
    adv.DR_GRPO: "dr_grpo",
    adv.RLOO: "rloo",
    adv.REINFORCE_PP: "reinforce",
    adv.REINFORCE_PP_BASELINE: "reinforce_baseline",
}
NO_LOSS = "OpenRLHF's loss is PolicyLoss alone: train with guerdon's own loop, TRL or verl"
UNBOUNDED = 1e9


def to_openrlhf(recipe: Recipe) -> Translation:
    """See `Recipe.openrlhf`. Dynamic filtering needs a remote reward or an agent, and reads its `scores`: the outcome."""
    draft = Draft()
    _ratio_gate_aggregate(recipe, draft)
    _advantage(recipe, draft)
    _kl(recipe, draft)
    _correction(recipe, draft)
    _masks(recipe, draft)
    _selection(recipe, draft)
    if recipe.overlong is not None:
        draft.settings |= {"reward.overlong_buffer_len": recipe.overlong.buffer, "reward.overlong_penalty_factor": recipe.overlong.scale}
        draft.settings["rollout.max_new_tokens"] = recipe.overlong.max_tokens
        if not recipe.overlong.capped:
            draft.gap("overlong", "the penalty is capped at the buffer's width")
    if recipe.group_size is not None:
        draft.settings["rollout.n_samples_per_prompt"] = recipe.group_size
    return Translation("openrlhf", recipe.name, "openrlhf.cli.train_ppo_ray", draft.settings, tuple(draft.gaps))


def _ratio_gate_aggregate(recipe: Recipe, draft: Draft) -> None:
    losses = {Ratio(): "ppo", Ratio("geometric"): "gspo"}
    loss = losses.get(recipe.ratio)
    if loss is None:
        draft.gap("ratio", f"no policy_loss_type for {recipe.ratio.level!r} against {recipe.ratio.anchor!r}", NO_LOSS)
    else:
        draft.settings["actor.policy_loss_type"] = loss
    if isinstance(recipe.gate, Clip):
        draft.settings["actor.eps_clip_low_high"] = (recipe.gate.eps_low, recipe.gate.eps_high)
        bound = recipe.gate.dual or recipe.gate.delta
        draft.settings |= {} if bound is None else {"actor.dual_clip": bound}
    else:
        draft.gap("gate", f"no {type(recipe.gate).__name__}, only PPO's clip", NO_LOSS)
    how = recipe.aggregate.how
    if how not in MEANS or (loss == "gspo" and how != "sequence_mean"):
        draft.gap("aggregate", f"no {how} with policy_loss_type {loss or 'ppo'}", NO_LOSS)
    else:
        draft.settings["actor.loss_agg_mode"] = MEANS[how]
    if recipe.aggregate.count_empty:
        draft.differs("aggregate", "completions without a counted token leave the number of completions")


def _advantage(recipe: Recipe, draft: Draft) -> None:
    spec = recipe.advantage
    nearest = replace(spec, eps=1e-4, ddof=1, whiten_eps=1e-8)
    if spec.combine != "sum_first" or nearest not in ESTIMATORS:
        remedy = "aggregate= of guerdon.backends.openrlhf.agent_executor within a group, or its launcher over the batch"
        draft.gap("advantage", f"no estimator with center={spec.center}, scale={spec.scale}, combine={spec.combine}", remedy)
        return
    draft.settings["algo.advantage.estimator"] = ESTIMATORS[nearest]
    draft.settings["algo.advantage.gamma"] = 1.0
    if spec.scale == "group":
        draft.differs("advantage", f"the std has ddof 1 and eps 1e-9, not ddof {spec.ddof} and eps {spec.eps:g}")
    if spec.whiten == "token":
        draft.differs("advantage", "whitening has ddof 0 and max(var, 1e-8)")


def _kl(recipe: Recipe, draft: Draft) -> None:
    kl = recipe.kl
    if kl is None:
        draft.settings["algo.kl.init_coef"] = 0.0
        return
    draft.settings |= {"algo.kl.init_coef": kl.beta, "algo.kl.estimator": kl.estimator}
    draft.differs("kl", "estimates are float32 and clamped to +-10")
    if kl.place == "loss":
        draft.settings |= {"algo.kl.use_loss": True, "algo.kl.unbiased_gradient": kl.gradient != "naive"}
    if kl.gradient == "importance":
        draft.differs("kl", "the value is not weighted by the ratio, the gradient is")
    if kl.gradient == "unbiased":
        draft.differs("kl", "off policy the gradient is weighted by the ratio too")
    if kl.sync is not None:
        draft.gap("kl", "the reference is never updated", "reload it yourself, or train with TRL")


def _correction(recipe: Recipe, draft: Draft) -> None:
    correction = recipe.rollout_correction
    if correction is None:
        draft.settings["algo.advantage.is_correction_level"] = "off"
        return
    geometric = (correction.level, correction.mode, correction.carries) == ("geometric", "mask", "token")
    token = correction.level == "token" and correction.carries != "indicator"
    if not (geometric or token) or correction.fold:
        draft.gap("rollout_correction", f"no {correction.level} {correction.mode} with carries={correction.carries!r}", NO_LOSS)
        return
    if recipe.ratio != Ratio():
        draft.gap("rollout_correction", "gspo takes the ratio against the engine instead, without a bound")
        return
    draft.settings |= {
        "algo.advantage.is_correction_level": "seq" if geometric else "token",
        "algo.advantage.is_correction_mode": "mask" if correction.mode == "mask" else "clip",
        "algo.advantage.is_correction_threshold": (correction.floor or 0.0, UNBOUNDED if correction.cap is None else correction.cap),
    }


def _masks(recipe: Recipe, draft: Draft) -> None:
    masks = recipe.masks
    if masks.truncated:
        draft.gap("masks", "truncated completions stay in the loss", "--reward.stop_properly_penalty_coef lowers their reward instead")
    if masks.off_policy is not None or masks.entropy_quantile is not None or masks.duplicates != "keep" or masks.token_weight != "1":
        draft.gap("masks", "no masks besides the rollout correction's", NO_LOSS)


def _selection(recipe: Recipe, draft: Draft) -> None:
    selection = recipe.selection
    if selection.zero_variance or selection.band is not None:
        draft.settings |= {"algo.dynamic_filtering_enable": True, "algo.dynamic_filtering_range": selection.band or (0.0, 1.0)}
        draft.differs("selection", "groups are kept by their mean score, bounds excluded, and always refilled: right for scores of 0 and 1")
    if selection.retire_at is not None:
        draft.gap("selection", "prompts are not retired", "filter with guerdon.filters between epochs")
