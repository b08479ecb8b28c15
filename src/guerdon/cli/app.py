"""The root command, and the one place that turns what went wrong into one line and an exit code.

0 done (also when the reader of stdout went away), 2 wrong input or arguments, 130 interrupted. Anything else that is
raised is a fault of guerdon and keeps its traceback.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import click

from guerdon import __version__
from guerdon.cli.groups import one_line
from guerdon.errors import GuerdonError

__all__ = ["main"]


_COMMANDS = ("audit", "demo", "doctor", "filter", "recipes", "score", "serve")
"""Each in the module of its name, imported when it is asked for: all of them together cost 30 ms."""


class OneLineGroup(click.Group):
    """A group whose commands are imported on demand, and whose failures are one line on stderr."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"guerdon.cli.{cmd_name}")
        command: click.Command = getattr(module, "filter_" if cmd_name == "filter" else cmd_name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], _COMMANDS, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"The commands are {', '.join(_COMMANDS)}."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        extra["standalone_mode"] = False  # click then raises, and returns exit codes, instead of printing and exiting
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            try:
                code = super().main(args, prog_name or "guerdon", **extra)
            except click.UsageError as error:
                where = error.ctx.command_path if error.ctx else "guerdon"
                code = _fail(f"{where}: {error.format_message()} (see {where} --help)")
            except click.ClickException as error:
                code = _fail(f"guerdon: {error.format_message()}")
            except GuerdonError as error:
                code = _fail(f"guerdon: {error}")
            except click.Abort:
                code = _fail("guerdon: interrupted; no file was written", 130)
            except OSError as error:
                code = _fail(f"guerdon: {_describe(error)}")
        sys.exit(code)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _pipe_may_close():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _pipe_may_close():
            return super().invoke(ctx)


@contextlib.contextmanager
def _pipe_may_close() -> Iterator[None]:
    """A reader of stdout that has gone away (`| head`) ends the command, and is no failure. click would exit with 1."""
    try:
        yield
    except BrokenPipeError:
        with contextlib.suppress(OSError, ValueError):  # what is still buffered goes nowhere, or the interpreter complains as it exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None


def _fail(message: str, code: int = 2) -> int:
    click.echo(one_line(message), err=True)
    return code


def _describe(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)


def _show_warning(message: Warning | str, *_: Any) -> None:
    click.echo(f"guerdon: warning: {one_line(str(message))}", err=True)


@click.group(cls=OneLineGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="guerdon", message="%(prog)s %(version)s")
def main() -> None:
    """Verifiable rewards for LLM reinforcement learning."""
