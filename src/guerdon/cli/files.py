"""Files in and out: rows from JSONL, gzip, Parquet or stdin, one at a time; output that is whole or absent.

Nothing here knows what a row means. A row that cannot be read is yielded as such: the caller counts or refuses it.
"""

from __future__ import annotations

import contextlib
import difflib
import gzip
import io
import json
import os
import signal
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from guerdon.backends.rows import Row
from guerdon.errors import ConfigError, DataError, MissingExtra

__all__ = ["BadRow", "Row", "Source", "check_output", "writing"]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A line that is not a JSON object, and why."""

    line: int
    why: str


class Source:
    """A file of rows, or stdin (`-`). What it holds is told by its first bytes: gzip and Parquet need no suffix."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.label = "stdin" if path == "-" else path
        if path != "-" and Path(path).is_dir():
            raise DataError(f"{path}: is a directory; name a file of rows (JSONL, .gz or Parquet), or - for stdin")
        if path != "-" and not Path(path).exists():
            raise DataError(_missing(Path(path)))
        if Path(path).suffix.lower() in _NOT_READ:
            raise DataError(f"{path}: {Path(path).suffix} files are not read, {_READ} are; {_CONVERT}")
        if path == "-" and sys.stdin is None:
            raise DataError("stdin is closed: name a file of rows")
        self._raw: BinaryIO = _peekable(sys.stdin.buffer if path == "-" else Path(path).open("rb"))  # noqa: SIM115  closed by close()
        self.size = None if path == "-" else os.fstat(self._raw.fileno()).st_size or None

    def close(self) -> None:
        """Close the file; stdin stays open."""
        if self.path != "-":
            self._raw.close()

    def position(self) -> int:
        """Bytes read so far, for progress; 0 where there is no size to compare with."""
        return self._raw.tell() if self.size else 0

    def rows(self) -> Iterator[Row | BadRow]:
        """Every row in order; blank lines are skipped. Raises DataError when the file itself is damaged."""
        magic = self._raw.peek(4)[:4]  # type: ignore[attr-defined]
        if magic == b"PAR1":
            yield from self._parquet_rows()
            return
        # one byte tells: no text begins with it, and a slow pipe may not have given more yet
        stream = gzip.GzipFile(fileobj=self._raw) if magic[:1] == b"\x1f" else self._raw
        number = 0
        try:
            for number, line in enumerate(stream, 1):
                if not line.isspace():
                    yield _parse(number, line)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{self.label}: damaged gzip file after line {number} ({error}); copy or compress it again") from None

    def _parquet_rows(self) -> Iterator[Row | BadRow]:
        if self.path == "-":
            raise DataError("stdin holds Parquet, which cannot be read from a pipe: name the file")
        try:
            import pyarrow
            import pyarrow.parquet as parquet
        except ImportError:
            raise MissingExtra(f"{self.label}: reading Parquet needs pyarrow: pip install 'guerdon[datasets]'") from None
        self.size = None  # another handle reads: no position to follow
        number = 0
        try:
            with parquet.ParquetFile(self.path) as file:
                for batch in file.iter_batches(batch_size=1024):
                    for data in batch.to_pylist():
                        number += 1
                        yield Row(number, data)
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(f"{self.label}: damaged Parquet file after row {number} ({error})") from None


_READ = "JSONL, gzipped JSONL and Parquet"
_NOT_READ = frozenset({".csv", ".tsv", ".xls", ".xlsx", ".arrow", ".feather", ".pkl", ".zip", ".zst", ".bz2", ".xz"})
_CONVERT = "write its rows as JSONL, one JSON object a line (pandas: frame.to_json('rows.jsonl', orient='records', lines=True))"


def _missing(path: Path) -> str:
    """A message for a file that is not there: where it was looked for, and one beside it with a similar name."""
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"{path}: no such file: there is no directory {folder}"
    with contextlib.suppress(OSError):  # a folder that may not be listed
        near = difflib.get_close_matches(path.name, [other.name for other in folder.iterdir()], 1)
        if near:
            return f"{path}: no such file in {folder}; did you mean {str(path.with_name(near[0]))!r}?"
    return f"{path}: no such file in {folder}; name it from the working directory, or by its whole path"


def _peekable(stream: Any) -> BinaryIO:
    found: BinaryIO = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    return found


_ARRAY = "a JSON array, not one object a line; jq -c '.[]' turns it into JSONL"


def _parse(number: int, line: bytes) -> Row | BadRow:
    try:
        text = line.decode().rstrip(" \t\r\n")  # without its end: at a missing bracket the parser would count from the next line
        data = json.loads(text.removeprefix("\ufeff") if number == 1 else text)
    except UnicodeDecodeError as error:
        return BadRow(number, f"not UTF-8 ({error.reason} at byte {error.start})")
    except json.JSONDecodeError as error:
        if number == 1 and line.lstrip()[:1] == b"[":
            return BadRow(1, _ARRAY)
        end = ", the end of the line" if error.pos >= len(error.doc) else ""
        return BadRow(number, f"not JSON ({error.msg} at column {error.colno}{end}); write one object a line")
    except (ValueError, RecursionError) as error:  # an integer of more than 4,300 digits; nesting beyond the recursion limit
        return BadRow(number, f"not readable as JSON ({error})")
    if not isinstance(data, dict):
        array = number == 1 and isinstance(data, list)
        return BadRow(number, _ARRAY if array else f"expected a JSON object, got {type(data).__name__}; write one object a line")
    return Row(number, data)


def check_output(output: str | None, *inputs: str) -> None:
    """Refuse an output that is an input, a directory, in no directory, or of a kind that is not written."""
    if output in (None, "-"):
        return
    path = Path(output)
    if path.is_dir():
        raise ConfigError(f"{output}: is a directory; name a file with -o")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"{output}: no such directory: {path.absolute().parent}; create it first")
    if path.suffix == ".parquet":
        raise ConfigError(f"{output}: Parquet is read, not written; name a .jsonl or .jsonl.gz file with -o")
    for source in inputs:
        if path.exists() and _same(path, source):
            raise ConfigError(f"{output}: is also the input and would be overwritten; name another file with -o")


def _same(path: Path, source: str) -> bool:
    if source == "-":  # the shell may have made it a file
        try:
            return path.is_file() and os.path.samestat(path.stat(), os.fstat(sys.stdin.fileno()))
        except (AttributeError, OSError, ValueError):  # closed, or no file at all
            return False
    return Path(source).exists() and path.samefile(source)


@contextlib.contextmanager
def writing(output: str | None) -> Iterator[Callable[[str], object]]:
    """A function that writes text to `output`: a file, `-` for stdout, None for nowhere. `.gz` is compressed.

    A file appears under its name only when the block ends well: until then it is a hidden file beside it, removed on any
    other exit (but SIGKILL). Devices and named pipes are written as they are.
    """
    if output is None:
        yield lambda text: None
    elif output == "-":
        if sys.stdout is None:
            raise ConfigError("-o -: stdout is closed; name a file with -o")
        stream = sys.stdout.buffer
        yield lambda text: stream.write(text.encode())
        stream.flush()
    elif Path(output).exists() and not Path(output).is_file():
        with Path(output).open("wb") as device:
            yield lambda text: device.write(text.encode())
    else:
        with _replacing(Path(output).resolve()) as file:
            yield lambda text: file.write(text.encode())


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    with _terminable():
        try:
            opened = temporary.open("xb")
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written: {error.strerror}; name another file with -o") from None
        try:
            with opened as raw:
                with gzip.GzipFile(path.name, "wb", 6, raw, mtime=0) if path.suffix == ".gz" else contextlib.nullcontext(raw) as file:
                    yield file  # type: ignore[misc]
                raw.flush()
                os.fsync(raw.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM unwinds the stack while a temporary file exists; by default it would leave the file behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
