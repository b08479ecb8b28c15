"""What a server answers besides scores: is it alive, is it ready, how is it doing, what does it serve; and the OpenAPI document."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from guerdon.backends.serve.dispatch import Dispatcher
from guerdon.backends.serve.hot import App, State
from guerdon.backends.serve.metrics import Metrics
from guerdon.backends.serve.schemas import document
from guerdon.backends.serve.settings import Settings
from guerdon.errors import LoadError

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["Front"]

log = logging.getLogger("guerdon.serve")


class Front:
    """One front: its dispatcher, its state, and the ASGI application `app`."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.state, self.metrics = settings, State(), Metrics()
        self.dispatcher = Dispatcher(settings, self.metrics)
        self.app = App(self.dispatcher, self.state, _cold(self))

    async def open(self) -> None:
        """Start the workers; ready when they are. Raises LoadError."""
        await self.dispatcher.open()
        self.state.ready = True
        for why in (self.dispatcher.staff.info or {}).get("refused", {}).values():
            log.warning("requests will be refused: %s", why)

    async def drain(self, timeout_s: float) -> None:
        """Take no more requests; return when all are answered, or after `timeout_s`."""
        import asyncio

        self.state.draining = True
        end = asyncio.get_running_loop().time() + timeout_s
        while self.dispatcher.in_flight and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.02)

    async def close(self) -> None:
        """End the workers."""
        self.state.ready = False
        await self.dispatcher.close()

    def why_not_ready(self) -> str:
        """Empty when requests are taken and a worker can score them."""
        if self.state.draining:
            return "the server is stopping"
        if not self.state.ready:
            return "the reward is being loaded"
        return "" if self.dispatcher.staff.up else "no worker is alive; one is being started"

    async def reload(self) -> tuple[int, str]:
        """Load the reward file anew: HTTP status and what to say."""
        if self.settings.processes > 1:
            return 409, "one of several processes cannot reload the others: restart the server, or run it with --processes 1"
        if self.state.reloading or (busy := self.dispatcher.in_flight) or not self.state.ready or self.state.draining:
            busy = self.dispatcher.in_flight
            return 409, f"{busy} requests are in flight" if busy else self.why_not_ready() or "a reload is under way"
        self.state.reloading = True
        try:
            await self.dispatcher.staff.reload()
        except LoadError as error:
            return 422, f"{error} (the reward loaded before stays)"
        finally:
            self.state.reloading = False
        return 200, "reloaded"


def _cold(front: Front) -> FastAPI:
    from fastapi import FastAPI
    from fastapi.responses import JSONResponse, Response

    app = FastAPI(title="guerdon", redoc_url=None, swagger_ui_oauth2_redirect_url=None)
    app.openapi = lambda: document(front.settings.token is not None)  # type: ignore[method-assign]

    @app.get("/healthz")
    async def healthz() -> Response:
        return JSONResponse({"status": "alive"})

    @app.get("/readyz")
    async def readyz() -> Response:
        why = front.why_not_ready()
        return JSONResponse({"status": why or "ready"}, 503 if why else 200, {"retry-after": "1"} if why else None)

    @app.get("/metrics")
    async def metrics() -> Response:
        front.metrics.gauges(front.dispatcher)
        text, kind = front.metrics.page()
        return Response(text, media_type=kind)

    @app.get("/info")
    async def info() -> Response:
        found = front.dispatcher.staff.info
        if found is None:
            return JSONResponse({"detail": front.why_not_ready()}, 503, {"retry-after": "1"})
        return JSONResponse(_info(front, dict(found)))

    @app.post("/reload")
    async def reload() -> Response:
        status, what = await front.reload()
        return JSONResponse({"status": what} if status == 200 else {"detail": what}, status)

    return app


def _info(front: Front, found: dict[str, Any]) -> dict[str, Any]:
    settings, staff = front.settings, front.dispatcher.staff
    return {
        "reward": settings.reward,
        "name": found["name"],
        "components": found["components"],
        "outcome": found["outcome"],
        "reads": found["reads"],
        "fingerprint": found["fingerprint"],
        "extra_logs": found["keys"],
        "refused": found["refused"],
        "versions": found["versions"],
        "workers": staff.size,
        "processes": settings.processes,
        "timeout_s": settings.timeout_s,
        "deadline_s": settings.deadline_s,
        "batch_size": settings.batch_size,
        "fill": settings.fill,
    }
