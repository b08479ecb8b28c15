"""guerdon's loss against the loss code of TRL, verl and OpenRLHF themselves, under the settings that a recipe translates to.

Each compares value and gradient on random batches in float64. OpenRLHF's and verl's guards (1e-8 in a mean's denominator) bound the
agreement from above; nothing else does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch (make stacks)")

import stack_code  # noqa: E402
from batches import batch, loss_and_gradient  # noqa: E402

from guerdon.backends import recipes  # noqa: E402
from guerdon.backends.axes import Aggregate, Masks  # noqa: E402
from guerdon.backends.gates import CappedWeight, Clip  # noqa: E402
from guerdon.backends.recipes import RECIPES, Recipe  # noqa: E402
from guerdon.rewards import advantages as adv  # noqa: E402

pytestmark = [pytest.mark.stacks, pytest.mark.filterwarnings("ignore")]  # warnings of other people's code

VARIANTS = {
    "dapo dual": recipes.dapo().but(gate=Clip(0.2, 0.28, dual=1.5)),
    "grpo delta": recipes.grpo(beta=0.0).but(gate=Clip(delta=1.5)),
    "grpo importance": recipes.grpo(kl_gradient="importance"),
    "grpo unbiased": recipes.grpo(kl_gradient="unbiased"),
    "grpo token mean": recipes.grpo().but(aggregate=Aggregate("token_mean")),
    "gspo wide": recipes.gspo(eps_low=0.2, eps_high=0.2),
    "cispo 1.2": recipes.cispo(cap=1.2),
    "cispo floor": recipes.cispo().but(gate=CappedWeight(1.3, 0.8)),
    "cispo clip": recipes.cispo(form="clip"),
    "scalerl trl": recipes.scalerl(form="trl"),
    "vespo folded": recipes.vespo(rollout_cap=1.5),
    "dppo binary_kl": recipes.dppo(divergence="binary_kl", delta=0.02),
    "dppo tight": recipes.dppo(delta=0.02, cap=1.5),
    "entropy": recipes.grpo(beta=0.0).but(masks=Masks(entropy_quantile=0.4)),
    "opsm tight": recipes.opsm(threshold=0.05),
    "reward k1": recipes.deepseek_r1(place="reward"),
    **{f"tis {level}": recipes.tis(level=level, cap=1.2) for level in ("token", "product")},  # type: ignore[arg-type]
    **{f"mis {level}": recipes.mis(level=level, cap=2.5, floor=0.4) for level in ("token", "product", "geometric")},  # type: ignore[arg-type]
}
ALL = {**{name: make() for name, make in RECIPES.items()}, **VARIANTS}
LOSS = {"ratio", "gate", "aggregate", "kl", "rollout_correction", "masks"}


def of_loss(recipe: Recipe) -> Recipe:
    """Without what no batch here shows: truncated rows, and when the reference is updated."""
    kl = recipe.kl and replace(recipe.kl, sync=None)
    return replace(recipe, kl=kl, masks=replace(recipe.masks, truncated=False))


def whole(stack: str) -> dict[str, Recipe]:
    """The recipes whose loss the stack's settings say completely."""
    found = {name: of_loss(recipe) for name, recipe in ALL.items()}
    return {name: recipe for name, recipe in found.items() if not LOSS & {g.axis for g in getattr(recipe, stack)().gaps if not g.small}}


SUPPORTED = {stack: whole(stack) for stack in ("trl", "verl", "openrlhf")}
NUMBERS = pytest.mark.parametrize("number", range(3))


def of(stack: str) -> Any:
    found = SUPPORTED[stack]
    return pytest.mark.parametrize("recipe", found.values(), ids=list(found))


def needs(stack: str) -> None:
    if not stack_code.available(stack):
        pytest.skip(f"{stack} is not installed (make stacks)")


def agree(recipe: Recipe, data: dict[str, Any], theirs: Any, tolerance: float = 1e-6, **changes: Any) -> None:
    """Value and gradient of guerdon are those of `theirs`, a function of live log-probabilities."""
    loss, gradient = loss_and_gradient(recipe, data, **changes)
    logp = data["logp"].clone().requires_grad_()
    other = theirs(logp)
    (other_gradient,) = torch.autograd.grad(other, logp)
    assert loss.item() == pytest.approx(other.item(), abs=tolerance)
    torch.testing.assert_close(gradient, other_gradient, atol=tolerance, rtol=0)


@NUMBERS
@of("trl")
def test_trl(recipe: Recipe, number: int) -> None:
    needs("trl")
    data, translation = batch(number), recipe.trl()
    settings = {"max_completion_length": data["logp"].shape[1], **translation.settings}
    width = settings["max_completion_length"]
    if translation.target == "trl.RLOOConfig":
        agree(recipe, data, lambda logp: rloo(settings, logp, data))
        return
    extra = {"rollout": data["rollout"] if "rollout_logp_NT" in recipe.reads else None, "ref": data["ref"], "entropy": data["entropy"]}
    extra["gmpo"] = "gmpo" in translation.target
    call = lambda logp: stack_code.trl_loss(settings, logp, advantages=data["advantages"], mask=data["mask"], old=data["old"], **extra)  # noqa: E731
    agree(recipe, data, call, **({"length": width} if recipe.aggregate.how == "token_sum" else {}))


def rloo(settings: dict[str, Any], logp: Any, data: dict[str, Any]) -> Any:
    """RLOOTrainer's loss: its trainer takes sums of log-probabilities."""
    from types import SimpleNamespace

    from trl import RLOOTrainer

    trainer = object.__new__(RLOOTrainer)
    import collections

    trainer.__dict__ |= {
        "model": SimpleNamespace(training=True), "_metrics": {"train": collections.defaultdict(list)}, "aux_loss_enabled": False,
        "_get_per_token_logps_and_entropies": lambda *args, **kwargs: (logp, torch.zeros_like(logp), None),
        "epsilon_low": settings["epsilon"], "epsilon_high": settings["epsilon_high"], "beta": settings["beta"],
        "accelerator": SimpleNamespace(gather=lambda x: x, reduce=lambda x, reduction=None: x, gather_for_metrics=lambda x: x),
        "args": SimpleNamespace(), "current_gradient_accumulation_steps": 1,
    }  # fmt: skip
    rows = len(logp)
    prompt, ids = torch.zeros(rows, 1, dtype=torch.long), torch.zeros(logp.shape, dtype=torch.long)
    inputs = {"prompt_ids": prompt, "prompt_mask": prompt + 1, "completion_ids": ids, "completion_mask": data["mask"]}
    inputs |= {"advantages": data["advantages"], "old_logps": (data["old"] * data["mask"]).sum(1)}
    return trainer._compute_loss(trainer.model, inputs)


@NUMBERS
@of("verl")
def test_verl(recipe: Recipe, number: int) -> None:
    needs("verl")
    core, data, settings = stack_code.verl(), batch(number), dict(recipe.verl().settings)
    actor = {key.removeprefix("actor_rollout_ref.actor."): each for key, each in settings.items() if "actor." in key}
    width = actor.get("loss_scale_factor") or data["logp"].shape[1]
    config = stack_code.VerlActor(
        **{**actor, "global_batch_info": {"loss_scale_factor": width} if recipe.aggregate.how == "token_sum" else {}}
    )
    correction = "algorithm.rollout_correction."
    weights = None
    if settings.get(f"{correction}rollout_is"):
        log_ratio = data["old"] - data["rollout"]
        how = {"rollout_is": settings[f"{correction}rollout_is"], "rollout_is_threshold": settings[f"{correction}rollout_is_threshold"]}
        weights, _ = stack_code.verl_correction().compute_rollout_correction_weights(log_ratio, data["mask"], **how)
    old = data["rollout"] if settings.get(f"{correction}bypass_mode") else data["old"]
    advantages = data["advantages"][:, None].expand_as(old)

    def theirs(logp: Any) -> Any:
        loss = core.get_policy_loss_fn(actor["policy_loss.loss_mode"])
        value, _ = loss(
            old, logp, advantages, data["mask"], loss_agg_mode=actor["loss_agg_mode"], config=config, rollout_is_weights=weights
        )
        if actor["use_kl_loss"]:
            kl = core.kl_penalty(logp, data["ref"], actor["kl_loss_type"])
            value = value + actor["kl_loss_coef"] * core.agg_loss(kl, data["mask"], actor["loss_agg_mode"])
        return value

    agree(recipe, data, theirs, **({"length": width} if recipe.aggregate.how == "token_sum" else {}))


@NUMBERS
@of("openrlhf")
def test_openrlhf(recipe: Recipe, number: int) -> None:
    needs("openrlhf")
    (loss, utils), data, settings = stack_code.openrlhf(), batch(number), dict(recipe.openrlhf().settings)
    low, high = settings["actor.eps_clip_low_high"]
    level = settings.get("algo.advantage.is_correction_level", "off")
    bounded = (
        {}
        if level == "off"
        else {
            "is_correction_threshold": settings["algo.advantage.is_correction_threshold"],
            "is_correction_mode": settings["algo.advantage.is_correction_mode"],
        }
    )
    tokens = settings["actor.loss_agg_mode"] == "token-mean"
    policy = loss.PolicyLoss(
        low, high, settings.get("actor.dual_clip"), tokens, settings["actor.policy_loss_type"], is_correction_level=level, **bounded
    )
    beta, in_loss = settings["algo.kl.init_coef"], settings.get("algo.kl.use_loss", False)

    def theirs(logp: Any) -> Any:
        value = policy(logp, data["old"], data["advantages"][:, None], data["mask"], data["rollout"])[0]
        if in_loss:
            unbiased = settings["algo.kl.unbiased_gradient"]
            kl = utils.compute_approx_kl(logp, data["ref"], data["old"], settings["algo.kl.estimator"], unbiased)
            value = value + beta * loss.aggregate_loss(kl.double(), data["mask"], tokens)
        return value

    if recipe.kl is not None and recipe.kl.gradient != "naive":  # a small gap: its value is not weighted by the ratio, or its gradient is
        data["old"] = data["logp"].clone()
    agree(recipe, data, theirs)


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("spec", [adv.GRPO, adv.DR_GRPO, adv.BATCH, adv.GDPO], ids=["group", "none", "batch", "gdpo"])
def test_trl_advantages_under_the_translated_settings(spec: adv.AdvantageSpec, number: int) -> None:
    needs("trl")
    spec = replace(spec, eps=1e-4, whiten_eps=1e-4 if spec.whiten != "none" else spec.whiten_eps)
    rewards = torch.rand(12, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(number)).round(decimals=1)
    theirs = stack_code.trl_advantages(dict(Recipe(advantage=spec).trl().settings), rewards, 4)
    ours = adv.advantages(rewards.numpy(), [i // 4 for i in range(12)], None, spec)
    torch.testing.assert_close(torch.as_tensor(ours), theirs, atol=1e-6, rtol=0)


def test_a_changed_number_breaks_the_agreement() -> None:
    needs("trl")
    data = batch(0)
    settings = {**recipes.cispo(cap=1.2).trl().settings, "epsilon_high": 1.201}
    with pytest.raises(AssertionError):
        agree(
            recipes.cispo(cap=1.2),
            data,
            lambda logp: stack_code.trl_loss(settings, logp, advantages=data["advantages"], mask=data["mask"], old=data["old"]),
        )


# --- parsers ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", ALL.values(), ids=list(ALL))
def test_trl_accepts_every_translation(recipe: Recipe, tmp_path: Any) -> None:
    needs("trl")
    import importlib

    translation = recipe.trl()
    module, _, name = translation.target.rpartition(".")
    config = getattr(importlib.import_module(module), name)
    size = recipe.group_size or 8
    made = config(output_dir=str(tmp_path), use_cpu=True, bf16=False, per_device_train_batch_size=size, **translation.settings)
    for key, each in translation.settings.items():
        assert getattr(made, key) == each


@pytest.mark.parametrize("recipe", ALL.values(), ids=list(ALL))
def test_openrlhf_accepts_every_translation(recipe: Recipe, capsys: pytest.CaptureFixture[str]) -> None:
    needs("openrlhf")
    translation = recipe.openrlhf()
    rest = ["--actor.model_name_or_path", "m", "--reward.remote_url", "http://r", "--data.prompt_dataset", "d"]
    rest += [] if "rollout.n_samples_per_prompt" in translation.settings else ["--rollout.n_samples_per_prompt", "2"]
    args = stack_code.openrlhf_parse([*translation.argv(), *rest])
    for flag, each in translation.settings.items():
        got = args
        for part in flag.split("."):
            got = getattr(got, part)
        assert got == (list(each) if isinstance(each, tuple) else each)


@pytest.mark.parametrize("recipe", ALL.values(), ids=list(ALL))
def test_verl_knows_every_override(recipe: Recipe) -> None:
    """Against the configuration verl generates for its trainer; `+` adds a key that its reward manager reads."""
    needs("verl")
    import yaml

    config = yaml.safe_load((stack_code.root("verl") / "trainer/config/_generated_ppo_trainer.yaml").read_text())
    for key, each in recipe.verl().settings.items():
        if key.startswith("+"):
            assert key.removeprefix("+").split(".")[:2] == ["reward", "reward_kwargs"]
            continue
        got = config
        for part in key.split("."):
            assert part in got, f"{key}: no {part}"
            got = got[part]
        kinds = {
            bool: bool,
            int: (int, float, type(None)),
            float: (int, float),
            str: (str, float, type(None)),
            type(None): (str, type(None)),
        }
        assert isinstance(got, kinds[type(each)]), f"{key}={each!r} where verl has {got!r}"
