"""Rows to groups: the rollouts of one prompt together, in the order of the file, in chunks that keep groups whole.

Streams: no more than a chunk and the group after it are held. Rows of one prompt that lie apart in a flat file are only
brought together with `gather`, which holds the whole file.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice

import click

from guerdon.cli.files import BadRow, Row, Source
from guerdon.cli.rows import Layout
from guerdon.errors import DataError
from guerdon.types import Rollout

__all__ = ["BadRows", "Group", "chunks", "one_line", "read_groups"]

PEEK = 64
"""Rows whose keys decide the layout."""

REPORTED = 5
"""Bad rows reported one by one."""


def one_line(message: str) -> str:
    """A message on one line, without what a terminal would obey: messages quote data.

    >>> one_line("no key 'a\\x1b[2J'\\n  in it")
    "no key 'a?[2J' in it"
    """
    return "".join(c if c.isprintable() else "?" for c in " ".join(message.split()))


@dataclass(slots=True)
class BadRows:
    """Counts the rows that were skipped and reports the first ones; with `strict` the first one stops the command."""

    label: str
    strict: bool
    count: int = 0
    first: str = ""

    def add(self, line: int, why: object) -> None:
        """Note one bad row."""
        message = f"{self.label}:{line}: {why}"
        if self.strict:
            raise DataError(message)
        self.count += 1
        self.first = self.first or message
        if self.count <= REPORTED:
            click.echo(one_line(f"guerdon: skipped {message}"), err=True)

    def text(self) -> str:
        """For the summary: how many, and the first."""
        return one_line(f"skipped {self.count:,} row{'s' * (self.count > 1)}, the first: {self.first}") if self.count else ""

    def close(self) -> None:
        """Say how many were skipped beyond those reported."""
        if self.count > REPORTED:
            click.echo(f"guerdon: skipped {self.count - REPORTED:,} more rows of {self.label}, {self.count:,} in all", err=True)


@dataclass(slots=True)
class Group:
    """Rollouts of one prompt, with the rows they came from. `start` is the index of the first in its group."""

    number: int
    start: int = 0
    rows: list[Row] = field(default_factory=list)
    rollouts: list[Rollout] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def add(self, row: Row, rollouts: list[Rollout]) -> None:
        """Take in one row."""
        self.rows.append(row)
        self.rollouts += rollouts
        self.lines += [row.line] * len(rollouts)


def read_groups(
    source: Source, mapping: Mapping[str, str], bad: BadRows, *, limit: int | None, whole: bool, gather: bool
) -> tuple[Layout, Iterator[Group]]:
    """The layout of the file and its groups. `whole`: groups must be complete, so one that comes back later is a DataError.

    Raises DataError when the file has no usable row.
    """
    rows = _good(islice(source.rows(), limit), bad)
    head = list(islice(rows, PEEK))
    if not head:
        raise DataError(f"{source.label}: is empty: expected one JSON object a line" if not bad.count else _unusable(bad))
    layout = Layout.detect(head, mapping, source.label)
    found = _read(chain(head, rows), layout, bad)
    groups = _nested(found) if layout.nested else _gathered(found) if gather else _adjacent(found, source.label, whole)
    return layout, _some(groups, bad)


def chunks(groups: Iterable[Group], size: int) -> Iterator[list[Group]]:
    """Whole groups, until they hold at least `size` rollouts."""
    chunk: list[Group] = []
    held = 0
    for group in groups:
        chunk.append(group)
        held += len(group.rollouts)
        if held >= size:
            yield chunk
            chunk, held = [], 0
    if chunk:
        yield chunk


def _good(rows: Iterable[Row | BadRow], bad: BadRows) -> Iterator[Row]:
    for row in rows:
        if isinstance(row, BadRow):
            bad.add(row.line, row.why)
        else:
            yield row


def _read(rows: Iterable[Row], layout: Layout, bad: BadRows) -> Iterator[tuple[Row, list[Rollout]]]:
    for row in rows:
        try:
            rollouts = layout.rollouts(row)
        except (ValueError, TypeError, AttributeError) as error:  # the last two: chats of an odd shape
            bad.add(row.line, error)
        else:
            yield row, rollouts


def _some(groups: Iterable[Group], bad: BadRows) -> Iterator[Group]:
    empty = True
    for group in groups:
        empty = False
        yield group
    if empty:
        raise DataError(_unusable(bad))


def _unusable(bad: BadRows) -> str:
    return f"none of the {bad.count:,} rows can be used; the first: {bad.first}"


def _nested(found: Iterable[tuple[Row, list[Rollout]]]) -> Iterator[Group]:
    for number, (row, rollouts) in enumerate(found):
        group = Group(number)
        group.add(row, rollouts)
        yield group


def _key(rollout: Rollout) -> Hashable:
    return (rollout.group is None, rollout.prompt if rollout.group is None else rollout.group)


def _adjacent(found: Iterable[tuple[Row, list[Rollout]]], label: str, whole: bool) -> Iterator[Group]:
    """Neighbouring rows of one prompt. Where groups need not be whole, one that comes back keeps its number and goes on counting."""
    seen: dict[int, tuple[int, int]] = {}  # 64-bit hash of the key: number, rollouts so far; a prompt may be long
    group, key = Group(-1), None
    for row, rollouts in found:
        if group.number < 0 or _key(rollouts[0]) != key:
            if group.number >= 0:
                yield group
            key = _key(rollouts[0])
            number, start = seen.get(hash(key), (len(seen), 0))
            if start and whole:
                raise DataError(f"{label}:{row.line}: its group began further up, with others between; --gather reads the file whole")
            group = Group(number, start)
        group.add(row, rollouts)
        seen[hash(key)] = (group.number, group.start + len(group.rollouts))
    if group.number >= 0:
        yield group


def _gathered(found: Iterable[tuple[Row, list[Rollout]]]) -> Iterator[Group]:
    groups: dict[Hashable, Group] = {}
    for row, rollouts in found:
        groups.setdefault(_key(rollouts[0]), Group(len(groups))).add(row, rollouts)
    yield from groups.values()
