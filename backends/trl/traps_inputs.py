"""The traps of what is passed beside the settings: reward functions, names of columns, and the trainer's own arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from functools import partial
from typing import Any

from guerdon.backends.trl.findings import Case, Trap, trap
from guerdon.backends.trl.settings import Kind

__all__ = ["EVERY", "FIELDS", "INPUT_TRAPS", "TAKEN"]

EVERY: tuple[Kind, ...] = ("grpo", "gmpo", "rloo", "other")

TRAINER_ARGUMENTS = frozenset(
    {
        "model", "reward_funcs", "args", "train_dataset", "eval_dataset", "processing_class", "reward_processing_classes", "callbacks",
        "optimizers", "quantization_config", "peft_config", "tools", "rollout_func", "environment_factory",
    }
)  # fmt: skip
"""Of GRPOTrainer; RLOOTrainer lacks the last three."""
RENAMED = {
    "tokenizer": "it is processing_class=",
    "ref_model": "TRL loads the reference itself, from the model's path, if beta is above 0: leave it out",
    "config": "it is args=",
    "training_args": "it is args=",
    "reward_func": "it is reward_funcs=, a list",
    "reward_fn": "it is reward_funcs=, a list",
    "reward_model": "it is an element of reward_funcs=",
    "dataset": "it is train_dataset=",
    "max_prompt_length": "TRL 1.16 cuts no prompts: filter or cut them in the data set",
}
FIELDS = frozenset({"num_tokens", "token_ids", "messages", "truncated", "group", "completion", "prompt"})
"""What a rollout has besides columns."""
TAKEN = ("trainer_state", "log_metric", "log_extra", "completion_ids")
"""Arguments of TRL's, under whose names a column does not reach a reward function."""


@trap("trainer-argument", "error", "the trainer raises TypeError: tokenizer= and ref_model= are of older versions or other libraries")
def trainer_argument(case: Case) -> Iterator[str]:
    known = TRAINER_ARGUMENTS - ({"tools", "rollout_func", "environment_factory"} if case.settings.kind == "rloo" else set())
    for name in sorted(case.trainer.keys() - known):
        near = get_close_matches(name, known, 1)
        yield f"{name}= is no argument of the trainer: {RENAMED.get(name) or (f'did you mean {near[0]}=?' if near else 'leave it out')}"


@trap("prompt-length", "error", "the configuration raises TypeError: the setting is gone")
def prompt_length(case: Case) -> Iterator[str]:
    if not case.settings.built and "max_prompt_length" in case.settings.values:
        yield f"max_prompt_length given: {RENAMED['max_prompt_length']}"


@trap("reference-in-memory", "error", "the trainer raises OSError: with KL it loads a second copy from the model's path, and there is none")
def reference_in_memory(case: Case) -> Iterator[str]:
    model, beta = case.trainer.get("model"), case.settings.number("beta")
    adapter = case.trainer.get("peft_config") is not None or hasattr(model, "peft_config")
    config = getattr(model, "config", None)
    if beta and config is not None and not adapter and not getattr(config, "_name_or_path", ""):
        yield f"beta={beta} with a model that was made in memory: save_pretrained it, and pass the path; or set beta=0"


@trap("sync-with-adapter", "error", "the trainer raises NotImplementedError: with an adapter the reference is the model without it")
def sync_with_adapter(case: Case) -> Iterator[str]:
    adapter = case.trainer.get("peft_config") is not None or hasattr(case.trainer.get("model"), "peft_config")
    if case.settings["sync_ref_model"] and adapter:
        yield "sync_ref_model=True with PEFT: leave sync_ref_model out, or train all weights"


@trap(
    "functions-not-a-list", "error", "TRL takes anything but a list for one function: AttributeError or TypeError in the first step", EVERY
)
def functions_not_a_list(case: Case) -> Iterator[str]:
    got = case.funcs
    if got is not None and not isinstance(got, list | str) and not callable(got):
        yield f"reward_funcs is a {type(got).__name__}: expected a list; write list(...)"


@trap("weights-length", "error", "the trainer raises: one weight a function", EVERY)
def weights_length(case: Case) -> Iterator[str]:
    n = len(case.functions)
    if case.funcs is not None and case.weights is not None and len(case.weights) != n:
        yield f"reward_weights has {len(case.weights)} entries for {n} reward functions: pass {_wanted(case)}"


@trap("weights-not-passed", "error", "every component counts 1: the total is not the reward that was composed", EVERY)
def weights_not_passed(case: Case) -> Iterator[str]:
    s = case.settings
    if s["reward_weights"] is None and any(weight not in (1, None) for weight in case.own_weights):
        has_weights = s.kind != "other" or "reward_weights" in s.values
        fix = f"pass reward_weights={_wanted(case)}" if has_weights else "use reward_funcs(reward, weighted=True)"
        yield f"the functions' weights are {_wanted(case)}, and reward_weights is not set: {fix}"


@trap("weights-differ", "warning", "the total that TRL trains on is not that of the reward: reports and filters score another one", EVERY)
def weights_differ(case: Case) -> Iterator[str]:
    weights = case.weights or []
    if len(weights) == len(case.own_weights) and any(w not in (g, None) for w, g in zip(case.own_weights, weights, strict=True)):
        yield f"reward_weights={weights}, and the functions' weights are {_wanted(case)}: pass those, or weigh in the reward"


@trap("same-name", "warning", "their metrics are merged under one key, mean of means", EVERY)
def same_name(case: Case) -> Iterator[str]:
    for name, count in Counter(map(_name, case.functions)).items():
        if count > 1:
            yield f"{count} reward functions are called {name!r}: set __name__ on them (guerdon's terms: name=)"


@trap("gdpo-one-function", "warning", "one function is one reward: GRPO with a second normalisation, not GDPO", kinds=("grpo", "gmpo"))
def gdpo_one_function(case: Case) -> Iterator[str]:
    if case.settings.gdpo and len(case.functions) == 1:
        yield "multi_objective_aggregation='normalize_then_sum' with one reward function: pass one a component (guerdon's reward_funcs)"


@trap("gdpo-by-row", "error", "each component is normalised: weights of single rows are divided out, a total filled in is one component's")
def gdpo_by_row(case: Case) -> Iterator[str]:
    for function in case.functions if case.settings.gdpo else ():
        if getattr(function, "by_row", False) is True:
            yield f"GDPO with {_name(function)}, whose weight differs between rows: use advantage_func(reward, GDPO)"
        if getattr(function, "carries_filling", False) is True:
            yield f"GDPO with {_name(function)}, which carries the totals of OnAbstain('fill'): leave rows out, with OnAbstain('drop')"


@trap("finished-scaled", "error", "TRL normalises or clips finished advantages again: not the ones computed", EVERY)
def finished_scaled(case: Case) -> Iterator[str]:
    s = case.settings
    if not case.finished:
        return
    if s.kind == "other":
        yield "finished advantages for a trainer that is neither GRPOTrainer nor RLOOTrainer: use reward_funcs"
    elif s.kind == "rloo":
        if any(getattr(function, "trainer", "rloo") != "rloo" for function in case.finished):
            yield "finished advantages made for GRPOTrainer: RLOOTrainer multiplies them by G/(G - 1); pass trainer='rloo'"
        for name, neutral in (("normalize_advantages", False), ("reward_clip_range", None)):
            if s[name]:
                yield f"finished advantages with {name}={s[name]!r}: set {name}={neutral}"
    elif s.gdpo:
        yield "finished advantages with multi_objective_aggregation='normalize_then_sum': leave it out, and set scale_rewards='none'"
    elif s["scale_rewards"] != "none":
        yield f"finished advantages with scale_rewards={s['scale_rewards']!r}: set scale_rewards='none'"
    elif any(getattr(function, "trainer", "grpo") != "grpo" for function in case.finished):
        yield "finished advantages made for RLOOTrainer, which are times (G - 1)/G: pass trainer='grpo'"


@trap("finished-beside-others", "error", "rewards are added to finished advantages, or these are scaled by a weight")
def finished_beside_others(case: Case) -> Iterator[str]:
    weights = case.weights or [1.0] * len(case.functions)
    for function, weight in zip(case.functions, weights, strict=False):
        finished = any(function is each for each in case.finished)
        if case.finished and weight != (1.0 if finished else 0.0):
            expected = "1.0" if finished else "0.0, which still logs it"
            yield f"{_name(function)} has weight {weight} beside finished advantages: set its entry of reward_weights to {expected}"


@trap("column-clash", "error", "TypeError in the first step: TRL passes arguments of these names itself", EVERY)
def column_clash(case: Case) -> Iterator[str]:
    for name in ("prompts", "completions"):
        if name in (case.columns or ()):
            yield f"the data set has a column {name!r}, TRL's own argument: rename it (TRL wants {name[:-1]!r} for one row)"


@trap("column-hidden", "warning", "the column never reaches a reward function: TRL leaves it out or puts its own argument in its place")
def column_hidden(case: Case) -> Iterator[str]:
    for name in TAKEN + (("environments",) if case.trainer.get("environment_factory") else ()):
        if name in (case.columns or ()):
            yield f"the data set has a column {name!r}, which TRL keeps from reward functions: rename it if one reads it"


@trap("no-prompt", "error", "KeyError in the first step: the prompt is read from the column of that name", EVERY)
def no_prompt(case: Case) -> Iterator[str]:
    if case.columns and "prompt" not in case.columns and case.trainer.get("environment_factory") is None:
        yield f"the data set has no column 'prompt' (it has {', '.join(sorted(case.columns))}): rename yours"


@trap("columns-removed", "error", "every column but the prompt is dropped: a reward that reads one raises in the first step")
def columns_removed(case: Case) -> Iterator[str]:
    needs = sorted(case.reads - FIELDS)
    if case.settings["remove_unused_columns"] and needs:
        yield f"remove_unused_columns=True drops {', '.join(needs)} before reward functions see them: leave it at False"


def _wanted(case: Case) -> list[float]:
    """The weights that the functions ask for, 1 for those that do not say."""
    return [1.0 if weight is None else weight for weight in case.own_weights]


def _name(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    return function if isinstance(function, str) else str(getattr(function, "__name__", type(function).__name__))


INPUT_TRAPS: tuple[Trap, ...] = (
    trainer_argument, prompt_length, reference_in_memory, sync_with_adapter, functions_not_a_list, weights_length, weights_not_passed,
    weights_differ, same_name, gdpo_one_function, gdpo_by_row, finished_scaled, finished_beside_others, column_clash, column_hidden,
    no_prompt, columns_removed,
)  # fmt: skip
