"""Accuracy and CPU time of the math verifier on labelled pairs, with math-verify on the same pairs in the same run.

Two speeds: bare answers of math500_synth without the fallback, and all pairs shuffled with it (its workers' CPU counts). Each pair is
judged once, answers compiled inside the timing, no verdict cached; imports (timed apart) and starting workers are left out on both
sides. Exits 1 below a target. The pairs are the folder `math_pairs` under GUERDON_DATA, or else the recorded ones in the tests, whose
speeds have no target. Linux. Usage: `python benchmarks/bench_math_pairs.py [--list]`.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench_math import children_s, start_workers

import guerdon
from guerdon.verifiers.math import MathRules, answers, equivalent, verify

Row = dict[str, Any]
Judge = Callable[[Row], bool]
RECORDED = Path(__file__).parents[1] / "tests/verifiers/math/data/golden.jsonl"
SPEED, MIXED_SPEED, P99_MS, IMPORT_MS = 100.0, 8.0, 5.0, 60.0
STRICT, LENIENT = MathRules(fallback=False), MathRules(search=True, fallback=False)


def lines(path: Path) -> Iterator[Row]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        yield from map(json.loads, file)


def load() -> dict[str, list[Row]]:
    """The rows of each set; `target` says which audit scope counts a row, if any."""
    if not (data := os.environ.get("GUERDON_DATA")):
        rows = [{"gold": row["answer"], "pred": row["completion"], "label": row["label"], "form": "response"} for row in lines(RECORDED)]
        return {"recorded": rows}
    folder = Path(data) / "math_pairs"
    audit = {(note["set"], note["index"]): note for note in lines(folder / "audit.jsonl")}
    sets = {}
    for path in sorted(folder.glob("*.jsonl.gz")):
        name = path.name.removesuffix(".jsonl.gz")
        sets[name] = list(lines(path))
        for index, row in enumerate(sets[name]):
            note = audit.get((name, index))
            row["target"] = note["scope"] if note and note["label_ok"] is True and note["scope"] != "prose" else ""
    return sets


def ours(strict: MathRules, lenient: MathRules) -> Judge:
    def judge(row: Row) -> bool:
        if row["form"] == "response":
            return verify(row["pred"], row["gold"], lenient).score == 1.0
        return equivalent(row["pred"], row["gold"], strict).score == 1.0

    return judge


def math_verify() -> Judge:
    """math-verify as its documentation calls it, the reference between dollar signs so that it is parsed as a whole."""
    from math_verify import parse, verify

    def judge(row: Row) -> bool:
        gold, pred = row["gold"], row["pred"]
        if "$" not in gold and "boxed" not in gold:
            gold = f"${gold}$"
        if row["form"] != "response" and "$" not in pred and "boxed" not in pred:
            pred = f"\\boxed{{{pred}}}"
        return bool(verify(parse(gold), parse(pred)))

    return judge


def timed(rows: Sequence[Row], judge: Judge) -> tuple[list[bool], float, float]:
    """Verdicts, CPU seconds of this process and its workers, and the 99th percentile of wall milliseconds."""
    answers.compiled_text.cache_clear()
    verdicts, walls = [], []
    children, cpu = children_s(), time.process_time()
    for row in rows:
        start = time.perf_counter()
        verdicts.append(judge(row))
        walls.append(time.perf_counter() - start)
    cpu = time.process_time() - cpu
    return verdicts, cpu + children_s() - children, 1e3 * sorted(walls)[int(len(walls) * 0.99)]


def report(sets: dict[str, list[Row]], judge: Judge, listed: bool) -> dict[str, float]:
    """Print a line for each set; the 99th percentiles."""
    targets, p99s = Counter[str](), {}
    for name, rows in sets.items():
        verdicts, cpu, p99s[name] = timed(rows, judge)
        wrong = Counter("FP" if found else "FN" for row, found in zip(rows, verdicts, strict=True) if found != row["label"])
        accuracy, speed = 100 * (1 - sum(wrong.values()) / len(rows)), len(rows) / cpu
        counts = f"{len(rows):5} pairs  {accuracy:6.2f} %  FP {wrong['FP']:2}  FN {wrong['FN']:3}"
        print(f"  {name:22} {counts}  {speed:8.0f} pairs/s CPU  p99 {p99s[name]:7.2f} ms")
        for row, found in zip(rows, verdicts, strict=True):
            if scope := row.get("target"):
                targets[f"{scope} pairs"] += 1
                targets[f"{scope} {'FP' if found else 'FN'}"] += found != row["label"]
            if listed and found != row["label"]:
                print(f"    {row.get('target') or 'no target'}: {row['gold'][-50:]!r} {row['pred'][-50:]!r} is {row['label']}")
    if targets:
        print("  targets by scope:", {name: count for name, count in targets.items() if count})
    return p99s


def compared(title: str, rows: Sequence[Row], mine: Judge, theirs: Judge, target: float) -> bool:
    """Print both speeds; whether the target is reached."""
    theirs(rows[0])
    (_, ours_s, p99), (_, theirs_s, _) = timed(rows, mine), timed(rows, theirs)
    print(
        f"{title}: guerdon {len(rows) / ours_s:,.0f} pairs/s of CPU (p99 {p99:.2f} ms), math-verify {len(rows) / theirs_s:,.0f}: "
        f"{theirs_s / ours_s:.1f} times (target {target:g})"
    )
    return theirs_s / ours_s >= target


def import_ms() -> float:
    """CPU milliseconds of importing the verifier in a fresh interpreter: the least of several, since disturbances only add."""
    code = "import time; start = time.process_time(); import guerdon.verifiers.math; print(1000 * (time.process_time() - start))"
    return min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) for _ in range(7))


def main() -> int:
    sets, listed = load(), "--list" in sys.argv
    cost = import_ms()
    print(f"import guerdon.verifiers.math: {cost:.1f} ms of CPU (target {IMPORT_MS:g})")
    print("guerdon, no fallback")
    p99s = report(sets, ours(STRICT, LENIENT), listed)
    peer = math_verify()
    print("math-verify")
    report(sets, peer, listed)
    everything = [row for rows in sets.values() for row in rows]
    random.Random(0).shuffle(everything)
    start_workers()
    fine = cost < IMPORT_MS
    fine &= compared("all pairs, with fallback", everything, ours(MathRules(), MathRules.lenient()), peer, MIXED_SPEED)
    guerdon.close()
    if "math500_synth" in sets:
        fine &= compared("math500_synth, no fallback", sets["math500_synth"], ours(STRICT, LENIENT), peer, SPEED)
        fine &= max(p99s.values()) < P99_MS
    return 0 if fine or "recorded" in sets else 1


if __name__ == "__main__":
    sys.exit(main())
