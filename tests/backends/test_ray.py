"""Scoring in Ray pipelines, without a cluster: what goes in and out of a batch, and what is refused before a pipeline runs."""

from __future__ import annotations

import asyncio
import math
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import guerdon.rewards as R
from guerdon import OnAbstain, Rollout
from guerdon.backends.ray import RewardActor, score_dataset
from guerdon.backends.ray.dataset import plan
from guerdon.errors import AbstentionError, ConfigError, DataError, MissingInput

pyarrow = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")

REWARD = R.math_equal() + 0.5 * R.boxed_format()


def row(i: int) -> dict[str, Any]:
    """Right, wrong, without a box, and without an answer."""
    completion = "no idea" if i % 4 == 2 else f"\\boxed{{{i % 2}}}"
    answer = None if i % 4 == 3 else "0"
    return {"id": i, "prompt_id": f"p{i // 4}", "completion": completion, "answer": answer, "nested": {"k": [i]}, "list": [1] * (i % 3)}


def rows(n: int = 12) -> list[dict[str, Any]]:
    return [row(i) for i in range(n)]


def rollouts(data: list[dict[str, Any]]) -> list[Rollout]:
    return [Rollout(r["completion"], answer=r["answer"], group=r["prompt_id"]) for r in data]


def batch(data: list[dict[str, Any]], kind: str) -> Any:
    table = pyarrow.Table.from_pylist(data)
    if kind == "pyarrow":
        return table
    frame = table.to_pandas()
    return frame if kind == "pandas" else {name: frame[name].to_numpy() for name in frame.columns}


def cells(found: Any, name: str) -> list[Any]:
    column = found[name]
    if hasattr(column, "to_pylist"):
        return list(column.to_pylist())
    return [None if value is pandas.NA else value for value in column]


KINDS = pytest.mark.parametrize("kind", ["pyarrow", "pandas", "numpy"])


@KINDS
def test_a_batch_gets_what_the_reward_gives(kind: str) -> None:
    data = rows()
    found, scores = RewardActor(REWARD)(batch(data, kind)), REWARD.score(rollouts(data))
    assert cells(found, "reward") == scores.totals()
    assert None in scores.totals()
    assert cells(found, "outcome") == [verdict.score for verdict in scores.outcomes]
    assert cells(found, "abstained") == [total is None for total in scores.totals()]
    for name in scores.names:
        assert cells(found, f"guerdon/{name}") == [verdict.score for verdict in scores.verdicts[name]]
        assert cells(found, f"guerdon/{name}/status") == [str(verdict.status) for verdict in scores.verdicts[name]]


@KINDS
def test_other_columns_and_their_order_stay(kind: str) -> None:
    given = batch(rows(), kind)
    found = RewardActor(REWARD)(given)
    for name in given if kind != "pyarrow" else given.column_names:
        assert type(found[name]) is type(given[name])
        assert str(found[name]) == str(given[name])


def test_types_do_not_depend_on_what_a_block_holds() -> None:
    actor = RewardActor(REWARD, detail=True)
    usual, empty = actor(batch(rows(), "pyarrow")), actor(batch(rows(), "pyarrow").slice(0, 0))
    nothing = [dict.fromkeys(row(0)), {**row(1), "completion": None}]
    lost = actor(pyarrow.Table.from_pylist(nothing, schema=batch(rows(), "pyarrow").schema))
    assert usual.schema == empty.schema == lost.schema
    assert pyarrow.concat_tables([usual, empty, lost]).num_rows == 14
    assert cells(lost, "reward") == [None, None]
    untyped = actor(pyarrow.table({"completion": pyarrow.nulls(2), "answer": pyarrow.nulls(2)}))
    assert untyped.schema.field("reward").type == pyarrow.float64()
    assert cells(untyped, "guerdon/math_equal/status") == ["error", "error"]


def test_what_a_row_gets_does_not_depend_on_its_neighbours() -> None:
    actor, data = RewardActor(REWARD), rows()
    assert [actor.score([one])[0] for one in data] == actor.score(data)


def judge(rollout: Rollout) -> Any:
    todo = rollout.columns["todo"]
    if todo == "raise":
        raise RuntimeError("broken")
    if todo == "hang":
        time.sleep(60)
    return {"none": None, "nan": math.nan, "inf": math.inf}.get(todo, 1.0)


@pytest.mark.parametrize(
    ("todo", "status"), [("raise", "error"), ("none", "not_applicable"), ("nan", "error"), ("inf", "error"), ("hang", "error")]
)
def test_a_row_that_breaks_the_reward_is_null_and_the_rows_before_it_are_scored(todo: str, status: str) -> None:
    data = [{**row(0), "todo": "fine"}, {**row(0), "todo": todo}]
    start = time.monotonic()
    found = RewardActor(R.from_function(judge, name="judge"), deadline_s=1.0)(batch(data, "pyarrow"))
    assert cells(found, "reward") == [1.0, None]
    assert cells(found, "guerdon/judge/status") == ["scored", status]
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(
    ("reward", "broken"),
    [
        (REWARD, {"completion": None}),
        (REWARD, {"completion": 3}),
        (REWARD, {"completion": [3]}),
        (REWARD, {"completion": [{"content": "no role"}]}),
        (REWARD, {"num_tokens": "many"}),
        (REWARD + R.soft_overlong(max_tokens=9, cache=3), {"num_tokens": None}),
        (REWARD + R.soft_overlong(max_tokens=9, cache=3), {"num_tokens": math.nan}),
    ],
)
def test_a_row_that_cannot_be_read_is_an_error_with_a_reason_and_costs_no_other_row(reward: Any, broken: dict[str, Any]) -> None:
    good = {**row(0), "num_tokens": 4}
    found = RewardActor(reward, detail=True).score([good, {**good, **broken}, good])
    assert [r["reward"] for r in found] == [1.5, None, 1.5]
    assert [r["abstained"] for r in found] == [False, True, False]
    assert (found[1]["guerdon/math_equal/status"], found[1]["guerdon/math_equal/reason"]) == ("error", "bad_column")
    assert next(iter(broken)) in found[1]["guerdon/math_equal/detail"] or "role" in found[1]["guerdon/math_equal/detail"]


def test_invalid_utf8_in_a_column_stops_nothing() -> None:
    bad = pyarrow.array([b"\\boxed{0}\xff", b"\\boxed{0}"]).view(pyarrow.string())
    found = RewardActor(REWARD)(pyarrow.table({"completion": bad, "answer": ["0", "0"]}))
    assert cells(found, "reward") == [1.5, 1.5]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")  # of its own options
def test_tensors_and_objects_of_ray_are_read_as_lists() -> None:
    numpy, arrow = pytest.importorskip("numpy"), pytest.importorskip("ray.data.extensions")
    chats = [[{"role": "assistant", "content": "\\boxed{0}"}], [{"role": "assistant", "content": "no"}]]
    table = pyarrow.table(
        {
            "completion": arrow.ArrowPythonObjectArray.from_objects(chats),
            "answer": ["0", "0"],
            "token_ids": arrow.ArrowTensorArray.from_numpy(numpy.array([[1, 2, 3], [4, 5, 6]])),
        }
    )
    reward = R.math_equal() + R.from_function(count_tokens, name="count", reads=("token_ids", "messages"))
    assert cells(RewardActor(reward)(table), "reward") == [4.0, 3.0]


def count_tokens(rollout: Rollout) -> int:
    assert rollout.messages
    return len(rollout.token_ids or ())


def test_columns_map_as_on_the_command_line() -> None:
    found = RewardActor(R.exact(), columns={"completion": "said", "answer": "gold"}).score([{"said": "a", "gold": "a", "text": "b"}])
    assert found[0]["outcome"] == 1.0


def test_two_candidates_are_refused_with_both() -> None:
    with pytest.raises(DataError, match=r"'text' or 'response': say which with columns=\{'completion': 'text'\}"):
        RewardActor(R.exact()).score([{"text": "a", "response": None, "answer": "a"}])


def test_rows_of_several_rollouts_get_lists_and_hold_whole_groups() -> None:
    reward = R.exact() + 0.5 * R.duplicate_penalty()
    data: list[dict[str, Any]] = [
        {"prompt": "p", "answer": "a", "rollouts": [{"text": "a"}, {"text": "b"}, {"text": "b"}]},
        {"prompt": "q", "answer": "a", "rollouts": None},
        {"prompt": "p", "answer": "b", "rollouts": [{"text": "b"}]},
    ]
    table = RewardActor(reward)(pyarrow.Table.from_pylist(data))
    expected = [reward.score([Rollout(t["text"], answer=r["answer"]) for t in r["rollouts"] or ()]).totals() for r in data]
    assert cells(table, "reward") == expected
    assert expected[0][1] != expected[0][0] - 1.0  # the penalty is there
    assert table.schema.field("outcome").type == pyarrow.list_(pyarrow.float64())
    assert RewardActor(reward)(table.select(["prompt", "answer", "rollouts"]).slice(0, 0)).schema == table.schema
    assert [r["reward"] for r in RewardActor(reward).score(data)] == expected
    with pytest.raises(ConfigError, match="batch_format='pyarrow'"):
        RewardActor(reward)(pyarrow.Table.from_pylist(data).to_pandas())


def test_rewards_that_read_the_group_are_refused_where_groups_may_be_split() -> None:
    reward, table = R.exact() + R.distinct(), batch(rows(), "pyarrow")
    with pytest.raises(ConfigError, match="group_by"):
        RewardActor(reward)(table)
    found = RewardActor(reward, group_by="prompt_id")(table)
    assert cells(found, "reward") == reward.score(rollouts(rows())).totals()


def test_what_no_column_gives_is_refused_with_the_fix() -> None:
    lengthy = REWARD + R.soft_overlong(max_tokens=9, cache=3)
    with pytest.raises(MissingInput, match=r"soft_overlong reads 'num_tokens'.*columns=\{'num_tokens': KEY\}"):
        RewardActor(lengthy).score(rows())
    with pytest.raises(MissingInput, match=r"math_equal reads 'answer'.*columns=\{'answer': KEY\}.*the columns are completion, gold"):
        RewardActor(REWARD).score([{"completion": "1", "gold": "1"}])
    assert RewardActor(lengthy).score([{**row(0), "token_ids": [1, 2]}])[0]["reward"] == 1.5


def test_a_route_that_no_row_takes_asks_for_no_column() -> None:
    reward = R.by_column("source", {"math": R.math_equal(), "other": R.exact(column="gold")})
    assert RewardActor(reward).score([{**row(0), "source": "math"}])[0]["reward"] == 1.0


def test_columns_that_are_there_are_not_replaced() -> None:
    with pytest.raises(ConfigError, match=r"has the columns reward, which scoring adds: ds.drop_columns\(\['reward'\]\)"):
        RewardActor(REWARD).score([{**row(0), "reward": 0.0}])


def test_rows_without_a_reward_are_filled_or_refused_on_request() -> None:
    filled = RewardActor(REWARD, on_abstain=OnAbstain("fill", -1.0)).score([row(3)])[0]
    assert (filled["reward"], filled["abstained"]) == (-1.0, True)
    with pytest.raises(AbstentionError):
        RewardActor(REWARD, on_abstain=OnAbstain("raise")).score([row(3)])


async def slow_judge(rollout: Rollout) -> float:
    await asyncio.sleep(0)
    return 0.25


def test_scoring_from_an_event_loop_is_the_same() -> None:
    actor = RewardActor(REWARD + R.from_function(slow_judge, name="judge"))
    assert asyncio.run(actor.ascore(rows())) == actor.score(rows())
    assert actor.score([]) == []


def test_an_actor_travels_and_takes_import_strings(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import guerdon.rewards as R\nreward = R.math_equal() + 0.5 * R.boxed_format()\n")
    actor = RewardActor(f"{tmp_path}/mine.py:reward")
    assert pickle.loads(pickle.dumps(actor)).score(rows()) == RewardActor(REWARD).score(rows())


def test_importing_it_loads_neither_ray_nor_frames() -> None:
    code = "import sys, guerdon.backends.ray as r; print([m for m in ('ray', 'pandas', 'pyarrow', 'numpy', 'torch') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("nodes", [[1.0], [2.0], [16.0], [1.0, 1.0], [2.0] * 8, [0.0, 64.0], [1.0] * 5 + [3.0], [128.0] * 4])
def test_the_default_pool_leaves_a_whole_cpu_on_some_node_wherever_actors_land(nodes: list[float]) -> None:
    least, most, cpus = plan(nodes, None, None)
    assert 1 <= least == most <= sum(nodes)
    hosts = [n for n in nodes if n]
    # at worst each node but the last keeps just less than a CPU
    assert cpus == 0 or sum(hosts) - least * cpus >= len(hosts)


@pytest.mark.parametrize(("nodes", "concurrency", "cpus"), [([2.0], 2, 1.0), ([2.0], 3, 1.0), ([1.0], 1, 0.5), ([4.0], (4, 8), 1.0)])
def test_a_pool_that_would_hold_every_cpu_is_refused(nodes: list[float], concurrency: Any, cpus: float) -> None:
    with pytest.raises(ConfigError, match=r"would wait for ever; lower concurrency= or num_cpus="):
        plan(nodes, concurrency, cpus)


@pytest.mark.parametrize(("nodes", "concurrency", "cpus"), [([2.0], 1, 1.0), ([2.0], (1, 64), 1.0), ([0.0], 8, 1.0), ([1.0], 4, 0.0)])
def test_other_pools_are_taken_as_asked(nodes: list[float], concurrency: Any, cpus: float) -> None:
    least, _, each = plan(nodes, concurrency, cpus)
    assert (least, each) == (concurrency if isinstance(concurrency, int) else concurrency[0], cpus)


@pytest.mark.parametrize("concurrency", [0, -1, True, 1.5, (2, 1), (1, 2, 3)])
def test_a_pool_of_no_size_is_refused(concurrency: Any) -> None:
    with pytest.raises(ConfigError, match="concurrency: expected"):
        plan([8.0], concurrency, None)


@pytest.mark.parametrize(
    "options",
    [
        *({"deadline_s": bad} for bad in (0, -1, math.inf, math.nan, "5", True)),
        *({"max_broken": bad} for bad in (5, -0.1, math.nan, "x", None)),
        *({"on_abstain": bad} for bad in ("zero", 0.0, OnAbstain)),
        *({"columns": bad} for bad in (["answer"], "answer", {"answer": 1})),
        *({"group_by": bad} for bad in (3, "", ["a", "b"])),
    ],
)
def test_settings_that_no_row_could_be_scored_with_are_refused_before_the_start(options: dict[str, Any]) -> None:
    for start in (lambda: RewardActor(REWARD, **options), lambda: score_dataset(None, REWARD, **options)):
        with pytest.raises(ConfigError, match=next(iter(options))):
            start()


@pytest.mark.parametrize("option", ["fn_constructor_kwargs", "compute"])
def test_options_of_ray_that_would_undo_the_stage_are_refused(option: str) -> None:
    with pytest.raises(ConfigError, match="set by score_dataset itself"):
        score_dataset(None, REWARD, **{option: None})


@pytest.mark.parametrize("given", [None, {"completion": "4"}, ["4"], "4", [None]])
def test_what_is_no_list_of_rows_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="a list of rows"):
        RewardActor(R.exact()).score(given)


@pytest.mark.parametrize("empty", [pyarrow.table({}), pandas.DataFrame(), {}], ids=["pyarrow", "pandas", "numpy"])
def test_a_block_without_rows_and_columns_stops_nothing(empty: Any) -> None:
    assert len(RewardActor(R.exact())(empty)) == 0


@pytest.mark.parametrize("reward", [R.exact(), R.exact() + R.soft_overlong(max_tokens=8, cache=2)])
@pytest.mark.parametrize("nothing", [pyarrow.nulls(2), pyarrow.array([[], []])], ids=["null", "empty lists"])
def test_a_block_in_which_no_row_has_rollouts_is_typed_like_others(reward: R.Term, nothing: Any) -> None:
    lists = pyarrow.list_(pyarrow.struct([("text", pyarrow.string()), ("num_tokens", pyarrow.int64())]))
    actor = RewardActor(reward, detail=True)
    some = actor(pyarrow.table({"answer": ["4", "5"], "rollouts": pyarrow.array([[{"text": "4", "num_tokens": 3}], None], lists)}))
    none = actor(pyarrow.table({"answer": ["4", "5"], "rollouts": nothing}))
    assert some.drop_columns(["rollouts"]).schema == none.drop_columns(["rollouts"]).schema
    assert (cells(some, "reward"), cells(none, "reward")) == ([[1.0], []], [[], []])


@pytest.mark.parametrize(
    "rollouts",
    [pyarrow.array([["4", None]], pyarrow.list_view(pyarrow.string())), pyarrow.array([["4", None]], pyarrow.large_list(pyarrow.string()))],
)
def test_a_rollout_that_cannot_be_read_costs_none_of_its_siblings(rollouts: Any) -> None:
    found = RewardActor(R.exact())(pyarrow.table({"answer": ["4"], "rollouts": rollouts}))
    assert cells(found, "guerdon/exact/status") == [["correct", "error"]]


@pytest.mark.parametrize("prompt", [{}, {"prompt": ["p", "p", "p", "q"]}])
def test_rows_whose_group_is_null_are_compared_with_rows_of_their_prompt_only(prompt: dict[str, Any]) -> None:
    data = {"completion": ["a b c", "a b c", "a b c", "a b c"], "answer": ["4"] * 4, "g": pyarrow.array(["p", None, None, None]), **prompt}
    found = RewardActor(R.exact() + R.distinct(), group_by="g")(pyarrow.table(data))
    assert cells(found, "guerdon/distinct/status") == [
        "not_applicable",
        *(["scored"] * 2 if prompt else ["not_applicable"] * 2),
        "not_applicable",
    ]


@pytest.mark.parametrize("workers", [0, True, 1.5])
def test_a_number_of_workers_is_a_whole_number(workers: Any) -> None:
    with pytest.raises(ConfigError, match="workers: expected"):
        RewardActor(REWARD, workers=workers)
