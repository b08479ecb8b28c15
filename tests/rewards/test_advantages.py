"""Advantages: the published values, the invariants of every axis, and what is outside the statistics."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.errors import ConfigError, MissingInput
from guerdon.rewards.advantages import (
    BATCH,
    DR_GRPO,
    GDPO,
    GDPO_TOKEN,
    GOPO,
    GRPO,
    REINFORCE_PP,
    REINFORCE_PP_BASELINE,
    RLOO,
    SCALERL,
    SPECS,
    AdvantageSpec,
    advantages,
)

NAN = math.nan
GRPO_0 = replace(GRPO, eps=0.0)
GDPO_0 = replace(GDPO, eps=0.0, whiten_eps=0.0)
POPULATION = replace(GRPO, ddof=0, eps=0.0)
Batch = tuple[np.ndarray, np.ndarray]

GRID = st.integers(-32, 32).map(lambda i: i / 8)  # exact in binary: sums and shifts of these do not round
SIZES = st.lists(st.integers(2, 6), min_size=1, max_size=4)


@st.composite
def batches(draw: st.DrawFn, terms: int = 1, holes: bool = False) -> Batch:
    """Values [N, terms] of a few groups of two to six rows, whose rows are mixed; NaN here and there with `holes`."""
    groups = [g for g, size in enumerate(draw(SIZES)) for _ in range(size)]
    groups = draw(st.permutations(groups))
    cell = st.one_of(GRID, st.just(NAN)) if holes else GRID
    values = draw(st.lists(st.lists(cell, min_size=terms, max_size=terms), min_size=len(groups), max_size=len(groups)))
    return np.array(values, dtype=float), np.array(groups)


def run(spec: AdvantageSpec, values: Any, groups: Any, weights: Any = None, **options: Any) -> np.ndarray:
    options.setdefault("num_tokens_N", 1 + np.arange(len(groups)) % 5)
    return advantages(values, groups, weights, spec, **options)


def one_group(spec: AdvantageSpec, rewards: list[float | None]) -> list[float]:
    return run(spec, rewards, [0] * len(rewards)).tolist()


# --- published values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([1, 1, 0, 0], [0.8659, 0.8659, -0.8659, -0.8659]),
        ([1, 1, 1, 0], [0.4999, 0.4999, 0.4999, -1.4997]),
        ([1, 0, 0, 0], [1.4997, -0.4999, -0.4999, -0.4999]),
        ([1, 1, 1, 1], [0, 0, 0, 0]),
    ],
)
def test_grpo_on_binary_rewards(rewards: list[float | None], expected: list[float]) -> None:
    assert one_group(GRPO, rewards) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_binary_rewards_have_a_closed_form(size: int) -> None:
    for right in range(1, size):
        got = one_group(POPULATION, [1.0] * right + [0.0] * (size - right))
        high, low = math.sqrt((size - right) / right), -math.sqrt(right / (size - right))
        assert got == pytest.approx([high] * right + [low] * (size - right), rel=1e-14)


@pytest.mark.parametrize("size", [2, 3, 8, 64])
def test_largest_possible_advantage_is_that_of_one_against_all(size: int) -> None:
    assert one_group(GRPO_0, [1.0] + [0.0] * (size - 1))[0] == pytest.approx((size - 1) / math.sqrt(size), rel=1e-14)


@given(batches())
def test_no_advantage_exceeds_the_largest_possible(batch: Batch) -> None:
    values, groups = batch
    count = np.bincount(groups)[groups]
    assert (np.abs(run(GRPO_0, values, groups)) <= (count - 1) / np.sqrt(count) * (1 + 1e-12)).all()


@given(batches())
def test_ddof_changes_only_the_scale_of_a_group(batch: Batch) -> None:
    values, groups = batch
    count = np.bincount(groups)[groups]
    np.testing.assert_allclose(run(GRPO_0, values, groups), run(POPULATION, values, groups) * np.sqrt((count - 1) / count), rtol=1e-12)


def test_two_rollouts_give_plus_and_minus_one_only_with_the_population_std() -> None:
    assert one_group(POPULATION, [0.9, 0.3]) == pytest.approx([1, -1], rel=1e-14)
    assert one_group(GRPO_0, [0.9, 0.3]) == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5)], rel=1e-14)


@given(batches())
def test_rloo_is_the_reward_less_the_mean_of_the_others(batch: Batch) -> None:
    values, groups = batch
    others = [statistics.fmean(values[(groups == g) & (np.arange(len(groups)) != i), 0]) for i, g in enumerate(groups)]
    np.testing.assert_allclose(run(RLOO, values, groups), values[:, 0] - others, atol=1e-12)
    count = np.bincount(groups)[groups]
    np.testing.assert_allclose(run(RLOO, values, groups), run(DR_GRPO, values, groups) * count / (count - 1), atol=1e-12)


def test_batch_std_is_of_the_raw_rewards_and_scalerl_of_the_centred_ones() -> None:
    rewards, groups = [0.0, 1.0, 10.0, 11.0], [0, 0, 1, 1]
    raw, centred = statistics.stdev(rewards), statistics.pstdev([-0.5, 0.5, -0.5, 0.5])
    np.testing.assert_allclose(run(replace(BATCH, eps=0.0), rewards, groups), np.array([-0.5, 0.5, -0.5, 0.5]) / raw)
    np.testing.assert_allclose(run(replace(SCALERL, eps=0.0), rewards, groups), np.array([-0.5, 0.5, -0.5, 0.5]) / centred)


def by_loops(values: np.ndarray, groups: np.ndarray, spec: AdvantageSpec) -> list[float]:
    """Centre and scale one term by group, straight from the formula."""
    out = []
    for value, group in zip(values, groups, strict=True):
        peers = [v for v, g in zip(values, groups, strict=True) if g == group and not math.isnan(v)] or [value]
        spread = statistics.stdev(peers) if len(peers) > 1 and spec.scale == "group" else 0.0
        scale = spread + spec.eps if spec.scale == "group" else 1.0
        out.append((value - statistics.fmean(peers)) / scale if spread or spec.scale == "none" else 0.0)
    return [0.0 if math.isnan(v) else v for v in out]


@pytest.mark.parametrize("spec", [GRPO, DR_GRPO])
@given(batch=batches(holes=True))
def test_one_term_agrees_with_a_loop_over_the_formula(spec: AdvantageSpec, batch: Batch) -> None:
    values, groups = batch
    np.testing.assert_allclose(run(spec, values, groups), by_loops(values[:, 0], groups, spec), atol=1e-11)


@given(batch=batches(terms=3, holes=True))
def test_gdpo_agrees_with_a_loop_over_its_three_steps(batch: Batch) -> None:
    values, groups = batch
    weights, scored = [1.0, 0.5, -2.0], ~np.isnan(values).all(axis=1)
    normed = np.array([by_loops(values[:, k], groups, replace(GRPO, eps=GDPO.eps)) for k in range(3)])
    summed = np.array(weights) @ normed
    alone = np.array([scored[groups == g].sum() < 2 for g in groups])
    spread = summed[scored].std(ddof=1) if scored.sum() > 1 else 0.0
    expected = (
        np.where(scored & ~alone, (summed - summed[scored].mean()) / (spread + GDPO.whiten_eps), 0.0) if spread > 1e-9 else summed * 0
    )
    np.testing.assert_allclose(run(GDPO, values, groups, weights), expected, atol=1e-9)


def test_token_whitening_counts_a_row_once_for_each_of_its_tokens() -> None:
    rewards, tokens = [1.0, 0.0, 0.0, 1.0], [3, 1, 2, 4]
    per_token = np.repeat(rewards, tokens)
    expected = (np.array(rewards) - per_token.mean()) / np.sqrt(per_token.var(ddof=1) + 1e-8)
    np.testing.assert_allclose(run(REINFORCE_PP, rewards, [0, 0, 1, 1], num_tokens_N=tokens), expected, rtol=1e-13)


@given(batches(terms=2), st.integers(1, 50))
def test_token_whitening_with_equal_lengths_is_sample_whitening(batch: Batch, tokens: int) -> None:
    values, groups = batch
    population = replace(GDPO_0, ddof=0)
    by_token = run(replace(population, whiten="token"), values, groups, num_tokens_N=[tokens] * len(groups))
    np.testing.assert_allclose(by_token, run(population, values, groups), atol=1e-9)


def test_a_flat_group_has_a_small_advantage_under_the_baseline_with_token_whitening() -> None:
    got = run(REINFORCE_PP_BASELINE, [1, 0, 1, 1], [0, 0, 1, 1], num_tokens_N=[5, 4, 2, 2])
    assert got[2] == got[3] != 0
    assert abs(got[2]) < min(abs(got[:2]))


# --- ranks --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (GOPO, [2, 0, 0, -2]),
        (replace(GOPO, rank_span=1.0), [1, 0, 0, -1]),
        (replace(GOPO, ties="ordinal"), [2, 2 / 3, -2 / 3, -2]),
        (replace(GOPO, ties="min", center="none"), [2, 2 / 3, 2 / 3, -2]),
        (replace(GOPO, ties="max", center="none"), [2, -2 / 3, -2 / 3, -2]),
        (replace(GOPO, ties="dense", center="none"), [2, 2 / 3, 2 / 3, -2 / 3]),
        (replace(GOPO, rank_transform="identity", center="none"), [1, 0.625, 0.625, 0.25]),
        (replace(GOPO, rank_transform="identity", center="none", ties="min"), [1, 0.5, 0.5, 0.25]),
        (replace(GOPO, rank_transform="identity"), [0.375, 0, 0, -0.375]),
    ],
)
def test_rank_maps_and_ties(spec: AdvantageSpec, expected: list[float]) -> None:
    assert one_group(spec, [7.0, 2.0, 2.0, -1.0]) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("ties", ["average", "min", "max", "dense"])
def test_an_all_tied_group_gets_exactly_zero(ties: Any) -> None:
    assert one_group(replace(GOPO, ties=ties), [0.3] * 5) == [0.0] * 5


def test_ordinal_ties_spread_an_all_tied_group_in_order_of_appearance() -> None:
    assert one_group(replace(GOPO, ties="ordinal"), [0.3] * 4) == pytest.approx([2, 2 / 3, -2 / 3, -2])


@pytest.mark.parametrize("size", [4, 8, 16])
def test_rank_advantage_of_binary_rewards_has_a_gap_that_the_pass_rate_does_not_change(size: int) -> None:
    for right in range(1, size):
        got = one_group(GOPO, [1.0] * right + [0.0] * (size - right))
        assert got[0] - got[-1] == pytest.approx(2 * size / (size - 1))


@pytest.mark.parametrize("monotone", [lambda x: x**3, np.exp, lambda x: 1e6 * x - 5, np.arctan])
@given(batch=batches())
def test_ranks_do_not_change_under_monotone_maps(monotone: Any, batch: Batch) -> None:
    values, groups = batch
    for spec in (GOPO, replace(GOPO, ties="ordinal"), replace(GOPO, ties="dense")):
        np.testing.assert_array_equal(run(spec, monotone(values), groups), run(spec, values, groups))


def test_rewards_of_very_different_sizes_are_not_tied() -> None:
    assert one_group(GOPO, [1e300, 2e-300, 1e-300]) == pytest.approx([2, 0, -2])


# --- invariants ---------------------------------------------------------------------------------------------------------------


@given(batches(terms=2))
def test_every_group_sums_to_zero(batch: Batch) -> None:
    values, groups = batch
    for name, spec in SPECS.items():
        if spec.center in ("group", "loo") and spec.whiten != "token":
            sums = np.bincount(groups, weights=run(spec, values, groups, [1.0, 0.5]))
            np.testing.assert_allclose(sums, 0.0, atol=1e-10, err_msg=name)


@given(batches(), st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_grpo_does_not_depend_on_units(batch: Batch, factor: float, shift: float) -> None:
    values, groups = batch
    np.testing.assert_allclose(run(GRPO_0, factor * values + shift, groups), run(GRPO_0, values, groups), atol=1e-8)


FACTORS = st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3)


@given(batches(terms=3), FACTORS, st.lists(st.floats(-10, 10), min_size=3, max_size=3))
def test_gdpo_does_not_depend_on_the_units_of_any_term(batch: Batch, factors: list[float], shifts: list[float]) -> None:
    values, groups = batch
    unwhitened = replace(GDPO_0, whiten="none")
    moved = values * factors + shifts
    np.testing.assert_allclose(run(unwhitened, moved, groups), run(unwhitened, values, groups), atol=1e-6)


def test_sum_first_depends_on_the_units_of_a_term() -> None:
    values, groups = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), [0, 0, 0]
    assert not np.allclose(run(GRPO_0, values * [1.0, 10.0], groups), run(GRPO_0, values, groups), atol=0.1)


def test_an_eps_of_1e_4_makes_gdpo_depend_on_units_when_rewards_are_tiny() -> None:
    values, groups = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.5], [0.0, 0.0]]), [0] * 4
    coarse = replace(GDPO, eps=1e-4, whiten_eps=1e-4)
    tiny = values * [1.0, 1e-4]
    assert np.abs(run(coarse, tiny, groups) - run(coarse, values, groups)).max() > 0.05
    np.testing.assert_allclose(run(GDPO, tiny, groups), run(GDPO, values, groups), atol=2e-4)


@given(batches(terms=2, holes=True), st.randoms(use_true_random=False))
def test_permuting_rows_permutes_advantages(batch: Batch, random: Random) -> None:
    values, groups = batch
    order = random.sample(range(len(groups)), len(groups))
    tokens = 1 + np.arange(len(groups)) % 5
    for name, spec in SPECS.items():
        moved = run(spec, values[order], groups[order], num_tokens_N=tokens[order])
        np.testing.assert_allclose(moved, run(spec, values, groups, num_tokens_N=tokens)[order], atol=1e-8, err_msg=name)


@given(batches(terms=2))
def test_group_labels_may_be_any_hashables(batch: Batch) -> None:
    values, groups = batch
    labels = [("p", int(g)) if g % 2 else f"prompt {9 - g}" if g else None for g in groups]
    for name, spec in SPECS.items():
        np.testing.assert_array_equal(run(spec, values, labels), run(spec, values, groups), err_msg=name)


@given(batches(terms=2), GRID)
def test_a_constant_term_changes_nothing(batch: Batch, constant: float) -> None:
    values, groups = batch
    more = np.column_stack([values, np.full(len(groups), constant)])
    for name, spec in SPECS.items():
        np.testing.assert_allclose(run(spec, more, groups), run(spec, values, groups), atol=1e-8, err_msg=name)


@pytest.mark.parametrize("ddof", [0, 1])
@given(batch=batches())
def test_gdpo_with_one_term_is_whitened_grpo(ddof: Any, batch: Batch) -> None:
    values, groups = batch
    gdpo, grpo = replace(GDPO, ddof=ddof), replace(GRPO, ddof=ddof, eps=GDPO.eps, whiten="sample", whiten_eps=GDPO.whiten_eps)
    np.testing.assert_array_equal(run(gdpo, values, groups), run(grpo, values, groups))
    plain = run(replace(grpo, whiten="none"), values, groups)
    np.testing.assert_array_equal(run(replace(gdpo, whiten="none"), values, groups), plain)


@given(batches(terms=2))
def test_per_row_weights_that_are_equal_are_weights(batch: Batch) -> None:
    values, groups = batch
    for spec in SPECS.values():
        np.testing.assert_array_equal(run(spec, values, groups, [[1.0, 0.25]] * len(groups)), run(spec, values, groups, [1.0, 0.25]))


# --- what is outside the statistics ---------------------------------------------------------------------------------------------


@given(batches(terms=2), st.randoms(use_true_random=False), st.sampled_from([NAN, math.inf, -1e308, 1e9]))
def test_invalid_rows_get_zero_and_do_not_move_the_others(batch: Batch, random: Random, soil: float) -> None:
    values, groups = batch
    valid = np.array([random.random() < 0.7 for _ in groups])
    tokens = 1.0 + np.arange(len(groups)) % 5
    soiled = np.where(valid[:, None], values, soil)
    for name, spec in SPECS.items():
        got = run(spec, soiled, groups, valid_N=valid, num_tokens_N=np.where(valid, tokens, NAN))
        assert (got[~valid] == 0).all()
        alone = run(spec, values[valid], groups[valid], num_tokens_N=tokens[valid])
        np.testing.assert_allclose(got[valid], alone, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", SPECS)
def test_a_row_to_which_nothing_applies_is_invalid_by_itself(name: str) -> None:
    values, groups = [[1, 0.5], [NAN, NAN], [0, 0.25], [0, 1.0]], [0, 0, 0, 0]
    got = run(SPECS[name], values, groups)
    expected = run(SPECS[name], values, groups, valid_N=[True, False, True, True])
    np.testing.assert_array_equal(got, expected)
    assert got[1] == 0


def test_a_term_that_does_not_apply_leaves_the_row_valid() -> None:
    assert run(DR_GRPO, [[1, NAN], [0, 1], [0, 0]], [0, 0, 0]).tolist() == pytest.approx([1 / 3, 1 / 3, -2 / 3])


def test_gdpo_takes_the_statistics_of_a_term_over_the_rows_where_it_applies() -> None:
    spec = replace(GDPO_0, whiten="none", ddof=0)
    got = run(spec, [[1, NAN], [0, 5], [1, 3], [0, NAN]], [0] * 4)
    assert got.tolist() == pytest.approx([1, -1 + 1, 1 - 1, -1])


@pytest.mark.parametrize("name", SPECS)
def test_a_weight_of_zero_switches_a_term_off_in_its_row(name: str) -> None:
    values = np.array([[1, 7.0], [0, 5.0], [1, 3.0], [0, 4.0]])
    off = run(SPECS[name], values, [0] * 4, [[1, 0], [1, 2], [1, 2], [1, 0]])
    values[[0, 3], 1] = NAN
    np.testing.assert_array_equal(off, run(SPECS[name], values, [0] * 4, [1, 2]))


def test_a_row_without_weights_has_total_zero_when_something_was_scored() -> None:
    assert run(DR_GRPO, [[1.0], [9.0], [NAN]], [0, 0, 0], [[1.0], [0.0], [0.0]]).tolist() == [0.5, -0.5, 0.0]


def test_a_weighted_term_that_does_not_apply_is_not_replaced_by_an_unweighted_one() -> None:
    assert run(DR_GRPO, [[1.0, 5.0], [0.0, 5.0], [NAN, 5.0]], [0, 0, 0], [1.0, 0.0]).tolist() == [0.5, -0.5, 0.0]


@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if spec.center in ("group", "loo")])
def test_the_only_valid_row_of_a_group_gets_zero(name: str) -> None:
    got = run(SPECS[name], [1.0, 0.0, 0.5, 5.0, 9.0, 3.0], [0, 0, 0, 1, 2, 2], valid_N=[1, 1, 1, 1, 1, 0], num_tokens_N=[9, 1, 1, 3, 3, 3])
    assert got[3:].tolist() == [0, 0, 0]
    assert got[0] > 0


def test_a_batch_without_a_valid_row_is_all_zero() -> None:
    for spec in SPECS.values():
        assert run(spec, [[NAN, NAN], [1.0, 2.0]], [0, 0], valid_N=[True, False]).tolist() == [0, 0]


def test_an_empty_batch_has_no_advantages() -> None:
    assert advantages([], [], [1.0, 2.0]).shape == (0,)
    assert advantages(np.zeros((0, 3)), [], spec=GDPO_TOKEN, num_tokens_N=[]).shape == (0,)


# --- numbers ------------------------------------------------------------------------------------------------------------------

NOISY = [[0.1] * 8, [0.1 + 0.2, 0.3, 0.6 / 2, 0.3], [sum([0.1] * 10), 1.0, 0.7 + 0.2 + 0.1, 0.1 + 0.2 + 0.7], [1e16, 1e16 + 2], [0.0, -0.0]]


@pytest.mark.parametrize("rewards", NOISY)
@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if spec.ties == "average"])
def test_rounding_noise_is_no_spread(name: str, rewards: list[float]) -> None:
    assert not run(replace(SPECS[name], eps=0.0, whiten_eps=0.0), rewards, [0] * len(rewards)).any()


def test_rounding_noise_of_a_sum_that_cancels_is_no_spread() -> None:
    cancelling = np.array([[0.1, 0.2, -0.3], [0.3, -0.1, -0.2], [0.7, 0.1, -0.8]])
    assert not run(GRPO_0, cancelling, [0] * 3).any()
    right = np.array([0.32, 0.89, 0.26, 0.22, 0.71])
    assert not run(GDPO_0, np.column_stack([right, 1 - right]), [0] * 5).any()


def test_a_common_offset_costs_no_precision() -> None:
    assert one_group(DR_GRPO, [1e12, 1e12 + 1, 1e12 + 3]) == pytest.approx([-4 / 3, -1 / 3, 5 / 3], rel=1e-14)


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("tokens", [[0, 0, 0], [1, 0, 0]])
def test_too_few_tokens_to_have_a_variance_give_zero(ddof: Any, tokens: list[int]) -> None:
    assert run(replace(REINFORCE_PP, ddof=ddof), [1.0, 0.0, 0.5], [0, 0, 0], num_tokens_N=tokens).tolist() == [0, 0, 0]


def test_a_group_of_large_rewards_does_not_hide_the_spread_of_another() -> None:
    rewards, groups = [1e17, 1e17, 1.0, 0.0], [0, 0, 1, 1]
    for spec in (GRPO_0, DR_GRPO, RLOO, SCALERL, GOPO, GDPO_0, REINFORCE_PP_BASELINE):
        got = run(spec, rewards, groups)
        assert got[2] > got[3]


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-9, 1.0, 1e9, 1e160, 1e299])
@pytest.mark.parametrize("name", SPECS)
def test_rewards_of_any_size_give_the_same_advantages(name: str, scale: float) -> None:
    spec = replace(SPECS[name], eps=0.0, whiten_eps=0.0)
    values = np.array([[1.0, 0.5], [0.0, 0.25], [0.5, 1.0], [2.0, 0.0], [1.0, 1.0]])
    unit = run(spec, values, [0, 0, 0, 1, 1])
    got = run(spec, values * scale, [0, 0, 0, 1, 1])
    if spec.scale == "none" and spec.whiten == "none":
        got = got / scale
    np.testing.assert_allclose(got, unit, rtol=1e-9, atol=1e-12)


@given(batches(), st.sampled_from([1e-300, 1e300]))
def test_eps_never_makes_a_nan(batch: Batch, scale: float) -> None:
    values, groups = batch
    for spec in SPECS.values():
        assert np.isfinite(run(spec, values / 4 * scale, groups)).all()


def test_arguments_are_not_changed() -> None:
    values, weights, groups = np.array([[1.0, NAN], [0.0, 2.0]]), np.ones((2, 2)), np.array([3, 3])
    valid, tokens = np.array([True, True]), np.array([4, 5])
    before = [a.copy() for a in (values, weights, groups, valid, tokens)]
    for spec in SPECS.values():
        advantages(values, groups, weights, spec, valid_N=valid, num_tokens_N=tokens)
    for array, copy in zip((values, weights, groups, valid, tokens), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_integers_and_nones_are_taken_as_numbers() -> None:
    got = advantages([[True, None], [0, 1]], ["a", "a"], spec=DR_GRPO)
    assert got.dtype == np.float64
    assert got.tolist() == [0, 0]


def test_a_hundred_thousand_rows_take_no_loop_over_groups() -> None:
    rng = np.random.default_rng(0)
    values, groups, tokens = rng.random((100_000, 4)), np.repeat(np.arange(12_500), 8), rng.integers(1, 999, 100_000)

    def seconds(spec: AdvantageSpec) -> float:
        start = time.process_time()
        advantages(values, groups, [1.0, 0.5, 0.2, 0.1], spec, num_tokens_N=tokens)
        return time.process_time() - start

    for spec in (GRPO, GDPO_TOKEN, GOPO):
        assert min(seconds(spec) for _ in range(3)) < 0.2  # 0.02 to 0.05 measured; one numpy call a group would take 0.3


# --- arguments ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"values_NK": [[[1.0]]]}, r"values_NK expects shape \(N, K\).* got \(1, 1, 1\)"),
        ({"values_NK": [[], []]}, r"K >= 1.* got \(2, 0\)"),
        ({"values_NK": [[1.0], [1.0, 2.0]]}, "values_NK expects a rectangular array"),
        ({"values_NK": ["good", "bad"]}, "values_NK expects a rectangular array of numbers"),
        ({"values_NK": [1.0, math.inf]}, "values_NK expects magnitudes up to 1e\\+300.* got inf in row 1, term 0"),
        ({"values_NK": [-math.inf, 0.0]}, "got -inf in row 0"),
        ({"groups_N": [0]}, "groups_N expects 2 labels.* got 1"),
        ({"groups_N": [[0], [1]]}, "groups_N expects hashable labels"),
        ({"weights_K_or_NK": [1.0, 2.0]}, r"weights_K_or_NK expects shape \(1,\) or \(2, 1\), got \(2,\)"),
        ({"weights_K_or_NK": [NAN]}, "weights_K_or_NK expects finite numbers"),
        ({"weights_K_or_NK": [1e300], "values_NK": [1e10, 0.0]}, "a weighted value reaches"),
        ({"valid_N": [True]}, r"valid_N expects shape \(2,\).* got \(1,\)"),
        ({"spec": "grpo"}, "spec expects an AdvantageSpec such as GRPO.* got 'grpo'"),
        ({"spec": REINFORCE_PP, "num_tokens_N": [1, 2, 3]}, r"num_tokens_N expects shape \(2,\).* got \(3,\)"),
    ],
)
def test_wrong_arguments_say_got_and_expected(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        advantages(**{"values_NK": [1.0, 0.0], "groups_N": [0, 0], **arguments})


@pytest.mark.parametrize("tokens", [None, [3, None], [3, -1], [3, math.inf]])
def test_token_whitening_says_which_count_is_missing(tokens: Any) -> None:
    with pytest.raises(MissingInput, match="num_tokens_N"):
        advantages([1.0, 0.0], [0, 0], spec=REINFORCE_PP, num_tokens_N=tokens)


@pytest.mark.parametrize(
    ("axes", "says"),
    [
        ({"center": "mean"}, "center expects one of group, batch, loo, none, got 'mean'"),
        ({"scale": "std"}, "scale expects one of"),
        ({"combine": "sum"}, "combine expects one of"),
        ({"whiten": True}, "whiten expects one of none, sample, token, got True"),
        ({"ddof": 2}, r"ddof expects 0 \(population\) or 1 \(sample\), got 2"),
        ({"eps": -1e-4}, "eps expects a finite number of at least 0, got -0.0001"),
        ({"eps": "1e-4"}, "eps expects"),
        ({"whiten_eps": NAN}, "whiten_eps expects"),
        ({"scale": "rank", "rank_span": math.inf}, "rank_span expects"),
        ({"scale": "rank", "rank_span": 0.0}, "rank_span expects a number above 0"),
        ({"scale": "rank", "center": "batch"}, "ranks within the group, got center='batch'"),
        ({"scale": "rank", "center": "loo"}, "ranks within the group, got center='loo'"),
        ({"ties": "ordinal"}, "ties='ordinal' needs scale='rank'"),
        ({"rank_span": 1.0}, "rank_span=1.0 needs scale='rank'"),
        ({"scale": "rank", "rank_transform": "identity", "rank_span": 1.0}, "has no span"),
        ({"center": "none", "scale": "batch_centered"}, "needs a center"),
    ],
)
def test_contradictory_specs_cannot_be_built(axes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        AdvantageSpec(**axes)


def test_specs_are_values() -> None:
    assert AdvantageSpec() == GRPO
    assert len({*SPECS.values()}) == len(SPECS)


def test_importing_the_specs_loads_no_numpy() -> None:
    code = "import sys, guerdon.rewards.advantages; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
