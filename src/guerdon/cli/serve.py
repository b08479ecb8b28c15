"""`guerdon serve`: a reward behind HTTP, for trainers on other machines or in other languages.

Reads options and hands them to `guerdon.backends.serve`; nothing is served or scored here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from guerdon.cli.scoring import in_range
from guerdon.errors import ConfigError

__all__ = ["serve"]

_COUNT, _ABOVE_0 = in_range(click.IntRange(min=1)), in_range(click.FloatRange(min=0, min_open=True))
_LEVELS = click.Choice(["critical", "error", "warning", "info", "debug"])


@click.command()
@click.argument("reward", metavar="FILE.py:NAME")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen at; beyond loopback, set a token.")
@click.option("--port", type=in_range(click.IntRange(0, 65535)), default=8000, show_default=True, metavar="PORT", help="0: any free port.")
@click.option("--workers", type=_COUNT, metavar="N", help="Scoring processes of each front.  [default: the usable CPUs]")
@click.option("--processes", type=_COUNT, default=1, show_default=True, metavar="P", help="Front processes that share the port.")
@click.option("--batch-size", type=_COUNT, default=64, show_default=True, metavar="ROWS", help="Most rows scored in one call.")
@click.option("--batch-wait-ms", type=in_range(click.FloatRange(0, 1000)), default=2.0, show_default=True, metavar="MS",
              help="How long the first row of a batch waits for others.")  # fmt: skip
@click.option("--timeout", type=_ABOVE_0, metavar="S", help="Seconds that scoring one row may take, queueing apart.  [default: the terms']")
@click.option("--deadline", type=_ABOVE_0, default=60.0, show_default=True, metavar="S", help="Seconds that a request may take in all.")
@click.option("--max-body-mb", type=_ABOVE_0, default=8.0, show_default=True, metavar="MB", help="Largest request body.")
@click.option("--max-queue", type=_COUNT, default=16384, show_default=True, metavar="ROWS", help="Rows waiting before requests get 429.")
@click.option("--on-abstain", metavar="null|fill:VALUE", help="What /score gives to rows without a reward.  [default: null; elsewhere 0]")
@click.option("--token", metavar="TOKEN", envvar="GUERDON_TOKEN", show_envvar=True, help="Bearer token asked of clients; others see argv.")
@click.option("--token-file", metavar="FILE", help="A file that holds the token.")
@click.option("--log-level", type=_LEVELS, default="info", show_default=True)
@click.option("--check", "check_only", is_flag=True, help="Load the reward, say what it is, and exit.")
def serve(
    reward: str, on_abstain: str | None, token: str | None, token_file: str | None, check_only: bool, timeout: float | None,
    deadline: float, **options: Any,
) -> int:  # fmt: skip
    """Serve a reward over HTTP: /get_reward for OpenRLHF, /score and /score/batch as JSON, /remote_rm for slime.

    Once it is ready, one line says where. The first SIGTERM or Ctrl-C finishes what is in flight, a second one does not.

    \b
      guerdon serve my_reward.py:reward
      guerdon serve my_reward.py:reward --port 0 --timeout 2 --workers 8
      guerdon serve my_reward.py:reward --host 0.0.0.0 --token-file token.txt
    """
    from guerdon.backends.serve import Settings
    from guerdon.backends.serve import serve as run
    from guerdon.backends.serve.run import check

    settings = Settings(
        reward, token=_token(token, token_file), fill=_fill(on_abstain), timeout_s=timeout, deadline_s=deadline, **options
    )  # fmt: skip
    if check_only:
        _describe(reward, check(settings))
        return 0
    return run(settings, lambda line: click.echo(line))


def _token(token: str | None, path: str | None) -> str | None:
    if path is None:
        if token == "":
            raise ConfigError("--token: it is empty; name one, or leave the option out to serve without")
        return token
    try:
        text = Path(path).read_text("utf-8").strip()
    except UnicodeDecodeError:
        raise ConfigError(f"--token-file {path}: expected text") from None
    if not text:
        raise ConfigError(f"--token-file {path}: the file is empty; write the token into it")
    return text


def _fill(text: str | None) -> float | None:
    if text in (None, "null"):
        return None
    kind, _, value = text.partition(":") if text else ("", "", "")
    try:
        if kind == "fill":
            return float(value)
    except ValueError:
        pass
    raise ConfigError(f"--on-abstain {text}: expected null or fill:NUMBER, e.g. fill:0")


def _describe(spec: str, info: dict[str, Any]) -> None:
    terms = " + ".join(f"{weight:g} * {name}" for name, weight in info["components"].items())
    click.echo(f"{spec}: {info['name']} = {terms}; outcome: {info['outcome'] or 'none'}; reads: {', '.join(info['reads']) or 'nothing'}")
    for path, why in info["refused"].items():
        click.echo(f"{path} will refuse: {why}")
