"""TRL 1.16: keyword arguments of GRPOConfig, GMPOConfig or RLOOConfig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from guerdon.backends.axes import Aggregate, Ratio, RolloutCorrection, Selection
from guerdon.backends.gates import CappedWeight, Clip, GammaWeight, SigmoidGate, Unclipped
from guerdon.backends.translate.translation import Draft, Translation
from guerdon.rewards import advantages as adv

if TYPE_CHECKING:
    from guerdon.backends.composition import Recipe

__all__ = ["to_trl"]

CLIPPED: Mapping[str, str] = {"sequence_mean": "grpo", "token_mean": "dapo", "token_sum": "dr_grpo", "sequence_sum": "luspo"}
OWN_LOSS = "train with guerdon's loss (backends.grpo.losses) in TRL's _compute_loss"
OWN_ADVANTAGE = "guerdon.backends.trl.advantage_func returns finished advantages, which TRL uses unchanged"


def to_trl(recipe: Recipe) -> Translation:
    """See `Recipe.trl`. Settings of vLLM's importance sampling take effect with use_vllm=True, which is left to you."""
    draft = Draft()
    if _is_rloo(recipe):
        return _rloo(recipe, draft)
    if recipe.ratio.level == "geometric_clipped":
        target = "trl.experimental.gmpo.GMPOConfig"
        _gmpo(recipe, draft)
    else:
        target = "trl.GRPOConfig"
        _ratio(recipe, draft)
        _gate_and_aggregate(recipe, draft)
    _advantage(recipe, draft)
    _kl(recipe, draft)
    _correction(recipe, draft)
    _masks(recipe, draft)
    _selection(recipe.selection, draft)
    _group_and_length(recipe, draft)
    return Translation("trl", recipe.name, target, draft.settings, tuple(draft.gaps))


def _gmpo(recipe: Recipe, draft: Draft) -> None:
    draft.settings |= {"epsilon": recipe.ratio.log_eps_low, "epsilon_high": recipe.ratio.log_eps_high}
    absent = {
        "aggregate": recipe.aggregate.how != "sequence_mean",
        "kl": recipe.kl is not None and recipe.kl.gradient != "naive",
        "rollout_correction": recipe.rollout_correction is not None,
        "masks": recipe.masks.off_policy is not None,
    }
    for axis in (axis for axis, missing in absent.items() if missing):
        draft.gap(axis, "GMPOTrainer has sequence_mean, plain k3, no rollout correction and no off-policy mask", OWN_LOSS)


def _ratio(recipe: Recipe, draft: Draft) -> None:
    levels = {"token": "token", "geometric": "sequence", "product": "token" if isinstance(recipe.gate, GammaWeight) else None}
    level = levels.get(recipe.ratio.level)
    if level is None:
        draft.gap("ratio", f"no importance_sampling_level for {recipe.ratio.level!r}", OWN_LOSS)
    else:
        draft.settings["importance_sampling_level"] = level
    if recipe.ratio.anchor == "rollout":
        draft.gap("ratio", "the ratio is against the trainer's own old log-probabilities, not the engine's", OWN_LOSS)


def _gate_and_aggregate(recipe: Recipe, draft: Draft) -> None:
    gate, aggregate, settings = recipe.gate, recipe.aggregate, draft.settings
    loss_type: str | None = None
    match gate:
        case Clip():
            loss_type = CLIPPED.get(aggregate.how)
            settings |= {"epsilon": gate.eps_low, "epsilon_high": gate.eps_high}
            bound = gate.delta or gate.dual
            settings |= {} if bound is None else {"delta": bound}
        case CappedWeight(cap=float() | int() as cap, floor=None):
            loss_type = "cispo"
            settings["epsilon_high"] = cap
        case SigmoidGate():
            loss_type = "sapo"
            settings |= {"sapo_temperature_pos": gate.tau_pos, "sapo_temperature_neg": gate.tau_neg}
        case GammaWeight():
            loss_type = "vespo"
            settings |= {"vespo_k_pos": gate.k_pos, "vespo_lambda_pos": gate.lam_pos}
            settings |= {"vespo_k_neg": gate.k_neg, "vespo_lambda_neg": gate.lam_neg}
        case _:
            draft.gap("gate", f"no loss_type for {type(gate).__name__}", OWN_LOSS)
            return
    natural = {"cispo": "token_mean", "sapo": "sequence_mean", "vespo": "token_mean"}.get(loss_type or "", aggregate.how)
    if loss_type is None or natural != aggregate.how:
        draft.gap("aggregate", f"no loss_type with {type(gate).__name__} and {aggregate.how}", OWN_LOSS)
    if loss_type is not None:
        settings["loss_type"] = loss_type
    if aggregate.how == "token_sum" and aggregate.length is None:
        draft.differs("aggregate", "the constant is max_completion_length, and the recipe names none", "set both")
    if aggregate.how == "token_sum" and aggregate.length is not None:
        settings["max_completion_length"] = aggregate.length
    per_sequence = aggregate.how in ("sequence_mean", "sequence_sum", "token_sum")
    if per_sequence and recipe.masks.truncated and not aggregate.count_empty:
        draft.differs("aggregate", "completions without a counted token stay in the number of completions")


def _advantage(recipe: Recipe, draft: Draft) -> None:
    spec = recipe.advantage
    scales = {"group": "group", "batch": "batch", "none": "none"}
    if replace(spec, eps=adv.GDPO.eps, whiten_eps=adv.GDPO.whiten_eps) == adv.GDPO:
        draft.settings |= {"multi_objective_aggregation": "normalize_then_sum"}
        if (spec.eps, spec.whiten_eps) != (1e-4, 1e-4):
            draft.differs("advantage", f"eps is 1e-4, not {spec.eps:g}, which matters for rewards of small scale")
        return
    plain = (spec.center, spec.combine, spec.whiten) == ("group", "sum_first", "none")
    if not plain or spec.scale not in scales:
        draft.settings["scale_rewards"] = "none"
        zero_mean = spec.center in ("group", "loo") and spec.whiten == "none"
        remedy = OWN_ADVANTAGE if zero_mean else "override inputs['advantages'] after _generate_and_score_completions"
        draft.gap("advantage", f"no estimator with center={spec.center}, scale={spec.scale}, whiten={spec.whiten}", remedy)
        return
    draft.settings["scale_rewards"] = scales[spec.scale]
    if spec.scale != "none" and (spec.ddof != 1 or spec.eps != 1e-4):
        draft.differs("advantage", f"the std has ddof 1 and eps 1e-4, not ddof {spec.ddof} and eps {spec.eps:g}", OWN_ADVANTAGE)


def _kl(recipe: Recipe, draft: Draft) -> None:
    kl = recipe.kl
    draft.settings["beta"] = 0.0
    if kl is None:
        return
    if kl.place == "reward":
        draft.gap("kl", "GRPOTrainer has no KL in the reward")
        return
    if kl.estimator != "k3" or kl.gradient == "unbiased":
        draft.gap(
            "kl", f"the KL in the loss is k3, naive or weighted by the ratio, not {kl.estimator} with gradient={kl.gradient!r}", OWN_LOSS
        )
        return
    draft.settings |= {"beta": kl.beta, "use_bias_correction_kl": kl.gradient == "importance"}
    if kl.sync is not None:
        sync = {"sync_ref_model": True, "ref_model_sync_steps": kl.sync.every, "ref_model_mixup_alpha": kl.sync.mix}
        draft.settings |= sync  # raises with PEFT


def _correction(recipe: Recipe, draft: Draft) -> None:
    correction: RolloutCorrection | None = recipe.rollout_correction
    draft.settings["vllm_importance_sampling_correction"] = correction is not None
    if correction is None:
        return
    levels = {"token": "token", "product": "sequence"}
    if correction.level not in levels or correction.carries != "same":
        text = f"weights are of tokens or products and carry themselves, not {correction.level!r} with carries={correction.carries!r}"
        draft.gap("rollout_correction", text, OWN_LOSS)
        return
    draft.settings |= {
        "vllm_importance_sampling_mode": f"{levels[correction.level]}_{correction.mode}",
        "vllm_importance_sampling_clip_max": correction.cap,
        "vllm_importance_sampling_clip_min": correction.floor,
    }
    if correction.fold and correction.level != "token":
        draft.gap("rollout_correction", "VESPO folds weights of tokens only", OWN_LOSS)


def _masks(recipe: Recipe, draft: Draft) -> None:
    masks = recipe.masks
    draft.settings["mask_truncated_completions"] = masks.truncated
    if masks.off_policy is not None:
        draft.settings["off_policy_mask_threshold"] = masks.off_policy
    if masks.entropy_quantile is not None:
        draft.settings["top_entropy_quantile"] = masks.entropy_quantile
    if masks.duplicates != "keep":
        draft.gap("masks", f"no weights for duplicates ({masks.duplicates})", OWN_LOSS)
    if masks.token_weight != "1":
        draft.gap("masks", f"no token weight {masks.token_weight}", OWN_LOSS)


def _selection(selection: Selection, draft: Draft) -> None:
    if selection.refill:
        draft.gap("selection", "no dynamic sampling", "refill with guerdon's sampler")
    elif selection.zero_variance:
        draft.differs("selection", "groups of equal rewards stay in the denominators, without a gradient")
    if selection.band is not None or selection.retire_at is not None:
        draft.gap("selection", "prompts are not selected by pass rate", "filter with guerdon.filters")


def _group_and_length(recipe: Recipe, draft: Draft) -> None:
    if recipe.group_size is not None:
        draft.settings["num_generations"] = recipe.group_size
    if recipe.overlong is not None:
        draft.gap(
            "overlong", "the length penalty is a reward", "add guerdon.rewards.soft_overlong (length_penalty if uncapped) to the reward"
        )


def _is_rloo(recipe: Recipe) -> bool:
    plain = (
        recipe.ratio == Ratio("product") and isinstance(recipe.gate, Clip | Unclipped) and recipe.aggregate == Aggregate("sequence_mean")
    )
    return plain and recipe.advantage == adv.RLOO


def _rloo(recipe: Recipe, draft: Draft) -> Translation:
    match recipe.gate:
        case Clip(eps_low=low, eps_high=high, delta=None, dual=None):
            draft.settings |= {"epsilon": low, "epsilon_high": high}
        case _:
            draft.gap("gate", "RLOOTrainer clips on two sides, without delta or dual")
    draft.settings |= {"normalize_advantages": False, "beta": 0.0, "mask_truncated_completions": recipe.masks.truncated}
    if recipe.kl is not None and (recipe.kl.place, recipe.kl.estimator) == ("reward", "k1"):
        draft.settings["beta"] = recipe.kl.beta
    elif recipe.kl is not None:
        draft.gap("kl", "RLOOTrainer has k1 in the reward only")
    if recipe.rollout_correction is not None:
        draft.gap("rollout_correction", "RLOOTrainer has none")
    if recipe.masks.off_policy or recipe.masks.entropy_quantile or recipe.masks.duplicates != "keep" or recipe.masks.token_weight != "1":
        draft.gap("masks", "RLOOTrainer masks truncated completions only")
    _selection(recipe.selection, draft)
    _group_and_length(recipe, draft)
    return Translation("trl", recipe.name, "trl.RLOOConfig", draft.settings, tuple(draft.gaps))
