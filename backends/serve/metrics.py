"""Prometheus metrics of a front. With several fronts they are added up through files (prometheus_client's multiprocess mode)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guerdon.backends.serve.dispatch import Dispatcher
    from guerdon.backends.serve.scoring import Counts

__all__ = ["Metrics"]

LATENCY_S = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)


class Metrics:
    """Counters and how to show them."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry, "namespace": "guerdon"}
        live = {**own, "multiprocess_mode": "livesum"}
        self._latency = Histogram("request_seconds", "Seconds a request took.", ["path", "code"], buckets=LATENCY_S, **own)
        self._batch_rows = Histogram("batch_rows", "Rows scored in one call.", buckets=ROWS, **own)
        self._rows = Counter("rows", "Verdicts by component and status.", ["component", "status"], **own)
        self._abstained = Counter("abstained_rows", "Rows without a reward.", **own)
        self._restarts = Gauge("worker_restarts", "Workers replaced since the start.", **live)
        self._workers = Gauge("workers", "Workers that can be given work.", **live)
        self._in_flight = Gauge("requests_in_flight", "Requests accepted and not answered.", **live)
        self._queue_rows = Gauge("queue_rows", "Rows accepted and not answered.", **live)
        self._queue_bytes = Gauge("queue_bytes", "Bytes of the requests accepted and not answered.", **live)
        self._seen: dict[tuple[str, int], Any] = {}

    def request(self, path: str, code: int, seconds: float) -> None:
        """A request was answered."""
        seen = self._seen.get((path, code))
        if seen is None:
            seen = self._seen[path, code] = self._latency.labels(path, str(code))
        seen.observe(seconds)

    def batch(self, counts: Counts) -> None:
        """A worker has done a batch."""
        if counts.rows:
            self._batch_rows.observe(counts.rows)
        self._abstained.inc(counts.abstained)
        for (component, status), n in counts.statuses.items():
            self._rows.labels(component, status).inc(n)

    def lost(self, components: Iterable[str], rows: int) -> None:
        """Rows were answered without being scored."""
        self._abstained.inc(rows)
        for component in components:
            self._rows.labels(component, "error").inc(rows)

    def gauges(self, dispatcher: Dispatcher) -> None:
        """Take the readings."""
        self._restarts.set(dispatcher.staff.restarts)
        self._workers.set(dispatcher.staff.up)
        self._in_flight.set(dispatcher.in_flight)
        self._queue_rows.set(dispatcher.rows)
        self._queue_bytes.set(dispatcher.bytes)

    def page(self) -> tuple[bytes, str]:
        """The text of `/metrics` and its content type."""
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        registry = self.registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            from prometheus_client.multiprocess import MultiProcessCollector

            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST
