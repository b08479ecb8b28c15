"""`advantage_func`: finished advantages through TRL's public contract, for estimators that TRL does not have.

With `scale_rewards="none"` GRPOTrainer's advantage is the reward less its group's mean, so a reward function that returns advantages whose
mean in each group is 0 has them used unchanged; RLOOTrainer multiplies that by G/(G - 1), which is divided out here. Advantages that
are not centred within each group cannot go this way and are refused.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

from guerdon.backends.door import PREFIX
from guerdon.backends.trl.configs import validate_function
from guerdon.backends.trl.distributed import on_all_ranks, rank_and_world, score_whole_groups
from guerdon.backends.trl.metrics import log_scores
from guerdon.backends.trl.rows import DEADLINE_S, Scoring, make_scoring
from guerdon.errors import ConfigError
from guerdon.rewards.advantages import AdvantageSpec, advantages
from guerdon.rewards.term import Term

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from guerdon.backends.trl.findings import Finding
    from guerdon.backends.trl.validate import Options
    from guerdon.rewards.scores import Scores

__all__ = ["AdvantageFunction", "advantage_func"]

log = logging.getLogger("guerdon")

NAME = "guerdon_advantage"


class Numbers(NamedTuple):
    """What advantages are made of, for the rows of one rank or of all: see `Scores`. `groups_N` is numbered over all ranks."""

    values_NK: NDArray[np.float64]
    weights_NK: NDArray[np.float64]
    valid_N: NDArray[np.bool_]
    total_N: NDArray[np.float64]
    groups_N: NDArray[np.int64]


class AdvantageFunction:
    """See `advantage_func`. One reward function, called `guerdon_advantage`."""

    returns_advantages = True

    def __init__(self, scoring: Scoring, spec: AdvantageSpec, trainer: Literal["grpo", "rloo"]) -> None:
        self.scoring = scoring
        self.spec = spec
        self.trainer = trainer
        self.__name__ = NAME

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.scoring.reward.name}>"

    @property
    def reward(self) -> Term:
        """The reward whose advantages it returns."""
        return self.scoring.reward

    def config_kwargs(self) -> dict[str, Any]:
        """Keyword arguments for the trainer's config without which the advantages would be normalised again.

        >>> import guerdon.rewards as R
        >>> from guerdon.rewards.advantages import GOPO
        >>> advantage_func(R.exact(), GOPO, num_generations=8).config_kwargs()
        {'scale_rewards': 'none', 'multi_objective_aggregation': 'sum_then_normalize', 'num_generations': 8}
        """
        grpo = {"scale_rewards": "none", "multi_objective_aggregation": "sum_then_normalize"}
        rloo = {"normalize_advantages": False, "reward_clip_range": None}
        sizes = self.scoring.group_sizes
        return {**(grpo if self.trainer == "grpo" else rloo), **({"num_generations": sizes[0]} if sizes else {})}

    def validate(self, args: Any, train_dataset: Any = None, eval_dataset: Any = None, **options: Unpack[Options]) -> tuple[Finding, ...]:
        """Check the trainer's arguments, and the data, against this function: see `guerdon.backends.trl.validate`.

        `options` are those of `validate` there: `ignore`, `trainer_kwargs`, `num_processes`, `trainer`, `gpu`.
        Raises ConfigError where the trainer would change the advantages, or has another group size; MissingInput for lacking data.
        """
        return validate_function(self, self.scoring, args, train_dataset, eval_dataset, **options)

    def __call__(
        self, /, prompts: Sequence[Any] | None = None, completions: Sequence[Any] = (), completion_ids: Any = None, **arguments: Any
    ) -> list[float]:
        """One advantage a completion; 0 for a row without a total. Never None: the groups stay whole and centred."""
        import numpy as np

        start = time.perf_counter()
        read = partial(self.scoring.rollouts, completions, prompts, completion_ids, arguments)
        rank, world = rank_and_world()
        own: list[Scores] = []

        def numbers() -> Numbers:
            own.append(self.scoring.score(read()) if world == 1 else score_whole_groups(self.scoring, read))
            return Numbers(*(getattr(own[0], name) for name in Numbers._fields))

        parts = [numbers()] if world == 1 else on_all_ranks(numbers)
        everything = Numbers(*map(np.concatenate, zip(*parts, strict=True)))
        found = self._advantages(everything)
        log_scores(self.scoring, own[0], time.perf_counter() - start, arguments, completions, completion_ids)
        _log_rewards(self.scoring, everything, arguments)
        first = sum(len(part.total_N) for part in parts[:rank])
        return found[first : first + len(completions)]

    def _advantages(self, n: Numbers) -> list[float]:
        """Over all ranks' rows: for GRPOTrainer as they are, for RLOOTrainer times (G - 1)/G."""
        import numpy as np

        found_N = advantages(n.values_NK, n.groups_N, n.weights_NK, self.spec, valid_N=n.valid_N)
        sizes_P = np.bincount(n.groups_N)
        means_P = np.bincount(n.groups_N, found_N) / np.maximum(sizes_P, 1)
        if np.abs(means_P).max(initial=0.0) > 1e-6 * max(1.0, float(np.abs(found_N).max(initial=0.0))):
            off = np.abs(means_P).max()
            log.warning("advantages are off the centre of a group by up to %.3g, as its rows have different weights: TRL centres them", off)
        if self.trainer == "rloo":
            found_N = found_N * (1.0 - 1.0 / sizes_P[n.groups_N])
        return [float(a) for a in found_N]


def _log_rewards(scoring: Scoring, n: Numbers, arguments: Mapping[str, Any]) -> None:
    """The rewards behind the advantages: TRL's own `reward` is their mean, about 0. Over all ranks, and so the same on each."""
    import numpy as np

    log_metric = arguments.get("log_metric")
    if not callable(log_metric) or not n.valid_N.any():
        return
    totals = n.total_N[n.valid_N]
    log_metric(f"{PREFIX}reward", float(totals.mean()))
    log_metric(f"{PREFIX}reward_std", float(totals.std(ddof=1)) if len(totals) > 1 else 0.0)
    for k, component in enumerate(scoring.components):
        scored = n.values_NK[n.valid_N, k]
        scored = scored[~np.isnan(scored)]
        if len(scored):
            log_metric(f"{PREFIX}{component.name}/mean", float(scored.mean()))


def advantage_func(
    reward: Term | str,
    spec: AdvantageSpec,
    *,
    num_generations: int | None = None,
    num_generations_eval: int | None = None,
    trainer: Literal["grpo", "rloo"] = "grpo",
    deadline_s: float | None = DEADLINE_S,
    eos_token_id: int | Sequence[int] | None = None,
    max_broken: float = 0.5,
) -> AdvantageFunction:
    """One TRL reward function that returns the advantages of `reward` under `spec` (GOPO, GDPO with your weights, RLOO, BATCH, ...).

    GRPOTrainer and RLOOTrainer (`trainer="rloo"`) use them unchanged, if their arguments hold `.config_kwargs()`; `.validate(args)`
    says so before training. RLOOTrainer still subtracts its KL, unless `beta=0.0`. It must be the only reward function with a
    weight. Rows without a total get 0 and count in no statistic. Groups that ranks split, and statistics of the batch, are
    gathered over the ranks.

    `num_generations=` is the trainer's group size; without it groups are runs of equal prompts, which takes two neighbouring rows of the
    data with one prompt for one group. TRL's metric `reward` is about 0 now: `guerdon/reward`, `guerdon/reward_std`,
    `guerdon/<component>/mean` and `guerdon/frac_reward_zero_std` are of the reward itself. Other arguments as in `reward_funcs`.

    Raises ConfigError for a spec whose advantages are not centred within each group: a baseline over the batch, or whitening over tokens
    (REINFORCE++). Not for AsyncGRPOTrainer, which always divides by the group's standard deviation.
    """
    if not isinstance(spec, AdvantageSpec):
        raise ConfigError(f"advantage_func: spec expects an AdvantageSpec such as GOPO or GDPO, got {spec!r:.80}")
    if trainer not in ("grpo", "rloo"):
        raise ConfigError(f"advantage_func: trainer expects 'grpo' or 'rloo', got {trainer!r}")
    for axis, value, centred in (("center", spec.center, ("group", "loo")), ("whiten", spec.whiten, ("none", "sample"))):
        if value not in centred:
            raise ConfigError(
                f"advantage_func: with {axis}={value!r} advantages are not centred within each group, and TRL would centre them again; use "
                f"{axis}={' or '.join(map(repr, centred))}, or overwrite inputs['advantages'] in a trainer of your own"
            )
    scoring = make_scoring(reward, deadline_s, num_generations, num_generations_eval, eos_token_id, max_broken)
    return AdvantageFunction(scoring, spec, trainer)
