"""What a worker does with a batch: read the requests, score them together, write the answers.

One request never sees another: a request that cannot be read, lacks an input or breaks the whole call fails alone, and terms that
compare siblings see the rows of their own request only. Nothing here talks to a socket or ends a process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guerdon.backends.door import refuse_reads, require_outcome, score_safely
from guerdon.backends.openrlhf.answers import Answers
from guerdon.backends.openrlhf.reward_file import LACKS
from guerdon.backends.openrlhf.rows import column_names
from guerdon.backends.serve.doors import Refused, Row, answer, error_body, read
from guerdon.backends.serve.frames import LATE, SOME, STEP, Item, Marks, Work
from guerdon.backends.serve.rows import Lost, late_rows, lost_info, scored_rows
from guerdon.errors import ConfigError, MissingInput
from guerdon.rewards.inputs import ALWAYS
from guerdon.rewards.scores import lost_scores
from guerdon.sandboxes.deadline import ROW_S
from guerdon.types import Rollout, Status, Verdict

if TYPE_CHECKING:
    from guerdon.rewards.scores import Scores
    from guerdon.rewards.term import Term

__all__ = ["Counts", "Scorer", "info_of"]

_FIELDS = ("num_tokens", "token_ids", "messages", "truncated")
_NARROW = {"get_reward": "/get_reward", "remote_rm": "/remote_rm", "remote_rm_detail": "/remote_rm"}
_REMOTE_LACKS = dict.fromkeys(_FIELDS, "send rollouts to /score, which carries it") | {
    "group": "send the rollouts of a group to /score/batch in one request"
}

Reply = tuple[int, int, bytes, Marks]
"""unit, HTTP status, body, what its rows are for metrics"""


@dataclass
class Counts:
    """What happened in a batch: rows that were scored, and whether any was cut by a limit."""

    rows: int = 0
    late: bool = False


def info_of(reward: Term) -> dict[str, Any]:
    """What the front tells about a reward without having loaded it."""
    from importlib import metadata

    from guerdon import __version__

    outcome, keys = reward.outcome_term(), Answers(reward).keys
    return {
        "name": reward.name,
        "outcome": None if outcome is None else outcome.name,
        "reads": sorted(reward.reads),
        "names": sorted(column_names(reward.reads)),
        "fingerprint": reward.fingerprint,
        "keys": list(keys),
        "refused": _refused(reward),
        "versions": {"guerdon": __version__} | {name: metadata.version(name) for name in ("fastapi", "uvicorn")},
        **lost_info(reward, keys),
    }


def _refused(reward: Term) -> dict[str, str]:
    """The doors that do not carry what the reward reads, with the way out."""
    refused = {}
    for path, lacks in (("/get_reward", LACKS), ("/remote_rm", _REMOTE_LACKS)):
        try:
            refuse_reads(reward, path, lacks)
            if path == "/get_reward":
                require_outcome(reward, path)
        except ConfigError as error:
            refused[path] = str(error)
    return refused


log = logging.getLogger("guerdon.serve")

Units = Sequence[tuple[Item, Sequence[Rollout | str]]]


class Scorer:
    """Scores batches with one reward. `send` takes the frames for the front; may be called from several threads."""

    def __init__(self, reward: Term, fill: float | None, info: Mapping[str, Any], send: Callable[[Any], None]) -> None:
        self._reward, self._fill, self._info, self._send = reward, fill, info, send
        self._grouped = "group" in reward.reads
        self._needs = sorted(reward.reads - ALWAYS)
        self._names = frozenset(info["names"])
        self._logs = Answers(reward)
        self._marks: dict[Any, Any] = {}

    def run(self, work: Work) -> Counts:
        """Answer every request of a batch."""
        counts, token = Counts(), ROW_S.set(work.row_s)
        try:
            if work.stepwise:
                self._step_by_step(work, counts)
            else:
                self._together(work, counts)
        finally:
            ROW_S.reset(token)
        return counts

    def _read(self, item: Item) -> list[Rollout | str]:
        """The rollouts of a request. Raises Refused, also where they lack what the reward reads."""
        narrow = _NARROW.get(item.door)
        if narrow in self._info["refused"]:
            raise Refused(422, self._info["refused"][narrow])
        found = read(item.door, item.body, self._names)
        if narrow is None and not all(self._has(name, found) for name in self._needs):
            try:  # it may still be that no term needs it on these rows
                self._reward.check_inputs([rollout for rollout in found if isinstance(rollout, Rollout)])
            except MissingInput as error:
                raise Refused(422, str(error)) from None
        return found

    @staticmethod
    def _has(name: str, rollouts: Sequence[Rollout | str]) -> bool:
        if name in _FIELDS:
            return all(getattr(rollout, name, None) is not None for rollout in rollouts)
        columns = name.split("|")
        return any(not isinstance(r, str) and r.column(column) is not None for column in columns for r in rollouts)

    def _score(self, rollouts: Sequence[Rollout], limit_s: float, fatal: tuple[type[Exception], ...] = ()) -> Scores:
        try:
            return score_safely(self._reward, rollouts, limit_s, fatal=fatal, check=False)
        except Exception:
            raise
        except BaseException as error:  # a KeyboardInterrupt can only be the reward's own here
            if fatal:
                raise RuntimeError(f"{type(error).__name__}: {error}") from error
            log.error("reward %r: %d rows could not be scored: %r", self._reward.name, len(rollouts), error)
            return lost_scores(self._reward, rollouts, RuntimeError(f"{type(error).__name__}: {error}"))

    # -- all rows at once

    def _together(self, work: Work, counts: Counts) -> None:
        replies: list[Reply] = []
        units: list[tuple[Item, Sequence[Rollout | str]]] = []
        for item in work.items:
            try:
                units.append((item, self._read(item)))
            except Refused as refused:
                replies.append((item.unit, refused.status, error_body(refused.detail), ()))
        for part, scores in self._calls(units, work.limit_s):
            replies += self._replies(part, scores, work, counts)
        self._send((SOME, work.number, replies))

    def _calls(self, units: Units, limit_s: float) -> Iterator[tuple[Units, Scores]]:
        """All requests in one call; each in its own where terms compare siblings, or where something breaks the whole call."""
        if len(units) > 1 and not self._grouped:
            scores = None
            with suppress(Exception):  # what it was is said when the request that did it is scored alone
                scores = self._score(_rollouts(units), limit_s, fatal=(Exception,))
            if scores is not None:
                yield units, scores
                return
        for unit in units:
            yield [unit], self._score(_rollouts([unit]), limit_s)

    def _replies(self, units: Units, scores: Scores, work: Work, counts: Counts) -> Iterator[Reply]:
        late = late_rows(scores)
        if late and work.final and (len(scores) == 1 or not work.by_timeout):
            self._blame(scores, late, work, counts)
            late = set()
        rows, start = scored_rows(scores, self._logs), 0
        for item, found in units:
            end = start + sum(isinstance(row, Rollout) for row in found)
            if late.isdisjoint(range(start, end)):
                counts.rows += end - start
                yield self._reply(item, found, iter(rows[start:end]))
            else:
                counts.late = True
                yield item.unit, LATE, b"", ()
            start = end

    # -- row by row

    def _step_by_step(self, work: Work, counts: Counts) -> None:
        """With a row limit, or after a worker died: the front is told of each row before it is scored."""
        end = time.monotonic() + work.left_s
        for item in work.items:
            self._send((STEP, work.number, item.unit, -1))
            try:
                found = self._read(item)
            except Refused as refused:
                reply: Reply = item.unit, refused.status, error_body(refused.detail), ()
            else:
                reply = self._reply(item, found, self._steps(work, item, found, counts, end))
            self._send((SOME, work.number, [reply]))

    def _steps(self, work: Work, item: Item, found: Sequence[Rollout | str], counts: Counts, end: float) -> Iterator[Row]:
        if self._grouped:
            yield from self._step(_rollouts([(item, found)]), work, counts, end)
            return
        for number, rollout in enumerate(found):
            if number in item.lost:
                yield Lost(self._info, *item.lost[number])
            elif isinstance(rollout, Rollout):
                self._send((STEP, work.number, item.unit, number))
                yield from self._step([rollout], work, counts, end)

    def _step(self, rollouts: Sequence[Rollout], work: Work, counts: Counts, end: float) -> Sequence[Row]:
        limit = min(work.limit_s, end - time.monotonic())
        if limit < 0.001:
            return [Lost(self._info, "deadline", "the request's deadline passed before this row's turn")] * len(rollouts)
        scores = self._score(rollouts, limit)
        if late := late_rows(scores):
            self._blame(scores, late, work, counts)
        counts.rows += len(scores)
        return scored_rows(scores, self._logs)

    @staticmethod
    def _blame(scores: Scores, late: set[int], work: Work, counts: Counts) -> None:
        """Say of rows cut by the row limit that it was that, and not the deadline of the request."""
        counts.late = True
        if work.by_timeout:
            verdict = Verdict.of(Status.ERROR, "checker_timeout", f"scoring the row took longer than {work.limit_s:g} s")
            for column in (*scores.verdicts.values(), scores.outcomes):
                for i in late:
                    if column[i].reason == "deadline":
                        column[i] = verdict

    # -- answering

    def _reply(self, item: Item, found: Sequence[Rollout | str], rows: Iterator[Row]) -> Reply:
        """The answer to a request; `rows` gives the next of its rollouts."""
        whole: list[Row] = [Lost(self._info, "bad_column", row) if isinstance(row, str) else next(rows) for row in found]
        ids = [None if isinstance(row, str) else row.id for row in found]
        marks = [(row.total is None, row.statuses()) for row in whole]
        kept = self._marks.setdefault  # equal ones are one object: pickled once a batch
        return item.unit, 200, answer(item.door, whole, ids, self._fill), tuple([kept(mark, mark) for mark in marks])


def _rollouts(units: Units) -> list[Rollout]:
    return [rollout for _, found in units for rollout in found if isinstance(rollout, Rollout)]
