"""`remote`: a reward model behind HTTP, asked in batches: OpenRLHF's, `guerdon serve`, vLLM, SGLang, TEI, or a server of your own.

What it answers is the score, status SCORED; it is never the outcome unless `with_outcome` says so. A row it fails on is ERROR, never 0:
`service_failed` (not reachable, HTTP errors, an answer of another shape), `wrong_length`, `wrong_type`, `non_finite`, `deadline`. Nothing
is scaled, clipped or truncated here, and no chat template is applied.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from guerdon.errors import ConfigError, MissingInput
from guerdon.loading import load
from guerdon.rewards._formats import FORMATS, Options
from guerdon.rewards._http import Learned, service_url, without_key
from guerdon.rewards.grading import as_verdict, caught, failed, shown
from guerdon.rewards.inputs import inputs_of
from guerdon.rewards.tokens import check_whole
from guerdon.types import Rollout, Status, Verdict

if TYPE_CHECKING:
    from guerdon.sandboxes.asking import Asker

__all__ = ["Remote"]

TOO_MUCH = frozenset({400, 413, 422})
"""HTTP statuses that one row may have brought upon a whole request: it is then asked again in halves."""


@dataclass(frozen=True)
class Remote(Learned):
    """See `guerdon.rewards.remote`."""

    url: str
    name: str = "remote"
    format: str = "openrlhf"
    model: str | None = None
    columns: tuple[str, ...] = ()
    text: Callable[[Rollout], str] | str | None = None
    index: int | str | None = None
    request_function: Callable[[list[Rollout]], Any] | str | None = None
    parse: Callable[[Any], Sequence[Any]] | str | None = None
    batch_size: int = 16
    extra_body: str = "{}"

    def __post_init__(self) -> None:
        self.check("remote")
        if self.format not in FORMATS:
            raise ConfigError(f"remote: format must be one of {', '.join(FORMATS)}, or pass request= and parse=; got {self.format!r}")
        object.__setattr__(self, "url", service_url("remote", "url", self.url, FORMATS[self.format].path))
        object.__setattr__(self, "columns", tuple(sorted(inputs_of(self.columns))))
        if not all(isinstance(name, str) and name and "|" not in name for name in self.columns):
            raise ConfigError(f"remote: columns must be names of data columns, without '|'; got {shown(self.columns)}")
        check_whole("remote", "batch_size", self.batch_size, 1)
        if self.model is not None and (not isinstance(self.model, str) or not self.model):
            raise ConfigError(f"remote: model must be the name the server knows it by, or None; got {self.model!r}")
        wanted = (str, "the label of a class, as text (TEI sorts its classes)") if self.format == "tei" else (int, "the place of a value")
        if self.index is not None and (isinstance(self.index, bool) or not isinstance(self.index, wanted[0])):
            raise ConfigError(f"remote: index for format={self.format!r} must be {wanted[1]}, or None; got {self.index!r}")
        for label in ("text", "request_function", "parse"):
            self._function(label)

    def _function(self, label: str) -> Callable[..., Any] | None:
        given = getattr(self, label)
        found = load(given) if isinstance(given, str) else given
        if found is not None and (not callable(found) or isinstance(found, type)):
            shown_as = label.removesuffix("_function")
            raise ConfigError(f"remote: {shown_as} must be a function or its import string, got {shown(given)}")
        return found

    @property
    def rows_per_request(self) -> int:
        return self.batch_size

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.columns)

    @property
    def fingerprint(self) -> str | None:
        return self.fingerprint_of(**{label: self._function(label) for label in ("text", "request_function", "parse")}, batch_size=1)

    def content(self, rollout: Rollout) -> bytes:
        return self._body([rollout])

    def _options(self) -> Options:
        return Options(self.model, self.columns, self._function("text"), self.index)

    def _body(self, rollouts: Sequence[Rollout]) -> bytes:
        """The request about some rows. Raises what a user's function raises, and MissingInput for a chat that only the user can put
        into the text that the model was trained on."""
        made = self._function("request_function")
        if made is not None:
            fields = made(list(rollouts))
        else:
            shape, options = FORMATS[self.format], self._options()
            if shape.reads_text and options.text is None and any(not isinstance(r.prompt, str) for r in rollouts):
                raise MissingInput(
                    f"{self.name}: the prompt is a chat, and what the model reads of it depends on its chat template: pass text=, "
                    "a function of the rollout that gives the whole text"
                )
            fields = shape.body(options, [shape.item(options, rollout) for rollout in rollouts])
        extra = json.loads(self.extra_body)
        if extra and not isinstance(fields, dict):
            raise TypeError(f"extra_body= needs a request that is an object, got {shown(fields)}")
        return json.dumps({**fields, **extra} if extra else fields, allow_nan=False, default=_listed).encode()

    async def request(self, asker: Asker, rollouts: Sequence[Rollout]) -> list[Verdict]:
        from guerdon.sandboxes.asking import Unanswered

        start, headers, n = time.perf_counter(), self.headers(), len(rollouts)
        try:
            answer = await self.answer(asker, lambda: self._body(rollouts), partial(self._read, headers=headers), headers)
        except Unanswered as error:
            if error.status in TOO_MUCH and n > 1:
                return [*await self.request(asker, rollouts[: n // 2]), *await self.request(asker, rollouts[n // 2 :])]
            return [self.unanswered(str(error), error.status, headers)] * n
        seconds = (time.perf_counter() - start) / n
        return [replace(v, detail=without_key(v.detail, headers), seconds=seconds) for v in self._verdicts(answer, n)]

    def _read(self, content: bytes, headers: Mapping[str, str]) -> Any:
        """The parsed answer; a list of values where the format reads it. Raises BadAnswer."""
        from guerdon.sandboxes.asking import BadAnswer, excerpt

        try:
            answer = json.loads(content)
            return answer if self.parse is not None else FORMATS[self.format].read(self._options(), answer)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise BadAnswer(f"{type(error).__name__}: {str(error)[:200]}: {excerpt(content, headers)}") from None

    def _verdicts(self, answer: Any, n: int) -> list[Verdict]:
        if (parse := self._function("parse")) is not None:
            try:
                answer = _in_a_row(parse(answer), n + 1)
            except BaseException as error:
                return [failed(self.name, caught(error))] * n
        if len(answer) != n:
            gave = f"{self.url} gave {len(answer)} scores for {n} rows"
            return [Verdict.of(Status.ERROR, "wrong_length", f"{self.name}: {gave}")] * n
        return [self._verdict(value, parse is None) for value in answer]

    def _verdict(self, value: Any, ours: bool) -> Verdict:
        if value is None or isinstance(value, bool) or (isinstance(value, Verdict) and not ours):
            return Verdict.of(Status.ERROR, "wrong_type", f"{self.name}: expected a number from {self.url}, got {value!r}")
        return as_verdict(value, self.name, False)


def _in_a_row(values: Any, most: int) -> list[Any]:
    """The first values of what a user's function gave, which may have no end."""
    if isinstance(values, Mapping | AbstractSet | str | bytes):  # these iterate, but not over scores in order
        raise TypeError(f"parse= must return a list of numbers, got {shown(values)}")
    return list(values if hasattr(values, "__len__") else islice(values, most))


def _listed(value: Any) -> Any:
    """Arrays and tensors among the columns as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a column holds {type(value).__name__}, which JSON cannot hold")
