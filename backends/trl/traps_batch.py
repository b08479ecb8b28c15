"""The traps of batch sizes, groups and devices."""

from __future__ import annotations

from collections.abc import Iterator

from guerdon.backends.trl.findings import Case, Trap, trap

__all__ = ["BATCH_TRAPS"]


@trap("generation-batch-twice", "error", "the configuration raises: each follows from the other")
def generation_batch_twice(case: Case) -> Iterator[str]:
    s = case.settings
    if not s.built and s["generation_batch_size"] is not None and s["steps_per_generation"] is not None:
        yield "generation_batch_size and steps_per_generation are both given: leave one out"


@trap("batch-division", "error", "the configuration raises: a generation batch holds whole groups and whole micro-batches")
def batch_division(case: Case) -> Iterator[str]:
    s = case.settings
    group, batch, rows = s.whole("num_generations"), s.generation_rows, s.whole("per_device_train_batch_size")
    if group is None or batch is None or not rows:
        return
    if group < 2:
        yield f"num_generations={group}: expected at least 2, since advantages compare the completions of one prompt"
    elif batch % group:
        yield f"{batch} completions a generation batch do not make whole groups of num_generations={group}: make it a multiple of {group}"
    if batch % (rows * s.world):
        yield f"generation_batch_size={batch} is no multiple of per_device_train_batch_size {rows} x {s.world} processes: make it one"


@trap("eval-division", "error", "the configuration raises as soon as evaluation is on")
def eval_division(case: Case) -> Iterator[str]:
    s = case.settings
    group, rows = s.whole("num_generations_eval") or s.whole("num_generations"), s.whole("per_device_eval_batch_size")
    if s["eval_strategy"] in (None, "no") or not group or rows is None or rows * s.world % group == 0:
        return
    yield (
        f"per_device_eval_batch_size {rows} x {s.world} processes is no multiple of num_generations_eval {group}: "
        "make it one, or set num_generations_eval"
    )


@trap("bf16-without-gpu", "error", "the configuration raises: bf16 is TRL's default, and there is no GPU")
def bf16_without_gpu(case: Case) -> Iterator[str]:
    s = case.settings
    wants = s["bf16"] is True or (s["bf16"] is None and not s["fp16"])
    if not s.built and case.gpu is False and wants and not s["use_cpu"]:
        yield "bf16 (TRL's default) without a GPU: set use_cpu=True, and bf16=False for full precision"


@trap("one-prompt", "warning", "a step rests on one prompt, and has no gradient where its rewards are equal")
def one_prompt(case: Case) -> Iterator[str]:
    s = case.settings
    group, batch, accumulate = s.whole("num_generations"), s.generation_rows, s.whole("gradient_accumulation_steps")
    batches_a_step = (accumulate or 1) // max(1, (s.steps or 1) * (s.whole("num_iterations") or 1))
    if group and group >= 2 and batch == group and batches_a_step <= 1:
        yield (
            f"{batch} completions a generation batch in groups of {group} are 1 prompt: "
            "raise per_device_train_batch_size or gradient_accumulation_steps, which count completions, not prompts"
        )


@trap("split-groups", "note", "a reward function sees part of a group: terms that compare siblings, and finished advantages, must gather")
def split_groups(case: Case) -> Iterator[str]:
    s = case.settings
    group, rows, batch = s.whole("num_generations"), s.local_rows, s.generation_rows
    if s.world < 2 or not group or rows is None or batch is None or batch % group or rows % group == 0:
        return
    yield (
        f"{rows} completions a process in groups of {group}: groups are split over ranks; guerdon's functions gather them, "
        "your own see a part: make per_device_train_batch_size * steps_per_generation a multiple of num_generations"
    )


BATCH_TRAPS: tuple[Trap, ...] = (generation_batch_twice, batch_division, eval_division, bf16_without_gpu, one_prompt, split_groups)
