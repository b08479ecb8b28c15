"""A progress bar on stderr, if that is a terminal; nothing otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from guerdon.cli.files import Source

__all__ = ["progress"]


@contextmanager
def progress(source: Source) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of rollouts done since the last call. The bar follows the bytes read."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda rollouts: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.fields[done]:,} rollouts"), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("scoring", total=source.size, done=0)
        done = 0

        def advance(rollouts: int) -> None:
            nonlocal done
            done += rollouts
            bar.update(task, completed=source.position(), done=done)

        yield advance
