"""Speed of `guerdon score`: rollouts a second with start-up, and what scoring costs besides the terms themselves.

Scores the GSM8K rollouts of GUERDON_DATA (else the bundled slice), over and over until there are 100,000, with the math, format
and length terms of examples/gsm8k_reward.py. No row repeats: in copy c every number of every completion and answer gets the
prefix c, so that caches of what was read or compared before do not help (guerdon caches no results; its verifier keeps a few
thousand parsed answers). The overhead is wall time less the terms' own, measured in this process.

Exits 1 below --min-rate or above --max-overhead-us.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from guerdon.cli.files import Source, writing
from guerdon.cli.groups import BadRows, read_groups
from guerdon.cli.score import score_lines
from guerdon.cli.scoring import CHUNK, Request, Scoring, load_reward
from guerdon.cli.summary import Summary
from guerdon.types import Rollout

ROOT = Path(__file__).resolve().parents[1]
REWARD = f"{ROOT / 'examples' / 'gsm8k_reward.py'}:reward"
NUMBER = re.compile(r"\d[\d,]*")


def data() -> Path:
    """The full file, or the slice that is bundled."""
    full = Path(os.environ.get("GUERDON_DATA", "")) / "rollouts" / "gsm8k_test_rollouts.jsonl.gz"
    return full if full.is_file() else ROOT / "src" / "guerdon" / "data" / "gsm8k_rollouts.jsonl.gz"


def varied(row: dict[str, Any], copy: int) -> dict[str, Any]:
    """The row with other numbers: equal ones stay equal, different ones different."""

    def vary(text: str) -> str:
        return NUMBER.sub(lambda match: f"{copy}{match[0].replace(',', '')}", text)

    return {**row, "answer": vary(row["answer"]), "rollouts": [{**r, "text": vary(r["text"])} for r in row["rollouts"]]}


def write_copies(source: Path, target: Path, least: int) -> int:
    """The file over and over, to at least that many rollouts; their number."""
    with gzip.open(source, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    once = sum(len(row["rollouts"]) for row in rows)
    copies = -(-least // once)
    with gzip.open(target, "wt", encoding="utf-8", compresslevel=1) as file:
        for copy in range(10, 10 + copies):
            file.writelines(json.dumps(varied(row, copy)) + "\n" for row in rows)
    return copies * once


def command_seconds(path: Path, output: Path) -> tuple[float, float]:
    """Wall and CPU seconds of the command in a process of its own, its workers included."""
    command = [sys.executable, "-c", "from guerdon.cli import main; main()", "score", str(path), "-r", REWARD, "-o", str(output)]
    start, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def scoring_us(rollouts: Sequence[Rollout]) -> float:
    """Microseconds for a rollout and component that `reward.score` takes besides the terms."""
    reward = load_reward(REWARD)
    terms, start = 0.0, time.perf_counter()
    for row in range(0, len(rollouts), CHUNK):
        scores = reward.score(rollouts[row : row + CHUNK])
        terms += sum(scores.seconds.values())
    return (time.perf_counter() - start - terms) * 1e6 / (len(rollouts) * len(scores.names))


def everything_us(path: Path, output: Path) -> tuple[float, int]:
    """The same with reading, writing and the summary, as the command does it; and the number of components."""
    summary, start = Summary(), time.perf_counter()
    with closing(Scoring(Request(str(path), REWARD, {}))) as scoring, writing(str(output)) as write:
        for chunk in scoring.chunks():
            summary.add(chunk.scores)
            write("".join(score_lines(chunk)))
    terms = sum(component.seconds for component in summary.components.values())
    return (time.perf_counter() - start - terms) * 1e6 / (summary.rollouts * len(summary.components)), len(summary.components)


def read_rollouts(path: Path) -> list[Rollout]:
    """The rollouts of the file."""
    with closing(Source(str(path))) as source:
        groups = read_groups(source, {}, BadRows(source.label, strict=True), limit=None, whole=False, gather=False)[1]
        return [rollout for group in groups for rollout in group.rollouts]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--min-rate", type=float, default=8000.0)
    parser.add_argument("--max-overhead-us", type=float, default=20.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder) / "rollouts.jsonl.gz", Path(folder) / "scores.jsonl"
        rollouts = write_copies(data(), path, options.rollouts)
        print(f"{rollouts:,} rollouts from {data().name}")
        wall, cpu = command_seconds(path, output)
        rate = rollouts / wall
        scoring = scoring_us(read_rollouts(path))
        everything, components = everything_us(path, output)
    print(f"{rate:9,.0f} rollouts/s  guerdon score with start-up (at least {options.min_rate:,.0f}): {wall:.1f} s wall, {cpu:.1f} s CPU")
    print(
        f"{scoring:9.1f} us  scoring besides the terms, for a rollout and component of {components} (at most {options.max_overhead_us:g})"
    )
    print(f"{everything:9.1f} us  the same with reading, writing and the summary")
    return int(rate < options.min_rate or scoring > options.max_overhead_us)


if __name__ == "__main__":
    sys.exit(main())
