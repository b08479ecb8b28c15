"""The reward file's door: what it refuses when built, what it answers, that it never raises. No OpenRLHF needed."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import guerdon.rewards as R
from guerdon import OnAbstain, Rollout
from guerdon.backends.openrlhf import reward_func_from
from guerdon.errors import ConfigError, LoadError, MissingInput
from guerdon.loading import load

QUERY, PROMPT = "2+2? \\boxed{4}</s>", "2+2? "


def one(reward_func: Any, completion: str = "\\boxed{4}</s>", label: Any = "4") -> dict[str, Any]:
    answer: dict[str, Any] = reward_func([PROMPT + completion], [PROMPT], [label])
    return answer


def user(f: Any, **options: Any) -> Any:
    return reward_func_from(R.math_equal() + R.from_function(f, name="user"), **options)


@pytest.mark.parametrize(
    ("reward", "fix"),
    [
        (R.soft_overlong(max_tokens=8, cache=2), "overlong_buffer_len"),
        (R.abstain_if_truncated(R.math_equal()), "stop_properly_penalty_coef"),
        (R.distinct(), "one rollout a call"),
        (R.from_function(lambda r: 0, name="ids", reads=["token_ids"]), "agent_executor"),
        (R.from_function(lambda r: 0, name="chat", reads=["messages"]), "agent_executor"),
    ],
)
def test_terms_that_read_what_openrlhf_does_not_send_are_refused_with_the_fix(reward: Any, fix: str) -> None:
    with pytest.raises(MissingInput, match=f"the reward file does not carry.*{fix}"):
        reward_func_from(R.exact() + 0.1 * reward)


def test_length_terms_with_a_tokenizer_are_welcome() -> None:
    reward_func = reward_func_from(R.math_equal() + R.soft_overlong(max_tokens=8, cache=2, tokenizer=str.split))
    assert reward_func(["p" + "word " * 8 + "\\boxed{4}"], ["p"], ["4"])["rewards"] == [0.0]


@pytest.mark.parametrize("policy", [OnAbstain("drop"), OnAbstain("raise"), "fill"])
def test_policies_that_this_door_cannot_keep_are_refused(policy: Any) -> None:
    with pytest.raises(ConfigError, match=r"OnAbstain\('fill', value\)"):
        reward_func_from(R.math_equal(), on_abstain=policy)


@pytest.mark.parametrize("value", [1e39, -1e19])
def test_a_fill_value_that_float32_cannot_bear_is_refused(value: float) -> None:
    with pytest.raises(ConfigError, match=r"within 1e\+18"):
        reward_func_from(R.math_equal(), on_abstain=OnAbstain("fill", value))


@pytest.mark.parametrize("end_tokens", ["</s>", [""], [" "], [2], 2, None])
def test_end_tokens_that_are_none_are_refused(end_tokens: Any) -> None:
    with pytest.raises(ConfigError, match="end_tokens: expected a list of texts"):
        reward_func_from(R.math_equal(), end_tokens=end_tokens)


@pytest.mark.parametrize("label", ['{"solution": "4"}', {"solution": "4"}, "{'answer': '4'}", '{"answer": "4"', ["4"]])
def test_a_label_that_holds_no_answer_is_counted_never_a_wrong_answer(label: Any) -> None:
    logs = one(reward_func_from(R.math_equal() + 0.5 * R.exact()), label=label)["extra_logs"]
    assert (logs["guerdon/abstained"], logs["guerdon/rows/bad_reference"]) == ([1.0], [1.0])


def test_a_reward_without_outcome_is_refused() -> None:
    with pytest.raises(ConfigError, match="outcome"):
        reward_func_from(R.boxed_format())


@pytest.mark.parametrize("deadline", [0, -1, math.inf, math.nan, None, True])
def test_a_deadline_that_is_none_is_refused(deadline: Any) -> None:
    with pytest.raises(ConfigError, match="deadline_s"):
        reward_func_from(R.math_equal(), deadline_s=deadline)


def test_lists_of_any_length_come_back_in_order_with_the_same_keys() -> None:
    reward_func = reward_func_from(R.math_equal() + 0.5 * R.boxed_format())
    keys = set(one(reward_func)["extra_logs"])
    for n in (0, 1, 3):
        answer = reward_func([QUERY, "2+2? 5", "2+2? \\boxed{5}"][:n], [PROMPT] * n, ["4"] * n)
        assert answer["rewards"] == [1.5, 0.0, 0.5][:n]
        assert answer["scores"] == [1.0, 0.0, 0.0][:n]
        assert set(answer["extra_logs"]) == keys
        assert {len(values) for values in answer["extra_logs"].values()} == {n}


def test_an_answer_is_plain_floats_that_json_can_write() -> None:
    answer = one(reward_func_from(R.math_equal() + 0.5 * R.boxed_format()))
    assert all(type(v) is float for v in [*answer["rewards"], *answer["scores"], *(x for vs in answer["extra_logs"].values() for x in vs)])
    json.dumps(answer, allow_nan=False)


def test_a_row_that_cannot_be_read_is_an_error_and_its_neighbours_are_scored(caplog: pytest.LogCaptureFixture) -> None:
    reward_func = reward_func_from(R.math_equal(), on_abstain=OnAbstain("fill", -0.5))
    with caplog.at_level(logging.WARNING, "guerdon"):
        answer = reward_func([QUERY, "another 4", QUERY, None], [PROMPT] * 4, ["4"] * 4)
        reward_func(["x"], ["y"], ["4"])
    assert answer["rewards"] == [1.0, -0.5, 1.0, -0.5]
    assert answer["scores"] == [1.0, 0.0, 1.0, 0.0]
    assert answer["extra_logs"]["guerdon/rows/error"] == [0.0, 1.0, 0.0, 1.0]
    assert answer["extra_logs"]["guerdon/no_outcome"] == [0.0, 1.0, 0.0, 1.0]
    assert caplog.text.count("could not be read") == 1


def test_a_prompt_that_cannot_be_found_never_lends_its_examples_to_the_answer() -> None:
    few_shot = "Q: 2+2? A: \\boxed{4}\nQ: 3+3? A:"
    answer = reward_func_from(R.math_equal())(["Q: 2+2? B: \\boxed{4}\nQ: 3+3? A: I do not know"], [few_shot], ["4"])
    assert answer["extra_logs"]["guerdon/abstained"] == [1.0]


@pytest.mark.parametrize(
    "call",
    [
        ([QUERY], [PROMPT], []),
        ([QUERY], [], ["4"]),
        ([QUERY], None, ["4"]),
        (None, None, None),
        ([object()], [PROMPT], ["4"]),
        ([QUERY], [PROMPT], [object()]),
        ([QUERY], [PROMPT], [math.nan]),
        ([QUERY], [PROMPT], [b"4"]),
        (["\ud800 4"], ["\udfff"], ["\ud800"]),
    ],
)
def test_nothing_that_comes_in_makes_it_raise(call: Any) -> None:
    answer = reward_func_from(R.math_equal())(*call)
    assert len(answer["rewards"]) == 1
    assert answer["extra_logs"]["guerdon/abstained"] == [1.0]


def test_unlabelled_data_has_no_reference() -> None:
    answer = reward_func_from(R.math_equal())([QUERY], [PROMPT], None)
    assert answer["extra_logs"]["guerdon/rows/bad_reference"] == [1.0]


@pytest.mark.filterwarnings("ignore:reward .* could not be scored:RuntimeWarning")
@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, -math.inf, 1e20, 1e39, -1e300, 10**400, "1", RuntimeError("x"), SystemExit(1), MemoryError()]
)
def test_no_value_and_no_exception_of_a_term_reaches_the_trainer(bad: Any) -> None:
    def f(rollout: Rollout) -> Any:
        if isinstance(bad, BaseException):
            raise bad
        return bad

    answer = one(user(f))
    numbers = [*answer["rewards"], *answer["scores"], *(x for vs in answer["extra_logs"].values() for x in vs)]
    assert all(abs(x) < 3.5e38 for x in numbers)
    assert answer["rewards"] == [0.0]
    assert answer["scores"] == [1.0]
    assert answer["extra_logs"]["guerdon/abstained"] == [1.0]
    assert answer["extra_logs"]["guerdon/rows/error"] == [1.0]
    assert answer["extra_logs"]["guerdon/user/scored"] == [0.0]


def test_a_sum_beyond_float32_is_no_reward() -> None:
    answer = one(reward_func_from(R.math_equal() + 1e30 * R.from_function(lambda r: 1e20, name="user")))
    assert answer["rewards"] == [0.0]
    assert answer["extra_logs"]["guerdon/abstained"] == [1.0]
    assert answer["extra_logs"]["guerdon/rows/error"] == [1.0]


@pytest.mark.filterwarnings("ignore:reward .* could not be scored:RuntimeWarning")
def test_a_term_that_hangs_ends_at_the_deadline() -> None:
    start = time.monotonic()
    answer = one(user(lambda r: time.sleep(20), deadline_s=0.5))
    assert time.monotonic() - start < 5
    assert (answer["scores"], answer["extra_logs"]["guerdon/rows/error"]) == ([1.0], [1.0])


@pytest.mark.filterwarnings("ignore:reward .* could not be scored:RuntimeWarning")
def test_a_missing_column_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    reward_func = reward_func_from(R.math_equal(column="solution"))
    with caplog.at_level(logging.WARNING, "guerdon"):
        for _ in range(200):
            answer = one(reward_func)
    assert answer["extra_logs"]["guerdon/rows/bad_reference"] == [1.0]
    assert caplog.text.count("a row abstains: math_equal is bad_reference missing_reference") == 1
    assert one(reward_func, label='{"solution": "4"}')["rewards"] == [1.0]


def test_columns_of_the_label_reach_the_terms() -> None:
    reward_func = reward_func_from(R.by_column("kind", {"m": R.math_equal(), "e": 2.0 * R.exact()}))
    answer = one(reward_func, "4", '{"answer": "4", "kind": "e"}')
    assert answer["rewards"] == [2.0]
    assert answer["extra_logs"]["guerdon/exact/weight"] == [2.0]
    assert answer["extra_logs"]["guerdon/math_equal/scored"] == [0.0]


def test_two_metrics_of_one_name_are_refused() -> None:
    routed = R.by_column("kind", {"a": R.math_equal(name="x"), "b": R.exact(name="x/weight")})
    with pytest.raises(ConfigError, match="would stand for two things"):
        reward_func_from(routed)


@pytest.mark.parametrize("where", ["beside the reward file", "in the working folder", "both"])
def test_relative_paths_start_from_the_reward_file_then_the_working_folder(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, cwd = tmp_path / "there", tmp_path / "cwd"
    there.mkdir()
    cwd.mkdir()
    (there / "reward_file.py").write_text(
        "from guerdon.backends.openrlhf import reward_func_from\nreward_func = reward_func_from('mine.py:reward')\n"
    )
    text = "import guerdon.rewards as R\nreward = R.exact(name={!r})\n"
    if where != "in the working folder":
        (there / "mine.py").write_text(text.format("there"))
    if where != "beside the reward file":
        (cwd / "mine.py").write_text(text.format("cwd"))
    monkeypatch.chdir(cwd)
    import importlib.util

    spec = importlib.util.spec_from_file_location("reward_func", "../there/reward_file.py")  # as OpenRLHF does
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.reward_func.reward.name == ("cwd" if where == "in the working folder" else "there")
    monkeypatch.chdir(tmp_path)
    assert pickle.loads(pickle.dumps(module.reward_func)).reward == module.reward_func.reward


def test_a_reward_that_is_nowhere_is_refused_when_built() -> None:
    with pytest.raises(LoadError, match="no such file"):
        reward_func_from("nowhere.py:reward")


def test_another_process_loads_the_pickled_function(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import guerdon.rewards as R\ndef mine(r): return 0.25\nreward = R.math_equal() + R.from_function(mine)\n"
    )
    data = pickle.dumps(reward_func_from(f"{tmp_path}/mine.py:reward"))
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(['Q 4'], ['Q '], ['4'])['rewards'])"
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[1.25]"


def test_two_hundred_and_fifty_six_calls_at_once_each_get_their_own_answer() -> None:
    reward_func = reward_func_from(R.math_equal() + 0.5 * R.boxed_format())

    def call(i: int) -> float:
        return float(reward_func([f"Q {i} \\boxed{{{i}}}"], [f"Q {i} "], [str(i if i % 2 else i + 1)])["rewards"][0])

    with ThreadPoolExecutor(64) as pool:
        assert list(pool.map(call, range(256))) == [1.5 if i % 2 else 0.5 for i in range(256)]

    async def in_loop() -> list[float]:
        return await asyncio.gather(*(asyncio.to_thread(call, i) for i in range(64)))

    assert asyncio.run(in_loop()) == [1.5 if i % 2 else 0.5 for i in range(64)]


def test_the_example_scores_a_completion() -> None:
    example = load(f"{Path(__file__).parents[2]}/examples/openrlhf_reward.py:reward_func")
    assert example([PROMPT + "\\boxed{4}<|im_end|>"], [PROMPT], ["4"])["rewards"] == [1.2]


def test_importing_the_door_loads_neither_torch_nor_openrlhf() -> None:
    code = (
        "import sys, guerdon.backends.openrlhf, guerdon.backends.openrlhf.launch as l; "
        "print([m for m in ('torch', 'openrlhf', 'ray', 'aiohttp', 'numpy', 'sympy') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.strip() == "[]"
