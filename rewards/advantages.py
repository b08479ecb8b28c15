"""From rewards to advantages: one numpy function and a spec of orthogonal axes that spans the published estimators.

    advantages(values_NK, groups_N, weights_K, GRPO)        # or DR_GRPO, GDPO, GOPO, RLOO, BATCH, SCALERL, REINFORCE_PP ...

The result is one float64 advantage a rollout. What happens to it in the loss (ratios, clips, KL, masks, per-token
returns with gamma < 1) lies elsewhere; torch is not used. Suffixes: N rollouts, K terms.

Every axis is documented on `AdvantageSpec`, every named spec states its formula, its paper and how the trainers differ.
There, r is the total reward of a row; m_g and s_g are mean and std over its group, m and s over the batch.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

from guerdon.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "BATCH",
    "DR_GRPO",
    "GDPO",
    "GDPO_TOKEN",
    "GOPO",
    "GRPO",
    "REINFORCE_PP",
    "REINFORCE_PP_BASELINE",
    "RLOO",
    "SCALERL",
    "SPECS",
    "AdvantageSpec",
    "advantages",
]

Center = Literal["group", "batch", "loo", "none"]
Scale = Literal["group", "batch", "batch_centered", "rank", "none"]
Combine = Literal["sum_first", "normalize_first"]
Whiten = Literal["none", "sample", "token"]
Ties = Literal["average", "min", "max", "dense", "ordinal"]
RankTransform = Literal["linear", "identity"]

_CHOICES: dict[str, Any] = {
    "center": Center,
    "scale": Scale,
    "combine": Combine,
    "whiten": Whiten,
    "ties": Ties,
    "rank_transform": RankTransform,
}
_RANK_ONLY = {"ties": "average", "rank_span": 2.0, "rank_transform": "linear"}


@dataclass(frozen=True, slots=True)
class AdvantageSpec:
    """How rewards become advantages: combine the terms, centre, scale, whiten. Use `dataclasses.replace` to vary one.

    Raises ConfigError when an axis has an unknown value or two of them contradict each other.

    >>> AdvantageSpec(center="batch", scale="rank")
    Traceback (most recent call last):
    ...
    guerdon.errors.ConfigError: AdvantageSpec: scale='rank' ranks within the group, got center='batch'; use 'group' or 'none'
    """

    center: Center = "group"
    """The baseline subtracted from r: `group` m_g, `batch` m, `loo` the mean of the group's other rows, `none` 0."""
    scale: Scale = "group"
    """What the centred value is divided by: `group` s_g + eps, `batch` s + eps (s of the raw r), `batch_centered` the std
    over the batch of the centred values + eps, `none` 1. Zero spread gives 0. `rank` replaces r by its rank in the group."""
    combine: Combine = "sum_first"
    """`sum_first`: r is the weighted sum of the terms that apply, then centre and scale. `normalize_first`: centre and
    scale each term over the rows where it applies (has a value and a weight other than 0), then take the weighted sum."""
    whiten: Whiten = "none"
    """Last step over the whole batch: `sample` (a - mean)/(std + whiten_eps) with every row counted once; `token`
    (a - mean)/sqrt(var + whiten_eps) with every row counted once for each of its tokens."""
    ddof: int = 1
    """Every std divides by n - ddof: 1 as in TRL, verl and OpenRLHF (torch's std), 0 as in open-instruct (numpy's)."""
    eps: float = 1e-4
    """Added to the std of `scale`, in units of the reward: it damps rewards whose spread is not far above it."""
    whiten_eps: float = 1e-8
    """Added by `whiten`: to the std (`sample`) or to the variance (`token`)."""
    ties: Ties = "average"
    """What equal rewards get under `rank`, named as by scipy's rankdata; `ordinal` ranks them in order of appearance."""
    rank_span: float = 2.0
    """Ranks map to span ... -span (`linear`)."""
    rank_transform: RankTransform = "linear"
    """`linear`: span - 2 span (rank - 1)/(G - 1), rank 1 = highest. `identity`: rank/G, rank 1 = lowest, which is positive:
    pair it with center="none" to keep it so."""

    def __post_init__(self) -> None:
        for name, choice in _CHOICES.items():
            if getattr(self, name) not in get_args(choice):
                raise ConfigError(f"AdvantageSpec: {name} expects one of {', '.join(get_args(choice))}, got {getattr(self, name)!r}")
        if self.ddof not in (0, 1):
            raise ConfigError(f"AdvantageSpec: ddof expects 0 (population) or 1 (sample), got {self.ddof!r}")
        for name in ("eps", "whiten_eps", "rank_span"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and 0 <= value < math.inf):
                raise ConfigError(f"AdvantageSpec: {name} expects a finite number of at least 0, got {value!r}")
        if self.rank_span == 0:
            raise ConfigError("AdvantageSpec: rank_span expects a number above 0, got 0: every advantage would be 0")
        self._check_agreement()

    def _check_agreement(self) -> None:
        if self.scale != "rank":
            for name, default in _RANK_ONLY.items():
                if getattr(self, name) != default:
                    raise ConfigError(f"AdvantageSpec: {name}={getattr(self, name)!r} needs scale='rank', got scale={self.scale!r}")
        elif self.center not in ("group", "none"):
            raise ConfigError(f"AdvantageSpec: scale='rank' ranks within the group, got center={self.center!r}; use 'group' or 'none'")
        elif self.rank_transform == "identity" and self.rank_span != _RANK_ONLY["rank_span"]:
            raise ConfigError(f"AdvantageSpec: rank_transform='identity' has no span, got rank_span={self.rank_span}; use 'linear'")
        if self.scale == "batch_centered" and self.center == "none":
            raise ConfigError("AdvantageSpec: scale='batch_centered' needs a center, got center='none'; use scale='batch'")


GRPO = AdvantageSpec()
"""(r - m_g)/(s_g + eps). DeepSeekMath, arXiv:2402.03300, which prints `std` without ddof or eps.

ddof 1 and eps 1e-4 are TRL's; verl adds 1e-6, OpenRLHF (`group_norm`) 1e-9, open-instruct 1e-8 with ddof 0. With G = 2
the values are +-0.7071, not the +-1 of 2-GRPO (arXiv:2510.00977): use ddof=0, eps=0 for those."""

DR_GRPO = AdvantageSpec(scale="none")
"""r - m_g. Dr. GRPO, arXiv:2503.20783 (and Olmo 3). TRL needs scale_rewards="none" beside loss_type="dr_grpo"; verl
norm_adv_by_std_in_grpo=False. Its other half, a constant token normaliser, belongs to the loss."""

GDPO = AdvantageSpec(combine="normalize_first", whiten="sample", eps=1e-8, whiten_eps=1e-8)
"""z_k = (r_k - m_gk)/(s_gk + eps) for each term, a = sum of w_k z_k, then (a - mean)/(std + eps) over the batch. GDPO,
arXiv:2601.05242. A constant term and the units of a term change nothing, as long as its spread is far above eps: TRL's
1e-4 (`normalize_then_sum`) moves advantages by up to 0.9 for rewards of scale 1e-4, hence 1e-8 here. `whiten="none"`
leaves out the batch step, as secondary descriptions do; whiten="token" is verl's (`GDPO_TOKEN`)."""

GDPO_TOKEN = replace(GDPO, whiten="token", eps=1e-6)
"""GDPO as verl has it: eps 1e-6, and the batch step weights rows by their tokens with 1e-8 inside the root."""

GOPO = AdvantageSpec(scale="rank")
"""2 - 4 (rank - 1)/(G - 1), rank 1 = best. GOPO, arXiv:2602.03876. Equal rewards share their mean rank, so an all-equal
group gets 0; the official code ranks by argsort of argsort (`ties="ordinal"`), which spreads it over 2 ... -2. The mean
square is (4/3)(G + 1)/(G - 1): updates are about 1.3 times those of GRPO at G = 8."""

RLOO = AdvantageSpec(center="loo", scale="none")
"""r - mean of the group's other rows = G/(G - 1) (r - m_g). Ahmadian et al., arXiv:2402.14740. The same in verl, TRL and
OpenRLHF; TRL's `normalize_advantages` is whiten="sample", whiten_eps=1e-4."""

BATCH = AdvantageSpec(scale="batch")
"""(r - m_g)/(s + eps), s the std of the raw rewards of the batch. Lite PPO, arXiv:2508.08221; TRL scale_rewards="batch"."""

SCALERL = AdvantageSpec(scale="batch_centered", ddof=0, eps=1e-8)
"""(r - m_g)/(std of r - m_g over the batch + eps). ScaleRL, arXiv:2510.13786: unlike BATCH, s leaves out the differences
between prompts. ddof and eps are chosen here."""

REINFORCE_PP = AdvantageSpec(center="none", scale="none", whiten="token")
"""(r - m)/sqrt(var + 1e-8) over all tokens of the batch, no group. REINFORCE++, arXiv:2501.03262, at gamma = 1 and with
no KL in the reward; otherwise pass one row a token, its return as value. verl's masked_whiten; OpenRLHF (`reinforce`) has
ddof 0 and max(var, 1e-8)."""

REINFORCE_PP_BASELINE = AdvantageSpec(scale="none", whiten="token")
"""r - m_g, then whitened over all tokens of the batch. REINFORCE++-baseline, arXiv:2501.03262. A group whose rewards are
equal gets minus the mean over tokens, which is small but not 0; a group of one gets 0 (in verl: its raw reward)."""

SPECS: Mapping[str, AdvantageSpec] = MappingProxyType(
    {
        "grpo": GRPO,
        "dr_grpo": DR_GRPO,
        "gdpo": GDPO,
        "gdpo_token": GDPO_TOKEN,
        "gopo": GOPO,
        "rloo": RLOO,
        "batch": BATCH,
        "scalerl": SCALERL,
        "reinforce_pp": REINFORCE_PP,
        "reinforce_pp_baseline": REINFORCE_PP_BASELINE,
    }
)
"""The named specs by their names in lower case."""


def advantages(
    values_NK: ArrayLike,
    groups_N: Sequence[Hashable] | NDArray[Any],
    weights_K_or_NK: ArrayLike | None = None,
    spec: AdvantageSpec = GRPO,
    *,
    valid_N: ArrayLike | None = None,
    num_tokens_N: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """One advantage for each of N rollouts, float64.

    `values_NK` are the terms' scores (1-D: one term); NaN or None says that the term does not apply to the row. A weight
    of 0, for all rows or for one, switches the term off there. `groups_N` are any hashables in any order; the rows of a
    group need not be neighbours. Invalid rows (`valid_N` false, or nothing applies) get 0 and enter no statistic, whatever
    they hold. With a group baseline, the only valid row of its group gets 0. `num_tokens_N` is needed by whiten="token".

    Pure: the arguments are not changed. Rewards from 1e-300 to 1e300 are safe; rewards that differ by rounding alone
    count as equal, so a constant group gets exactly 0.

    Raises ConfigError for a wrong shape, an infinite value or a weight that is not finite; MissingInput for absent token counts.

    >>> advantages([1, 0, 0, None], ["a", "a", "a", "a"], spec=DR_GRPO).round(3).tolist()
    [0.667, -0.333, -0.333, 0.0]
    >>> advantages([[1, 20], [0, 10], [0, 10], [1, 20]], [7, 7, 8, 8], [1.0, 0.5], GDPO).round(3).tolist()
    [0.866, -0.866, -0.866, 0.866]
    """
    import numpy as np

    from guerdon.rewards import _advantage_inputs as inputs
    from guerdon.rewards import _blocks

    if not isinstance(spec, AdvantageSpec):
        raise ConfigError(f"advantages: spec expects an AdvantageSpec such as GRPO or SPECS['grpo'], got {spec!r}")
    values = inputs.value_matrix(values_NK)
    rows, terms = values.shape
    groups = inputs.group_numbers(groups_N, rows)
    out_N = np.zeros(rows)
    if rows == 0:
        return out_N
    weights = inputs.weight_matrix(weights_K_or_NK, rows, terms)
    valid = np.ones(rows, dtype=bool) if valid_N is None else inputs.vector("valid_N", valid_N, rows, bool)
    inputs.check_magnitude(values, valid, _blocks.LIMIT)
    scored, weighted = ~np.isnan(values), weights != 0
    on = scored & weighted
    # A row whose every weight is 0 is there to be watched: its total is 0, as long as something was scored.
    valid = valid & (on.any(axis=1) | (~weighted.any(axis=1) & scored.any(axis=1)))
    tokens = inputs.token_counts(num_tokens_N, valid) if spec.whiten == "token" else None
    at = np.flatnonzero(valid)
    at = at[np.argsort(groups[at], kind="stable")]
    if len(at):
        out_N[at] = _blocks.estimate(values[at], weights[at], on[at], groups[at], spec, None if tokens is None else tokens[at])
    return out_N
