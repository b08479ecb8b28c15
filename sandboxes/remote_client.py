"""The live side of SandboxFusion and Piston specs: what a job is sent as and what becomes of it when the service does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from guerdon.sandboxes.asking import Asker, Manners, Unanswered
from guerdon.sandboxes.base import Capabilities, Job, RunResult
from guerdon.sandboxes.deadline import DEADLINE
from guerdon.sandboxes.remote import Piston, SandboxFusion
from guerdon.sandboxes.remote_schemas import LANGUAGES, Refused, body, path, result

__all__ = ["RemoteSandbox"]

_MAX_ANSWER = 64 << 20


class RemoteSandbox:
    """The live client of a service. See `Sandbox` for what it promises to callers. Raises MissingExtra without httpx."""

    def __init__(self, spec: SandboxFusion | Piston) -> None:
        self._spec, self._url = spec, path(spec)
        manners = Manners(
            concurrency=spec.concurrency,
            attempts=spec.attempts,
            failures=spec.failures,
            cooldown_s=spec.cooldown_s,
            max_answer=_MAX_ANSWER,
            headers=spec.headers,
        )
        self._asker = Asker(manners, "the sandbox")

    def run(self, job: Job) -> RunResult:
        return self.run_many([job])[0]

    def run_many(self, jobs: Sequence[Job]) -> list[RunResult]:
        return self._asker.run(self._all(jobs, DEADLINE.get()))

    async def arun(self, job: Job) -> RunResult:
        return (await self.arun_many([job]))[0]

    async def arun_many(self, jobs: Sequence[Job]) -> list[RunResult]:
        return await self._asker.arun(self._all(jobs, DEADLINE.get()))

    def capabilities(self) -> Capabilities:
        """What the service is asked to do; whether it can is not known before it answers."""
        return Capabilities(self._spec.backend, "remote", tuple(LANGUAGES), self._spec.concurrency)

    def close(self) -> None:
        """Calls that still run raise SandboxError."""
        self._asker.close()

    def disown(self) -> None:
        self._asker.disown()

    def __enter__(self) -> RemoteSandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # on the client's loop

    async def _all(self, jobs: Sequence[Job], deadline: float | None) -> list[RunResult]:
        return list(await asyncio.gather(*(self._within(job, deadline) for job in jobs)))

    async def _within(self, job: Job, deadline: float | None) -> RunResult:
        spec, limits = self._spec, job.limits or self._spec.limits
        try:
            sent = body(spec, job, limits)
        except Refused as error:
            return self._infra(str(error))
        left = None if deadline is None else deadline - time.monotonic()
        patience_s = limits.wall_s + spec.compile_s + spec.grace_s
        try:
            async with asyncio.timeout(left):
                return await self._asker.ask(self._url, lambda: sent, lambda answer: result(spec, job, limits, answer), patience_s)
        except Unanswered as error:
            return self._infra(str(error))
        except TimeoutError:
            detail = "the deadline passed before this run was done"
            return RunResult("infra_error", level="remote", backend=spec.backend, detail=detail, timed_out_by="deadline")

    def _infra(self, detail: str) -> RunResult:
        return RunResult("infra_error", level="remote", backend=self._spec.backend, detail=detail[:1000])
