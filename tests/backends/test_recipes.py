"""Recipes as values: what they hold, what they refuse, what they say of themselves and of training stacks. No torch."""

from __future__ import annotations

import dataclasses
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.backends import recipes
from guerdon.backends.advice import ADVICE, QUESTIONS
from guerdon.backends.axes import KL, Aggregate, Masks, Overlong, Ratio, ReferenceSync, RolloutCorrection, Selection
from guerdon.backends.gates import CappedWeight, Clip, DivergenceMask, GammaWeight, MirroredSigmoid, Pairwise, SigmoidGate, Unclipped
from guerdon.backends.recipes import RECIPES, Recipe
from guerdon.errors import ConfigError
from guerdon.rewards import advantages as adv

ROOT = Path(__file__).resolve().parents[2]
EVERY = pytest.mark.parametrize("name", RECIPES)


@EVERY
def test_recipe_is_a_value(name: str) -> None:
    recipe = RECIPES[name]()
    assert recipe == RECIPES[name]()
    assert pickle.loads(pickle.dumps(recipe)) == recipe
    assert hash(recipe) == hash(RECIPES[name]())
    assert recipe.name == name
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.name = "other"  # type: ignore[misc]


@EVERY
def test_recipe_says_formula_source_and_advice(name: str) -> None:
    text = RECIPES[name].__doc__ or ""
    assert re.search(r"arXiv:\d{4}\.\d{5}|TRL|open-instruct|DeepSeek-V3.2|notion.site", text), text
    assert set(ADVICE) == set(RECIPES)


def test_advice_names_recipes_that_exist() -> None:
    assert {each for question in QUESTIONS for each in question.recipes} <= set(RECIPES)


def test_importing_recipes_and_translating_loads_no_torch() -> None:
    code = "import sys; from guerdon.backends.recipes import RECIPES as R; [(m().trl(), m().verl(), m().openrlhf()) for m in R.values()]"
    code += "; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "numpy", "trl", "transformers"} & set(loaded)


@pytest.mark.parametrize(
    ("recipe", "axes"),
    [
        (recipes.grpo(), {"gate": Clip(0.2, 0.2), "aggregate": Aggregate("sequence_mean"), "kl": KL(0.04), "group_size": 64}),
        (recipes.dapo(), {"gate": Clip(0.2, 0.28), "aggregate": Aggregate("token_mean"), "kl": None, "masks": Masks(truncated=True),
                          "selection": Selection(zero_variance=True, refill=True), "overlong": Overlong(20480, 4096, 1.0)}),
        (recipes.dr_grpo(), {"advantage": adv.DR_GRPO, "aggregate": Aggregate("token_sum", 3000), "kl": None}),
        (recipes.gspo(), {"ratio": Ratio("geometric"), "gate": Clip(3e-4, 4e-4), "aggregate": Aggregate("sequence_mean")}),
        (recipes.gspo_token(), {"ratio": Ratio("geometric_token")}),
        (recipes.two_grpo(), {"group_size": 2, "gate": Clip()}),
        (recipes.two_grpo(objective="pairwise"), {"gate": Pairwise(0.1), "ratio": Ratio("product")}),
        (recipes.gmpo(), {"ratio": Ratio("geometric_clipped", log_eps_low=0.4, log_eps_high=0.4), "gate": Unclipped()}),
        (recipes.sapo(), {"gate": SigmoidGate(1.0, 1.05)}),
        (recipes.sapo(form="mirrored"), {"gate": MirroredSigmoid(1.0, 1.05)}),
        (recipes.cispo(), {"gate": CappedWeight(5.0), "aggregate": Aggregate("token_mean")}),
        (recipes.cispo(form="clip"), {"gate": Clip(0.2, 5.0)}),
        (recipes.scalerl(), {"advantage": adv.SCALERL, "aggregate": Aggregate("prompt_mean")}),
        (recipes.scalerl(), {"selection": Selection(zero_variance=True, retire_at=0.9)}),
        (recipes.vespo(), {"ratio": Ratio("product"), "gate": GammaWeight(2.0, 3.0, 3.0, 2.0)}),
        (recipes.dppo(), {"ratio": Ratio(anchor="rollout"), "gate": DivergenceMask("binary_tv", 0.15, 20.0)}),
        (recipes.dppo(divergence="binary_kl"), {"gate": DivergenceMask("binary_kl", 0.05, 20.0)}),
        (recipes.gdpo(batch_norm="none"), {"advantage": dataclasses.replace(adv.GDPO, whiten="none")}),
        (recipes.rloo(), {"kl": KL(0.05, "k1", place="reward"), "advantage": adv.RLOO}),
        (recipes.tis(level="geometric", cap=1.2), {"rollout_correction": RolloutCorrection("geometric", "truncate", 1.2)}),
        (recipes.mis(), {"rollout_correction": RolloutCorrection("product", "mask", 3.0)}),
        (recipes.mis(mask_weight=False), {"rollout_correction": RolloutCorrection("product", "mask", 3.0, carries="indicator")}),
        (recipes.deepseek_r1(), {"gate": Clip(10, 10), "kl": KL(0.001, sync=ReferenceSync(400, 1.0)), "group_size": 16}),
        (recipes.deepseek_r1(place="reward"), {"kl": KL(0.001, "k1", place="reward", sync=ReferenceSync(400))}),
        (recipes.olmo3(kl=KL(0.01, "k1", place="reward")), {"kl": KL(0.01, "k1", place="reward")}),
        (recipes.olmo3(), {"gate": Clip(0.2, 0.272), "kl": None, "rollout_correction": RolloutCorrection("token", "truncate", 2.0)}),
    ],
)  # fmt: skip
def test_published_defaults_and_named_options(recipe: Recipe, axes: dict[str, Any]) -> None:
    assert {axis: getattr(recipe, axis) for axis in axes} == axes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Recipe(gate="clip"), "gate expects Gate"),  # type: ignore[arg-type]
        (lambda: Recipe(gate=GammaWeight()), "use ratio=Ratio"),
        (lambda: Recipe(gate=DivergenceMask(), ratio=Ratio("geometric")), "compares tokens"),
        (lambda: Recipe(gate=Clip(), ratio=Ratio("geometric_clipped", log_eps_low=0.4, log_eps_high=0.4)), "clips already"),
        (lambda: Recipe(gate=CappedWeight(), ratio=Ratio("geometric_token")), "use 'geometric'"),
        (lambda: Recipe(gate=Pairwise(), ratio=Ratio("product"), aggregate=Aggregate("sequence_mean"), group_size=4), "group_size=2"),
        (lambda: Recipe(gate=Pairwise(), ratio=Ratio("product"), group_size=2), "sequence_mean"),
        (lambda: Recipe(ratio=Ratio(anchor="rollout"), rollout_correction=RolloutCorrection()), "already corrects"),
        (lambda: Recipe(rollout_correction=RolloutCorrection(fold=True)), "any other fold=False"),
        (lambda: Recipe(group_size=1), "at least 2 completions"),
        (lambda: Recipe(group_size=2.0), "whole number"),  # type: ignore[arg-type]
        (lambda: recipes.dapo().but(clip=0.3), "no axis 'clip'"),
        (lambda: Clip(-0.1), "of at least 0"),
        (lambda: Clip(delta=1.1), "above 1 [+] eps_high"),
        (lambda: Clip(delta=2.0, dual=3.0), "set one"),
        (lambda: SigmoidGate(0.0), "tau_pos expects a finite number above 0"),
        (lambda: CappedWeight(1.0, 2.0), "at most cap"),
        (lambda: DivergenceMask("tv"), "binary_tv, binary_kl"),  # type: ignore[arg-type]
        (lambda: Ratio("sequence"), "one of token, geometric"),  # type: ignore[arg-type]
        (lambda: Ratio(log_eps_low=0.4), "need level"),
        (lambda: Aggregate("token_mean", length=5), "length needs"),
        (lambda: Aggregate("token_mean", count_empty=True), "changes nothing"),
        (lambda: KL(0.0), "beta expects"),
        (lambda: KL(math.nan), "beta expects"),
        (lambda: KL(0.1, "k4"), "k1, k2, k3"),  # type: ignore[arg-type]
        (lambda: KL(0.1, "k2", "unbiased"), "use gradient='naive'"),
        (lambda: KL(0.1, gradient="unbiased", place="reward"), "place='reward' has none"),
        (lambda: ReferenceSync(0), "above 0"),
        (lambda: ReferenceSync(mix=1.5), "at most 1"),
        (lambda: RolloutCorrection(cap=None), "without a bound"),
        (lambda: RolloutCorrection(cap=1.0, floor=2.0), "less than cap"),
        (lambda: RolloutCorrection(carries="indicator"), "needs mode='mask'"),
        (lambda: Masks(entropy_quantile=1.0), "below 1"),
        (lambda: Masks(duplicates="merge"), "keep, drop, share"),  # type: ignore[arg-type]
        (lambda: Selection(refill=True), "set zero_variance or band"),
        (lambda: Selection(band=(0.8, 0.2)), "low < high"),
        (lambda: Overlong(100, 200), "width below max_tokens"),
    ],
)
def test_contradictions_are_refused_when_built(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_describe_shows_every_axis_and_diff_what_differs() -> None:
    lines = recipes.dapo().describe().splitlines()
    assert [line.split()[0] for line in lines] == [
        each.name for each in dataclasses.fields(Recipe) if each.name not in ("group_size", "name")
    ] + ["group_size"]
    assert "Clip(eps_low=0.2, eps_high=0.28)" in recipes.dapo().describe()
    assert recipes.dapo().diff(recipes.dapo(eps_high=0.3)) == "gate: Clip(eps_low=0.2, eps_high=0.28) -> Clip(eps_low=0.2, eps_high=0.3)"
    assert recipes.dapo().diff(recipes.dapo()) == ""


@EVERY
def test_reads_follow_from_the_axes(name: str) -> None:
    recipe = RECIPES[name]()
    assert ("ref_logp_NT" in recipe.reads) == (recipe.kl is not None and recipe.kl.place == "loss")
    assert ("rollout_logp_NT" in recipe.reads) == (recipe.rollout_correction is not None or name == "dppo")


# --- gates in plain floats ----------------------------------------------------------------------------------------------------

ratios = st.floats(0.01, 50)


@given(st.floats(0.01, 50), st.floats(0.01, 50))
def test_sapo_has_slope_1_on_policy_at_any_temperature(tau_pos: float, tau_neg: float) -> None:
    assert (SigmoidGate(tau_pos, tau_neg).slope(1.0, 1.0), SigmoidGate(tau_pos, tau_neg).slope(1.0, -1.0)) == pytest.approx((1.0, 1.0))


@given(ratios, st.sampled_from([1.0, -1.0]))
def test_vespo_is_1_on_policy_and_highest_at_its_peak(ratio: float, advantage: float) -> None:
    gate = GammaWeight()
    assert gate.weight(1.0, advantage) == 1.0
    assert gate.weight(ratio, advantage) <= gate.weight(gate.peak(advantage), advantage) + 1e-12


@given(ratios, st.sampled_from([1.0, -1.0]), st.floats(0.01, 0.99))
def test_weights_are_finite_and_never_negative(ratio: float, advantage: float, prob: float) -> None:
    gates = [
        Clip(),
        Clip(dual=3.0),
        Unclipped(),
        SigmoidGate(),
        CappedWeight(),
        GammaWeight(),
        DivergenceMask(),
        DivergenceMask("binary_kl", 0.05),
        Pairwise(),
    ]
    assert all(0 <= gate.weight(ratio, advantage, prob) < math.inf for gate in gates)


# --- translations -------------------------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("stack", ["trl", "openrlhf", "verl"])
def test_every_axis_that_is_set_is_said_or_a_gap(name: str, stack: str) -> None:
    """Leaving an axis at its default must change the settings or close a gap: nothing is dropped."""
    recipe = RECIPES[name]()
    whole = getattr(recipe, stack)()
    for axis, plain in {
        "kl": None,
        "rollout_correction": None,
        "masks": Masks(),
        "selection": Selection(),
        "overlong": None,
        "group_size": None,
    }.items():
        if getattr(recipe, axis) == plain:
            continue
        without = getattr(recipe.but(**{axis: plain}), stack)()
        assert (dict(without.settings), without.gaps) != (dict(whole.settings), whole.gaps), f"{axis} is dropped"


def test_exactness_can_be_demanded() -> None:
    assert recipes.olmo3().but(selection=Selection()).trl().exact()["loss_type"] == "dapo"
    with pytest.raises(ConfigError, match="selection: no dynamic sampling"):
        recipes.dapo().trl().exact()
    with pytest.raises(ConfigError, match="eps 1e-4, not ddof 0"):
        recipes.two_grpo().trl().exact()
    assert recipes.two_grpo().trl().exact(small_gaps=True)["num_generations"] == 2


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        (recipes.dr_grpo(), {"loss_type": "dr_grpo", "scale_rewards": "none", "max_completion_length": 3000, "beta": 0.0}),
        (recipes.gspo(), {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4}),
        (recipes.cispo(), {"loss_type": "cispo", "epsilon_high": 5.0}),
        (recipes.grpo(), {"beta": 0.04, "use_bias_correction_kl": False}),
        (recipes.tis(), {"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": 2.0}),
        (recipes.mis(), {"vllm_importance_sampling_mode": "sequence_mask", "vllm_importance_sampling_clip_max": 3.0}),
        (recipes.deepseek_r1(), {"sync_ref_model": True, "ref_model_sync_steps": 400, "ref_model_mixup_alpha": 1.0}),
        (recipes.lite_ppo(), {"scale_rewards": "batch"}),
        (recipes.gdpo(), {"multi_objective_aggregation": "normalize_then_sum"}),
    ],
)
def test_trl_settings(recipe: Recipe, settings: dict[str, Any]) -> None:
    got = recipe.trl().settings
    assert {key: got[key] for key in settings} == settings


def test_verl_settings_undo_its_defaults() -> None:
    actor = "actor_rollout_ref.actor"
    assert recipes.dapo().verl().settings[f"{actor}.clip_ratio_c"] > 1e6  # 3 and on by default
    assert recipes.cispo().verl().settings[f"{actor}.clip_ratio_high"] == 4.0  # 1 + it is the cap
    assert recipes.dppo().verl().settings[f"{actor}.clip_ratio_c"] == 20.0


def test_command_lines() -> None:
    words = recipes.olmo3().openrlhf().argv()
    assert words[words.index("--algo.advantage.is_correction_threshold") :][:3] == [
        "--algo.advantage.is_correction_threshold",
        "0.0",
        "2.0",
    ]
    assert "--algo.dynamic_filtering_enable" in words
    assert "algorithm.rollout_correction.rollout_is=null" in recipes.grpo().verl().argv()


def test_the_documented_table_is_that_of_the_code() -> None:
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    rows = {
        name: cells.split(" | ")
        for name, cells in re.findall(r"^\| `(\w+)` \| ((?:native|partial|guerdon only).*) \|$", page, re.MULTILINE)
    }
    assert rows == {name: [getattr(make(), stack)().support for stack in ("trl", "openrlhf", "verl")] for name, make in RECIPES.items()}


def test_no_algorithm_is_asked_for_by_name() -> None:
    for file in (ROOT / "backends").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"\b(algorithm|algo|recipe\.name|self\.name) ?(==|in \()", text), file
    for name in ("recipes.py", "grpo/losses.py"):
        assert len((ROOT / "backends" / name).read_text(encoding="utf-8").splitlines()) < 300
