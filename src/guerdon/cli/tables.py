"""Text for people: tables rendered to strings, plain in pipes and coloured on terminals. It computes nothing.

Rendering goes through a string so that one `click.echo` writes it: a reader of stdout that goes away is then one error at
one place. What belongs together, such as `incorrect 5`, is never broken over two lines.
"""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click

__all__ = ["TIE", "WIDTH", "bar", "columns_of", "duration", "histogram", "number", "percent", "print_rich", "shares", "table"]

WIDTH = 100

TIE = "\ue000"
"""Stands for a space at which no line may break, until the text is printed: rich breaks at every kind of space."""

_LONG = 10_000
"""Wider than any table."""


def print_rich(*renderables: Any, err: bool = False) -> None:
    """Print texts (as they are: no markup) and rich renderables, at most 100 columns wide, or as wide as COLUMNS says.

    A table that cannot be so narrow without breaking what belongs together is wider.
    """
    from rich.console import Console
    from rich.measure import Measurement

    stream = sys.stderr if err else sys.stdout
    if stream is None:  # closed by whoever started us: nobody reads
        return
    terminal = stream.isatty()
    width = shutil.get_terminal_size((WIDTH, 24)).columns if terminal or "COLUMNS" in os.environ else WIDTH
    width = width if "COLUMNS" in os.environ else min(WIDTH, width)
    buffer = io.StringIO()
    console = Console(file=buffer, width=_LONG, force_terminal=terminal, highlight=False, markup=False, emoji=False)
    for renderable in renderables:
        least = 0 if isinstance(renderable, str) else Measurement.get(console, console.options, renderable).minimum
        console.print(renderable, width=max(width, least))
    text = "\n".join(line.rstrip() for line in buffer.getvalue().replace(TIE, " ").split("\n"))
    encoding = stream.encoding or "utf-8"
    click.echo(text.encode(encoding, "replace").decode(encoding), nl=False, err=err)  # file names and old terminals


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> Any:
    """A plain table; the columns in `left` are aligned to the left, the others to the right. Cells are not markup.

    Where it would be too wide, only the widest left column after the first is broken into lines.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    broken = max((i for i in left if i), key=lambda i: max((len(row[i]) for row in rows), default=0), default=None)
    for i, header in enumerate(headers):
        made.add_column(header.replace(" ", TIE), justify="left" if i in left else "right", overflow="fold", no_wrap=i != broken)
    for row in rows:
        made.add_row(*(Text(cell if i == broken else cell.replace(" ", TIE)) for i, cell in enumerate(row)))
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
    """Counts by name, the most frequent first; a name is tied to its count.

    >>> shares({"incorrect": 5, "correct": 1200}).replace(TIE, " ")
    'correct 1,200, incorrect 5'
    """
    return ", ".join(f"{name}{TIE}{count:,}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def histogram(counts: Mapping[tuple[int, int], int], kept: Mapping[tuple[int, int], int] | None = None) -> Any:
    """Prompts by (passed, total): one line for each rate when all have the same total of at most 20, else ten equal bins.

    `kept` says how many of them a rule keeps: that part of a bar is solid, and what is dropped is hollow.
    """
    totals = {total for _, total in counts if total}
    if len(totals) == 1 and max(totals) <= 20:
        total = totals.pop()
        labels = [f"{k} of {total}" for k in range(total + 1)]
    else:
        total, labels = 0, [f"{i / 10:.1f} to {(i + 1) / 10:.1f}" for i in range(10)]
    prompts, solid = Counter[int](), Counter[int]()
    for (passed, of), count in counts.items():
        if of:
            line = passed if total else min(10 * passed // of, 9)
            prompts[line] += count
            solid[line] += count if kept is None else kept.get((passed, of), 0)
    most = max(prompts.values(), default=0)
    rows = [[label, f"{prompts[i]:,}", bar(prompts[i], most, solid[i])] for i, label in enumerate(labels)]
    legend = "" if prompts == solid else f"{SOLID} kept   {HOLLOW} dropped"
    return table(["pass rate", "prompts", legend], rows, left=(0, 2))


SOLID, HOLLOW = "█", "░"


def bar(part: int, whole: int, solid: int) -> str:
    """A bar of at most 40 blocks, at least one for what is not zero; `solid` of `part` is drawn solid, the rest hollow.

    >>> bar(4, 40, 4), bar(4, 40, 0), bar(4, 40, 1), bar(0, 40, 0)
    ('████', '░░░░', '█░░░', '')
    """
    if not part:
        return ""
    blocks = max(round(40 * part / whole), 1)
    full = round(blocks * solid / part)
    if 0 < solid < part:
        full = max(1, min(full, blocks - 1))
    return SOLID * full + HOLLOW * (blocks - full)


def columns_of(keys: Mapping[str, str]) -> str:
    """From which keys of a file the parts of a rollout are read.

    >>> columns_of({"completion": "text", "prompt": "prompt"})
    "read from the keys: completion from 'text', prompt"
    """
    return "read from the keys: " + ", ".join(name if name == key else f"{name} from {key!r}" for name, key in keys.items())
