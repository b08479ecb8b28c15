"""A scoring process: loads the reward by its import string, then scores the batches that come over a socket until it closes.

Run as `python -m guerdon.backends.serve.worker FD`. The main thread only reads, so that it can say it is alive while others score;
a worker that cannot say so (C code holds the interpreter) is killed by the front.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import warnings
import weakref
from contextlib import suppress
from contextvars import ContextVar, copy_context
from queue import SimpleQueue
from typing import Any

from guerdon.backends.serve.frames import BROKEN, DONE, PING, PONG, READY, STUCK, Frames, Work, pack
from guerdon.backends.serve.lifeline import follow_parent
from guerdon.backends.serve.scoring import Counts, Scorer, info_of

__all__ = ["main"]

log = logging.getLogger("guerdon.serve")

STUCK_S = 1.0
"""A thread of a row cut by a limit that still runs after so long is taken to run for ever."""


class Link:
    """The socket to the front: whole messages in, whole messages out, from any thread."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._lock = threading.Lock()
        self._frames = Frames()

    def send(self, message: Any) -> None:
        data = pack(message)
        with self._lock, suppress(OSError):  # the front is gone: the reader notices
            self._socket.sendall(data)

    def receive(self) -> list[Any]:
        """The next messages; empty when the front is gone."""
        while True:
            try:
                data = self._socket.recv(1 << 18)
            except OSError:
                return []
            if not data:
                return []
            if messages := self._frames.feed(data):
                return messages


class Desk:
    """Threads that score, as many as there are batches at once; the front bounds them."""

    def __init__(self, scorer: Scorer, link: Link) -> None:
        self._scorer, self._link = scorer, link
        self._queue: SimpleQueue[Work] = SimpleQueue()
        self._open = 0
        self._threads = 0
        self._lock = threading.Lock()

    def put(self, work: Work) -> None:
        with self._lock:
            self._open += 1
            hire = self._open > self._threads
            self._threads += hire
        self._queue.put(work)
        if hire:
            threading.Thread(target=self._serve, name="guerdon-batch", daemon=True).start()

    def _serve(self) -> None:
        while True:
            work = self._queue.get()
            context, mark = copy_context(), _Mark()
            context.run(_batch.set, mark)
            held = weakref.ref(mark)
            start, counts = time.perf_counter(), Counts()
            try:
                counts = context.run(self._scorer.run, work)
            except BaseException:  # not foreseen: the front answers what has no answer yet
                log.exception("a batch broke")
            del context, mark
            with self._lock:
                self._open -= 1
            self._link.send((DONE, work.number, time.perf_counter() - start, counts))
            if counts.late:
                time.sleep(STUCK_S)
                if held() is not None and any(thread.name == "guerdon-leaf" for thread in threading.enumerate()):
                    self._link.send((STUCK,))


class _Mark:
    """Lives as long as something that was begun for a batch still runs: threads and tasks hold its context."""


_batch: ContextVar[_Mark] = ContextVar("guerdon_serve_batch")


def main() -> None:
    """Serve the front at the other end of the descriptor in argv. Never returns."""
    options = json.loads(sys.argv[2])
    link = Link(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the front's to handle
    follow_parent(signal.SIGKILL)
    os.dup2(2, 1)  # what rewards print
    logging.basicConfig(level=options["log_level"].upper(), format="guerdon: worker %(process)d: %(levelname)s: %(message)s", force=True)
    warnings.showwarning = lambda message, *_, **__: log.warning("%s", message)
    try:
        reward = _load(options["reward"])
        info = info_of(reward)
    except (Exception, SystemExit) as error:
        from guerdon.errors import GuerdonError

        own = isinstance(error, GuerdonError)
        link.send((BROKEN, str(error) if own else f"{options['reward']!r}: {type(error).__name__}: {error}"))
        os._exit(1)
    desk = Desk(Scorer(reward, options["fill"], info, link.send), link)
    link.send((READY, info))
    while messages := link.receive():
        for message in messages:
            if message == PING:
                link.send((PONG,))
            else:
                desk.put(message)
    os._exit(0)  # no atexit, no joining of threads that may never end


def _load(spec: str) -> Any:
    """The reward of the import string. Byte code is not kept: a file edited twice within a second would come back as it was."""
    from guerdon.loading import load
    from guerdon.rewards.function import from_function
    from guerdon.rewards.term import Term, require_term

    sys.path.append(os.getcwd())
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, spec.rpartition(":")[0].endswith(".py") or sys.dont_write_bytecode
    try:
        found = load(spec)
    finally:
        sys.dont_write_bytecode = kept
    if not isinstance(found, Term | type) and all(hasattr(found, name) for name in ("name", "reads", "verdicts")):
        return from_function(found)
    return require_term(found, spec)


if __name__ == "__main__":
    main()
