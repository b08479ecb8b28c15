"""A file of rollouts scored chunk by chunk: what `guerdon score` and `guerdon filter` have in common.

Opens the file, finds its layout, loads the reward, checks inputs before anything runs, shows progress on a terminal.
What is done with the scores is the commands' business. No result is cached: equal rollouts are scored again.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from guerdon.cli.broken import Broken, Place
from guerdon.cli.files import Source
from guerdon.cli.groups import BadRows, Group, chunks, read_groups
from guerdon.cli.hints import described
from guerdon.cli.progress import progress
from guerdon.cli.rows import Layout, parse_columns
from guerdon.errors import BrokenRewardError, LoadError, MissingInput
from guerdon.types import Rollout

if TYPE_CHECKING:
    from guerdon.rewards import Term
    from guerdon.rewards.scores import Scores

__all__ = ["CHUNK", "Chunk", "Request", "Scoring", "load_reward", "scoring_options"]

CHUNK = 1024
"""Rollouts scored at a time. The watch on broken rewards looks at the last 1,024 rows after each call: more would escape it."""

_FIELDS = frozenset({"num_tokens", "token_ids", "messages", "truncated"})


@dataclass(frozen=True)
class Request:
    """What to score, as the options say it."""

    path: str
    reward: str
    columns: Mapping[str, str]
    deadline_s: float | None = None
    limit: int | None = None
    strict: bool = False
    gather: bool = False
    max_broken: float = 0.5


@dataclass(frozen=True)
class Chunk:
    """Some whole groups and their scores, rollout by rollout in order."""

    groups: list[Group]
    scores: Scores

    def place(self, row: int) -> Place:
        """Where in the file the rollout of a row is."""
        for group in self.groups:
            if row < len(group.rollouts):
                line = group.lines[row]
                return line, None if group.lines.count(line) == 1 else row - group.lines.index(line)
            row -= len(group.rollouts)
        raise IndexError(row)


class Scoring:
    """One pass over a file. `whole`: the caller needs complete groups, as do rewards that read the group."""

    def __init__(self, request: Request, *, whole: bool = False) -> None:
        with _prints_aside():
            self.reward = load_reward(request.reward)
        self.request = request
        self.source = Source(request.path)
        self.bad = BadRows(self.source.label, request.strict)
        self.seconds = 0.0
        try:
            self.layout, self._groups = self._open(whole or "group" in self.reward.reads)
        except BaseException:
            self.close()
            raise

    def _open(self, whole: bool) -> tuple[Layout, Iterator[Group]]:
        asked = self.request
        layout, groups = read_groups(self.source, asked.columns, self.bad, limit=asked.limit, whole=whole, gather=asked.gather)
        if whole and not layout.grouped:
            raise MissingInput(
                f"{self.source.label}: rollouts cannot be grouped: the rows have neither a prompt nor a group; "
                "say which key tells prompts apart with --columns group=KEY"
            )
        return layout, groups

    def close(self) -> None:
        """Close the file."""
        self.source.close()

    def chunks(self) -> Iterator[Chunk]:
        """The scores, chunk by chunk. Raises MissingInput when no rollout of a chunk has what the reward reads."""
        start = time.perf_counter()
        with progress(self.source) as advance:
            for groups in chunks(self._groups, CHUNK):
                if chunk := self._score(groups):
                    advance(len(chunk.scores))
                    yield chunk
        self.bad.close()
        self.seconds = time.perf_counter() - start

    def _score(self, groups: list[Group]) -> Chunk | None:
        try:
            return Chunk(groups, self._scores(groups))
        except MissingInput as error:
            usable = [group for group in groups if not self._lacks(group.rollouts)]
            if not usable or len(usable) == len(groups):
                first, last = groups[0].lines[0], groups[-1].lines[-1]
                where = f"{self.source.label}:{first}" + (f"-{last}" if last > first else "")
                raise MissingInput(f"{where}: {error} (--columns NAME=KEY maps keys of the file)") from None
            for group in groups:
                if group not in usable:
                    self.bad.add(group.lines[0], error)
            return Chunk(usable, self._scores(usable))

    def _scores(self, groups: list[Group]) -> Scores:
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        try:
            with _prints_aside():
                return self.reward.score(rollouts, self.request.deadline_s, max_broken=self.request.max_broken)
        except BrokenRewardError as error:
            raise BrokenRewardError(str(error).replace("pass max_broken=1.0", "pass --max-broken 1") + self._example(groups[0])) from None

    def _example(self, group: Group) -> str:
        """What breaks in a group, scored once more: the error of the whole call does not tell."""
        with _prints_aside():
            chunk = Chunk([group], self.reward.score(group.rollouts, self.request.deadline_s, max_broken=1.0))
        for name, verdicts in chunk.scores.verdicts.items():
            for found in Broken.of(verdicts, chunk.place).found.values():
                return f"; e.g. {name} at {found.first(name, self.source.label)}"
        return ""

    def _lacks(self, rollouts: list[Rollout]) -> bool:
        """Whether some rollout of a group lacks a token count or the like that a term on its route reads."""
        needed = self.reward.reads & _FIELDS
        if all(getattr(rollout, name) is not None for rollout in rollouts for name in needed):
            return False
        try:
            self.reward.check_inputs(rollouts)
        except MissingInput:
            return True
        return False


def _prints_aside() -> contextlib.redirect_stdout[Any]:
    """What the reward prints goes to stderr: stdout is for the scores and the summary."""
    return contextlib.redirect_stdout(sys.stderr)


def load_reward(spec: str) -> Term:
    """The reward that `file.py:object` or `pkg.mod:object` names. Raises LoadError, with the fix, for anything else."""
    from guerdon.loading import load
    from guerdon.rewards.function import from_function
    from guerdon.rewards.term import Term

    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # modules beside the caller, as python -m would find them, after installed ones
    try:
        found = load(spec)
    except SystemExit as stop:
        raise LoadError(f"{spec!r}: the file exited ({stop.code}) when it was run; guard scripts with if __name__ == '__main__'") from None
    if isinstance(found, Term):
        return found
    if not isinstance(found, type) and all(hasattr(found, name) for name in ("name", "reads", "verdicts")):
        return from_function(found)
    raise LoadError(f"--reward {spec}: expected a reward, got {described(found, spec.rpartition(':')[2])}")


def in_range(kind: click.FloatRange | click.IntRange) -> click.FloatRange | click.IntRange:
    """An option's range that says what it expects; click would call a text "not a valid float range"."""
    what = "whole number" if isinstance(kind, click.IntRange) else "number"
    kind.name = f"{what} in the range {kind._describe_range()}"
    return kind


_ABOVE_0, _SHARE = in_range(click.FloatRange(min=0, min_open=True)), in_range(click.FloatRange(0, 1))
_MAX_BROKEN = "Stop when more of the last 1,024 rollouts met a broken check or answer.  [default: 0.5]"
_OPTIONS = (
    click.argument("rollouts", metavar="ROLLOUTS"),
    click.option("--reward", "-r", required=True, metavar="FILE.py:NAME", help="The reward: file.py:object or package.module:object."),
    click.option("--columns", metavar="NAME=KEY,...", help="Which keys hold what, e.g. answer=solution,completion=text; else detected."),
    click.option("--deadline", type=_ABOVE_0, metavar="S", help=f"Seconds for each {CHUNK:,} rollouts; later ones are errors."),
    click.option("--limit", type=in_range(click.IntRange(min=1)), metavar="N", help="Read the first N rows only."),
    click.option("--max-broken", type=_SHARE, default=0.5, metavar="SHARE", help=_MAX_BROKEN),
    click.option("--strict", is_flag=True, help="Stop at the first bad row instead of skipping it."),
    click.option("--gather", is_flag=True, help="Read the file whole, so that scattered rows of one prompt form one group."),
    click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON document."),
)


def scoring_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The argument and options that `score` and `filter` share; the command gets them as one `request` and `as_json`."""

    @functools.wraps(command)
    def with_request(
        rollouts: str,
        reward: str,
        columns: str | None,
        deadline: float | None,
        limit: int | None,
        max_broken: float,
        strict: bool,
        gather: bool,
        **rest: Any,
    ) -> Any:
        request = Request(rollouts, reward, parse_columns(columns), deadline, limit, strict, gather, max_broken)
        return command(request, **rest)

    wrapped: Callable[..., Any] = with_request
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped
