"""The HTTP face of the server, without processes: who may come in, with what, and what is said of the state it is in."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from guerdon.backends.serve.app import Front
from guerdon.backends.serve.doors import DOORS
from guerdon.backends.serve.settings import Settings, require_extra
from guerdon.errors import ConfigError, MissingExtra

SETTINGS = Settings("nowhere:reward", max_body_mb=0.001)
JSON = {"content-type": "application/json"}


def asked(settings: Settings, *requests: dict[str, Any], before: Callable[[Front], Any] = lambda front: None) -> list[httpx.Response]:
    """The answers of a front whose dispatcher gives every request the answer `1`."""

    async def main() -> list[httpx.Response]:
        front = Front(settings)
        seen: list[bytes] = []

        def submit(door: str, body: bytes) -> asyncio.Future[tuple[int, bytes]]:
            seen.append(body)
            future: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
            future.set_result((200, b"1"))
            return future

        front.dispatcher.submit = submit  # type: ignore[assignment, method-assign]
        front.state.ready = True
        front.seen = seen  # type: ignore[attr-defined]
        before(front)
        transport = httpx.ASGITransport(app=front.app)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return [await client.request(**{"method": "POST", "url": "/score", "headers": JSON, **request}) for request in requests]

    return asyncio.run(main())


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"content": b"{}"}, 200),
        ({"content": b"{}", "headers": {"content-type": "application/json; charset=UTF-8"}}, 200),
        ({"content": b"{}", "headers": {"content-type": "application/json; charset=latin-1"}}, 415),
        ({"content": b"{}", "headers": {"content-type": "text/plain"}}, 415),
        ({"content": b"{}", "headers": {}}, 415),
        ({"content": b"{}", "headers": {**JSON, "content-encoding": "gzip"}}, 415),
        ({"content": b" " * 2000}, 413),
        ({"method": "GET"}, 405),
        ({"method": "PUT", "content": b"{}"}, 405),
        ({"method": "OPTIONS"}, 405),
    ],
)
def test_a_door_takes_json_by_post_and_refuses_all_else_clearly(door: str, request_: dict[str, Any], status: int) -> None:
    [answer] = asked(SETTINGS, {"url": door, **request_})
    assert answer.status_code == status
    assert status == 200 or answer.json()["detail"]
    assert status != 405 or answer.headers["allow"] == "POST"


def test_a_body_without_a_length_is_cut_off_at_the_limit() -> None:
    async def endless() -> Any:
        for _ in range(100):
            yield b" " * 500

    [answer] = asked(SETTINGS, {"content": endless()})
    assert answer.status_code == 413


TOKEN = dataclasses.replace(SETTINGS, token="s3cret")


@pytest.mark.parametrize("path", ["/score", "/score/batch", "/get_reward", "/remote_rm", "/metrics", "/info", "/reload", "/nowhere"])
@pytest.mark.parametrize("value", [None, "Bearer wrong", "s3cret", "bearer s3cret", "Bearer s3cret ", "Bearer \u00e4"])
def test_without_the_token_everything_but_probes_is_401(path: str, value: str | None) -> None:
    headers = JSON if value is None else {**JSON, "authorization": value.encode()}  # type: ignore[dict-item]
    [answer] = asked(TOKEN, {"url": path, "headers": headers, "content": b"{}"})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_with_the_token_it_is_let_in() -> None:
    [answer] = asked(TOKEN, {"headers": {**JSON, "authorization": "Bearer s3cret"}, "content": b"{}"})
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs"])
def test_probes_and_the_document_need_no_token(path: str) -> None:
    [answer] = asked(TOKEN, {"method": "GET", "url": path})
    assert answer.status_code in (200, 503)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nowhere", 404), ("POST", "/healthz", 405), ("GET", "/reload", 405)])
def test_other_paths_and_methods_are_404_and_405(method: str, path: str, status: int) -> None:
    [answer] = asked(SETTINGS, {"method": method, "url": path})
    assert (answer.status_code, "detail" in answer.json()) == (status, True)


def test_ready_follows_the_state_and_alive_does_not() -> None:
    def starting(front: Front) -> None:
        front.state.ready = False

    def draining(front: Front) -> None:
        front.state.draining = True

    look = [{"method": "GET", "url": path} for path in ("/readyz", "/healthz", "/info")]
    assert [a.status_code for a in asked(SETTINGS, *look, before=starting)] == [503, 200, 503]
    stopping = asked(SETTINGS, *look[:2], {"content": b"{}"}, before=draining)
    assert [a.status_code for a in stopping] == [503, 200, 503]
    assert stopping[2].headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("query", "door"), [("", "remote_rm"), ("?detail=0", "remote_rm"), ("?detail=1", "remote_rm_detail"), ("?x=1", "remote_rm")]
)
def test_slime_chooses_the_form_of_its_answer(query: str, door: str) -> None:
    doors: list[str] = []

    def listen(front: Front) -> None:
        inner = front.dispatcher.submit
        front.dispatcher.submit = lambda door, body: (doors.append(door), inner(door, body))[1]  # type: ignore[method-assign, func-returns-value]

    asked(SETTINGS, {"url": f"/remote_rm{query}", "content": b"{}"}, before=listen)
    assert doors == [door]


def test_an_unclear_form_is_refused() -> None:
    [answer] = asked(SETTINGS, {"url": "/remote_rm?detail=maybe", "content": b"{}"})
    assert answer.status_code == 422


def test_every_request_to_a_door_is_timed() -> None:
    scored, refused, metrics = asked(SETTINGS, {"content": b"{}"}, {"method": "GET"}, {"method": "GET", "url": "/metrics"})
    assert (scored.status_code, refused.status_code) == (200, 405)
    for code in ("200", "405"):
        assert f'guerdon_request_seconds_count{{code="{code}",path="/score"}} 1.0' in metrics.text


def test_the_document_describes_every_door_and_is_sound() -> None:
    [answer] = asked(SETTINGS, {"method": "GET", "url": "/openapi.json"})
    document = answer.json()
    assert set(DOORS) <= set(document["paths"])

    def descend(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                assert node["$ref"].rpartition("/")[2] in document["components"]["schemas"]
            for value in node.values():
                descend(value)
        elif isinstance(node, list):
            for value in node:
                descend(value)

    descend(document)
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        for field, found in schema.get("properties", {}).items():
            assert "description" in found or "$ref" in found or "items" in found, f"{name}.{field}"


# -- settings


@pytest.mark.parametrize(
    "options",
    [
        {"host": "0.0.0.0"},
        {"host": "::"},
        {"host": "no such host"},
        {"token": "with blank"},
        {"token": ""},
        {"token": "ä"},
        {"port": -1},
        {"workers": 0},
        {"processes": 0},
        {"timeout_s": 0.0},
        {"deadline_s": float("inf")},
        {"deadline_s": None},
        {"batch_wait_ms": -1},
        {"fill": float("nan")},
        {"log_level": "loud"},
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Settings("my.py:reward", **options)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_loopback_needs_no_token(host: str) -> None:
    assert Settings("my.py:reward", host=host).token is None


def test_settings_cross_processes() -> None:
    settings = dataclasses.replace(TOKEN, host="0.0.0.0", fill=-1.0)
    assert Settings.from_json(settings.to_json()) == settings


def test_a_missing_extra_names_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "fastapi" else real(name, *rest))
    with pytest.raises(MissingExtra, match=r"pip install 'guerdon\[serve\]'"):
        require_extra()
