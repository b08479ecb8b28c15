"""verl's reward function without verl: what it takes, what it gives, and that nothing in a row makes it raise, hang or forget."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import math
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guerdon.rewards as R
from guerdon import Abstain, OnAbstain, Rollout
from guerdon.backends.verl import ABSTAINED, ComputeScore, acompute_score, acompute_score_from, compute_score, compute_score_from
from guerdon.errors import AbstentionError, BrokenRewardError, ConfigError, MissingInput

MOODS = {"none": None, "nan": math.nan, "inf": math.inf, "huge": 1e30, "text": "x"}


def moody(rollout: Rollout) -> Any:
    """Does what the completion's first word says."""
    mood = rollout.completion.split()[0]
    if mood == "raises":
        raise ValueError("no")
    if mood == "abstains":
        raise Abstain("on purpose")
    if mood == "exits":
        raise SystemExit(3)
    if mood == "hangs":
        time.sleep(5.0)
    return MOODS.get(mood, 0.5)


def mooded(**options: Any) -> ComputeScore:
    return compute_score_from(R.math_equal() + R.from_function(moody), deadline_s=0.5, **options)


def call(score: Any, text: str, truth: Any = "4", extra: Any = None, source: str = "gsm8k") -> dict[str, float]:
    row = score(data_source=source, solution_str=text, ground_truth=truth, extra_info={} if extra is None else extra)
    assert isinstance(row, dict)
    return row


@pytest.mark.parametrize(
    ("mood", "flag"),
    [
        ("raises", "error"),
        ("exits", "error"),
        ("nan", "error"),
        ("inf", "error"),
        ("huge", "error"),
        ("text", "error"),
        ("hangs", "error"),
        ("abstains", "unscored"),
    ],
)
@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_row_that_goes_wrong_is_finite_counted_and_in_time(mood: str, flag: str, way: str) -> None:
    score, start = mooded(), time.monotonic()
    text = f"{mood} \\boxed{{4}}"
    row = call(score, text) if way == "sync" else asyncio.run(score.acompute("gsm8k", text, "4", {}))
    assert time.monotonic() - start < 3.0
    assert all(type(value) is float and math.isfinite(value) and abs(value) < 1e19 for value in row.values())
    assert (row["score"], row["acc"], row["guerdon/abstained"], row[f"guerdon/rows/{flag}"]) == (ABSTAINED, 1.0, 1.0, 1.0)
    assert tuple(row) == score.keys


def test_other_rows_are_scored_as_ever_and_every_row_has_the_same_keys() -> None:
    score = mooded()
    rows = [call(score, text) for text in ("ok \\boxed{4}", "none \\boxed{4}", "ok \\boxed{5}")]
    assert [row["score"] for row in rows] == [1.5, 1.0, 0.5]
    assert [row["acc"] for row in rows] == [1.0, 1.0, 0.0]
    assert [row["guerdon/moody/scored"] for row in rows] == [1.0, 0.0, 1.0]
    assert {tuple(row) for row in rows} == {score.keys}


def test_data_sources_share_their_keys_whatever_route_a_row_takes() -> None:
    reward = R.by_column("data_source", {"gsm8k": R.math_equal(), "mmlu": 2.0 * R.choice()})
    score = compute_score_from(reward)
    rows = [call(score, "\\boxed{4}"), call(score, "(B)", "B", source="mmlu"), call(score, "x", source="unheard of")]
    assert [tuple(row) for row in rows] == [score.keys] * 3
    assert [row["score"] for row in rows] == [1.0, 2.0, ABSTAINED]
    assert rows[2]["guerdon/rows/bad_reference"] == 1.0


@pytest.mark.parametrize(
    "truth",
    [
        json.dumps({"inputs": ["1\n"], "outputs": ["1\n"]}),
        {"inputs": np.array(["1\n"], dtype=object), "outputs": np.array(["1\n"], dtype=object)},
        {"inputs": ["1\n"], "outputs": ["1\n"]},
    ],
    ids=["json", "numpy", "lists"],
)
def test_tests_reach_the_code_reward_however_parquet_held_them(truth: Any) -> None:
    row = call(compute_score_from(R.code_tests()), "```python\nprint(input())\n```", truth)
    assert (row["score"], row["acc"]) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("truth", "flag"), [(None, "bad_reference"), (np.float64(4.0), ""), (np.int64(4), ""), (np.str_("4"), ""), (4, "")]
)
def test_references_of_any_type(truth: Any, flag: str) -> None:
    row = call(compute_score_from(R.math_equal()), "\\boxed{4}", truth)
    assert row["guerdon/rows/bad_reference"] == float(flag == "bad_reference")
    assert row["acc"] == float(not flag)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_float_of_fewer_bits_means_the_decimal_it_was_made_of(kind: str, shape: tuple[int, ...]) -> None:
    truth: Any = np.full(shape, 0.1, dtype=kind)
    truth = {"any_of": truth} if shape else truth[()]
    assert call(compute_score_from(R.math_equal()), "\\boxed{0.1}", truth)["acc"] == 1.0


@pytest.mark.parametrize("uid", [[1], np.array([1]), {"a": 1}, ([1],)])
def test_a_data_column_called_uid_may_hold_anything(uid: Any) -> None:
    assert call(compute_score_from(R.math_equal()), "\\boxed{4}", extra={"uid": uid})["acc"] == 1.0


def test_columns_are_plain_copies_and_the_row_of_verl_is_not_changed() -> None:
    seen: dict[str, Any] = {}

    def meddles(rollout: Rollout) -> float:
        seen.update(rollout.columns, prompt=rollout.prompt)
        rollout.columns["tests"].append("mine")
        return 1.0

    extra = {"index": np.int64(7), "tests": np.array(["a"], dtype=object), "nested": {"x": np.float32(0.5)}, "prompt": "2+2?"}
    before = repr(extra)
    score = compute_score_from(R.from_function(meddles))
    score(data_source=np.str_("gsm8k"), solution_str="x", ground_truth="4", extra_info=extra, reward_router_address="host:1")
    assert repr(extra) == before
    assert seen["prompt"] == "2+2?"
    assert (seen["index"], seen["nested"], seen["data_source"], seen["reward_router_address"]) == (7, {"x": 0.5}, "gsm8k", "host:1")
    assert type(seen["index"]) is int


@pytest.mark.parametrize("broken", [{"solution_str": None}, {"extra_info": {"prompt": 7}}, {"extra_info": "text"}])
def test_a_row_that_cannot_be_read_is_counted_and_logged(broken: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    score = compute_score_from(R.math_equal())
    with caplog.at_level(logging.ERROR, "guerdon"):
        row = score(**{"data_source": "d", "solution_str": "x", "ground_truth": "4", "extra_info": {}, **broken})
    assert isinstance(row, dict)
    assert (row["guerdon/rows/error"], tuple(row)) == (1.0, score.keys)
    assert "cannot be read" in caplog.text


@pytest.mark.parametrize(("policy", "expected"), [(OnAbstain(), ABSTAINED), (OnAbstain("fill", -1.0), -1.0)])
def test_what_an_abstention_becomes(policy: OnAbstain, expected: float) -> None:
    assert call(mooded(on_abstain=policy), "abstains")["score"] == expected


def test_an_abstention_raises_where_it_was_asked_to() -> None:
    with pytest.raises(AbstentionError):
        call(mooded(on_abstain=OnAbstain("raise")), "abstains")


def test_the_mark_of_an_abstention_is_exact_in_float32_and_nothing_beside_a_reward() -> None:
    assert float(np.float32(ABSTAINED)) == ABSTAINED > np.finfo(np.float32).tiny
    assert np.float32(1e-6) + np.float32(ABSTAINED) == np.float32(1e-6)


@pytest.mark.parametrize("limit", [1.0, 0.5])
def test_a_reward_that_is_mostly_broken_raises_if_it_was_asked_to(limit: float) -> None:
    def broken(rollout: Rollout) -> float:
        raise ValueError("no")

    score = compute_score_from(R.from_function(broken, name=f"broken_{limit}"), max_broken=limit)

    def ends_with() -> type[Exception] | None:
        try:
            for _ in range(130):
                call(score, "x")
        except BrokenRewardError as error:
            return type(error)
        return None

    with pytest.warns(RuntimeWarning, match="could not be scored"):
        ended = ends_with()
    assert ended == (None if limit == 1.0 else BrokenRewardError)


@pytest.mark.parametrize("how", ["no verifier", "with_outcome"])
def test_acc_is_absent_from_all_rows_unless_something_gives_an_outcome(how: str) -> None:
    reward = R.boxed_format() if how == "no verifier" else R.boxed_format().with_outcome("boxed_format")
    assert ("acc" in call(compute_score_from(reward), "\\boxed{4}")) == (how == "with_outcome")


def test_brief_rows_hold_no_details() -> None:
    row = call(compute_score_from(R.math_equal() + 0.2 * R.boxed_format(), brief=True), "\\boxed{4}")
    assert list(row) == ["score", "acc", "guerdon/abstained", "guerdon/no_outcome", "guerdon/math_equal", "guerdon/boxed_format"]


@pytest.mark.parametrize(
    ("term", "reads", "fix"),
    [
        (R.soft_overlong(max_tokens=8, cache=2), "num_tokens", "GuerdonRewardManager"),
        (R.abstain_if_truncated(R.exact()), "truncated", "GuerdonRewardManager"),
        (R.distinct(), "group", "leave the term out"),
        (R.from_function(len, name="chat", reads=("messages",)), "messages", "decoded text"),
    ],
)
def test_what_verl_does_not_carry_is_refused_when_built(term: Any, reads: str, fix: str) -> None:
    with pytest.raises(MissingInput, match=f"reads '{reads}'.*{fix}"):
        compute_score_from(R.math_equal() + term)


@pytest.mark.parametrize(
    "options",
    [
        {"deadline_s": 0},
        {"deadline_s": math.inf},
        {"deadline_s": math.nan},
        {"deadline_s": "60"},
        {"deadline_s": None},
        {"deadline_s": True},
        {"on_abstain": "drop"},
        {"on_abstain": OnAbstain("fill", 1e19)},
        {"max_broken": 1.5},
        {"max_broken": -0.1},
        {"max_broken": None},
        {"max_broken": "half"},
        {"brief": "no"},
    ],
    ids=str,
)
def test_bad_options_are_refused_when_built(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"verl's compute_score: {next(iter(options))} expects"):
        compute_score_from(R.math_equal(), **options)


@pytest.fixture
def reward_file(tmp_path: Path) -> Path:
    file = tmp_path / "my_reward.py"
    file.write_text("import guerdon.rewards as R\nreward = R.math_equal() + 0.2 * R.boxed_format()\n")
    return file


def test_the_package_itself_is_a_reward_file_with_the_reward_among_its_kwargs(reward_file: Path) -> None:
    options = {"reward": f"{reward_file}:reward", "on_abstain": "fill", "fill": -1, "strict": True}
    assert call(partial(compute_score, **options), "\\boxed{4}")["score"] == 1.2
    assert call(partial(compute_score, **options), "\\boxed{4}", None)["score"] == -1.0
    row = asyncio.run(acompute_score("d", "\\boxed{4}", "4", {}, **options))
    assert (row["score"], row["acc"]) == (1.2, 1.0)


def test_the_first_rows_may_come_in_many_threads_at_once(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.3)\nimport guerdon.rewards as R\nreward = R.math_equal()\n")
    score = partial(compute_score, reward=f"{tmp_path}/slow.py:reward")
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda _: call(score, "\\boxed{4}"), range(8)))
    assert [row["acc"] for row in rows] == [1.0] * 8


@pytest.mark.parametrize("options", [{"reward": ["a"]}, {"reward": "math:tau", "deadline_s": {}}])
def test_options_that_are_no_plain_values_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="reward_kwargs expects plain values"):
        compute_score("d", "x", "4", {}, **options)


def test_without_a_reward_the_package_says_how_to_name_one() -> None:
    with pytest.raises(ConfigError, match=r"\+reward.custom_reward_function.reward_kwargs.reward=file.py:reward"):
        compute_score("d", "x", "4", {})


def test_main_eval_passes_three_arguments_and_gets_a_number_it_can_take_the_mean_of(caplog: pytest.LogCaptureFixture) -> None:
    score = compute_score_from(R.math_equal() + 0.2 * R.boxed_format())
    with caplog.at_level(logging.WARNING, "guerdon"):
        assert np.mean([score("d", text, "4") for text in ("\\boxed{4}", "\\boxed{5}")]) == 0.5
        assert not caplog.text
        assert score("d", "x", None) == 0.0
    assert "counts as 0 in main_eval" in caplog.text


@pytest.mark.parametrize("spec", ["file", "object"])
def test_functions_are_picklable_and_told_apart_by_verls_own_test(spec: str, reward_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(reward_file.parent)
    reward = "my_reward.py:reward" if spec == "file" else R.math_equal() + 0.2 * R.boxed_format()
    sync, awaited = compute_score_from(reward), acompute_score_from(reward)
    assert [inspect.iscoroutinefunction(f) for f in (sync, partial(sync), awaited, partial(awaited))] == [False, False, True, True]
    monkeypatch.chdir("/")
    again, awaited_again = pickle.loads(pickle.dumps((sync, awaited)))
    assert again == sync
    assert call(again, "\\boxed{4}")["score"] == asyncio.run(awaited_again("d", "\\boxed{4}", "4", {}))["score"] == 1.2


def test_many_rows_at_once_from_threads_and_on_a_loop() -> None:
    score = compute_score_from(R.math_equal() + 0.2 * R.boxed_format())
    texts = [f"\\boxed{{{i % 3 + 3}}}" for i in range(60)]

    async def both() -> tuple[list[Any], list[Any]]:
        loop = asyncio.get_running_loop()
        threads = asyncio.gather(*(loop.run_in_executor(None, partial(call, score, text)) for text in texts))
        return await threads, await asyncio.gather(*(score.acompute("d", text, "4", {}) for text in texts))

    in_threads, on_loop = asyncio.run(both())
    assert in_threads == on_loop
    assert [row["acc"] for row in on_loop] == [float(i % 3 == 1) for i in range(60)]


def test_importing_the_door_loads_neither_verl_nor_torch() -> None:
    code = (
        "import sys, guerdon.backends.verl as v, guerdon.backends.verl.plugin; v.compute_score, v.acompute_score, v.ESTIMATORS; "
        "print([m for m in ('torch', 'verl', 'ray', 'omegaconf') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("truth", ['{"answer": "4", "source": "a"}', {"answer": "4", "source": "a"}])
def test_a_label_that_holds_the_answer_is_unpacked(truth: Any) -> None:
    seen: list[Any] = []
    reward = R.math_equal() + R.from_function(lambda r: seen.append(r.columns) or 1.0, name="seen")
    assert call(compute_score_from(reward), "\\boxed{4}", truth, extra={"index": 3})["acc"] == 1.0
    assert {"source": "a", "index": 3}.items() <= seen[0].items()


def test_tests_and_other_objects_reach_the_term_whole() -> None:
    row = call(compute_score_from(R.math_equal()), "\\boxed{4}", '{"solution": "4"}')
    assert (row["acc"], row["guerdon/rows/bad_reference"]) == (0.0, 1.0)


def test_an_option_that_looks_misspelt_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "guerdon"):
        compute_score("x", "\\boxed{4}", "4", {}, reward="examples/gsm8k_reward.py:reward", deadline=30, index=1)
    assert "'deadline' is a column; the option is called 'deadline_s'" in caplog.text
    assert "index" not in caplog.text
