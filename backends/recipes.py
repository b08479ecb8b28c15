"""The published algorithms as compositions of axes: one function each, with the defaults of its paper. No torch::

    recipe = dapo(eps_high=0.3)
    print(recipe.describe(), recipe.diff(grpo()))
    loss, metrics = policy_loss(recipe, logp_NT, advantages=..., mask_NT=..., old_logp_NT=...)   # guerdon.backends.grpo.losses
    GRPOConfig(**recipe.trl().exact())                                                            # or ConfigError: what TRL lacks

Docstrings give the formula, the paper, where descriptions in circulation differ, and the option that gives their form. r is the ratio of
the policy to the one that sampled, A the advantage, m_g and s_g mean and std of a prompt's rewards, `|o|` a completion's tokens.
`guerdon recipes NAME` prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

from guerdon.backends.axes import KL, Aggregate, Masks, Overlong, Ratio, ReferenceSync, RolloutCorrection, Selection
from guerdon.backends.composition import Recipe
from guerdon.backends.gates import CappedWeight, Clip, DivergenceMask, GammaWeight, Gate, MirroredSigmoid, Pairwise, SigmoidGate, Unclipped
from guerdon.rewards import advantages as adv

__all__ = [
    "RECIPES", "Recipe", "cispo", "dapo", "deepseek_r1", "dppo", "dr_grpo", "gdpo", "gmpo", "gopo", "grpo", "gspo", "gspo_token",
    "lite_ppo", "luspo", "mis", "olmo3", "opsm", "reinforce_pp", "reinforce_pp_baseline", "rloo", "sapo", "scalerl", "tis",
    "two_grpo", "vespo",
]  # fmt: skip

SEQUENCES, TOKENS = Aggregate("sequence_mean"), Aggregate("token_mean")
INFORMATIVE = Selection(zero_variance=True, refill=True)
DAPO_OVERLONG = Overlong()


def grpo(
    *, eps: float = 0.2, beta: float = 0.04, group_size: int | None = 64, kl_gradient: Literal["naive", "importance", "unbiased"] = "naive"
) -> Recipe:
    """GRPO: mean over completions of the mean over tokens of -min(r A, clip(r, 1 - eps, 1 + eps) A) + beta k3, A = (r - m_g)/s_g.

    DeepSeekMath, arXiv:2402.03300, eq. 3, beta 0.04, 64 completions. The gradient of its k3 is that of KL(ref || pi);
    kl_gradient="importance" is TRL's default and DeepSeek-V3.2's, "unbiased" verl's k3+. TRL's own loss defaults to a token mean, beta 0.
    """
    kl = KL(beta, gradient=kl_gradient) if beta else None
    return Recipe(gate=Clip(eps, eps), aggregate=SEQUENCES, kl=kl, group_size=group_size, name="grpo")


def dapo(
    *, eps_low: float = 0.2, eps_high: float = 0.28, truncated: bool = True, overlong: Overlong | None = DAPO_OVERLONG, group_size: int = 16
) -> Recipe:
    """DAPO: clip-higher (0.2, 0.28), mean over tokens, dynamic sampling, overlong filtering, soft overlong punishment; no KL.

    arXiv:2503.14476, eq. 8 to 13. A token mean gives a sequence weight by its length; it does not stop long answers from dominating, as is
    sometimes said: it is the sequence mean that dilutes their tokens. `overlong.buffer` is the *width* below max_tokens; for the
    lambda form without a cap use Overlong(scale=..., capped=False). TRL has no dynamic sampling. A no-repeat penalty is no part of it.
    """
    return Recipe(
        gate=Clip(eps_low, eps_high), aggregate=TOKENS, masks=Masks(truncated=truncated), selection=INFORMATIVE, overlong=overlong,
        group_size=group_size, name="dapo",
    )  # fmt: skip


def dr_grpo(*, eps: float = 0.2, length: int | None = 3000, token_weight: Literal["1", "1-pi_ref"] = "1", group_size: int = 8) -> Recipe:
    """Dr. GRPO: A = r - m_g without a std, and the sum over tokens divided by a constant length; no KL.

    arXiv:2503.20783 (official code: length 3000, 8 completions). A weight A (1 - pi_ref), sometimes given under this name, is not in the
    paper: token_weight="1-pi_ref". TRL needs scale_rewards="none" beside loss_type="dr_grpo". length=None: given to the loss.
    """
    aggregate, masks = Aggregate("token_sum", length=length), Masks(token_weight=token_weight)
    return Recipe(advantage=adv.DR_GRPO, gate=Clip(eps, eps), aggregate=aggregate, masks=masks, group_size=group_size, name="dr_grpo")


def two_grpo(*, eps: float = 0.2, objective: Literal["clip", "pairwise"] = "clip", beta: float = 0.1) -> Recipe:
    """2-GRPO: GRPO with two completions a prompt, A = +-1 or 0 (ddof 0, eps 0).

    arXiv:2510.00977, Wu et al. With the usual ddof 1 (TRL, verl) A is +-0.707, the same but for the step size. The paper shows an *analogy*
    to DPO; objective="pairwise" is the -log sigmoid(beta (log R+ - log R-)) that is sometimes given as its loss.
    """
    gate: Gate = Pairwise(beta) if objective == "pairwise" else Clip(eps, eps)
    ratio = Ratio("product") if objective == "pairwise" else Ratio()
    return Recipe(replace(adv.GRPO, ddof=0, eps=0.0), ratio, gate, SEQUENCES, group_size=2, name="two_grpo")


def gspo(*, eps_low: float = 3e-4, eps_high: float = 4e-4) -> Recipe:
    """GSPO: one ratio s = exp(mean log-ratio) and one clip a completion, -min(s A, clip(s) A), mean over completions; no KL.

    arXiv:2507.18071, Zheng et al., eq. 5 to 7. The range 3e-4, 4e-4 is far narrower than 0.2, since s is close to 1: it clips two orders
    of magnitude more tokens and learns faster. TRL needs importance_sampling_level="sequence" and loss_type="grpo".
    """
    return Recipe(ratio=Ratio("geometric"), gate=Clip(eps_low, eps_high), aggregate=SEQUENCES, name="gspo")


def gspo_token(*, eps_low: float = 3e-4, eps_high: float = 4e-4) -> Recipe:
    """GSPO-token: ratio sg(s) pi / sg(pi): GSPO's value, each token's own gradient; equal unless A differs within a completion.

    arXiv:2507.18071, eq. 13 to 15. What verl calls gspo.
    """
    return Recipe(ratio=Ratio("geometric_token"), gate=Clip(eps_low, eps_high), aggregate=SEQUENCES, name="gspo_token")


def luspo(*, eps_low: float = 2e-3, eps_high: float = 2.5e-3) -> Recipe:
    """LUSPO: GSPO's ratio and clip, times the length: the sum over tokens, mean over completions. TRL loss_type="luspo"."""
    return Recipe(ratio=Ratio("geometric"), gate=Clip(eps_low, eps_high), aggregate=Aggregate("sequence_sum"), name="luspo")


def gmpo(*, log_eps_low: float = 0.4, log_eps_high: float = 0.4) -> Recipe:
    """GMPO: -rho A, rho = exp(mean of log-ratios, each clipped on the side of A to +-0.4), mean over completions.

    arXiv:2507.20673, Zhao et al. The clip is in log space and before the mean; GSPO's is after it.
    """
    ratio = Ratio("geometric_clipped", log_eps_low=log_eps_low, log_eps_high=log_eps_high)
    return Recipe(ratio=ratio, gate=Unclipped(), aggregate=SEQUENCES, name="gmpo")


def sapo(*, tau_pos: float = 1.0, tau_neg: float = 1.05, form: Literal["published", "mirrored"] = "published") -> Recipe:
    """SAPO: -(4/tau) sigmoid(tau (r - 1)) A, tau by the sign of A; mean over completions. A soft clip: weight sech^2(tau (r - 1)/2) r.

    arXiv:2511.20347, Gao et al. tau multiplies and tau_neg > tau_pos makes negative tokens decay *faster*. form="mirrored" is
    r sigmoid(+-(r - 1)/tau) A, which circulates under this name and is an inverse trust region: to compare, not to train with.
    """
    gate = SigmoidGate(tau_pos, tau_neg) if form == "published" else MirroredSigmoid(tau_pos, tau_neg)
    return Recipe(gate=gate, aggregate=SEQUENCES, name="sapo")


def cispo(*, cap: float = 5.0, floor: float | None = None, form: Literal["published", "clip"] = "published") -> Recipe:
    """CISPO: -sg(min(r, cap)) A log pi, mean over tokens: every token keeps a gradient, the weight is capped.

    MiniMax-M1, arXiv:2506.13585, eq. 4 and 5; cap 5 from ScaleRL. `cap` is absolute as TRL's epsilon_high; verl's is 1 + clip_high, with a
    floor of 1 - clip_low. form="clip" is min(r A, clip(r, 0.8, 1 + cap) A), DAPO's surrogate, which is sometimes called CISPO.
    """
    gate: Gate = CappedWeight(cap, floor) if form == "published" else Clip(0.2, cap)
    return Recipe(gate=gate, aggregate=TOKENS, name="cispo")


def scalerl(*, cap: float = 5.0, retire_at: float | None = 0.9, form: Literal["published", "trl"] = "published") -> Recipe:
    """ScaleRL: CISPO with a mean over each prompt's tokens, A = (r - m_g)/std over the batch of r - m_g, no zero-variance groups, and
    prompts retired at a pass rate of 0.9.

    arXiv:2510.13786, Khatri et al.; also FP32 logits, PipelineRL-8 and length interruptions, which are the trainer's. form="trl" is what
    TRL documents of it: token mean, std of the raw rewards. The synergy of batch scaling and token loss credited to it is Lite PPO's.
    """
    if form == "trl":
        return Recipe(adv.BATCH, gate=CappedWeight(cap), aggregate=TOKENS, name="scalerl")
    selection, mean = Selection(zero_variance=True, retire_at=retire_at), Aggregate("prompt_mean")
    return Recipe(adv.SCALERL, gate=CappedWeight(cap), aggregate=mean, selection=selection, group_size=16, name="scalerl")


def lite_ppo(*, eps: float = 0.2) -> Recipe:
    """Lite PPO: A = (r - m_g)/std over the batch, clip, mean over tokens. arXiv:2508.08221. TRL scale_rewards="batch"."""
    return Recipe(adv.BATCH, gate=Clip(eps, eps), aggregate=TOKENS, name="lite_ppo")


def vespo(
    *, k_pos: float = 2.0, lam_pos: float = 3.0, k_neg: float = 3.0, lam_neg: float = 2.0, rollout_cap: float | None = None
) -> Recipe:
    """VESPO: -sg(W^k exp(lam (1 - W))) A log pi, W the product of a completion's ratios, mean over tokens.

    arXiv:2602.10693, Shen et al.; (2, 3) where A >= 0 and (3, 2) elsewhere are those of its scripts and of TRL. W has no length
    normalisation: its log is clamped to [-18.4, 20]. `rollout_cap` folds each token's min(pi_old / mu, cap) into W.
    """
    correction = None if rollout_cap is None else RolloutCorrection("token", "truncate", cap=rollout_cap, fold=True)
    gate = GammaWeight(k_pos, lam_pos, k_neg, lam_neg)
    return Recipe(ratio=Ratio("product"), gate=gate, aggregate=TOKENS, rollout_correction=correction, name="vespo")


def dppo(
    *, divergence: Literal["binary_tv", "binary_kl", "topk_tv", "topk_kl"] = "binary_tv", delta: float | None = None, cap: float = 20.0,
    length: int | None = None, group_size: int = 16,
) -> Recipe:  # fmt: skip
    """DPPO: -sg(min(r, 20)) A log pi, without tokens whose policies diverge by more than delta *and* that move further away.

    Divergence PPO, arXiv:2602.04879, Qi et al. r is against the sampling engine. delta is 0.15 for TV, 0.05 for KL. `topk_*` takes the
    divergence over the K likeliest tokens of the engine, not over the K largest contributions, with the sampled token added (the authors'
    code leaves it out, and can fall below the binary one); its mask comes from outside, see `gates.DivergenceMask`.
    A = r - m_g over a constant length, as verl's script. An E[A pi 1(D <= delta)] with D = pi log(pi/pi_old) is not the paper's.
    """
    gate = DivergenceMask(divergence, delta or (0.15 if divergence.endswith("tv") else 0.05), cap)
    mean = Aggregate("token_sum", length=length)
    return Recipe(adv.DR_GRPO, Ratio(anchor="rollout"), gate, mean, group_size=group_size, name="dppo")


def gdpo(*, batch_norm: Literal["sample", "token", "none"] = "sample") -> Recipe:
    """GDPO: normalise each reward in its group, take the weighted sum, normalise over the batch; the loss is GRPO's without KL.

    arXiv:2601.05242, Liu et al. batch_norm="none" leaves out the last step, as some descriptions do; "token" is verl's.
    """
    return Recipe(replace(adv.GDPO, whiten=batch_norm), gate=Clip(), aggregate=SEQUENCES, name="gdpo")


def gopo(*, span: float = 2.0, ties: Literal["average", "ordinal"] = "average", identity: bool = False) -> Recipe:
    """GOPO: A from ranks alone, 2 for the best of a group to -2; the loss is GRPO's without KL. Indifferent to the reward's scale.

    arXiv:2602.03876, Choi et al. Equal rewards share their mean rank; ties="ordinal" is the official code's argsort, which spreads an
    all-equal group over 2 to -2. span=1 gives [-1, 1]; identity=True rank/N, not centred.
    """
    if identity:
        spec = replace(adv.GOPO, center="none", ties=ties, rank_transform="identity")
    else:
        spec = replace(adv.GOPO, ties=ties, rank_span=span)
    return Recipe(spec, gate=Clip(), aggregate=SEQUENCES, name="gopo")


def rloo(*, eps: float = 0.2, beta: float = 0.05) -> Recipe:
    """RLOO: A = r - mean of the others', -min(R A, clip(R) A) with the product R of a completion's ratios, k1 KL in the reward.

    arXiv:2402.14740, Ahmadian et al. (on policy: REINFORCE); clip and beta are TRL's RLOOTrainer's.
    """
    kl = KL(beta, "k1", place="reward") if beta else None
    return Recipe(adv.RLOO, Ratio("product"), Clip(eps, eps), SEQUENCES, kl, name="rloo")


def reinforce_pp(*, eps: float = 0.2, beta: float = 0.01) -> Recipe:
    """REINFORCE++: no groups; A whitened over all tokens of the batch, clip, k1 KL in the reward of each token. arXiv:2501.03262.

    beta is OpenRLHF's default.
    """
    kl = KL(beta, "k1", place="reward") if beta else None
    return Recipe(adv.REINFORCE_PP, gate=Clip(eps, eps), aggregate=TOKENS, kl=kl, name="reinforce_pp")


def reinforce_pp_baseline(*, eps: float = 0.2, beta: float = 0.01) -> Recipe:
    """REINFORCE++-baseline: A = r - m_g, whitened over all tokens of the batch; clip; k2 KL in the loss. arXiv:2501.03262."""
    kl = KL(beta, "k2") if beta else None
    return Recipe(adv.REINFORCE_PP_BASELINE, gate=Clip(eps, eps), aggregate=TOKENS, kl=kl, name="reinforce_pp_baseline")


def tis(base: Recipe | None = None, *, level: Literal["token", "product", "geometric"] = "token", cap: float = 2.0) -> Recipe:
    """TIS: any recipe (GRPO without KL) times min(pi_old / mu, cap), mu the sampling engine: truncated importance sampling.

    Yao et al., fengyao.notion.site/off-policy-rl. `product` is what TRL and verl call sequence; `geometric`, its `|o|`-th root as in GSPO,
    is what some descriptions mean by it.
    """
    return replace(base or grpo(beta=0.0), rollout_correction=RolloutCorrection(level, "truncate", cap), name="tis")


def mis(
    base: Recipe | None = None, *, level: Literal["token", "product", "geometric"] = "product", cap: float = 3.0,
    floor: float | None = None, mask_weight: bool = True,
) -> Recipe:  # fmt: skip
    """MIS: any recipe (GRPO without KL) times w 1[floor <= w <= cap], w = pi_old / mu of the token or sequence: masked importance sampling.

    arXiv:2510.18855 (IcePop, token level) and yingru.notion.site; TRL's default, cap 3. mask_weight=False is the bare indicator. At the
    geometric level survivors carry each token's own weight, as in OpenRLHF's `seq`.
    """
    carries: Literal["same", "token", "indicator"] = "indicator" if not mask_weight else "token" if level == "geometric" else "same"
    correction = RolloutCorrection(level, "mask", cap, floor, carries)
    return replace(base or grpo(beta=0.0), rollout_correction=correction, name="mis")


def opsm(base: Recipe | None = None, *, threshold: float = 0.5) -> Recipe:
    """Off-policy sequence masking: any recipe (GRPO without KL) without completions of A < 0 that the policy has moved away from.

    DeepSeek-V3.2. TRL off_policy_mask_threshold.
    """
    base = base or grpo(beta=0.0)
    return replace(base, masks=replace(base.masks, off_policy=threshold), name="opsm")


def deepseek_r1(*, beta: float = 0.001, sync_every: int = 400, place: Literal["loss", "reward"] = "loss") -> Recipe:
    """DeepSeek-R1: GRPO with clip 10, k3 KL of 0.001 in the loss, and the reference copied from the policy every 400 steps.

    Nature 2025 / arXiv:2501.12948: 16 completions of 32 questions, temperature 1, lr 3e-6, one epoch of 16 mini-batches. Clip 10 leaves
    only an upper bound of 11, since 1 - 10 < 0. Nature prints the objective without `1/|o|`; the mean over tokens is GRPO's.
    place="reward" takes k1 off the reward instead, as in RLHF before GRPO.
    """
    kl = KL(beta, "k3" if place == "loss" else "k1", place=place, sync=ReferenceSync(sync_every))
    return Recipe(gate=Clip(10.0, 10.0), aggregate=SEQUENCES, kl=kl, group_size=16, name="deepseek_r1")


def olmo3(*, eps_low: float = 0.2, eps_high: float = 0.272, rollout_cap: float = 2.0, kl: KL | None = None) -> Recipe:
    """Olmo 3 (OlmoRL): A = r - m_g, clip-higher, mean over tokens, token TIS at 2, no KL, zero-variance filter, active sampling.

    open-instruct, scripts/train/olmo3: 8 completions of 64 prompts, lr 1e-6 constant, 32,768 tokens, truncated completions kept.
    `kl` puts one into the loss or the reward.
    """
    correction = RolloutCorrection("token", "truncate", rollout_cap)
    return Recipe(
        adv.DR_GRPO, gate=Clip(eps_low, eps_high), aggregate=TOKENS, kl=kl, rollout_correction=correction, selection=INFORMATIVE,
        group_size=8, name="olmo3",
    )  # fmt: skip


RECIPES: Mapping[str, Callable[[], Recipe]] = MappingProxyType(
    {
        make.__name__: make
        for make in (
            grpo, dapo, dr_grpo, gspo, gspo_token, two_grpo, gmpo, sapo, cispo, scalerl, lite_ppo, vespo, dppo, luspo, gdpo, gopo, rloo,
            reinforce_pp, reinforce_pp_baseline, tis, mis, opsm, deepseek_r1, olmo3,
        )
    }
)  # fmt: skip
"""The functions by name, in the order the command line lists them."""
