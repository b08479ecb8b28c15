"""`remote`: what each server is sent and how its answer is read; batches; rows and answers that spoil nothing but themselves."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import guerdon
import guerdon.rewards as R
from guerdon import Message, Rollout, Status, Verdict
from guerdon.errors import ConfigError, MissingInput
from guerdon.sandboxes import asking
from guerdon.testing import HOSTILE

from .service_stub import Service, answer, ok, score

Make = Callable[..., Any]
FORMATS = ["openrlhf", "score", "classify", "pooling", "sglang", "tei"]


@pytest.fixture(autouse=True)
def _quick_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(asking, "_FIRST_PAUSE_S", 0.01)
    yield
    guerdon.close()


@pytest.fixture
def service() -> Iterator[Make]:
    made: list[Service] = []

    def make(*script: Any) -> Service:
        made.append(Service(*script))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def verdicts(reward: R.Term, rollouts: list[Rollout]) -> list[Verdict]:
    return reward.score(rollouts, warn_broken=1.0, max_broken=1.0).verdicts[reward.name]


def totals(reward: R.Term, rollouts: list[Rollout]) -> list[float | None]:
    return reward.score(rollouts, warn_broken=1.0, max_broken=1.0).totals()


def whole(rollout: Rollout) -> str:
    return f"{rollout.prompt} => {rollout.completion}"


def own_request(rollouts: list[Rollout]) -> Any:
    return {"texts": [r.completion for r in rollouts]}


def own_parse(reply: Any) -> list[float]:
    return [row["reward"] for row in reply["rows"]]


ROW = Rollout("four", prompt="2+2?", answer="4", num_tokens=3, columns={"level": 2, "other": object()})


# formats


@pytest.mark.parametrize(
    ("format", "path", "sent"),
    [
        ("openrlhf", "/get_reward", {"query": ["2+2?four"], "prompts": ["2+2?"], "labels": [""]}),
        ("score", "/score/batch", {"rollouts": [{"completion": "four", "prompt": "2+2?", "num_tokens": 3}]}),
        ("classify", "/classify", {"model": "rm", "input": ["2+2?four"]}),
        ("pooling", "/pooling", {"model": "rm", "input": ["2+2?four"]}),
        ("sglang", "/classify", {"model": "rm", "text": ["2+2?four"]}),
        ("tei", "/predict", {"inputs": [["2+2?four"]], "raw_scores": True, "truncate": False}),
    ],
)
def test_each_server_is_sent_what_it_expects(service: Make, format: Any, path: str, sent: Any) -> None:
    stub = service()
    found = verdicts(R.remote(stub.url, format=format, model="rm"), [ROW])[0]
    assert (stub.paths, stub.seen) == ([path], [sent])
    assert (found.status, found.score) == (Status.SCORED, (4 if format == "score" else 8) / 8)


@pytest.mark.parametrize(
    ("format", "columns", "sent"),
    [
        ("openrlhf", ("answer",), {"labels": ["4"]}),
        ("openrlhf", ("level",), {"labels": [2]}),
        ("openrlhf", ("answer", "level"), {"labels": ['{"answer": "4", "level": 2}']}),
        ("openrlhf", ("absent", "answer"), {"labels": ['{"absent": null, "answer": "4"}']}),
        ("score", ("answer", "level"), {"answer": "4", "columns": {"level": 2}}),
    ],
)
def test_columns_are_read_and_sent_along(service: Make, format: Any, columns: tuple[str, ...], sent: Any) -> None:
    stub = service()
    reward = R.remote(stub.url, format=format, columns=columns)
    assert reward.reads == set(columns)
    reward.verdicts([ROW])
    (data,) = stub.seen
    assert sent.items() <= (data["rollouts"][0] if format == "score" else data).items()


def test_openrlhf_reads_the_labels_that_are_sent(service: Make) -> None:
    stub = service()
    R.remote(stub.url, columns=("answer", "level"))([ROW])
    (data,) = stub.seen
    again = Rollout.from_openrlhf(data["query"][0], data["prompts"][0], data["labels"][0])
    assert (again.completion, again.answer, again.columns) == ("four", "4", {"level": 2})


@pytest.mark.parametrize("format", FORMATS)
def test_scores_come_in_the_order_of_the_rows_over_batches(service: Make, format: Any) -> None:
    stub = service()
    rows = [Rollout("x" * i) for i in (5, 1, 4, 9, 3, 8, 2)]
    assert totals(R.remote(stub.url, format=format, batch_size=3), rows) == [i / 8 for i in (5, 1, 4, 9, 3, 8, 2)]
    assert len(stub.seen) == 3


@pytest.mark.parametrize(
    ("format", "reply", "expected"),
    [
        ("openrlhf", {"rewards": [0.5], "scores": [1.0]}, 0.5),
        ("openrlhf", {"rewards": 0.5}, 0.5),
        ("openrlhf", {"rewards": [[0.5]]}, 0.5),
        ("openrlhf", [0.5], 0.5),
        ("pooling", {"data": [{"index": 0, "data": [0.5]}]}, 0.5),
        ("pooling", {"data": [{"index": 0, "data": [[3.0], [0.5]]}]}, 0.5),
        ("sglang", {"embedding": [0.5]}, 0.5),
        ("sglang", [{"embedding": 0.5}], 0.5),
        ("openrlhf", {"rewards": [-7]}, -7.0),
    ],
)
def test_the_shapes_a_server_answers_in(service: Make, format: Any, reply: Any, expected: float) -> None:
    assert totals(R.remote(service(ok(reply)).url, format=format), [ROW]) == [expected]


def test_one_of_several_classes_is_named(service: Make) -> None:
    vllm = {"data": [{"index": 0, "probs": [0.2, 0.7, 0.1]}]}
    tei = [[{"label": "good", "score": 0.7}, {"label": "bad", "score": 0.3}]]
    assert totals(R.remote(service(ok(vllm)).url, format="classify", index=1), [ROW]) == [0.7]
    assert totals(R.remote(service(ok(vllm)).url, format="classify", index=-1), [ROW]) == [0.1]
    assert totals(R.remote(service(ok(tei)).url, format="tei", index="bad"), [ROW]) == [0.3]
    for format, reply in (("classify", vllm), ("tei", tei)):
        found = verdicts(R.remote(service(ok(reply)).url, format=format), [ROW])[0]
        assert (found.reason, "index=" in found.detail) == ("service_failed", True)


def test_rows_that_guerdon_serve_abstains_on_say_why(service: Make) -> None:
    def row(status: str, reason: str = "") -> Any:
        part = {"score": None, "status": status, "reason": reason, "detail": "why", "weight": 1.0}
        return {"reward": None, "outcome": None, "abstained": True, "components": {"a": part}}

    results = [score({"completion": "four"}), row("error", "lost_worker"), row("bad_reference"), row("unscored"), row("not_applicable")]
    reward = R.remote(service(ok({"results": results})).url, format="score", cache=False)
    found = verdicts(reward, [Rollout("four")] * 5)
    assert [v.status.value for v in found] == ["scored", "error", "bad_reference", "unscored", "not_applicable"]
    assert "a is error lost_worker: why" in found[1].detail


def test_guerdon_serve_is_sent_chats_as_chats(service: Make) -> None:
    stub = service()
    chat = (Message("user", "2+2?"),)
    R.remote(stub.url, format="score")([Rollout("4", prompt=chat, messages=(Message("assistant", "4", "easy"),))])
    (row,) = stub.seen[0]["rollouts"]
    assert row["prompt"] == [{"role": "user", "content": "2+2?"}]
    assert row["messages"] == [{"role": "assistant", "content": "4", "reasoning_content": "easy"}]


# the text of the model, and servers of one's own


@pytest.mark.parametrize("format", [f for f in FORMATS if f != "score"])
def test_a_chat_needs_a_text_from_the_user(service: Make, format: Any) -> None:
    stub = service()
    row = Rollout("4", prompt=(Message("user", "2+2?"),))
    with pytest.raises(MissingInput, match="text="):
        R.remote(stub.url, format=format)([Rollout("x"), row])
    found = totals(R.remote(stub.url, format=format, text=lambda r: r.prompt[0].content + r.completion), [row])
    assert found == [5 / 8]


def test_a_server_of_ones_own_is_asked_and_read_by_functions(service: Make) -> None:
    stub = service(lambda data: ok({"rows": [{"reward": len(text)} for text in data["texts"]]}))
    reward = R.remote(stub.url + "/mine", request=own_request, parse=own_parse, extra_body={"k": 1})
    assert totals(reward, [Rollout("a"), Rollout("bbb")]) == [1.0, 3.0]
    assert (stub.paths, stub.seen) == (["/mine"], [{"texts": ["a", "bbb"], "k": 1}])


def test_functions_may_be_import_strings(service: Make) -> None:
    stub = service()
    reward = R.remote(stub.url, text=f"{Path(__file__).parent}/service_stub.py:shouted")
    assert totals(reward, [Rollout("four")]) == [5 / 8]
    assert stub.seen[0]["query"] == ["FOUR!"]
    assert reward.fingerprint not in (None, R.remote(stub.url).fingerprint)
    assert pickle.loads(pickle.dumps(reward)) == reward


@pytest.mark.parametrize(
    ("options", "reason", "said"),
    [
        ({"text": lambda rollout: 3}, "exception", "must return text"),
        ({"text": lambda rollout: rollout.columns["no"]}, "exception", "KeyError"),
        ({"request": lambda rollouts: {"a": object()}}, "exception", "JSON cannot hold"),
        ({"request": lambda rollouts: math.nan}, "exception", "JSON"),
        ({"request": lambda rollouts: [1], "extra_body": {"a": 1}}, "exception", "object"),
        ({"parse": lambda reply: reply["no"]}, "exception", "KeyError"),
        ({"parse": lambda reply: 1.0}, "exception", "not iterable"),
        ({"parse": lambda reply: [1.0] * 5}, "wrong_length", "5 scores for 1 rows"),
        ({"parse": lambda reply: ["1.0"]}, "wrong_type", "text is not a score"),
    ],
)
def test_functions_that_fail_are_errors_of_their_rows(service: Make, options: Any, reason: str, said: str) -> None:
    found = verdicts(R.remote(service(ok({"rewards": [1.0]})).url, **options), [Rollout("a")])[0]
    assert (found.status, found.reason, said in found.detail) == (Status.ERROR, reason, True)


def test_a_text_that_fails_on_one_row_costs_only_that_row(service: Make) -> None:
    stub = service()
    found = totals(R.remote(stub.url, text=lambda r: "x" * (8 // len(r.completion))), [Rollout("a"), Rollout(""), Rollout("bb")])
    assert found == [1.0, None, 0.5]
    assert len(stub.seen) == 1


# answers that are none


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"rewards": [1.0]}, "wrong_length"),
        ({"rewards": [1.0] * 4}, "wrong_length"),
        ({"rewards": []}, "wrong_length"),
        ({"rewards": None}, "service_failed"),
        ({"reward": [1, 2, 3]}, "service_failed"),
        ("ok", "service_failed"),
        (None, "service_failed"),
        (7, "wrong_length"),
        ({"rewards": [[1, 2], [1, 2], [1, 2]]}, "service_failed"),
    ],
)
def test_an_answer_to_other_rows_than_asked_is_no_score(service: Make, reply: Any, reason: str) -> None:
    found = verdicts(R.remote(service(ok(reply)).url), [Rollout("a"), Rollout("b"), Rollout("c")])
    assert {(v.status, v.score, v.reason) for v in found} == {(Status.ERROR, None, reason)}


@pytest.mark.parametrize(("format", "reply"), [("classify", [1]), ("pooling", {"data": [{"index": 1, "data": [1]}]}), ("tei", [[{}]])])
def test_an_answer_of_another_shape_is_no_score(service: Make, format: Any, reply: Any) -> None:
    found = verdicts(R.remote(service(ok(reply)).url, format=format), [Rollout("a")])[0]
    assert (found.status, found.reason) == (Status.ERROR, "service_failed")


def test_values_that_are_no_score_are_errors_of_their_rows(service: Make) -> None:
    values = '{"rewards": [NaN, 1e999, null, true, "1", 0.5, -Infinity, {"a": 1}]}'
    found = verdicts(R.remote(service((200, {}, values.encode())).url), [Rollout(c) for c in "abcdefgh"])
    reasons = ["non_finite", "non_finite", "wrong_type", "wrong_type", "wrong_type", "", "non_finite", "wrong_type"]
    assert [v.reason for v in found] == reasons
    assert [v.score for v in found if v.status is Status.SCORED] == [0.5]


def endless(answer: Any) -> Iterator[float]:
    while True:
        yield 1.0


@pytest.mark.parametrize(
    ("parse", "reason", "said"),
    [
        (endless, "wrong_length", "3 scores for 2 rows"),
        (lambda answer: {0.5: 1, 0.25: 2}, "exception", "a list of numbers"),
        (lambda answer: {0.5, 0.25}, "exception", "a list of numbers"),
        (lambda answer: "12", "exception", "a list of numbers"),
        (lambda answer: [Verdict.of(Status.CORRECT)] * 2, "wrong_type", "a number"),
    ],
)
def test_what_a_parse_function_gives_is_scores_in_order_and_nothing_else(service: Make, parse: Any, reason: str, said: str) -> None:
    found = verdicts(R.remote(service().url, parse=parse), [Rollout("a"), Rollout("ab")])
    assert {(v.status, v.score, v.reason) for v in found} == {(Status.ERROR, None, reason)}
    assert said in found[0].detail


def test_openrlhf_may_have_nothing_to_log(service: Make) -> None:
    stub = service(ok({"rewards": [1.5], "extra_logs": None}))
    assert totals(R.remote(stub.url), [Rollout("a")]) == [1.5]


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_row_that_the_server_refuses_does_not_cost_its_batch(service: Make, status: int) -> None:
    def picky(data: Any) -> Any:
        return (status, {}, b"too long") if any(len(text) > 20 for text in data["query"]) else answer("/get_reward", data)

    rows = [Rollout("x" * i) for i in (1, 2, 3, 40, 4, 5, 6, 7)]
    stub = service(*[picky] * 30)
    assert totals(R.remote(stub.url, batch_size=8), rows) == [None if i == 40 else i / 8 for i in (1, 2, 3, 40, 4, 5, 6, 7)]
    assert len(stub.seen) == 7  # 8, 4+4, 2+2, 1+1


@pytest.mark.parametrize("format", FORMATS)
def test_hostile_completions_are_sent_as_text(service: Make, format: Any) -> None:
    stub = service()
    found = totals(R.remote(stub.url, format=format, batch_size=5), [Rollout(text) for text in HOSTILE])
    assert found == [len(text) / 8 for text in HOSTILE]
    json.dumps(stub.seen, ensure_ascii=False).encode()


def test_an_empty_batch_asks_nothing(service: Make) -> None:
    stub = service()
    assert R.remote(stub.url)([]) == []
    assert stub.seen == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"format": "reward"}, "request= and parse="),
        ({"columns": "answer"}, "reads=|collection"),
        ({"model": ""}, "model"),
        ({"index": "a"}, "place"),
        ({"index": True}, "place"),
        ({"format": "tei", "index": 0}, "label"),
        ({"text": 3}, "text must be a function"),
        ({"request": 3}, "request must be a function"),
        ({"parse": list}, "parse must be a function"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_arguments_are_checked_when_built(options: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        R.remote("http://rm", **options)


@pytest.mark.parametrize(
    "other",
    [
        {"format": "tei"},
        {"model": "m"},
        {"columns": ("answer",)},
        {"index": 1},
        {"extra_body": {"a": 1}},
        {"text": whole},
        {"parse": own_parse},
    ],
)
def test_whatever_decides_the_score_is_in_the_fingerprint(other: dict[str, Any]) -> None:
    assert R.remote("http://rm/x", **other).fingerprint not in (None, R.remote("http://rm/x").fingerprint)


def test_it_is_no_outcome_and_sums_with_verifiers(service: Make) -> None:
    reward = R.exact() + 0.5 * R.remote(service().url)
    scores = reward.score([Rollout("four", answer="four"), Rollout("x" * 8, answer="4")])
    assert scores.totals() == [1.25, 0.5]
    assert scores.outcome_N.tolist() == [1.0, 0.0]
