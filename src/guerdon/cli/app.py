"""The root command, and the one place that turns what went wrong into one line and an exit code.

0 done (also when the reader of stdout went away), 2 wrong input or arguments, 130 interrupted. Anything else that is
raised is a fault of guerdon and keeps its traceback.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import click

from guerdon import __version__
from guerdon.cli.audit import audit
from guerdon.cli.audit_math import answers, pairs
from guerdon.cli.demo import demo
from guerdon.cli.doctor import doctor
from guerdon.cli.filter import filter_
from guerdon.cli.groups import one_line
from guerdon.cli.recipes import recipes
from guerdon.cli.score import score
from guerdon.errors import GuerdonError

__all__ = ["main"]


class OneLineGroup(click.Group):
    """A group whose failures are one line on stderr."""

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


for _command in (answers, pairs):
    audit.add_command(_command)
for _command in (demo, score, filter_, recipes, audit, doctor):
    main.add_command(_command)
