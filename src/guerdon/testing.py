"""Conformance checks for your own rewards, verifiers, worker functions and sandboxes, for use in your tests.

`assert_scores` is a golden table: what each completion must earn. `check_reward` and `check_verifier` hold any object
to the contract: order, length, purity, pickling, threads, a running event loop, empty, huge and hostile text.
`check_worker` holds a function meant for the killable pool to its limits, `check_sandbox` a sandbox to what a verifier
relies on. They raise AssertionError that says what is wrong, or return None (`check_worker`: the values). They need no
test framework.
"""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from guerdon.types import Rollout, Status, Verdict

__all__ = ["HOSTILE", "assert_scores", "check_reward", "check_sandbox", "check_verifier", "check_worker"]

HOSTILE: tuple[str, ...] = (
    "",
    " \n\t",
    "\x00\x00",
    "\ud800 lone surrogate \udfff",
    "\u202e\u0645\u0631\u062d\u0628\u0627\u202c",
    "\\boxed{" * 2000,
    "<think>" * 5000,
    "</think>" * 5000,
    "{" * 20_000,
    "((((" * 5000,
    "#### " * 5000,
    "```json\n" * 3000,
    "a" * 1_000_000,
    "1" * 100_000,
    "A, B, C, D, E",
    "\\boxed{\\frac{1}{0}}",
)
"""Completions that break careless checks. None may raise, hang, or change another row's verdict."""


def assert_scores(reward: Any, table: Iterable[tuple[Any, ...]]) -> None:
    """Check a reward against `(completion, answer, expected)` rows. AssertionError lists every row that differs.

    `completion` may be a whole Rollout (its answer is then kept when `answer` is None). `expected` is a total (compared to
    1e-9), None for an abstention, or a `Status` (or its name) that some component must have. Each row is scored alone, so
    it needs whatever the reward reads.

    >>> import guerdon.rewards as R
    >>> assert_scores(R.exact(), [("4", "4", 1.0), ("5", "4", 0.0), ("", "4", "no_answer")])
    """
    reward, wrong = _lifted(reward), []
    for number, (completion, answer, expected) in enumerate(table):
        rollout = completion if isinstance(completion, Rollout) else Rollout(completion)
        rollout = rollout if answer is None else replace(rollout, answer=answer)
        scores = reward.score([rollout])
        if not _as_expected(scores, expected):
            shown = expected if isinstance(expected, str) else repr(expected)
            wrong.append(f"row {number}: {rollout.completion[:80]!r}: expected {shown}, got\n{reward.explanation(rollout)}")
    assert not wrong, "\n".join(wrong)


def _as_expected(scores: Any, expected: Any) -> bool:
    if isinstance(expected, str):
        return Status(expected) in {verdicts[0].status for verdicts in scores.verdicts.values()}
    total = scores.totals()[0]
    if expected is None or total is None:
        return total is expected
    return bool(abs(total - float(expected)) <= 1e-9)


def check_reward(reward: Any, rollouts: Sequence[Rollout], *, threads: int = 16, another_process: bool = False) -> None:
    """Hold a reward to the contract on these rollouts (a few dozen, of several groups where terms read the group).

    `another_process=True` also scores in a fresh interpreter (the reward must then unpickle there: not defined in
    `__main__` or in a test module).
    """
    assert not isinstance(reward, type), f"expected a reward (an instance), got {reward!r:.80}"
    assert hasattr(reward, "verdicts"), f"expected a reward (an instance), got {reward!r:.80}"
    reward = _lifted(reward)
    rollouts = list(rollouts)
    before = copy.deepcopy(rollouts)
    first = _read(reward, rollouts)
    assert len(first) == len(rollouts), f"{len(first)} results for {len(rollouts)} rollouts"
    assert _read(reward, rollouts) == first, "scoring twice gives two results: the reward is not pure"
    assert rollouts == before, "scoring changed the rollouts"
    assert _read(reward, []) == [], "an empty batch does not give an empty result"
    if "group" not in reward.reads:
        assert _read(reward, rollouts[::-1]) == first[::-1], "results depend on the order of the rows"
    again = _pickled(reward)
    assert hash(again) == hash(reward), "the pickled copy has another hash"
    assert again == reward, "the pickled copy is not equal"
    assert again.fingerprint == reward.fingerprint, "the pickled copy has another fingerprint"
    assert _read(again, rollouts) == first, "the pickled copy scores differently"
    _check_threads(lambda: _read(reward, rollouts), first, threads)
    assert _read_in_a_loop(reward, rollouts) == first, "ascore differs from score"
    _check_hostile(lambda rows: _read(reward, rows), rollouts, first)
    if another_process:
        _check_another_process(reward, rollouts, first)


def check_verifier(verifier: Any, rollouts: Sequence[Rollout], *, threads: int = 16) -> None:
    """Hold a verifier to the contract: verdicts in order, never SCORED, pure, picklable, thread-safe, calm under hostile text."""
    assert not isinstance(verifier, type), f"expected a verifier (an instance), got {verifier!r:.80}"
    assert hasattr(verifier, "judge"), f"expected a verifier (an instance), got {verifier!r:.80}"
    rollouts = list(rollouts)
    before = copy.deepcopy(rollouts)
    first = _judged(verifier, rollouts)
    assert _judged(verifier, rollouts) == first, "judging twice gives two results"
    assert rollouts == before, "judging changed the rollouts"
    assert _judged(verifier, []) == [], "an empty batch does not give an empty result"
    assert _judged(verifier, rollouts[::-1]) == first[::-1], "results depend on the order of the rows"
    assert _judged(_pickled(verifier), rollouts) == first, "the pickled copy judges differently"
    _check_threads(lambda: _judged(verifier, rollouts), first, threads)
    _check_hostile(lambda rows: _judged(verifier, rows), rollouts, first)


def check_worker(target: str, jobs: Sequence[tuple[Any, ...]], *, timeout_s: float = 5.0) -> list[Any]:
    """Run a pool function on jobs that must all succeed, twice and from two threads, and return its values."""
    from guerdon.sandboxes import Done, PoolSpec, pool

    def values() -> list[Any]:
        results = pool(PoolSpec(target=target)).map(jobs, timeout_s)
        failed = [(job, result) for job, result in zip(jobs, results, strict=True) if not isinstance(result, Done)]
        assert not failed, f"{len(failed)} of {len(jobs)} jobs failed; first: {failed[0]!r:.400}"
        return [result.value for result in results if isinstance(result, Done)]

    first = values()
    _check_threads(values, first, 2)
    return first


def _lifted(reward: Any) -> Any:
    """An object of the Reward protocol gets `score` and `ascore`."""
    from guerdon.rewards import Term, from_function

    return reward if isinstance(reward, Term) else from_function(reward)


_PROGRAMS: tuple[tuple[str, bytes, str], ...] = (
    ("print(input())", b"echo", "ok"),
    ("import sys; sys.exit(3)", b"", "nonzero"),
    ("raise SystemExit(0)", b"", "ok"),
    ("while True: pass", b"", "timeout"),
    ("print('x' * 10**8)", b"", "output_limit"),
    ("print(input())", b"last", "ok"),
)


def check_sandbox(spec: Any) -> None:
    """Hold a sandbox (its spec, or `pkg.mod:spec`) to what a verifier relies on: one result a job, in order; stdin in and bytes out;
    exit codes, endless programs and floods of output told apart; nothing left from one run to the next; sync and async alike;
    and isolation no weaker than the spec demands. It attacks nothing: containment has tests of its own."""
    import asyncio

    from guerdon.sandboxes import Job, Limits, sandbox
    from guerdon.sandboxes.base import at_least

    box, limits = sandbox(spec), Limits(cpu_s=1.0, wall_s=5.0)
    jobs = [Job(source, stdin=stdin, limits=limits) for source, stdin, _ in _PROGRAMS]
    results = box.run_many(jobs)
    found = [result.status for result in results]
    assert found == [status for _, _, status in _PROGRAMS], f"the programs ended as {found}"
    assert (results[0].stdout, results[-1].stdout) == (b"echo\n", b"last\n"), "stdin or stdout was lost or mixed up"
    assert results[1].exit_code == 3, f"exit code 3 came back as {results[1].exit_code}"
    assert results[4].dropped > 0, "a flood of output was not reported"
    minimum: Any = getattr(spec, "min_isolation", "none")
    assert all(at_least(result.level, minimum) for result in results), f"a run was isolated less than {minimum}"
    box.run(Job("import builtins; builtins.print = None; open('/tmp/left', 'w').write('x')", limits=limits))
    after = box.run(Job("import os; print(os.path.exists('/tmp/left'))", limits=limits))
    assert after.stdout == b"False\n", f"one run saw what another left: {after}"

    async def twin() -> tuple[bytes, list[bytes]]:
        return (await box.arun(jobs[0])).stdout, [result.stdout for result in await box.arun_many([jobs[0], jobs[-1]])]

    assert asyncio.run(twin()) == (b"echo\n", [b"echo\n", b"last\n"]), "the async twins give something else"


def _key(verdict: Verdict) -> tuple[Any, ...]:
    """A verdict without its timing."""
    return (verdict.status, verdict.score, verdict.reason, verdict.extracted)


_FAULTS = ("exception", "wrong_length", "wrong_type", "non_finite", "out_of_range")
"""Reasons that say the reward itself is at fault, whatever it was given."""


def _rows(scores: Any) -> list[Any]:
    for name, verdicts in scores.verdicts.items():
        for row, verdict in enumerate(verdicts):
            assert verdict.reason not in _FAULTS, f"{name} is broken on row {row}: {verdict.reason}: {verdict.detail}"
    columns = [[_key(v) for v in verdicts] for verdicts in scores.verdicts.values()]
    return list(zip(scores.totals(), *columns, strict=True))


def _read(reward: Any, rollouts: Sequence[Rollout]) -> list[Any]:
    return _rows(reward.score(rollouts, warn_broken=1.0, max_broken=1.0))


def _read_in_a_loop(reward: Any, rollouts: Sequence[Rollout]) -> list[Any]:
    import asyncio

    async def main() -> list[Any]:
        return _rows(await reward.ascore(rollouts, warn_broken=1.0, max_broken=1.0))

    found: list[list[Any]] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(main())))  # the caller may be inside a loop
    thread.start()
    thread.join()
    assert found, "ascore raised"
    return found[0]


def _pickled(value: Any) -> Any:
    try:
        return pickle.loads(pickle.dumps(value))
    except Exception as error:
        raise AssertionError(f"pickling failed: {type(error).__name__}: {error}") from error


def _judged(verifier: Any, rollouts: Sequence[Rollout]) -> list[Any]:
    try:
        verdicts = verifier.judge(rollouts)
    except Exception as error:
        raise AssertionError(f"judge raised {type(error).__name__}: {error} (on {len(rollouts)} rollouts)") from error
    assert isinstance(verdicts, list), f"judge returned {type(verdicts).__name__}, expected a list"
    assert len(verdicts) == len(rollouts), f"{len(verdicts)} verdicts for {len(rollouts)} rollouts"
    for verdict in verdicts:
        assert isinstance(verdict, Verdict), f"judge returned {type(verdict).__name__}, expected Verdicts"
        assert verdict.status is not Status.SCORED, "a verifier gives verifier statuses; SCORED is for shaping terms"
    return [_key(v) for v in verdicts]


def _check_threads(run: Any, first: list[Any], threads: int) -> None:
    found: list[Any] = [None] * threads

    def work(i: int) -> None:
        try:
            found[i] = run()
        except AssertionError as error:
            found[i] = error

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(result == first for result in found), f"results differ between {threads} threads"


def _check_hostile(read: Any, rollouts: list[Rollout], first: list[Any]) -> None:
    """Hostile completions beside the good rows (in groups of their own): no exception, and the good rows stay as they were."""
    if not rollouts:
        return
    hostile = [replace(rollouts[i % len(rollouts)], completion=text, group=("hostile", i), messages=None) for i, text in enumerate(HOSTILE)]
    together = read([*rollouts, *hostile])
    assert len(together) == len(rollouts) + len(HOSTILE), "hostile completions changed the number of results"
    assert together[: len(rollouts)] == first, "hostile completions changed the verdicts of other rows"


def _check_another_process(reward: Any, rollouts: list[Rollout], first: list[Any]) -> None:
    import subprocess
    import sys

    code = f"import sys; sys.path[:] = {sys.path!r}; from guerdon.testing import _serve; _serve()"
    payload = pickle.dumps((reward, rollouts))
    result = subprocess.run([sys.executable, "-I", "-c", code], input=payload, capture_output=True, check=False)
    assert result.returncode == 0, f"scoring in another process failed: {result.stderr[-500:].decode(errors='replace')}"
    assert pickle.loads(result.stdout) == first, "another process scores differently"


def _serve() -> None:
    """In the other process: score what stdin holds, print the rows."""
    import sys

    reward, rollouts = pickle.loads(sys.stdin.buffer.read())
    sys.stdout.buffer.write(pickle.dumps(_read(reward, rollouts)))
