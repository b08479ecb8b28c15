"""Prometheus metrics of a front. With several fronts they are added up through files (prometheus_client's multiprocess mode)."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guerdon.backends.serve.dispatch import Dispatcher
    from guerdon.backends.serve.frames import Marks

__all__ = ["Metrics"]

LATENCY_S = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)


class Metrics:
    """Counters and how to show them."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Gauge, Histogram
        from prometheus_client import Counter as Total

        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry, "namespace": "guerdon"}
        live = {**own, "multiprocess_mode": "livesum"}
        self._latency = Histogram("request_seconds", "Seconds a request took.", ["path", "code"], buckets=LATENCY_S, **own)
        self._batch_rows = Histogram("batch_rows", "Rows scored in one call.", buckets=ROWS, **own)
        self._rows = Total("rows", "Verdicts by component and status.", ["component", "status"], **own)
        self._abstained = Total("abstained_rows", "Rows without a reward.", **own)
        self._restarts = Gauge("worker_restarts", "Workers replaced since the start.", **live)
        self._workers = Gauge("workers", "Workers that can be given work.", **live)
        self._in_flight = Gauge("requests_in_flight", "Requests accepted and not answered.", **live)
        self._queue_rows = Gauge("queue_rows", "Rows accepted and not answered.", **live)
        self._queue_bytes = Gauge("queue_bytes", "Bytes of the requests accepted and not answered.", **live)
        self._seen: dict[tuple[str, int], Any] = {}
        self._kept: dict[tuple[str, str], Any] = {}

    def request(self, path: str, code: int, seconds: float) -> None:
        """A request was answered."""
        seen = self._seen.get((path, code))
        if seen is None:
            seen = self._seen[path, code] = self._latency.labels(path, str(code))
        seen.observe(seconds)

    def batch(self, rows: int) -> None:
        """A worker has done a batch."""
        if rows:
            self._batch_rows.observe(rows)

    def answered(self, marks: Marks) -> None:
        """Rows were answered."""
        for (abstained, statuses), n in Counter(marks).items():
            if abstained:
                self._abstained.inc(n)
            for one in statuses:
                seen = self._kept.get(one)
                if seen is None:
                    seen = self._kept[one] = self._rows.labels(*one)
                seen.inc(n)

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
