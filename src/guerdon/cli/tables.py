"""Text for people: tables rendered to strings, plain in pipes and coloured on terminals. It computes nothing.

Rendering goes through a string so that one `click.echo` writes it: a reader of stdout that goes away is then one error at
one place.
"""

from __future__ import annotations

import io
import math
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click

from guerdon.filters import Decision, Goldilocks, PassRate

__all__ = ["WIDTH", "bar", "columns_of", "duration", "histogram", "number", "percent", "print_rich", "shares", "table"]

WIDTH = 100


def print_rich(*renderables: Any, err: bool = False) -> None:
    """Print texts (as they are: no markup) and rich renderables, at most 100 columns wide."""
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    terminal = stream.isatty()
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns) if terminal else WIDTH
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, force_terminal=terminal, highlight=False, markup=False, emoji=False)
    for renderable in renderables:
        console.print(renderable)
    text = "\n".join(line.rstrip() for line in buffer.getvalue().split("\n"))
    encoding = stream.encoding or "utf-8"
    click.echo(text.encode(encoding, "replace").decode(encoding), nl=False, err=err)  # file names and old terminals


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> Any:
    """A plain table; the columns in `left` are aligned to the left, the others to the right. Cells are not markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, header in enumerate(headers):
        made.add_column(header, justify="left" if i in left else "right", overflow="fold" if i in left else "ellipsis")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made


def number(value: float | None) -> str:
    """Three significant decimals; `-` for nothing."""
    return "-" if value is None or math.isnan(value) else f"{value:.3f}"


def duration(seconds: float) -> str:
    """Seconds as people read them.

    >>> duration(0.00042), duration(0.042), duration(42.4), duration(250)
    ('0.4 ms', '42 ms', '42.4 s', '4 min 10 s')
    """
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{int(seconds) // 60} min {int(seconds) % 60} s"


def percent(part: float, whole: float) -> str:
    """A share; `-` of nothing.

    >>> percent(1, 3), percent(0, 0)
    ('33.3 %', '-')
    """
    return f"{100 * part / whole:.1f} %" if whole else "-"


def shares(counts: Mapping[str, int]) -> str:
    """Counts by name, the most frequent first.

    >>> shares({"incorrect": 5, "correct": 1200})
    'correct 1,200, incorrect 5'
    """
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def histogram(counts: Mapping[tuple[int, int], int], rule: Goldilocks | None = None) -> Any:
    """Prompts by (passed, total): one line for each rate when all have the same total of at most 20, else ten equal bins.

    With a rule, the bars of what it keeps are solid and the others are hollow.
    """
    totals = {total for _, total in counts if total}
    if len(totals) == 1 and max(totals) <= 20:
        total = totals.pop()
        keeps = [rule is None or rule.decide(PassRate(k, total)) is Decision.KEEP for k in range(total + 1)]
        lines = [(f"{k} of {total}", counts.get((k, total), 0), keeps[k]) for k in range(total + 1)]
    else:
        bins = Counter[int]()
        for (passed, total), count in counts.items():
            if total:
                bins[min(10 * passed // total, 9)] += count
        lines = [(f"{i / 10:.1f} to {(i + 1) / 10:.1f}", bins[i], True) for i in range(10)]
    most = max((count for _, count, _ in lines), default=0)
    rows = [[label, f"{count:,}", bar(count, most, solid)] for label, count, solid in lines]
    return table(["pass rate", "prompts", ""], rows, left=(0, 2))


def bar(part: float, whole: float, solid: bool = True) -> str:
    """A bar of at most 40 blocks, at least one for what is not zero."""
    return ("█" if solid else "░") * max(round(40 * part / whole), 1) if part else ""


def columns_of(keys: Mapping[str, str]) -> str:
    """A layout as `--columns` would say it."""
    return ", ".join(name if name == key else f"{name}={key}" for name, key in keys.items())
