"""Run numeric fixtures against guerdon's public API: `python tests/conformance/run_fixtures.py FILE --kind advantage,reward`.

A fixture names a method (`algo`, `form`), its `params` and `inputs`, what is `expected` and within which `tol`. The map_*.py
beside this file put names to names and call guerdon; this file compares; no method is computed in either. It ends with
`N passed, M failed` and exit status 1 if any failed. A fixture of an asked kind that has no mapping, down to one unknown
parameter, has failed and is named: nothing is skipped. A new kind is one function in `KINDS`, which returns what it got
under the keys of `expected`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from map_losses import (
    run_divergence,
    run_kernel,
    run_loss,
    run_mask,
    run_offpolicy_weight,
    run_recipe,
    run_sampling,
    run_schedule,
)
from map_rewards import run_advantage, run_diversity, run_reward

Fixture = Mapping[str, Any]

EXACT = {"rtol": 1e-9, "atol": 1e-9}

KINDS: dict[str, Callable[[Fixture, Mapping[str, Any]], dict[str, Any]]] = {
    "advantage": run_advantage,
    "reward": run_reward,
    "diversity": run_diversity,
    "loss": run_loss,
    "offpolicy_weight": run_offpolicy_weight,
    "recipe": run_recipe,
    "kernel": run_kernel,
    "divergence": run_divergence,
    "mask": run_mask,
    "schedule": run_schedule,
    "sampling": run_sampling,
}


def failure(fixture: Fixture, batches: Mapping[str, Any]) -> str | None:
    """None if guerdon gives what the fixture expects, else what went wrong."""
    run = KINDS.get(fixture["kind"])
    if run is None:
        return f"kind {fixture['kind']!r} has no mapping"
    if not fixture["expected"]:
        return "expects nothing"
    try:
        got = run(fixture, batches)
    except NotImplementedError as error:
        return str(error)
    except Exception as error:  # whatever one fixture does, the others still run
        return f"{type(error).__name__}: {error}"
    for key, expected in fixture["expected"].items():
        if key not in got:
            return f"no mapping for expected {key!r}"
        wrong = difference(got[key], expected, **fixture.get("tol", EXACT))
        if wrong is not None:
            return f"{key}{wrong}"
    return None


def difference(got: Any, expected: Any, rtol: float, atol: float) -> str | None:
    """The first place where two nested values differ by more than atol + rtol |expected|; null expects None or NaN."""
    if isinstance(expected, Mapping):
        got, expected = [got.get(key) for key in expected], list(expected.values())
    if isinstance(expected, list):
        if not isinstance(got, list) or len(got) != len(expected):
            return f": shape differs, got {got!r:.60}, expected {expected!r:.60}"
        wrongs = ((i, difference(g, e, rtol, atol)) for i, (g, e) in enumerate(zip(got, expected, strict=True)))
        return next((f"[{i}]{wrong}" for i, wrong in wrongs if wrong is not None), None)
    if expected is None or isinstance(expected, str) or got is None or isinstance(got, str):
        same = got == expected or (expected is None and isinstance(got, float) and math.isnan(got))
    else:
        same = got == expected or abs(got - expected) <= atol + rtol * abs(expected)
    return None if same else f": got {got!r}, expected {expected!r}"


def main(argv: list[str] | None = None) -> int:
    """Run the fixtures of a file; 0 if all asked for passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path, help="JSON with `fixtures` and `batches`")
    parser.add_argument("--kind", default=",".join(KINDS), help="comma-separated kinds (default: %(default)s)")
    args = parser.parse_args(argv)
    asked = {kind.strip() for kind in args.kind.split(",")}
    data = json.loads(args.file.read_text(encoding="utf-8"))
    fixtures = [fixture for fixture in data["fixtures"] if fixture["kind"] in asked]
    failed = 0
    for fixture in fixtures:
        wrong = failure(fixture, data.get("batches", {}))
        if wrong is not None:
            failed += 1
            print(f"FAILED {fixture['id']}: {wrong}")
    print(f"{len(fixtures) - failed} passed, {failed} failed")
    if not fixtures:
        print(f"no fixture of kind {args.kind} in {args.file}", file=sys.stderr)
    return 1 if failed or not fixtures else 0


if __name__ == "__main__":
    sys.exit(main())
