"""Makes the slice of GSM8K rollouts that `guerdon demo` shows, from the full file. Deterministic: the same bytes every time.

    python benchmarks/make_demo_slice.py gsm8k_test_rollouts.jsonl.gz src/guerdon/data/gsm8k_rollouts.jsonl.gz

The full file is not part of the repository. Of its 654 prompts with 8 recorded rollouts each, the slice holds 64: in file
order the first 7 whose recorded rollouts are right k times, for each k in 0..8, and one more for k = 4. A rollout is right by
its recorded label, or where it has none by its recorded `pred` being the answer. So the pass rates are spread evenly, which
makes for a telling picture and says nothing about the models.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

QUOTA = {k: 8 if k == 4 else 7 for k in range(9)}
ROW_KEYS = ("id", "prompt", "answer", "rollouts")
ROLLOUT_KEYS = ("source", "text", "pred", "label", "licence")


def is_right(rollout: dict[str, Any], answer: str) -> bool:
    """As recorded; nothing is verified here."""
    if rollout["label"] is not None:
        return bool(rollout["label"])
    return _number(rollout["pred"]) == _number(answer)


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def choose(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The slice, in file order."""
    taken: Counter[int] = Counter()
    chosen = []
    for row in rows:
        k = sum(is_right(rollout, row["answer"]) for rollout in row["rollouts"])
        if taken[k] < QUOTA[k]:
            taken[k] += 1
            rollouts = [{key: rollout[key] for key in ROLLOUT_KEYS if key in rollout} for rollout in row["rollouts"]]
            chosen.append({key: rollouts if key == "rollouts" else row[key] for key in ROW_KEYS})
    return chosen


def main(source: str, target: str) -> None:
    with gzip.open(source, "rt", encoding="utf-8") as file:
        chosen = choose([json.loads(line) for line in file])
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in chosen)
    Path(target).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{len(chosen)} prompts, {sum(len(row['rollouts']) for row in chosen)} rollouts, {Path(target).stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
