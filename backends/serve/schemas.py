"""The OpenAPI document, written by hand like the handlers it describes. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["document"]

JSON = Mapping[str, Any]


def _text(what: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": what, **more}


def _maybe(kind: str, what: str, **more: Any) -> dict[str, Any]:
    return {"type": [kind, "null"], "description": what, **more}


def _object(what: str, required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "description": what, "properties": properties, "required": required}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_MESSAGE = _object(
    "One chat message.",
    ["role"],
    role=_text("Who speaks: system, user, assistant, tool."),
    content={
        "description": "Text, or parts of which the texts are joined.",
        "type": ["string", "array", "null"],
        "items": {"type": ["object", "string"]},
    },
    reasoning_content=_maybe("string", "Reasoning kept apart; restored as <think>...</think> before the content."),
    tool_calls={"type": ["array", "null"], "items": {}, "description": "Calls of tools, as the chat template has them."},
)
_PROMPT = {"type": ["string", "array", "null"], "items": _ref("Message"), "description": "Text, or a list of messages."}
_ROLLOUT = _object(
    "One sampled completion and what is known of it. `completion` or `messages` must be there.",
    [],
    completion=_maybe("string", "The text to score; where it is null, that of the last assistant message."),
    messages={"type": ["array", "null"], "items": _ref("Message"), "description": "The trajectory, for terms that read it."},
    prompt=_PROMPT,
    answer={"description": "The reference: any JSON."},
    columns={"type": ["object", "null"], "description": "Further data columns by name (tests, data_source, ...)."},
    num_tokens=_maybe("integer", "Tokens of the completion that the model made.", minimum=0, maximum=(1 << 53) - 1),
    truncated=_maybe("boolean", "Whether the length limit ended the completion."),
    token_ids={"type": ["array", "null"], "items": {"type": "integer"}, "description": "The completion's tokens."},
    group={"type": ["string", "integer", "null"], "description": "Names the group of rollouts of one prompt; null: equal prompts."},
    id=_maybe("string", "Comes back with the result."),
) | {"additionalProperties": False}
_COMPONENT = _object(
    "What one named part of the reward said of the row.",
    ["score", "weight", "status", "reason", "detail", "extracted", "seconds"],
    score=_maybe("number", "Its score before weighting; null where there is none."),
    weight={"type": "number", "description": "Its weight on this row."},
    status=_text("correct, partial, incorrect, no_answer, unparseable, timeout, scored, not_applicable, unscored, bad_reference or error."),
    reason=_text("A short machine code, e.g. no_box, checker_timeout, lost_worker, deadline."),
    detail=_text("For people."),
    extracted=_maybe("string", "What was taken from the completion."),
    seconds={"type": "number", "description": "Seconds the check took, where it was measured."},
)
_RESULT = _object(
    "What a rollout got.",
    ["reward", "outcome", "abstained", "components", "id"],
    reward=_maybe("number", "The total. Null where the row abstains, unless the server runs with --on-abstain fill:VALUE."),
    outcome=_maybe("number", "Correctness in 0..1, apart from shaping."),
    abstained={"type": "boolean", "description": "The row has no reward: leave it out, do not take it for 0."},
    components={"type": "object", "additionalProperties": _ref("Component"), "description": "By name; the same names on every row."},
    id=_maybe("string", "The rollout's."),
)
_GET_REWARD = _object(
    "What OpenRLHF sends: lists of one length (a bare value is a list of one).",
    ["query", "prompts"],
    query={"description": "Texts: each prompt followed by its completion. Rows that are no text are counted as errors, and filled."},
    prompts={"description": "Texts: the prompts."},
    labels={"description": "The references: plain, or JSON objects (also as text) with `answer` and further columns."},
)
_REWARDS = _object(
    "Finite numbers for every row, whatever happened.",
    ["rewards", "scores", "extra_logs"],
    rewards={"type": "array", "items": {"type": "number"}, "description": "Totals; rows that abstain are filled."},
    scores={"type": "array", "items": {"type": "number"}, "description": "Outcomes, 0 where there is none."},
    extra_logs={
        "type": "object",
        "additionalProperties": {"type": "array", "items": {"type": "number"}},
        "description": "By row, under keys that are the same for every request; guerdon/abstained is 1 for rows that were filled.",
    },
)
_REMOTE_RM = _object(
    "What slime sends.",
    ["response"],
    prompt=_PROMPT,
    response=_text("The completion."),
    label={"description": "The reference: plain, or a JSON object (also as text) with `answer` and further columns."},
)
_NUMBER = {"type": "number", "description": "The reward, finite."}
_FLAT = {
    "type": "object",
    "additionalProperties": {"type": "number"},
    "description": "reward, outcome and the guerdon/... numbers of /get_reward, for slime's --reward-key.",
}
_ERROR = _object("Why a request was refused.", ["detail"], detail=_text("One line."))

_SCHEMAS = {
    "Message": _MESSAGE,
    "Rollout": _ROLLOUT,
    "Component": _COMPONENT,
    "Result": _RESULT,
    "GetReward": _GET_REWARD,
    "Rewards": _REWARDS,
    "RemoteRm": _REMOTE_RM,
    "Error": _ERROR,
    "Batch": _object("Rollouts scored together.", ["rollouts"], rollouts={"type": "array", "items": _ref("Rollout")})
    | {"additionalProperties": False},
    "Results": _object("In the order of the rollouts.", ["results"], results={"type": "array", "items": _ref("Result")}),
}

_REFUSALS = {
    "400": "The body is not JSON.",
    "401": "The bearer token is missing or wrong.",
    "408": "The request was not whole in time.",
    "413": "The body, or its number of rows, is too large.",
    "415": "The body is not declared as application/json, or is compressed.",
    "422": "The JSON has another shape, or lacks what the reward reads.",
    "429": "The queue is full: come again after Retry-After seconds.",
    "503": "The server is stopping, or the reward is not loaded: come again after Retry-After seconds.",
}


def _answer(schema: JSON, what: str) -> dict[str, Any]:
    return {"description": what, "content": {"application/json": {"schema": schema}}}


def _refusals(*codes: str) -> dict[str, Any]:
    return {code: _answer(_ref("Error"), _REFUSALS[code]) for code in codes}


def _door(name: str, summary: str, body: str, answer: JSON, **more: Any) -> dict[str, Any]:
    return {
        "post": {
            "operationId": name,
            "summary": summary,
            "requestBody": {"required": True, "content": {"application/json": {"schema": _ref(body)}}},
            "responses": {"200": _answer(answer, "Scored."), **_refusals(*_REFUSALS)},
            **more,
        }
    }


def _look(name: str, summary: str, responses: JSON, method: str = "get", **more: Any) -> dict[str, Any]:
    return {method: {"operationId": name, "summary": summary, "responses": responses, **more}}


_STATUS = _object("How it is.", ["status"], status=_text("One line."))
_DETAIL = {
    "name": "detail",
    "in": "query",
    "required": False,
    "description": "1: an object instead of a number.",
    "schema": {"type": "string", "enum": ["0", "1", "false", "true"]},
}
_NO_TOKEN: dict[str, Any] = {"security": []}

_PATHS = {
    "/get_reward": _door("get_reward", "OpenRLHF's remote reward", "GetReward", _ref("Rewards")),
    "/score": _door("score", "Score one rollout", "Rollout", _ref("Result")),
    "/score/batch": _door("score_batch", "Score rollouts together", "Batch", _ref("Results")),
    "/remote_rm": _door("remote_rm", "slime's remote_rm", "RemoteRm", {"oneOf": [_NUMBER, _FLAT]}, parameters=[_DETAIL]),
    "/healthz": _look("healthz", "The process answers", {"200": _answer(_STATUS, "Alive.")}, **_NO_TOKEN),
    "/readyz": _look(
        "readyz",
        "Requests are taken",
        {"200": _answer(_STATUS, "Ready."), "503": _answer(_STATUS, "Starting, stopping, or without a live worker.")},
        **_NO_TOKEN,
    ),
    "/metrics": _look(
        "metrics",
        "Prometheus metrics",
        {"200": {"description": "Text.", "content": {"text/plain": {"schema": {"type": "string"}}}}, **_refusals("401")},
    ),
    "/info": _look(
        "info",
        "What is served: names, weights, inputs, fingerprint, versions",
        {"200": _answer({"type": "object"}, "The reward."), **_refusals("401", "503")},
    ),
    "/reload": _look(
        "reload",
        "Load the reward file anew, in fresh workers",
        {
            "200": _answer(_STATUS, "Every worker has the new one."),
            "409": _answer(_ref("Error"), "Requests are in flight, or there are several processes."),
            "422": _answer(_ref("Error"), "The file does not load; the reward loaded before stays."),
            **_refusals("401"),
        },
        method="post",
    ),
}


def document(with_token: bool) -> dict[str, Any]:
    """The OpenAPI 3.1 document; `with_token` says that a bearer token is required."""
    from guerdon import __version__

    components: dict[str, Any] = {"schemas": _SCHEMAS}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "guerdon serve", "version": __version__, "description": "Verifiable rewards over HTTP."},
        "paths": _PATHS,
        "components": components,
    }
    if with_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found
