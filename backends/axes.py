"""The other axes of a recipe: ratio, aggregation, KL, rollout correction, masks, selection. Frozen values that check themselves.

No torch and no arithmetic on batches here: `guerdon.backends.grpo` computes. In formulas r is the ratio, A the advantage,
mu the policy of the sampling engine, `|o|` the number of a completion's tokens that count, N that of completions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from guerdon.backends._checks import require, require_choice, require_number

__all__ = ["KL", "Aggregate", "Masks", "Overlong", "Ratio", "ReferenceSync", "RolloutCorrection", "Selection"]

Level = Literal["token", "geometric", "geometric_token", "geometric_clipped", "product"]


@dataclass(frozen=True, slots=True)
class Ratio:
    """How far the policy has moved from the one that sampled: the ratio that the gate sees.

    >>> Ratio("geometric_clipped")
    Traceback (most recent call last):
    ...
    guerdon.errors.ConfigError: Ratio: log_eps_low expects a finite number above 0, got None
    """

    level: Level = "token"
    """`token` exp(d_t), d_t = log pi - log pi_anchor. `geometric` exp(mean of d_t), one a sequence (GSPO). `geometric_token` the same
    value with each token's own gradient (GSPO-token). `geometric_clipped` clips d_t on one side in log space, then takes the
    mean (GMPO). `product` exp(sum of d_t), the true ratio of sequences, which soon reaches the safety clamp of exp(+-20)."""
    anchor: Literal["old", "rollout"] = "old"
    """The denominator: `old`, the trainer's log-probabilities before the update; `rollout`, those of the sampling engine."""
    log_eps_low: float | None = None
    log_eps_high: float | None = None
    """Of `geometric_clipped`: d_t counts at most log_eps_high where A > 0 and at least -log_eps_low elsewhere."""

    def __post_init__(self) -> None:
        require_choice(self, "level", get_args(Level))
        require_choice(self, "anchor", ("old", "rollout"))
        clipped = self.level == "geometric_clipped"
        require_number(self, "log_eps_low", "log_eps_high", optional=not clipped)
        unset = self.log_eps_low is None and self.log_eps_high is None
        require(clipped or unset, self, f"log_eps_low and log_eps_high need level='geometric_clipped', got level={self.level!r}")


Mean = Literal["sequence_mean", "token_mean", "token_sum", "sequence_sum", "prompt_mean"]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """From token losses to one number: each is a weight that every token of a completion gets."""

    how: Mean = "token_mean"
    """`sequence_mean` `1/(N |o|)`: a token counts less in a long answer. `token_mean` `1/sum |o|`: a sequence counts by its length.
    `token_sum` 1/(N length), a constant (Dr. GRPO). `sequence_sum` 1/N (LUSPO). `prompt_mean` 1/(prompts * tokens of the prompt's
    group) (ScaleRL)."""
    length: int | None = None
    """The constant of `token_sum`, usually the longest completion allowed. None: the loss must be told."""
    count_empty: bool = False
    """Whether completions of which no token counts stay in N (TRL), or are left out (verl, OpenRLHF)."""

    def __post_init__(self) -> None:
        require_choice(self, "how", get_args(Mean))
        require_number(self, "length", optional=True)
        require(self.length is None or self.how == "token_sum", self, f"length needs how='token_sum', got how={self.how!r}")
        counted = self.how in ("token_mean",) and self.count_empty
        require(not counted, self, "count_empty changes nothing in a token_mean: an empty completion has no token")


@dataclass(frozen=True, slots=True)
class ReferenceSync:
    """Every `every` optimizer steps the reference becomes (1 - mix) reference + mix policy; mix 1 is a hard copy (DeepSeek-R1: 400)."""

    every: int = 400
    mix: float = 1.0

    def __post_init__(self) -> None:
        require(isinstance(self.every, int) and self.every > 0, self, f"every expects a number of steps above 0, got {self.every!r}")
        require_number(self, "mix")
        require(self.mix <= 1, self, f"mix expects at most 1, got {self.mix}")


@dataclass(frozen=True, slots=True)
class KL:
    """beta times an estimate of KL(pi || ref) from sampled tokens, d = log pi - log ref.

    >>> KL(0.04, place="reward", gradient="unbiased")
    Traceback (most recent call last):
    ...
    guerdon.errors.ConfigError: KL: gradient is that of a loss: place='reward' has none, got gradient='unbiased'
    """

    beta: float
    estimator: Literal["k1", "k2", "k3"] = "k3"
    """k1 = d and k3 = exp(-d) - 1 + d have the KL as their mean, k2 = d^2 / 2 does not (joschu.net/blog/kl-approx.html)."""
    gradient: Literal["naive", "importance", "unbiased"] = "naive"
    """Expected gradient in the loss. `naive`: of k1 it is 0, of k2 that of KL(pi || ref), of k3 that of KL(ref || pi). `importance`
    multiplies by the live token ratio: of k3 that of KL(pi || ref) (DeepSeek-V3.2; TRL's default). `unbiased`: the estimator's value
    with k2's gradient, by straight-through (verl's `k3+`, OpenRLHF's unbiased_gradient)."""
    place: Literal["loss", "reward"] = "loss"
    """`reward`: subtracted from the reward of each token before advantages are made (RLOO, REINFORCE++)."""
    sync: ReferenceSync | None = None

    def __post_init__(self) -> None:
        require_number(self, "beta")
        require_choice(self, "estimator", ("k1", "k2", "k3"))
        require_choice(self, "gradient", ("naive", "importance", "unbiased"))
        require_choice(self, "place", ("loss", "reward"))
        naive = self.gradient == "naive"
        require(self.place == "loss" or naive, self, f"gradient is that of a loss: place='reward' has none, got gradient={self.gradient!r}")
        require(self.estimator != "k2" or self.gradient != "unbiased", self, "k2's naive gradient is unbiased: use gradient='naive'")


@dataclass(frozen=True, slots=True)
class RolloutCorrection:
    """A detached weight for the mismatch of trainer and sampling engine: w = pi_old / mu, bounded.

    >>> RolloutCorrection("token", "truncate", cap=2.0).cap
    2.0
    """

    level: Literal["token", "product", "geometric"] = "token"
    """The statistic that is bounded: each token's w, or of the sequence the `product` or the `geometric` mean of w. TRL and verl
    call the product `sequence`; OpenRLHF's `seq` is geometric."""
    mode: Literal["truncate", "mask"] = "truncate"
    """`truncate` (TIS): clamp to [floor, cap]. `mask` (MIS, IcePop): 0 outside [floor, cap]."""
    cap: float | None = 2.0
    floor: float | None = None
    carries: Literal["same", "token", "indicator"] = "same"
    """What is left of `mask`: the same statistic; each token's own w (OpenRLHF's `seq`); or 1, a bare indicator."""
    fold: bool = False
    """Multiply the sequence's ratio by the weights instead of the loss (VESPO)."""

    def __post_init__(self) -> None:
        require_choice(self, "level", ("token", "product", "geometric"))
        require_choice(self, "mode", ("truncate", "mask"))
        require_choice(self, "carries", ("same", "token", "indicator"))
        require_number(self, "cap", "floor", optional=True)
        require(
            self.cap is not None or self.floor is not None, self, "cap and floor are both None, which corrects without a bound: set cap"
        )
        ordered = self.cap is None or self.floor is None or self.floor < self.cap
        require(ordered, self, f"floor expects less than cap={self.cap}, got {self.floor}")
        require(self.mode == "mask" or self.carries == "same", self, f"carries={self.carries!r} needs mode='mask', got mode='truncate'")
        require(not self.fold or self.carries == "same", self, "fold multiplies weights into the ratio: use carries='same'")


@dataclass(frozen=True, slots=True)
class Masks:
    """Which tokens count, besides padding and tokens that the policy did not write (tools, environment), which never do."""

    truncated: bool = False
    """Leave out completions cut at the length limit, from the loss and from its denominators (DAPO's overlong filtering)."""
    off_policy: float | None = None
    """Zero completions with A < 0 whose mean of log(pi_old / pi) exceeds this (DeepSeek-V3.2; TRL off_policy_mask_threshold). The
    denominators keep them."""
    entropy_quantile: float | None = None
    """Only this share of tokens, those of highest entropy, has a policy gradient (arXiv:2506.01939: 0.2). Denominators stay."""
    duplicates: Literal["keep", "drop", "share"] = "keep"
    """Equal completions of a group: `drop` all but the first, or let them `share` the weight of one (`masks.duplicate_weights`).
    The loss takes either as `keep_NT`; dropping before advantages are made changes the baseline too."""
    token_weight: Literal["1", "1-pi_ref"] = "1"
    """`1-pi_ref` multiplies the advantage of a token by 1 - pi_ref, so that tokens sure under the reference count less."""

    def __post_init__(self) -> None:
        require_number(self, "off_policy", optional=True, inclusive=True)
        require_number(self, "entropy_quantile", optional=True)
        share = self.entropy_quantile
        require(share is None or share < 1, self, f"entropy_quantile expects a share below 1, got {share}")
        require_choice(self, "duplicates", ("keep", "drop", "share"))
        require_choice(self, "token_weight", ("1", "1-pi_ref"))


@dataclass(frozen=True, slots=True)
class Overlong:
    """The length penalty that a recipe adds to the reward: see `guerdon.rewards.soft_overlong`, and `length_penalty` without `capped`."""

    max_tokens: int = 20480
    buffer: int = 4096
    scale: float = 1.0
    capped: bool = True
    """False: linear beyond max_tokens too, without a floor."""

    def __post_init__(self) -> None:
        require_number(self, "scale", "buffer")
        require(self.buffer <= self.max_tokens, self, f"buffer is a width below max_tokens={self.max_tokens}, got {self.buffer}")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which groups are trained on. Done before the loss (`guerdon.filters`, the samplers); dropped groups leave the denominators."""

    zero_variance: bool = False
    """Drop groups whose rewards are all equal: they have no gradient."""
    refill: bool = False
    """Draw new prompts until the batch is full (DAPO's dynamic sampling, Olmo 3's active sampling)."""
    band: tuple[float, float] | None = None
    """Keep prompts whose pass rate lies in the band. On the training rollouts themselves it deletes gradients: use earlier rollouts."""
    retire_at: float | None = None
    """Stop drawing prompts whose pass rate has reached this (ScaleRL's no-positive-resampling, 0.9)."""

    def __post_init__(self) -> None:
        band = self.band
        require(band is None or 0 <= band[0] < band[1] <= 1, self, f"band expects (low, high) with 0 <= low < high <= 1, got {band}")
        require_number(self, "retire_at", optional=True)
        require(self.retire_at is None or self.retire_at <= 1, self, f"retire_at expects a pass rate of at most 1, got {self.retire_at}")
        drops = self.zero_variance or band is not None
        require(not self.refill or drops, self, "refill replaces dropped groups: set zero_variance or band")
