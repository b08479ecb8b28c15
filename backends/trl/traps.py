"""The traps of TRL 1.16's settings: names that nothing checks, and combinations that train something else than they say.

One function a trap. Those of batches lie in `traps_batch`, those of functions, data sets and trainer arguments in `traps_inputs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from guerdon.backends.trl.findings import Case, Trap, trap
from guerdon.backends.trl.settings import CHOICES, DEFAULTS, Kind

__all__ = ["TRAPS"]

CLIPPED = ("grpo", "dr_grpo", "dapo", "bnpo", "luspo")
WIDE_FOR_SEQUENCES = 0.05
"""Above it a ratio of sequences is never clipped in practice: GSPO's own range is 3e-4 to 4e-4, LUSPO's 2e-3."""

GRPO: tuple[Kind, ...] = ("grpo",)
GROUPED: tuple[Kind, ...] = ("grpo", "gmpo")
RLOO: tuple[Kind, ...] = ("rloo",)


@trap("misspelt", "error", "any text is taken; the run stops in its first step, after generation")
def misspelt(case: Case) -> Iterator[str]:
    known = DEFAULTS[case.settings.kind].keys()
    for name in [] if case.settings.built else sorted(case.settings.values.keys() - known - {"entropy_coef"}):
        if near := get_close_matches(name, known, 1, 0.85):
            yield f"{name}= is no setting, and the configuration raises TypeError: did you mean {near[0]}=?"
    for name, choices in CHOICES.items():
        if case.settings.kind == "rloo" and name not in DEFAULTS["rloo"]:
            continue
        got = case.settings[name]
        if got in choices:
            continue
        near = get_close_matches(str(got).lower(), choices, 1, 0.0)
        yield f"{name}={got!r}: expected one of {', '.join(choices)}; did you mean {near[0]!r}?"


@trap("vespo-vllm", "error", "the trainer raises: VESPO takes token weights only, and the default mode is sequence_mask", GRPO)
def vespo_vllm(case: Case) -> Iterator[str]:
    s = case.settings
    mode = s["vllm_importance_sampling_mode"]
    if s["loss_type"] == "vespo" and s["use_vllm"] and s["vllm_importance_sampling_correction"] and not str(mode).startswith("token_"):
        yield f"VESPO with vLLM and vllm_importance_sampling_mode={mode!r}: expected a token mode; set 'token_truncate'"


@trap("sapo-temperature", "error", "the gate divides by the temperature: at 0 the loss is NaN, and so is the policy after it", GRPO)
def sapo_temperature(case: Case) -> Iterator[str]:
    for name in ("sapo_temperature_pos", "sapo_temperature_neg"):
        value = case.settings.number(name)
        if case.settings["loss_type"] == "sapo" and value is not None and value <= 0:
            yield f"{name}={value}: expected above 0 (TRL multiplies by it: larger is narrower); use the paper's 1.0, 1.05"


@trap("entropy-quantile", "error", "below 0 the first step stops; above 1 (a percentage) nothing is masked, silently", GRPO)
def entropy_quantile(case: Case) -> Iterator[str]:
    share = case.settings.number("top_entropy_quantile")
    if share is not None and not 0 <= share <= 1:
        yield f"top_entropy_quantile={share}: expected a share between 0 and 1; 0.2 keeps the fifth of highest entropy"


@trap("sync-without-kl", "error", "the trainer raises: without KL there is no reference to synchronise")
def sync_without_kl(case: Case) -> Iterator[str]:
    if case.settings["sync_ref_model"] and case.settings["beta"] == 0:
        yield "sync_ref_model=True with beta=0: expected a KL term; set beta (DeepSeek-R1: 0.001) or leave sync_ref_model out"


@trap("rloo-grpo-setting", "error", "RLOOConfig raises TypeError: these settings are GRPOConfig's", RLOO)
def rloo_grpo_setting(case: Case) -> Iterator[str]:
    foreign = DEFAULTS["grpo"].keys() - DEFAULTS["rloo"].keys()
    if not case.settings.built and (wrong := sorted(foreign & case.settings.values.keys())):
        yield f"{', '.join(wrong)} given to RLOOConfig, which has no such settings: use GRPOConfig, or leave them out"


@trap("gspo-loss", "warning", "completions count by their length: a token sum of one ratio a completion, not GSPO's objective", GRPO)
def gspo_loss(case: Case) -> Iterator[str]:
    loss = case.settings["loss_type"]
    if case.settings["importance_sampling_level"] == "sequence" and loss in ("bnpo", "dr_grpo", "dapo", "cispo"):
        yield f"importance_sampling_level='sequence' with loss_type={loss!r}: GSPO takes the mean over completions; set loss_type='grpo'"


@trap("gspo-epsilon", "warning", "the ratio of a whole completion stays within 1 +- 0.2: nothing is ever clipped", GRPO)
def gspo_epsilon(case: Case) -> Iterator[str]:
    s = case.settings
    epsilon = s.number("epsilon")
    if s["importance_sampling_level"] == "sequence" and s["loss_type"] in CLIPPED and epsilon is not None and epsilon > WIDE_FOR_SEQUENCES:
        yield f"importance_sampling_level='sequence' with epsilon={epsilon}: set epsilon=3e-4, epsilon_high=4e-4 (LUSPO: 2e-3, 2.5e-3)"


@trap("luspo-level", "warning", "token ratios under a sum over tokens: not LUSPO, whose ratio is of the sequence", GRPO)
def luspo_level(case: Case) -> Iterator[str]:
    if case.settings["loss_type"] == "luspo" and case.settings["importance_sampling_level"] == "token":
        yield "loss_type='luspo' with importance_sampling_level='token': set importance_sampling_level='sequence'"


@trap("vespo-level", "warning", "VESPO takes the product of ratios itself; the setting changes the KL term only", GRPO)
def vespo_level(case: Case) -> Iterator[str]:
    if case.settings["loss_type"] == "vespo" and case.settings["importance_sampling_level"] == "sequence":
        yield "loss_type='vespo' with importance_sampling_level='sequence': leave it at 'token'"


@trap("dr-grpo-scale", "warning", "rewards are divided by their group's std: the difficulty bias that Dr. GRPO removes stays", GRPO)
def dr_grpo_scale(case: Case) -> Iterator[str]:
    s = case.settings
    if s["loss_type"] == "dr_grpo" and s["scale_rewards"] in ("group", "batch") and not s.gdpo:
        yield f"loss_type='dr_grpo' with scale_rewards={s['scale_rewards']!r}: set scale_rewards='none'"


@trap("dr-grpo-kl", "warning", "a KL term that Dr. GRPO does not have, and a second model in memory for it", GRPO)
def dr_grpo_kl(case: Case) -> Iterator[str]:
    if case.settings["loss_type"] == "dr_grpo" and case.settings["beta"] != 0:
        yield f"loss_type='dr_grpo' with beta={case.settings['beta']}: Dr. GRPO has no KL; set beta=0"


@trap("sapo-order", "warning", "negative tokens fade out more slowly than positive ones: TRL's temperature multiplies", GRPO)
def sapo_order(case: Case) -> Iterator[str]:
    low, high = case.settings.number("sapo_temperature_pos"), case.settings.number("sapo_temperature_neg")
    if case.settings["loss_type"] == "sapo" and low is not None and high is not None and high < low:
        yield f"sapo_temperature_neg={high} below sapo_temperature_pos={low}: expected neg > pos (1.05, 1.0); swap them"


@trap("cispo-cap", "warning", "every weight, on policy too, is cut to the cap: REINFORCE at a fraction of the learning rate", GRPO)
def cispo_cap(case: Case) -> Iterator[str]:
    s = case.settings
    cap = s.number("epsilon") if s["epsilon_high"] is None else s.number("epsilon_high")
    if s["loss_type"] == "cispo" and cap is not None and cap <= 1:
        name = "epsilon" if s["epsilon_high"] is None else "epsilon_high"
        yield f"loss_type='cispo' with {name}={cap} as the cap: it is absolute, not 1 + epsilon_high; set epsilon_high=5.0 (ScaleRL)"


@trap("delta-below-clip", "warning", "the upper bound for A < 0 cuts positive advantages too, below their own clip range", GRPO)
def delta_below_clip(case: Case) -> Iterator[str]:
    s = case.settings
    delta, high = s.number("delta"), s.number("epsilon") if s["epsilon_high"] is None else s.number("epsilon_high")
    if s["loss_type"] in CLIPPED and delta is not None and high is not None and delta <= 1 + high:
        yield f"delta={delta} within the clip range, whose upper end is {1 + high:g}: expected more (INTELLECT-2: 4); raise delta"


@trap("entropy-share", "warning", "most tokens keep their gradient: the quantile is the share kept, not masked", GRPO)
def entropy_share(case: Case) -> Iterator[str]:
    share = case.settings.number("top_entropy_quantile")
    if share is not None and (0.5 < share < 1 or share == 0):
        kept = "one token a batch" if share == 0 else f"{share:.0%} of the tokens"
        yield f"top_entropy_quantile={share} keeps {kept}: the 80/20 rule is 0.2; 1.0 keeps all"


@trap("cap-renamed", "warning", "it replaces vllm_importance_sampling_clip_max, warns, and is gone in TRL 2.0", GRPO)
def cap_renamed(case: Case) -> Iterator[str]:
    cap = case.settings["vllm_importance_sampling_cap"]
    if cap is not None:
        yield f"vllm_importance_sampling_cap={cap}: set vllm_importance_sampling_clip_max={cap}"


@trap("gdpo-scale", "warning", "scale_rewards is not read: both normalisations of GDPO are done all the same", GROUPED)
def gdpo_scale(case: Case) -> Iterator[str]:
    scale = case.settings["scale_rewards"]
    if case.settings.gdpo and scale in ("batch", "none"):
        yield f"multi_objective_aggregation='normalize_then_sum' with scale_rewards={scale!r}: leave scale_rewards out"


@trap("no-effect", "warning", "the setting is read by nothing under the others: the method it belongs to is not in force", GRPO)
def no_effect(case: Case) -> Iterator[str]:
    s = case.settings
    loss = s["loss_type"]
    vllm = ("mode", "clip_max", "clip_min", "cap")
    needs = {
        "delta": (loss in (*CLIPPED, None), f"loss_type={loss!r}"),
        "epsilon": (loss not in ("cispo", "sapo", "vespo") or (loss == "cispo" and s["epsilon_high"] is None), f"loss_type={loss!r}"),
        "epsilon_high": (loss not in ("sapo", "vespo"), f"loss_type={loss!r}"),
        **{f"sapo_temperature_{sign}": (loss == "sapo", "loss_type='sapo'") for sign in ("pos", "neg")},
        **{f"vespo_{name}": (loss == "vespo", "loss_type='vespo'") for name in ("k_pos", "lambda_pos", "k_neg", "lambda_neg")},
        **{f"vllm_importance_sampling_{name}": (s["use_vllm"], "use_vllm=True") for name in vllm},
        **{f"ref_model_{name}": (s["sync_ref_model"], "sync_ref_model=True") for name in ("mixup_alpha", "sync_steps")},
        **{f"entropy_{name}": (s["use_adaptive_entropy"], "use_adaptive_entropy=True") for name in ("target", "coef_delta")},
    }
    for name, (read, condition) in needs.items():
        if s.given(name) and s[name] is not None and not read:
            other = "not read under" if condition == f"loss_type={loss!r}" else "read only under"
            yield f"{name}={s[name]} is {other} {condition}: set the one that you mean, and leave the other out"


@trap("rloo-kl", "warning", "0.05 times the KL summed over a completion leaves its reward, and a reference is loaded", RLOO)
def rloo_kl(case: Case) -> Iterator[str]:
    if not case.settings.built and not case.settings.given("beta"):
        yield "RLOOConfig without beta: its default is 0.05, not 0 as in GRPOConfig; say beta=0.0 or beta=0.05"


@trap("default-loss", "note", "the mean is over tokens: GRPOConfig's default loss is DAPO's, not that of the GRPO paper", GRPO)
def default_loss(case: Case) -> Iterator[str]:
    if not case.settings.built and not case.settings.given("loss_type"):
        yield "loss_type not given: TRL takes 'dapo' (mean over tokens); say loss_type='grpo' for the paper's mean over completions"


@trap("dapo-sampling", "note", "groups of equal rewards stay in the batch without a gradient, whatever the loss is called", GRPO)
def dapo_sampling(case: Case) -> Iterator[str]:
    if case.settings["loss_type"] == "dapo" and case.settings.given("loss_type"):
        yield "loss_type='dapo' is DAPO's mean over tokens; dynamic sampling is not in TRL: filter prompts by pass rate beforehand"


@trap("truncated-baseline", "note", "a masked completion still counts in the mean and std of its group")
def truncated_baseline(case: Case) -> Iterator[str]:
    if case.settings["mask_truncated_completions"]:
        yield "mask_truncated_completions=True masks the loss only: to leave truncated rows out of the baseline, R.abstain_if_truncated"


@trap("two-generations", "note", "advantages are +-0.707, not +-1: the std has Bessel's correction", GROUPED)
def two_generations(case: Case) -> Iterator[str]:
    if case.settings["num_generations"] == 2 and case.settings["scale_rewards"] == "group" and not case.settings.gdpo:
        yield "num_generations=2 with scale_rewards='group': advantages of unequal pairs are +-0.707; scale the learning rate"


@trap("gdpo-zero-std", "note", "frac_reward_zero_std reads the std of the batch: it says nothing about groups", GROUPED)
def gdpo_zero_std(case: Case) -> Iterator[str]:
    if case.settings.gdpo:
        yield "multi_objective_aggregation='normalize_then_sum': read guerdon/frac_reward_zero_std for the share of groups without a signal"


@trap("ratio-is-one", "note", "the ratio is exactly 1: clip ranges, gates and levels of importance sampling change nothing", GROUPED)
def ratio_is_one(case: Case) -> Iterator[str]:
    s = case.settings
    accumulate, steps, iterations = s.whole("gradient_accumulation_steps"), s.steps, s.whole("num_iterations")
    every = (steps or 0) * (iterations or 0)
    if accumulate and every and accumulate % every == 0:
        yield f"one step a generation batch (steps_per_generation={steps}, num_iterations={iterations}): raise either to go off policy"


TRAPS: tuple[Trap, ...] = (
    misspelt, vespo_vllm, sapo_temperature, entropy_quantile, sync_without_kl, rloo_grpo_setting, gspo_loss, gspo_epsilon, luspo_level,
    vespo_level, dr_grpo_scale, dr_grpo_kl, sapo_order, cispo_cap, delta_below_clip, entropy_share, cap_renamed, gdpo_scale, no_effect,
    rloo_kl, default_loss, dapo_sampling, truncated_baseline, two_generations, gdpo_zero_std, ratio_is_one,
)  # fmt: skip
