"""Keep the prompts that a model solves sometimes, over Ray Data: read, score, pass rates, filter, write.

    python examples/ray_score.py rollouts.jsonl examples/gsm8k_reward.py:reward kept/ --group prompt

Rows are rollouts: `prompt`, `completion`, `answer`, and whatever else; `--group` names the column that tells prompts apart. Input is a
file or folder of Parquet or JSONL. The scores are written to `kept/scored` first: Ray Data is lazy and would score again for each use.
"""

from __future__ import annotations

import argparse
from typing import Any

import ray
from ray.data.expressions import col

from guerdon.backends.ray import score_dataset
from guerdon.filters import Decision, Goldilocks, PassRate


def read(path: str) -> Any:
    """A data set from Parquet, or from JSONL."""
    return ray.data.read_parquet(path) if path.endswith(".parquet") else ray.data.read_json(path)


def keep_prompts(scored: Any, group: str, rule: Goldilocks) -> Any:
    """The rows of the prompts that the rule keeps. Two narrow columns fit into one process long after the rows do not."""
    outcomes = scored.select_columns([group, "outcome"]).to_pandas()
    rates = outcomes.groupby(group)["outcome"].agg(lambda values: PassRate.of(None if value != value else value for value in values))
    kept = [key for key, rate in rates.items() if rule.decide(rate) is Decision.KEEP]
    print(f"kept {len(kept):,} of {len(rates):,} prompts")
    if not kept:
        raise SystemExit(f"no prompt is kept by {rule}: nothing is written but the scores")
    return scored.filter(expr=col(group).is_in(kept))


def main(argv: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rollouts")
    parser.add_argument("reward", help="file.py:object or package.module:object")
    parser.add_argument("output", help="a folder")
    parser.add_argument("--group", default="prompt", help="the column that tells prompts apart [prompt]")
    parser.add_argument("--keep", type=float, nargs=2, default=(0.2, 0.8), metavar=("LOW", "HIGH"))
    asked = parser.parse_args(argv)
    score_dataset(read(asked.rollouts), asked.reward, detail=True).write_parquet(f"{asked.output}/scored")
    kept = keep_prompts(ray.data.read_parquet(f"{asked.output}/scored"), asked.group, Goldilocks(*asked.keep))
    kept.write_parquet(f"{asked.output}/kept")


if __name__ == "__main__":
    main()
