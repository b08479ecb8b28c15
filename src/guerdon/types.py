"""The values every room shares: statuses, verdicts, messages, rollouts, and the two protocols.

Stdlib only. Nothing here computes a score; makers of rollouts from trainer rows live in `guerdon.rollouts`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from guerdon.errors import ConfigError

__all__ = ["Message", "Reward", "Rollout", "Status", "Verdict", "Verifier", "group_ids"]


class Status(StrEnum):
    """What became of one check of one completion.

    >>> [status.value for status in Status if status.is_verified][:3]
    ['correct', 'partial', 'incorrect']
    """

    CORRECT = "correct"
    """Right: score 1."""
    PARTIAL = "partial"
    """Partly right (some tests passed): score strictly between 0 and 1."""
    INCORRECT = "incorrect"
    """Wrong: score 0."""
    NO_ANSWER = "no_answer"
    """The completion holds no answer: score 0."""
    UNPARSEABLE = "unparseable"
    """The completion's answer cannot be read: score 0."""
    TIMEOUT = "timeout"
    """The candidate used up its own CPU limit: score 0."""
    SCORED = "scored"
    """A shaping, judge or user term gave a finite score."""
    NOT_APPLICABLE = "not_applicable"
    """The term does not concern this row: it is left out of the sum."""
    UNSCORED = "unscored"
    """Deliberate abstention: the row is left out."""
    BAD_REFERENCE = "bad_reference"
    """The answer (reference) is missing or broken: the row is left out."""
    ERROR = "error"
    """The check itself broke (lost worker, host, queue, user exception): the row is left out."""

    # Plain attributes, filled in below: scoring reads them several times per verdict, and a property costs ten times as much.
    is_verified: bool
    """A verifier's judgement on the completion: score in 0..1."""
    has_score: bool
    """Verified or SCORED."""
    is_abstention: bool
    """UNSCORED, BAD_REFERENCE or ERROR: the row is left out of the training signal."""
    is_broken: bool
    """BAD_REFERENCE or ERROR: somebody has something to mend."""


_FIXED: dict[Status, float] = {
    Status.CORRECT: 1.0,
    Status.INCORRECT: 0.0,
    Status.NO_ANSWER: 0.0,
    Status.UNPARSEABLE: 0.0,
    Status.TIMEOUT: 0.0,
}
for _status in Status:
    _status.is_verified = _status in _FIXED or _status is Status.PARTIAL
    _status.has_score = _status.is_verified or _status is Status.SCORED
    _status.is_abstention = _status in (Status.UNSCORED, Status.BAD_REFERENCE, Status.ERROR)
    _status.is_broken = _status in (Status.BAD_REFERENCE, Status.ERROR)

_REASON_SHAPE = re.compile(r"[a-z][a-z0-9_]{0,47}|").fullmatch


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one check of one completion.

    `score` is None exactly when the status has no score; verifier statuses fix it (PARTIAL bounds it to the open
    interval 0..1). A NaN or infinite score becomes ERROR with reason `non_finite`. `reason` is a short machine code
    for metrics (guerdon's own are listed in `guerdon.reasons`), `detail` is for people, `extracted` is what was taken from the
    completion, `info` carries stage, rule, per-test results and the like, `seconds` is the time the check took.

    Raises ConfigError when score and status contradict each other.

    >>> Verdict(1.0, Status.CORRECT)
    Verdict(score=1.0, status=<Status.CORRECT: 'correct'>, reason='', detail='', extracted=None, info={}, seconds=0.0)
    >>> Verdict(float("nan"), Status.SCORED).status
    <Status.ERROR: 'error'>
    """

    score: float | None
    status: Status
    reason: str = ""
    detail: str = ""
    extracted: str | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    __hash__ = None  # type: ignore[assignment]  # info is a mapping

    def __post_init__(self) -> None:
        score, status = self.score, self.status
        if type(status) is not Status:
            object.__setattr__(self, "status", status := Status(status))
        if self.reason and not _REASON_SHAPE(self.reason):
            raise ConfigError(f"Verdict reason {self.reason!r}: expected a machine code like 'no_box'; put prose in detail=")
        if not status.has_score:
            if score is not None:
                raise ConfigError(f"Verdict: status {status} has no score, got {score!r}; pass score=None")
            return
        if score is None:
            raise ConfigError(f"Verdict: status {status} needs a score, got None")
        if type(score) is not float:
            object.__setattr__(self, "score", score := float(score))
        if not math.isfinite(score):
            object.__setattr__(self, "score", None)
            object.__setattr__(self, "status", Status.ERROR)
            object.__setattr__(self, "reason", "non_finite")
            object.__setattr__(self, "detail", self.detail or f"a {status} term gave {score}")
        elif status is Status.PARTIAL:
            if not 0.0 < score < 1.0:
                raise ConfigError(f"Verdict: PARTIAL needs a score strictly between 0 and 1, got {score}")
        elif status is not Status.SCORED and score != _FIXED[status]:
            raise ConfigError(f"Verdict: status {status} has score {_FIXED[status]}, got {score}")

    @classmethod
    def of(cls, status: Status, reason: str = "", detail: str = "", **fields: Any) -> Verdict:
        """A verdict whose score its status fixes (all but PARTIAL and SCORED).

        >>> Verdict.of(Status.NO_ANSWER, "no_box").score
        0.0
        """
        return cls(_FIXED.get(status), status, reason, detail, **fields)

    @classmethod
    def graded(cls, fraction: float, reason: str = "", detail: str = "", **fields: Any) -> Verdict:
        """CORRECT at 1, INCORRECT at 0, PARTIAL between; anything outside 0..1 or not finite is ERROR.

        >>> Verdict.graded(0.25).status
        <Status.PARTIAL: 'partial'>
        """
        if not 0.0 <= fraction <= 1.0:
            return cls(None, Status.ERROR, "out_of_range", detail or f"expected a score in 0..1, got {fraction}", **fields)
        status = Status.CORRECT if fraction == 1.0 else Status.INCORRECT if fraction == 0.0 else Status.PARTIAL
        return cls(float(fraction), status, reason, detail, **fields)


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. `content` is its text; reasoning that a template keeps apart is `reasoning_content`."""

    role: str
    content: str = ""
    reasoning_content: str | None = None
    tool_calls: tuple[Any, ...] = ()

    def __hash__(self) -> int:  # tool calls are usually mappings
        return hash((self.role, self.content, self.reasoning_content, repr(self.tool_calls)))

    @classmethod
    def of(cls, raw: Message | Mapping[str, Any]) -> Message:
        """From a chat dict; text parts of a multi-part content are joined, other parts dropped.

        >>> Message.of({"role": "user", "content": [{"type": "text", "text": "2+2?"}]}).content
        '2+2?'
        """
        if isinstance(raw, Message):
            return raw
        if not isinstance(raw, Mapping) or "role" not in raw:
            raise ConfigError(f"expected a message with a 'role', got {raw!r:.80}")
        content = raw.get("content")
        if not isinstance(content, str):
            content = "" if content is None else _joined(content)
        reasoning = raw.get("reasoning_content") or raw.get("reasoning") or None
        return cls(str(raw["role"]), content, reasoning, tuple(raw.get("tool_calls") or ()))

    @property
    def text(self) -> str:
        """The content with its reasoning restored as `<think>...</think>` before it."""
        return self.content if self.reasoning_content is None else f"<think>{self.reasoning_content}</think>{self.content}"


def _joined(content: Any) -> str:
    """The text of a multi-part content. What a tool returned may be anything: it is shown as it is."""
    if not isinstance(content, list | tuple):
        return str(content)
    return "".join(p if isinstance(p, str) else str(p.get("text") or "") if isinstance(p, Mapping) else str(p) for p in content)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One sampled completion and everything a term may read about it.

    `completion` is the text (for chats: the last assistant message, reasoning restored as `<think>...</think>`).
    `answer` is the reference. `messages` is the trajectory the policy and its tools produced. `token_ids` and
    `num_tokens` count model tokens only; `truncated` says the length limit ended the completion. `group` names the
    prompt's group; None groups rollouts of one call by equal prompt. `columns` holds every other data column.

    >>> rollout = Rollout("It is 4", prompt="2+2?", answer="4", num_tokens=3)
    >>> rollout.answer, rollout.columns
    ('4', {})
    """

    completion: str
    prompt: str | tuple[Message, ...] = ""
    answer: Any = None
    messages: tuple[Message, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    num_tokens: int | None = None
    truncated: bool | None = None
    group: Hashable = None
    id: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)

    __hash__ = None  # type: ignore[assignment]  # columns is a mapping

    def __post_init__(self) -> None:
        if not isinstance(self.completion, str):
            got = type(self.completion).__name__
            raise ConfigError(f"Rollout: completion must be text, got {got}; use Rollout.from_messages for chats")
        if not isinstance(self.prompt, str | tuple):
            raise ConfigError(
                f"Rollout: prompt must be text or a tuple of Messages, got {type(self.prompt).__name__}; for a chat use "
                "Rollout.from_messages([{'role': 'assistant', 'content': ...}], prompt=[...])"
            )

        try:
            hash(self.group)
        except TypeError:
            raise ConfigError(f"Rollout: group must be hashable (text, a number), got {type(self.group).__name__}") from None

    def column(self, name: str) -> Any:
        """The data column `name` (None if absent). `answer` also finds `columns["answer"]`.

        >>> Rollout("x", columns={"tests": [1]}).column("tests")
        [1]
        """
        if name == "answer" and self.answer is not None:
            return self.answer
        return self.columns.get(name)

    @classmethod
    def from_messages(cls, messages: Iterable[Message | Mapping[str, Any]], prompt: Any = None, **fields: Any) -> Rollout:
        """From a chat: see `guerdon.rollouts.from_messages`."""
        from guerdon import rollouts

        return rollouts.from_messages(messages, prompt, **fields)

    @classmethod
    def from_trl(cls, prompt: Any, completion: Any, completion_ids: Any = None, **columns: Any) -> Rollout:
        """From one row of a TRL reward call: see `guerdon.rollouts.from_trl`."""
        from guerdon import rollouts

        return rollouts.from_trl(prompt, completion, completion_ids, **columns)

    @classmethod
    def from_verl(cls, data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None) -> Rollout:
        """From the arguments of verl's `compute_score`: see `guerdon.rollouts.from_verl`."""
        from guerdon import rollouts

        return rollouts.from_verl(data_source, solution_str, ground_truth, extra_info)

    @classmethod
    def from_openrlhf(cls, query: str, prompt: str, label: Any = None) -> Rollout:
        """From one row of an OpenRLHF reward call: see `guerdon.rollouts.from_openrlhf`."""
        from guerdon import rollouts

        return rollouts.from_openrlhf(query, prompt, label)


def group_ids(rollouts: Sequence[Rollout]) -> list[int]:
    """Number the groups 0, 1, ... in order of appearance: equal `group`, or equal `prompt` where `group` is None.

    >>> group_ids([Rollout("a", prompt="p"), Rollout("b", prompt="q"), Rollout("c", prompt="p")])
    [0, 1, 0]
    """
    seen: dict[Hashable, int] = {}
    return [seen.setdefault((r.group is None, r.prompt if r.group is None else r.group), len(seen)) for r in rollouts]


@runtime_checkable
class Verifier(Protocol):
    """Is it right? Judges completions against their answers: one verdict per rollout, in order.

    A verifier never raises for what a completion holds and keeps no state between calls. It may declare
    `reads: frozenset[str]` (default `{"answer"}`).
    """

    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]: ...


@runtime_checkable
class Reward(Protocol):
    """What does it earn? One named value per rollout, with the verdict that explains it.

    `reads` names the inputs the reward needs: data columns, or `num_tokens`, `token_ids`, `messages`, `truncated`,
    `group`. `fingerprint` is None when results must not be cached. A reward may also have `averdicts`, async.
    """

    @property
    def name(self) -> str: ...
    @property
    def reads(self) -> frozenset[str]: ...
    @property
    def fingerprint(self) -> str | None: ...
    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]: ...
