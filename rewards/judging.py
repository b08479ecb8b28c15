"""`judge`: a language model that grades, asked over an OpenAI-compatible `/v1/chat/completions`.

The score is whatever the judge says, read by `parse`; a reply without a score is ERROR `unparsed_reply`, one that is empty, declined
or cut off ERROR `no_reply`, a service that fails ERROR `service_failed`: never 0. A judge is no verifier: it is never the outcome
unless `with_outcome` says so.

A completion may try to talk to its judge. Values are put into the template once, unread, and the default template holds the
completion between tags with a name that it does not contain. That keeps a text from ending its own quotation; it cannot keep a model
from being persuaded by what it reads, and training looks for texts that do. Watch the outcome beside the judge.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from guerdon.errors import Abstain, ConfigError
from guerdon.loading import load
from guerdon.rewards._http import SHOWN, Learned, plain, service_url, without_key
from guerdon.rewards._prompting import Missing, check_template, columns_of, filled
from guerdon.rewards.grading import as_verdict, caught, shown
from guerdon.rewards.learned import TEMPLATE
from guerdon.rewards.replies import READERS
from guerdon.types import Rollout, Status, Verdict

if TYPE_CHECKING:
    from guerdon.sandboxes.asking import Asker

__all__ = ["Judge"]

Parse = str | Callable[[str], float | None]


@dataclass(frozen=True)
class Judge(Learned):
    """See `guerdon.rewards.judge`."""

    endpoint: str
    model: str
    template: str = TEMPLATE
    parse: Parse = "score_0_10"
    name: str = "judge"
    temperature: float | None = 0.0
    max_tokens: int | None = 1024
    extra_body: str = "{}"

    def __post_init__(self) -> None:
        self.check("judge")
        if not isinstance(self.model, str) or not self.model:
            raise ConfigError(f"judge: model must be the name the service knows it by, got {self.model!r}")
        object.__setattr__(self, "endpoint", _endpoint(self.endpoint))
        check_template("judge", self.template)
        reader(self.parse)
        if self.max_tokens is not None and (type(self.max_tokens) is not int or self.max_tokens < 1):
            raise ConfigError(f"judge: max_tokens must be a whole number of at least 1, or None to leave it out; got {self.max_tokens!r}")
        hot = self.temperature
        if hot is not None and (isinstance(hot, bool) or not isinstance(hot, int | float) or not 0 <= hot < 100):
            raise ConfigError(f"judge: temperature must be at least 0, or None to leave it out; got {hot!r}")

    @property
    def url(self) -> str:
        return self.endpoint

    @property
    def reads(self) -> frozenset[str]:
        return columns_of(self.template)

    @property
    def fingerprint(self) -> str | None:
        return self.fingerprint_of(parse=reader(self.parse))

    def content(self, rollout: Rollout) -> Verdict | bytes:
        try:
            return filled(self.template, rollout).encode()
        except Missing as error:
            if str(error) == "answer":
                return Verdict.of(
                    Status.BAD_REFERENCE, "missing_reference", f"{self.name}: the template shows an answer; this row has none"
                )
            return Verdict.of(Status.BAD_REFERENCE, "bad_column", f"{self.name}: the template shows column {error}; this row has none")

    async def request(self, asker: Asker, rollouts: Sequence[Rollout]) -> list[Verdict]:
        from guerdon.sandboxes.asking import Unanswered

        start, headers = time.perf_counter(), self.headers()
        try:
            reply = await self.answer(asker, lambda: self.body(rollouts[0]), partial(_reply, headers=headers), headers)
        except Unanswered as error:
            return [self.unanswered(str(error), error.status, headers)]
        return [replace(self.read(reply), seconds=time.perf_counter() - start)]

    def body(self, rollout: Rollout) -> bytes:
        """The request about a row."""
        import json

        fields: dict[str, Any] = {"model": self.model, "messages": [{"role": "user", "content": filled(self.template, rollout)}]}
        fields |= {name: value for name in ("temperature", "max_tokens") if (value := getattr(self, name)) is not None}
        return json.dumps({**fields, **json.loads(self.extra_body)}).encode()

    def read(self, reply: _Reply) -> Verdict:
        """The verdict that a reply gives."""
        text = reply.text[-SHOWN:]
        if reply.trouble:
            return Verdict.of(Status.ERROR, "no_reply", f"{self.name}: {reply.trouble}; it said {text!r}"[: 2 * SHOWN])
        try:
            value = reader(self.parse)(reply.text)
        except Abstain as abstention:
            return as_verdict(abstention, self.name, False)
        except BaseException as error:
            why = f"parse raised {type(caught(error)).__name__}: {shown(error, 200)}"
        else:
            if value is not None:
                return _scored(value, self.name, text)
            why = "no score was found"
        return Verdict.of(Status.ERROR, "unparsed_reply", f"{self.name}: {why} in the reply {text!r}"[: 2 * SHOWN])


@dataclass(frozen=True)
class _Reply:
    """What the judge wrote, and why it does not count if it does not."""

    text: str
    trouble: str = ""


def _reply(answer: bytes, headers: Mapping[str, str]) -> _Reply:
    """The reply in an answer of the service. Raises BadAnswer."""
    import json

    from guerdon.sandboxes.asking import BadAnswer, excerpt

    try:
        choice = json.loads(answer)["choices"][0]
        message, ended = choice["message"], choice.get("finish_reason")
        text, declined = message.get("content"), message.get("refusal")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise BadAnswer(f"no chat completion: {excerpt(answer, headers)}") from None
    if text is not None and not isinstance(text, str):
        raise BadAnswer(f"the content of a message must be text, got {shown(text)}")
    text = without_key(plain(text or ""), headers)
    if declined:
        return _Reply(text, f"the judge declined: {shown(declined, 300)}")
    if ended in ("length", "content_filter"):
        why = "max_tokens cut the judge off" if ended == "length" else "a content filter stopped the judge"
        return _Reply(text, why)
    return _Reply(text, "" if text.strip() else "the judge said nothing")


def _scored(value: Any, name: str, text: str) -> Verdict:
    if isinstance(value, Verdict):
        return Verdict.of(Status.ERROR, "wrong_type", f"{name}: parse must return a number or None, got a Verdict")
    found = as_verdict(value, name, False)
    return replace(found, detail=text) if found.status is Status.SCORED else found


def reader(parse: Parse) -> Callable[[str], Any]:
    """The function that reads a reply. ConfigError for a name that is none."""
    found = READERS.get(parse) if isinstance(parse, str) else parse
    if found is None and isinstance(parse, str) and ":" in parse:
        found = load(parse)
    if not callable(found) or isinstance(found, type):
        known = ", ".join(map(repr, READERS))
        raise ConfigError(
            f"judge: parse must be one of {known}, a function of the reply or its import string, or a JsonField or Pattern of "
            f"guerdon.rewards.replies; got {shown(parse)}"
        )
    return found


def _endpoint(endpoint: Any) -> str:
    url = service_url("judge", "endpoint", endpoint, "/v1")
    path, mark, query = url.partition("?")
    return (path if path.endswith("/chat/completions") else f"{path}/chat/completions") + mark + query
