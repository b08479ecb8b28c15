"""`guerdon serve`, as a process, against clients that mean it harm or know no better.

Each is refused with a clear 4xx, or dropped in bounded time, and beside each a clean request is answered.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from serve_process import Server, ready, start_in_python

for extra in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(extra)

TOKEN = "s3cret"
MAX_BODY = 1 << 20
READ_S = 3.0
REWARD = """
import guerdon.rewards as R
reward = R.math_equal() + 0.25 * R.boxed_format()
"""
CLEAN = {"prompt": "2+2?", "response": "It is \\boxed{4}", "label": "4"}
DOORS = ("/get_reward", "/score", "/score/batch", "/remote_rm")


@contextmanager
def serving(folder: Path, **options: Any) -> Iterator[Server]:
    """A server of its own, not by the command, which has no option for `read_s`."""
    file = folder / "reward.py"
    file.write_text(REWARD)
    with ready(start_in_python(f"{file}:reward", errors=subprocess.DEVNULL, token=TOKEN, **options)) as server:
        yield server
        assert server.process.poll() is None, "the server ended"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("serve"), max_body_mb=MAX_BODY / 2**20, read_s=READ_S, deadline_s=20) as found:
        yield found


@dataclass(frozen=True)
class Answer:
    """What came back before the server closed or fell silent; `status` is None if nothing did."""

    status: int | None
    head: str
    body: bytes
    seconds: float

    @property
    def detail(self) -> str:
        return str(json.loads(self.body)["detail"])


def talk(server: Server, *parts: bytes, pause_s: float = 0.0, patience_s: float = 15.0) -> Answer:
    """Send the parts, reading meanwhile, as a client that goes on sending whatever the server says; then read one answer."""
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=patience_s) as connection:

        def send() -> None:
            with suppress(OSError):
                for i, part in enumerate(parts):
                    if i and pause_s:
                        time.sleep(pause_s)
                    connection.sendall(part)

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        answer = receive(connection, start, patience_s)
    sending.join()
    return answer


def receive(connection: socket.socket, start: float, patience_s: float) -> Answer:
    """One answer, interim ones dropped. Fails if the server neither answers nor closes."""
    content, more = b"", True
    while more and not _is_whole(content):
        connection.settimeout(max(0.01, start + patience_s - time.monotonic()))
        try:
            more = bool(data := connection.recv(1 << 16))
        except TimeoutError:
            raise AssertionError(f"neither answered nor closed within {patience_s} s; so far {content[:200]!r}") from None
        except ConnectionError:
            break
        content += data
        if content.startswith(b"HTTP/1.1 100 "):
            content = content.partition(b"\r\n\r\n")[2]
    top, _, body = content.partition(b"\r\n\r\n")
    text = top.decode("latin-1").lower()
    return Answer(int(text.split()[1]) if text.startswith("http/") else None, text, body, time.monotonic() - start)


def _is_whole(content: bytes) -> bool:
    top, end, body = content.partition(b"\r\n\r\n")
    size = re.search(rb"(?i)content-length: *(\d+)", top)
    return bool(end) and size is not None and len(body) >= int(size[1])


def head(path: str = "/remote_rm", size: int | None = None, method: str = "POST", **headers: str) -> bytes:
    fields = {"host": "here", "authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    if size is not None:
        fields["content-length"] = str(size)
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items() if value), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def post(server: Server, body: bytes | Any, path: str = "/remote_rm", **headers: str) -> Answer:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return talk(server, head(path, len(sent), **headers), sent)


def check_clean(server: Server) -> None:
    answer = post(server, CLEAN)
    assert (answer.status, json.loads(answer.body)) == (200, 1.25)
    assert answer.seconds < 10


def clean_body(path: str) -> Any:
    row = {"completion": CLEAN["response"], "prompt": CLEAN["prompt"], "answer": CLEAN["label"]}
    return {
        "/get_reward": {"query": [CLEAN["prompt"] + CLEAN["response"]], "prompts": [CLEAN["prompt"]], "labels": [CLEAN["label"]]},
        "/score": row,
        "/score/batch": {"rollouts": [row]},
        "/remote_rm": CLEAN,
    }[path]


# -- who may ask


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"bearer{TOKEN}",
        TOKEN,
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "\xff\xfe",
    ],
)
@pytest.mark.parametrize("path", DOORS)
def test_without_the_token_nothing_is_scored(server: Server, path: str, authorization: str) -> None:
    answer = post(server, clean_body(path), path, authorization=authorization)
    assert answer.status == 401
    assert "www-authenticate: bearer" in answer.head
    assert "token" in answer.detail.lower()
    assert TOKEN not in answer.detail


@pytest.mark.parametrize(("method", "path"), [("GET", "/metrics"), ("GET", "/info"), ("POST", "/reload")])
def test_without_the_token_nothing_is_told(server: Server, method: str, path: str) -> None:
    assert talk(server, head(path, 0, method, authorization="")).status == 401
    assert talk(server, head(path, 0, method)).status == 200


def test_probes_need_no_token(server: Server) -> None:
    assert [talk(server, head(path, None, "GET", authorization="")).status for path in ("/healthz", "/readyz")] == [200, 200]


def test_the_refused_body_is_not_waited_for(server: Server) -> None:
    answer = talk(server, head(size=1000, authorization="Bearer wrong"), b"{")
    assert answer.status == 401
    assert answer.seconds < READ_S


# -- too much


@pytest.mark.parametrize("size", [MAX_BODY + 1, 1 << 40, 1 << 62])
def test_too_large_by_its_length_is_refused_unread(server: Server, size: int) -> None:
    answer = talk(server, head(size=size), b"{")
    assert answer.status == 413
    assert "--max-body-mb" in answer.detail
    assert answer.seconds < READ_S
    check_clean(server)


def test_too_large_by_its_length_can_read_why_while_it_sends(server: Server) -> None:
    body = b" " * (4 * MAX_BODY)
    answers = [talk(server, head(size=len(body)), body) for _ in range(5)]
    assert {answer.status for answer in answers} <= {413, None}
    assert any(answer.status == 413 for answer in answers)
    check_clean(server)


def test_too_large_in_chunks_is_refused_once_it_is(server: Server) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    answer = talk(server, head(transfer_encoding="chunked"), *[chunk] * 64, pause_s=0.005)
    assert answer.status in (413, None)
    assert answer.seconds < 10
    check_clean(server)


@pytest.mark.slow
def test_an_endless_body_in_chunks_is_cut(server: Server) -> None:
    answer = talk(server, head(transfer_encoding="chunked"), *[b"1\r\n \r\n"] * 200, pause_s=0.1, patience_s=READ_S + 10)
    assert answer.status in (408, None)
    assert answer.seconds < READ_S + 8


@pytest.mark.parametrize("extra", [{"x": "y" * 200_000}, {f"x{i}": "y" * 100 for i in range(3000)}], ids=["one", "many"])
def test_huge_heads_are_refused(server: Server, extra: dict[str, str]) -> None:
    answer = talk(server, head(size=2, **extra), b"{}")
    assert answer.status in (400, 431, None)
    check_clean(server)


# -- not HTTP


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"GET\r\n\r\n",
        b"\x00" * 1000 + b"\r\n\r\n",
        b"POST /remote_rm HTTP/9.9\r\nhost: x\r\n\r\n",
        b"POST /remote_rm HTTP/1.1\r\nhost: x\r\ncontent-length: abc\r\n\r\n",
        b"POST /remote_rm HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /remote_rm HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        b"POST /remote_rm HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        head(size=2, transfer_encoding="chunked") + b"0\r\n\r\n",
        head(transfer_encoding="chunked") + b"zz\r\n{}\r\n0\r\n\r\n",
        head(transfer_encoding="chunked") + b"ffffffffffffffffff\r\n{}",
        b"POST /remote_rm HTTP/1.1\r\nhost x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_or_dropped(server: Server, sent: bytes) -> None:
    answer = talk(server, sent, patience_s=READ_S + 10)
    assert answer.status is None or 400 <= answer.status < 500
    check_clean(server)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content_type": ""}, 415),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
        ({"content_type": "application/json; charset=utf-16"}, 415),
        ({"content_encoding": "gzip"}, 415),
        ({"content_type": "application/json; charset=utf-8"}, 200),
        ({"expect": "100-continue"}, 200),
    ],
)
def test_only_plain_json_is_read(server: Server, headers: dict[str, str], status: int) -> None:
    body = json.dumps(CLEAN).encode()
    assert talk(server, head(size=len(body), **headers), body).status == status


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", DOORS)
def test_other_methods_are_refused(server: Server, path: str, method: str) -> None:
    assert talk(server, head(path, 0, method, connection="close")).status in (400, 405)


@pytest.mark.parametrize("path", ["/", "/nothing", "/score/", "//score", "/../etc/passwd", "/%2e%2e/", "/score%00", "/" + "a" * 5000])
def test_other_paths_are_refused(server: Server, path: str) -> None:
    answer = post(server, clean_body("/score"), path)
    assert answer.status is not None
    assert 300 <= answer.status < 500


# -- not what was asked for

NOT_READABLE: dict[str, bytes] = {
    "empty": b"",
    "cut": b'{"query": ["a',
    "prose": b"not json",
    "not utf-8": b'{"prompt": "\xff\xfe"}',
    "utf-16": json.dumps(CLEAN).encode("utf-16"),
    "two values": b"{} {}",
    "nan": b"NaN",
    "number": b"5",
    "text": b'"text"',
    "null": b"null",
    "list": b"[]",
    "object": b"{}",
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"a":' * 150_000,
    "huge integer": b"9" * 500_000,
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("name", NOT_READABLE)
@pytest.mark.parametrize("path", DOORS)
def test_what_cannot_be_read_is_refused_with_a_reason(server: Server, path: str, name: str) -> None:
    answer = post(server, NOT_READABLE[name], path)
    assert answer.status in (400, 422)
    assert answer.detail
    assert answer.seconds < 10


WRONG: list[tuple[str, Any]] = [
    ("/get_reward", {"query": ["a", "b"], "prompts": ["p"], "labels": ["4"]}),
    ("/get_reward", {"query": ["a"], "prompts": ["a", "b"], "labels": ["4"]}),
    ("/get_reward", {"prompts": ["p"], "labels": ["4"]}),
    ("/score", {"completion": 5}),
    ("/score", {"completion": ["4"]}),
    ("/score", {"completion": None}),
    ("/score", {"completion": "4", "columns": []}),
    ("/score", {"completion": "4", "num_tokens": "many"}),
    ("/score", {"completion": "4", "num_tokens": -1}),
    ("/score", {"completion": "4", "num_tokens": 10**400}),
    ("/score", {"completion": "4", "num_tokens": 1.5}),
    ("/score", {"completion": "4", "num_tokens": True}),
    ("/score", {"completion": "4", "truncated": "no"}),
    ("/score", {"completion": "4", "token_ids": ["a"]}),
    ("/score", {"completion": "4", "token_ids": 5}),
    ("/score", {"completion": "4", "group": {"a": 1}}),
    ("/score", {"completion": "4", "id": 5}),
    ("/score", {"completion": "4", "prompt": 5}),
    ("/score", {"completion": "4", "prompt": [5]}),
    ("/score", {"messages": "text"}),
    ("/score", {"messages": [5]}),
    ("/score", {"messages": [{"content": "no role"}]}),
    ("/score", {"messages": [{"role": "assistant", "content": 5}]}),
    ("/score", {"messages": [{"role": "assistant", "tool_calls": 5}]}),
    ("/score/batch", {"rollouts": 5}),
    ("/score/batch", {"rollouts": [5]}),
    ("/score/batch", {"rollouts": [{"completion": "4", "answer": "4"}, {"completion": 5}]}),
    ("/score/batch", {"rollouts": [{"completion": "4"}] * 20_000}),
    ("/remote_rm", {"prompt": "p", "response": 5, "label": "4"}),
    ("/remote_rm", {"prompt": {"a": 1}, "response": "4", "label": "4"}),
    ("/remote_rm?detail=maybe", CLEAN),
]


@pytest.mark.parametrize(("path", "body"), WRONG, ids=[f"{path} {json.dumps(body)[:50]}" for path, body in WRONG])
def test_wrong_types_are_refused_with_a_reason(server: Server, path: str, body: Any) -> None:
    answer = post(server, body, path)
    assert answer.status in (413, 422)
    assert answer.detail


@pytest.mark.parametrize("query", [5, 0, None, {"a": 1}, ["p\\boxed{4}"]], ids=str)
def test_openrlhf_rows_of_wrong_types_are_counted_and_harm_no_other(server: Server, query: Any) -> None:
    """Its client would ask four times more after a refusal, and then crash the trainer."""
    answer = post(server, {"query": [query, "p\\boxed{4}"], "prompts": ["p", "p"], "labels": ["4", "4"]}, "/get_reward")
    assert answer.status == 200
    found = json.loads(answer.body)
    assert found["rewards"] == [0.0, 1.25]
    assert found["extra_logs"]["guerdon/abstained"] == found["extra_logs"]["guerdon/rows/error"] == [1.0, 0.0]


STRANGE: dict[str, Any] = {
    "lone surrogate": "\ud800 \\boxed{4}\udfff",
    "nul": "\x00\\boxed{4}",
    "bidi": "\u202e\\boxed{4}",
    "tower": "\\boxed{9^{9^{9^9}}}",
    "digits": "\\boxed{" + "9" * 200_000 + "}",
    "braces": "\\boxed{" * 30_000,
    "fractions": "\\boxed{" + "\\frac{1}{" * 3000 + "2" + "}" * 3001,
    "long": "a" * 900_000,
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_completions_get_a_finite_reward(server: Server, name: str) -> None:
    answer = post(
        server, {"rollouts": [{"completion": STRANGE[name], "answer": "4"}, {"completion": "\\boxed{4}", "answer": "4"}]}, "/score/batch"
    )
    assert answer.status == 200
    strange, plain = json.loads(answer.body)["results"]
    assert plain["reward"] == 1.25
    assert strange["abstained"] is (strange["reward"] is None)
    assert strange["reward"] is None or 0 <= strange["reward"] <= 1.25


LABELS: dict[str, bytes] = {
    "surrogate": b'"\\ud800"',
    "infinite": b"1e999",
    "large": b"9" * 4000,
    "deep": b"[" * 400 + b"]" * 400,
    "object": b'{"answer": {"any_of": [[[]]]}}',
    "json": json.dumps("{" * 1000).encode(),
    "bool": b"true",
    "null": b"null",
}


@pytest.mark.parametrize("name", LABELS)
def test_strange_labels_abstain_or_score_and_stay_finite(server: Server, name: str) -> None:
    body = b'{"query": ["p\\\\boxed{4}"], "prompts": ["p"], "labels": [%s]}' % LABELS[name]
    answer = post(server, body, "/get_reward")
    assert answer.status == 200
    found = json.loads(answer.body, parse_constant=pytest.fail)
    assert isinstance(found["rewards"][0], float)
    assert isinstance(found["scores"][0], float)
    if not found["extra_logs"]["guerdon/abstained"][0]:
        assert found["extra_logs"]["guerdon/rows/error"] == [0.0]


def test_nan_is_refused_where_it_would_be_an_answer(server: Server) -> None:
    answer = post(server, b'{"completion": "4", "answer": NaN}', "/score")
    assert answer.status == 400


# -- too slow, or gone


@pytest.mark.slow
@pytest.mark.parametrize("where", ["head", "body"])
def test_slow_loris_is_cut_and_holds_up_nobody(server: Server, where: str) -> None:
    body = json.dumps(CLEAN).encode()
    whole = head(size=len(body)) + body
    fast = len(whole) - len(body) if where == "body" else 10
    parts = [whole[:fast], *(bytes([byte]) for byte in whole[fast:])]
    with ThreadPoolExecutor(64) as pool:
        loris = [pool.submit(talk, server, *parts, pause_s=0.5, patience_s=READ_S + 15) for _ in range(60)]
        end = time.monotonic() + READ_S
        while time.monotonic() < end:
            check_clean(server)
            time.sleep(0.05)
        answers = [future.result() for future in loris]
    assert {answer.status for answer in answers} <= {408, None}
    assert any(answer.status == 408 for answer in answers)
    assert max(answer.seconds for answer in answers) < READ_S + 8


def _closed(connection: socket.socket) -> bool:
    """Whether the server closes it within the connection's timeout, whatever it says before."""
    try:
        while connection.recv(1000):
            pass
    except TimeoutError:
        return False
    return True


@pytest.mark.slow
def test_connections_that_say_nothing_are_closed(server: Server) -> None:
    connections = [socket.create_connection(("127.0.0.1", server.port), timeout=READ_S + 12) for _ in range(100)]
    try:
        check_clean(server)
        assert all(_closed(connection) for connection in connections)
    finally:
        for connection in connections:
            connection.close()


def test_clients_that_go_away_leave_nothing_behind(server: Server) -> None:
    body = json.dumps({"rollouts": [{"completion": f"\\boxed{{{i}}}", "answer": "4"} for i in range(200)]}).encode()
    for cut in (10, len(body) // 2, len(body)):
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(head("/score/batch", len(body)) + body[:cut])
    check_clean(server)
    end = time.monotonic() + 15
    while queued(server) and time.monotonic() < end:
        time.sleep(0.1)
    assert queued(server) == 0


def queued(server: Server) -> float:
    """Requests that the server says are waiting or being scored."""
    page = talk(server, head("/metrics", None, "GET", connection="close")).body.decode()
    found = [float(line.split()[-1]) for line in page.splitlines() if line.startswith(("guerdon_requests_in_flight ", "guerdon_queue_"))]
    assert len(found) == 3
    return sum(found)


def test_a_client_that_never_reads_holds_up_nobody(server: Server) -> None:
    body = json.dumps({"rollouts": [{"completion": "\\boxed{4}", "answer": "4"}] * 100}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(1)
        with suppress(TimeoutError, OSError):
            for _ in range(300):  # pipelined: 300 answers of 20 kB that nobody takes
                connection.sendall(head("/score/batch", len(body)) + body)
        for _ in range(5):
            check_clean(server)


# -- whatever the document allows


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_what_the_document_allows_and_what_not_meets_no_error_of_the_server_and_no_hang(server: Server, mode: str) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, given, settings
    from hypothesis.errors import Unsatisfiable
    from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{server.port}/openapi.json")
    asked: set[str] = set()

    def check(case: Any) -> None:
        asked.add(case.path)
        response = case.call(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=15)
        assert response.status_code < 500
        # No schema says that lists are of one length; OpenRLHF's rows are counted, not refused; chats are read leniently.
        case.validate_response(response, excluded_checks=[positive_data_acceptance, negative_data_rejection])

    few = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    for operation in (found.ok() for found in schema.get_all_operations()):
        with suppress(Unsatisfiable):  # nothing can be wrong about a request without parameters
            few(given(operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode]))(check))()
    assert set(DOORS) <= asked
    check_clean(server)
