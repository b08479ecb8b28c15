"""The live side of a pool: a thread per worker process, and the queue they serve.

Each thread hires a worker, takes a batch of jobs, talks it through, and buries and replaces the worker when it has to be killed.
Calls wait in a ring and get a batch in turn. A batch is as many jobs as the last ones suggest will take 2 ms, so trivial jobs
share the cost of a message and slow ones travel alone.
"""

from __future__ import annotations

import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from guerdon.errors import SandboxError
from guerdon.sandboxes._hiring import Hiring
from guerdon.sandboxes._process import START_S, Worker
from guerdon.sandboxes._reading import cause_of_death, result_of
from guerdon.sandboxes._worker import MORE, SLOW_S, WORN
from guerdon.sandboxes.workers import Done, Failed, PoolSpec, default_workers

__all__ = ["Call", "Crew"]

GRACE_S = 0.2
"""The parent kills this long after the wall limit, should the kernel's timer not have: the function reset it, or was stopped."""
STALL_S = 2 * SLOW_S
"""When the job at the head of a batch takes longer, those behind it go back to the queue; the worker ends the batch after it."""
BATCH_S, BATCH_JOBS, BATCH_BYTES = 0.002, 64, 1 << 20
"""A batch should take about so long, and is never larger than this."""


@dataclass(eq=False)
class Call:
    """One `map`: its jobs, its limits, and the results so far. Guarded by the crew's lock."""

    jobs: Sequence[tuple[Any, ...]]
    timeout_s: float
    cpu_s: float
    notify: Callable[[], None]
    todo: deque[int]
    results: list[Done | Failed | None]
    left: int
    started: float = field(default_factory=time.monotonic)
    error: SandboxError | None = None

    def answers(self) -> list[Done | Failed]:
        """The results once the call is over."""
        if self.error is not None:
            raise self.error
        return [result for result in self.results if result is not None]


@dataclass(frozen=True)
class Batch:
    call: Call
    indices: list[int]
    retry: bool = False


class Crew:
    """The workers of one spec in this process. See `Pool`, its public handle."""

    def __init__(self, spec: PoolSpec) -> None:
        self._spec = spec
        self._size = spec.workers or default_workers()
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._ring: deque[Call] = deque()  # the calls with something to do
        self._threads: set[threading.Thread] = set()
        self._hiring = Hiring(spec)
        self._busy: dict[Worker, Call] = {}
        self._job_s = 0.01  # running mean of a job's seconds
        self._closed = False

    # what callers use

    def submit(self, jobs: Sequence[tuple[Any, ...]], timeout_s: float, cpu_s: float, notify: Callable[[], None]) -> Call:
        """Queue a call; `notify` runs (in some thread) when it is over."""
        call = Call(jobs, timeout_s, cpu_s, notify, deque(range(len(jobs))), [None] * len(jobs), len(jobs))
        with self._lock:
            if self._closed:
                raise SandboxError("the pool was closed while a call was starting")
            self._ring.append(call)
            self._staff()
            self._wake.notify(len(jobs))
        return call

    def abandon(self, call: Call) -> None:
        """End a call now: what waits is dropped, what runs is killed, rows without a result become Failed "deadline"."""
        with self._lock:
            if not call.left:
                return
            waited = time.monotonic() - call.started
            for index, result in enumerate(call.results):
                if result is None:
                    call.results[index] = Failed("deadline", "the deadline passed before this job was done", "", waited)
            self._finish(call)
            for worker, theirs in self._busy.items():
                if theirs is call:
                    worker.kill()

    def close(self) -> None:
        """Kill and reap every worker; calls still waiting raise SandboxError."""
        with self._lock:
            self._closed = True
            for call in {*self._ring, *self._busy.values()}:
                self._fail(call, SandboxError("the pool was closed while this call was running"))
            self._hiring.kill()
            threads = list(self._threads)
            self._wake.notify_all()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(START_S)
        self._hiring.close()

    def disown(self) -> None:
        """In a forked child: close its copies of the pipes."""
        self._hiring.disown()

    # the threads

    def _staff(self) -> None:
        """Start as many threads as there are jobs that nobody is free to take. The lock is held."""
        queued, free = sum(len(call.todo) for call in self._ring), len(self._threads) - len(self._busy)
        for _ in range(min(queued - free, self._size - len(self._threads))):
            thread = threading.Thread(target=self._serve, name="guerdon-worker", daemon=True)
            self._threads.add(thread)
            try:
                thread.start()
            except RuntimeError as error:  # no more threads, or the interpreter is ending
                self._threads.discard(thread)
                if not self._threads:
                    self._ring.clear()
                    raise SandboxError(f"cannot start a thread for a worker: {error}") from error
                return

    def _serve(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})  # writing to a dead worker is an error here, whatever the caller set
        error: SandboxError | None = None
        orphans: set[Call] = set()
        try:
            self._work()
        except SandboxError as failure:
            error = failure
        except BaseException as failure:  # not foreseen: nobody may be left waiting
            error, orphans = SandboxError(f"a worker's thread broke: {failure!r}"), set(self._busy.values())
        with self._lock:
            self._threads.discard(threading.current_thread())
            for call in orphans if self._threads else {*orphans, *self._ring}:  # the last one leaving says why
                if error is not None:
                    self._fail(call, error)

    def _work(self) -> None:
        retry: Batch | None = None
        while not self._closed:
            try:
                worker = self._hiring.hire()
            except SandboxError as error:
                if retry is not None:
                    self._record(retry.call, retry.indices[0], Failed("lost", f"its worker died and no other could start: {error}"))
                raise
            try:
                healthy = True
                while healthy:
                    if (batch := self._take(worker, retry)) is None:
                        return
                    healthy, retry = self._run(worker, batch)
            finally:
                self._hiring.dismiss(worker)

    def _take(self, worker: Worker, retry: Batch | None) -> Batch | None:
        """The batch this worker does next: the lost job, or some of the call whose turn it is. None when the crew is closed."""
        with self._lock:
            while not self._closed:
                if retry is not None and retry.call.left:
                    self._busy[worker] = retry.call
                    return retry
                while self._ring:
                    call = self._ring.popleft()
                    share = -(-len(call.todo) // self._size)
                    count = max(1, min(share, BATCH_JOBS, int(BATCH_S / self._job_s)))
                    indices: list[int] = []
                    while call.todo and len(indices) < count:
                        if call.results[index := call.todo.popleft()] is None:
                            indices.append(index)
                    if call.todo:
                        self._ring.append(call)
                    if indices:
                        self._busy[worker] = call
                        return Batch(call, indices)
                self._wake.wait()
        return None

    def _run(self, worker: Worker, batch: Batch) -> tuple[bool, Batch | None]:
        """Talk one batch through: whether the worker can go on, and the job to try again if it was lost with the worker."""
        call, lent = batch.call, set[int]()  # lent: given back to the queue while this worker may yet do them
        pending, payloads = self._pack(batch)
        worker.phase, since = "", time.monotonic()
        taken = not pending or worker.send((call.timeout_s, call.cpu_s, payloads), call.timeout_s + GRACE_S)
        while taken and pending:
            waiting = [index for index in pending[1:] if index not in lent]
            frame = worker.receive(since + STALL_S) if waiting else None
            if frame is None and not worker.dead:
                self._give_back(call, waiting)
                lent.update(waiting)
                frame = worker.receive(since + call.timeout_s + GRACE_S)
            if frame is None:
                break
            index, since = pending.pop(0), time.monotonic()
            result = result_of(frame, worker.phase)
            worker.phase = ""
            self._job_s = max(1e-6, 0.7 * self._job_s + 0.3 * min(frame[2], 1.0))
            if frame[1] == MORE:
                self._record(call, index, result)
            else:
                self._give_back(call, [index for index in pending if index not in lent])
                self._record(call, index, result, worker)
                return frame[1] != WORN, None
        if not pending:
            self._release(worker)
            return True, None
        self._give_back(call, [index for index in pending[1:] if index not in lent])
        return False, self._bury(worker, batch, pending[0], since, overran=taken and not worker.dead, lent=pending[0] in lent)

    def _pack(self, batch: Batch) -> tuple[list[int], list[bytes]]:
        """Pickle the arguments, up to BATCH_BYTES; what cannot be sent fails here, what is too much goes back."""
        call, size = batch.call, 0
        indices: list[int] = []
        payloads: list[bytes] = []
        for number, index in enumerate(batch.indices):
            try:
                payload = pickle.dumps(call.jobs[index], pickle.HIGHEST_PROTOCOL)
            except Exception as error:
                self._record(call, index, Failed("exception", f"the arguments cannot be pickled: {type(error).__name__}: {error}"[:500]))
                continue
            if len(payload) > self._spec.memory_mb << 18:  # the worker holds them three times while it reads them
                self._record(
                    call, index, Failed("memory", f"arguments of {len(payload) >> 20} MB for a worker of {self._spec.memory_mb} MB")
                )
                continue
            if payloads and size + len(payload) > BATCH_BYTES:
                self._give_back(call, batch.indices[number:])
                break
            size += len(payload)
            indices.append(index)
            payloads.append(payload)
        return indices, payloads

    def _bury(self, worker: Worker, batch: Batch, index: int, since: float, *, overran: bool, lent: bool) -> Batch | None:
        """Reap a worker that died or must die, record why; the job to try again, if this was the first worker lost over it."""
        call, elapsed = batch.call, time.monotonic() - since
        code = worker.reap()
        kind, detail = cause_of_death(code, elapsed, overran=overran, timeout_s=call.timeout_s, cpu_s=call.cpu_s)
        retry = kind == "lost" and not batch.retry and not lent
        if not retry and not lent:
            self._record(call, index, Failed(kind, detail, worker.phase, elapsed))
        self._job_s = 0.7 * self._job_s + 0.3 * min(elapsed, 1.0)
        self._release(worker)
        return Batch(call, [index], retry=True) if retry else None

    # bookkeeping

    def _record(self, call: Call, index: int, result: Done | Failed, worker: Worker | None = None) -> None:
        """Keep a result (the first one counts); with `worker`, its batch is over."""
        with self._lock:
            if worker is not None:
                self._busy.pop(worker, None)
            if call.left and call.results[index] is None:
                call.results[index] = result
                call.left -= 1
                if not call.left:
                    self._finish(call)

    def _release(self, worker: Worker) -> None:
        with self._lock:
            self._busy.pop(worker, None)

    def _give_back(self, call: Call, indices: list[int]) -> None:
        """Put jobs back at the front of their call."""
        with self._lock:
            if call.left and indices:
                call.todo.extendleft(reversed(indices))
                if call not in self._ring:
                    self._ring.append(call)
                self._staff()
                self._wake.notify(len(indices))

    def _fail(self, call: Call, error: SandboxError) -> None:
        if call.left:
            call.error = error
            self._finish(call)

    def _finish(self, call: Call) -> None:
        call.left = 0
        call.todo.clear()
        call.notify()
