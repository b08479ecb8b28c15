"""CPU time of `import guerdon, guerdon.rewards, guerdon.cli` after interpreter start-up: best of several fresh interpreters.

CPU time, because wall time is the machine's; the minimum, because every disturbance only adds. Bytecode is cached before the
first measurement counts. Exits 1 above the budget.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

STATEMENTS = ("import guerdon", "import guerdon.rewards as R", "import guerdon, guerdon.rewards, guerdon.cli")
BUDGET_MS = 100.0


def cpu_ms(statement: str, repeats: int) -> float:
    """CPU milliseconds of a fresh interpreter that runs `statement`, start-up included."""
    code = f"{statement}\nimport time; print(time.process_time())"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(repeats)]
    return 1000 * min(float(run.stdout) for run in runs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget-ms", type=float, default=BUDGET_MS)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    start_up = cpu_ms("pass", options.repeats)
    print(f"{start_up:7.1f} ms  interpreter start-up")
    for statement in STATEMENTS:
        cost = cpu_ms(statement, options.repeats) - start_up
        print(f"{cost:7.1f} ms  {statement}")
    print(f"{options.budget_ms:7.1f} ms  budget of the last")
    return int(cost > options.budget_ms)


if __name__ == "__main__":
    sys.exit(main())
