"""JSON that satisfies a schema: is the completion's answer one JSON value, and does it validate?

Parsing is strict: see `guerdon.verifiers.json_text`. Schemas are JSON Schema, 2020-12 unless `$schema` says otherwise; `format` is an
annotation, not checked; a `$ref` must point into the schema: nothing is ever fetched. Whether the content is right is not looked at:
use `const` and `enum`, or another term.

A check whose time the sizes of schema and document do not bound (`pattern` can backtrack for ever, `$ref` can recurse, `uniqueItems` is
quadratic) runs in a killable worker, `timeout_s` each: an overrun is ERROR `checker_timeout`, neither a hang nor a 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from guerdon.errors import ConfigError
from guerdon.types import Rollout, Status, Verdict
from guerdon.verifiers.base import alternatives, best_of
from guerdon.verifiers.json_text import MAX_DEPTH, Refused, document, measure, parse, parse_constant, parse_pairs

__all__ = ["JsonSchemaVerifier", "check_alone"]

TIMEOUT_S = 2.0
"""Default wall limit of one check in a worker, in seconds."""
SMALL = 2000
"""Values in a document that is checked in this process."""

_UNBOUNDED = frozenset(
    ("pattern", "patternProperties", "$ref", "$dynamicRef", "$recursiveRef", "uniqueItems", "unevaluatedProperties", "unevaluatedItems")
)
_DATA = frozenset(("const", "enum", "default", "examples"))  # keywords that hold values, not schemas
_REASONS = {"cpu": "checker_timeout", "wall": "checker_timeout", "deadline": "deadline", "lost": "lost_worker"}

_Job = tuple[str, str]
"""A check for a worker: schema text, document text."""


# --- schemas


@lru_cache(maxsize=256)
def _compiled(schema: str) -> tuple[Any, bool]:
    """The validator of a schema text, and whether sizes bound its time. ValueError says what is wrong with the schema."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # the metaschemas; it retrieves nothing

    try:
        contents = json.loads(schema, object_pairs_hook=parse_pairs, parse_constant=parse_constant)
        if not isinstance(contents, dict):
            raise ValueError(f"a schema is a JSON object, got {type(contents).__name__}")
        kind = validator_for(contents, default=Draft202012Validator)
        kind.check_schema(contents)
        _check_refs(contents, kind)
    except SchemaError as error:
        raise ValueError(f"{error.json_path}: {error.message:.300}") from None
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}"[:300]) from None
    bounded = not any(part.keys() & _UNBOUNDED for part in _subschemas(contents))
    return kind(contents, registry=REGISTRY), bounded


def _subschemas(contents: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in a schema that is not plain data."""
    stack = [contents]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            yield part
            stack += [value for key, value in part.items() if key not in _DATA]
        elif isinstance(part, list):
            stack += part


def _check_refs(contents: dict[str, Any], kind: Any) -> None:
    """ValueError for a reference that leads out of the schema, or nowhere."""
    from jsonschema_specifications import REGISTRY
    from referencing import Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import specification_with

    own = Resource.from_contents(contents, default_specification=specification_with(kind.META_SCHEMA["$schema"]))
    base = own.id() or ""
    resolver = REGISTRY.with_resource(base, own).resolver(base)
    for part in _subschemas(contents):
        if part is not contents and "$id" in part:
            return  # another base URI inside: found out when a check gets there
    for part in _subschemas(contents):
        for ref in (part.get("$ref"), part.get("$dynamicRef")):
            try:
                if isinstance(ref, str):
                    resolver.lookup(ref)
            except Unresolvable:
                raise ValueError(f"$ref {ref!r:.100} leads nowhere in the schema; nothing is fetched") from None


def _texts(reference: Any) -> tuple[str, ...]:
    """The schema texts of a mapping, its JSON text, or `{"any_of": [...]}` of those. ValueError for anything else."""
    if isinstance(reference, str) and '"any_of"' in reference:
        reference = json.loads(reference)
    return tuple(schema if isinstance(schema, str) else _canonical(schema) for schema in alternatives(reference))


def _canonical(schema: Any) -> str:
    """The text of a mapping, the same for equal ones."""
    if not isinstance(schema, Mapping):
        raise ValueError(f"a schema is a mapping or its JSON text, got {type(schema).__name__}")
    try:
        return json.dumps(schema, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"a schema must be plain JSON: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):  # numpy, from Parquet
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


# --- checks


def _check(schema: str, value: Any) -> tuple[str, str]:
    """("", "") if the value satisfies the schema, else reason and detail."""
    from referencing.exceptions import Unresolvable

    try:
        error = next(_compiled(schema)[0].iter_errors(value), None)
    except Unresolvable as lost:
        return "malformed_reference", f"the schema's $ref cannot be resolved: {lost}"[:300]
    except RecursionError:
        return "malformed_reference", "the schema refers to itself without end"
    except Exception as broken:
        return "exception", f"JSON schema check: {type(broken).__name__}: {broken}"[:2000]
    return ("", "") if error is None else ("schema_violation", f"{error.json_path}: {error.message}"[:300])


def check_alone(schema: str, text: str) -> tuple[str, str]:
    """In a worker, where the stack is large enough for every document of MAX_DEPTH: what a check found, reason and detail."""
    import sys

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 100 * MAX_DEPTH))
    return _check(schema, parse(text))


def _verdict(found: tuple[str, str], text: str) -> Verdict:
    reason, detail = found
    status = {"": Status.CORRECT, "schema_violation": Status.INCORRECT, "exception": Status.ERROR}.get(reason, Status.BAD_REFERENCE)
    return Verdict.of(status, reason, detail, extracted=text)


def _run(jobs: Sequence[_Job], timeout_s: float) -> list[Verdict]:
    """The verdicts of checks in workers."""
    if not jobs:
        return []
    from guerdon.sandboxes import Failed, PoolSpec, pool
    from guerdon.sandboxes.deadline import row_limit

    results = pool(PoolSpec(target="guerdon.verifiers.json_schema:check_alone")).map(jobs, row_limit(timeout_s), timeout_s / 2)
    return [
        Verdict.of(Status.ERROR, _REASONS.get(result.kind, "exception"), f"JSON schema check: {result.detail}"[:2000], extracted=text)
        if isinstance(result, Failed)
        else _verdict(result.value, text)
        for (_, text), result in zip(jobs, results, strict=True)
    ]


@dataclass(frozen=True)
class JsonSchemaVerifier:
    """Is the completion's answer JSON that satisfies a schema? Build it with `JsonSchemaVerifier.of`.

    `schema` is the text of one schema for all rows; None takes each row's own from `column`: a mapping or its JSON text (prefer text:
    Arrow gives every mapping of a column the keys of all). `{"any_of": [...]}` holds alternative schemas; it is ours, and not JSON
    Schema's `anyOf`. See `guerdon.verifiers.json_text.document` for where the JSON may stand.

    CORRECT; INCORRECT `schema_violation`; UNPARSEABLE `not_json` or `too_large`; NO_ANSWER for an empty answer; BAD_REFERENCE for a schema
    that is missing, invalid or refers elsewhere; ERROR `checker_timeout` when a check overran `timeout_s`.

    >>> verifier = JsonSchemaVerifier.of({"type": "object", "required": ["a"]})
    >>> [v.status.value for v in verifier.judge([Rollout('{"a": 1}'), Rollout("{}"), Rollout('{"a": NaN}')])]
    ['correct', 'incorrect', 'unparseable']
    """

    schema: str | None = None
    column: str = "answer"
    timeout_s: float = TIMEOUT_S

    VERSION: ClassVar[int] = 1
    PACKAGES: ClassVar[tuple[str, ...]] = ("jsonschema",)

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise ConfigError(f"JsonSchemaVerifier: column must be the name of a data column, got {self.column!r}")
        if not 0.001 <= self.timeout_s < math.inf:
            raise ConfigError(f"JsonSchemaVerifier: timeout_s must be at least 0.001 seconds and finite, got {self.timeout_s!r}")
        if self.schema is None:
            return
        if not isinstance(self.schema, str):
            raise ConfigError(
                f"JsonSchemaVerifier: schema must be JSON text, got {type(self.schema).__name__}; use JsonSchemaVerifier.of(...)"
            )
        try:
            texts = _texts(self.schema)
            for text in texts:
                _compiled(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"JsonSchemaVerifier: not a JSON schema: {error}") from None
        if not texts:
            raise ConfigError('JsonSchemaVerifier: {"any_of": []} holds no schema')

    @classmethod
    def of(cls, schema: Mapping[str, Any] | str | None = None, column: str = "answer", timeout_s: float = TIMEOUT_S) -> JsonSchemaVerifier:
        """From a schema as a mapping or JSON text, or (None) from each row's own. ConfigError when the schema is invalid."""
        if schema is None or isinstance(schema, str):
            return cls(schema, column, timeout_s)
        try:
            return cls(_canonical(schema), column, timeout_s)
        except ValueError as error:
            raise error if isinstance(error, ConfigError) else ConfigError(f"JsonSchemaVerifier: {error}") from None

    @property
    def reads(self) -> frozenset[str]:
        return frozenset() if self.schema is not None else frozenset({self.column})

    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        """One verdict per rollout, in order."""
        rows = [self._plan(rollout) for rollout in rollouts]
        jobs = list(dict.fromkeys(part for row in rows for part in row if not isinstance(part, Verdict)))
        done = dict(zip(jobs, _run(jobs, self.timeout_s), strict=True))
        return [best_of([part if isinstance(part, Verdict) else done[part] for part in row]) for row in rows]

    def _plan(self, rollout: Rollout) -> list[Verdict | _Job]:
        """For each alternative of the row's schema: the verdict, or the check that a worker must do."""
        reference = self.schema if self.schema is not None else rollout.column(self.column)
        try:
            schemas = () if reference is None or reference == "" else _texts(reference)
            bounded = [_compiled(schema)[1] for schema in schemas]
        except (ValueError, RecursionError) as error:
            return [Verdict.of(Status.BAD_REFERENCE, "malformed_reference", f"column {self.column!r}: not a JSON schema: {error}")]
        if not schemas:
            return [Verdict.of(Status.BAD_REFERENCE, "missing_reference", f"column {self.column!r} is empty on this row")]
        text = document(rollout.completion)
        if not text:
            return [Verdict.of(Status.NO_ANSWER, "no_answer", "the answer is empty")]
        try:
            value = parse(text)
            small = measure(value) <= SMALL
        except Refused as refused:
            return [Verdict.of(Status.UNPARSEABLE, *refused.args, extracted=text)]
        return [self._now(schema, value, text) if small and tame else (schema, text) for schema, tame in zip(schemas, bounded, strict=True)]

    def _now(self, schema: str, value: Any, text: str) -> Verdict | _Job:
        found = _check(schema, value)
        return (schema, text) if found[0] == "malformed_reference" else _verdict(found, text)  # a worker has more stack
