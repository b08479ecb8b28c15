"""How the fixture kinds advantage, reward and diversity map to guerdon: parameter names to axes, terms and metric functions.

Names only; the arithmetic is guerdon's. NotImplementedError says that a fixture asks for something without a mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

Fixture = Mapping[str, Any]
Batches = Mapping[str, Any]

# --- advantages ---------------------------------------------------------------------------------------------------------------

ALGOS = {
    "2_grpo": "grpo",
    "batch_std": "batch",
    "centered": "dr_grpo",
    "dapo": "grpo",
    "grpo_multi": "grpo",
    "lite_ppo": "batch",
    "multi_grpo": "grpo",
    "multi_reward": "grpo",
    "olmo3": "dr_grpo",
    "reinforce": "reinforce_pp",
    "reinforce_baseline": "reinforce_pp_baseline",
    "reinforce++": "reinforce_pp",
    "reinforce++_baseline": "reinforce_pp_baseline",
}
"""Other names of guerdon's SPECS."""

AXES = {
    "aggregation": "combine",
    "batch_norm": "whiten",
    "multi": "combine",
    "multi_objective_aggregation": "combine",
    "normalize": "whiten",
    "normalize_advantages": "whiten",
    "scale_rewards": "scale",
    "span": "rank_span",
    "transform": "rank_transform",
}
"""Other names of the axes."""

VALUES: dict[str, dict[Any, str]] = {
    "center": {"global": "batch", None: "none", False: "none"},
    "scale": {"batch_of_centered": "batch_centered", "global": "batch", None: "none", False: "none", True: "group"},
    "combine": {"normalize_then_sum": "normalize_first", "sum_then_normalize": "sum_first"},
    "whiten": {"batch": "sample", "token_weighted": "token", "tokens": "token", None: "none", False: "none", True: "sample"},
    "ties": {"argsort": "ordinal", "mean": "average", "midrank": "average", "official": "ordinal"},
}
"""Other names of their values."""

DATA = {"weights", "gamma", "group_size", "norm_adv_by_std_in_grpo", "official"}
"""Parameters that are not axes, read below."""


def run_advantage(fixture: Fixture, batches: Batches) -> dict[str, Any]:
    """Advantages per completion, and per token where the fixture expects those."""
    from guerdon.rewards.advantages import advantages

    inputs, params = {**batches.get(fixture["inputs"].get("batch"), {}), **fixture["inputs"]}, fixture.get("params", {})
    values, groups = rows_of(inputs, params)
    mask, lengths = inputs.get("mask"), flatten(inputs.get("lengths"))
    if mask is not None:
        lengths = [sum(row) for row in mask]
    spec, gamma = advantage_spec(fixture), params.get("gamma", 1.0)
    if gamma != 1.0:
        if spec.center != "none" or lengths is None:
            raise NotImplementedError(f"no mapping for gamma {gamma} with a baseline or without lengths")
        return {"token_advantages": run_tokens(values, lengths, gamma, spec, fixture["expected"].get("token_advantages", []))}
    weights = weights_of(inputs.get("weights", params.get("weights")), len(values), inputs["rewards"])
    valid = flatten(inputs.get("valid"))
    result = advantages(values, groups, weights, spec, valid_N=valid, num_tokens_N=lengths).tolist()
    out: dict[str, Any] = {}
    for key, expected in fixture["expected"].items():
        if key == "advantages":
            out[key] = fold(result, expected)
        elif key == "token_advantages" and lengths is not None:
            out[key] = [spread_on(a, n, len(row)) for a, n, row in zip(result, mask or lengths, expected, strict=True)]
    return out


def run_tokens(rewards: list[float], lengths: list[Any], gamma: float, spec: Any, like: Any) -> list[list[float]]:
    """Returns that differ from token to token: every token is a row of its own."""
    from guerdon.rewards.advantages import advantages

    tokens = [(i, t) for i, n in enumerate(lengths) for t in range(int(n))]
    returns = [rewards[i] * gamma ** (lengths[i] - 1 - t) for i, t in tokens]
    result = dict(zip(tokens, advantages(returns, tokens, None, spec, num_tokens_N=[1] * len(tokens)).tolist(), strict=True))
    return [[result.get((i, t), 0.0) for t in range(len(row))] for i, row in enumerate(like)]


def advantage_spec(fixture: Fixture) -> Any:
    """The AdvantageSpec of a fixture: the named method, with every parameter put on its axis."""
    from guerdon.rewards.advantages import SPECS

    algo, form, params = fixture["algo"].lower().replace("-", "_"), str(fixture.get("form")), fixture.get("params", {})
    base = SPECS.get(ALGOS.get(algo, algo))
    if base is None:
        raise NotImplementedError(f"no mapping for algo {fixture['algo']!r}")
    axes = {AXES.get(name, name): value for name, value in params.items() if name not in DATA}
    if algo == "2_grpo":
        axes = {"ddof": 0, "eps": 0.0, **axes}
    if params.get("norm_adv_by_std_in_grpo") is False:
        axes["scale"] = "none"
    if base.scale == "rank":
        axes = rank_axes(axes, "official" in form or params.get("official", False))
    axes = {name: VALUES[name].get(value, value) if name in VALUES else value for name, value in axes.items()}
    axes = whiten_axes(axes, base, form)
    unknown = sorted(set(axes) - {field.name for field in fields(base)})
    if unknown:
        raise NotImplementedError(f"no mapping for parameter {', '.join(unknown)}")
    return replace(base, **axes)


def rank_axes(axes: dict[str, Any], official: bool) -> dict[str, Any]:
    """Ranks: a number as `scale` is the span, the map alone decides the centre, the official code's ties are ordinal."""
    axes = {"center": "none", **axes}
    if isinstance(axes.get("scale"), (int, float)):
        axes["rank_span"] = axes.pop("scale")
    if official:
        axes.setdefault("ties", "ordinal")
    return axes


def whiten_axes(axes: dict[str, Any], base: Any, form: str) -> dict[str, Any]:
    """One `eps` serves both steps, except that token whitening keeps the constant inside its root; OpenRLHF clamps instead."""
    whiten, scale = axes.get("whiten", base.whiten), axes.get("scale", base.scale)
    if whiten == "sample" and "whiten_eps" not in axes:
        axes["whiten_eps"] = axes.get("eps", 1e-4 if base.whiten == "none" else base.whiten_eps)
    elif whiten == "token" and scale == "none" and "eps" in axes:
        axes.setdefault("whiten_eps", axes["eps"])
    if whiten == "token" and "openrlhf" in form:
        axes = {"ddof": 0, "whiten_eps": 0.0, **axes}
    return axes


def rows_of(inputs: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """One row a completion and its group, from rewards [P][G], [P][G][K], or flat with `groups` or a group size."""
    rewards = inputs["rewards"]
    named = next((inputs[name] for name in ("groups", "group_ids", "index", "uid") if name in inputs), None)
    if named is not None:
        rows, groups = rewards, list(named)
    elif any(isinstance(row, list) for row in rewards):
        rows, groups = [value for row in rewards for value in row], [p for p, row in enumerate(rewards) for _ in row]
    else:
        size = params.get("group_size", inputs.get("group_size", len(rewards) or 1))
        rows, groups = rewards, [i // size for i in range(len(rewards))]
    terms = max((len(row) for row in rows if isinstance(row, list)), default=0)
    return [[None] * terms if row is None and terms else row for row in rows], groups


def weights_of(weights: Any, rows: int, rewards: Any) -> Any:
    """Weights [K] as they are; [N][K] and [P][G][K] by row; [P][K] for every row of the group."""
    if not weights or not isinstance(weights[0], list):
        return weights
    if isinstance(weights[0][0], list):
        return flatten(weights)
    return weights if len(weights) == rows else [row for row, group in zip(weights, rewards, strict=True) for _ in group]


def flatten(values: Any) -> Any:
    """One entry a row, given flat or by group."""
    return [value for row in values for value in row] if values and isinstance(values[0], list) else values


def spread_on(advantage: float, mask: Any, width: int) -> list[float]:
    """One completion's advantage on its tokens, given as a count or as a mask, 0 elsewhere."""
    mask = mask if isinstance(mask, list) else [t < mask for t in range(width)]
    return [advantage if on else 0.0 for on in mask]


def fold(flat: Iterable[Any], like: Any) -> Any:
    """A flat list nested as `like`; left flat where the counts differ, so that the comparison says so."""
    flat = list(flat)
    if not any(isinstance(row, list) for row in like) or sum(map(len, like)) != len(flat):
        return flat
    rest = iter(flat)
    return [[next(rest) for _ in row] for row in like]


# --- rewards ------------------------------------------------------------------------------------------------------------------

LIMITS = {
    "max": ("max_tokens", "max_new_tokens", "l_max", "max_completion_len", "max_completion_length", "max_resp_len", "max_len"),
    "buffer": ("cache", "buffer", "l_cache", "soft_punish_cache", "buffer_len", "overlong_buffer_len"),
    "safe": ("safe_tokens", "safe_len", "safe_length", "expected_len"),
    "scale": ("scale", "factor", "lam", "penalty_factor", "overlong_penalty_factor"),
    "cap": ("cap", "capped"),
}
"""The names stacks give to the parameters of a length penalty."""


def run_reward(fixture: Fixture, batches: Batches) -> dict[str, Any]:
    """The score of a length term for every length."""
    from guerdon.types import Rollout

    del batches
    term = length_term(fixture)
    rollouts = [Rollout("", num_tokens=int(n)) for n in fixture["inputs"]["lengths"]]
    return {"rewards": [verdict.score for verdict in term.verdicts(rollouts)]}


def length_term(fixture: Fixture) -> Any:
    """The piecewise form is capped beyond max_tokens; a safe length, verl's form and `cap: null` mean the uncapped line."""
    import guerdon.rewards as R

    names = {alias: name for name, aliases in LIMITS.items() for alias in aliases}
    unknown = sorted(set(fixture["params"]) - set(names))
    if unknown:
        raise NotImplementedError(f"no mapping for parameter {', '.join(unknown)}")
    given = {names[alias]: value for alias, value in fixture["params"].items()}
    if "max" not in given or ("buffer" in given) == ("safe" in given):
        raise NotImplementedError(f"no mapping for a length penalty with {', '.join(fixture['params'])}")
    longest, scale = int(given["max"]), float(given.get("scale", 1.0))
    safe = int(given["safe"]) if "safe" in given else longest - int(given["buffer"])
    capped = given.get("cap", "buffer" in given and "verl" not in str(fixture.get("form")))
    if capped:
        return R.soft_overlong(max_tokens=longest, cache=longest - safe, scale=scale)
    return R.length_penalty(safe_tokens=safe, max_tokens=longest, scale=scale)


# --- diversity ----------------------------------------------------------------------------------------------------------------


def run_diversity(fixture: Fixture, batches: Batches) -> dict[str, Any]:
    """The metrics that the fixture expects, by name."""
    import guerdon.rewards.diversity_metrics as metrics

    del batches
    inputs, params = fixture["inputs"], fixture["params"]
    if set(params) - {"ratio"}:
        raise NotImplementedError(f"no mapping for parameter {', '.join(sorted(set(params) - {'ratio'}))}")
    texts: Any = next((inputs[name] for name in ("tokens", "completions", "texts") if name in inputs), None)
    measures: dict[str, Callable[[], Any]] = {
        "unique_completion_ratio": lambda: metrics.unique_ratio(texts),
        "answer_entropy": lambda: metrics.answer_entropy(inputs["answers"]),
        "effective_answers": lambda: metrics.effective_answers(inputs["answers"]),
        "reward_std_population": lambda: metrics.reward_std(inputs["rewards"]),
        "reward_std_sample": lambda: metrics.reward_std(inputs["rewards"], ddof=1),
        "reward_range": lambda: metrics.reward_range(inputs["rewards"]),
        "zero_std_fraction": lambda: metrics.zero_spread_fraction(inputs["rewards"]),
        "dedup_keep_first": lambda: metrics.keep_first(texts),
        "duplicate_count": lambda: metrics.duplicate_counts(texts),
        "alarm": lambda: metrics.collapsed(inputs["current"], inputs["baseline"], **params),
    }
    out = {}
    for key in fixture["expected"]:
        head, _, n = key.rpartition("_")
        if head in ("distinct", "distinct_n") and n.isdigit():
            out[key] = metrics.distinct_n(texts, int(n))
        elif key in measures:
            out[key] = measures[key]()
    return out
