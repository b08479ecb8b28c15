"""`reward_funcs` as a trainer calls it, without a trainer: one pass a batch, values, groups, chats, pickles, refusals."""

from __future__ import annotations

import asyncio
import copy
import gc
import math
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guerdon.rewards as R
from guerdon import Abstain, OnAbstain, Rollout
from guerdon.backends.trl import reward_funcs
from guerdon.backends.trl.memo import Memo
from guerdon.backends.trl.rows import group_labels
from guerdon.errors import AbstentionError, BrokenRewardError, ConfigError, MissingInput

CALL: dict[str, Any] = {
    "prompts": ["p", "p", "q", "q"],
    "completions": ["\\boxed{4}", "\\boxed{5}", "\\boxed{4}", "none"],
    "completion_ids": [[1], [2, 2, 2, 2], [3], [4]],
    "answer": ["4", "4", None, "4"],
}


@dataclass
class Counted:
    """A batch function that counts its calls."""

    calls: list[int] = field(default_factory=list)
    pause_s: float = 0.0

    def __call__(self, rollouts: list[Rollout]) -> list[float]:
        self.calls.append(len(rollouts))
        time.sleep(self.pause_s)
        return [float(len(r.completion)) for r in rollouts]


def counted(pause_s: float = 0.0, **options: Any) -> tuple[Any, Counted]:
    counter = Counted(pause_s=pause_s)
    return reward_funcs(R.from_function(counter, batch=True, name="counted") + 0.5 * R.boxed_format() + 0.0 * R.exact(), **options), counter


def test_importing_it_loads_no_training_stack() -> None:
    code = "import sys, guerdon.backends.trl; print(sorted({'torch', 'transformers', 'trl', 'numpy', 'accelerate'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_one_function_a_component_named_like_it_with_its_weight() -> None:
    funcs = reward_funcs(R.math_equal() + 0.2 * R.boxed_format())
    assert isinstance(funcs, list)
    assert [f.__name__ for f in funcs] == ["math_equal", "boxed_format"]
    assert funcs.weights == [1.0, 0.2]


def test_a_row_without_a_total_is_none_in_every_component_and_a_term_that_does_not_apply_in_its_own() -> None:
    def even(rollout: Rollout) -> float | None:
        return None if rollout.completion.endswith("5}") else 1.0

    found = [f(**CALL) for f in reward_funcs(R.math_equal() + R.from_function(even) + 0.0 * R.boxed_format())]
    assert found == [[1.0, 0.0, None, 0.0], [1.0, None, None, 1.0], [1.0, 1.0, None, 0.0]]


def test_a_watched_term_that_breaks_costs_no_row() -> None:
    def breaks(rollout: Rollout) -> float:
        raise RuntimeError("no")

    found = [f(**{**CALL, "answer": ["4"] * 4}) for f in reward_funcs(R.math_equal() + 0.0 * R.from_function(breaks))]
    assert found == [[1.0, 0.0, 1.0, 0.0], [None] * 4]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, 1e16, Abstain("no"), RuntimeError("no"), "text"])
def test_nothing_that_float32_cannot_bear_reaches_the_trainer(value: Any) -> None:
    def odd(rollout: Rollout) -> Any:
        if rollout.completion == "none":
            if isinstance(value, Exception):
                raise value
            return value
        return 2.0

    found = [f(**{**CALL, "answer": ["4"] * 4}) for f in reward_funcs(R.from_function(odd) + R.math_equal())]
    assert found == [[2.0, 2.0, 2.0, None], [1.0, 0.0, 1.0, None]]


@pytest.mark.parametrize(("value", "weight"), [(1e300, 1.0), (1e9, 1e9)])
def test_a_number_that_float32_cannot_bear_is_counted_as_an_error(value: float, weight: float) -> None:
    large = R.from_function(lambda r: value if r.completion == "none" else 1.0, name="large")
    metrics, extra = logged(reward_funcs(weight * large + R.boxed_format()), CALL)
    assert metrics["guerdon/large/error"] == metrics["guerdon/abstained"] == 0.25
    assert extra["guerdon/why"][3].startswith("large error (too_large)")


def test_a_watched_number_that_float32_cannot_bear_costs_no_row() -> None:
    large = R.from_function(lambda r: 1e300, name="large")
    assert [f(**CALL) for f in reward_funcs(R.boxed_format() + 0.0 * large)] == [[1.0, 1.0, 1.0, 0.0], [None] * 4]


@pytest.mark.parametrize(("reward", "value"), [(R.exact(), 1e300), (1e-20 * R.exact(), -1.0)])
def test_a_filling_that_float32_cannot_bear_is_refused(reward: Any, value: float) -> None:
    with pytest.raises(ConfigError, match="fills with"):
        reward_funcs(reward, on_abstain=OnAbstain("fill", value))


@pytest.mark.parametrize("weighted", [False, True])
def test_filling_gives_the_row_that_total(weighted: bool) -> None:
    reward = 0.5 * R.math_equal() + 0.2 * R.boxed_format()
    funcs = reward_funcs(reward, on_abstain=OnAbstain("fill", -1.0), weighted=weighted)
    columns = [f(**CALL) for f in funcs]
    totals = [sum(w * (v or 0.0) for w, v in zip(funcs.weights, row, strict=True)) for row in zip(*columns, strict=True)]
    assert totals == pytest.approx([0.7, 0.2, -1.0, 0.0])
    assert columns[1][2] is None


def test_raising_stops_at_a_row_without_a_total() -> None:
    with pytest.raises(AbstentionError):
        reward_funcs(R.math_equal(), on_abstain=OnAbstain("raise"))[0](**CALL)


# -- weights


def routed() -> Any:
    return R.by_column("kind", {"a": 1.0 * R.exact() + 0.5 * R.boxed_format(), "b": 0.25 * R.exact() + 0.5 * R.boxed_format()})


def test_a_weight_that_differs_between_rows_is_in_the_values() -> None:
    funcs = reward_funcs(routed())
    call = {"prompts": list("pqrs"), "completions": ["x"] * 4, "answer": ["x"] * 4, "kind": ["a", "b", "a", "c"]}
    assert funcs.weights == [1.0, 0.5]
    assert [f(**call) for f in funcs] == [[1.0, 0.25, 1.0, None], [0.0, 0.0, 0.0, None]]
    with pytest.raises(ConfigError, match="advantage_func"):
        funcs.config_kwargs("gdpo")


def test_weighted_values_need_no_weights_of_the_trainer() -> None:
    funcs = reward_funcs(2.0 * R.math_equal() + 0.2 * R.boxed_format(), weighted=True)
    assert funcs.weights == [1.0, 1.0]
    assert [f(**{**CALL, "answer": ["4"] * 4}) for f in funcs] == [[2.0, 0.0, 2.0, 0.0], [0.2, 0.2, 0.2, 0.0]]


@dataclass
class OnlyWeights:
    reward_weights: list[float] | None = None


@dataclass
class Bare:
    beta: float = 0.0


def test_config_kwargs_are_those_that_the_config_has() -> None:
    funcs = reward_funcs(R.exact() + 0.5 * R.boxed_format())
    assert funcs.config_kwargs() == {"reward_weights": [1.0, 0.5], "multi_objective_aggregation": "sum_then_normalize"}
    assert funcs.config_kwargs(config=OnlyWeights) == {"reward_weights": [1.0, 0.5]}
    for aggregation, config, fix in [("gdpo", OnlyWeights, "advantage_func"), ("sum", Bare, "weighted=True"), ("mean", None, "'gdpo'")]:
        with pytest.raises(ConfigError, match=fix):
            funcs.config_kwargs(aggregation, config=config)
    assert reward_funcs(R.exact()).config_kwargs(config=Bare) == {}


# -- one pass


def test_a_batch_is_scored_once_and_forgotten_when_all_have_read() -> None:
    funcs, counter = counted()
    first = [f(**CALL) for f in funcs]
    assert counter.calls == [4]
    assert funcs[0]._memo().batch == ()
    assert [f(**CALL) for f in funcs] == first
    assert counter.calls == [4, 4], "the same list again is another batch: it may have been changed"


def test_an_aborted_batch_is_replaced_by_the_next() -> None:
    funcs, counter = counted()
    funcs[0](**CALL)
    other = {**CALL, "completions": ["a", "bb", "ccc", "dddd"]}
    assert next(f(**other) for f in funcs) == [1.0, 2.0, 3.0, 4.0]
    assert counter.calls == [4, 4]
    assert funcs[0]._memo().batch[0] is other["completions"]


def test_one_function_called_alone_scores_every_call() -> None:
    funcs, counter = counted()
    assert funcs[0](**CALL) == funcs[0](**CALL)
    assert counter.calls == [4, 4]


def test_a_pass_that_was_made_on_another_loop_that_is_closed_by_now_can_be_read() -> None:
    funcs, counter = counted(asynchronous=True)
    asyncio.run(funcs[0](**CALL))
    assert asyncio.run(funcs[1](**CALL)) == [1.0, 1.0, 1.0, 0.0]
    assert counter.calls == [4]


def test_an_async_term_that_blocks_holds_up_neither_the_loop_nor_the_deadline() -> None:
    async def blocks(rollout: Rollout) -> float:
        time.sleep(4.0)
        return 1.0

    funcs = reward_funcs(R.boxed_format() + R.from_function(blocks), asynchronous=True, deadline_s=1.0, max_broken=1.0)

    async def main() -> Any:
        start = time.monotonic()

        async def other() -> float:
            await asyncio.sleep(0.05)
            return time.monotonic() - start

        found = await asyncio.gather(other(), *(f(completions=["x"]) for f in funcs))
        return found, time.monotonic() - start

    (waited, *found), seconds = asyncio.run(main())
    assert found == [[None], [None]]
    assert waited < 1.0
    assert seconds < 3.0


def test_a_list_that_was_changed_in_place_is_scored_again() -> None:
    funcs, counter = counted()
    completions = list(CALL["completions"])
    funcs[0](**{**CALL, "completions": completions})
    completions[:] = ["a", "bb", "ccc", "dddd"]
    assert funcs[1](**{**CALL, "completions": completions}) == [0.0] * 4
    assert counter.calls == [4, 4]


@pytest.mark.parametrize("column", ["prompts", "completion_ids", "answer"])
def test_the_same_completions_beside_other_columns_are_another_batch(column: str) -> None:
    seen: list[Rollout] = []
    funcs = reward_funcs(R.from_function(lambda r: float(bool(seen.append(r))), name="seen") + R.boxed_format())  # type: ignore[func-returns-value]
    funcs[0](**CALL)
    funcs[1](**{**CALL, column: CALL[column][::-1]})
    assert len(seen) == 8


def test_columns_in_lists_of_their_own_for_each_call_are_one_batch_if_the_cells_are_the_same() -> None:
    funcs, counter = counted()
    for f in funcs:
        f(**{**CALL, "answer": list(CALL["answer"]), "prompts": list(CALL["prompts"])})
    assert counter.calls == [4]


def test_a_memo_does_not_take_a_new_list_for_an_old_one_at_its_address() -> None:
    memo, seen = Memo(2), 0
    for i in range(200):
        batch = [f"completion {i}"]
        values = memo.read(0, (batch, *batch), lambda i=i: [[float(i)], [float(i)]])
        seen += values == [float(i)]
        del batch
    assert seen == 200


def test_threads_that_call_at_once_share_one_pass() -> None:
    funcs, counter = counted(pause_s=0.1)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda f: f(**CALL), funcs))
    assert counter.calls == [4]
    assert found[0] == [9.0, 9.0, 9.0, 4.0]


def test_async_functions_share_one_pass_and_a_cancelled_one_does_not_end_it() -> None:
    calls = []

    async def slow(rollouts: list[Rollout]) -> list[float]:
        calls.append(len(rollouts))
        await asyncio.sleep(0.1)
        return [1.0] * len(rollouts)

    funcs = reward_funcs(R.from_function(slow, batch=True) + 0.5 * R.boxed_format(), asynchronous=True)

    async def main() -> Any:
        first, second = (asyncio.ensure_future(f(**CALL)) for f in funcs)
        await asyncio.sleep(0.02)
        first.cancel()
        return await second

    assert asyncio.run(main()) == [1.0, 1.0, 1.0, 0.0]
    assert calls == [4]
    assert asyncio.run(main()) == [1.0, 1.0, 1.0, 0.0], "the list again, another pass"
    assert calls == [4, 4]


def test_functions_pickled_one_by_one_still_share_a_pass() -> None:
    funcs = reward_funcs(R.from_function(_length, batch=True) + 0.5 * R.boxed_format())
    CALLS.clear()
    copies = [pickle.loads(pickle.dumps(f)) for f in funcs]
    del funcs
    gc.collect()
    assert next(f(**CALL) for f in copies) == [9.0, 9.0, 9.0, 4.0]
    assert CALLS == [4]


CALLS: list[int] = []


def _length(rollouts: list[Rollout]) -> list[float]:
    CALLS.append(len(rollouts))
    return [float(len(r.completion)) for r in rollouts]


def test_the_list_survives_pickle_and_deepcopy_with_its_methods_and_without_a_batch() -> None:
    funcs = reward_funcs(R.math_equal() + 0.5 * R.boxed_format())
    funcs[0](**{**CALL, "completions": ["x" * 100_000] * 4})
    assert len(pickle.dumps(funcs)) < 5_000
    for made in (pickle.loads(pickle.dumps(funcs)), copy.deepcopy(funcs)):
        assert made.weights == [1.0, 0.5]
        assert [f(**CALL) for f in made] == [f(**CALL) for f in funcs]


def test_a_reward_from_a_file_is_loaded_again_where_it_is_unpickled(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import guerdon.rewards as R\ndef loud(rollout): return float(rollout.completion.isupper())\nreward = R.from_function(loud)\n"
    )
    data = pickle.dumps(reward_funcs(f"{tmp_path / 'mine.py'}:reward")[0])
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(completions=['AB', 'ab']))"
    ran = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert ran.stdout.decode().strip() == "[1.0, 0.0]"


def test_a_forked_child_scores_though_a_thread_of_the_parent_was_scoring() -> None:
    import os

    funcs, _ = counted(pause_s=0.5)
    thread = threading.Thread(target=lambda: funcs[0](**CALL))
    thread.start()
    time.sleep(0.1)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if funcs[1](**{**CALL, "completions": ["a"] * 4}) == [0.0] * 4 else 1)
    for _ in range(100):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        pytest.fail("the child waits for a lock that nobody holds")
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


# -- rows


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ([{"role": "assistant", "content": "\\boxed{4}"}], "\\boxed{4}"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "\\boxed{4}"}, {"type": "image"}]}], "\\boxed{4}"),
        ([{"role": "assistant", "content": "4", "reasoning_content": "hm"}], "<think>hm</think>4"),
        ([{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}, {"role": "tool", "content": "7"}], ""),
        (
            [{"role": "assistant", "content": "5"}, {"role": "tool", "content": "7"}, {"role": "assistant", "content": "4"}],
            "4",
        ),
        ([], ""),
    ],
)
def test_what_the_last_assistant_message_says_is_the_completion(completion: list[dict[str, Any]], text: str) -> None:
    seen: list[Rollout] = []
    funcs = reward_funcs(R.from_function(lambda r: float(not seen.append(r)), name="seen", reads={"messages"}))  # type: ignore[func-returns-value]
    assert funcs[0](prompts=[[{"role": "user", "content": "2+2?"}]], completions=[completion]) == [1.0]
    assert seen[0].completion == text
    assert len(seen[0].messages or ()) == len(completion)


def test_columns_come_by_name_and_what_the_trainer_adds_does_not() -> None:
    seen: list[Rollout] = []
    funcs = reward_funcs(R.from_function(lambda r: float(not seen.append(r)), name="seen"))  # type: ignore[func-returns-value]
    extra = {"trainer_state": object(), "log_metric": None, "log_extra": None, "environments": ["e"], "step": 3}
    funcs[0](prompts=["p"], completions=["c"], completion_ids=[[1, 2]], answer=["4"], solution=["5"], tests=[{"a": 1}], **extra)
    assert seen[0].columns == {"solution": "5", "tests": {"a": 1}, "environments": "e"}
    assert (seen[0].answer, seen[0].num_tokens, seen[0].token_ids) == ("4", 2, (1, 2))


@pytest.mark.parametrize("name", ["self", "cls", "index", "settings", "kwargs", "arguments", "not an identifier"])
def test_a_column_may_have_any_name(name: str) -> None:
    seen: list[Rollout] = []
    funcs = reward_funcs(R.from_function(lambda r: float(not seen.append(r)), name="seen"))  # type: ignore[func-returns-value]
    assert funcs[0](completions=["x"], **{name: [7]}) == [1.0]
    assert seen[0].columns == {name: 7}


@pytest.mark.parametrize("answer", [np.array(["4", "5"]), [np.array("4"), np.array("5")], np.array([4, 5]), [np.int64(4), np.float32(5)]])
def test_cells_of_data_formatted_as_numpy_are_read_as_what_they_hold(answer: Any) -> None:
    funcs = reward_funcs(R.math_equal())
    assert funcs[0](completions=["\\boxed{4}", "\\boxed{4}"], answer=answer, scalar=np.array(3)) == [1.0, 0.0]


@pytest.mark.parametrize("name", ["prompts", "completion_ids"])
def test_prompts_and_ids_of_another_length_are_a_fault(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' has 1 values for 4 completions"):
        reward_funcs(R.boxed_format())[0](**{**CALL, name: CALL[name][:1]})


def test_everything_but_the_completions_is_optional() -> None:
    assert reward_funcs(R.boxed_format())[0](completions=["\\boxed{1}", "no"]) == [1.0, 0.0]
    assert reward_funcs(R.boxed_format())[0](["p"], ["\\boxed{1}"]) == [1.0]
    assert reward_funcs(R.boxed_format())[0](completions=[]) == []


def test_a_column_of_another_length_is_a_fault() -> None:
    with pytest.raises(ConfigError, match="'answer' has 2 values for 4 completions"):
        reward_funcs(R.math_equal())[0](**{**CALL, "answer": ["4", "4"]})


@pytest.mark.parametrize("eos", [2, [2, 3]])
def test_a_completion_that_does_not_end_with_the_end_was_cut(eos: Any) -> None:
    funcs = reward_funcs(R.abstain_if_truncated(R.boxed_format()), eos_token_id=eos)
    call = {"completions": ["\\boxed{1}"] * 4, "completion_ids": [[5, 2], [5, 6], [2, 5], []]}
    assert funcs[0](**call) == [1.0, None, None, 1.0]


# -- faults and refusals


def test_a_missing_column_raises_and_an_empty_one_does_not() -> None:
    with pytest.raises(MissingInput, match="reads column 'answer'"):
        reward_funcs(R.math_equal())[0](prompts=["p"], completions=["x"], solution=["4"])
    assert reward_funcs(R.math_equal())[0](prompts=["p"], completions=["x"], answer=[None]) == [None]


def test_messages_that_a_plain_completion_lacks_raise() -> None:
    reward = R.from_function(lambda r: 1.0, name="turns", reads={"messages"})
    for columns in ({}, {"messages": ["a column of the data, not the turns"]}):
        with pytest.raises(MissingInput, match="messages"):
            reward_funcs(reward)[0](completions=["x"], **columns)


def test_a_broken_reward_raises() -> None:
    with pytest.raises(BrokenRewardError, match="missing_reference"):
        reward_funcs(R.math_equal(name="broken"))[0](prompts=["p"] * 200, completions=["x"] * 200, answer=[None] * 200)


def test_a_term_that_breaks_as_a_whole_loses_the_rows_and_does_not_raise() -> None:
    class Breaks(R.Combinator):
        name = "breaks"

        def combine(self, rollouts: Any, values: Any) -> Any:
            raise RuntimeError("combine broke")

    assert reward_funcs(Breaks())[0](**CALL) == [None] * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deadline_s": 0}, "deadline_s"),
        ({"deadline_s": "5"}, "deadline_s"),
        ({"max_broken": "0.5"}, "max_broken"),
        ({"max_broken": 0.0}, "max_broken"),
        ({"num_generations": 0}, "num_generations"),
        ({"num_generations_eval": True}, "num_generations_eval"),
        ({"eos_token_id": "</s>"}, "eos_token_id"),
        ({"on_abstain": "drop"}, "OnAbstain"),
    ],
)
def test_wrong_arguments_are_refused_when_built(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        reward_funcs(R.exact(), **options)


def test_a_reward_that_reads_truncation_is_refused_without_the_end_token() -> None:
    with pytest.raises(MissingInput, match=r"eos_token_id=tokenizer\.eos_token_id"):
        reward_funcs(R.abstain_if_truncated(R.exact()))


# -- groups


@pytest.mark.parametrize(
    ("prompts", "sizes", "labels"),
    [
        ("aaaabbbb", (), [0] * 4 + [1] * 4),
        ("aaaaaaaa", (), [0] * 8),
        ("aaaaaaaa", (4,), [0] * 4 + [1] * 4),
        ("aaaabb", (), [0, 0, 1, 1, 2, 2]),
        ("abca", (4,), None),
        ("abca", (4, 1), [0, 1, 2, 3]),
        ("aabb", (4, 2), [0, 0, 1, 1]),
        ("abab", (), None),
        ("", (), None),
    ],
)
def test_groups_are_told_from_the_prompts(prompts: str, sizes: tuple[int, ...], labels: list[int] | None) -> None:
    assert group_labels(list(prompts), sizes) == labels


def test_a_group_term_compares_siblings_only() -> None:
    call = {"prompts": ["p", "p", "q", "q"], "completions": ["same", "same", "same", "other"]}
    assert reward_funcs(R.duplicate_penalty())[0](**call) == [-1.0, -1.0, 0.0, 0.0]
    call = {"prompts": ["p"] * 4, "completions": ["same", "other", "same", "third"]}
    assert reward_funcs(R.duplicate_penalty(), num_generations=2)[0](**call) == [0.0] * 4


# -- metrics


def logged(funcs: Any, call: dict[str, Any]) -> tuple[dict[str, float], dict[str, list[Any]]]:
    metrics: dict[str, float] = {}
    extra: dict[str, list[Any]] = {}
    for f in funcs:
        f(**call, log_metric=metrics.__setitem__, log_extra=lambda name, values: extra.setdefault(name, []).extend(values))
    return metrics, extra


def test_the_log_has_shares_of_statuses_under_keys_that_depend_on_the_reward_alone() -> None:
    funcs = reward_funcs(R.math_equal() + 0.1 * R.boxed_format())
    bad, extra = logged(funcs, CALL)
    good, _ = logged(funcs, {**CALL, "answer": ["4"] * 4})
    assert bad.keys() == good.keys()
    assert bad["guerdon/abstained"] == bad["guerdon/math_equal/bad_reference"] == 0.25
    assert bad["guerdon/outcome"] == pytest.approx(1 / 3)
    assert good["guerdon/abstained"] == good["guerdon/math_equal/bad_reference"] == 0.0
    assert extra["guerdon/why"][2] == "math_equal bad_reference (missing_reference); boxed_format scored"
    assert len(extra["guerdon/why"]) == 4


def test_a_logger_that_breaks_does_not_end_the_run() -> None:
    def broken(name: str, value: float) -> None:
        raise RuntimeError("no")

    assert reward_funcs(R.boxed_format())[0](completions=["\\boxed{1}"], log_metric=broken) == [1.0]


# -- validation against data


def test_validate_reads_rows_all_over_the_data() -> None:
    sometimes = R.from_function(lambda r: None, name="sometimes", reads={"tests"})
    rows = [{"prompt": "p", "tests": None}] * 1000 + [{"prompt": "q", "tests": "x"}]
    reward_funcs(sometimes).validate({"per_device_train_batch_size": 16}, rows)
    with pytest.raises(MissingInput, match="tests"):
        reward_funcs(sometimes).validate({"per_device_train_batch_size": 16}, rows[:1000])


DATA = [{"prompt": "p", "answer": "4", "kind": "a"}, {"prompt": "q", "answer": None, "kind": "b"}]


def test_validate_reads_the_first_rows_as_a_batch() -> None:
    routes = R.by_column("kind", {"a": R.math_equal(), "b": R.exact(column="solution")})
    args = {"num_generations": 4, "per_device_train_batch_size": 8}
    with pytest.raises(MissingInput, match="solution"):
        reward_funcs(routes).validate(args, DATA)
    with pytest.raises(ConfigError, match="num_generations is 4"):
        reward_funcs(R.math_equal(), num_generations=8).validate(args, DATA)
    with pytest.raises(MissingInput, match="messages"):
        reward_funcs(R.from_function(lambda r: 1.0, name="turns", reads={"messages"})).validate(args, DATA)
    reward_funcs(R.math_equal()).validate(args, {"prompt": ["p"], "answer": ["4"]})
    with pytest.raises(MissingInput, match="eval_dataset"):
        reward_funcs(R.math_equal()).validate(args, DATA, [{"prompt": "p"}])
    full = [{**row, "solution": "4"} for row in DATA]
    reward_funcs(routes).validate(args, full)
    reward_funcs(R.soft_overlong(max_tokens=4, cache=2) + R.duplicate_penalty(), num_generations=4).validate(args, DATA)
