"""The options of `guerdon serve`. What it does once it runs is tested where the server is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

pytest.importorskip("fastapi")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--host", "0.0.0.0"], "set a token"),
        (["--on-abstain", "drop"], "null or fill:NUMBER"),
        (["--on-abstain", "fill:x"], "null or fill:NUMBER"),
        (["--on-abstain", "fill:nan"], "finite"),
        (["--on-abstain", "fill:1e300"], "1e18"),
        (["--token", ""], "empty"),
        (["--token-file", "/nowhere/token"], "/nowhere/token"),
        (["--port", "70000"], "65535"),
        (["--workers", "0"], "--workers"),
        (["--timeout", "0"], "--timeout"),
    ],
)
def test_options_that_cannot_work_are_one_line(refused: Callable[..., str], files: Any, options: list[str], says: str) -> None:
    assert says in refused("serve", files.reward(), *options)


def test_an_empty_token_file_is_refused(refused: Callable[..., str], files: Any) -> None:
    (files.folder / "token").write_text("\n")
    assert "is empty" in refused("serve", files.reward(), "--host", "0.0.0.0", "--token-file", str(files.folder / "token"))


def test_check_says_what_the_reward_is(guerdon: Callable[..., Result], files: Any) -> None:
    result = guerdon("serve", files.reward("counted"), "--check")
    assert result.exit_code == 0
    assert "1 * right + 1 * soft_overlong; outcome: right; reads: answer, num_tokens" in result.stdout
    assert "/get_reward will refuse: soft_overlong reads 'num_tokens'" in result.stdout


def test_check_of_what_is_no_reward_is_one_line(refused: Callable[..., str], files: Any) -> None:
    assert "expected a reward" in refused("serve", files.reward("text"), "--check")


def test_a_missing_extra_names_the_pip_line(refused: Callable[..., str], files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "uvicorn" else real(name, *rest))
    assert "pip install 'guerdon[serve]'" in refused("serve", files.reward())


def test_an_address_in_use_is_one_line(refused: Callable[..., str], files: Any) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "cannot listen" in refused("serve", files.reward(), "--port", str(taken.getsockname()[1]))
