"""JSON answers: where they stand, what is no JSON, what a schema may be, and what may not hang."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon import Rollout, Verdict
from guerdon.errors import ConfigError
from guerdon.testing import check_verifier
from guerdon.verifiers.json_schema import JsonSchemaVerifier
from guerdon.verifiers.json_text import MAX_DEPTH, Refused, document, parse

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TREE = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}


def verdict(completion: str, schema: Any = None, **options: Any) -> Verdict:
    return JsonSchemaVerifier.of(SCHEMA if schema is None else schema, **options).judge([Rollout(completion)])[0]


def by_row(completion: str, schema: Any) -> Verdict:
    return JsonSchemaVerifier.of().judge([Rollout(completion, answer=schema)])[0]


@pytest.mark.parametrize(
    "completion",
    [
        '{"a": 1}',
        ' \n{"a": 1}\n ',
        '```json\n{"a": 1}\n```',
        'Here:\n```json\n{"a": 1}\n```\nDone.',
        '```\n{"a": 1}\n```',
        '```JSON\n{"a": 1}\n```',
        '~~~json\n{"a": 1}\n~~~',
        '```json\n{"a": 1}',
        '```json {"a": 1}```',
        '<think>{"a": "x"}</think>{"a": 1}',
        '<answer>{"a": 1}</answer>',
        '<think>x</think>\n<answer>\n```json\n{"a": 1}\n```\n</answer>',
        '```json\n{"a": "first"}\n```\n```json\n{"a": 1}\n```',
        '```json\n{"a": 1}\n```\n```python\nprint(1)\n```',
        '```python\nprint(1)\n```\n```\n{"a": 1}\n```',
        '{"a": 1, "b": "<answer>x</answer>"}',
        '{"a": 1, "b": "```json"}',
    ],
)
def test_the_document_is_found(completion: str) -> None:
    assert verdict(completion).status == "correct"


@pytest.mark.parametrize(
    ("completion", "why"),
    [
        ('{"a": 1} {"a": 2}', "Extra data"),
        ('{"a": 1} and more', "Extra data"),
        ('Sure: {"a": 1}', "Expecting value"),
        ('{"a": 1, "a": 2}', "duplicate key 'a'"),
        ('{"a": 1, "b": {"c": 1, "c": 1}}', "duplicate key 'c'"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "Infinity"),
        ('{"a": 1e999}', "beyond a float"),
        ('{"a": ' + "1" * 5000 + "}", "beyond a float"),
        ("{'a': 1}", "property name"),
        ('{"a": 1,}', ""),
        ('{"a": 1 // one\n}', ""),
        ('{"a": "\n"}', "control character"),
        ('{"a": 1', ""),
        ("a: 1", "Expecting value"),
        ('```json\n{"a": 1}\n```\n```json\nbroken\n```', "Expecting value"),
    ],
)
def test_what_is_not_one_json_value_is_unparseable(completion: str, why: str) -> None:
    found = verdict(completion)
    assert (found.status, found.reason) == ("unparseable", "not_json")
    assert why in found.detail


@pytest.mark.parametrize("completion", ["", " ", "<think>{}</think>", "```json\n```", "<answer></answer>"])
def test_an_empty_answer_is_no_answer(completion: str) -> None:
    assert verdict(completion, {}).status == "no_answer"


@pytest.mark.parametrize("completion", ["{}", '{"a": "1"}', "[]", "1", '{"a": 1.5}', '{"a": true}'])
def test_a_violation_is_incorrect(completion: str) -> None:
    found = verdict(completion)
    assert (found.status, found.reason) == ("incorrect", "schema_violation")


def test_the_detail_says_where() -> None:
    found = verdict('{"a": [1, "x"]}', {"properties": {"a": {"items": {"type": "integer"}}}})
    assert found.detail == "$.a[1]: 'x' is not of type 'integer'"


@pytest.mark.parametrize("value", [0, "text", None, True, [1], {"b": 1}], ids=str)
def test_any_json_satisfies_the_empty_schema(value: Any) -> None:
    assert verdict(json.dumps(value), {}).status == "correct"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=5), x, max_size=3),
        max_leaves=8,
    )
)
def test_a_value_satisfies_itself_as_const_and_nothing_else(value: Any) -> None:
    assert verdict(json.dumps(value), {"const": value}).status == "correct"
    assert verdict(json.dumps([value]), {"const": value}).status == "incorrect"


@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    assert verdict(text, {}).status in ("correct", "no_answer", "unparseable")


# --- the schema


@pytest.mark.parametrize("schema", [SCHEMA, json.dumps(SCHEMA), {"any_of": [{"type": "string"}, SCHEMA]}, json.dumps({"any_of": [SCHEMA]})])
def test_each_row_may_bring_its_own_schema(schema: Any) -> None:
    assert by_row('{"a": 1}', schema).status == "correct"
    assert by_row('{"a": "x"}', schema).status == "incorrect"


def test_alternatives_may_be_given_for_all_rows() -> None:
    assert verdict('"x"', {"any_of": [{"type": "string"}, SCHEMA]}).status == "correct"


def test_any_of_json_schema_is_not_ours() -> None:
    theirs = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert [verdict(text, theirs).status.value for text in ("1", '"x"', "[]")] == ["correct", "correct", "incorrect"]


def test_a_property_called_any_of_is_a_property() -> None:
    assert by_row('{"any_of": 1}', json.dumps({"properties": {"any_of": {"type": "integer"}}})).status == "correct"


@pytest.mark.parametrize(
    "schema",
    [
        None,
        "",
        "{",
        "[]",
        "true",
        7,
        ["a"],
        {"any_of": []},
        {"type": "objekt"},
        {"pattern": "("},
        {"a": {1, 2}},
        '{"type": "string", "type": "string"}',
        {"$ref": "https://example.com/s.json"},
        {"$ref": "#/$defs/lost"},
        {"properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"$ref": "#"},
        {"type": "object", "enum": None},
        {"$schema": 5},
        "[" * 100_000,
    ],
    ids=lambda s: str(s)[:40],
)
def test_a_schema_that_cannot_be_used_is_a_bad_reference(schema: Any) -> None:
    assert by_row('{"a": 1}', schema).status == "bad_reference"


@pytest.mark.parametrize("schema", ["{", {"type": "objekt"}, {"$ref": "http://example.com/s"}, {"any_of": []}, {"a": {1}}, [1], 7], ids=str)
def test_one_for_all_rows_is_refused_when_built(schema: Any) -> None:
    with pytest.raises(ConfigError, match="schema"):
        JsonSchemaVerifier.of(schema)


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", None)
    inner = {
        "$id": "https://example.com/root",
        "properties": {"a": {"$id": "https://example.com/a", "$ref": "https://example.com/elsewhere"}},
    }
    assert by_row('{"a": 1}', inner).status == "bad_reference"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}},
        {"$id": "https://example.com/root", "$ref": "https://example.com/root#/$defs/n", "$defs": {"n": {"type": "integer"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"n": {"type": "integer"}}, "$ref": "#/definitions/n"},
        {"$ref": "#here", "$defs": {"n": {"$anchor": "here", "type": "integer"}}},
        {"enum": [1, {"$ref": "https://example.com"}]},
    ],
    ids=["pointer", "own id", "draft 7", "anchor", "data"],
)
def test_references_within_the_schema_are_followed(schema: Any) -> None:
    assert (by_row("1", schema).status, by_row('"x"', schema).status) == ("correct", "incorrect")


def test_equal_schemas_make_equal_verifiers() -> None:
    one, other = {"type": "object", "required": ["a"]}, {"required": ["a"], "type": "object"}
    assert JsonSchemaVerifier.of(one) == JsonSchemaVerifier.of(other)
    assert hash(JsonSchemaVerifier.of(one)) == hash(JsonSchemaVerifier.of(other))


def test_a_column_is_read_only_where_the_schemas_are_in_it() -> None:
    assert (JsonSchemaVerifier.of(SCHEMA).reads, JsonSchemaVerifier.of(column="schema").reads) == (frozenset(), {"schema"})


@pytest.mark.parametrize("options", [{"column": ""}, {"timeout_s": 0}, {"schema": SCHEMA}], ids=str)
def test_arguments_are_checked_when_built(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        JsonSchemaVerifier(**options)


# --- hostile documents


def nested(depth: int, open: str = "[", close: str = "]") -> str:
    return open * depth + close * depth


@pytest.mark.parametrize(
    "text",
    [nested(MAX_DEPTH + 1), nested(100_000), "[" * 500_000, nested(500, '{"a":', "}").replace("}", "1}", 1), "[" + " " * 1_000_000 + "]"],
    ids=["deep", "deeper", "open", "objects", "long"],
)
def test_huge_and_deep_documents_are_refused(text: str) -> None:
    assert verdict(text, {}).status == "unparseable"


def test_a_document_of_the_greatest_depth_is_checked_to_the_bottom() -> None:
    text = '{"next":' * (MAX_DEPTH - 2) + "{%s}" + "}" * (MAX_DEPTH - 2)
    assert [verdict(text % inner, TREE).status.value for inner in ("", '"x": 1')] == ["correct", "incorrect"]


def test_a_pattern_that_backtracks_for_ever_is_an_error_and_not_a_hang() -> None:
    start = time.monotonic()
    rows = [Rollout(json.dumps(text)) for text in ("a" * 60 + "!", "aaa", "b")]
    verdicts = JsonSchemaVerifier.of({"pattern": "^(a+)+$"}, timeout_s=0.5).judge(rows)
    assert [(v.status.value, v.reason) for v in verdicts] == [
        ("error", "checker_timeout"),
        ("correct", ""),
        ("incorrect", "schema_violation"),
    ]
    assert time.monotonic() - start < 20


def test_a_quadratic_check_is_bounded() -> None:
    text = json.dumps([{"a": i} for i in range(30_000)])
    assert verdict(text, {"uniqueItems": True}, timeout_s=0.5).reason == "checker_timeout"


def test_a_large_plain_document_is_checked() -> None:
    assert verdict(json.dumps(list(range(50_000))), {"items": {"type": "integer"}}, timeout_s=20.0).status == "correct"


def test_a_number_beyond_a_float_does_not_break_the_check() -> None:
    assert verdict("1" * 400, {"multipleOf": 0.1}).status == "unparseable"


def test_many_duplicate_keys_are_refused_in_linear_time() -> None:
    text = "{" + ",".join(f'"{i}":1' for i in range(80_000)) + ',"79999":1}'
    start = time.process_time()
    with pytest.raises(Refused, match="duplicate key '79999'"):
        parse(text)
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize("piece", ["```", "```json\n", "`", "~~~\n", " ", "<answer>", "\n"])
def test_the_document_is_found_in_linear_time(piece: str) -> None:
    start = time.process_time()
    document(piece * (500_000 // len(piece)))
    assert time.process_time() - start < 2.0


def test_the_contract_holds() -> None:
    rows = [Rollout('{"a": 1}', answer=SCHEMA), Rollout("{}", answer=SCHEMA), Rollout("x", answer={}), Rollout("{}", answer=7)]
    check_verifier(JsonSchemaVerifier.of(), rows, threads=4)
