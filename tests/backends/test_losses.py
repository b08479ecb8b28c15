"""The one loss: gradients, invariances, limits and numerical safety, for every named recipe and for random ones."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="the losses need torch (make stacks)")

from batches import GROUP, batch, given, loss_and_gradient, value  # noqa: E402
from hypothesis import given as examples  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from guerdon.backends import recipes  # noqa: E402
from guerdon.backends.axes import KL, Aggregate, Masks, Ratio, RolloutCorrection  # noqa: E402
from guerdon.backends.gates import (  # noqa: E402
    CappedWeight,
    Clip,
    DivergenceMask,
    GammaWeight,
    MirroredSigmoid,
    Pairwise,
    SigmoidGate,
    Surrogate,
    Unclipped,
)
from guerdon.backends.grpo import losses  # noqa: E402
from guerdon.backends.grpo.losses import policy_loss, rollout_weights, token_weights  # noqa: E402
from guerdon.backends.grpo.masks import loss_mask, top_entropy_keep  # noqa: E402
from guerdon.backends.recipes import RECIPES, Recipe  # noqa: E402
from guerdon.errors import ConfigError, MissingInput  # noqa: E402

NAMED = {name: make() for name, make in RECIPES.items()}
NAMED |= {
    "two_grpo pairwise": recipes.two_grpo(objective="pairwise"),
    "sapo mirrored": recipes.sapo(form="mirrored"),
    "dr_grpo 1-pi_ref": recipes.dr_grpo(token_weight="1-pi_ref"),
    "dppo binary_kl": recipes.dppo(divergence="binary_kl"),
    "dppo topk_kl": recipes.dppo(divergence="topk_kl"),
    "vespo folded": recipes.vespo(rollout_cap=2.0),
    "grpo importance": recipes.grpo(kl_gradient="importance"),
    "grpo unbiased": recipes.grpo(kl_gradient="unbiased"),
    "mis geometric": recipes.mis(level="geometric", cap=1.2, floor=0.8),
    "entropy": recipes.grpo(beta=0.0).but(masks=Masks(entropy_quantile=0.5)),
}
EVERY = pytest.mark.parametrize("recipe", NAMED.values(), ids=list(NAMED))

token_gates = st.sampled_from(
    [Clip(0.2, 0.28), Clip(delta=1.5), Unclipped(), SigmoidGate(), MirroredSigmoid(), CappedWeight(1.3), DivergenceMask()]
)
means = st.sampled_from(
    [
        Aggregate(how, length=9 if how == "token_sum" else None)
        for how in ("sequence_mean", "token_mean", "token_sum", "sequence_sum", "prompt_mean")
    ]
)
kls = st.one_of(st.none(), st.builds(KL, st.just(0.3), st.sampled_from(["k1", "k3"]), st.sampled_from(["naive", "importance", "unbiased"])))
corrections = st.sampled_from(
    [None, RolloutCorrection(), RolloutCorrection("product", "mask", 3.0), RolloutCorrection("geometric", "mask", 1.2, 0.8, "token")]
)
sequence_ratios = st.sampled_from([Ratio("geometric"), Ratio("geometric_token"), Ratio("product")])
compositions = st.one_of(
    st.builds(Recipe, gate=token_gates, aggregate=means, kl=kls, rollout_correction=corrections),
    st.builds(Recipe, ratio=sequence_ratios, gate=st.sampled_from([Clip(), SigmoidGate(), Unclipped()]), aggregate=means, kl=kls),
    st.builds(Recipe, ratio=st.just(Ratio("geometric_clipped", "old", 0.3, 0.4)), aggregate=means),
    st.builds(Recipe, ratio=st.just(Ratio("product")), gate=st.just(GammaWeight()), aggregate=means),
)  # fmt: skip
numbers = st.integers(0, 10_000)


# --- gradients ----------------------------------------------------------------------------------------------------------------


def stops_nothing(recipe: Recipe) -> bool:
    """Whether the gradient is that of the value: surrogates whose ratio and KL are live throughout."""
    live_kl = recipe.kl is None or recipe.kl.gradient != "unbiased"
    return isinstance(recipe.gate, Surrogate) and recipe.ratio.level != "geometric_token" and live_kl


LIVE = {name: recipe for name, recipe in NAMED.items() if stops_nothing(recipe)}


@pytest.mark.parametrize("recipe", LIVE.values(), ids=list(LIVE))
@pytest.mark.parametrize("number", range(3))
def test_surrogates_gradient_is_the_finite_difference(recipe: Recipe, number: int) -> None:
    data, step = batch(number), 1e-6
    _, gradient = loss_and_gradient(recipe, data)
    for row, column in [(0, 0), (0, 3), (2, 0), (5, 0)]:
        moved = torch.zeros_like(data["logp"])
        moved[row, column] = step
        slope = (value(recipe, data, data["logp"] + moved) - value(recipe, data, data["logp"] - moved)) / (2 * step)
        assert gradient[row, column].item() == pytest.approx(slope.item(), abs=1e-8)


@pytest.mark.parametrize("recipe", LIVE.values(), ids=list(LIVE))
def test_gradient_with_advantages_of_tokens_is_the_finite_difference(recipe: Recipe) -> None:
    if isinstance(recipe.gate, Pairwise):
        pytest.skip("compares completions, which have one advantage")
    data, step = batch(4), 1e-6
    data["advantages"] = torch.randn(data["logp"].shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    _, gradient = loss_and_gradient(recipe, data)
    for row, column in [(0, 0), (0, 3), (2, 0), (5, 0)]:
        moved = torch.zeros_like(data["logp"])
        moved[row, column] = step
        slope = (value(recipe, data, data["logp"] + moved) - value(recipe, data, data["logp"] - moved)) / (2 * step)
        assert gradient[row, column].item() == pytest.approx(slope.item(), abs=1e-8)


@examples(numbers, st.sampled_from([CappedWeight(1.2), CappedWeight(None, 0.9), DivergenceMask(), DivergenceMask("binary_kl", 0.05)]))
def test_weighted_gates_gradient_is_their_weight(number: int, gate: Any) -> None:
    """dL / d log pi = -A w / tokens, w in plain floats."""
    data, recipe = batch(number), Recipe(gate=gate)
    _, gradient = loss_and_gradient(recipe, data)
    tokens = data["mask"].sum().item()
    for row in range(len(gradient)):
        log_ratio, prob = (data["logp"][row, 0] - data["old"][row, 0]).item(), data["old"][row, 0].exp().item()
        a = data["advantages"][row].item()
        assert gradient[row, 0].item() == pytest.approx(-a * gate.weight(math.exp(log_ratio), a, prob) / tokens, abs=1e-12)


@examples(numbers, st.sampled_from([Clip(0.2, 0.28), Clip(dual=1.5), Clip(10, 10), Unclipped(), SigmoidGate(0.5, 3.0), MirroredSigmoid()]))
def test_surrogates_slope_in_plain_floats_is_that_of_the_loss(number: int, gate: Any) -> None:
    data, recipe = batch(number), Recipe(gate=gate)
    _, gradient = loss_and_gradient(recipe, data)
    for row in range(len(gradient)):
        ratio, a = math.exp((data["logp"][row, 0] - data["old"][row, 0]).item()), data["advantages"][row].item()
        assert gradient[row, 0].item() == pytest.approx(-a * gate.weight(ratio, a) / data["mask"].sum().item(), abs=1e-12)


@examples(numbers)
def test_sequence_weight_of_vespo(number: int) -> None:
    data, gate = batch(number), GammaWeight()
    _, gradient = loss_and_gradient(recipes.vespo(), data)
    for row in range(len(gradient)):
        w, a = math.exp(((data["logp"] - data["old"]) * data["mask"])[row].sum().item()), data["advantages"][row].item()
        assert gradient[row, 0].item() == pytest.approx(-a * gate.weight(w, a) / data["mask"].sum().item(), abs=1e-10)


@pytest.mark.parametrize(
    ("estimator", "gradient", "slope"),
    [
        ("k1", "naive", lambda d, r: 1.0),
        ("k2", "naive", lambda d, r: d),
        ("k3", "naive", lambda d, r: 1 - math.exp(-d)),
        ("k1", "unbiased", lambda d, r: d),
        ("k3", "unbiased", lambda d, r: d),
        ("k3", "importance", lambda d, r: r * d),
        ("k1", "importance", lambda d, r: r * (d + 1)),
    ],
)
def test_kl_gradient(estimator: Any, gradient: Any, slope: Any) -> None:
    data = batch(3)
    data["advantages"].zero_()
    _, got = loss_and_gradient(Recipe(gate=Clip(), kl=KL(2.0, estimator, gradient)), data)
    d, r = (data["logp"] - data["ref"])[0, 0].item(), (data["logp"] - data["old"])[0, 0].exp().item()
    assert got[0, 0].item() == pytest.approx(2 * slope(d, r) / data["mask"].sum().item(), abs=1e-12)


@examples(numbers)
def test_expected_kl_gradients_on_a_softmax(number: int) -> None:
    """Exactly, over 7 tokens: k1 none; k2, unbiased and weighted k3 KL(pi || ref); naive k3 KL(ref || pi); k1 and k3 have it as mean."""
    generator = torch.Generator().manual_seed(number)
    logits = torch.randn(7, generator=generator, dtype=torch.float64, requires_grad=True)
    ref = torch.randn(7, generator=generator, dtype=torch.float64).log_softmax(-1)
    pi = logits.log_softmax(-1)
    reverse, forward = (pi.exp() * (pi - ref)).sum(), (ref.exp() * (ref - pi)).sum()
    wanted = {name: torch.autograd.grad(kl, logits, retain_graph=True)[0] for name, kl in (("reverse", reverse), ("forward", forward))}
    wanted["none"] = torch.zeros(7, dtype=torch.float64)
    table = {
        ("k1", "naive"): "none",
        ("k2", "naive"): "reverse",
        ("k3", "naive"): "forward",
        ("k3", "unbiased"): "reverse",
        ("k3", "importance"): "reverse",
    }
    for (estimator, how), name in table.items():
        recipe = Recipe(kl=KL(1.0, estimator, how), aggregate=Aggregate("sequence_sum"))  # type: ignore[arg-type]
        logp = logits.log_softmax(-1)
        parts = [
            policy_loss(recipe, logp[i].view(1, 1), advantages=torch.zeros(1), mask_NT=torch.ones(1, 1), ref_logp_NT=ref[i].view(1, 1)).loss
            for i in range(7)
        ]
        weights = logp.detach().exp()
        expected = sum(weight * part for weight, part in zip(weights, parts, strict=True))
        (got,) = torch.autograd.grad(expected, logits)
        torch.testing.assert_close(got, wanted[name], atol=1e-10, rtol=1e-9)
        if estimator != "k2":
            torch.testing.assert_close(expected.detach(), reverse.detach(), atol=1e-10, rtol=1e-9)


# --- on policy ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["grpo", "gspo", "gmpo", "dapo", "cispo", "vespo", "sapo"])
@pytest.mark.parametrize("how", ["sequence_mean", "token_mean"])
def test_on_policy_every_method_is_the_policy_gradient(name: str, how: Any) -> None:
    recipe = NAMED[name].but(kl=None, aggregate=Aggregate(how), masks=Masks())
    data = batch(1)
    _, gradient = loss_and_gradient(recipe, data, old_logp_NT=data["logp"])
    weights = token_weights(recipe, data["mask"], dtype=torch.float64)[:, None]
    wanted = -data["advantages"][:, None] * weights * data["mask"]
    if recipe.ratio.level in ("geometric", "geometric_clipped"):  # the ratio's gradient is spread evenly over the row already
        wanted = wanted.sum(1, keepdim=True) / data["mask"].sum(1, keepdim=True) * data["mask"]
    torch.testing.assert_close(gradient, wanted, atol=1e-12, rtol=1e-9)


@EVERY
def test_no_old_policy_is_the_same_as_an_equal_one(recipe: Recipe) -> None:
    data = batch(2)
    for one, other in zip(
        loss_and_gradient(recipe, data, old_logp_NT=None), loss_and_gradient(recipe, data, old_logp_NT=data["logp"]), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_mirrored_sapo_is_no_policy_gradient_on_policy() -> None:
    data = batch(1)
    data["advantages"].fill_(1.0)
    _, gradient = loss_and_gradient(recipes.sapo(form="mirrored"), data, old_logp_NT=data["logp"])
    _, published = loss_and_gradient(recipes.sapo(), data, old_logp_NT=data["logp"])
    torch.testing.assert_close(gradient, 0.75 * published)


# --- limits and equivalences --------------------------------------------------------------------------------------------------


@examples(numbers)
def test_sapo_towards_tau_0_is_unclipped_and_towards_infinity_lets_nothing_pass(number: int) -> None:
    data = batch(number)
    _, soft = loss_and_gradient(recipes.sapo(tau_pos=1e-4, tau_neg=1e-4), data)
    _, free = loss_and_gradient(recipes.sapo().but(gate=Unclipped()), data)
    torch.testing.assert_close(soft, free, atol=1e-5, rtol=1e-4)
    _, hard = loss_and_gradient(recipes.sapo(tau_pos=1e5, tau_neg=1e5), data)
    assert hard[(data["logp"] - data["old"]).abs() > 1e-2].abs().max() < 1e-12


@examples(numbers)
def test_gspo_token_is_gspo_with_one_advantage_a_completion(number: int) -> None:
    data = batch(number, spread=0.05)
    one, other = recipes.gspo(eps_low=0.02, eps_high=0.02), recipes.gspo_token(eps_low=0.02, eps_high=0.02)
    for a, b in zip(loss_and_gradient(one, data), loss_and_gradient(other, data), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-9)


def test_gspo_token_differs_with_advantages_of_tokens() -> None:
    data = batch(0)
    tokens = torch.randn(data["logp"].shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    one, other = (
        loss_and_gradient(make(eps_low=0.5, eps_high=0.5), data, advantages=tokens)[1] for make in (recipes.gspo, recipes.gspo_token)
    )
    assert (one - other).abs().max() > 1e-3


@examples(numbers)
def test_dual_clip_is_the_two_sided_clip(number: int) -> None:
    data = batch(number)
    for a, b in zip(
        loss_and_gradient(Recipe(gate=Clip(dual=1.5)), data), loss_and_gradient(Recipe(gate=Clip(delta=1.5)), data), strict=True
    ):
        torch.testing.assert_close(a, b)


@examples(numbers)
def test_geometric_ratio_survives_duplicated_tokens_and_the_product_squares(number: int) -> None:
    data = batch(number)
    double = {name: torch.cat([each, each], 1) if each.dim() == 2 else each for name, each in data.items()}
    geometric = recipes.gspo(eps_low=0.5, eps_high=0.5)
    torch.testing.assert_close(value(geometric, double, double["logp"]), value(geometric, data, data["logp"]))
    product, ones = Recipe(ratio=Ratio("product"), aggregate=Aggregate("sequence_mean")), torch.ones(1, dtype=torch.float64)
    row = {name: each[:1] for name, each in data.items()}
    twice = {name: each[:1] for name, each in double.items()}
    r, squared = (-value(product, each, each["logp"], advantages=ones).item() for each in (row, twice))
    assert squared == pytest.approx(r * r)


@examples(numbers, st.sampled_from(["binary_tv", "binary_kl"]))
def test_dppo_never_drops_a_token_that_moves_back(number: int, divergence: Any) -> None:
    data = batch(number, spread=1.0)
    _, gradient = loss_and_gradient(recipes.dppo(divergence=divergence), data)
    back = ((data["logp"] - data["rollout"]) * data["advantages"][:, None] <= 0) & (data["mask"] > 0)
    assert (gradient[back] != 0).all()


def test_dppo_drops_tokens_that_move_away() -> None:
    data = batch(0, spread=1.0)
    _, gradient = loss_and_gradient(recipes.dppo(delta=1e-6), data)
    away = ((data["logp"] - data["rollout"]) * data["advantages"][:, None] > 0) & (data["mask"] > 0)
    assert away.any()
    assert (gradient[away] == 0).all()


def test_after_a_hard_reset_k2_and_k3_have_neither_value_nor_gradient() -> None:
    data = batch(0)
    data["advantages"].zero_()
    for estimator, slope in (("k1", 1.0), ("k2", 0.0), ("k3", 0.0)):
        recipe = Recipe(kl=KL(1.0, estimator), aggregate=Aggregate("sequence_sum"))  # type: ignore[arg-type]
        loss, gradient = loss_and_gradient(recipe, data, ref_logp_NT=data["logp"])
        assert loss.item() == 0
        torch.testing.assert_close(gradient, slope * data["mask"] / len(data["mask"]))


# --- splitting and padding ----------------------------------------------------------------------------------------------------


@examples(numbers, compositions)
def test_micro_batches_sum_to_the_batch(number: int, recipe: Recipe) -> None:
    data = batch(number)
    weights = token_weights(recipe, data["mask"], group_size=GROUP, dtype=torch.float64)
    loss, gradient = loss_and_gradient(recipe, data)
    parts = [
        loss_and_gradient(recipe, {name: each[at : at + 2] for name, each in data.items()}, token_weights_N=weights[at : at + 2])
        for at in (0, 2, 4)
    ]
    torch.testing.assert_close(sum(part for part, _ in parts), loss, atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(torch.cat([part for _, part in parts]), gradient, atol=1e-12, rtol=1e-9)


def test_means_of_micro_batches_are_not_the_mean_of_the_batch() -> None:
    data, recipe = batch(0), recipes.dapo(truncated=False)
    whole = value(recipe, data, data["logp"])
    parts = [value(recipe, {name: each[part] for name, each in data.items()}, data["logp"][part]) for part in (slice(1), slice(1, None))]
    assert abs((sum(parts) / 2 - whole).item()) > 1e-4


@examples(numbers, compositions)
def test_blocks_change_nothing(number: int, recipe: Recipe) -> None:
    data = batch(number)
    whole, before = loss_and_gradient(recipe, data), losses.BLOCK
    try:
        losses.BLOCK = 14
        for one, other in zip(loss_and_gradient(recipe, data), whole, strict=True):
            torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-9)
    finally:
        losses.BLOCK = before


@examples(numbers, compositions, st.sampled_from([0.0, -80.0, math.nan, math.inf, -math.inf]))
def test_padding_is_not_read(number: int, recipe: Recipe, filler: float) -> None:
    data = batch(number)
    loss, gradient = loss_and_gradient(recipe, data)
    padded = {name: torch.nn.functional.pad(each, (0, 3)) if each.dim() == 2 else each for name, each in data.items()}
    outside = padded["mask"] == 0
    for name in ("logp", "old", "rollout", "ref", "entropy"):
        padded[name] = padded[name].masked_fill(outside, filler)
    wide_loss, wide_gradient = loss_and_gradient(recipe, padded)
    torch.testing.assert_close(wide_loss, loss, atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(wide_gradient[:, :-3], gradient, atol=1e-12, rtol=1e-9)
    assert (wide_gradient[outside] == 0).all()


# --- numerical safety ---------------------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("shift", [80.0, -80.0, 1e4, -1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_log_ratios_are_finite(recipe: Recipe, shift: float, dtype: Any) -> None:
    data = batch(0, dtype=dtype)
    for name in ("old", "rollout", "ref"):
        data[name] = (data["logp"] + shift) * data["mask"]
    loss, gradient = loss_and_gradient(recipe, data)
    assert loss.isfinite()
    assert gradient.isfinite().all()


@EVERY
def test_empty_masks_and_rows_give_nothing(recipe: Recipe) -> None:
    data = batch(0)
    loss, gradient = loss_and_gradient(recipe, data, mask_NT=torch.zeros_like(data["mask"]))
    assert loss.item() == 0
    assert (gradient == 0).all()
    data["mask"][1] = 0
    loss, gradient = loss_and_gradient(recipe, data)
    assert loss.isfinite()
    assert (gradient[1] == 0).all()
    assert gradient.isfinite().all()


@EVERY
def test_rows_of_one_token(recipe: Recipe) -> None:
    loss, gradient = loss_and_gradient(recipe, batch(0, tokens=1))
    assert loss.isfinite()
    assert gradient.isfinite().all()


@EVERY
def test_bfloat16_inputs_are_summed_in_float32(recipe: Recipe) -> None:
    data = batch(0, rows=4, tokens=3000, spread=0.01, dtype=torch.bfloat16)
    loss, gradient = loss_and_gradient(recipe, data)
    wide = {name: each.double() for name, each in data.items()}
    exact, exact_gradient = loss_and_gradient(recipe, wide)
    assert (loss.dtype, gradient.dtype) == (torch.float32, torch.bfloat16)
    assert loss.item() == pytest.approx(exact.item(), rel=1e-4, abs=1e-5)
    torch.testing.assert_close(gradient.double(), exact_gradient, rtol=1e-2, atol=1e-5)


def test_a_nan_of_the_policy_is_not_hidden() -> None:
    data = batch(0)
    data["logp"][0, 0] = math.nan
    assert loss_and_gradient(recipes.grpo(beta=0.0), data)[0].isnan()


def test_a_token_the_engine_could_not_score_has_no_mismatch() -> None:
    data = batch(0)
    torn = data["rollout"].clone()
    torn[0, 0] = math.nan
    healed = data["rollout"].clone()
    healed[0, 0] = data["old"][0, 0]
    for recipe in (recipes.tis(), recipes.dppo()):
        for one, other in zip(
            loss_and_gradient(recipe, data, rollout_logp_NT=torn), loss_and_gradient(recipe, data, rollout_logp_NT=healed), strict=True
        ):
            torch.testing.assert_close(one, other)


def test_without_gradients_the_value_is_the_same() -> None:
    data = batch(0)
    with torch.no_grad():
        alone = value(recipes.dapo(), data, data["logp"])
    assert alone.item() == loss_and_gradient(recipes.dapo(), data)[0].item()
    assert not alone.requires_grad


# --- masks, weights, metrics --------------------------------------------------------------------------------------------------


def test_truncated_rows_leave_numerator_and_denominator() -> None:
    data = batch(0)
    truncated = torch.tensor([0, 1, 0, 0, 0, 0])
    loss, gradient = loss_and_gradient(recipes.dapo(), data, truncated_N=truncated)
    kept = {name: each[truncated == 0] for name, each in data.items()}
    other, _ = loss_and_gradient(recipes.dapo(), kept)
    torch.testing.assert_close(loss, other)
    assert (gradient[1] == 0).all()


def test_empty_rows_count_where_asked() -> None:
    data = batch(0)
    data["mask"][1] = 0
    kept, counted = (
        value(recipes.gspo().but(aggregate=Aggregate("sequence_mean", count_empty=each)), data, data["logp"]) for each in (False, True)
    )
    assert counted.item() == pytest.approx(kept.item() * 5 / 6)


def test_tools_and_invalid_rows_leave_the_mask() -> None:
    mask = loss_mask(Masks(), torch.ones(2, 3), tools_NT=torch.tensor([[1, 0, 1], [1, 1, 1]]), valid_N=torch.tensor([1, 0]))
    assert mask.tolist() == [[True, False, True], [False, False, False]]


def test_top_entropy_keeps_its_share() -> None:
    entropy = torch.arange(10.0).view(2, 5)
    assert top_entropy_keep(0.2, entropy, torch.ones(2, 5)).flatten().nonzero().flatten().tolist() == [8, 9]


def test_off_policy_mask_drops_only_wrong_rows_that_moved_away() -> None:
    data = batch(0)
    data["advantages"] = torch.tensor([1.0, -1.0, -1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    data["old"] = data["logp"] + data["mask"] * torch.tensor([2.0, 2.0, -2.0, 2.0, 2.0, 2.0], dtype=torch.float64)[:, None]
    _, gradient = loss_and_gradient(recipes.opsm(recipes.grpo(beta=0.0).but(gate=Unclipped()), threshold=0.5), data)
    assert (gradient != 0).any(1).tolist() == [True, False, True, True, True, True]


@examples(numbers)
def test_truncated_weights_are_at_most_the_cap_and_masked_ones_inside_the_band(number: int) -> None:
    data = batch(number, spread=1.0)
    for level in ("token", "product", "geometric"):
        truncated = rollout_weights(RolloutCorrection(level, "truncate", 1.5), data["old"], data["rollout"], data["mask"])  # type: ignore[arg-type]
        assert truncated.max() <= 1.5
        masked = rollout_weights(RolloutCorrection(level, "mask", 1.5, 0.5), data["old"], data["rollout"], data["mask"])  # type: ignore[arg-type]
        assert ((masked == 0) | ((masked >= 0.5) & (masked <= 1.5))).all()


def test_metrics_say_what_happened() -> None:
    logp = torch.tensor([[0.0, 0.5, -0.5], [0.5, 30.0, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    _, metrics = policy_loss(
        recipes.tis(recipes.dapo(truncated=False)), logp, advantages=torch.tensor([1.0, -1.0]), mask_NT=mask,
        old_logp_NT=torch.zeros(2, 3, dtype=torch.float64), rollout_logp_NT=torch.full((2, 3), -1.0, dtype=torch.float64),
        entropy_NT=torch.full((2, 3), 2.0, dtype=torch.float64),
    )  # fmt: skip
    got = {name: each.item() for name, each in metrics.items()}
    wanted = {"tokens": 5, "active": 1.0, "clamped": 0.2, "clipped_low": 0.0, "clipped_high": 0.2, "kl_old": -30.5 / 5, "entropy": 2.0}
    wanted |= {"rollout_weight_mean": 2.0, "rollout_weight_max": 2.0, "rollout_weight_ess": 1.0, "ratio_q50": math.exp(0.5)}
    assert {name: got[name] for name in wanted} == pytest.approx(wanted)


@EVERY
def test_metrics_are_detached_scalars(recipe: Recipe) -> None:
    data = batch(0)
    _, metrics = policy_loss(recipe, data["logp"].clone().requires_grad_(), **given(recipe, data))
    assert {(each.dim(), each.requires_grad) for each in metrics.values()} == {(0, False)}
    assert all(each.isfinite() for each in metrics.values())


@EVERY
def test_what_a_recipe_reads_is_asked_for(recipe: Recipe) -> None:
    data = batch(0)
    for name in recipe.reads - ({"group_size"} if recipe.group_size else set()):
        with pytest.raises(MissingInput, match=name):
            policy_loss(recipe, data["logp"], **{**given(recipe, data), name: None})


@pytest.mark.parametrize(
    ("name", "tensor"),
    [("advantages", torch.zeros(5)), ("mask_NT", torch.ones(6, 8)), ("old_logp_NT", torch.zeros(6)), ("keep_NT", torch.zeros(6))],
)
def test_shapes_that_do_not_fit_are_refused(name: str, tensor: Any) -> None:
    data, recipe = batch(0), recipes.gspo()
    with pytest.raises(ConfigError, match=f"{name} expects shape"):
        policy_loss(recipe, data["logp"], **{**given(recipe, data), name: tensor})


def test_pairs_need_an_even_number_of_rows_with_one_advantage_each() -> None:
    data, recipe = batch(0), recipes.two_grpo(objective="pairwise")
    for changed in ({name: each[:5] for name, each in data.items()}, {**data, "advantages": torch.ones_like(data["logp"])}):
        with pytest.raises(ConfigError, match="pairs of completions"):
            value(recipe, changed, changed["logp"])


def test_the_comparison_can_fail() -> None:
    """A recipe with one number moved gives another loss and another gradient."""
    data = batch(0)
    for one, other in zip(loss_and_gradient(recipes.cispo(cap=1.2), data), loss_and_gradient(recipes.cispo(cap=1.201), data), strict=True):
        assert (one - other).abs().max() > 1e-6
