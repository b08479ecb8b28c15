"""Scoring in Ray pipelines, on a local cluster of two CPUs: stalls, restarts, groups, and what a pipeline gives against `reward.score`."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.backends.ray import RewardActor, score_dataset
from guerdon.errors import ConfigError, MissingInput
from guerdon.loading import load

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),  # of its own options
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves files open
    pytest.mark.filterwarnings("ignore:reward .* could not be scored:RuntimeWarning"),  # a quarter of the rows has no answer
]

REWARD = R.math_equal() + 0.5 * R.boxed_format()
COLUMNS = {"answer": "solution"}


def row(i: int) -> dict[str, Any]:
    """Right, wrong, without a box, and without an answer; eight to a group."""
    completion = "no idea" if i % 4 == 2 else f"\\boxed{{{i % 2}}}"
    return {
        "id": i,
        "prompt_id": f"p{i // 8}",
        "completion": completion,
        "solution": None if i % 4 == 3 else "0",
        "nested": {"k": [i]} if i % 5 else None,
        "list": [1] * (i % 3),
        "nothing": None,
    }


ROWS = [row(i) for i in range(400)]
ROLLOUTS = [Rollout(r["completion"], answer=r["solution"], group=r["prompt_id"]) for r in ROWS]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False, object_store_memory=200 * 2**20)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    yield
    ray.shutdown()


def data(blocks: int = 4) -> Any:
    return ray.data.from_items(ROWS, override_num_blocks=blocks)


def by_id(ds: Any) -> list[dict[str, Any]]:
    return sorted((r for batch in ds.iter_batches(batch_format="pyarrow") for r in batch.to_pylist()), key=lambda r: r["id"])


def test_a_pipeline_gives_what_the_reward_gives_row_by_row() -> None:
    found, scores = by_id(score_dataset(data(), REWARD, columns=COLUMNS, detail=True)), REWARD.score(ROLLOUTS)
    assert [{key: r[key] for key in row(0)} for r in found] == ROWS
    assert [r["reward"] for r in found] == scores.totals()
    assert [r["outcome"] for r in found] == [verdict.score for verdict in scores.outcomes]
    for name in scores.names:
        assert [r[f"guerdon/{name}/status"] for r in found] == [str(verdict.status) for verdict in scores.verdicts[name]]
        assert [r[f"guerdon/{name}/reason"] for r in found] == [verdict.reason for verdict in scores.verdicts[name]]


@pytest.mark.parametrize("batch_format", ["numpy", "pandas"])
def test_the_stage_alone_takes_every_batch_format_and_nulls_stay_nulls(batch_format: str) -> None:
    ds = data().map_batches(
        RewardActor,
        fn_constructor_kwargs={"reward": REWARD, "columns": COLUMNS},
        batch_size=3,  # a batch without any answer among them
        batch_format=batch_format,
        num_cpus=0.5,
        compute=ray.data.ActorPoolStrategy(size=1),
    )
    assert [r["reward"] for r in by_id(ds.select_columns(["id", "reward"]))] == REWARD.score(ROLLOUTS).totals()


def test_the_default_pool_runs_behind_tasks_that_need_a_cpu() -> None:
    assert score_dataset(data().repartition(8), REWARD, columns=COLUMNS).count() == len(ROWS)


def test_a_pool_that_would_stall_them_is_refused_when_built() -> None:
    with pytest.raises(ConfigError, match="2 actors of 1 CPU hold all but 0 of the cluster's 2 CPUs"):
        score_dataset(data().repartition(8), REWARD, columns=COLUMNS, num_cpus=1)


def test_groups_are_scored_whole_wherever_their_rows_lay() -> None:
    reward = REWARD + 0.25 * R.distinct() + 0.5 * R.duplicate_penalty()
    with pytest.raises(ConfigError, match="pass group_by=KEY"):
        score_dataset(data(), reward, columns=COLUMNS)
    scattered = ray.data.from_items(ROWS[::2] + ROWS[1::2], override_num_blocks=4)
    found = by_id(score_dataset(scattered, reward, columns=COLUMNS, group_by="prompt_id", num_partitions=4))
    scores = reward.score(ROLLOUTS)
    assert [r["reward"] for r in found] == scores.totals()
    assert [r["guerdon/distinct"] for r in found] == [verdict.score for verdict in scores.verdicts["distinct"]]


def test_a_missing_column_is_refused_before_the_start_where_columns_are_known_and_at_the_first_batch_elsewhere() -> None:
    with pytest.raises(MissingInput, match=r"gold.* the columns are id, prompt_id, completion"):
        score_dataset(data(), R.math_equal(column="gold"))
    later = score_dataset(data().map_batches(_same), R.math_equal(column="gold"), concurrency=1)
    with pytest.raises(Exception, match="math_equal reads 'gold'"):
        later.count()


def _same(batch: Any) -> Any:
    return batch


KILLS = """
import os, pathlib, signal
import guerdon.rewards as R

def kills(rollout):
    mark = pathlib.Path(__file__).with_name("mark")
    if rollout.id == "217" and not mark.exists():
        mark.write_text("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return 1.0

reward = R.math_equal() + 0.0 * R.from_function(kills, name="kills")
"""


def test_an_actor_killed_on_the_way_costs_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(KILLS)
    monkeypatch.chdir(tmp_path)  # a relative path: actors run elsewhere
    found = by_id(score_dataset(data(), "mine.py:reward", columns=COLUMNS, batch_size=32))
    assert (tmp_path / "mark").exists()
    assert [r["id"] for r in found] == list(range(len(ROWS)))
    assert [r["outcome"] for r in found] == [verdict.score for verdict in R.math_equal().score(ROLLOUTS).outcomes]


POOLS = """
import os
import guerdon.rewards as R

def pid(rollout):
    return float(os.getpid())

def pools(rollout):
    return float(os.environ["GUERDON_WORKERS"])

reward = R.from_function(__file__ + ":pid", name="pid", isolate=5.0) + R.from_function(pools, name="pools")
"""


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("how", ["kill", "drop"])
def test_a_plain_actor_scores_rows_and_leaves_no_process_behind(how: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POOLS)
    actor = ray.remote(RewardActor).options(num_cpus=1).remote(f"{tmp_path}/mine.py:reward")
    found = ray.get(actor.score.remote([{"completion": "a"}, {"completion": "b"}]))
    assert ray.get(actor.ascore.remote([{"completion": "c"}]))[0]["reward"] is not None
    assert [r["guerdon/pools"] for r in found] == [1.0, 1.0]
    worker = int(found[0]["guerdon/pid"])
    assert worker != os.getpid()
    os.kill(worker, 0)
    if how == "kill":
        ray.kill(actor)
    del actor
    assert gone(worker)


def test_the_example_keeps_the_prompts_that_are_solved_sometimes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = load(f"{Path(__file__).parents[2]}/examples/ray_score.py:main")
    solved = {"never": 0, "once": 1, "often": 4, "always": 5}
    lines = [
        json.dumps({"prompt": prompt, "completion": "\\boxed{4}" if i < times else "\\boxed{5}", "answer": "4"})
        for prompt, times in solved.items()
        for i in range(5)
    ]
    (tmp_path / "rollouts.jsonl").write_text("\n".join(lines))
    (tmp_path / "mine.py").write_text("import guerdon.rewards as R\nreward = R.math_equal()\n")
    monkeypatch.chdir(tmp_path)
    main([str(tmp_path / "rollouts.jsonl"), "mine.py:reward", str(tmp_path / "out")])
    kept = ray.data.read_parquet(str(tmp_path / "out/kept")).to_pandas()
    assert set(kept["prompt"]) == {"once", "often"}
    assert (len(kept), kept["reward"].sum()) == (10, 5)
